"""Functions of one number whose last digits differ between libraries.

Java and NumPy round them differently, so a result is only known to lie near the one computed here.
Most tests do not depend on the difference. `ir/evaluation/bounded.py` judges rows by those.

Source: Spark 4, `mathExpressions.scala`; seen in 4.3. Java allows 1 to 2.5 units in the last place,
NumPy up to 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import VALUE_UNKNOWN, Call, Function, Signature, check_arity
from skipstone.ir.functions.arithmetic import check_double
from skipstone.ir.interval import Interval
from skipstone.ir.node import Node
from skipstone.ir.session import Session
from skipstone.ir.values import NO, Data, Mask, both, either

# The part of a result by which Spark's may differ: 4,096 units in the last place.
MARGIN: Final = 2.0**-40
TINY: Final = 2.0**-1060  # the same for results below 2^-1022, which have fewer digits
BELOW_INFINITY: Final = float(np.finfo(np.float64).max) * (1 - MARGIN)
LEAST_ABOVE_0: Final = math.nextafter(0.0, 1.0)
LEAST_ABOVE_MINUS_1: Final = math.nextafter(-1.0, 0.0)
INFINITY: Final = math.inf

Formula = Callable[..., Any]
IntervalOf = Callable[[Call, tuple[Interval, ...]], Interval]


def below(v: Data) -> Data:
    """Return bounds that Spark's results do not lie below, from results computed here.

    Libraries agree on a result's sign.
    """
    with np.errstate(all="ignore"):
        low = v - (np.abs(v) * MARGIN + TINY)
        special = (v == math.inf) | ((v >= 0) & (low < 0))
        if not special.any():
            return np.asarray(low)
        near_zero = special & ~np.signbit(v)
        return np.where(v == math.inf, BELOW_INFINITY, np.where(near_zero, 0.0, low))


def above(v: Data) -> Data:
    """Return bounds that Spark's results do not lie above, from results computed here."""
    return -below(-v)


def at_ends(formula: Formula, a: Interval) -> tuple[Data, Data]:
    """Return a formula's results at both ends of an interval; those of rows are one array."""
    with np.errstate(all="ignore"):
        low = np.asarray(formula(a.low))
        return low, low if a.low is a.high else np.asarray(formula(a.high))


def settled(formula: Formula, exact: Mapping[float, float]) -> Formula:
    """Return a formula with Java's results for some arguments, where they are certain.

    NumPy may be off by a digit even there: the cosine of 0 was not always 1 (numpy#23773).
    """

    def computed(x: Data) -> Data:
        out = np.asarray(formula(x), np.float64)
        if np.isin(x, list(exact)).any():
            for argument, result in exact.items():
                # The result for -0.0 has its sign, too.
                out = np.where(x == argument, x if result == argument else result, out)
        return out

    return computed


def numbers(least: int, most: int | None = None) -> Callable[..., Signature]:
    """Return the signature of a function of numbers or text, which are read as DOUBLE."""

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, least, most)
        for a in args:
            check_double(a)
        return (ty.DOUBLE,) * len(args), ty.DOUBLE

    return signature


def near(
    formula: Formula,
    interval: IntervalOf,
    signature: Callable[..., Signature],
    certain: Callable[..., Mask] | None = None,
    outside: Callable[..., Mask] | None = None,
) -> Function:
    """Return a function of numbers whose results are only known to lie near those of a formula.

    Args:
        formula: Computes the results; NaN is certain.
        interval: Computes the function's interval; see `Function`.
        signature: See `Function`.
        certain: Marks arguments whose results are certain.
        outside: Marks arguments whose result is NULL.
    """

    def point(call: Call, *data: Data) -> tuple[Data, Data]:
        out = np.asarray(formula(*data), np.float64)
        known = np.isnan(out) if certain is None else np.isnan(out) | certain(*data)
        bad = np.where(known, 0, VALUE_UNKNOWN)
        return out, (bad if outside is None else np.where(outside(*data), 1, bad)).astype(np.uint8)

    return Function(
        signature, point, bad="null" if outside else "unknown", interval=interval, bounded=True
    )


