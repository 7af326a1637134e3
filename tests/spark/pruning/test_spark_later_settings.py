"""Settings that count where files are read: of a later time, or of the session of a scan."""

import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone.spark as sks
from skipstone.bindings.spark.pruning import context
from tests.support.spark.automatic import enabled, settings
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

CASE = "spark.sql.caseSensitive"
REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
IDS = "spark.sql.parquet.fieldId.read.enabled"
POLICY = "spark.sql.legacy.timeParserPolicy"
ZONE = "spark.sql.session.timeZone"
INT96_REBASE = (
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.legacy.parquet.int96RebaseModeInRead",
)
INT96_SHIFT = "spark.sql.parquet.int96TimestampConversion"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of two files, which differ in everything that these settings concern."""
    folder = tmp_path_factory.mktemp("later")
    days = dt.date(1582, 10, 1), dt.date(2000, 1, 1)
    times = [dt.datetime(2024, 1, 1, 0, 0, 0, micros, tzinfo=dt.UTC) for micros in (500_000, 0)]
    for k, (x, a, b) in enumerate((("x", 1, 2), ("X", 2, 1))):
        ids = {"a": a, "b": b}
        values = {
            x: pa.array([k + 1], pa.int32()),
            "d": pa.array([days[k]]),
            "t": pa.array([times[k]], pa.timestamp("us", "UTC")),
            "a": pa.array([a * 100], pa.int64()),
            "b": pa.array([b * 100], pa.int64()),
            "k": pa.array([k], pa.int64()),
        }
        schema = pa.schema(
            pa.field(name, v.type, metadata={"PARQUET:field_id": str(ids.get(name, 10 + i))})
            for i, (name, v) in enumerate(values.items())
        )
        file = pa.table(list(values.values()), schema)
        pq.write_table(file, folder / f"{k}.parquet", store_schema=False)
    return str(folder)


def reading(spark, folder):
    """Return the files as a DataFrame whose columns a and b have ids."""
    from pyspark.sql import types as T

    kinds = {"x": T.IntegerType(), "d": T.DateType(), "t": T.TimestampType()}
    plain = [T.StructField(name, kind) for name, kind in kinds.items()]
    with_ids = [
        T.StructField(name, T.LongType(), metadata={"parquet.field.id": i})
        for i, name in enumerate("ab", 1)
    ]
    schema = T.StructType([*plain, *with_ids, T.StructField("k", T.LongType())])
    return spark.read.schema(schema).parquet(folder)


def test_java_watches_what_python_asks():
    """The settings stand in `SettingsWatch.java`, too."""
    java = Path(context.__file__).parents[1] / "java/files/SettingsWatch.java"
    keys = re.findall(r'"(spark\.sql\.[\w.]+)"', java.read_text(encoding="utf-8"))
    asked = {*context.USUAL_SETTINGS, context.CASE_SENSITIVE, context.READS_IDS, POLICY, ZONE}
    # Times of type INT96 have no statistics, so nothing else depends on these.
    assert sorted(keys) == sorted({*asked, *INT96_REBASE, INT96_SHIFT})


def rows(df):
    return sorted(r.k for r in df.collect())


#    a setting, its values when files are judged and when they are read, a condition, its rows then
CASES = [
    (CASE, "false", "true", "x IS NULL", [1]),
    (CASE, "false", "true", "coalesce(x, 7) = 7", [1]),
    (CASE, "true", "false", "x = 2", [1]),
    (REBASE, "CORRECTED", "LEGACY", "d < DATE '1582-10-01'", [0]),
    (REBASE, "CORRECTED", "LEGACY", "d = DATE '1582-09-21'", [0]),
    (REBASE, "LEGACY", "CORRECTED", "d = DATE '1582-10-01'", [0]),
    (IDS, "false", "true", "abs(a) = 100", [0, 1]),
    (IDS, "true", "false", "abs(a) = 100", [0]),
    (POLICY, "CORRECTED", "LEGACY", "date_format(t, 'S') = '500'", [0]),
    (POLICY, "LEGACY", "CORRECTED", "date_format(t, 'S') = '5'", [0]),
]


@pytest.mark.parametrize("key, early, late, condition, expected", CASES)
def test_a_setting_that_changes_after_prune(spark, folder, key, early, late, condition, expected):
    """The files to read depend on the setting, so they must not outlast it."""
    with settings(spark, {key: early}):
        plain = reading(spark, folder).where(condition)
        small = sks.prune(reading(spark, folder).where(condition))
        with enabled(spark):
            planned = reading(spark, folder).where(condition)
            planned._jdf.queryExecution().executedPlan()
        before = small.inputFiles()
    with settings(spark, {key: late}):
        assert rows(plain) == expected
        assert rows(small) == expected
        assert rows(planned) == expected
        assert len(small.inputFiles()) == 2
    with settings(spark, {key: early}):
        assert small.inputFiles() == before


#    a condition on the table `zoned`, its rows where New York's clocks show the partitions' times
IN_NEW_YORK = [
    ("p = TIMESTAMP '2024-01-01 05:00:00Z' OR k = 3", [1, 3]),
    ("abs(k - 2) = 1 OR p > TIMESTAMP '2024-01-01 09:30:00Z'", [1, 2, 3]),
]


@pytest.fixture(scope="module")
def zoned(spark):
    """Create a table of three partitions, whose times have no zone in the catalog."""
    spark.sql("CREATE TABLE zoned (k INT, p TIMESTAMP) USING parquet PARTITIONED BY (p)")
    for k, hour in ((1, 0), (2, 5), (3, 9)):
        spark.sql(f"INSERT INTO zoned VALUES ({k}, TIMESTAMP '2024-01-01 0{hour}:00:00')")
    yield
    spark.sql("DROP TABLE zoned")


@pytest.mark.parametrize("condition, expected", IN_NEW_YORK)
def test_times_of_partitions_in_a_later_zone(spark, zoned, condition, expected):
    """A catalog's partitions are listed anew in each query, in the session's zone of that time."""
    query = f"SELECT k FROM zoned WHERE {condition}"
    plain, small = spark.sql(query), sks.prune(spark.sql(query))
    with enabled(spark):
        planned = spark.sql(query)
        planned._jdf.queryExecution().executedPlan()
    with settings(spark, {ZONE: "America/New_York"}):
        assert rows(plain) == expected
        assert rows(small) == expected
        assert rows(planned) == expected


@pytest.mark.parametrize("key, _, late, condition, expected", [c for c in CASES if c[0] != POLICY])
def test_a_scan_of_another_session(spark, folder, key, _, late, condition, expected):
    """A global view's files are read under the settings of the session that made it."""
    other = spark.newSession()
    other.conf.set(key, late)
    reading(other, folder).createOrReplaceGlobalTempView("later")
    try:
        plain = spark.table("global_temp.later").where(condition)
        assert rows(plain) == expected
        assert rows(sks.prune(plain)) == expected
        with enabled(spark):
            assert rows(spark.table("global_temp.later").where(condition)) == expected
        other.conf.unset(key)
        small = sks.prune(plain)
        other.conf.set(key, late)
        assert rows(small) == expected
    finally:
        spark.catalog.dropGlobalTempView("later")


