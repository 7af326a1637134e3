"""Arithmetic: + - *, unary minus and abs, with Spark's result types and overflow.

Source: Spark 4, `arithmetic.scala`, `DecimalPrecision`, `AnsiTypeCoercion`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, SupportsInt

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import DIGITS, common_type, in_spark
from skipstone.ir.function import VALUE_UNKNOWN, Call, Function, Policy, Signature, check_arity
from skipstone.ir.interval import Interval, corners
from skipstone.ir.node import Node, Op
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import NO, Data, Mask, both, either, numpy_type_of

NUMERIC: Final = (Kind.INT, Kind.FLOAT, Kind.DECIMAL)


def number(t: DType | None) -> DType:
    """Return the type under which Spark reads a numeric operand; NULL is a DOUBLE.

    Raises:
        CannotJudge: the type is not numeric.
    """
    if t == ty.NULL:
        return ty.DOUBLE
    if t is None or in_spark(t).kind not in NUMERIC:
        raise CannotJudge(f"expected a number, got {t}")
    return in_spark(t)


def check_double(n: Node) -> None:
    """Raise CannotJudge unless Spark casts an argument to DOUBLE by itself: numbers and text."""
    if n.dtype != ty.STRING:
        number(n.dtype)


def operands(args: tuple[Node, ...], session: Session) -> tuple[DType, DType]:
    """Return the types of two operands after Spark's widening; two decimals keep their own."""
    check_arity(args, 2)
    given = [n.dtype for n in args if n.dtype != ty.NULL]
    a, b = (number(given[0] if n.dtype == ty.NULL and given else n.dtype) for n in args)
    kinds = {a.kind, b.kind}
    if Kind.FLOAT in kinds:
        narrow = all(t.kind is Kind.INT or t.bits == 32 for t in (a, b)) and not (
            session.ansi and Kind.INT in kinds
        )
        to = ty.FLOAT if narrow else ty.DOUBLE
        return to, to
    if kinds == {Kind.INT}:
        wide = a if a.bits >= b.bits else b
        return wide, wide
    return _decimal(args[0], a), _decimal(args[1], b)


def _decimal(n: Node, t: DType) -> DType:
    """Return the decimal type of an integer beside a decimal.

    A literal takes its own digits, a column those of its type.
    """
    if t.kind is Kind.DECIMAL:
        return t
    value = n.value if n.op is Op.LITERAL else None
    digits = len(str(abs(int(value)))) if isinstance(value, SupportsInt) else DIGITS[t.bits]
    return ty.decimal_type(digits, 0)


def decimal_result(precision: int, scale: int) -> DType:
    """Return the decimal type of a result.

    Raises:
        CannotJudge: it needs more than 38 digits.
    """
    if precision > 38:
        raise CannotJudge(f"the result needs {precision} digits, and Spark rounds beyond 38")
    return ty.decimal_type(precision, scale)


def _intervals(args: tuple[Node, ...], session: Session) -> DType | None:
    """Return the type of two intervals, one of them possibly NULL; None for other operands."""
    types = [n.dtype for n in args if n.dtype is not None and n.dtype.kind is not Kind.NULL]
    if len(args) != 2 or not types or any(t.kind is not Kind.INTERVAL for t in types):
        return None
    return common_type(types[0], types[-1], session)


def _sum(args: tuple[Node, ...], session: Session) -> Signature:
    interval = _intervals(args, session)
    if interval is not None:
        return (interval, interval), interval
    a, b = operands(args, session)
    if a.kind is not Kind.DECIMAL:
        return (a, b), a
    scale = max(a.scale, b.scale)
    return (a, b), decimal_result(
        max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale
    )


def _product(args: tuple[Node, ...], session: Session) -> Signature:
    """Return the types of a product; an interval can be multiplied by an integer."""
    kinds = [n.dtype.kind for n in args if n.dtype is not None]
    if len(kinds) == 2 and Kind.INTERVAL in kinds and set(kinds) & {Kind.INT, Kind.NULL}:
        interval = args[kinds.index(Kind.INTERVAL)].dtype
        to = ty.YEAR_MONTH if interval == ty.YEAR_MONTH else ty.DAY_TIME
        return [to if k is Kind.INTERVAL else ty.INT64 for k in kinds], to
    a, b = operands(args, session)
    return (a, b), a if a.kind is not Kind.DECIMAL else decimal_result(
        a.precision + b.precision + 1, a.scale + b.scale
    )


