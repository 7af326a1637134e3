"""Delta tables: what the log says of their files, planning by it, reading them; beside the package `deltalake` where it can."""

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
from skipstone.bindings.plan import Cut
from skipstone.bindings.sources.delta import cache, vectors
from skipstone.bindings.sources.delta import log as log_module
from tests.delta_log import Log, Written, arrow_schema, arrow_table, delta_schema

SIMPLE = delta_schema("x BIGINT, s STRING")


def simple(folder, files=3, **options):
    log = Log(folder, delta_schema("x BIGINT, s STRING"), **options)
    for i in range(files):
        log.add(Written([{"x": 10 * i + k, "s": f"t{i}{k}"} for k in range(10)]))
    return log


def xs(table, where=None, **settings):
    return sorted(table.plan(where, **settings).to_arrow().column("x").to_pylist())


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
                "t": pa.array([1_700_000_000_000_000 + int(v) * 137 for v in x], pa.timestamp("us", "UTC")),
                "st": pa.array([None if v % 9 == 0 else {"a": int(v), "b": str(v)} for v in x], pa.struct([("a", pa.int32()), ("b", pa.string())])),
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


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_reads_what_filtering_everything_gives(tmp_path, seed):
    theirs = written(str(tmp_path / "t"), np.random.default_rng(seed))
    table = ss.scan_delta(tmp_path / "t")
    everything = table.plan().to_arrow()
    key = [("t", "ascending"), ("x", "ascending"), ("day", "ascending"), ("p", "ascending")]
    names = ["t", "x", "day", "p", "d"]
    other = theirs.to_pyarrow_table().select(names)
    assert everything.select(names).sort_by(key).equals(other.cast(everything.select(names).schema).sort_by(key))
    assert table.version == theirs.version()
    assert sorted(table.all_files) == sorted(f"{os.path.relpath(deltalake_path(u), tmp_path / 't')}" for u in theirs.file_uris())
    for where in WHERE:
        plan = table.plan(where)
        assert rows_of(plan.to_arrow()) == rows_of(plan.unpruned().to_arrow()), where
        assert plan.count() == plan.unpruned().count() == plan.to_arrow().num_rows
    assert table.plan("x > 1000").files == ()
    assert table.plan("day = DATE '2024-01-03'").skipping == "partition"


