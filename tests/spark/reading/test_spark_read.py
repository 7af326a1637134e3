"""`read` and `plan.to_spark` return Spark's rows of the whole table, and open no file in vain.

This holds for each of the readers.
"""

import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.spark import prune, read
from tests.support.spark.compare import rows
from tests.support.spark.opened import files_opened
from tests.support.spark.session import QUIET
from tests.support.tables.delta_log import rows_of

pytestmark = pytest.mark.filterwarnings(QUIET)
NAN = float("nan")


# Parquet.


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """Write four files of ten rows, with NaN outside bounds, odd names and all kinds of types.

    The second file lacks a column.
    """
    folder = tmp_path_factory.mktemp("parquet")
    for i in range(4):
        n = range(10 * i, 10 * i + 10)
        table = pa.table(
            {
                "x": pa.array(n, pa.int32()),
                "f": [NAN if k == 15 else None if k == 16 else float(k) for k in n],
                "a.b `c`": [f"t{k}" for k in n],
                "d": pa.array([decimal.Decimal(k) / 4 for k in n], pa.decimal128(20, 2)),
                "t": pa.array([k * 86_400_000_000 for k in n], pa.timestamp("us", "UTC")),
                "w": pa.array([k * 86_400_000_000 for k in n], pa.timestamp("us")),
                "st": [
                    {"f": NAN if k == 25 else float(k), "v": [k, None]} if k % 7 else None
                    for k in n
                ],
                "m": pa.array([[("k", k)] for k in n], pa.map_(pa.string(), pa.int64())),
                "late": [k % 3 for k in n],
            }
        )
        pq.write_table(
            table.drop_columns(["late"]) if i == 1 else table, folder / f"part {i}%20[x].parquet"
        )
    return folder


PARQUET = [
    # condition, files that may match
    (None, 4),
    ("x = 12", 1),
    ("x = 1000", 0),
    ("f > 30", 4),  # every file may hold NaN
    ("f < 5", 1),
    ("f IS NULL", 1),
    ("st.f > 28", 4),
    ("`a.b ``c``` >= 't35'", 3),
    ("d BETWEEN 2.5 AND 2.75", 1),
    ("t < TIMESTAMP '1970-01-03' OR w >= TIMESTAMP_NTZ '1970-02-09'", 2),
    ("late IS NULL", 1),
    ("x % 10 = 3 AND NOT (x < 20)", 2),
    ("st IS NULL AND x > 30", 1),
    (
        "aggregate(st.v, 0L, (a, b) -> a + coalesce(b, 0)) = 11",
        4,
    ),  # only Spark understands this form
]


@pytest.fixture(scope="module")
def answers(spark, parquet):
    """Return condition -> its rows, from one query of Spark in which nothing can be skipped."""
    whole = ss.scan_parquet(parquet).plan().to_spark(spark, how="python")
    judged = whole.selectExpr(
        "*", *(f"{where or 'true'} AS c{i}" for i, (where, _) in enumerate(PARQUET))
    ).toArrow()
    return {
        where: rows_of(judged.filter(judged[f"c{i}"]).select(whole.columns))
        for i, (where, _) in enumerate(PARQUET)
    }


@pytest.mark.parametrize("how", ["native", "python"])
def test_parquet_gives_the_rows_and_schema_of_spark(spark, parquet, answers, how):
    assert answers[None] == rows_of(ss.scan_parquet(parquet).plan().to_arrow())
    schema = spark.read.parquet(str(parquet / "part 0*")).schema
    for where, most in PARQUET if how == "native" else PARQUET[::2]:
        df = read(spark, parquet, where, how=how)
        assert df.schema == schema
        assert rows(df) == answers[where], where
        if how == "native" and most:
            assert files_opened(df, ran=True) <= most, where


def test_classic_and_connect_sessions_return_the_same_rows(any_session, parquet):
    assert read(
        any_session, parquet, "x IN (3, 38) AND f > 30", columns=["late", "x"]
    ).collect() == [(2, 38)]
    assert read(
        any_session, parquet, "x IN (3, 38)", columns=["x"], how="python", order_by="x DESC"
    ).collect() == [(38,), (3,)]
    assert read(any_session, parquet, "x > 99").collect() == []


