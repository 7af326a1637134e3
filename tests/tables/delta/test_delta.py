"""Plan and read Delta tables; where possible, compare with the package `deltalake`."""

import datetime as dt
import decimal
import json
import math
from urllib.parse import unquote

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans.selection import Cut
from skipstone.bindings.tables.delta import vectors
from tests.support.effort import LONG
from tests.support.tables.delta_log import (
    Log,
    Written,
    arrow_schema,
    arrow_table,
    delta_schema,
    quoted,
    rows_of,
    simple,
    xs,
)

SIMPLE = delta_schema("x BIGINT, s STRING")


def written(folder, r, commits=8):
    """Write a table with nested, partitioned and odd values in several writes and deletes."""
    for i in range(commits):
        n = int(r.integers(1, 40))
        x = r.integers(-50, 50, n)
        rows = pa.table(
            {
                "p": pa.array([None if v % 7 == 0 else f"a {v % 3}%" for v in x], pa.string()),
                "day": pa.array([dt.date(2024, 1, 1 + int(v) % 5) for v in x]),
                "x": pa.array([None if v % 11 == 0 else int(v) for v in x], pa.int64()),
                "f": pa.array([math.nan if v % 13 == 0 else float(v) / 4 for v in x]),
                "d": pa.array([decimal.Decimal(int(v)) / 100 for v in x], pa.decimal128(20, 2)),
                "t": pa.array(
                    [1_700_000_000_000_000 + int(v) * 137 for v in x], pa.timestamp("us", "UTC")
                ),
                "st": pa.array(
                    [None if v % 9 == 0 else {"a": int(v), "b": str(v)} for v in x],
                    pa.struct([("a", pa.int32()), ("b", pa.string())]),
                ),
                "l": pa.array([[int(v)] * (int(v) % 3) for v in x], pa.list_(pa.int64())),
            }
        )
        deltalake.write_deltalake(folder, rows, mode="append", partition_by=["p", "day"])
        table = deltalake.DeltaTable(folder)
        if i == commits // 2:
            table.delete("x > 40")
            table.create_checkpoint()
    return deltalake.DeltaTable(folder)


WHERE = (
    None,
    "x > 20",
    "x = 3 AND p = 'a 0%'",
    "p IS NULL",
    "p IS NULL OR x < -30",
    "day = DATE '2024-01-03' AND f > 5",
    "f > 100",
    "NOT (f <= 2)",
    "st.a = 5",
    "st IS NULL",
    "st.b >= '3' AND x <> 7",
    "d = 0.25",
    "t >= TIMESTAMP '2023-11-14 22:13:20.003'",
    "p IN ('a 1%', 'zz') AND day > DATE '2024-01-02'",
    "x + 1 = 5",
)


@pytest.mark.parametrize("seed", range(2 if LONG else 1))
def test_a_plan_reads_the_same_rows_as_a_full_filter(tmp_path, seed):
    theirs = written(str(tmp_path / "t"), np.random.default_rng(seed))
    table = ss.scan_delta(tmp_path / "t")
    everything = table.plan().to_arrow()
    key = [("t", "ascending"), ("x", "ascending"), ("day", "ascending"), ("p", "ascending")]
    names = ["t", "x", "day", "p", "d"]
    other = theirs.to_pyarrow_table().select(names)
    assert (
        everything.select(names)
        .sort_by(key)
        .equals(other.cast(everything.select(names).schema).sort_by(key))
    )
    assert table.version == theirs.version()
    assert sorted(table.all_files) == sorted(map(deltalake_path, theirs.file_uris()))
    for where in WHERE:
        plan = table.plan(where)
        assert rows_of(plan.to_arrow()) == rows_of(plan.unpruned().to_arrow()), where
        assert plan.count() == plan.unpruned().count() == plan.to_arrow().num_rows
    assert table.plan("x > 1000").files == ()
    assert table.plan("day = DATE '2024-01-03'").skipping == "partition"


def deltalake_path(uri):
    return unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri


