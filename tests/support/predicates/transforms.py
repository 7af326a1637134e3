"""Iceberg's transforms as pyiceberg computes them."""

from decimal import Decimal

import pytest

from skipstone.ir import types as ty
from skipstone.ir.types import Kind, decimal_type, to_python

NANOS, SECONDS, MILLIS = (ty.DType(Kind.TIMESTAMP, unit=u) for u in ("ns", "s", "ms"))


def iceberg_types():
    t = pytest.importorskip("pyiceberg.types")
    return {
        ty.INT32: t.IntegerType(),
        ty.INT64: t.LongType(),
        ty.DATE: t.DateType(),
        ty.TIMESTAMP: t.TimestamptzType(),
        ty.TIMESTAMP_NTZ: t.TimestampType(),
        NANOS: t.TimestampNanoType(),
        ty.STRING: t.StringType(),
        ty.BINARY: t.BinaryType(),
        decimal_type(9, 2): t.DecimalType(9, 2),
        decimal_type(18, 0): t.DecimalType(18, 0),
        decimal_type(38, 10): t.DecimalType(38, 10),
    }


def python(v, dtype):
    """Return a value in pyiceberg's form: decimals with all digits, times and dates as integers."""
    if dtype.kind is Kind.DECIMAL:
        return Decimal((int(v < 0), tuple(map(int, str(abs(v)))), -dtype.scale))
    return v if dtype.kind in (Kind.DATE, Kind.TIMESTAMP) else to_python(v, dtype)
