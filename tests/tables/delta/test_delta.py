"""Delta tables: what the log says of their files, and reading them; beside the package `deltalake` where it can."""

import datetime as dt
import decimal
import json
import math
import os
import shutil
from urllib.parse import unquote

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans.plan import Cut
from skipstone.bindings.tables.delta import cache, vectors
from skipstone.bindings.tables.delta import log as log_module
from tests.support.delta_log import (
    Log,
    Written,
    arrow_schema,
    arrow_table,
    delta_schema,
    rows_of,
    simple,
    xs,
)
from tests.support.effort import LONG

SIMPLE = delta_schema("x BIGINT, s STRING")


# Real tables, written by the package.


def written(folder, r, commits=8):
    """A table with nested, partitioned and odd values, of several writes and deletes."""
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
def test_a_plan_reads_what_filtering_everything_gives(tmp_path, seed):
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
    assert sorted(table.all_files) == sorted(
        f"{os.path.relpath(deltalake_path(u), tmp_path / 't')}" for u in theirs.file_uris()
    )
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


# The log.


def test_every_form_of_the_log_gives_the_same_files(tmp_path):
    """Commits alone, a checkpoint, one of several parts, a compaction, a checkpoint of version 2 with sidecars."""
    log = simple(tmp_path / "commits", 4)
    first = json.loads((log.log / f"{1:020}.json").read_text().splitlines()[1])["add"]["path"]
    log.commit({"remove": {"path": first, "dataChange": True, "deletionTimestamp": 1}})
    log.add(Written([{"x": 100, "s": "z"}]))
    expected = xs(ss.scan_delta(log.folder))
    assert expected == [*range(10, 40), 100]

    plain = tmp_path / "checkpoint"
    shutil.copytree(log.folder, plain)
    deltalake.DeltaTable(plain, version=5).create_checkpoint()
    for v in range(4):
        os.remove(plain / "_delta_log" / f"{v:020}.json")
    assert xs(ss.scan_delta(plain)) == expected
    whole = pq.read_table(plain / "_delta_log" / f"{5:020}.checkpoint.parquet")

    parts = tmp_path / "parts"
    shutil.copytree(plain, parts)
    os.remove(parts / "_delta_log" / f"{5:020}.checkpoint.parquet")
    for i in range(2):
        pq.write_table(
            whole.slice(
                i * whole.num_rows // 2, whole.num_rows // 2 + 1 if i else whole.num_rows // 2
            ),
            parts / "_delta_log" / f"{5:020}.checkpoint.{i + 1:010}.{2:010}.parquet",
        )
    assert xs(ss.scan_delta(parts)) == expected
    os.remove(parts / "_delta_log" / f"{5:020}.checkpoint.{2:010}.{2:010}.parquet")
    cache.forget()
    with pytest.raises(ss.SourceError, match="lacks the commit of version 0"):
        ss.scan_delta(parts)

    compacted = tmp_path / "compacted"
    shutil.copytree(log.folder, compacted)
    lines = []
    for v in range(1, 5):
        text = (compacted / "_delta_log" / f"{v:020}.json").read_text().splitlines()
        lines += [
            line
            for line in text
            if "commitInfo" not in line and not (first in line and "add" in json.loads(line))
        ]
        os.remove(compacted / "_delta_log" / f"{v:020}.json")
    (compacted / "_delta_log" / f"{1:020}.{4:020}.compacted.json").write_text("\n".join(lines))
    assert xs(ss.scan_delta(compacted)) == expected

    two = tmp_path / "two"
    shutil.copytree(plain, two)
    os.remove(two / "_delta_log" / f"{5:020}.checkpoint.parquet")
    (two / "_delta_log" / "_sidecars").mkdir()
    adds = whole.filter(pc.is_valid(whole.column("add"))).select(["add"])
    pq.write_table(adds, two / "_delta_log" / "_sidecars" / "one.parquet")
    settings = [json.loads(line) for line in (log.log / f"{0:020}.json").read_text().splitlines()]
    sidecar = {"sidecar": {"path": "one.parquet", "sizeInBytes": 1, "modificationTime": 1}}
    name = f"{5:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
    (two / "_delta_log" / f"{name}.json").write_text(
        "".join(json.dumps(a) + "\n" for a in (*settings, sidecar))
    )
    assert xs(ss.scan_delta(two)) == expected
    os.remove(two / "_delta_log" / f"{name}.json")
    setting = pa.struct(
        [
            ("id", pa.string()),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    )
    needs = pa.struct([("minReaderVersion", pa.int32()), ("readerFeatures", pa.list_(pa.string()))])
    kinds = pa.schema(
        [
            ("protocol", needs),
            ("metaData", setting),
            ("sidecar", pa.struct([("path", pa.string())])),
        ]
    )
    pq.write_table(
        pa.Table.from_pylist(
            [
                *(
                    {k: v | {"configuration": []} if k == "metaData" else v for k, v in a.items()}
                    for a in settings
                ),
                sidecar,
            ],
            kinds,
        ),
        two / "_delta_log" / f"{name}.parquet",
    )
    assert xs(ss.scan_delta(two)) == expected
    assert xs(ss.scan_delta(two), "x >= 30") == [*range(30, 40), 100]
    assert len(ss.scan_delta(two).plan("x >= 30").files) == 2


def test_versions_and_times(tmp_path):
    log = simple(tmp_path / "t", 3)
    for v in range(4):
        os.utime(log.log / f"{v:020}.json", (1000 * v + 1000,) * 2)
    assert [ss.scan_delta(log.folder, v).num_files for v in range(4)] == [0, 1, 2, 3]
    at = dt.datetime.fromtimestamp(2500, dt.UTC)
    assert ss.scan_delta(log.folder, at).version == 1
    assert ss.scan_delta(log.folder, at.isoformat()).version == 1
    assert ss.scan_delta(log.folder, dt.datetime(2100, 1, 1, tzinfo=dt.UTC)).version == 3
    for bad, message in (
        (9, "there is no version 9; the newest is 3"),
        (-1, "no version -1"),
        ("2020-01-01", "names no time zone"),
    ):
        with pytest.raises(ss.SourceError, match=message):
            ss.scan_delta(log.folder, bad)
    with pytest.raises(ss.SourceError, match="no version is as old"):
        ss.scan_delta(log.folder, dt.datetime.fromtimestamp(5, dt.UTC))


def cut(log):
    path = log.log / f"{2:020}.json"
    path.write_bytes(path.read_bytes()[:-30])


def gone(log):
    os.remove(log.log / f"{2:020}.json")


def unknown_feature(log):
    log.commit(
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["teleportation"],
                "writerFeatures": ["teleportation"],
            }
        }
    )