def test_conditions_of_all_kinds_return_the_same_rows(spark, parquet):
    from pyspark.sql import functions as F

    table = ss.scan_parquet(parquet)
    long = list(range(0, 100, 3))
    for where in (
        F.col("x").isin(long),
        ss.col("x").isin(long),
        [("x", "in", long)],
        f"x IN ({', '.join(map(str, long))})",
    ):
        df = read(spark, table, where, columns=["x"])
        assert sorted(r.x for r in df.collect()) == [x for x in range(40) if x % 3 == 0], where
    at = ss.PruningPredicate(
        "t >= TIMESTAMP '1970-01-03 00:00:00'", table.schema, timezone="Asia/Tokyo"
    )
    assert sorted(r.x for r in read(spark, table, at, columns=["x"]).collect()) == list(
        range(2, 40)
    )  # the third of January began earlier in its own zone
    with pytest.raises(ss.UnsupportedForm, match="as SQL text or as a Column"):
        read(spark, table, ss.call("no_such", ss.col("x")) == 1).collect()


def test_columns_that_binding_removes_can_still_be_filtered_by(any_session, parquet):
    """Spark also gets these columns, because it parses the condition as it was written."""
    for where in (
        "(x = 5 OR true) AND late = 1",
        "(X = 5 OR true) AND (soundex(`a.b ``c```) = 'T' OR true) AND late = 1",
    ):
        found = read(any_session, str(parquet), where, columns=["late"])
        assert found.columns == ["late"] and found.count() == 9


@pytest.mark.parametrize(
    "key, value, where",
    [
        ("parser.escapedStringLiterals", "true", r"`a.b ``c``` = 't\x31'"),
        ("ansi.doubleQuotedIdentifiers", "true", '"x" = 5'),
        ("timestampType", "TIMESTAMP_NTZ", "w < TIMESTAMP '1970-01-02'"),
    ],
)
@pytest.mark.filterwarnings("ignore:The SQL config .* has been deprecated")
def test_a_condition_is_refused_if_the_session_parses_it_differently(
    key, value, where, any_session, parquet
):
    any_session.conf.set(f"spark.sql.{key}", value)
    try:
        with pytest.raises(ss.UnsupportedForm, match=key):
            read(any_session, str(parquet), where)
        assert read(any_session, str(parquet)).count() == 40
        df = any_session.read.parquet(str(parquet)).where(where)
        assert prune(df).count() == df.count()
    finally:
        any_session.conf.unset(f"spark.sql.{key}")


def test_rows_come_in_order_up_to_the_limit(spark, parquet):
    for how in ("native", "python"):
        df = read(
            spark,
            parquet,
            "x > 3",
            columns=["x"],
            order_by="f DESC NULLS LAST, x",
            limit=3,
            how=how,
        )
        assert [r.x for r in df.collect()] == [15, 39, 38]
        assert read(spark, parquet, "x >= 10", limit=7, how=how).count() == 7
        assert read(spark, parquet, limit=0, how=how).count() == 0


def test_files_are_looked_up_by_the_driver(spark, tmp_path):
    """Many named files start no listing job, and the setting is restored afterwards."""
    for i in range(40):
        pq.write_table(pa.table({"x": [i]}), tmp_path / f"{i}.parquet")
    setting = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before, tracker = spark.conf.get(setting), spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("listing", "")
    df = read(spark, tmp_path, "x < 38")
    assert tracker.getJobIdsForGroup("listing") == [] and spark.conf.get(setting) == before
    assert df.count() == 38 and tracker.getJobIdsForGroup("listing")


