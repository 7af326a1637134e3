"""Pruned reads of odd tables lose no row; scans that cannot be judged stay whole, with a reason."""

import datetime as dt
import os
import time
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.spark.session import jvm
from skipstone.bindings.spark.session.jvm import plan_gateway
from skipstone.bindings.spark.session.metrics import files_opened
from skipstone.spark import prune, pruned
from tests.support.spark.compare import no_match_is_lost, same, write
from tests.support.spark.reads import rows_of, write_files
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(str(tmp_path_factory.mktemp("odd") / "t"))


# Arguments.


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


def test_an_old_pyspark(spark, folder, monkeypatch):
    """The DataFrame is returned as it is, so that a program runs everywhere."""
    monkeypatch.setattr("pyspark.__version__", "3.4.9")
    with pytest.warns(ss.SkipstoneWarning, match="needs pyspark 3.5 or newer, and 3.4.9"):
        small = prune(spark.read.parquet(folder), "i = 42")
    assert small.count() == 1 and "3.4.9" in pruned(small)[0].why


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
    assert rows_of(small.where(df.i == 3)) == rows_of(df.where("i = 3"))
    both = prune(df.where("i = 5")).union(
        prune(df.where("i = 75"))
    )  # scans of different files of one table are different scans
    assert both.count() == 2
    assert "2 of 12 files, where i IS NOT NULL AND i = 5" in str(pruned(prune(df.where("i = 5"))))


def test_dataframes_that_stay_unpruned(spark, folder, tmp_path, setting):
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


def test_settings_that_change_later(spark, folder, setting):
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


def test_new_files(spark, tmp_path):
    try:
        for name, layout in (("flat", ""), ("parted", "PARTITIONED BY (p)")):
            spark.sql(
                f"CREATE TABLE {name} USING parquet {layout} LOCATION "
                f"'{(tmp_path / name).as_uri()}' AS SELECT id x, id DIV 10 p FROM range(20)"
            )
            small = prune(spark.table(name).where("x >= 15"))
            assert pruned(small).kept < pruned(small).files and small.count() == 5
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


def test_clocks_change_with_every_action(spark, tmp_path):
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
    left = plan_gateway(spark).until(today._jdf.queryExecution().analyzed()) - time.time() * 1000
    assert (
        0 < left <= 86_400_000
        and plan_gateway(spark).until(df._jdf.queryExecution().analyzed()) == 2**63 - 1
    )
    index = plan_gateway(spark).listing(spark_index(df))
    bits = bytes([0b111])
    terms = [
        plan_gateway(spark).validity(at, plan_gateway(spark).watches()) for at in (0, 2**63 - 1)
    ]
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


def test_threads_share_one_compilation(spark, monkeypatch):
    """Java takes the classes of two compilations for different ones."""
    monkeypatch.setattr(jvm, "_gateways", WeakKeyDictionary())
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(plan_gateway, [spark] * 4))
    assert all(each is found[0] for each in found)
