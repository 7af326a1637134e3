"""Spark's coercion: the type in which Spark compares a column with a literal.

Casting the column to that type keeps its order. So a comparison in that type can be replaced by one
of the column itself with a threshold, which `pullback` finds. The bound predicate holds no cast.
"""

from __future__ import annotations

from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.coercion.literals import (
    instant_of,
    micros_to,
    to_float,
    to_float32,
)
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.zones import DAY, to_local

INTEGER: Final = (Kind.INT, Kind.UINT)
DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}  # decimal digits that Spark gives each integer type


def in_spark(t: DType) -> DType:
    """Return the type that Spark reads for a column: unsigned integers become wider signed ones."""
    if t.kind is Kind.UINT:
        return ty.decimal_type(20, 0) if t.bits == 64 else ty.DType(Kind.INT, bits=t.bits * 2)
    return t


def common_type(column: DType, lit: DType, session: Session, digits: int | None = None) -> DType:
    """Return the type in which Spark compares a column with a literal.

    Args:
        column: The column's type.
        lit: The literal's type.
        session: Its ANSI mode decides how strings are compared, and integers with FLOAT.
        digits: Digits of an integer literal; None takes those of its type, as IN does.

    Raises:
        CannotJudge: Spark rejects the pair, or would round a decimal to make it fit.

    Source: Spark 4, `AnsiTypeCoercion` and `TypeCoercion`.
    """
    a, b = in_spark(column), in_spark(lit)
    if a == b or b.kind is Kind.NULL:
        return a
    kinds = {a.kind, b.kind}
    if a.element is not None and b.element is not None:
        return ty.list_type(
            b.element if a.element == ty.NULL else common_type(a.element, b.element, session)
        )
    if kinds <= {Kind.INT}:
        return a if a.bits >= b.bits else b
    if kinds == {Kind.FLOAT}:
        return ty.DOUBLE
    if kinds == {Kind.INT, Kind.FLOAT}:
        narrow = (a if a.kind is Kind.FLOAT else b).bits == 32
        return ty.FLOAT if narrow and not session.ansi else ty.DOUBLE
    if kinds == {Kind.DECIMAL, Kind.FLOAT}:
        return ty.DOUBLE
    if kinds <= {Kind.INT, Kind.DECIMAL}:
        return _wider_decimal(_as_decimal(a, None), _as_decimal(b, digits))
    if kinds == {Kind.STRING, Kind.BINARY}:
        return ty.BINARY
    if kinds == {Kind.INTERVAL} and a.unit == b.unit:
        return ty.DAY_TIME
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return _in_micros(a if a.kind is Kind.TIMESTAMP else b)
    if kinds == {Kind.TIME}:
        return DType(Kind.TIME, unit="ns" if "ns" in (a.unit, b.unit) else "us")
    if kinds == {Kind.TIMESTAMP}:
        # Spark has only one unit. A zoned and a zone-less timestamp are compared as instants.
        return DType(
            Kind.TIMESTAMP,
            unit="ns" if "ns" in (a.unit, b.unit) else "us",
            zoned=a.zoned or b.zoned,
        )
    if b.kind is Kind.STRING and a.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.BOOL):
        return _in_micros(a)
    if b.kind is Kind.STRING and a.kind is Kind.INT:
        return ty.INT64 if session.ansi else a
    if b.kind is Kind.STRING and a.kind is Kind.DECIMAL and not a.scale and not session.ansi:
        return a
    if b.kind is Kind.STRING and a.kind in (Kind.FLOAT, Kind.DECIMAL):
        return ty.FLOAT if a.bits == 32 and not session.ansi else ty.DOUBLE
    if a.kind is Kind.STRING:
        raise CannotJudge(
            f"Spark casts the column from STRING to compare it with {b}, which keeps no order"
        )
    raise CannotJudge(f"Spark does not compare {a} with {b}", _LITERALS.get(a.kind, ""))


# How to write a literal of a type that people compare with numbers.
_LITERALS: Final = {
    Kind.DATE: "write a date as DATE '2024-01-31'",
    Kind.TIMESTAMP: "write a time as TIMESTAMP '2024-01-31 12:00:00'",
    Kind.BOOL: "write true or false",
}


