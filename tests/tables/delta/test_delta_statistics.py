"""Statistics and partition values of Delta logs: their meaning, and unusable ones."""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from tests.support.tables.delta_log import Log, Written, delta_schema, simple, xs
from tests.support.tables.delta_statistics import BAD

SIMPLE = delta_schema("x BIGINT, s STRING")


# Unusable statistics affect only their own file, or their own column.


@pytest.mark.parametrize("bad", BAD)
def test_bad_statistics_affect_one_file(tmp_path, bad):
    log = simple(tmp_path / "t", 3)
    log.add(
        Written([{"x": k, "s": "q"} for k in range(10)], stats=bad), Written([{"x": 500, "s": "r"}])
    )
    table = ss.scan_delta(log.folder)
    assert xs(table, "x = 5") == [5, 5]
    kept = len(table.plan("x = 500").files)
    assert kept in (1, 2)
    assert len(table.plan("x = 15").files) <= 2
    assert table.plan("x < 0").to_arrow().num_rows == 0


def test_a_missing_statistic_affects_its_own_column(tmp_path):
    log = Log(tmp_path / "t", delta_schema("a INT, b INT"))
    log.add(
        Written(
            [{"a": 1, "b": 1}],
            stats={
                "numRecords": 1,
                "minValues": {"a": 1},
                "maxValues": {"a": 1},
                "nullCount": {"a": 0},
            },
        )
    )
    table = ss.scan_delta(log.folder)
    # Delta keeps the file: one missing statistic disables all of them (delta#6755).
    assert not table.plan("a = 2 AND b = 5").files
    assert table.plan("b = 5", footers=0).files


@pytest.mark.parametrize("engine", ["Apache-Spark/4.0.0 Delta-Lake/4.0.0", "delta-rs:0.30", None])
def test_nan_is_left_out_of_bounds_by_some_writers(tmp_path, engine):
    """Spark's maximum is NaN if the column holds one; Arrow's is not (delta#7101)."""
    log = Log(tmp_path / "t", delta_schema("f DOUBLE"))
    log.engine = engine
    nan = {
        "numRecords": 2,
        "minValues": {"f": 1.0},
        "maxValues": {"f": "NaN" if engine and "Spark" in engine else 2.0},
        "nullCount": {"f": 0},
    }
    log.add(Written([{"f": 1.0}, {"f": math.nan}], stats=nan))
    log.add(Written([{"f": 1.0}, {"f": 2.0}]))
    plan = ss.scan_delta(log.folder).plan("f > 5")
    assert plan.to_arrow().num_rows == 1
    assert len(plan.files) == (1 if engine and "Spark" in engine else 2)


def test_floats_that_were_widened_keep_the_bound_of_the_narrow_type(tmp_path):
    described = delta_schema("f DOUBLE")
    described["fields"][0]["metadata"]["delta.typeChanges"] = [
        {"fromType": "float", "toType": "double"}
    ]
    log = Log(tmp_path / "t", described, features=("typeWidening",))
    value = float(np.float32(1.1))
    log.add(
        Written(
            [{"f": value}],
            stats={
                "numRecords": 1,
                "minValues": {"f": 1.1},
                "maxValues": {"f": 1.1},
                "nullCount": {"f": 0},
            },
        )
    )
    table = ss.scan_delta(log.folder)
    assert table.plan(ss.col("f") == value).to_arrow().num_rows == 1
    assert table.plan("f > 1.1D").files


