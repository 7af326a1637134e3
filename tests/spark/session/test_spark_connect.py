"""The tests' Spark Connect client: another process's view of the same session's server."""

import pytest

from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


def test_it_has_no_java(connect):
    df = connect.range(10).where("id > 3")
    assert type(df).__module__.startswith("pyspark.sql.connect") and df.count() == 6
    assert not hasattr(df, "_jdf")
