"""Give PySpark 3.5 what the tests use of PySpark 4.0: Arrow tables to DataFrames and back."""

from typing import Any

import pyarrow as pa

from skipstone.bindings.spark.session.frame import old_to_arrow
from skipstone.bindings.spark.session.types import as_spark


def modernise(spark: Any) -> None:
    """Let a session of PySpark 3.5 make DataFrames of Arrow tables, and DataFrames make tables."""
    from pyspark.sql import DataFrame
    from pyspark.sql.types import _parse_datatype_string

    DataFrame.toArrow = old_to_arrow
    plain = spark.createDataFrame

    def made(data: Any, schema: Any = None, **options: Any) -> Any:
        if isinstance(data, pa.Table):
            if isinstance(schema, list):
                data, schema = data.rename_columns(schema), None
            elif isinstance(schema, str):
                schema = _parse_datatype_string(schema)
            return _from_arrow(spark, data, schema or as_spark(data.schema))
        return plain(data, schema, **options)

    spark.createDataFrame = made


def _from_arrow(spark: Any, table: pa.Table, schema: Any) -> Any:
    """Make a DataFrame of batches, as PySpark 3.5 does of those that it makes of pandas."""
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import to_arrow_schema

    java = spark._jvm
    rows = spark.sparkContext._serialize_to_jvm(
        table.cast(to_arrow_schema(schema)).to_batches(),
        ArrowStreamSerializer(),
        java.PythonSQLUtils.readArrowStreamFromFile,
        java.ArrowIteratorServer,
    )
    made = java.PythonSQLUtils.toDataFrame(rows, schema.json(), spark._jsparkSession)
    return DataFrame(made, spark)
