"""`read` and `plan.to_spark` return Spark's rows of the whole table, and open no file in vain.

This holds for each of the readers.
"""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

import skipstone as ss
from skipstone.spark import prune, read
from tests.support.delta_log import Log, Written, delta_schema, rows_of
from tests.support.iceberg_tables import append, make, position_deletes
from tests.support.spark_opened import files_opened
from tests.support.spark_session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)
NAN = float("nan")


def rows(df):
    """Return the rows of a DataFrame as text, in which NaN equals itself."""
    return rows_of(df.toArrow())


@pytest.fixture(scope="module", params=["classic", "connect"])
def any_session(request, spark, connect):
    return spark if request.param == "classic" else connect


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
def test_parquet(spark, parquet, answers, how):
    assert answers[None] == rows_of(ss.scan_parquet(parquet).plan().to_arrow())
    schema = spark.read.parquet(str(parquet / "part 0*")).schema
    for where, most in PARQUET if how == "native" else PARQUET[::2]:
        df = read(spark, parquet, where, how=how)
        assert df.schema == schema
        assert rows(df) == answers[where], where
        if how == "native" and most:
            assert files_opened(df, ran=True) <= most, where


def test_both_kinds_of_sessions(any_session, parquet):
    assert read(
        any_session, parquet, "x IN (3, 38) AND f > 30", columns=["late", "x"]
    ).collect() == [(2, 38)]
    assert read(
        any_session, parquet, "x IN (3, 38)", columns=["x"], how="python", order_by="x DESC"
    ).collect() == [(38,), (3,)]
    assert read(any_session, parquet, "x > 99").collect() == []


def test_conditions_of_all_makes(spark, parquet):
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


def test_columns_without_which_a_condition_means_the_same(any_session, parquet):
    """Spark gets these columns, too, because it parses the condition as it was written."""
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
def test_text_that_a_session_reads_otherwise(key, value, where, any_session, parquet):
    any_session.conf.set(f"spark.sql.{key}", value)
    try:
        with pytest.raises(ss.UnsupportedForm, match=key):
            read(any_session, str(parquet), where)
        assert read(any_session, str(parquet)).count() == 40
        df = any_session.read.parquet(str(parquet)).where(where)
        assert prune(df).count() == df.count()
    finally:
        any_session.conf.unset(f"spark.sql.{key}")


def test_order_and_limit(spark, parquet):
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


def test_types_that_change_between_files(spark, tmp_path):
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


def test_int96_and_dictionaries(spark, tmp_path):
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


def test_int96_beyond_what_arrow_reads(spark, tmp_path):
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


def test_what_spark_has_no_type_for(spark, tmp_path):
    pq.write_table(
        pa.table({"x": [1], "t": pa.array([1], pa.time64("us"))}), tmp_path / "1.parquet"
    )
    with pytest.raises(ss.UnsupportedForm, match=r"no type for the column 't', time64.*some of x"):
        read(spark, tmp_path)
    assert read(spark, tmp_path, columns=["x"]).collect() == [(1,)]


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


def test_folders(spark, hive):
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


def test_folders_over_connect(connect, hive):
    theirs = connect.read.parquet(str(hive))
    for where in HIVE[:3]:
        assert rows(read(connect, hive, where)) == rows(theirs.where(where)), where


def test_folders_that_spark_reads_otherwise(spark, tmp_path):
    (tmp_path / "k=%C3%A9").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "k=%C3%A9" / "p.parquet")
    assert read(spark, tmp_path, "k = 'é'").collect() == [(1, "é")]
    with pytest.raises(ss.UnsupportedForm, match="percent signs"):
        read(spark, tmp_path, how="native")


def test_a_colon_in_a_path(spark, tmp_path):
    (tmp_path / "k=a:b").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "k=a:b" / "p.parquet")
    assert read(spark, tmp_path, "x = 1").collect() == [(1, "a:b")]


# Delta.

DDL = (
    "p DATE, x BIGINT, q TIMESTAMP, s STRING, f DOUBLE, n STRUCT<v: INT, f: DOUBLE>, d "
    "DECIMAL(12,2), k INT"
)


