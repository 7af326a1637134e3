"""Functions of numbers besides arithmetic.

They are floor, ceil, round, bround, rint, sign, degrees, radians and sqrt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import DIGITS
from skipstone.ir.function import (
    VALUE_UNKNOWN,
    Call,
    Function,
    Policy,
    Signature,
    check_arity,
    int_literal,
    only_value,
)
from skipstone.ir.functions.arithmetic import (
    check_double,
    exact,
    half_even,
    half_up,
    number,
    overflow,
    reach,
    rounded,
    wide_for,
    wrap,
)
from skipstone.ir.functions.cast_values import texts_of
from skipstone.ir.interval import Interval
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import NO, Data


def _whole(args: tuple[Node, ...], session: Session) -> Signature:
    """Return the types of floor and ceil: decimals stay decimals, all others become BIGINT.

    With a number of digits, all become decimals.
    """
    check_arity(args, 1, 2)
    t = number(args[0].dtype)
    if len(args) == 2:
        return _to_digits(t, int_literal(args[1]))
    if t.kind is Kind.DECIMAL and t.scale == 0:
        return (t,), t
    if t.kind is Kind.DECIMAL:
        return (t,), ty.decimal_type(min(38, t.precision - t.scale + 1), 0)
    return (ty.INT64 if t.kind is Kind.INT else ty.DOUBLE,), ty.INT64


def _to_digits(t: DType, digits: int) -> Signature:
    """Return the types of floor(x, digits). Source: Spark, `RoundCeil`; seen in 4.3."""
    if abs(digits) > 38:
        raise CannotJudge("expected at most 38 digits")
    if t.kind is Kind.INT:
        t = ty.decimal_type(DIGITS[t.bits], 0)
    elif t.kind is Kind.FLOAT:
        t = ty.decimal_type(30, 15) if t.bits == 64 else ty.decimal_type(14, 7)
    whole, scale = t.precision - t.scale + 1, min(t.scale, max(digits, 0))
    precision = max(whole, 1 - digits) if digits < 0 else whole + scale
    if precision > 38:
        raise CannotJudge(f"the result needs {precision} digits, and Spark rounds beyond 38")
    return (t, ty.INT32), ty.decimal_type(precision, scale)


def _steps(call: Call, digits: Data | None) -> tuple[int, int]:
    """Return the unit to which floor and ceil go, and what a step counts in the result."""
    decimals = 0 if digits is None else min(int(only_value(digits)), 0)
    return 10 ** (call.types[0].scale - call.dtype.scale - decimals), int(10**-decimals)


def _saturated(call: Call, x: Data) -> Any:
    """Convert floats to long as Java does.

    NaN becomes 0, also in ANSI mode. Values beyond the range become its ends; in ANSI mode they are
    errors.
    """
    nan = np.isnan(x)
    inside = np.clip(np.where(nan, 0, x), -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64)
    whole = np.where(x >= 2.0**63, np.iinfo(np.int64).max, inside)
    return (whole, (x > 2.0**63) | (x < -(2.0**63))) if call.session.ansi else whole


def _floor(call: Call, a: Data, digits: Data | None = None) -> Any:
    if call.types[0].kind is Kind.FLOAT:
        return _saturated(call, np.floor(a))
    unit, step = _steps(call, digits)
    return wide_for(a, unit) // unit * step


def _ceil(call: Call, a: Data, digits: Data | None = None) -> Any:
    if call.types[0].kind is Kind.FLOAT:
        return _saturated(call, np.ceil(a))
    unit, step = _steps(call, digits)
    return -(-wide_for(a, unit) // unit) * step


def _round_signature(args: tuple[Node, ...], session: Session) -> Signature:
    """Return the types of round(x, digits). Source: Spark, `RoundBase`; seen in 4.3."""
    check_arity(args, 1, 2)
    t = number(args[0].dtype)
    digits = int_literal(args[1]) if len(args) > 1 else 0
    if not -38 < digits <= 300:
        raise CannotJudge("expected -37 to 300 digits")
    tail = (ty.INT32,) * (len(args) - 1)
    if t.kind is not Kind.DECIMAL:
        return (t, *tail), t
    whole, scale = t.precision - t.scale + 1, min(t.scale, max(digits, 0))
    return (t, *tail), ty.decimal_type(min(38, max(whole + scale, 1 - digits)), scale)


def _round(even: bool) -> Callable[..., Any]:
    """Return a function that rounds to a number of decimals; halves away from 0, or to even."""

    def point(call: Call, a: Data, digits: Data | None = None) -> Any:
        decimals = 0 if digits is None else int(only_value(digits))
        if call.dtype.kind is Kind.FLOAT:
            return _rounded_floats(a, decimals, even)
        scale = call.types[0].scale
        if decimals >= scale:
            return a
        unit = 10 ** (scale - decimals)
        if a.dtype != object and reach(a) >= 2**62:  # sums of units may not fit
            a = a.astype(object)
        units = (half_even if even else half_up)(a, unit)
        step = 10 ** max(-decimals, 0)
        values = exact(np.multiply, units, np.array([step], object if step >= 2**63 else None), 64)
        if call.dtype.kind is Kind.DECIMAL:
            return values, np.asarray(np.abs(values) > call.dtype.highest, np.bool_)
        return wrap(values, call.dtype)

    return point


def _rounded_floats(a: Data, decimals: int, even: bool) -> tuple[Data, Data]:
    """Round floats by their text, as Spark does.

    Where that is not certain and the exact value rounds differently, the result is unknown.
    """
    values, unit = np.asarray(a, np.float64), Fraction(10) ** decimals
    sizes, certain = rounded(values, decimals)
    with np.errstate(all="ignore"):
        near = sizes / 10.0**decimals if decimals >= 0 else sizes * 10.0**-decimals
    out, bad = np.copysign(near, values).astype(a.dtype), np.zeros(len(a), np.uint8)
    for i in np.flatnonzero(~certain).tolist():
        x = float(values[i])
        if not np.isfinite(x):
            out[i] = x
            continue
        each = [abs(Fraction(v)) * unit for v in texts_of(x)]
        found = {float((round(v) if even else int(v + Fraction(1, 2))) / unit) for v in each}
        bad[i] = VALUE_UNKNOWN * (len(found) > 1)
        out[i] = np.copysign(max(found), x)
    return out + out.dtype.type(0), bad  # Spark's result has no -0.0


def _round_policy(call: Call) -> Policy:
    return overflow(call) if call.dtype.kind is Kind.INT else "unknown"


def _double(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 1)
    check_double(args[0])
    return (ty.DOUBLE,), ty.DOUBLE


def _sqrt_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a root; the root of a number below 0 is NaN."""
    (a,) = args
    low, high = (np.sqrt(np.maximum(bound, 0)) for bound in (a.low, a.high))
    below = a.may_hold_value & np.asarray(a.low < 0, np.bool_)
    above = a.may_hold_value & np.asarray(a.high >= 0, np.bool_)
    return Interval(
        ty.DOUBLE, low, high, NO, above, a.may_hold_null, a.may_hold_nan | below, a.may_raise
    )


FUNCTIONS: Final = {
    "floor": Function(_whole, _floor, monotone=True, bad="raise", saturates=True),
    "ceil": Function(_whole, _ceil, monotone=True, bad="raise", saturates=True),
    "round": Function(_round_signature, _round(even=False), monotone=True, bad=_round_policy),
    "bround": Function(_round_signature, _round(even=True), monotone=True, bad=_round_policy),
    "sign": Function(_double, lambda call, a: np.copysign(np.sign(a), a), monotone=True),
    "degrees": Function(_double, lambda call, a: a * (180 / math.pi), monotone=True),
    "radians": Function(_double, lambda call, a: a * (math.pi / 180), monotone=True),
    "rint": Function(_double, lambda call, a: np.rint(a), monotone=True),
    "sqrt": Function(_double, lambda call, a: np.sqrt(a), interval=_sqrt_interval),
}
