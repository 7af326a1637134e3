"""Random joins of random tables in Spark, beside Spark's own; `tests/fuzz_spark_join.py` says which."""

import pytest

from tests import fuzz_spark_join
from tests.effort import LONG
from tests.spark_session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


def test_random_joins(spark):
    assert fuzz_spark_join.run(spark, range(500 if LONG else 12))[1] > 0


def test_a_shard_in_which_nothing_is_left(spark):
    """PySpark lost the files of shards that came after it."""
    fuzz_spark_join.case(spark, 1104)