def test_columns_are_widened_to_the_types_of_all_files(spark, tmp_path):
    pq.write_table(
        pa.table({"x": pa.array([1, 2], pa.int32()), "U": pa.array([1, 255], pa.uint8())}),
        tmp_path / "1.parquet",
    )
    pq.write_table(
        pa.table({"x": [2.5, 2**53], "u": pa.array([3, 4], pa.uint8())}), tmp_path / "2.parquet"
    )
    table = ss.scan_parquet(tmp_path)
    for where in (None, "x > 1.5", "u > 200"):
        assert rows(read(spark, table, where)) == rows_of(table.plan(where).to_arrow())
    with pytest.raises(
        ss.UnsupportedForm, match=r"column 'x', which is int32 in .* and double in the table"
    ):
        read(spark, table, how="native")
    assert sorted(r.U for r in read(spark, table, columns=["U"], how="native").collect()) == [
        1,
        3,
        4,
        255,
    ]


def test_int96_and_dictionaries_are_read_as_spark_reads_them(spark, tmp_path):
    table = pa.table(
        {
            "t": pa.array([0, 86_400_000_001], pa.timestamp("us")),
            "s": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "1.parquet", use_deprecated_int96_timestamps=True)
    theirs = spark.read.parquet(str(tmp_path)).where("t > TIMESTAMP '1970-01-02'")
    for how in ("native", "python"):
        ours = read(spark, tmp_path, "t > TIMESTAMP '1970-01-02'", how=how)
        assert (ours.schema, rows(ours)) == (theirs.schema, rows(theirs))


def test_int96_beyond_the_range_of_arrow_is_read(spark, tmp_path):
    df = spark.sql(
        "SELECT timestamp_micros(t) AS t FROM VALUES (9223372036854775807), "
        "(9223372036800000000), (0) AS d(t)"
    ).coalesce(1)
    df.write.option("spark.sql.parquet.outputTimestampType", "INT96").mode("overwrite").parquet(
        str(tmp_path / "t")
    )
    where = "t > TIMESTAMP '2020-01-01'"
    assert read(spark, tmp_path / "t", where, how="native").count() == 2
    with pytest.raises(ss.SourceError, match="INT96 column 't'"):
        ss.scan_parquet(str(tmp_path / "t")).plan(where).to_arrow()


def test_columns_of_types_that_spark_lacks_are_refused(spark, tmp_path):
    pq.write_table(
        pa.table({"x": [1], "t": pa.array([1], pa.time64("us"))}), tmp_path / "1.parquet"
    )
    with pytest.raises(ss.UnsupportedForm, match=r"no type for the column 't', time64.*some of x"):
        read(spark, tmp_path)
    assert read(spark, tmp_path, columns=["x"]).collect() == [(1,)]
    # Spark resolves the parts that Skipstone does not understand. They may name the column.
    unknown = "ceil(t) = 1 OR soundex(x) = ''"
    with pytest.raises(ss.UnsupportedForm, match=r"without the columns .* no type: 't', time64"):
        read(spark, tmp_path, unknown, columns=["x"]).collect()
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException, match="no_such_function"):
        read(spark, tmp_path, "no_such_function(x) = 1", columns=["x"]).collect()


# Folders.


@pytest.fixture(scope="module")
def hive(tmp_path_factory, spark):
    path = tmp_path_factory.mktemp("hive") / "t"
    columns = """id x, CAST(id AS DOUBLE) f, IF(id % 5 = 0, NULL, id % 3) a,
                 DATE '2024-01-01' + CAST(id % 2 AS INT) b,
                 IF(id % 7 = 0, NULL, IF(id % 2 = 0, 'p/q %', 'r')) c,
                 TIMESTAMP '2024-01-01 00:00:00'
                 + MAKE_DT_INTERVAL(0, CAST(id % 2 * 12 AS INT)) t,
                 CAST(id % 2 + 0.25 AS DECIMAL(5,2)) d"""
    spark.sql(f"SELECT {columns} FROM range(60)").coalesce(1).write.partitionBy(
        "a", "b", "c", "t", "d"
    ).parquet(str(path))
    return path


HIVE = [
    "a = 2",
    "a IS NULL AND x > 20",
    "b > DATE '2024-01-01'",
    "c = 'p/q %' OR x < 3",
    "c IS NULL",
    "t >= TIMESTAMP '2024-01-01 06:00:00'",
    "d = 1.25",
]