def rows_of(table):
    """Rows as texts, in which NaN equals itself."""
    return sorted(map(str, table.to_pylist()))


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
        other = theirs_by_path[row["path"]] if row["path"] in theirs_by_path else theirs_by_path[unquote(row["path"])]
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
            whole.slice(i * whole.num_rows // 2, whole.num_rows // 2 + 1 if i else whole.num_rows // 2),
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
        lines += [line for line in text if "commitInfo" not in line and not (first in line and "add" in json.loads(line))]
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
    (two / "_delta_log" / f"{name}.json").write_text("".join(json.dumps(a) + "\n" for a in (*settings, sidecar)))
    assert xs(ss.scan_delta(two)) == expected
    os.remove(two / "_delta_log" / f"{name}.json")
    setting = pa.struct(
        [("id", pa.string()), ("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string())), ("configuration", pa.map_(pa.string(), pa.string()))]
    )
    needs = pa.struct([("minReaderVersion", pa.int32()), ("readerFeatures", pa.list_(pa.string()))])
    kinds = pa.schema([("protocol", needs), ("metaData", setting), ("sidecar", pa.struct([("path", pa.string())]))])
    pq.write_table(
        pa.Table.from_pylist([*({k: v | {"configuration": []} if k == "metaData" else v for k, v in a.items()} for a in settings), sidecar], kinds),
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
    for bad, message in ((9, "there is no version 9; the newest is 3"), (-1, "no version -1"), ("2020-01-01", "names no time zone")):
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
    log.commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["teleportation"], "writerFeatures": ["teleportation"]}})


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


# Statistics that cannot be used cost their own file's, or their own column's.

BAD = (
    "{",
    "",
    "[]",
    "null",
    '{"numRecords": "many"}',
    '{"numRecords": 10, "minValues": {"x": "one"}}',
    '{"numRecords": 10, "minValues": 7}',
    "{}",
    None,
    '{"numRecords": 10, "minValues": {"x": 1e400}}',
    '{"numRecords": 10, "minValues": {"x": 0.5}, "maxValues": {"x": 9.5}}',
    '\n{"numRecords":\n10}\n',
    '{"numRecords": 99999999999999999999}',
    '{"numRecords": -1, "nullCount": {"x": -5}}',
    '{"numRecords": 10, "minValues": {"x": 50}, "maxValues": {"x": 3}}',
)


@pytest.mark.parametrize("bad", BAD)
def test_bad_statistics_cost_one_file(tmp_path, bad):
    log = simple(tmp_path / "t", 3)
    log.add(Written([{"x": k, "s": "q"} for k in range(10)], stats=bad), Written([{"x": 500, "s": "r"}]))
    table = ss.scan_delta(log.folder)
    assert xs(table, "x = 5") == [5, 5]
    kept = len(table.plan("x = 500").files)
    assert kept in (1, 2)
    assert len(table.plan("x = 15").files) <= 2
    assert table.plan("x < 0").to_arrow().num_rows == 0


def test_what_is_missing_affects_its_own_column_alone(tmp_path):
    log = Log(tmp_path / "t", delta_schema("a INT, b INT"))
    log.add(Written([{"a": 1, "b": 1}], stats={"numRecords": 1, "minValues": {"a": 1}, "maxValues": {"a": 1}, "nullCount": {"a": 0}}))
    table = ss.scan_delta(log.folder)
    assert not table.plan("a = 2 AND b = 5").files  # Delta keeps it: one missing statistic disables all of them (#6755)
    assert table.plan("b = 5").files


@pytest.mark.parametrize("engine", ["Apache-Spark/4.0.0 Delta-Lake/4.0.0", "delta-rs:0.30", None])
def test_nan_is_left_out_of_bounds_by_some_writers(tmp_path, engine):
    """Spark's maximum is NaN if there is one; Arrow's is not (delta#7101)."""
    log = Log(tmp_path / "t", delta_schema("f DOUBLE"))
    log.engine = engine
    nan = {"numRecords": 2, "minValues": {"f": 1.0}, "maxValues": {"f": "NaN" if engine and "Spark" in engine else 2.0}, "nullCount": {"f": 0}}
    log.add(Written([{"f": 1.0}, {"f": math.nan}], stats=nan))
    log.add(Written([{"f": 1.0}, {"f": 2.0}]))
    plan = ss.scan_delta(log.folder).plan("f > 5")
    assert plan.to_arrow().num_rows == 1
    assert len(plan.files) == (1 if engine and "Spark" in engine else 2)


def test_floats_that_were_widened_keep_the_bound_of_the_narrow_type(tmp_path):
    described = delta_schema("f DOUBLE")
    described["fields"][0]["metadata"]["delta.typeChanges"] = [{"fromType": "float", "toType": "double"}]
    log = Log(tmp_path / "t", described, features=("typeWidening",))
    value = float(np.float32(1.1))
    log.add(Written([{"f": value}], stats={"numRecords": 1, "minValues": {"f": 1.1}, "maxValues": {"f": 1.1}, "nullCount": {"f": 0}}))
    table = ss.scan_delta(log.folder)
    assert table.plan(ss.col("f") == value).to_arrow().num_rows == 1
    assert table.plan("f > 1.1D").files


def test_times_before_1900_and_cut_ones(tmp_path):
    """Maxima are cut to milliseconds; Delta 3.2 and 3.3 cut the seconds of old offsets too (delta#5249)."""
    log = Log(tmp_path / "t", delta_schema("t TIMESTAMP"))
    at = dt.datetime(1850, 6, 1, 12, 0, 30, tzinfo=dt.UTC)
    stamp = {"numRecords": 1, "minValues": {"t": "1850-06-01T12:00:00.000Z"}, "maxValues": {"t": "1850-06-01T12:00:00.000Z"}, "nullCount": {"t": 0}}
    rows = pa.table({"t": pa.array([at], pa.timestamp("us", "UTC"))})
    log.add(Written(rows, stats=stamp))
    new = pa.table({"t": pa.array([1_600_000_000_123_999], pa.timestamp("us", "UTC"))})
    log.add(Written(new))
    table = ss.scan_delta(log.folder)
    assert table.plan("t = TIMESTAMP '1850-06-01 12:00:30Z'").to_arrow().num_rows == 1
    assert table.plan("t > TIMESTAMP '2020-09-13 12:26:40.123500Z'").to_arrow().num_rows == 1
    assert not table.plan("t > TIMESTAMP '2020-09-13 12:26:40.125Z'").files


# Partition values.


def test_partition_values_mean_what_the_type_says(tmp_path):
    ddl = "x INT, i INT, d DATE, m DECIMAL(5,2), b BOOLEAN, s STRING, f DOUBLE, t TIMESTAMP, n TIMESTAMP_NTZ"
    names = ["i", "d", "m", "b", "s", "f", "t", "n"]
    log = Log(tmp_path / "t", delta_schema(ddl), names, features=("timestampNtz",))
    values = {"i": "7", "d": "2024-02-29", "m": "1.50", "b": "true", "s": "a b", "f": "NaN", "t": "2024-01-01 00:30:00", "n": "2024-01-01 00:30:00.5"}
    log.add(Written([{"x": 1}], values), Written([{"x": 2}], dict.fromkeys(names)), Written([{"x": 3}], dict.fromkeys(names, "")))
    log.add(Written([{"x": 4}], values | {"t": "2024-01-01T00:30:00.000000Z", "s": "__HIVE_DEFAULT_PARTITION__"}))
    table = ss.scan_delta(log.folder)
    for where, expected in {
        "i = 7": [1, 4],
        "i IS NULL": [2, 3],
        "d = DATE '2024-02-29'": [1, 4],
        "m = 1.5": [1, 4],
        "b": [1, 4],
        "NOT b": [],
        "s = 'a b'": [1],
        "s IS NULL": [2, 3],
        "f > 1e300": [1, 4],
        "isnan(f)": [1, 4],
        "n = TIMESTAMP_NTZ '2024-01-01 00:30:00.5'": [1, 4],
        "s = ''": [],
    }.items():
        plan = table.plan(where)
        assert xs(table, where) == expected, where
        assert len(plan.files) == len(expected), where
    zone = "America/Los_Angeles"
    assert xs(table, "t = TIMESTAMP '2024-01-01 00:30:00'", timezone=zone) == [1]
    assert xs(table, "t = TIMESTAMP '2024-01-01 00:30:00Z'", timezone=zone) == [4]
    assert xs(table, "t = TIMESTAMP '2024-01-01 00:30:00'") == [1, 4]


def test_a_partition_value_that_is_none_of_the_type_is_unknown(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, p INT"), ["p"])
    log.add(Written([{"x": 1}], {"p": "seven"}), Written([{"x": 2}], {"p": "7"}))
    table = ss.scan_delta(log.folder)
    assert len(table.plan("p = 7").files) == 2
    with pytest.raises(ss.SourceError, match="the partition value p='seven' is not a int32"):
        table.plan("p = 7").to_arrow()


def test_paths_are_decoded_once(tmp_path):
    log = Log(tmp_path / "t", SIMPLE)
    paths = ["a b.parquet", "c%20d.parquet", "k=v%2Fw/e.parquet", "ü.parquet"]
    log.add(*(Written([{"x": i, "s": "q"}], path=p) for i, p in enumerate(paths)))
    log.commit({"remove": {"path": "a b.parquet", "dataChange": True}})  # the same file, spelled without its percent sign
    table = ss.scan_delta(log.folder)
    assert sorted(table.all_files) == sorted(paths[1:])
    assert xs(table) == [1, 2, 3]


# Deletion vectors, column mapping, evolution.


@pytest.mark.parametrize("stored", ["u", "i"])
def test_deleted_rows_are_not_read(tmp_path, stored):
    log = simple(tmp_path / "t", 2, features=("deletionVectors",))
    add = json.loads((log.log / f"{1:020}.json").read_text().splitlines()[1])["add"]
    stats = json.loads(add["stats"]) | {"tightBounds": False}
    log.commit(
        {"remove": {"path": add["path"], "dataChange": True}}, {"add": add | {"deletionVector": log.vector([0, 3, 9], stored), "stats": json.dumps(stats)}}
    )
    table = ss.scan_delta(log.folder)
    assert xs(table) == [1, 2, 4, 5, 6, 7, 8, *range(10, 20)]
    assert xs(table, "x <= 3") == [1, 2]
    assert table.plan("x < 10").verdicts.tolist() == [0, 2]
    assert table.plan().sizes.scan.rows == 20
    assert table.plan().sizes.scan.logical_rows == 17
    assert table.plan(limit=8).cut == Cut(8, 10, reached=True)
    theirs = {tuple(v) for v in pa.table(deltalake.DeltaTable(log.folder).deletion_vectors()).column("selection_vector").to_pylist()}
    assert theirs == {tuple(i not in (0, 3, 9) for i in range(10))}


def test_a_file_without_living_rows_is_never_read(tmp_path):
    log = Log(tmp_path / "t", SIMPLE, features=("deletionVectors",))
    log.add(Written([{"x": 1, "s": "a"}], dead=[0]))
    assert ss.scan_delta(log.folder).plan("x = 1").files == ()


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b[:20] + bytes([b[20] ^ 1]) + b[21:]])
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
        rows = arrow_table([{"x": i, "st": {"a": i, "b": {"c": f"v{i}"}}, "p": f"q{i}"}, {"x": i, "st": None, "p": f"q{i}"}], schema)
        log.add(Written(rows, {"p": f"q{i}"}))
    table = ss.scan_delta(log.folder)
    assert table.column_mapping_mode == mapping
    for where in ("x = 1", "st.a = 1", "st.b.c = 'v1'", "p = 'q1'"):
        plan = table.plan(where)
        assert len(plan.files) == 1, where
        assert set(plan.to_arrow().column("x").to_pylist()) == {1}
    assert table.plan("x = 1").to_arrow().to_pylist() == [{"x": 1, "st": {"a": 1, "b": {"c": "v1"}}, "p": "q1"}, {"x": 1, "st": None, "p": "q1"}]
    assert table.get_stats_column("max", "ST.B.C").to_pylist() == ["v0", "v1", "v2"]
    assert table.get_stats_column("max", "st") is None


