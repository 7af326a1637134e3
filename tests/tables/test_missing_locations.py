"""Locations where no table lies: the error says where it looked, and what to write instead."""

import pathlib
import re

import pandas as pd
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import skipstone as ss


def test_a_relative_path_is_shown_with_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = f"lake/t does not exist in {re.escape(str(tmp_path))}; expected"
    with pytest.raises(ss.SourceError, match=message):
        ss.scan("lake/t")
    with pytest.raises(ss.SourceError, match="lake/t does not exist; expected"):
        ss.scan_parquet("lake/t", filesystem=pafs.SubTreeFileSystem("/", pafs.LocalFileSystem()))


#    where              message
NAMES = [
    ("s3:/bucket/t",    "does not exist.*; expected two slashes after s3:"),
    (pathlib.Path("s3://b/t"), "does not exist.*; expected the URI as text, as pathlib drops"),
    ("dbfs:/mnt/t",     "expected the path below /dbfs, where Databricks mounts dbfs:/"),
]  # fmt: skip


@pytest.mark.parametrize("where, message", NAMES)
def test_malformed_uris(where, message):
    with pytest.raises(ss.SourceError, match=message):
        ss.scan(where)


def test_a_name_of_a_catalog_without_the_catalog():
    with pytest.raises(ss.SourceError, match="for a table's name, give catalog="):
        ss.scan_iceberg("db.events")


def test_rows_in_memory_are_no_location():
    for rows in (pa.table({"x": [1]}), pd.DataFrame({"x": [1]})):
        with pytest.raises(ss.SourceError, match="rows in memory need no scan: write them to"):
            ss.scan(rows)
