"""Locations where no table lies: the error says where it looked, and what to write instead."""

import pathlib
import re
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

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
    ("/no/k={1,2}/*",   r"expected a list of paths or globs, as a glob has no \{1,2\}"),
    ("ftp://host/t",    "no file system is known for ftp; expected one of abfs"),
    ("s3:/bucket/t",    "does not exist.*; expected two slashes after s3:"),
    (pathlib.Path("s3://b/t"), "does not exist.*; expected the URI as text, as pathlib drops"),
    ("db.events",       r"; expected .*, or scan\(\.\., catalog=\.\.\) for a table of a catalog"),
    ("dbfs:/mnt/t",     "expected the path below /dbfs, where Databricks mounts dbfs:/"),
]  # fmt: skip


#    file URI           message
FILE_URIS = [
    ("file:///a#b/t",    r"in a file URI, '#' ends the path; write file:///a%23b/t, or the path"),
    ("file:///a?/*",     r"in a file URI, '\?' ends the path; write file:///a%3F/\*, or the path"),
    ("file://host/t",    r"a file URI holds an absolute path .*; expected file:///folder"),
    ("file:///no/a b",   r"file:///no/a b does not exist"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["t#1", "t?1"])
def test_a_file_uri_never_opens_the_folder_of_a_shorter_name(tmp_path, name):
    for folder, x in (("t", 1), (name, 2)):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"x": [x]}), tmp_path / folder / "a.parquet")
    with pytest.raises(ss.SourceError, match="ends the path"):
        ss.scan(f"file://{tmp_path}/{name}")
    assert ss.scan((tmp_path / name).as_uri()).plan().min("x") == 2


@pytest.mark.parametrize("where, message", [*NAMES, *FILE_URIS])
def test_malformed_uris(where, message):
    with pytest.raises(ss.SourceError, match=message):
        ss.scan(where)


def test_an_unknown_scheme_without_the_package_deltalake(monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake.exceptions", None)
    message = "no file system is known for gopher; expected one of abfs, .*, or one of deltalake's"
    with pytest.raises(ss.SourceError, match=message):
        ss.scan("gopher://host/t")


def test_a_name_of_a_catalog_without_the_catalog():
    with pytest.raises(ss.SourceError, match="for a table's name, give catalog="):
        ss.scan_iceberg("db.events")


def test_rows_in_memory_are_no_location():
    frames = (pd.DataFrame({"x": [1]}), pl.LazyFrame({"x": [1]}))  # a warning would be an error
    for rows in (pa.table({"x": [1]}), *frames):
        with pytest.raises(ss.SourceError, match="rows in memory need no scan: write them to"):
            ss.scan(rows)


@pytest.mark.parametrize("name", ["a b", "é", "100%", "a%20b", "[x]"])
def test_a_file_uri_may_be_escaped_or_not(tmp_path, name):
    (tmp_path / name).mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / name / "a.parquet")
    for uri in (f"file://{tmp_path}/{name}", (tmp_path / name).as_uri(), f"file:{tmp_path}/{name}"):
        assert ss.scan(uri).plan().count() == 1, uri


def test_an_escaped_name_wins_over_an_unescaped_one(tmp_path):
    for name, x in (("a b", 1), ("a%20b", 2)):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": [x]}), tmp_path / name / "a.parquet")
    assert ss.scan(f"file://{tmp_path}/a%20b").plan().min("x") == 1
    assert ss.scan(f"file://{tmp_path}/a%2520b").plan().min("x") == 2


def test_an_iceberg_table_in_a_folder_with_a_blank_opens_by_its_metadata_file(tmp_path):
    (tmp_path / "my lake").mkdir()
    catalog = InMemoryCatalog("c", warehouse=f"file://{tmp_path}/my lake")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("x", pa.int64())]))
    table.append(pa.table({"x": [1, 2, 3]}))
    assert " " in table.metadata_location
    assert ss.scan(table.metadata_location).plan("x >= 2").to_arrow()["x"].to_pylist() == [2, 3]
