"""`table.check`: statistics are compared with rows; lies are found, and truth raises no alarm."""

import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.checks import check
from tests.support.shell import run
from tests.support.tables.delta_log import Log, Written, delta_schema, simple
from tests.support.tables.footers import MAX, MAX_EXACT, MIN, NULLS, restate
from tests.support.tables.pages import table as random_rows
from tests.support.tables.pages import write

LOST, EXTREME, COUNT = "rows are lost", "min() or max() is wrong", "count() is wrong"
NONE = "no row is lost"
ROWS = pa.table(
    {
        "x": pa.array([3, 5, None, 9], pa.int64()),
        "s": ["b", "c", "d", "e"],
        "f": [1.5, float("nan"), -0.0, 0.0],
    }
)


def long(value):
    return struct.pack("<q", value)


def found(table, **options):
    return [
        (w.column, w.statistic, w.claimed, w.found, w.effect) for w in table.check(**options).wrong
    ]


# column, its Statistics -> what the check says of each row group
LIES = [
    ("x", {MIN: long(4)}, ("x", "min", 4, 3, LOST)),
    ("x", {MAX: long(8)}, ("x", "max", 8, 9, LOST)),
    ("x", {MIN: long(1)}, ("x", "min", 1, 3, EXTREME)),
    ("x", {NULLS: 0}, ("x", "null_count", 0, 1, LOST)),
    ("x", {NULLS: 3}, ("x", "null_count", 3, 1, NONE)),
    ("x", {NULLS: 4, MIN: None, MAX: None}, ("x", "null_count", 4, 1, LOST)),
    ("s", {MAX: b"d"}, ("s", "max", "d", "e", LOST)),
    ("f", {MIN: struct.pack("<d", 0.5)}, ("f", "min", 0.5, 0.0, LOST)),
    # Nothing is claimed by statistics that contradict each other or are missing.
    ("x", {MIN: long(100)}, None),
    ("x", {NULLS: 5}, ("x", "null_count", 5, 1, NONE)),
    ("x", {MIN: None, MAX: None, NULLS: None}, None),
    # Text may be truncated outwards.
    ("s", {MAX: b"f", MAX_EXACT: None}, None),
]


@pytest.mark.parametrize(("column", "lie", "wrong"), LIES)
def test_lies_of_footers_are_found(tmp_path, column, lie, wrong):
    path = tmp_path / "a.parquet"
    pq.write_table(ROWS, path)
    pq.write_table(ROWS, tmp_path / "b.parquet")
    restate(path, lie, ROWS.schema.names.index(column))
    table = ss.scan_parquet(str(tmp_path))
    assert found(table) == ([] if wrong is None else [wrong])
    for w in table.check().wrong:
        assert (w.path, w.row_group) == (str(path), 0)


def test_a_found_lie_loses_a_row(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(ROWS, path)
    restate(path, {MIN: long(4)})
    table = ss.scan_parquet(str(path))
    assert not table.check().ok
    assert table.plan("x = 3").to_arrow().num_rows == 0
    assert table.plan("x = 3", stats_skipping=False).to_arrow().num_rows == 1


# stats of Delta's log, besides those that are right -> what the check says
LOGS = [
    ({"numRecords": 3}, [("", "row_count", 3, 2, COUNT)]),
    ({"minValues": {"x": 2, "s": "a"}}, [("x", "min", 2, 1, LOST)]),
    ({"maxValues": {"x": 2, "s": "a"}}, [("s", "max", "a", "b", LOST)]),
    ({"nullCount": {"x": 1, "s": 0}}, [("x", "null_count", 1, 0, NONE)]),
    ({"nullCount": {"x": 2, "s": 0}, "minValues": {}, "maxValues": {}},
     [("x", "null_count", 2, 0, LOST)]),
    ({}, []),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "wrong"), LOGS)
def test_lies_of_delta_logs_are_found(tmp_path, lie, wrong):
    rows = [{"x": 1, "s": "a"}, {"x": 2, "s": "b"}]
    right = {
        "numRecords": 2,
        "minValues": {"x": 1, "s": "a"},
        "maxValues": {"x": 2, "s": "b"},
        "nullCount": {"x": 0, "s": 0},
    }
    log = Log(tmp_path / "t", delta_schema("x BIGINT, s STRING"))
    log.add(Written(rows, stats=right), Written(rows, stats={**right, **lie}), Written(rows))
    assert found(ss.scan_delta(str(tmp_path / "t"))) == wrong


