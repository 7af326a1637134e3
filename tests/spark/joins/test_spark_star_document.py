"""Star joins of the documents' query and of row J24, pruned by `prune`."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.bindings.spark.session.metrics import files_opened
from skipstone.spark import prune, pruned
from tests.support.spark.compare import same_opened as same
from tests.support.spark.returns import write_returns
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def returns(spark, tmp_path_factory):
    write_returns(spark, str(tmp_path_factory.mktemp("returns")))
    yield
    for view in ("clustered", "hive", "date_dim"):
        spark.catalog.dropTempView(view)


DOCUMENT = (
    "SELECT sr_customer_sk, count(*) n FROM {}, date_dim WHERE sr_returned_date_sk = "
    "d_date_sk AND d_moy = 2 AND d_year = 2000 GROUP BY sr_customer_sk"
)


def test_the_documents_query(spark, returns):
    plain = spark.sql(DOCUMENT.format("clustered"))
    assert same(plain)[1] == (1, 1)
    plain.collect()
    assert sorted(files_opened(plain)) == [1, 12]
    found, opened = same(spark.sql(DOCUMENT.format("hive")))
    assert opened == (1, 1) and found[0].keys == ""  # Spark's own pruning, which costs no job
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    try:
        found, opened = same(spark.sql(DOCUMENT.format("hive")))
        assert opened == (1, 1) and found[0].kept == 1
    finally:
        spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "true")


def test_nested_joins(spark, tmp_path):
    """J24: the same key twice, with keys that exclude each other."""
    rows = [((i + 30) % 50, i % 20, 3 * i) for i in range(500)]
    for day in range(20):
        mine = [(item, date, price) for item, date, price in rows if date == day]
        os.makedirs(tmp_path / "store", exist_ok=True)
        pq.write_table(
            pa.table({n: [m[c] for m in mine] for c, n in enumerate(("item", "date", "price"))}),
            tmp_path / f"store/{day}.parquet",
        )
    store = spark.read.parquet(str(tmp_path / "store"))
    dates = spark.sql(
        f"SELECT * FROM VALUES {', '.join(f'({i}, {i})' for i in range(20))} AS dates(sk, year)"
    )
    items = spark.sql("SELECT id AS item FROM range(30, 50)")
    bought = (
        store.join(dates.where("year IN (2, 4, 6, 8) OR year >= 10"), store.date == dates.sk)
        .select("item")
        .distinct()
    )
    outer = (
        store.join(dates.where("year IN (1, 3, 5, 7)"), store.date == dates.sk)
        .join(items, "item")
        .join(bought, "item")
    )
    small = prune(outer.selectExpr("sum(price)"))
    assert small.collect()[0][0] == 28080
    assert sorted(scan.kept for scan in pruned(small)) == [4, 14], pruned(small)
