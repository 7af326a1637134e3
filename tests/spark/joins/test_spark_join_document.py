"""Pruned joins of the documents' query, of Skipstone's tables, and of rows J23 and J24."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.spark.session.metrics import files_opened
from skipstone.spark import prune_join, pruned
from tests.support.spark.compare import KEYS
from tests.support.spark.compare import same_join as same
from tests.support.spark.reads import rows_of
from tests.support.spark.returns import write_returns
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def star(spark, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("star"))
    write_returns(spark, folder)
    return folder


#    table; files that plain Spark opens with dynamic partition pruning, and files kept
@pytest.mark.parametrize(("table", "plainly", "kept"), [("clustered", 12, 1), ("hive", 1, 1)])
def test_the_documents_query(spark, star, table, plainly, kept):
    days = spark.sql("SELECT d_date_sk FROM date_dim WHERE d_moy = 2 AND d_year = 2000")
    returns = spark.table(table)
    plain = returns.join(days, returns.sr_returned_date_sk == days.d_date_sk)
    joined = prune_join(returns, days, {"sr_returned_date_sk": "d_date_sk"})
    same(joined, plain, (kept, 12))
    assert plainly in files_opened(plain)


@SPARK_4
def test_tables_of_skipstone(spark, star):
    days = spark.sql("SELECT d_date_sk FROM date_dim WHERE d_moy = 2 AND d_year = 2000")
    for name, table, files in (
        ("clustered", ss.scan_parquet(f"{star}/clustered"), 12),
        ("hive", f"{star}/hive", None),
    ):
        returns = spark.table(name)
        joined = prune_join(
            table, days, {"sr_returned_date_sk": "d_date_sk"}, where="sr_customer_sk < 7"
        )
        plain = returns.where("sr_customer_sk < 7").join(
            days, returns.sr_returned_date_sk == days.d_date_sk
        )
        assert rows_of(joined) == rows_of(plain)
        assert (pruned(joined).kept, pruned(joined).files) == (1, files or 0) and pruned(joined)[
            0
        ].files == files, pruned(joined)
    assert (
        "needs all rows"
        in pruned(
            prune_join(f"{star}/clustered", days, {"sr_returned_date_sk": "d_date_sk"}, "left")
        )[0].why
    )
    with pytest.raises(ss.UnknownColumn, match="d_date"):
        prune_join(f"{star}/clustered", days, {"sr_returned_date_sk": "d_date"})


@SPARK_4
def test_delta(spark, tmp_path):
    """Three files; the first has its matching rows deleted."""
    deltalake = pytest.importorskip("deltalake")
    for k in range(3):
        deltalake.write_deltalake(
            str(tmp_path / "d"),
            pa.table({"k": [10 * k, 10 * k + 1], "x": ["a", "b"]}),
            mode="append",
        )
    deltalake.DeltaTable(str(tmp_path / "d")).delete("k = 1")
    dim = spark.sql(KEYS.format("(1), (11), (12), (NULL)"))
    joined = prune_join(str(tmp_path / "d"), dim, {"K": "k"})
    assert sorted(tuple(r) for r in joined.collect()) == [(11, "b", 11)]
    assert (pruned(joined).kept, pruned(joined).files) == (1, 3)
    anti = prune_join(
        str(tmp_path / "d"), spark.sql(KEYS.format("(10), (11), (0)")), {"k": "k"}, "anti"
    )
    assert (
        sorted(tuple(r) for r in anti.collect()) == [(20, "a"), (21, "b")]
        and pruned(anti).kept == 1
    )


def test_connect(connect, spark, star):
    """A client sees no Spark plan: Skipstone's tables are pruned, DataFrames joined as usual."""
    days = connect.sql(
        f"SELECT d_date_sk AS sr_returned_date_sk FROM parquet.`{star}/date_dim.parquet` "
        "WHERE d_moy = 2 AND d_year = 2000"
    )
    joined = prune_join(f"{star}/clustered", days, "sr_returned_date_sk", "semi")
    frame = connect.read.parquet(f"{star}/clustered")
    plain = prune_join(frame, days, "sr_returned_date_sk", "semi")
    assert rows_of(joined) == rows_of(plain)
    assert pruned(joined).kept == 1 and "cannot see the plan" in pruned(plain)[0].why


def test_nested_joins(spark, tmp_path):
    """J24: the same key twice, with keys that exclude each other, and J23: three keys at once."""
    rows = [((i + 30) % 50, i % 20, 3 * i) for i in range(500)]
    for day in range(20):
        os.makedirs(tmp_path / f"store/date={day}")
        mine = [(item, price) for item, date, price in rows if date == day]
        pq.write_table(
            pa.table({"item": [m[0] for m in mine], "price": [m[1] for m in mine]}),
            tmp_path / f"store/date={day}/0.parquet",
        )
    store = spark.read.parquet(str(tmp_path / "store"))
    dates = spark.sql(
        f"SELECT * FROM VALUES {', '.join(f'({i}, {i})' for i in range(20))} AS dates(sk, year)"
    )
    items = spark.sql("SELECT id AS item FROM range(30, 50)")
    sold = (
        prune_join(store, dates.where("year IN (2, 4, 6, 8) OR year >= 10"), {"date": "sk"})
        .select("item")
        .distinct()
    )
    outer = prune_join(store, dates.where("year IN (1, 3, 5, 7)"), {"date": "sk"})
    outer = prune_join(prune_join(outer, items, "item"), sold, "item")
    assert outer.selectExpr("sum(price)").collect()[0][0] == 28080
    assert [
        (s.kept, s.files)
        for s in pruned(prune_join(store, dates.where("year IN (1, 3, 5, 7)"), {"date": "sk"}))
    ] == [(4, 20)]
    three = spark.sql("SELECT * FROM VALUES (31, 1, 3), (33, 9, 9) AS d(a, b, c)")
    same(
        prune_join(store, three, {"item": "a", "date": "b", "price": "c"}),
        store.join(
            three, (store.item == three.a) & (store.date == three.b) & (store.price == three.c)
        ),
        (1, 20),
    )