@pytest.mark.parametrize("seed", range(2))
def test_statistics_are_those_of_the_package(tmp_path, seed):
    theirs = written(str(tmp_path / "t"), np.random.default_rng(10 + seed))
    table = ss.scan_delta(tmp_path / "t")
    actions = pa.table(theirs.get_add_actions(flatten=True))
    theirs_by_path = {unquote(row["path"]): row for row in actions.to_pylist()}
    found = table.with_stats.to_pylist()
    assert len(found) == len(theirs_by_path)
    for row in found:
        other = (
            theirs_by_path[row["path"]]
            if row["path"] in theirs_by_path
            else theirs_by_path[unquote(row["path"])]
        )
        assert row["num_records"] == other["num_records"]
        assert row["size"] == other["size_bytes"]
        for name in ("x", "d", "st.a", "st.b"):
            assert row[f"{name}.min"] == other.get(f"min.{name}"), name
            assert row[f"{name}.max"] == other.get(f"max.{name}"), name
        if other.get("max.t") is not None:
            assert row["t.max"] - other["max.t"] == dt.timedelta(milliseconds=1)
    assert table.num_files == len(found)
    assert table.size_in_bytes == sum(r["size"] for r in found)


@pytest.mark.parametrize("stored", ["u", "i"])
def test_deleted_rows_are_not_read(tmp_path, stored):
    log = simple(tmp_path / "t", 2, features=("deletionVectors",))
    add = json.loads((log.log / f"{1:020}.json").read_text().splitlines()[1])["add"]
    stats = json.loads(add["stats"]) | {"tightBounds": False}
    log.commit(
        {"remove": {"path": add["path"], "dataChange": True}},
        {
            "add": add
            | {"deletionVector": log.vector([0, 3, 9], stored), "stats": json.dumps(stats)}
        },
    )
    table = ss.scan_delta(log.folder)
    assert xs(table) == [1, 2, 4, 5, 6, 7, 8, *range(10, 20)]
    assert xs(table, "x <= 3") == [1, 2]
    assert table.plan("x < 10").verdicts.tolist() == [0, 2]
    assert table.plan().sizes.scan.rows == 20
    assert table.plan().sizes.scan.logical_rows == 17
    assert table.plan(limit=8).cut == Cut(8, 10, reached=True)
    theirs = {
        tuple(v)
        for v in pa.table(deltalake.DeltaTable(log.folder).deletion_vectors())
        .column("selection_vector")
        .to_pylist()
    }
    assert theirs == {tuple(i not in (0, 3, 9) for i in range(10))}


@pytest.mark.parametrize("start", ["file:", "file://"])
@pytest.mark.parametrize("folder", ["t", "a b", "50% %20", "é ☃"])
def test_a_vector_of_another_table(tmp_path, folder, start):
    """A clone names it by its URI, in which Hadoop leaves other letters than ASCII as they are."""
    log = simple(tmp_path / folder, 1, features=("deletionVectors",))
    add = json.loads((log.log / f"{1:020}.json").read_text().splitlines()[1])["add"]
    vector = log.vector([0, 3, 9])
    (file,) = log.folder.glob("deletion_vector_*.bin")
    named = vector | {"storageType": "p", "pathOrInlineDv": start + quoted(str(file))}
    log.commit(
        {"remove": {"path": add["path"], "dataChange": True}},
        {"add": add | {"deletionVector": named}},
    )
    assert xs(ss.scan_delta(log.folder)) == [1, 2, 4, 5, 6, 7, 8]


def test_a_file_without_live_rows_is_never_read(tmp_path):
    log = Log(tmp_path / "t", SIMPLE, features=("deletionVectors",))
    log.add(Written([{"x": 1, "s": "a"}], dead=[0]))
    assert ss.scan_delta(log.folder).plan("x = 1").files == ()


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-9], lambda b: b[:20] + bytes([b[20] ^ 1]) + b[21:]]
)
def test_a_damaged_vector_is_an_error(tmp_path, damage):
    log = Log(tmp_path / "t", SIMPLE, features=("deletionVectors",))
    log.add(Written([{"x": k, "s": "a"} for k in range(5)], dead=[1]))
    (file,) = tmp_path.glob("t/deletion_vector_*.bin")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ss.SourceError, match="is damaged"):
        ss.scan_delta(log.folder).plan().to_arrow()