def test_hive_folders_are_read_as_spark_reads_them(spark, hive):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        theirs = spark.read.parquet(str(hive))
        for i, where in enumerate(HIVE):
            native, whole = read(spark, hive, where, how="native"), theirs.where(where)
            expected = rows(whole)
            assert (native.schema, rows(native)) == (theirs.schema, expected), where
            assert files_opened(native, ran=True) <= files_opened(whole, ran=True), where
            assert i % 3 or rows(read(spark, hive, where, how="python")) == expected, where
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_hive_folders_are_read_over_connect(connect, hive):
    theirs = connect.read.parquet(str(hive))
    for where in HIVE[:3]:
        assert rows(read(connect, hive, where)) == rows(theirs.where(where)), where


def test_the_native_reader_refuses_folders_that_spark_decodes_differently(spark, tmp_path):
    (tmp_path / "k=%C3%A9").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "k=%C3%A9" / "p.parquet")
    assert read(spark, tmp_path, "k = 'é'").collect() == [(1, "é")]
    with pytest.raises(ss.UnsupportedForm, match="percent signs"):
        read(spark, tmp_path, how="native")


def test_a_folder_with_a_colon_is_read(spark, tmp_path):
    (tmp_path / "k=a:b").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "k=a:b" / "p.parquet")
    assert read(spark, tmp_path, "x = 1").collect() == [(1, "a:b")]


# Calendars.

EARLY = (
    "0001-01-01",
    "0004-02-29",
    "0999-12-31",
    "1000-02-28",
    "1582-10-04",
    "1582-10-15",
    "1899-12-31",
    "1900-01-01",
    "2024-01-01",
)
TIMES = (
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.int96RebaseModeInWrite",
)


@pytest.mark.parametrize("kind", ["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
def test_days_and_times_of_the_old_calendar_are_read_as_spark_reads_them(
    spark, tmp_path, kind, mode
):
    for key, setting in zip(TIMES, (kind, mode, mode), strict=True):
        spark.conf.set(key, setting)
    try:
        values = ", ".join(
            f"(DATE '{d}', TIMESTAMP '{d} 12:34:56.789', TIMESTAMP_NTZ '{d} 01:02:03')"
            for d in EARLY
        )
        spark.sql(f"SELECT * FROM VALUES {values}, (NULL, NULL, NULL) AS v(d, t, n)").coalesce(
            1
        ).write.parquet(str(tmp_path / "t"))
    finally:
        for key in TIMES:
            spark.conf.unset(key)
    table = ss.scan_parquet(tmp_path / "t")
    assert rows_of(table.plan().to_arrow()) == rows(spark.read.parquet(str(tmp_path / "t")))
    for d in EARLY:
        assert table.plan(f"d = DATE '{d}' AND CAST(t AS DATE) = DATE '{d}'").count() == 1


def test_times_of_the_old_calendar_are_read_in_another_zone(spark, tmp_path):
    for key, setting in (
        (TIMES[0], "TIMESTAMP_MICROS"),
        (TIMES[1], "LEGACY"),
        ("spark.sql.session.timeZone", "America/New_York"),
    ):
        spark.conf.set(key, setting)
    try:
        spark.sql(
            "SELECT DATE '1000-01-01' d, TIMESTAMP '1850-01-01' t, NAMED_STRUCT('d', DATE "
            "'1500-01-01') s, ARRAY(DATE '1500-01-01') a, 5 x"
        ).write.parquet(str(tmp_path / "t"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        for key in TIMES[:2]:
            spark.conf.unset(key)
    table = ss.scan_parquet(tmp_path / "t")
    assert table.plan("d = DATE '1000-01-01'", columns=["x"]).count() == 1
    assert table.plan("s.d = DATE '1500-01-01'").count() == 1
    for column in ("t", "a"):
        with pytest.raises(ss.SourceError, match=f"{column}.*Julian calendar"):
            table.plan(columns=[column]).to_arrow()
