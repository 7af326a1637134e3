"""Pruned reads of odd tables lose no row; what cannot be judged stays as it is, with a reason."""

import datetime as dt
import os
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.spark.session.jvm import door_of
from skipstone.bindings.spark.session.metrics import files_opened
from skipstone.bindings.spark.session.session import is_connect
from skipstone.spark import prune, pruned
from tests.support.spark_reads import rows_of, write_files
from tests.support.spark_session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(str(tmp_path_factory.mktemp("odd") / "t"))


@pytest.fixture
def setting(spark):
    """Return a function that changes a setting for one test."""
    before = {}

    def put(key, value):
        before.setdefault(key, spark.conf.get(key))
        spark.conf.set(key, value)

    yield put
    for key, value in before.items():
        spark.conf.set(key, value)


def write(path, **columns):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pq.write_table(pa.table(columns), path)
    os.utime(path, (1_600_000_000, 1_600_000_000))


def same(plain, files):
    """Prune a DataFrame, compare its rows, and return the report.

    `files` is (files kept, all files), or None if the DataFrame must stay as it is.
    """
    small = prune(plain)
    found = pruned(small)
    if files is None:
        assert small is plain, found
        return found
    assert (found.kept, found.files) == files and small is not plain, found
    assert rows_of(small) == rows_of(plain)
    assert small.schema == plain.schema
    if not is_connect(plain):  # a client sees the files of a source before any condition
        assert len(small.inputFiles()) < len(plain.inputFiles())
    return found


def no_match_is_lost(df, wheres):
    """Check that every file with a matching row is kept, and that some condition prunes a file.

    Spark finds the matching rows without any filter.
    """
    fewer = 0
    truth = df.selectExpr(
        "_metadata.file_name file", *(f"{w} AS c{i}" for i, w in enumerate(wheres))
    ).collect()
    for i, where in enumerate(wheres):
        small = prune(df.where(where))
        fewer += len(small.inputFiles()) < len(df.inputFiles())
        assert {row["file"] for row in truth if row[f"c{i}"]} <= {
            os.path.basename(unquote(p)) for p in small.inputFiles()
        }, (where, pruned(small))
    assert fewer, "nothing was pruned"


# What is given.


def test_where_is_added(spark, folder):
    from pyspark.sql import functions as F

    df = spark.read.parquet(folder)
    expected = rows_of(df.where("i = 42"))
    for where in (F.col("i") == 42, df.i == 42, F.expr("i = 42"), "i = 42"):
        small = prune(df, where)
        assert rows_of(small) == expected and pruned(small).kept == 2
    with pytest.raises(ss.PredicateError, match="where is int"):
        prune(df, 5)
    with pytest.raises(ss.PredicateError, match="does not come from prune"):
        pruned(df.where("i > 1"))


def test_pruned_frames_go_on(spark, folder):
    """The DataFrame that prune returns can be filtered, joined and pruned again."""
    df = spark.read.parquet(folder)
    small = prune(df.where("i < 50"))
    again = small.where("i > 30")
    assert rows_of(again) == rows_of(df.where("i < 50 AND i > 30"))
    smaller = prune(again)
    assert rows_of(smaller) == rows_of(again) and pruned(smaller).kept == 3
    assert rows_of(small.join(df.where("i > 40"), "id")) == rows_of(
        df.where("i < 50").join(df.where("i > 40"), "id")
    )
    assert rows_of(small.where(df.i == 3)) == rows_of(df.where("i = 3"), (1, 2))
    both = prune(df.where("i = 5")).union(
        prune(df.where("i = 75"))
    )  # scans of different files of one table are different scans
    assert both.count() == 2
    assert "2 of 12 files, where i IS NOT NULL AND i = 5" in str(pruned(prune(df.where("i = 5"))))