def test_other_settings_may_change(spark, folder):
    """Files stay left out if a setting changes that does not concern them."""
    small = sks.prune(reading(spark, folder).where("k = 1"))
    with settings(spark, {"spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "3"}):
        assert len(small.inputFiles()) == 1
        assert rows(small) == [1]


def test_keys_of_a_join_under_another_setting(spark, folder, tmp_path):
    """The files of the build side count, too: it has other keys under another setting."""
    for k in range(4):
        pq.write_table(pa.table({"v": pa.array([k], pa.int32())}), tmp_path / f"{k}.parquet")
    fact = spark.read.parquet(str(tmp_path))
    dim = reading(spark, folder)

    def values(df):
        return sorted(r.v for r in df.select("v").collect())

    with settings(spark, {CASE: "true"}):
        plain = fact.join(dim.where("k < 5"), fact.v == dim.x)
        small = sks.prune_join(fact, dim.where("k < 5"), fact.v == dim.x)
        automatic = sks.prune(plain)
        assert values(plain) == values(small) == values(automatic) == [1]
    assert values(plain) == values(small) == values(automatic) == [1, 2]


#    a setting, its values when keys are collected and when files are read, other settings, the day
#    and hour of the key, and the shift of the later reading in hours
INT96_CASES = [
    (INT96_REBASE[0], "CORRECTED", "LEGACY", {}, dt.datetime(1500, 2, 5), -9 * 24),
    (INT96_REBASE[0], "LEGACY", "CORRECTED", {}, dt.datetime(1500, 2, 5), 9 * 24),
    (INT96_SHIFT, "false", "true", {ZONE: "Asia/Tokyo"}, dt.datetime(2024, 2, 5), -9),
    (INT96_SHIFT, "true", "false", {ZONE: "Asia/Tokyo"}, dt.datetime(2024, 2, 5), 9),
    (ZONE, "UTC", "Asia/Tokyo", {INT96_SHIFT: "true"}, dt.datetime(2024, 2, 5), -9),
]


@pytest.mark.parametrize("key, early, late, always, at, shift", INT96_CASES)
def test_int96_keys_under_another_setting(spark, tmp_path, key, early, late, always, at, shift):
    """Times of type INT96 have no statistics, but may be the keys of a build side."""
    hours = dt.timedelta(hours=abs(shift))
    times = [(at + i * hours).replace(tzinfo=dt.UTC) for i in (-1, 0, 1)]
    (tmp_path / "fact").mkdir()
    for k, time in enumerate(times):
        one = pa.table({"t": pa.array([time], pa.timestamp("us", "UTC")), "k": [k]})
        pq.write_table(one, tmp_path / f"fact/{k}.parquet")
    stored = {"d": pa.array([times[1]], pa.timestamp("us", "UTC")), "v": [1]}
    pq.write_table(pa.table(stored), tmp_path / "dim", use_deprecated_int96_timestamps=True)

    with settings(spark, always | {key: early}):
        fact = spark.read.parquet(str(tmp_path / "fact"))
        dim = spark.read.parquet(str(tmp_path / "dim")).where("v = 1")
        plain = fact.join(dim, fact.t == dim.d)
        joined = sks.prune_join(fact, dim, {"t": "d"})
        small = sks.prune(fact.join(dim, fact.t == dim.d))
        with enabled(spark):
            planned = fact.join(dim, fact.t == dim.d)
            planned._jdf.queryExecution().executedPlan()
        before = rows(fact.join(dim, fact.t == dim.d))
        assert len(before) == 1 and len(joined.inputFiles()) == len(small.inputFiles()) == 2
    with settings(spark, always | {key: late}):
        assert rows(plain) == [before[0] + (1 if shift > 0 else -1)]
        assert rows(joined) == rows(small) == rows(planned) == rows(plain)


def test_names_in_another_case_through_connect(connect, folder):
    """No condition can ask for the setting, so files whose names differ in case are all read."""
    with settings(connect, {CASE: "false"}):
        df = reading(connect, folder)
        small = sks.prune(df.where("x IS NULL"))
        assert rows(small) == []
        assert sks.pruned(sks.prune(df.where("k = 1"))).kept == 1
    with settings(connect, {CASE: "true"}):
        assert rows(small) == rows(df.where("x IS NULL")) == [1]
