"""Powers, logarithms to any base, and hypotenuses, whose last digits differ between libraries.

Source: Spark 4, `mathExpressions.scala`; seen in 4.3.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import Call, Function
from skipstone.ir.functions.approximate import FUNCTIONS as CURVES
from skipstone.ir.functions.approximate import above, below, near, numbers, settled
from skipstone.ir.interval import Interval, corners, unknown
from skipstone.ir.values import NO, Data, Mask, both, either

_ln: Final = settled(np.log, {1.0: 0.0, math.inf: math.inf})


def _logarithm(*args: Data) -> Data:
    """Return natural logarithms, or those to a base: the quotient of two natural ones."""
    return np.asarray(_ln(args[-1]) if len(args) == 1 else _ln(args[1]) / _ln(args[0]))


def _is_certain(*args: Data) -> Mask:
    """Return True where a logarithm is 0 or infinite, and so is a quotient of it."""
    return np.asarray(functools.reduce(np.logical_or, (np.isin(a, (1.0, math.inf)) for a in args)))


def _not_positive(*args: Data) -> Mask:
    return np.asarray(functools.reduce(np.logical_or, (a <= 0 for a in args)))


def _logarithm_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    ln = CURVES["ln"].interval
    assert ln is not None
    *bases, x = (ln(call, (a,)) for a in args)
    if not bases:
        return x
    (base,) = bases
    quotient = Function(numbers(2), lambda call, a, b: a / b, monotone=True)
    found = corners(call, quotient, (x, base))
    around = np.asarray((base.low <= 0) & (base.high >= 0), np.bool_)  # the base may be 1
    around = around | np.isinf(base.low) | np.isinf(base.high)
    anything = unknown(ty.DOUBLE)
    return replace(
        found,
        low=np.where(around, anything.low, below(found.low)),
        high=np.where(around, anything.high, above(found.high)),
        may_hold_nan=found.may_hold_nan | (around & found.may_hold_value),
    )


def _power(a: Data, b: Data) -> Data:
    """Return powers as Java does: those of 1 and -1 by infinity, and all by NaN, are NaN."""
    if b.size == 1 and b[0] == 2:
        return a * a  # 20 times as fast
    # NumPy takes the square root for 0.5, which differs for -0.0 and -infinity.
    a = np.where((b == 0.5) & ((a == 0) | np.isinf(a)), np.abs(a), a)
    undefined = np.isnan(b) | (np.isinf(b) & (np.abs(a) == 1))
    out = np.where(undefined, np.nan, np.where(b == 1, a, np.power(a, b)))
    return np.where(_is_whole(a, b, out), np.rint(out), out)


def _is_whole(a: Data, b: Data, power: Data) -> Mask:
    """Return True where a power is a whole number, which Java returns exactly.

    If it is greater, NumPy may be off by more than a half.
    """
    whole = (a == np.trunc(a)) & (b == np.trunc(b)) & (b >= 0)
    return np.asarray(whole & (np.abs(power) < 2.0**48), np.bool_)


def _is_certain_power(a: Data, b: Data) -> Mask:
    """Return True for whole numbers, and for the special cases of Java's documentation."""
    special = (a == 0) | np.isinf(a) | (b == 0) | (b == 1) | np.isinf(b)
    return np.asarray(special | _is_whole(a, b, _power(a, b)), np.bool_)


def _is_certain_hypotenuse(a: Data, b: Data) -> Mask:
    return np.asarray(np.isinf(a) | np.isinf(b) | ((a == 0) & (b == 0)), np.bool_)


def _power_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return powers at the corners; between them lies 0 if an even power crosses it.

    A base below 0 has bounds for a single whole exponent only, or if it is single as well.
    """
    a, b = args
    power = Function(numbers(2), lambda call, x, y: _power(x, y), monotone=True)
    found = corners(call, power, args)
    p = b.low
    whole = both(b.single, ~b.may_hold_nan, np.isfinite(p), p == np.trunc(p), p >= 0)
    # Statistics do not tell 0.0 from -0.0, some of whose negative powers are below 0.
    above_0 = either(a.low > 0, both(a.low == 0, b.low >= 0))
    one = both(a.single, b.single, a.low != 0)
    known = either(above_0, whole, one, ~a.may_hold_value)
    # Also a power of NaN: 1.
    nan_to_0 = both(a.may_hold_nan, b.may_hold_value, b.low <= 0, b.high >= 0)
    with np.errstate(all="ignore"):
        across = both(a.low < 0, a.high > 0, np.fmod(p, 2) == 0, p > 0)
    of_one = both(a.low <= 1, a.high >= 1, np.isinf(b.low) | np.isinf(b.high))
    low, high = found.low, found.high
    if across.any():
        low = np.where(across, np.minimum(low, 0.0), low)
    if nan_to_0.any():
        low, high = (
            np.where(nan_to_0, np.where(found.may_hold_value, f(v, 1.0), 1.0), v)
            for f, v in ((np.minimum, low), (np.maximum, high))
        )
    low, high = below(low), above(high)
    if not known.all():
        low, high = np.where(known, low, -math.inf), np.where(known, high, math.inf)
    value = both(a.may_hold_value, b.may_hold_value)
    return replace(
        found,
        low=low,
        high=high,
        may_hold_value=either(found.may_hold_value, both(value, ~known), nan_to_0),
        may_hold_nan=either(found.may_hold_nan, both(value, either(~known, of_one))),
    )


def _hypotenuse_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a hypotenuse; infinity and NaN have an infinite one."""
    a, b = args
    across = [(v.low <= 0) & (v.high >= 0) for v in args]
    ends = [(np.abs(v.low), np.abs(v.high)) for v in args]
    least = [np.where(c, 0.0, np.minimum(*e)) for c, e in zip(across, ends, strict=True)]
    most = [np.maximum(*e) for e in ends]
    with np.errstate(all="ignore"):
        low, high = np.hypot(*least), np.hypot(*most)
    infinite = [v.may_hold_value & np.isinf(m) for v, m in zip(args, most, strict=True)]
    beside_nan = (a.may_hold_nan & infinite[1]) | (b.may_hold_nan & infinite[0])
    return Interval(
        ty.DOUBLE,
        below(np.where(beside_nan, 0.0, low)),
        above(np.where(beside_nan, np.inf, high)),
        NO,
        (a.may_hold_value & b.may_hold_value) | beside_nan,
        a.may_hold_null | b.may_hold_null,
        (a.may_hold_nan & b.may_hold_any) | (b.may_hold_nan & a.may_hold_any),
        a.may_raise | b.may_raise,
    )


FUNCTIONS: Final = {
    "log": near(_logarithm, _logarithm_interval, numbers(1, 2), _is_certain, _not_positive),
    "pow": near(_power, _power_interval, numbers(2), _is_certain_power),
    "hypot": near(np.hypot, _hypotenuse_interval, numbers(2), _is_certain_hypotenuse),
}
