"""Turn Arrow tables and statistics into DataFrames; statistics have one row per container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.spark.session.session import quiet, require_pyspark
from skipstone.bindings.spark.session.types import as_spark
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.arrow import whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def stats_frame(spark: SparkSession, statistics: Statistics, about: pa.Table) -> DataFrame:
    """Make a DataFrame of statistics in the form that `with_verdict` takes.

    Args:
        spark: The session.
        statistics: Statistics of n containers.
        about: Columns of n rows that describe the containers. A column that has the name of a
            statistic is left out.

    Raises:
        BackendMissing: PySpark or pandas is not installed.
    """
    require_pyspark()
    bounds = statistics.to_arrow()
    columns = {
        name: whole(about.column(name))
        for name in about.column_names
        if name not in bounds.column_names
    }
    table = pa.table(
        {**columns, **{name: whole(bounds.column(name)) for name in bounds.column_names}}
    )
    return from_arrow(spark, table)


def to_arrow(frame: Any) -> pa.Table:
    """Collect all rows of a DataFrame as an Arrow table."""
    with quiet():
        # The frame itself may have a column of this name.
        old = not hasattr(type(frame), "toArrow")
        found: pa.Table = old_to_arrow(frame) if old else frame.toArrow()
    return found


def old_to_arrow(frame: Any) -> pa.Table:
    """Collect all rows in PySpark 3.5, which has no `toArrow`.

    Its `toPandas` takes the same batches, whose columns must have different names.

    Raises:
        PySparkException: The job failed, as for `toArrow`.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema)
    numbered = frame.toDF(*(str(i) for i in range(len(schema))))
    try:
        batches = numbered._collect_as_arrow()
    except Py4JJavaError as e:
        raise PySparkException(str(e)) from e
    if not batches:
        return schema.empty_table()
    return pa.Table.from_batches(batches).rename_columns(schema.names).cast(schema)


def from_arrow(spark: Any, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Make a DataFrame of all rows of an Arrow table.

    Empty batches are removed first: PySpark 4.3's own `createDataFrame` loses the rows that follow
    an empty batch within a table, or two of them at its start.
    """
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    with quiet():
        # Nothing infers a schema without rows, and an empty table with structs raises an error.
        found: DataFrame = (
            spark.createDataFrame(pa.Table.from_batches(batches, table.schema), schema=schema)
            if batches
            else spark.createDataFrame([], as_spark(table.schema) if schema is None else schema)
        )
    return found