def test_base_85():
    with pytest.raises(ss.SourceError, match="not a text in Z85"):
        vectors.z85("abcd", "it")
    with pytest.raises(ss.SourceError, match="not a text in Z85"):
        vectors.z85("#####", "it")


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_column_mapping(tmp_path, mapping):
    described = delta_schema("x BIGINT, st STRUCT<a: INT, b: STRUCT<c: STRING>>, p STRING")
    log = Log(tmp_path / "t", described, ["p"], mapping=mapping)
    schema = arrow_schema(described)
    for i in range(3):
        rows = arrow_table(
            [
                {"x": i, "st": {"a": i, "b": {"c": f"v{i}"}}, "p": f"q{i}"},
                {"x": i, "st": None, "p": f"q{i}"},
            ],
            schema,
        )
        log.add(Written(rows, {"p": f"q{i}"}))
    table = ss.scan_delta(log.folder)
    assert table.column_mapping_mode == mapping
    for where in ("x = 1", "st.a = 1", "st.b.c = 'v1'", "p = 'q1'"):
        plan = table.plan(where)
        assert len(plan.files) == 1, where
        assert set(plan.to_arrow().column("x").to_pylist()) == {1}
    assert table.plan("x = 1").to_arrow().to_pylist() == [
        {"x": 1, "st": {"a": 1, "b": {"c": "v1"}}, "p": "q1"},
        {"x": 1, "st": None, "p": "q1"},
    ]
    assert table.get_stats_column("max", "ST.B.C").to_pylist() == ["v0", "v1", "v2"]
    assert table.get_stats_column("max", "st") is None


def test_files_that_lack_a_column_or_have_a_narrower_one(tmp_path):
    log = Log(
        tmp_path / "t",
        delta_schema("x BIGINT, y DOUBLE, st STRUCT<a: BIGINT, b: STRING>, l ARRAY<BIGINT>"),
    )
    old = pa.table(
        {
            "x": pa.array([1], pa.int32()),
            "st": pa.array([{"a": 5}], pa.struct([("a", pa.int32())])),
            "l": pa.array([[1, None]], pa.list_(pa.int32())),
        }
    )
    log.add(Written(old), Written([{"x": 2**40, "y": 1.5, "st": {"a": 6, "b": "z"}, "l": [2**40]}]))
    table = ss.scan_delta(log.folder)
    assert table.plan().to_arrow().to_pylist() == [
        {"x": 1, "y": None, "st": {"a": 5, "b": None}, "l": [1, None]},
        {"x": 2**40, "y": 1.5, "st": {"a": 6, "b": "z"}, "l": [2**40]},
    ]
    assert xs(table, "y IS NULL") == [1]
    assert len(table.plan("x = 1").files) == 1


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize("layout", [pa.list_, pa.large_list])
def test_fields_of_lists_in_each_layout(layout, mode, tmp_path):
    """delta-rs keeps the large lists of Polars. Their fields are found by physical name."""
    described = delta_schema("x BIGINT, l ARRAY<STRUCT<a: BIGINT, b: STRING>>")
    below = described["fields"][1]["type"]["elementType"]["fields"]
    own, features = "A", ()
    if mode == "name":
        own, features = "physical", ("columnMapping",)
        for f, name in zip((*described["fields"], *below), ("x", "l", own, "a"), strict=True):
            f["metadata"]["delta.columnMapping.physicalName"] = name
    log = Log(
        tmp_path / "t",
        described,
        configuration={"delta.columnMapping.mode": mode},
        features=features,
    )
    lists = pa.array([[{own: 1}, None], None], layout(pa.struct([(own, pa.int32())])))
    file = log.folder / "one.parquet"
    action = log.written(Written([], path=file.name, stats=None))
    pq.write_table(pa.table({"x": [1, 2], "l": lists}), file)
    action["add"]["size"] = file.stat().st_size
    log.commit(action)
    assert ss.scan_delta(log.folder).plan().to_arrow().to_pylist() == [
        {"x": 1, "l": [{"a": 1, "b": None}, None]},
        {"x": 2, "l": None},
    ]
