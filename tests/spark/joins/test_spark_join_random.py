"""Random joins of random tables, compared with Spark's own; see `tests/fuzz/spark_joins.py`."""

import pytest

from tests.fuzz import spark_joins
from tests.support.effort import LONG
from tests.support.spark.session import QUIET, SPARK_4

pytestmark = pytest.mark.filterwarnings(QUIET)


@SPARK_4
def test_random_joins(spark):
    assert spark_joins.run(spark, range(500 if LONG else 12))[1] > 0


@SPARK_4
def test_a_fully_pruned_shard(spark):
    """PySpark lost the files of the shards after such a shard."""
    spark_joins.case(spark, 1104)
