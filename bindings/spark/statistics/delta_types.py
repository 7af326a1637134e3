"""The types in which statistics of a Delta log are read by Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from skipstone.bindings.spark.session.types import as_spark
from skipstone.bindings.tables.delta.fields import LeafField, fields_of
from skipstone.ir.arrow import type_at
from skipstone.ir.types import Kind, from_arrow, leaves_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

PHYSICAL: Final = "delta.columnMapping.physicalName"


def leaf_fields(schema: pa.Schema | StructType) -> Iterator[LeafField]:
    """Yield the columns of a table that may have statistics."""
    if not isinstance(schema, pa.Schema):
        described = schema.jsonValue()
        yield from fields_of(described, [], PHYSICAL in str(described)).leaves
        return
    for path, leaf in leaves_of(schema).items():
        if not leaf.struct:
            yield LeafField(path, path, type_at(schema, path))


def spark_type_of(leaf: LeafField) -> DataType:
    """Return the Spark type of a column."""
    found: DataType = as_spark(pa.schema([("", leaf.type)])).fields[0].dataType
    return found


def spark_json_type(leaf: LeafField) -> DataType | None:
    """Return the type as which a bound is parsed from JSON; None if such bounds are not used.

    Whole numbers are parsed as BIGINT, since Spark would wrap 200 to the TINYINT -56. Times are
    parsed as text, since Spark's JSON reader guesses their form.
    """
    from pyspark.sql import types as T

    dtype = from_arrow(leaf.type)
    match dtype.kind:
        case Kind.INT:
            return T.LongType()
        case Kind.FLOAT:
            return T.DoubleType()
        case Kind.DECIMAL:
            return T.DecimalType(dtype.precision, dtype.scale)
        case Kind.STRING | Kind.DATE | Kind.TIMESTAMP:
            return T.StringType()
    return None


def nested(types: Mapping[tuple[str, ...], DataType]) -> StructType:
    """Build nested structs from types by path."""
    from pyspark.sql import types as T

    below: dict[str, dict[tuple[str, ...], DataType]] = {}
    for path, kind in types.items():
        below.setdefault(path[0], {})[path[1:]] = kind
    return T.StructType(
        [
            T.StructField(name, inner[()] if () in inner else nested(inner))
            for name, inner in below.items()
        ]
    )
