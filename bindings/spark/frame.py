"""The statistics of a table as a DataFrame, a row for each container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from skipstone.bindings.spark.session import quiet, require_pyspark
from skipstone.bindings.statistics import Statistics
from skipstone.ir.types import whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stats_frame(spark: SparkSession, statistics: Statistics, about: pa.Table) -> DataFrame:
    """Statistics as `with_verdict` takes them.

    Args:
        spark: The session.
        statistics: Of n containers.
        about: Columns of n rows that say what the containers are; one that is named as a statistic is left out.

    Raises:
        BackendMissing: PySpark or pandas is not installed.
    """
    require_pyspark()
    told = statistics.to_arrow()
    columns = {name: whole(about.column(name)) for name in about.column_names if name not in told.column_names}
    table = pa.table({**columns, **{name: whole(told.column(name)) for name in told.column_names}})
    with quiet():
        return spark.createDataFrame(table)