def no_settings(log):
    (log.log / f"{0:020}.json").write_text('{"commitInfo": {}}\n')


def bad_type(log):
    path = log.log / f"{0:020}.json"
    path.write_text(path.read_text().replace("long", "lung"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "00002.json: the commit is no JSON"),
        (gone, "lacks the commit of version 2"),
        (unknown_feature, "needs a reader that knows teleportation"),
        (no_settings, "has no metaData"),
        (bad_type, "the type 'lung'"),
    ],
)
def test_a_damaged_log_is_an_error_that_names_it(tmp_path, damage, message):
    log = simple(tmp_path / "t", 3)
    damage(log)
    with pytest.raises(ss.SourceError, match=message):
        ss.scan_delta(log.folder)


def test_no_table(tmp_path):
    with pytest.raises(ss.SourceError, match="no folder _delta_log"):
        ss.scan_delta(tmp_path)


# Deletion vectors, column mapping, evolution.


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


def test_a_file_without_living_rows_is_never_read(tmp_path):
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
    with pytest.raises(ss.SourceError, match="no text in Z85"):
        vectors.z85("abcd", "it")
    with pytest.raises(ss.SourceError, match="no text in Z85"):
        vectors.z85("#####", "it")


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_columns_by_other_names(tmp_path, mapping):
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


# What was read before.


def test_the_same_version_is_read_once_and_a_newer_one_from_there_on(tmp_path, monkeypatch):
    log = simple(tmp_path / "t", 3, features=("deletionVectors",))
    first = ss.scan_delta(log.folder)
    assert ss.scan_delta(log.folder) is first
    fetched = []
    fetch = log_module.fetch
    monkeypatch.setattr(
        log_module,
        "fetch",
        lambda fs, folder, commits, meter: (
            fetched.extend(c.name for c in commits) or fetch(fs, folder, commits, meter)
        ),
    )
    actions = [
        json.loads((log.log / f"{v:020}.json").read_text().splitlines()[1])["add"] for v in (1, 2)
    ]
    log.commit({"remove": {"path": actions[0]["path"], "dataChange": True}})
    log.add(Written([{"x": 100, "s": "z"}], path="a%20b c.parquet"))
    log.commit(
        {"remove": {"path": actions[1]["path"], "dataChange": True}},
        {"add": actions[1] | {"deletionVector": log.vector([0])}},
    )
    newer = ss.scan_delta(log.folder)
    assert fetched == [f"{v:020}.json" for v in (4, 5, 6)]
    log.commit({"remove": {"path": "a%2520b%20c.parquet", "dataChange": True}})
    newest = ss.scan_delta(log.folder)
    assert xs(newer) == [*range(11, 30), 100]
    assert xs(newest) == [*range(11, 30)]
    assert xs(first) == [*range(30)]
    for table in (first, newer, newest):
        fresh = fresh_copy(tmp_path, log.folder, table.version)
        assert rows_of(fresh.plan("x > 12").to_arrow()) == rows_of(table.plan("x > 12").to_arrow())
        assert sorted(fresh.all_files) == sorted(table.all_files)


def fresh_copy(tmp_path, folder, version):
    cache.forget()
    return ss.scan_delta(folder, version)


def test_another_table_in_the_same_place_is_another_table(tmp_path):
    simple(tmp_path / "t", 2)
    first = ss.scan_delta(tmp_path / "t")
    shutil.rmtree(tmp_path / "t")
    log = Log(tmp_path / "t", delta_schema("y INT"))
    for i in range(4):
        log.add(Written([{"y": i}]))
    second = ss.scan_delta(tmp_path / "t")
    assert (first.schema.names, second.schema.names, second.num_files) == (["x", "s"], ["y"], 4)


def test_another_schema_is_read_anew(tmp_path):
    log = simple(tmp_path / "t", 2)
    assert ss.scan_delta(log.folder).schema.names == ["x", "s"]
    described = delta_schema("x BIGINT, s STRING, z INT")
    metadata = {
        "id": "a",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(described),
        "partitionColumns": [],
        "configuration": {},
    }
    log.commit({"metaData": metadata})
    table = ss.scan_delta(log.folder)
    assert table.schema.names == ["x", "s", "z"]
    assert xs(table, "z IS NULL") == [*range(20)]