def _unary(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 1)
    t = args[0].dtype
    if t is None or t.kind is not Kind.INTERVAL:
        t = number(t)
    return (t,), t


def overflow(call: Call) -> Policy:
    """Return the policy on overflow: integers raise or wrap; decimals raise or become NULL.

    Floats do not overflow.
    """
    if call.session.ansi or call.dtype.kind is Kind.INTERVAL:
        return "raise"
    return "null" if call.dtype.kind is Kind.DECIMAL else "keep"


def wrap(values: Data, dtype: DType) -> tuple[Data, Mask]:
    """Wrap exact integers, as objects or int64, into a type's range as two's complement.

    Returns:
        The wrapped values, and a mask of those that were outside the range.
    """
    if dtype.bits == 64 and values.dtype == np.int64:
        return values, NO
    low, high = dtype.lowest, dtype.highest
    bad = np.asarray((values < low) | (values > high), np.bool_)
    if not bad.any():
        return values.astype(numpy_type_of(dtype)), bad
    span = 2**dtype.bits
    out = values.astype(object)
    out[bad] = (out[bad] - low) % span + low
    return out.astype(numpy_type_of(dtype)), bad


def wide_for(a: Data, unit: int) -> Data:
    """Return integers in a type that can also hold `unit`."""
    return a.astype(object) if unit >= 2**63 else a


