"""The options of `scan`: versions, and those that only some formats have."""

import datetime as dt
import re

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.shell import run
from tests.support.tables.delta_log import simple
from tests.support.tables.iceberg_tables import make


@pytest.fixture
def hive(tmp_path):
    for day in "12":
        folder = tmp_path / "hive" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": range(10)}), folder / "part.parquet")
    return tmp_path / "hive"


@pytest.fixture
def delta(tmp_path):
    return simple(tmp_path / "delta", 3).folder  # versions 0 to 3


@pytest.fixture
def iceberg(tmp_path):
    """A table of three snapshots: a tag of the first, and a branch of the second."""
    table = make(tmp_path / "ice", pa.schema([("x", pa.int64())]))
    for i in range(3):
        table.append(pa.table({"x": [i]}))
    first, second, _ = (s.snapshot_id for s in table.snapshots())
    table.manage_snapshots().create_tag(first, "v1").create_branch(second, "audit").commit()
    with table.update_schema() as update:
        update.add_column("y", pa_string())
    return table.refresh()


def pa_string():
    from pyiceberg.types import StringType

    return StringType()


def test_versions_of_a_delta_table(delta):
    assert ss.scan(delta).version == ss.scan(delta, version=None).version == 3
    for version in (1, "1", np.int64(1)):
        assert ss.scan(delta, version=version).version == 1, version
        assert ss.scan_delta(delta, version).version == 1
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert ss.scan(delta, version=soon).version == ss.scan(delta, version=soon.isoformat()).version
    with pytest.raises(ss.SourceError, match=r"there is no version 9; expected 0 to 3$"):
        ss.scan(delta, version=9)
    with pytest.raises(ss.SourceError, match="version='v1'; expected a number, a time"):
        ss.scan(delta, version="v1")


def test_versions_of_an_iceberg_table(iceberg):
    ids = [s.snapshot_id for s in iceberg.snapshots()]
    #            version: rows, columns: a branch has the newest
    for version, rows, names in [
        (None, 3, ["x", "y"]),
        ("main", 3, ["x", "y"]),
        ("audit", 2, ["x", "y"]),
        ("v1", 1, ["x"]),
        (ids[0], 1, ["x"]),
        (str(ids[1]), 2, ["x"]),
        (np.int64(ids[2]), 3, ["x"]),
    ]:
        for table in (ss.scan(iceberg, version=version), ss.scan_iceberg(iceberg, version)):
            assert table.plan().count() == rows, version
            assert table.schema.names == names, version
    for version in ("v2", 5, "5"):
        with pytest.raises(ss.SourceError) as e:
            ss.scan(iceberg, version=version)
        latest = f"the latest are {', '.join(map(str, ids))}"
        assert "the table has the branches audit, main; the tag v1" in str(
            e.value
        ) and latest in str(e.value)
    for version in (True, 1.5, dt.datetime.now(dt.UTC)):
        with pytest.raises(ss.SourceError, match="the id of a snapshot, or the name of a branch"):
            ss.scan(iceberg, version=version)


def test_the_main_branch_of_a_table_without_snapshots(tmp_path):
    table = make(tmp_path / "ice", pa.schema([("x", pa.int64())]))
    assert ss.scan(table, version="main").num_files == 0
    with pytest.raises(ss.SourceError, match="no branch or tag 'v1'; the table has none"):
        ss.scan(table, version="v1")


def test_other_tables_have_no_versions(hive, delta):
    for source, format in ((hive, "hive"), (hive / "day=1", "parquet")):
        with pytest.raises(
            ss.SourceError, match=f"Delta and Iceberg tables; .* is read as {format}"
        ):
            ss.scan(source, version=1)
    with pytest.raises(ss.SourceError, match="is open already; version= applies to"):
        ss.scan(ss.scan(delta), version=1)