def test_times_before_1900_and_cut_ones(tmp_path):
    """Maxima are cut to ms; Delta 3.2 and 3.3 also cut seconds of offsets (delta#5249)."""
    log = Log(tmp_path / "t", delta_schema("t TIMESTAMP"))
    at = dt.datetime(1850, 6, 1, 12, 0, 30, tzinfo=dt.UTC)
    stamp = {
        "numRecords": 1,
        "minValues": {"t": "1850-06-01T12:00:00.000Z"},
        "maxValues": {"t": "1850-06-01T12:00:00.000Z"},
        "nullCount": {"t": 0},
    }
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
    ddl = (
        "x INT, i INT, d DATE, m DECIMAL(5,2), b BOOLEAN, s STRING, f DOUBLE, t TIMESTAMP, "
        "n TIMESTAMP_NTZ"
    )
    names = ["i", "d", "m", "b", "s", "f", "t", "n"]
    log = Log(tmp_path / "t", delta_schema(ddl), names, features=("timestampNtz",))
    values = {
        "i": "7",
        "d": "2024-02-29",
        "m": "1.50",
        "b": "true",
        "s": "a b",
        "f": "NaN",
        "t": "2024-01-01 00:30:00",
        "n": "2024-01-01 00:30:00.5",
    }
    log.add(
        Written([{"x": 1}], values),
        Written([{"x": 2}], dict.fromkeys(names)),
        Written([{"x": 3}], dict.fromkeys(names, "")),
    )
    log.add(
        Written(
            [{"x": 4}],
            values | {"t": "2024-01-01T00:30:00.000000Z", "s": "__HIVE_DEFAULT_PARTITION__"},
        )
    )
    table = ss.scan_delta(log.folder)
    for where, expected in {
        "i = 7": [1, 4],
        "i IS NULL": [2, 3],
        "d = DATE '2024-02-29'": [1, 4],
        "m = 1.5": [1, 4],
        "b": [1, 4],
        "NOT b": [],
        "s = 'a b'": [1],
        "f > 1e300": [1, 4],
        "isnan(f)": [1, 4],
        "n = TIMESTAMP_NTZ '2024-01-01 00:30:00.5'": [1, 4],
        "s = ''": [3],
    }.items():
        plan = table.plan(where)
        assert xs(table, where) == expected, where
        assert len(plan.files) == len(expected), where
    assert xs(table, "s IS NULL") == [2]
    assert len(table.plan("s IS NULL").files) == 2  # to other readers "" is NULL
    zone = "America/Los_Angeles"
    assert xs(table, "t = TIMESTAMP '2024-01-01 00:30:00'", timezone=zone) == [1]
    assert xs(table, "t = TIMESTAMP '2024-01-01 00:30:00Z'", timezone=zone) == [4]
    assert xs(table, "t = TIMESTAMP '2024-01-01 00:30:00'") == [1, 4]