def delta_log(folder, **options):
    log = Log(folder, delta_schema(DDL), ["q", "p", "k"], **options)
    dead = "deletionVectors" in options.get("features", ())
    for i in range(6):
        data = [
            {
                "x": 10 * i + k,
                "s": f"t{k}é",
                "f": NAN if k == 3 else float(k),
                "n": {"v": k, "f": NAN} if k % 4 else None,
                "d": f"{k}.25",
            }
            for k in range(10)
        ]
        values = {
            "p": None if i == 2 else f"2024-02-0{i + 1}",
            "q": "" if i == 3 else f"2024-01-01 0{i}:00:00.000001",
            "k": str(i % 2),
        }
        log.add(
            Written(
                data,
                values,
                dead=[0, 5] if dead and i in (1, 4) else None,
                path=f"odd name %[{i}].parquet" if i == 5 else None,
            )
        )
    return log


DELTA = [
    None, "x BETWEEN 25 AND 34", "p IS NULL", "q IS NULL AND f > 7",
    "p >= DATE '2024-02-02' AND x % 2 = 0", "q > TIMESTAMP '2024-01-01 03:30:00'",
    "n.f > 3", "n IS NULL AND k = 1", "d = 3.25 OR s = 't9é'", "x = 10", "k = 0 AND x > 1000",
    "NOT (f <= 8)",
]  # fmt: skip


@pytest.mark.parametrize(
    "options, how, zone, asked",
    [
        ({}, "native", "UTC", DELTA),
        ({}, "native", "Asia/Kolkata", DELTA[2:6]),
        ({}, "python", "Asia/Kolkata", DELTA[::3]),
        ({"features": ("deletionVectors",)}, "auto", "UTC", DELTA[::2]),
        ({"mapping": "name"}, "auto", "UTC", DELTA[1::2]),
        ({"mapping": "id"}, "auto", "UTC", DELTA[::4]),
    ],
)
def test_delta(spark, tmp_path, options, how, zone, asked):
    table = ss.scan_delta(delta_log(tmp_path / "t", **options).folder)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        schema = table.plan(timezone=zone).to_spark(spark, how="python").schema
        assert schema.names == table.schema.names
        for where in asked:
            df = read(spark, table, where, how=how)
            assert rows(df) == rows_of(table.plan(where, timezone=zone).unpruned().to_arrow()), (
                where
            )
            assert df.schema == schema
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_delta_over_connect(connect, tmp_path):
    table = ss.scan_delta(delta_log(tmp_path / "t", features=("deletionVectors",)).folder)
    for where in DELTA[1:5]:
        assert rows(read(connect, table, where)) == rows_of(table.plan(where).to_arrow()), where


def test_only_files_with_deletes_go_to_workers(spark, tmp_path):
    table = ss.scan_delta(delta_log(tmp_path / "t", features=("deletionVectors",)).folder)
    assert files_opened(read(spark, table, "x < 30")) == 2  # one of three has deleted rows
    with pytest.raises(ss.UnsupportedForm, match=r"1 of 3 files correctly: deletion vectors.*auto"):
        read(spark, table, "x < 30", how="native")
    assert files_opened(read(spark, table, "x < 5", how="native")) == 1


@pytest.mark.parametrize("mode", ["name", "id"])
def test_refusals_name_the_feature(spark, tmp_path, mode):
    log = delta_log(tmp_path / "t", mapping=mode)
    with pytest.raises(ss.UnsupportedForm, match=f"column mapping by {mode}"):
        read(spark, log.folder, how="native")


def test_many_partitions(spark, tmp_path):
    log = Log(tmp_path / "t", delta_schema("x INT, p INT"), ["p"])
    log.add(*(Written([{"x": i}], {"p": str(i)}) for i in range(80)))
    table = ss.scan_delta(log.folder)
    assert read(spark, table, "p < 70").count() == 70
    assert read(spark, table, "p < 10", how="native").count() == 10
    with pytest.raises(ss.UnsupportedForm, match="70 combinations of partition values"):
        read(spark, table, "p < 70", how="native")


def test_files_that_spark_does_not_list(spark, tmp_path):
    log = Log(tmp_path / "[t] {u}", delta_schema("x INT"))
    log.add(
        *(
            Written([{"x": i}], path=name)
            for i, name in enumerate(
                ["_hidden.parquet", ".dot.parquet", "a:b.parquet", "_k=1/p*?.parquet"]
            )
        )
    )
    assert sorted(read(spark, log.folder, "x >= 0").collect()) == [(0,), (1,), (2,), (3,)]
    assert read(spark, log.folder, "x = 3", how="native").collect() == [(3,)]
    for x, said in enumerate(["begins with '_'", "begins with '_'", "a colon"]):
        with pytest.raises(ss.UnsupportedForm, match=said):
            read(spark, log.folder, f"x = {x}", how="native")