def test_options_of_parquet_files(hive):
    types = {"day": pa.string()}
    for format in (None, "parquet", "hive"):
        table = ss.scan(hive, format=format, partition_schema=types)
        assert table.schema.field("day").type == pa.string()
        table = ss.scan(hive, format=format, filesystem=pafs.LocalFileSystem())
        assert table.num_files == 2 and table.schema.field("day").type == pa.int32()
    inner = pafs.SubTreeFileSystem(str(hive.parent), pafs.LocalFileSystem())
    table = ss.scan("hive", filesystem=inner)
    assert (type(table).__name__, table.num_files) == ("HiveTable", 2)
    (hive / "day=1" / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(ss.SourceError):
        ss.scan(hive).plan("x = 1")
    for format in ("hive", "parquet"):
        table = ss.scan(hive, format=format, on_error="keep")
        assert len(table.plan("x = 100").files) == 1
    with pytest.raises(ss.SourceError, match="on_error is 'skip'"):
        ss.scan(hive, on_error="skip")


OTHERS = [
    ({"partition_schema": {"k": pa.int32()}}, "partition_schema"),
    ({"on_error": "keep"}, "on_error"),
    ({"filesystem": pafs.LocalFileSystem()}, "filesystem"),
]


@pytest.mark.parametrize("options, name", OTHERS)
def test_options_that_a_format_lacks(delta, iceberg, options, name):
    for source, format in ((delta, "delta"), (iceberg, "iceberg")):
        with pytest.raises(
            ss.SourceError,
            match=rf"{name}= applies to Parquet and Hive tables; .* is read as {format}",
        ):
            ss.scan(source, **options)
        with pytest.raises(ss.SourceError, match=f"is open already; {name}= applies to"):
            ss.scan(ss.scan(source), **options)


#    keyword, what the error says
KEYWORDS = [
    ("base_path", "base_path=; scan_parquet does"),
    ("stats", "stats=; scan_hive and scan_parquet do"),
    ("infer_types", "infer_types=; scan_hive does"),
    ("snapshot_id", "snapshot_id=; scan_iceberg does"),
    ("no_such", "unexpected keyword argument 'no_such'"),
]


@pytest.mark.parametrize("keyword, message", KEYWORDS)
def test_keywords_of_other_functions(hive, keyword, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        ss.scan(hive, **{keyword: None})


def test_versions_in_the_shell(delta, iceberg, hive):
    for command in ("plan", "explain"):
        done = run(command, str(delta), "-w", "x >= 0", "--at", "1", "--json")
        assert done.returncode == 0 and '"files": 1' in done.stdout, done.stderr
    assert "1 file:" in run("stats", str(delta), "--at", "1").stdout
    assert run("check", str(delta), "--at", "2").stdout.startswith("read 2 of 2 files")
    assert "1 file" in run("advise", str(delta), "--at", "1").stdout
    page = delta.parent / "map.html"
    assert run("map", str(delta), "-c", "x", "--at", "1", "-o", str(page)).returncode == 0
    metadata = iceberg.metadata_location
    assert "1 file:" in run("stats", metadata, "--at", "v1").stdout
    failed = run("plan", metadata, "--at", "v2")
    assert failed.returncode == 2 and "the tag v1" in failed.stderr
    failed = run("plan", str(delta), "--at", "2020-01-01")
    assert "--at '2020-01-01' names no time zone" in failed.stderr
    assert "version=" not in failed.stderr
    failed = run("plan", str(hive), "--at", "1")
    assert failed.returncode == 2 and "applies to Delta and Iceberg tables" in failed.stderr


def _in_pandas(paths):
    import pandas as pd

    return pd.Series(paths)


def _in_polars(paths):
    import polars as pl

    return pl.Series(paths)


COLUMNS = {
    "a list": list, "an iterator": iter, "an array": pa.array, "a set": set,
    "a chunked array": lambda paths: pa.chunked_array([paths]), "a series": _in_polars,
    "a series of pandas": _in_pandas,
}  # fmt: skip


@pytest.mark.parametrize("make", COLUMNS.values(), ids=COLUMNS)
def test_several_paths_in_any_form(make, tmp_path):
    paths = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    for path in paths:
        pq.write_table(pa.table({"x": [1]}), path)
    for scan in (ss.scan, ss.scan_parquet):
        assert sorted(scan(make(paths)).all_files) == paths
    options = {"AWS_REGION": "eu-west-1"}  # local paths ignore it
    assert ss.scan_parquet(make(paths), storage_options=options).num_files == 3
