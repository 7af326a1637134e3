"""The schema of tables with deletes."""

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    LongType,
    NestedField,
    StringType,
)

SCHEMA = Schema(
    NestedField(1, "x", LongType()),
    NestedField(2, "p", StringType()),
    NestedField(3, "f", DoubleType()),
)
