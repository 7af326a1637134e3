"""Literals: the Spark type of a Python value, and casts of numbers and times as in Spark."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import types as ty
from skipstone.ir.errors import clip
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.zones import to_instant

if TYPE_CHECKING:
    from fractions import Fraction


def literal_type(value: object) -> tuple[DType, object]:
    """Return the Spark type and axis value of a Python value, as Spark's `lit()` types it.

    Raises:
        TypeError: no SQL literal represents the value.
    """
    if isinstance(value, np.float32):
        return ty.FLOAT, float(value)
    if isinstance(value, np.datetime64):
        return _datetime64(value)
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None:
            return ty.NULL, None
        case bool():
            return ty.BOOL, int(value)
        case int():
            if -(2**31) <= value < 2**31:
                return ty.INT32, value
            if -(2**63) <= value < 2**63:
                return ty.INT64, value
            return literal_type(decimal.Decimal(value))
        case float():
            return ty.DOUBLE, value
        case decimal.Decimal() if (dtype := _decimal_type(value)) is not None:
            return dtype, ty.to_axis(value, dtype)
        case dt.datetime():
            return _datetime(value)
        case dt.date():
            return ty.DATE, ty.to_axis(value, ty.DATE)
        case dt.time() if value.tzinfo is None:
            return ty.TIME, ty.to_axis(value, ty.TIME)
        # A lone surrogate is not a character.
        case str() if not any("\ud800" <= ch <= "\udfff" for ch in value):
            return ty.STRING, ty.to_axis(value, ty.STRING)
        case bytes() | bytearray() | memoryview():
            return ty.BINARY, bytes(value)
    if type(value).__name__ == "NAType":  # pandas.NA
        return ty.NULL, None
    raise _no_literal(value)


def scalar_type(scalar: pa.Scalar) -> tuple[DType, object]:
    """Return the type and axis value of an Arrow scalar, as `literal_type` of its Python value.

    Raises:
        TypeError: no SQL literal represents the value.
    """
    # For a time of day, `as_py` drops the nanoseconds below a microsecond (pyarrow 26).
    if isinstance(scalar, pa.Time64Scalar) and scalar.is_valid:
        return ty.from_arrow(scalar.type), scalar.value
    return literal_type(scalar.as_py())


def _no_literal(value: object) -> TypeError:
    """Return the error for a value that no SQL literal represents."""
    kind, way_out = type(value).__name__, ""
    if kind == "UUID":
        way_out = "; write its bytes (.bytes) for a column of Parquet, its text for one of Iceberg"
    elif hasattr(value, "__iter__") and not isinstance(value, str | dict):
        way_out = "; test a list of values by isin"
    return TypeError(
        f"{clip(repr(value))} ({kind}) is not a literal; expected None, bool, "
        f"int, float, Decimal, date, time, datetime, str or bytes{way_out}"
    )


def _decimal_type(value: decimal.Decimal) -> DType | None:
    """Return the smallest type that holds a number; None if it has more than 38 digits."""
    if not value.is_finite():
        return None
    t = value.as_tuple()
    assert isinstance(t.exponent, int)
    scale = max(0, -t.exponent)
    precision = max(len(t.digits) + max(0, t.exponent), scale)
    return ty.decimal_type(precision, scale) if precision <= 38 else None


def _datetime(value: dt.datetime) -> tuple[DType, object]:
    if value != value:  # pandas.NaT
        return ty.NULL, None
    dtype = ty.TIMESTAMP if value.tzinfo else ty.TIMESTAMP_NTZ
    nanosecond = getattr(value, "nanosecond", 0)  # of a pandas.Timestamp
    return _nanoseconds(dtype, ty.to_axis(value, dtype), nanosecond)


def _datetime64(value: np.datetime64) -> tuple[DType, object]:
    if np.isnat(value):
        return ty.NULL, None
    unit = np.datetime_data(value.dtype)[0]
    if unit in ("ps", "fs", "as"):
        raise TypeError(f"{value!r} is not a literal; expected a unit of nanoseconds or coarser")
    if unit == "ns":
        micros, rest = divmod(int(value.astype("datetime64[ns]").astype(np.int64)), 1000)
        return _nanoseconds(ty.TIMESTAMP_NTZ, micros, rest)
    return ty.TIMESTAMP_NTZ, int(value.astype("datetime64[us]").astype(np.int64))


def _nanoseconds(dtype: DType, micros: int | float | bytes, rest: int) -> tuple[DType, object]:
    """Return a timestamp of `micros` microseconds and `rest` nanoseconds.

    If `rest` is 0, Spark's unit, the microsecond, is enough.
    """
    assert isinstance(micros, int)
    if rest:
        return (DType(Kind.TIMESTAMP, unit="ns", zoned=dtype.zoned), micros * 1000 + rest)
    return (dtype, micros)


def to_float32(value: Fraction | int | float) -> float:
    """Round an exact value to the nearest FLOAT: ties to even, once, as Java's casts do."""
    if isinstance(value, float) and not math.isfinite(value):
        return value
    with np.errstate(over="ignore", under="ignore"):
        try:
            guess = np.float32(float(value))
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        if not np.isfinite(guess):
            return float(guess)
        from fractions import Fraction  # at first use: importing it takes 3 ms

        exact = Fraction(value)
        near = [
            guess,
            np.nextafter(guess, np.float32(-np.inf)),
            np.nextafter(guess, np.float32(np.inf)),
        ]
    near = [c for c in near if np.isfinite(c)]
    best = min(abs(Fraction(float(c)) - exact) for c in near)
    ties = [c for c in near if abs(Fraction(float(c)) - exact) == best]
    return float(next((c for c in ties if not int(c.view(np.uint32)) & 1), ties[0]))


def to_float(numerator: int, denominator: int, to: DType) -> float:
    """Round a quotient to the nearest FLOAT or DOUBLE; beyond the type it becomes infinity.

    Args:
        numerator: The numerator.
        denominator: The denominator, above 0.
        to: The type.
    """
    if to.bits == 32:
        from fractions import Fraction

        return to_float32(Fraction(numerator, denominator))
    try:
        return numerator / denominator  # Python rounds quotients of integers to the nearest
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


class UncertainInstant(CannotJudge):
    """The offset of the session's time zone is not certain at a wall clock's time.

    Attributes:
        wall: The time on that clock, microseconds since 1970.
    """

    def __init__(self, wall: int) -> None:
        super().__init__(UNCERTAIN)
        self.wall = wall


UNCERTAIN: Final = "the session time zone's offset is not certain at that time"


def micros_to(micros: int | None, to: DType) -> int:
    """Convert microseconds to the unit of a type.

    Raises:
        CannotJudge: `micros` is None, because the offset at that time is not certain.
    """
    if micros is None:
        raise CannotJudge(UNCERTAIN)
    return micros * ty.PER_SECOND[to.unit] // 10**6


def instant_of(wall: int, to: DType, session: Session) -> int:
    """Convert a time on the session's clock to an instant of a timestamp type.

    Raises:
        UncertainInstant: the offset at that time is not certain.
    """
    instant = to_instant(wall, session.zone)
    if instant is None:
        raise UncertainInstant(wall)
    return micros_to(instant, to)