def test_lies_of_iceberg_manifests_are_found(tmp_path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, LongType, NestedField

    from tests.support.tables import iceberg_tables as iceberg

    schema = Schema(
        NestedField(1, "x", LongType(), required=False),
        NestedField(2, "f", DoubleType(), required=False),
    )
    table = iceberg.make(tmp_path / "lake", schema)
    rows = pa.table({"x": pa.array([1, None, 3]), "f": pa.array([1.0, float("nan"), 2.0])})
    table = iceberg.append(table, rows)
    assert found(ss.scan_iceberg(table)) == []
    (right,) = [task.file for task in table.scan().plan_files()]
    lie = iceberg.data_file(
        right.file_path,
        rows=3,
        size=right.file_size_in_bytes,
        value_counts={1: 3, 2: 3},
        null_value_counts={1: 0, 2: 0},
        nan_value_counts={2: 0},
        lower_bounds={1: long(1), 2: struct.pack("<d", 1)},
        upper_bounds={1: long(2), 2: struct.pack("<d", 2)},
    )
    table = iceberg.commit(iceberg.make(tmp_path / "lake", schema), [lie])
    assert found(ss.scan_iceberg(table)) == [
        ("x", "null_count", 0, 1, LOST),
        ("x", "max", 2, 3, LOST),
        ("f", "nan_count", 0, 1, LOST),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_what_writers_write_is_right(tmp_path, seed):
    path = str(tmp_path / "t.parquet")
    write(path, random_rows(seed), seed)
    checked = ss.scan_parquet(path).check()
    assert checked.ok, str(checked)
    assert (checked.rows, len(checked.columns)) == (3000, 31)


def test_tables_with_partitions_structs_and_deleted_rows_are_right(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    rows = pa.table(
        {
            "day": pa.array([1, 1, 2, 2, None], pa.int32()),
            "st": [{"a": 1, "b": None}, None, {"a": 2, "b": "t" * 70}, {"a": None, "b": "u"}, None],
            "list": [[1], None, [], [2, None], [3]],
            "map": pa.array([[("k", 1)], None, [], [], []], pa.map_(pa.string(), pa.int64())),
            "none": pa.nulls(5, pa.string()),
        }
    )
    deltalake.write_deltalake(str(tmp_path / "delta"), rows, partition_by=["day"])
    pq.write_to_dataset(rows, tmp_path / "hive", partition_cols=["day"])
    log = simple(tmp_path / "vectors", features=("deletionVectors",))
    log.add(Written([{"x": k, "s": "v"} for k in range(9)], dead=[0, 8]))
    for name in ("delta", "hive", "vectors"):
        checked = ss.scan(str(tmp_path / name)).check()
        assert checked.ok, str(checked)
        assert checked.rows == {"vectors": 37}.get(name, 5)


def test_columns_and_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "BLOCK", 4)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(100), "y": range(100)}), path, row_group_size=10)
    restate(path, {MAX: long(10**6)}, 1)
    table = ss.scan_parquet(str(path))
    assert [w.row_group for w in table.check().wrong] == list(range(10))
    assert table.check("x").ok
    assert table.check(["x"]).columns == ("x",)
    few = table.check(["y"], sample=3)
    assert (few.containers, few.total, few.rows, len(few.wrong)) == (3, 10, 30, 3)
    assert {w.row_group for w in few.wrong} <= set(range(10))
    with pytest.raises(ss.UnknownColumn, match="no_such"):
        table.check(["no_such"])
    with pytest.raises(ss.SkipstoneError, match="sample is 0; expected a positive number"):
        table.check(sample=0)


def test_the_report(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(300)}), path, row_group_size=10)
    table = ss.scan_parquet(str(path))
    assert (
        str(table.check()) == "read 30 of 30 row groups: 300 rows, 1 column\nno statistic is wrong"
    )
    restate(path, {MAX: long(1000)})
    checked = ss.scan_parquet(str(path)).check()
    lines = str(checked).splitlines()
    assert lines[1] == "30 statistics are wrong"
    assert lines[2] == (
        f"{path}, row group 0: max of x is 1000, the rows have 9; min() or max() is wrong"
    )
    assert lines[-1] == "and 10 more"
    assert json.loads(checked.to_json())["wrong"][29]["found"] == 299


def test_the_command(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(ROWS, path)
    right = run("check", str(path))
    assert (right.returncode, right.stdout.splitlines()[-1]) == (0, "no statistic is wrong")
    restate(path, {MIN: long(4)})
    wrong = run("check", str(path), "-c", "x", "--sample", "5")
    assert (wrong.returncode, wrong.stdout.splitlines()[1:]) == (
        1,
        ["1 statistic is wrong", f"{path}, row group 0: min of x is 4, the rows have 3; {LOST}"],
    )
    as_json = run("check", str(path), "--json")
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout)["wrong"][0]["statistic"] == "min"
    assert run("check", str(path), "-c", "nope").returncode == 2
