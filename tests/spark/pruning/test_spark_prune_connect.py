"""Pruned reads through Spark Connect lose no row, and leave alone what a client cannot judge."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import prune, pruned
from tests.support.spark.compare import same, write
from tests.support.spark.reads import rows_of, write_files
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(str(tmp_path_factory.mktemp("odd") / "t"))


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


@pytest.mark.parametrize(
    "where, before, kept",
    [("x = CAST(16777216 AS FLOAT)", "true", 1), ("x <> CAST(16777216 AS FLOAT)", "false", 1)],
)
def test_the_mode_changes(connect, tmp_path, where, before, kept):
    """BIGINT and FLOAT are compared as DOUBLE in ANSI mode, and as FLOAT in the other."""
    for k in range(3):
        write(str(tmp_path / f"{k}.parquet"), x=[(1 << 24) + k * k])
    try:
        connect.conf.set("spark.sql.ansi.enabled", before)
        plain = connect.read.parquet(str(tmp_path)).where(where)
        small, counts = prune(plain), []
        assert (pruned(small).kept, pruned(small).files) == (kept, 3)
        for mode in ("true", "false"):
            connect.conf.set("spark.sql.ansi.enabled", mode)
            counts.append(plain.count())
            assert rows_of(small) == rows_of(plain)
        assert counts[0] != counts[1]
    finally:
        connect.conf.set("spark.sql.ansi.enabled", "true")


def test_connect_is_careful(connect, spark, folder, tmp_path):
    from pyspark.sql.connect import functions as F

    df = connect.read.parquet(folder)
    assert same(df.where("soundex(s) = 'A'"), None)[0].why.startswith("statistics cannot judge")
    assert (
        same(df.select("i").where("i = 42"), None)[0].why
        == "there is no condition directly above it"
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


def test_files_of_a_table_that_have_its_partition_column(connect, tmp_path):
    """Spark reads the partition's value, wherever the partition lies; footers have another."""
    try:
        connect.sql(
            "CREATE TABLE placed (`#k` BIGINT, k BIGINT, c CHAR(4), g INT) USING parquet "
            f"PARTITIONED BY (g) LOCATION '{(tmp_path / 't').as_uri()}'"
        )
        for g in range(2):
            place, k = tmp_path / f"p{g}", [g * 2, g * 2 + 1]
            own = {"#k": k, "k": k, "c": ["a", "b"], "g": pa.array([7 + g] * 2, pa.int32())}
            write(str(place / "0.parquet"), **own)
            connect.sql(f"ALTER TABLE placed ADD PARTITION (g={g}) LOCATION '{place.as_uri()}'")
        table = connect.table("placed")
        for where, kept in [("g = 1 OR k = 0", 2), ("g = 1 AND k > 2", 1), ("c = 'a   '", 2)]:
            assert rows_of(table.where(where))
            same(table.where(where), None if kept == 2 else (kept, 2))
    finally:
        connect.sql("DROP TABLE IF EXISTS placed")


@pytest.mark.parametrize("name", ["Parquet", "PARQUET"])
def test_the_case_of_a_format_does_not_matter(connect, folder, name):
    same(connect.read.format(name).load(folder).where("i = 42"), (2, 12))


def test_options_that_a_table_keeps(connect, tmp_path):
    """Spark shifts old days where the table says so; footers have other days."""
    place = tmp_path / "t"
    write(str(place / "0.parquet"), d=[dt.date(1000, 1, 10)])
    write(str(place / "1.parquet"), d=[dt.date(2000, 1, 10)])
    try:
        for mode, kept in [("LEGACY", None), ("CORRECTED", 1)]:
            connect.sql("DROP TABLE IF EXISTS old_days")
            connect.sql(
                "CREATE TABLE old_days (d DATE) USING parquet "
                f"OPTIONS (other 'a=b, c', DateTimeRebaseMode '{mode}') "
                f"LOCATION '{place.as_uri()}'"
            )
            table = connect.table("old_days")
            oldest = min(row.d for row in table.collect())
            same(table.where(f"d = DATE'{oldest}'"), kept and (kept, 2))
    finally:
        connect.sql("DROP TABLE IF EXISTS old_days")


def test_files_that_are_named_as_a_table(connect, folder):
    found = same(connect.table(f"parquet.`{folder}`").where("i = 42"), None)
    assert found[0].why == "it is no table that Spark can describe"