def test_partition_values_of_every_type(spark, tmp_path):
    kinds = {
        "b BOOLEAN": "true", "i8 TINYINT": "-5", "i64 BIGINT": str(2**60), "f FLOAT": "1.1",
        "g DOUBLE": "NaN", "h DOUBLE": "-Infinity", "d DATE": "0001-01-01",
        "e DATE": "9999-12-31", "c DECIMAL(38,10)": "1234567890123456789012345678.0123456789",
        "s STRING": "a 'b' \\ % é", "t TIMESTAMP": "1500-01-01 00:00:00",
        "n TIMESTAMP_NTZ": "9999-12-31 23:59:59.999999", "y BINARY": "abc",
    }  # fmt: skip
    log = Log(
        tmp_path / "t", delta_schema("x INT, " + ", ".join(kinds)), [k.split()[0] for k in kinds]
    )
    values = {k.split()[0]: v for k, v in kinds.items()}
    log.add(Written([{"x": 1}], values), Written([{"x": 2}], dict.fromkeys(values)))
    table = ss.scan_delta(log.folder)
    native, ours = (read(spark, table, how=how).toArrow() for how in ("native", "python"))
    assert native.schema == ours.schema and rows_of(native) == rows_of(ours) == rows_of(
        table.plan().to_arrow()
    )


def test_char_is_padded(spark, tmp_path):
    schema = delta_schema("c STRING, x INT")
    schema["fields"][0]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "char(4)", "comment": "said"}
    log = Log(tmp_path / "t", schema, features=("deletionVectors",))
    log.add(Written([{"c": "ab", "x": 1}, {"c": "abcd", "x": 2}]))
    for how in ("native", "python"):
        df = read(spark, log.folder, "c = 'ab'", how=how)
        assert df.collect() == [("ab  ", 1)] and df.schema["c"].metadata["comment"] == "said"


def test_a_plan_in_another_zone_is_refused(spark, tmp_path):
    table = ss.scan_delta(delta_log(tmp_path / "t").folder)
    with pytest.raises(ss.SourceError, match="plan with timezone='UTC'"):
        table.plan("x = 1", timezone="Asia/Tokyo").to_spark(spark)


# Iceberg.


@pytest.fixture
def iceberg(tmp_path):
    schema = Schema(
        NestedField(1, "x", LongType()),
        NestedField(2, "p", StringType()),
        NestedField(3, "t", TimestamptzType()),
    )
    source = make(
        tmp_path, schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    )
    arrow = pa.schema([("x", pa.int64()), ("p", pa.string()), ("t", pa.timestamp("us", "UTC"))])
    for k, p in enumerate("aba"):
        at = [dt.datetime(2024, 1, k + 1, h, tzinfo=dt.UTC) for h in range(10)]
        source = append(
            source, pa.table([list(range(k * 10, k * 10 + 10)), [p] * 10, at], schema=arrow)
        )
    return source


def test_iceberg(any_session, iceberg):
    table = ss.scan_iceberg(iceberg)
    for where, how in [
        (None, "native"),
        ("p = 'a' AND x % 2 = 0", "python"),
        ("t >= TIMESTAMP '2024-01-03'", "native"),
        ("x > 99", "python"),
    ]:
        assert rows(read(any_session, iceberg, where, how=how)) == rows_of(
            table.plan(where).to_arrow()
        ), where


def test_iceberg_deletes_and_evolution(spark, iceberg):
    path = ss.scan_iceberg(iceberg).plan("x = 3").files[0]
    source = position_deletes(iceberg, [(path, 3)], ("a",))
    with pytest.raises(ss.UnsupportedForm, match="1 of 3 files correctly: deletes"):
        read(spark, source, how="native")
    df = read(spark, source, "x < 15")
    assert files_opened(df) == 1 and sorted(r.x for r in df.collect()) == [
        x for x in range(15) if x != 3
    ]
    with source.update_schema() as change:
        change.rename_column("x", "y")
    with pytest.raises(ss.UnsupportedForm, match="schema evolution"):
        read(spark, source, how="native")
    assert sorted(r.y for r in read(spark, source, "y < 5", columns=["y"]).collect()) == [
        0,
        1,
        2,
        4,
    ]


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
def test_days_and_times_of_the_old_calendar(spark, tmp_path, kind, mode):
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


def test_times_of_the_old_calendar_in_another_zone(spark, tmp_path):
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