def test_files_that_lack_a_column_or_have_a_narrower_one(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x BIGINT, y DOUBLE, st STRUCT<a: BIGINT, b: STRING>, l ARRAY<BIGINT>"))
    old = pa.table(
        {"x": pa.array([1], pa.int32()), "st": pa.array([{"a": 5}], pa.struct([("a", pa.int32())])), "l": pa.array([[1, None]], pa.list_(pa.int32()))}
    )
    log.add(Written(old), Written([{"x": 2**40, "y": 1.5, "st": {"a": 6, "b": "z"}, "l": [2**40]}]))
    table = ss.scan_delta(log.folder)
    assert table.plan().to_arrow().to_pylist() == [
        {"x": 1, "y": None, "st": {"a": 5, "b": None}, "l": [1, None]},
        {"x": 2**40, "y": 1.5, "st": {"a": 6, "b": "z"}, "l": [2**40]},
    ]
    assert xs(table, "y IS NULL") == [1]
    assert len(table.plan("x = 1").files) == 1


# The words of Delta's reader.


def test_the_four_branches(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x BIGINT, p STRING"), ["p"])
    log.add(*(Written([{"x": 10 * i + k} for k in range(10)], {"p": f"q{i % 2}"}) for i in range(4)))
    table = ss.scan_delta(log.folder)
    both, only = "dataSkippingAndPartitionFilteringV1", "dataSkippingOnlyV1"
    for where, limit, branch, files, kind in [
        (None, None, "none", 4, "noSkippingV1"),
        ("true", None, "none", 4, "noSkippingV1"),
        ("p = 'q1'", None, "partition", 2, "partitionFilteringOnlyV1"),
        ("x < 15", None, "data", 2, only),
        ("x < 15 AND p = 'q1'", None, "data", 1, both),
        ("x < 15 OR p = 'q1'", None, "data", 3, only),
        (None, 15, "limit", 2, "limit"),
        ("p = 'q1'", 5, "limit", 1, "filteredLimit"),
        ("x >= 10", 12, "limit", 2, "filteredLimit"),
    ]:
        plan = table.plan(where, limit=limit)
        assert (plan.skipping, len(plan.files), plan.kind) == (branch, files, kind), where
    plan = table.plan("x < 15 AND p = 'q1'")
    assert [(s.files, s.rows, s.logical_rows) for s in (plan.sizes.total, plan.sizes.partition, plan.sizes.scan)] == [(4, 40, 40), (2, 20, 20), (1, 10, 10)]
    assert len(table.plan("x < 15 AND p = 'q1'", stats_skipping=False).files) == 2
    assert table.plan("x < 15", stats_skipping=False).to_arrow().num_rows == 15
    assert table.name == f"Delta Table State with Stats #1 - {tmp_path / 't'}"
    assert table.filter_on_partitions("p = 'q1' AND x = 3").num_rows == 2
    assert table.filter_on_partitions("p = 'q1'", keep_num_records=True).column("num_records").to_pylist() == [10, 10]
    assert table.files_with_stats_for_scan("p = 'q0'").column("x.max").to_pylist() == [9, 29]
    assert table.get_specific_files_with_stats([table.all_files[2]]).column("x.min").to_pylist() == [20]
    assert table.files_and_num_records.column_names == ["path", "num_physical_records", "num_logical_records"]
    assert "x.min" not in table.with_no_stats.column_names
    assert repr(plan) == "Plan(1 of 4 files, skipping='data')"
    assert plan.unused == ()
    assert table.plan("x < 15 AND rand() < 0.5").unused == ("rand() < 0.5",)


def test_one_unknown_count_makes_a_total_unknown(tmp_path):
    log = simple(tmp_path / "t", 2)
    log.add(Written([{"x": 99, "s": "q"}], stats=None))
    sizes = ss.scan_delta(log.folder).plan("x < 10").sizes
    assert sizes.total.rows is None
    assert sizes.total.files == 3
    assert sizes.scan.bytes > 0
    assert sizes.scan.rows is None


@pytest.mark.parametrize("seed", range(20))
def test_limits_give_rows_that_match(tmp_path, seed):
    """Whatever is certain, known, deleted or empty: as many rows as there are, up to the limit, and all of them match."""
    r = np.random.default_rng(seed)
    log = Log(tmp_path / "t", delta_schema("x BIGINT"), features=("deletionVectors",))
    for _ in range(int(r.integers(1, 8))):
        n = int(r.integers(1, 20))
        rows = [{"x": int(v)} for v in r.integers(0, 30, n) // int(r.integers(1, 10))]
        dead = sorted(int(i) for i in set(r.integers(0, n, 5))) if r.random() < 0.4 else None
        log.add(Written(rows, stats=None if r.random() < 0.3 else ..., dead=dead))
    table = ss.scan_delta(log.folder)
    for where in (None, "x < 10", "x >= 2", "x = 3", "x IS NULL"):
        everything = xs(table, where)
        for limit in (0, 1, 3, 10, 1000):
            found = xs(table, where, limit=limit)
            assert table.plan(where, limit=limit).count() == len(found)
            assert len(found) == min(limit, len(everything)), (where, limit)
            rest = list(everything)
            for v in found:
                rest.remove(v)


# What was read before.


def test_the_same_version_is_read_once_and_a_newer_one_from_there_on(tmp_path, monkeypatch):
    log = simple(tmp_path / "t", 3, features=("deletionVectors",))
    first = ss.scan_delta(log.folder)
    assert ss.scan_delta(log.folder) is first
    fetched = []
    fetch = log_module.fetch
    monkeypatch.setattr(log_module, "fetch", lambda fs, folder, commits: fetched.extend(c.name for c in commits) or fetch(fs, folder, commits))
    actions = [json.loads((log.log / f"{v:020}.json").read_text().splitlines()[1])["add"] for v in (1, 2)]
    log.commit({"remove": {"path": actions[0]["path"], "dataChange": True}})
    log.add(Written([{"x": 100, "s": "z"}], path="a%20b c.parquet"))
    log.commit({"remove": {"path": actions[1]["path"], "dataChange": True}}, {"add": actions[1] | {"deletionVector": log.vector([0])}})
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
    metadata = {"id": "a", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(described), "partitionColumns": [], "configuration": {}}
    log.commit({"metaData": metadata})
    table = ss.scan_delta(log.folder)
    assert table.schema.names == ["x", "s", "z"]
    assert xs(table, "z IS NULL") == [*range(20)]


@pytest.mark.parametrize("described", [{"metadata": {"__COLLATIONS": {"s": "spark.UTF8_LCASE"}}}, {"type": "string collate UTF8_LCASE"}])
def test_collated_text_is_not_judged_by_its_bytes(tmp_path, described):
    schema = delta_schema("s STRING")
    schema["fields"][0] |= described
    log = Log(tmp_path / "t", schema)
    log.add(Written(pa.table({"s": ["ABC"]})))
    table = ss.scan_delta(log.folder)
    assert len(table.plan("s = 'abc'").files) == 1
    assert table.plan().to_arrow().to_pylist() == [{"s": "ABC"}]
