"""Keys are collected only where they may leave a file out."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import prune, pruned
from tests.support.spark.compare import same_opened as same
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)

FEW = "every file has more values than an anti join has keys"
DAY = dt.date(2024, 1, 1)

#    anti join of `wide` and `few`; files of `wide` that remain; why no keys are collected
ANTI = [
    ("i = k", 8, FEW),
    ("i = k AND one = k", 8, FEW),
    ("s = t", 8, FEW),
    ("day = d", 8, FEW),
    ("i / 2 = k", 8, ""),  # a computed key never filters
    ("one = k", 5, ""),
    ("s1 = t", 5, ""),
    ("near = k", 7, ""),  # the days 0, 1 and 2 of the first file
    ("nearday = d", 7, ""),
]


@pytest.fixture(scope="module")
def wide(spark, tmp_path_factory):
    """Create a table of eight files, whose columns differ in the values of a file."""
    root = tmp_path_factory.mktemp("wide")
    (root / "wide").mkdir()
    for n in range(8):
        ids = range(n * 10_000, n * 10_000 + 10_000)
        columns = {
            "i": pa.array(ids, pa.int32()),
            "s": [f"{i:06}" for i in ids],
            "day": pa.array([DAY + dt.timedelta(i) for i in ids]),
            "one": pa.array([n] * 10_000, pa.int64()),
            "s1": [f"{n:06}"] * 10_000,
            "near": pa.array([n * 3 + i % 3 for i in ids], pa.int16()),
            "nearday": pa.array([DAY + dt.timedelta(n * 3 + i % 3) for i in ids]),
        }
        pq.write_table(pa.table(columns), root / f"wide/{n}.parquet")
    keys = {
        "k": pa.array(range(3), pa.int32()),
        "t": [f"{k:06}" for k in range(3)],
        "d": [DAY + dt.timedelta(k) for k in range(3)],
    }
    pq.write_table(pa.table(keys), root / "few.parquet")
    spark.read.parquet(str(root / "wide")).createOrReplaceTempView("wide")
    spark.read.parquet(str(root / "few.parquet")).createOrReplaceTempView("few")
    yield
    for view in ("wide", "few"):
        spark.catalog.dropTempView(view)


@pytest.mark.parametrize(("condition", "kept", "why"), ANTI)
def test_keys_of_anti_joins(spark, wide, condition, kept, why):
    """Such a join leaves a file out only if all of its values are keys."""
    query = f"SELECT count(*) FROM wide LEFT ANTI JOIN few ON {condition}"
    found, opened = same(spark.sql(query))
    assert max(opened) == kept, found
    report = pruned(prune(spark.sql(query)))[0]
    assert bool(report.keys) == (kept < 8) and why in report.why