def _curve(
    formula: Formula,
    exact: Mapping[float, float],
    least: float = -math.inf,
    greatest: float = math.inf,
    *,
    null: bool = False,
    falls: bool = False,
) -> Function:
    """Return a function of one number that only rises, or only falls.

    Args:
        formula: Computes results near Spark's.
        exact: Arguments whose results are certain -> these results.
        least, greatest: The ends of the domain.
        null: Arguments outside the domain give NULL; otherwise NaN.
        falls: It falls.
    """

    formula = settled(formula, exact)

    def is_outside(x: Data) -> Mask:
        return np.asarray((x < least) | (x > greatest), np.bool_)

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        (a,) = args
        outside = both(a.may_hold_value, is_outside(a.low) | is_outside(a.high))
        inside = both(a.may_hold_value, a.low <= greatest, a.high >= least)
        ends = at_ends(lambda x: formula(np.clip(x, least, greatest)), a)
        low, high = ends[::-1] if falls else ends
        low, high = below(low), above(high)
        nulls, nans = (NO, outside) if not null else (outside, NO)
        return Interval(
            ty.DOUBLE, low, high, NO, inside, either(a.may_hold_null, nulls),
            either(a.may_hold_nan, nans), a.may_raise,
        )  # fmt: skip

    return near(
        formula,
        interval,
        numbers(1),
        certain=lambda x: np.isin(x, list(exact)),
        outside=is_outside if null else None,
    )


def _cosh_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    (a,) = args
    low, high = at_ends(np.cosh, a)
    least = np.where((a.low <= 0) & (a.high >= 0), 1.0, np.minimum(low, high))
    return replace(a, low=below(least), high=above(np.maximum(low, high)))


_ODD: Final = {0.0: 0.0, -INFINITY: -INFINITY, INFINITY: INFINITY}
_EVEN: Final = {0.0: 1.0, -INFINITY: INFINITY, INFINITY: INFINITY}
_OF_1: Final = {1.0: 0.0, INFINITY: INFINITY}
# All powers of 10 that a DOUBLE holds; Java's documentation promises their logarithms.
_OF_10: Final = {10.0**k: float(k) for k in range(23)} | _OF_1

FUNCTIONS: Final = {
    "ln": _curve(np.log, _OF_1, LEAST_ABOVE_0, null=True),
    "log10": _curve(np.log10, _OF_10, LEAST_ABOVE_0, null=True),
    # Spark divides by ln(2), so the logarithms of powers of 2 may be off by a digit, too.
    "log2": _curve(np.log2, _OF_1, LEAST_ABOVE_0, null=True),
    "log1p": _curve(np.log1p, {0.0: 0.0, INFINITY: INFINITY}, LEAST_ABOVE_MINUS_1, null=True),
    "exp": _curve(np.exp, {0.0: 1.0, -INFINITY: 0.0, INFINITY: INFINITY}),
    "expm1": _curve(np.expm1, {0.0: 0.0, -INFINITY: -1.0, INFINITY: INFINITY}),
    "cbrt": _curve(np.cbrt, _ODD),
    "sinh": _curve(np.sinh, _ODD),
    "tanh": _curve(np.tanh, {0.0: 0.0, -INFINITY: -1.0, INFINITY: 1.0}),
    "cosh": near(
        settled(np.cosh, _EVEN), _cosh_interval, numbers(1), lambda x: np.isin(x, list(_EVEN))
    ),
    "asin": _curve(np.arcsin, {0.0: 0.0}, -1.0, 1.0),
    "acos": _curve(np.arccos, {1.0: 0.0}, -1.0, 1.0, falls=True),
    "atan": _curve(np.arctan, {0.0: 0.0}),
}
