"""Arrow tables as DataFrames, and so the statistics of a table, a row for each container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.spark.session.session import quiet, require_pyspark
from skipstone.bindings.spark.session.types import as_spark
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.types import whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


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
    columns = {
        name: whole(about.column(name))
        for name in about.column_names
        if name not in told.column_names
    }
    table = pa.table({**columns, **{name: whole(told.column(name)) for name in told.column_names}})
    return from_arrow(spark, table)


def from_arrow(spark: Any, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """An Arrow table as a DataFrame, all of its rows.

    PySpark 4.3's own `createDataFrame` gives none of the rows that follow an empty batch within a table, or two of them at its start.
    """
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    schema = (
        as_spark(table.schema) if schema is None and not batches else schema
    )  # Connect infers none of no rows
    with quiet():
        found: DataFrame = spark.createDataFrame(
            pa.Table.from_batches(batches, table.schema), schema=schema
        )
    return found
