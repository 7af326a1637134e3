"""The table of Spark's function names is that of Spark."""

import re

from skipstone.ir.functions.spark_names import SPARK_NAMES


def test_names_are_those_of_spark(spark):
    names = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    names = {name for name in names if re.fullmatch(r"[a-z_0-9]+", name)}
    # An older Spark lacks some; a function that only a newer one has would seem unknown.
    assert names <= SPARK_NAMES, sorted(names - SPARK_NAMES)
    assert len(names) > 0.8 * len(SPARK_NAMES)