def _in_micros(t: DType) -> DType:
    """Return a timestamp type in microseconds, Spark's unit; nanoseconds, which are finer, stay."""
    if t.kind is not Kind.TIMESTAMP or t.unit == "ns":
        return t
    return DType(t.kind, unit="us", zoned=t.zoned)


def _as_decimal(t: DType, digits: int | None) -> DType:
    if t.kind is Kind.DECIMAL:
        return t
    return ty.decimal_type(digits if digits is not None else DIGITS[t.bits], 0)


def _wider_decimal(a: DType, b: DType) -> DType:
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    if precision > 38:
        raise CannotJudge(
            f"comparing {a} with {b} needs {precision} digits, and Spark rounds beyond 38"
        )
    return ty.decimal_type(precision, scale)


def cast_literal(
    axis: object, source: DType, to: DType, session: Session
) -> int | float | bytes | None:
    """Cast a literal's axis value to the type of the comparison.

    Args:
        axis: The literal on the axis of `source`; None is NULL.
        source: The literal's type.
        to: The type of the comparison.
        session: Its time zone decides about dates and timestamps.

    Returns:
        The value on the axis of `to`. It may be NaN; None is NULL.

    Raises:
        CannotJudge: Spark's cast raises an error, or its result is not certain here.
    """
    if axis is None:
        return None
    if source == to and isinstance(axis, int | float | bytes):
        return axis
    match source.kind, to.kind, axis:
        case ((Kind.INT | Kind.UINT), (Kind.INT | Kind.UINT), int()):
            return axis
        case ((Kind.INT | Kind.UINT | Kind.DECIMAL), Kind.DECIMAL, int()):
            return int(axis * 10 ** (to.scale - source.scale))
        case ((Kind.INT | Kind.UINT | Kind.DECIMAL), Kind.FLOAT, int()):
            return to_float(axis, 10**source.scale, to)
        case Kind.FLOAT, Kind.FLOAT, float():
            return axis if to.bits == 64 else to_float32(axis)
        case Kind.INTERVAL, Kind.INTERVAL, int():
            return axis
        case Kind.DATE, Kind.TIMESTAMP, int():
            wall = axis * DAY
            return instant_of(wall, to, session) if to.zoned else micros_to(wall, to)
        case Kind.TIMESTAMP, Kind.TIMESTAMP, int():
            micros, rest = divmod(axis * 10**6, ty.PER_SECOND[source.unit])
            if to.zoned == source.zoned:
                whole = micros_to(micros, to)
            elif to.zoned:
                whole = instant_of(micros, to, session)
            else:
                whole = micros_to(to_local(micros, session.zone), to)
            return whole + rest * ty.PER_SECOND[to.unit] // (10**6 * ty.PER_SECOND[source.unit])
        case Kind.TIME, Kind.TIME, int():  # to a unit that is as fine
            return axis * ty.PER_SECOND[to.unit] // ty.PER_SECOND[source.unit]
        case Kind.STRING, Kind.BINARY, bytes():
            return axis
        case Kind.STRING, _, bytes():
            from skipstone.ir.coercion.texts import from_text  # at first use: see `texts.py`

            return from_text(axis.decode("utf-8", "replace"), to, session)
    raise CannotJudge(f"Spark does not cast {source} to {to} here")


def same_equality(a: DType, b: DType | None) -> bool:
    """Return True if values of two types that differ remain different in their common type."""
    assert b is not None
    return (
        a == b
        or {a.kind, b.kind} <= {Kind.INT, Kind.DECIMAL}
        or (a.kind is b.kind and a.kind is not Kind.TIMESTAMP)
    )


def types_differ(column: Node, types: list[DType], expressions: bool) -> bool:
    """Return True if IN has to cast a scalar and its members to compare them.

    If all members are literals, only strings need the cast: other literals are points on the
    scalar's axis.
    """
    assert column.dtype is not None
    if column.dtype.element is not None:
        return True
    return any(
        t.kind is not Kind.NULL
        and (Kind.STRING in (t.kind, column.dtype.kind) or expressions)
        and not same_equality(t, column.dtype)
        for t in types
    )
