"""Spark's types in Arrow's and back: of tables, of what statistics can tell of, and of the batches that workers hand to Spark."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.ir.errors import UnsupportedForm

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

PLAIN: Final = {
    "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
# What Spark notes of a column whose values are not, or not only, those that the files hold: texts that compare otherwise than
# by bytes, and columns that read as a default where a file lacks them.
STRANGE: Final = ("__COLLATIONS", "EXISTS_DEFAULT")
UNSIGNED: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


# From Spark to Arrow.


def as_arrow(schema: StructType) -> pa.Schema:
    """All columns of Spark as Arrow has them, instants in UTC; PySpark raises for what Arrow has not."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Older ones, which do not ask, say UTC.
    zone = (
        {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    )
    found: pa.Schema = to_arrow_schema(schema, **zone)
    return found


def arrow_schema(struct: Mapping[str, Any]) -> pa.Schema:
    """The columns that statistics can tell of; others are left out, so that a predicate about them is not understood.

    Example:
        >>> arrow_schema({"type": "struct", "fields": [{"name": "x", "type": "long"}, {"name": "l", "type": {"type": "array"}}]})
        x: int64
    """
    return pa.schema(_fields(struct))


def _fields(struct: Mapping[str, Any]) -> list[pa.Field]:
    known = (
        (f["name"], arrow_type(f["type"]))
        for f in struct["fields"]
        if not any(key in (f.get("metadata") or {}) for key in STRANGE)
    )
    return [pa.field(name, kind) for name, kind in known if kind is not None]


def arrow_type(kind: Any) -> pa.DataType | None:
    """The Arrow type of one of Spark's that statistics can tell of, as its JSON has it; None: they cannot."""
    if isinstance(kind, str):
        sized = re.fullmatch(r"decimal\((\d+),(-?\d+)\)", kind)
        if sized:
            precision, scale = int(sized[1]), int(sized[2])
            return pa.decimal128(precision, scale) if 0 <= scale <= precision else None
        return PLAIN.get(kind)
    return pa.struct(_fields(kind)) if kind.get("type") == "struct" else None


# From Arrow to Spark.


def as_spark(schema: pa.Schema) -> StructType:
    """All columns of Arrow as PySpark has them, the counterpart of `as_arrow`; it raises for what Spark has not."""
    from pyspark.sql.pandas.types import from_arrow_schema

    found: StructType = from_arrow_schema(schema, True)
    return found


def carried(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema by which Spark's own types travel: what a column of a table becomes there. Everything may be NULL, as in any file source.

    Raises:
        UnsupportedForm: Spark has no type for a column.

    Example:
        >>> carried(pa.schema([("x", pa.uint8()), ("s", pa.dictionary(pa.int32(), pa.large_string()))]))
        x: int16
        s: string
    """
    fields = []
    for f in schema:
        kind = carried_type(f.type)
        if kind is None:
            kept = ", ".join(o.name for o in schema if carried_type(o.type) is not None)
            raise UnsupportedForm(
                f"Spark has no type for the column {f.name!r}, {f.type}; leave it out: columns= takes some of {kept or 'none'}"
            )
        fields.append(pa.field(f.name, kind))
    return pa.schema(fields)


def carried_type(t: pa.DataType) -> pa.DataType | None:
    """The Arrow type of Spark's type for one of a table; None: it has none."""
    is_ = pa.types
    while is_.is_dictionary(t) or is_.is_run_end_encoded(t) or isinstance(t, pa.BaseExtensionType):
        t = t.storage_type if isinstance(t, pa.BaseExtensionType) else t.value_type
    if is_.is_struct(t):
        below = [(f.name, carried_type(f.type)) for f in t]
        return None if any(kind is None for _, kind in below) else pa.struct(below)
    if is_.is_map(t):
        key, item = carried_type(t.key_type), carried_type(t.item_type)
        return (
            None
            if key is None or item is None
            else pa.map_(pa.field("key", key, nullable=False), pa.field("value", item))
        )
    if is_.is_list(t) or is_.is_large_list(t) or is_.is_fixed_size_list(t):
        item = carried_type(t.value_type)
        return None if item is None else pa.list_(pa.field("element", item))
    if t in UNSIGNED:
        return UNSIGNED[t]
    if is_.is_string(t) or is_.is_large_string(t) or is_.is_string_view(t):
        return pa.string()
    if (
        is_.is_binary(t)
        or is_.is_large_binary(t)
        or is_.is_binary_view(t)
        or is_.is_fixed_size_binary(t)
    ):
        return pa.binary()
    if is_.is_timestamp(t) and t.unit != "ns":
        return pa.timestamp("us", None if t.tz is None else "UTC")
    if is_.is_date(t):
        return pa.date32()
    if is_.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return pa.decimal128(t.precision, t.scale)
    plain = (
        is_.is_boolean(t)
        or is_.is_signed_integer(t)
        or is_.is_float32(t)
        or is_.is_float64(t)
        or is_.is_null(t)
    )
    return t if plain else None


def spark_schema(schema: pa.Schema, notes: dict[str, dict[str, Any]] | None = None) -> StructType:
    """Spark's schema of a `carried` one; `notes` are the metadata of its columns, by name."""
    from pyspark.sql import types as T

    return T.StructType(
        [T.StructField(f.name, spark_type(f.type), True, (notes or {}).get(f.name)) for f in schema]
    )


def spark_type(t: pa.DataType) -> DataType:
    """Spark's type of a `carried` one."""
    from pyspark.sql import types as T

    plain: dict[pa.DataType, DataType] = {
        pa.bool_(): T.BooleanType(), pa.int8(): T.ByteType(), pa.int16(): T.ShortType(), pa.int32(): T.IntegerType(), pa.int64(): T.LongType(),
        pa.float32(): T.FloatType(), pa.float64(): T.DoubleType(), pa.date32(): T.DateType(), pa.string(): T.StringType(), pa.binary(): T.BinaryType(),
        pa.timestamp("us", "UTC"): T.TimestampType(), pa.timestamp("us"): T.TimestampNTZType(), pa.null(): T.NullType(),
    }  # fmt: skip
    if pa.types.is_struct(t):
        return T.StructType([T.StructField(f.name, spark_type(f.type)) for f in t])
    if pa.types.is_map(t):
        return T.MapType(spark_type(t.key_type), spark_type(t.item_type))
    if pa.types.is_list(t):
        return T.ArrayType(spark_type(t.value_type))
    return T.DecimalType(t.precision, t.scale) if pa.types.is_decimal(t) else plain[t]


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of a table's rows in the types by which Spark takes them."""
    columns = [_fitted(batch.column(f.name), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    while isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values if values.type.equals(kind) else values.cast(kind)
