"""Write statistics of a DataFrame as SQL text that Spark can compare.

The text gives a number, BOOLEAN or BINARY, and NULL where the statistic is unknown. It converts a
bound of one type to a column of another, rounded outwards, as `kernels/pack/bounds.py` does. Dates
and timestamps become integers, so that neither zones nor far years matter; text becomes bytes, so
that collations do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skipstone.ir.types import PER_SECOND, DType, Kind, to_python

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
MICROS: Final = 10**6
EPOCH: Final = "TIMESTAMP_NTZ'1970-01-01'"
TICK: Final = "INTERVAL '0.000001' SECOND"


def bound(statistic: str, t: DataType, dtype: DType, *, high: bool) -> str | None:
    """Return a bound as SQL text that is comparable with `literal`s of the column's type.

    Args:
        statistic: SQL text that names the statistic.
        t: The statistic's type in Spark.
        dtype: The column's type.
        high: True for an upper bound.

    Returns:
        The text, or None if a statistic of that type cannot bound the column.
    """
    from pyspark.sql import types as T

    match dtype.kind, t:
        case Kind.BOOL, T.BooleanType():
            return statistic
        case ((Kind.INT | Kind.UINT), T.IntegralType()):
            return _integer(statistic, BITS[t.typeName()], dtype)
        case ((Kind.INT | Kind.UINT), T.DecimalType()) if t.scale == 0:
            return _integer(f"try_cast({statistic} AS bigint)", 64, dtype)
        case Kind.FLOAT, T.FloatType() | T.DoubleType() | T.IntegralType():
            name = "float" if dtype.bits == 32 else "double"
            # Rounded to the nearest, as column values are; a NaN bound is unknown.
            return f"nanvl(cast({statistic} AS {name}), cast(NULL AS {name}))"
        case Kind.DECIMAL, T.IntegralType():
            return f"try_cast({statistic} AS decimal({dtype.precision},{dtype.scale}))"
        case Kind.DECIMAL, T.DecimalType():
            return _decimal(statistic, t, dtype)
        case Kind.DATE, T.DateType():
            return f"unix_date({statistic})"
        case Kind.TIMESTAMP, T.TimestampType() if dtype.zoned:
            return _ticks(f"unix_micros({statistic})", PER_SECOND[dtype.unit], high)
        case Kind.TIMESTAMP, T.TimestampNTZType() if not dtype.zoned:
            return _ticks(wall(statistic), PER_SECOND[dtype.unit], high)
        case Kind.STRING, T.StringType() if t.isUTF8BinaryCollation():
            return f"cast(try_validate_utf8({statistic}) AS binary)"
        case Kind.BINARY, T.BinaryType():
            return statistic
    return None


def count(statistic: str, t: DataType) -> str | None:
    """Return a count as SQL text of a BIGINT; None if the type holds no whole numbers."""
    from pyspark.sql import types as T

    match t:
        case T.LongType():
            return statistic
        case T.IntegralType():
            return f"cast({statistic} AS bigint)"
        case T.DecimalType() if t.scale == 0:
            return f"try_cast({statistic} AS bigint)"
    return None


def wall(statistic: str) -> str:
    """Return the microseconds since 1970 of a TIMESTAMP_NTZ, independent of the session's zone.

    None of Spark's casts gives them without a zone.
    """
    return f"`div`({statistic} - {EPOCH}, {TICK})"


def literal(value: Any, dtype: DType) -> str:
    """Return an axis value as SQL text of a type that compares exactly with `bound`s.

    Example:
        >>> from skipstone.ir.types import DATE, DOUBLE, STRING, decimal_type
        >>> literal(19723, DATE), literal(2**40, DATE), literal(b"a'", STRING)
        ('19723', '1099511627776L', "X'6127'")
        >>> literal(0.1, DOUBLE), literal(-50, decimal_type(9, 2))
        ('0.1D', '-0.50BD')
    """
    match dtype.kind:
        case Kind.BOOL:
            return "true" if value else "false"
        case Kind.FLOAT if np.isinf(value):
            return f"cast('{'-' if value < 0 else ''}Infinity' AS double)"
        case Kind.FLOAT:
            return f"{float(np.dtype(dtype.numpy_type).type(value))!r}D"
        case Kind.DECIMAL:
            return f"{to_python(value, dtype):f}BD"
        case Kind.STRING | Kind.BINARY:
            return f"X'{value.hex()}'"
        case Kind.UINT if dtype.bits == 64:
            return f"{value}BD"
    return str(value) if -(2**31) <= value < 2**31 else f"{value}L"


def _integer(statistic: str, bits: int, dtype: DType) -> str:
    """Return an integer bound; NULL, unknown, if the column's type does not hold it."""
    assert isinstance(dtype.lowest, int) and isinstance(dtype.highest, int)
    tests = []
    if -(2 ** (bits - 1)) < dtype.lowest:
        tests.append(f"{statistic} >= {literal(dtype.lowest, dtype)}")
    if dtype.highest < 2 ** (bits - 1) - 1:
        tests.append(f"{statistic} <= {literal(dtype.highest, dtype)}")
    # Spark has no type for the upper half of UINT64.
    value = (
        f"cast({statistic} AS decimal(20,0))"
        if dtype.kind is Kind.UINT and dtype.bits == 64
        else statistic
    )
    return f"if({' AND '.join(tests)}, {value}, NULL)" if tests else value


def _decimal(statistic: str, t: Any, dtype: DType) -> str:
    """Return a decimal bound; NULL, unknown, if the column's type would lose digits."""
    cast = f"try_cast({statistic} AS decimal({dtype.precision},{dtype.scale}))"
    if t.scale <= dtype.scale:
        return cast
    return f"if(try_cast({cast} AS decimal({t.precision},{t.scale})) = {statistic}, {cast}, NULL)"


def _ticks(micros: str, unit: int, high: bool) -> str:
    """Convert microseconds to the column's unit, rounded outwards; NULL if that overflows."""
    if unit == MICROS:
        return micros
    if unit < MICROS:
        step = MICROS // unit
        rest = f"{micros} % {step}"
        away = f"if({rest} > 0, 1, 0)" if high else f"if({rest} < 0, -1, 0)"
        return f"{micros} div {step} + {away}"
    step = unit // MICROS
    limit = (2**63 - 1) // step
    return f"if({micros} BETWEEN -{limit}L AND {limit}L, {micros} * {step}, NULL)"