def test_what_is_left_alone(spark, folder, tmp_path, setting):
    df = spark.read.parquet(folder)
    cached = df.where("i < 60").cache()
    cached.count()
    assert (
        prune(cached.where("i = 42")).count() == 1 and pruned(prune(cached.where("i = 42"))) == ()
    )
    assert same(cached.where("i = 42").union(df.where("i = 3")), None)[0].why.startswith(
        "Spark does not read these files everywhere"
    )
    cached.unpersist()
    df.limit(1).select("i", "s").write.csv(str(tmp_path / "csv"), header=True)
    assert (
        "CSVFileFormat"
        in same(spark.read.csv(str(tmp_path / "csv"), header=True).where("i = 5"), None)[0].why
    )
    stream = spark.readStream.schema(df.schema).parquet(folder).where("i = 5")
    assert prune(stream) is stream and pruned(stream)[0].why == "it is streaming"
    assert pruned(prune(spark.range(5).where("id = 3"))) == ()
    setting("spark.sql.sources.useV1SourceList", "csv")
    assert pruned(prune(spark.read.parquet(folder).where("i = 42"))) == ()
    setting("spark.sql.sources.useV1SourceList", "parquet")
    setting("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    assert "datetimeRebaseModeInRead is LEGACY" in same(df.where("i = 42"), None)[0].why


def test_long_conditions(spark, folder):
    df = spark.read.parquet(folder)
    for where, kept in (
        (" OR ".join(f"i = {k} AND l > 0" for k in range(300, 400)), 1),
        (f"i IN ({', '.join(map(str, range(20, 1000)))})", 9),
    ):
        small = prune(df.where(where))
        assert pruned(small).kept == kept and small.count() == df.where(where).count()
    deep = "i" + " + 1" * 60 + " > 0"
    assert pruned(prune(df.where(f"{deep} AND i = 42"))).files == 12


def test_many_threads(spark, folder):
    df = spark.read.parquet(folder)
    with ThreadPoolExecutor(4) as pool:
        kept = list(
            pool.map(lambda k: pruned(prune(df.where(f"i = {k}"))).kept, [5, 42, 61, 9] * 5)
        )
    assert kept == [2, 2, 2, 1] * 5


def test_functions_of_the_user(spark, folder):
    from pyspark.sql import functions as F

    odd = F.udf(lambda v: v is not None and v % 2 == 1, "boolean")
    df = spark.read.parquet(folder)
    assert same(df.where(odd("i")).where("i > 70"), (4, 12))[0].files == 12
    assert same(df.where(odd("i") & (F.col("i") > 70)), (4, 12))


# Paths.


def test_ways_of_naming_files(spark, tmp_path):
    for k in range(6):
        write(str(tmp_path / f"day={k % 3}" / f"f#{k} %41.parquet"), x=[k * 10, k * 10 + 1])
    write(str(tmp_path / "other" / "x.parquet"), x=[7, 21])
    names = [str(tmp_path / f"day={k}") for k in range(3)]
    #    options, paths, condition, (files kept, all files)
    ways = [
        ({"basePath": str(tmp_path)}, names, "x = 21", (1, 6)),
        ({}, names, "x = 21", (1, 6)),
        ({}, [f"{tmp_path}/day=[12]"], "x = 21", (1, 4)),
        ({"recursiveFileLookup": "true"}, [str(tmp_path)], "x = 21", (2, 7)),
        (
            {"recursiveFileLookup": "true", "pathGlobFilter": "f*"},
            [str(tmp_path)],
            "x = 21",
            (1, 6),
        ),
        ({"basePath": str(tmp_path)}, names, "x = 21 AND day = 2", (1, 2)),
        ({"basePath": str(tmp_path)}, names, "x = 21 AND day = 1", (0, 2)),
        ({"modifiedBefore": "2022-01-01T00:00:00"}, names, "x < 15", (1, 5)),
        ({}, [f"{names[0]}/f#0 %41.parquet"] * 2, "x = 0", None),
    ]
    os.utime(tmp_path / "day=0" / "f#0 %41.parquet", (1_700_000_000, 1_700_000_000))
    for options, paths, where, files in ways:
        same(spark.read.options(**options).parquet(*paths).where(where), files)


def test_partition_values_are_sparks(spark, tmp_path, setting):
    setting("spark.sql.session.timeZone", "America/New_York")
    for k, folder in enumerate(
        ["t=2024-11-03 01%3A30%3A00", "t=2024-11-03 00%3A30%3A00", "t=__HIVE_DEFAULT_PARTITION__"]
    ):
        write(str(tmp_path / "a" / folder / "x.parquet"), x=[k, k + 10])
    df = spark.read.parquet(str(tmp_path / "a"))
    wheres = [
        "x = 0 AND t > TIMESTAMP '2024-11-03 01:00:00'",
        "x = 2 AND t IS NULL",
        "x = 11 AND t < TIMESTAMP '2024-11-03 01:30:00'",
        "x <> 0 OR hour(t) = 1",
    ]
    no_match_is_lost(df, wheres)
    for k, folder in enumerate(["d=1.50", "d=2", "d=-0.0"]):
        write(str(tmp_path / "b" / folder / "x.parquet"), x=[k, k + 10])
    df = spark.read.parquet(str(tmp_path / "b"))
    same(df.where("d = 2 OR x = 11"), (2, 3))
    same(df.where("d = 0 AND x = 12"), (1, 1))


# Columns.


def test_columns_that_differ_between_files(spark, tmp_path, setting):
    write(str(tmp_path / "1.parquet"), x=pa.array([1, 2], pa.int32()), y=["a", "b"])
    write(str(tmp_path / "2.parquet"), x=pa.array([5, 6], pa.int32()))
    write(str(tmp_path / "3.parquet"), X=pa.array([9, None], pa.int32()), y=["c", "d"])
    df = spark.read.schema("x bigint, y string, z double").parquet(str(tmp_path))
    same(df.where("x > 4 AND y IS NULL"), (1, 3))
    same(df.where("x = 9"), (1, 3))
    same(df.where("z IS NULL"), (3, 3))
    same(df.where("z > 1 OR y = 'd'"), (1, 3))
    same(spark.read.option("mergeSchema", "true").parquet(str(tmp_path)).where("y = 'a'"), (1, 3))
    setting("spark.sql.caseSensitive", "true")
    df = spark.read.schema("x int, y string").parquet(str(tmp_path))
    assert "Spark is case-sensitive" in same(df.where("x IS NULL"), None)[0].why
    same(df.where("y = 'a'"), (1, 3))


def test_types_of_the_readers_own(spark, tmp_path):
    """The condition binds to the type given to Spark; statistics of an unfit type are unknown."""
    write(
        str(tmp_path / "1.parquet"),
        i=pa.array([1, 2], pa.int32()),
        d=[dt.date(2024, 1, 1)] * 2,
        f=pa.array([0.1, 0.2], pa.float32()),
    )
    write(
        str(tmp_path / "2.parquet"),
        i=pa.array([3, 4], pa.int32()),
        d=[dt.date(2024, 6, 1)] * 2,
        f=pa.array([0.3, 0.4], pa.float32()),
    )
    df = spark.read.schema("i double, d timestamp_ntz, f double").parquet(str(tmp_path))
    same(df.where("i > 2.5"), None)
    same(df.where("d >= TIMESTAMP_NTZ '2024-06-01 00:00:00'"), None)
    same(df.where("f <= 0.2"), (1, 2))
    same(df.where("f > 0.3"), None)
    same(spark.read.schema("i decimal(12,2)").parquet(str(tmp_path)).where("i = 3"), (1, 2))


WRITERS = {
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64(), "i8": pa.int8(),
    "i16": pa.int16(),
    "ms": pa.timestamp("ms", "UTC"), "nms": pa.timestamp("ms"), "big": pa.large_string(),
    "dict": pa.dictionary(pa.int8(), pa.string()),
    "m4": pa.decimal128(4, 1), "fixed": pa.binary(2), "view": pa.string_view(),
}  # fmt: skip


def test_types_of_other_writers(spark, tmp_path):
    textual, texts = {"big", "dict", "view"}, [["aa", "bb"], ["cc", "dd"], ["ee", "zz"]]
    for k, values in enumerate(([1, 2], [40, 100], [101, None])):
        columns = {}
        for name, kind in WRITERS.items():
            given = (
                texts[k]
                if name in textual
                else [t.encode() for t in texts[k]]
                if name == "fixed"
                else values
            )
            plain = pa.array(
                given,
                pa.string() if name in textual else pa.binary() if name == "fixed" else pa.int64(),
            )
            columns[name] = (
                pa.array(given, kind)
                if name == "fixed"
                else plain.cast(pa.decimal128(19)).cast(kind)
                if name == "m4"
                else plain.cast(kind)
            )
        pq.write_table(
            pa.table(columns), str(tmp_path / f"{k}.parquet"), store_decimal_as_integer=True
        )
        os.utime(tmp_path / f"{k}.parquet", (1_600_000_000, 1_600_000_000))
    df = spark.read.parquet(str(tmp_path))
    wheres = [
        f"{c} {op} 100"
        for c in ("u8", "u16", "u32", "u64", "i8", "i16", "m4")
        for op in ("=", ">", "<")
    ]
    wheres += [
        f"{c} {op} TIMESTAMP '1970-01-01 00:00:00.1'"
        for c in ("ms", "nms")
        for op in ("=", ">", "<")
    ]
    wheres += [f"{c} {op} 'dd'" for c in ("big", "dict", "view") for op in ("=", ">", "<")] + [
        "fixed = CAST('dd' AS BINARY)",
        "u64 IS NULL",
    ]
    no_match_is_lost(df, wheres)
    assert [
        pruned(prune(df.where(w))).kept
        for w in ("u8 = 100", "u32 = 100", "m4 = 100", "big = 'dd'", "i16 > 100")
    ] == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
def test_old_times(mode, kind, spark, tmp_path, setting):
    times = [
        dt.datetime(1500, 1, 1),
        dt.datetime(1700, 1, 1),
        dt.datetime(2024, 1, 1),
        dt.datetime(3000, 1, 1),
    ]
    setting("spark.sql.parquet.datetimeRebaseModeInWrite", mode)
    setting("spark.sql.parquet.int96RebaseModeInWrite", mode)
    setting("spark.sql.parquet.outputTimestampType", kind)
    spark.createDataFrame([(t, t.date()) for t in times], "t timestamp, d date").repartitionByRange(
        4, "t"
    ).write.parquet(str(tmp_path / "t"))
    wheres = [
        f"{c} {op} {to} '{t}'"
        for t in times
        for op in ("=", ">", "<")
        for c, to in (("t", "TIMESTAMP"), ("d", "TIMESTAMP"), ("d", "DATE"))
    ]
    no_match_is_lost(
        spark.read.parquet(str(tmp_path / "t")), [w.replace(" 00:00:00", "") for w in wheres]
    )


def test_columns_with_a_default(spark, tmp_path):
    """A file that is older than a column has the column's default."""
    try:
        spark.sql(
            f"CREATE TABLE grown (x INT) USING parquet LOCATION '{(tmp_path / 'g').as_uri()}'"
        )
        spark.sql("INSERT INTO grown VALUES (1)")
        spark.sql("ALTER TABLE grown ADD COLUMN y INT DEFAULT 42")
        spark.sql("INSERT INTO grown VALUES (2, 7)")
        assert same(spark.table("grown").where("y = 42"), None)[0].why.startswith(
            "statistics cannot judge"
        )
        assert spark.table("grown").where("y = 42").count() == 1
        same(spark.table("grown").where("y = 42 AND x = 2"), (1, 2))
    finally:
        spark.sql("DROP TABLE IF EXISTS grown")


def test_texts_that_compare_otherwise(spark, tmp_path):
    write(str(tmp_path / "c" / "1.parquet"), s=["abc"], c=["q"])
    write(str(tmp_path / "c" / "2.parquet"), s=["XYZ"], c=["r"])
    df = spark.read.schema("s STRING COLLATE UTF8_LCASE, c STRING").parquet(str(tmp_path / "c"))
    assert df.where("s = 'ABC'").count() == 1
    same(df.where("s = 'ABC'"), None)
    same(df.where("s > 'b' AND c = 'r'"), (1, 2))
    try:
        spark.sql(
            "CREATE TABLE chars (s CHAR(5), v VARCHAR(5)) USING parquet LOCATION "
            f"'{(tmp_path / 'k').as_uri()}'"
        )
        spark.sql("INSERT INTO chars VALUES ('ab', 'ab')")
        spark.sql("INSERT INTO chars VALUES ('zz', 'zz')")
        same(spark.table("chars").where("s = 'ab'"), None)
        same(spark.table("chars").where("v = 'ab'"), (1, 2))
    finally:
        spark.sql("DROP TABLE IF EXISTS chars")


# Sessions.

ZONED = [
    "t = TIMESTAMP '2024-11-03 05:30:00Z'", "t = TIMESTAMP '2024-11-03 06:30:00Z'",
    "t >= TIMESTAMP '2024-11-03 01:30:00'",
    "CAST(t AS DATE) = DATE '2024-11-03'", "hour(t) = 1",
    "date_trunc('hour', t) = TIMESTAMP '2024-11-03 01:00:00'",
    "t = n", "CAST(n AS TIMESTAMP) = t", "t < d", "to_date(t) > d",
]  # fmt: skip


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_zones(zone, spark, folder, setting):
    """A clock shows one hour twice a year: Spark's text of such a literal is ambiguous."""
    setting("spark.sql.session.timeZone", zone)
    df = spark.read.parquet(folder)
    no_match_is_lost(df, ZONED)
    assert pruned(prune(df.where(ZONED[0]))).kept <= 2


def test_settings_of_another_time(spark, folder, setting):
    """An expression keeps the settings under which it was made."""
    df = spark.read.parquet(folder)
    made = [df.where(w) for w in ("i + 1 > 42", "hour(t) = 3 AND i < 30", "CAST(s AS INT) IS NULL")]
    setting("spark.sql.ansi.enabled", "false")
    setting("spark.sql.session.timeZone", "Asia/Tokyo")
    for plain, kept in zip(made, (11, 4), strict=False):
        same(plain, (kept, 12))
    small = prune(made[2])
    assert small is made[2]
    same(df.where("i * 1000000 > 2000000000"), (1, 12))
    same(df.where("CAST(g AS INT) = 2147483647"), (0, 12))


# Changes.


def test_files_that_come_later(spark, tmp_path):
    try:
        for name, layout in (("flat", ""), ("parted", "PARTITIONED BY (p)")):
            spark.sql(
                f"CREATE TABLE {name} USING parquet {layout} LOCATION "
                f"'{(tmp_path / name).as_uri()}' AS SELECT id x, id DIV 10 p FROM range(20)"
            )
            small = prune(spark.table(name).where("x >= 15"))
            assert small.count() == 5
            spark.sql(f"INSERT INTO {name} SELECT id x, id DIV 10 p FROM range(30, 33)")
            assert small.count() == 8 == spark.table(name).where("x >= 15").count()
    finally:
        for name in ("flat", "parted"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_files_that_change(spark, tmp_path):
    path = str(tmp_path / "t" / "1.parquet")
    write(path, x=[1, 2])
    write(str(tmp_path / "t" / "2.parquet"), x=[3, 4])
    df = spark.read.parquet(str(tmp_path / "t"))
    small = prune(df.where("x = 9"))
    assert pruned(small).kept == 0 and small.count() == 0
    pq.write_table(pa.table({"x": [9, 8]}), path)
    assert small.count() == df.where("x = 9").count() == 1
    assert (
        pruned(prune(df.where("x = 9"))).kept == 1
    )  # Spark's listing is stale: the file has changed
    os.utime(path, ns=(time.time_ns(), time.time_ns()))
    fresh = spark.read.parquet(str(tmp_path / "t"))
    assert prune(fresh.where("x = 9")).count() == 1
    pq.write_table(
        pa.table({"x": [7, 6]}), path
    )  # written immediately: the same length, and perhaps the same time
    assert prune(spark.read.parquet(str(tmp_path / "t")).where("x = 7")).count() == 1


def test_the_present_is_another_at_each_action(spark, tmp_path):
    now, day = dt.datetime.now(dt.UTC), dt.datetime.now(dt.UTC).date()
    for k in range(3):
        write(
            str(tmp_path / f"{k}.parquet"),
            t=pa.array([now + dt.timedelta(seconds=1)], pa.timestamp("us", "UTC")),
            d=[day + dt.timedelta(days=k)],
        )
    df = spark.read.parquet(str(tmp_path))
    moments = [
        "t < now()",
        "t < (SELECT current_timestamp())",
        "d < CAST('today' AS DATE)",
        "current_database() = 'x' AND d < DATE '2020-01-01'",
    ]
    small = [prune(df.where(w)) for w in moments]
    assert all("changes with every action" in str(pruned(s)) for s in small)
    time.sleep(max(0, 1.1 - (dt.datetime.now(dt.UTC) - now).total_seconds()))
    assert small[0].count() == 3
    today = prune(df.where("d = current_date()"))
    assert pruned(today).kept == 1 and today.count() == 1  # valid until the day ends
    left = door_of(spark).until(today._jdf.queryExecution().analyzed()) - time.time() * 1000
    assert (
        0 < left <= 86_400_000
        and door_of(spark).until(df._jdf.queryExecution().analyzed()) == 2**63 - 1
    )
    index = door_of(spark).listing(spark_index(df))
    bits = bytes([0b111])
    terms = [door_of(spark).validity(at, door_of(spark).watches()) for at in (0, 2**63 - 1)]
    assert [len(index.without(spark_index(df), bits, term).inputFiles()) for term in terms] == [
        3,
        0,
    ]


def spark_index(df):
    """Return Spark's file index of a DataFrame with one scan."""
    return df._jdf.queryExecution().analyzed().relation().location()


def test_files_that_cannot_be_read(spark, tmp_path, setting):
    write(str(tmp_path / "1.parquet"), x=[1, 2])
    write(str(tmp_path / "2.parquet"), x=[3, 4])
    (tmp_path / "3.parquet").write_bytes(b"PAR1 is not all PAR1")
    (tmp_path / "4.parquet").write_bytes(b"")
    setting("spark.sql.files.ignoreCorruptFiles", "true")
    df = spark.read.schema("x bigint").parquet(str(tmp_path))
    small = prune(df.where("x = 3"))
    assert rows_of(small) == rows_of(df.where("x = 3"))
    assert files_opened(small) == [2]
    os.unlink(tmp_path / "2.parquet")
    setting("spark.sql.files.ignoreMissingFiles", "true")
    assert prune(df.where("x = 3")).count() == 0
    os.unlink(tmp_path / "1.parquet")
    assert prune(df.where("x = 1")).count() == df.where("x = 1").count() == 0


def test_footers_are_read_once(spark, tmp_path):
    for k in range(5):
        write(str(tmp_path / f"{k}.parquet"), x=[k])
    df = spark.read.parquet(str(tmp_path))
    assert pruned(prune(df.where("x = 3"))).kept == 1
    times = os.stat(tmp_path / "3.parquet")
    (tmp_path / "3.parquet").write_bytes(
        b"x" * times.st_size
    )  # without the cache it could not be judged
    os.utime(tmp_path / "3.parquet", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert pruned(prune(df.where("x = 2"))).kept == 1


# Spark Connect.

REMOTE = [
    (lambda df: df.where("i = 42"), 2),
    (lambda df: df.where("i > 10").where("i < 20").select("s"), 2),
    (lambda df: df.where("i < 10").union(df.where("i > 80")), 5),
    (lambda df: df.where((df.i > 40) & (df.s < "h")).groupBy("b").count(), 4),
    (lambda df: df.where("i < 10").alias("a").join(df.where("i = 5").alias("b"), "i"), 4),
    (lambda df: df.where("soundex(s) = 'A' AND i = 42").orderBy("i").limit(3), 2),
    (lambda df: df.where("rand() < 2 AND i = 42"), 2),
    (lambda df: df.where("t < TIMESTAMP '2024-01-02 00:00:00'"), 2),
]  # fmt: skip


@pytest.mark.parametrize("make, kept", REMOTE)
def test_connect(make, kept, connect, folder):
    plain = make(connect.read.parquet(folder))
    scans = str(plain._plan.to_proto(connect.client)).count("data_source")
    same(plain, (kept, 12 * scans))


def test_connect_resolves_again(connect, tmp_path):
    """Connect resolves a DataFrame at each action, under the settings and files of that moment."""
    for k in range(3):
        write(
            str(tmp_path / f"{k} ä%.parquet"),
            x=[k * 10],
            t=pa.array([dt.datetime(2024, 1, 1, 9)], pa.timestamp("us", "UTC")),
        )
    df = connect.read.parquet(str(tmp_path))
    small, nine = prune(df.where("x = 77")), prune(df.where("t = '2024-01-01 18:00:00'"))
    assert (pruned(small).kept, pruned(nine).kept) == (0, 0) and small.count() == nine.count() == 0
    pq.write_table(
        pa.table({"x": [77], "t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))}),
        tmp_path / "1 ä%.parquet",
    )
    connect.conf.set(
        "spark.connect.session.planCache.enabled", "false"
    )  # otherwise Spark caches its file list for a while
    connect.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert nine.count() == 2 and small.count() == 1
    finally:
        connect.conf.set("spark.sql.session.timeZone", "UTC")
        connect.conf.unset("spark.connect.session.planCache.enabled")


def test_connect_is_careful(connect, spark, folder, tmp_path):
    from pyspark.sql.connect import functions as F

    df = connect.read.parquet(folder)
    assert same(df.where("soundex(s) = 'A'"), None)[0].why.startswith("statistics cannot judge")
    assert (
        same(df.select("i").where("i = 42"), None)[0].why == "no condition stands directly above it"
    )
    assert rows_of(prune(df, F.col("i") == 42)) == rows_of(df.where("i = 42"))
    for k in range(4):
        write(str(tmp_path / "it's" / f"p={k % 2}" / f"x {k}.parquet"), x=[k * 10, k])
    parted = connect.read.parquet(str(tmp_path / "it's"))
    same(parted.where("x = 20 AND p = 0"), (2, 4))
    same(parted.where("p IS NULL OR x = 10"), None)
    same(parted.where("p = 1"), None)
    write(str(tmp_path / "hidden" / "1.parquet"), _metadata=[1, 2])
    assert (
        "hides"
        in same(connect.read.parquet(str(tmp_path / "hidden")).where("`_metadata` = 3"), None)[
            0
        ].why
    )
    try:
        spark.sql(
            f"CREATE TABLE remote USING parquet LOCATION '{(tmp_path / 'r').as_uri()}' AS "
            "SELECT id x FROM range(20)"
        )
        same(connect.table("remote").where("x = 3"), (1, 2))
        df.createOrReplaceTempView("remote_view")
        assert "a view" in same(connect.table("remote_view").where("i = 3"), None)[0].why
        assert pruned(prune(connect.sql("SELECT * FROM remote WHERE x = 3"))) == ()
    finally:
        spark.sql("DROP TABLE IF EXISTS remote")