def test_a_malformed_partition_value_is_unknown(tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, p INT"), ["p"])
    log.add(Written([{"x": 1}], {"p": "seven"}), Written([{"x": 2}], {"p": "7"}))
    table = ss.scan_delta(log.folder)
    assert len(table.plan("p = 7").files) == 2
    with pytest.raises(ss.SourceError, match="p='seven' is not of the column's type, int32"):
        table.plan("p = 7").to_arrow()


def test_paths_are_decoded_once(tmp_path):
    log = Log(tmp_path / "t", SIMPLE)
    paths = ["a b.parquet", "c%20d.parquet", "k=v%2Fw/e.parquet", "ü.parquet"]
    log.add(*(Written([{"x": i, "s": "q"}], path=p) for i, p in enumerate(paths)))
    # The same file, with a space in place of its percent encoding.
    log.commit({"remove": {"path": "a b.parquet", "dataChange": True}})
    table = ss.scan_delta(log.folder)
    assert sorted(table.all_files) == sorted(f"{log.folder}/{p}" for p in paths[1:])
    assert xs(table) == [1, 2, 3]


@pytest.mark.parametrize(
    "described",
    [
        {"metadata": {"__COLLATIONS": {"s": "spark.UTF8_LCASE"}}},
        {"type": "string collate UTF8_LCASE"},
    ],
)
def test_collated_text_is_not_judged_by_its_bytes(tmp_path, described):
    schema = delta_schema("s STRING")
    schema["fields"][0] |= described
    log = Log(tmp_path / "t", schema)
    log.add(Written(pa.table({"s": ["ABC"]})))
    table = ss.scan_delta(log.folder)
    assert len(table.plan("s = 'abc'").files) == 1
    assert table.plan().to_arrow().to_pylist() == [{"s": "ABC"}]


ARRAY = {"type": "array", "elementType": "string", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
LCASE = "string collate UTF8_LCASE"


@pytest.mark.parametrize(
    "described, rows, where",
    [
        ({"type": ARRAY, "metadata": {"__COLLATIONS": {"a.element": "spark.UTF8_LCASE"}}},
         [["ABC"]], "array_contains(a, 'abc')"),
        ({"type": {**ARRAY, "elementType": LCASE}}, [["ABC"]], "exists(a, v -> v = 'abc')"),
        ({"type": {**MAP, "valueType": LCASE}}, [[("k", "ABC")]], "a['k'] = 'abc'"),
        ({"type": {**MAP, "keyType": LCASE}}, [[("K", "ABC")]], "map_contains_key(a, 'k')"),
    ],
)  # fmt: skip
def test_collated_text_in_lists_and_maps_is_not_judged(tmp_path, described, rows, where):
    schema = delta_schema("a STRING")
    schema["fields"][0] |= described
    log = Log(tmp_path / "t", schema)
    kind = pa.list_(pa.string()) if rows == [["ABC"]] else pa.map_(pa.string(), pa.string())
    log.add(Written(pa.table({"a": pa.array(rows, kind)})))
    with pytest.warns(ss.SkipstoneWarning):
        plan = ss.scan_delta(log.folder).plan(where)
    assert len(plan.files) == 1
    with pytest.raises(ss.UnsupportedForm):
        plan.to_arrow()


@pytest.mark.parametrize(
    "stats",
    [
        {"numRecords": 0, "minValues": {"x": 5}, "maxValues": {"x": 5}, "nullCount": {"x": 0}},
        {"numRecords": 0, "minValues": {"n": {"v": 1}}},
        {"numRecords": 0, "nullCount": {"x": 2}},
        {"numRecords": 2**62, "minValues": {"x": 5}, "maxValues": {"x": 5}, "nullCount": {"x": 0}},
    ],
)
def test_an_impossible_row_count_is_unknown(tmp_path, stats):
    log = Log(tmp_path / "t", delta_schema("x INT, n STRUCT<v: INT>"))
    log.add(Written([{"x": 5, "n": {"v": 1}}], stats=stats), Written([{"x": 6, "n": {"v": 1}}]))
    log.add(
        Written(
            [], stats={"numRecords": 0, "minValues": {}, "maxValues": {}, "nullCount": {"x": 0}}
        )
    )
    table = ss.scan_delta(log.folder)
    assert table.plan("x = 5", footers=0).verdicts.tolist()[1:] == [0, 0]
    assert (xs(table, "x = 5"), table.plan("x = 5").count(), table.plan().count()) == ([5], 1, 2)
    assert table.get_stats_column("num_records").to_pylist() == [None, 1, 0]


def test_offsets_with_seconds(tmp_path):
    """Spark writes the offsets of local mean time with seconds; Arrow does not read them."""
    log = Log(tmp_path / "t", delta_schema("ts TIMESTAMP"))
    early, late = "1850-01-01T12:00:00.000-04:56:02", "1860-01-01T00:00:00.000-04:56:02"
    pairs = [
        (early, "2020-01-01T00:00:00.000-05:00"), (early, late),
        ("2024-01-01T12:00:00.000-05:00", "2024-06-01T00:00:00.000-04:00"),
        ("1850-01-01T12:00:00.000+00:17:30", "1850-01-01T12:00:00.000+00:17:30"),
        ("1850-01-01T12:00:00.000-04:56:xx", late),
    ]  # fmt: skip
    moment = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    for low, high in pairs:
        stats = {"minValues": {"ts": low}, "maxValues": {"ts": high}, "nullCount": {"ts": 0}}
        log.add(Written([{"ts": moment}], stats={"numRecords": 1, **stats}))
    table = ss.scan_delta(log.folder)
    found = {k: table.with_stats[f"ts.{k}"].to_pylist() for k in ("min", "max")}
    minute, more = dt.timedelta(minutes=1), dt.timedelta(milliseconds=1)
    assert found["min"][:2] == [dt.datetime(1850, 1, 1, 16, 56, 2, tzinfo=dt.UTC) - minute] * 2
    assert found["min"][4] is None
    zero = dt.datetime(1860, 1, 1, 4, 56, 2, tzinfo=dt.UTC) + minute + more
    assert found["max"][1] == found["max"][4] == zero
    assert found["max"][3] == dt.datetime(1850, 1, 1, 11, 42, 30, tzinfo=dt.UTC) + minute + more
    plans = {
        "year(ts) = 2024": 2, "ts > TIMESTAMP '2021-01-01 00:00:00'": 1,
        "ts < TIMESTAMP '1855-01-01 00:00:00'": 4, "ts < TIMESTAMP '1845-01-01 00:00:00'": 1,
    }  # fmt: skip
    for where, files in plans.items():
        assert len(table.plan(where, timezone="America/New_York", footers=0).files) == files, where
