"""A schema with a column of each type, and tables of it."""

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

KINDS = {
    "i": IntegerType(),
    "l": LongType(),
    "f": FloatType(),
    "g": DoubleType(),
    "d": DecimalType(9, 2),
    "day": DateType(),
    "at": TimestampType(),
    "tz": TimestamptzType(),
    "s": StringType(),
    "b": BinaryType(),
    "t": BooleanType(),
}


SCHEMA = Schema(
    *(NestedField(i + 1, name, kind) for i, (name, kind) in enumerate(KINDS.items())),
    NestedField(
        20,
        "st",
        StructType(NestedField(21, "a", IntegerType()), NestedField(22, "n", StringType())),
    ),
)


IDS = {name: i + 1 for i, name in enumerate(KINDS)}


def spec_of(fields):
    return PartitionSpec(
        *(
            PartitionField(IDS[name], 1000 + k, t, f"{name}_{str(t).split('[')[0]}")
            for k, (name, t) in enumerate(fields)
        )
    )


def arrow_schema():
    from skipstone.bindings.tables.iceberg.fields import TableFields

    return TableFields(SCHEMA, {}).schema


ARROW = arrow_schema()


def rows_of(table):
    """Return the rows of a table, in no order."""
    return sorted(map(repr, table.to_pylist()))


def nulls_but(n, **columns):
    return pa.table(
        [
            pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(n, f.type)
            for f in ARROW
        ],
        schema=ARROW,
    )