def towards_zero(a: Data, unit: int) -> Data:
    """Divide integers by a positive one and drop the remainder."""
    a = wide_for(a, unit)
    return np.where(np.asarray(a < 0, np.bool_), -(-a // unit), a // unit)


def half_up(a: Data, unit: int) -> Data:
    """Divide integers by a positive one and round to the nearest; halves away from zero."""
    if unit == 1:
        return a
    size = np.abs(wide_for(a, unit))
    whole = size // unit
    size = whole + np.asarray((size - whole * unit) >= unit - unit // 2, np.bool_)
    return np.where(np.asarray(a < 0, np.bool_), -size, size)


def half_even(a: Data, unit: int) -> Data:
    """Divide integers by a positive one and round to the nearest; halves to the even one."""
    if unit == 1:
        return a
    a = wide_for(a, 2 * unit)
    whole = a // unit
    twice = 2 * (a - whole * unit)
    up = np.asarray((twice > unit) | ((twice == unit) & (whole % 2 == 1)), np.bool_)
    return np.asarray(whole + up)


def rounded(x: Data, decimals: int) -> tuple[Data, Mask]:
    """Round the absolute values of doubles half up to whole units of 10^-decimals.

    Returns:
        The numbers of units, and a mask of those that are certain: the exact value of a number and
        its shortest text round alike, and halves are far. 10^22 is the greatest exact power, and
        the products of units below 2^50 are then exact to one part in 2^51.
    """
    with np.errstate(all="ignore"):
        units = np.abs(x) * 10.0 ** max(min(decimals, 22), -22)
        whole = np.floor(units)
        apart = np.abs(units - whole - 0.5) > units * 2.0**-50
        certain = apart & (units < 2.0**50) & (abs(decimals) <= 22)
        return whole + (units - whole >= 0.5), np.asarray(certain, np.bool_)


def reach(a: Data) -> int:
    """Return the greatest absolute value of some integers."""
    return max(abs(int(a.min())), abs(int(a.max()))) if len(a) else 0


def exact(op: Any, a: Data, b: Data, bits: int) -> Data:
    """Apply an integer operation without overflow.

    The result is int64 if it certainly fits, otherwise an object array of Python integers.
    """
    if a.dtype != object and b.dtype != object and len(a) and len(b):
        most = reach(a) * reach(b) if op is np.multiply else reach(a) + reach(b)
        if most < 2**63:
            return np.asarray(op(a, b))
        if bits == 64:
            near = op(a.astype(np.float64), b.astype(np.float64))
            if (np.abs(near) < 2.0**62).all():
                return np.asarray(op(a, b))
    return np.asarray(op(a.astype(object), b.astype(object)))


def _integers_or_floats(op: Any) -> Any:
    def point(call: Call, a: Data, b: Data) -> Any:
        if call.dtype.kind is Kind.FLOAT:
            return op(a, b)
        if call.dtype.kind in (Kind.INT, Kind.INTERVAL):
            return wrap(exact(op, a, b, call.dtype.bits), call.dtype)
        if op is not np.multiply:
            a, b = (
                rescale(x, call.dtype.scale - t.scale)
                for x, t in zip((a, b), call.types, strict=True)
            )
        return exact(op, a, b, 64)  # a decimal's result type holds it

    return point


def rescale(a: Data, digits: int) -> Data:
    """Return decimals with more digits after the point."""
    if digits == 0:
        return a
    return exact(np.multiply, a, np.array([10**digits], object if digits > 18 else np.int64), 64)


_TIMES: Final = Function(_product, _integers_or_floats(np.multiply), monotone=True, bad=overflow)


def _product_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the corners, and NaN: 0 times infinity is NaN, and 0 may lie between corners."""
    interval = corners(call, _TIMES, args)
    if call.dtype.kind is not Kind.FLOAT:
        return interval
    a, b = args
    undefined = both(
        a.may_hold_value,
        b.may_hold_value,
        either(both(_holds_zero(a), _holds_infinity(b)), both(_holds_zero(b), _holds_infinity(a))),
    )
    return replace(interval, may_hold_nan=either(interval.may_hold_nan, undefined))


def _holds_zero(a: Interval) -> Mask:
    return np.asarray((a.low <= 0) & (a.high >= 0), np.bool_)


def _holds_infinity(a: Interval) -> Mask:
    return np.asarray(np.isinf(a.low) | np.isinf(a.high), np.bool_)


def _negate(call: Call, a: Data) -> Any:
    if call.dtype.kind is Kind.DECIMAL:
        return -a, _mark_long(a)
    if call.dtype.kind is Kind.FLOAT:
        return -a
    return wrap(exact(np.subtract, np.zeros(1, np.int64), a, 64), call.dtype)


def _mark_long(a: Data) -> Data:
    """Mark decimals of 35 digits or more as unknown: Spark rounds their negative to 34 digits.

    Source: Scala, `BigDecimal.unary_-`; seen in 4.3.
    """
    if a.dtype == object:
        return np.where(np.asarray(np.abs(a) >= 10**34, np.bool_), VALUE_UNKNOWN, 0)
    return np.zeros(len(a), np.uint8)


def _abs(call: Call, a: Data) -> Any:
    if call.dtype.kind is Kind.DECIMAL:
        return np.abs(a), _mark_long(a)
    if call.dtype.kind is Kind.FLOAT:
        return np.abs(a)
    return wrap(np.abs(a.astype(object) if (a == np.iinfo(np.int64).min).any() else a), call.dtype)


_ABS: Final = Function(_unary, _abs, bad=overflow)


def _abs_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the corners, and 0 if the argument's interval holds it."""
    (a,) = args
    interval = corners(call, _ABS, args)
    across = a.may_hold_value & np.asarray(
        (a.low < 0) & (a.high > 0) & (interval.low > 0), np.bool_
    )
    return replace(interval, low=np.where(across, np.zeros(1, interval.low.dtype), interval.low))


FUNCTIONS: Final = {
    "add": Function(_sum, _integers_or_floats(np.add), monotone=True, bad=overflow),
    "subtract": Function(_sum, _integers_or_floats(np.subtract), monotone=True, bad=overflow),
    "multiply": replace(_TIMES, interval=_product_interval),
    "try_add": Function(_sum, _integers_or_floats(np.add), bad="null"),
    "try_subtract": Function(_sum, _integers_or_floats(np.subtract), bad="null"),
    "try_multiply": Function(_product, _integers_or_floats(np.multiply), bad="null"),
    "negative": Function(_unary, _negate, monotone=True, bad=overflow),
    "abs": Function(_unary, _abs, bad=overflow, interval=_abs_interval),
}
