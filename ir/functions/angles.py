"""Functions of angles, whose last digits differ between libraries.

Source: Spark 4, `mathExpressions.scala`; seen in 4.3.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import Call, Function
from skipstone.ir.functions.approximate import (
    MARGIN,
    Formula,
    IntervalOf,
    above,
    at_ends,
    below,
    near,
    numbers,
    settled,
)
from skipstone.ir.interval import Interval, corners
from skipstone.ir.values import NO, Data, Mask, both, either

# Beyond, the number of turns is too uncertain to tell in which quarter an angle lies.
MAX_ANGLE: Final = 2.0**20
NEARLY: Final = 2.0**-24  # of a turn: more than the rounding of angles up to MAX_ANGLE
# Greater angles are reduced by multiples of pi first. A library that knows too few digits of pi
# would change them by some part, for which MARGIN is generous.
QUARTER: Final = 0.75
ABOVE_1: Final = 1 + MARGIN
MAX_CHANGE: Final = 2.0**-10  # of a result, in relation to it: beyond, it may pass a gap


def _passes(a: Interval, first: float, period: float) -> Mask:
    """Return True where an interval may hold `first` plus a multiple of the period.

    A single angle passes none: the function is computed for it as for a row.
    """
    if a.low is a.high:
        return NO
    with np.errstate(all="ignore"):
        start = np.ceil((a.low - first) / period - NEARLY)
        end = np.floor((a.high - first) / period + NEARLY)
    within = (np.abs(a.low) <= MAX_ANGLE) & (np.abs(a.high) <= MAX_ANGLE)
    return np.asarray(((start <= end) | ~within) & ~a.single, np.bool_)


def _interval(a: Interval, low: Data, high: Data, gap: Mask = NO) -> Interval:
    """Return an interval of results; infinite angles have none, and at a gap they have any size.

    Args:
        a: The interval of the angles.
        low, high: Bounds of the results computed here.
        gap: The angles may lie on both sides of one at which the results are infinite.
    """
    furthest, most = _furthest(a.low, a.high), _furthest(low, high)
    with np.errstate(all="ignore"):
        lost = np.where(furthest > QUARTER, furthest.clip(1) * MARGIN, 0.0)
        # Statistics do not tell 0.0 from -0.0, whose results are infinite.
        far = ~((lost * (1 + most) <= MAX_CHANGE) & np.isfinite(most))
        # A result v changes by at most 1 + v * v times the angle, for all six functions, and by
        # the square of that.
        if (moves := lost > 0).any():
            fall = np.where(moves, 2 * lost * (1 + low * low), 0.0)
            rise = fall if low is high else np.where(moves, 2 * lost * (1 + high * high), 0.0)
            low, high = below(low) - fall, above(high) + rise
        else:
            low, high = below(low), above(high)
    infinite = np.isinf(a.low) | np.isinf(a.high)
    finite = both(a.may_hold_value, ~both(infinite, a.single))
    if (any_size := either(gap, infinite, far)).any():
        low, high = np.where(any_size, -np.inf, low), np.where(any_size, np.inf, high)
    nan = either(a.may_hold_nan, both(a.may_hold_value, infinite))
    return Interval(ty.DOUBLE, low, high, NO, finite, a.may_hold_null, nan, a.may_raise)


def _furthest(low: Data, high: Data) -> Data:
    """Return the greatest distances from 0."""
    return np.abs(low) if low is high else np.maximum(np.abs(low), np.abs(high))


def _ends(formula: Formula, a: Interval) -> tuple[Data, Data]:
    low, high = at_ends(formula, a)
    return (low, low) if low is high else (np.minimum(low, high), np.maximum(low, high))


def _wave(formula: Formula, top: float) -> IntervalOf:
    """Return the interval of sin or cos, which is 1 at `top`, and -1 half a turn on."""

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        (a,) = args
        low, high = _ends(formula, a)
        low = np.where(_passes(a, top + math.pi, math.tau), -1.0, low)
        found = _interval(a, low, np.where(_passes(a, top, math.tau), 1.0, high))
        return replace(found, low=found.low.clip(-ABOVE_1), high=found.high.clip(None, ABOVE_1))

    return interval


def _slope(formula: Formula, gap: float) -> IntervalOf:
    """Return the interval of tan or cot, which rise or fall from gap to gap."""

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        (a,) = args
        return _interval(a, *_ends(formula, a), _passes(a, gap, math.pi))

    return interval


def _arch(formula: Formula, top: float) -> IntervalOf:
    """Return the interval of sec or csc, which are 1 at `top`, and -1 half a turn on."""

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        (a,) = args
        low, high = _ends(formula, a)
        # Between two gaps, they are least at the top, and greatest half a turn on.
        low = np.where(_passes(a, top, math.tau), 1.0, low)
        high = np.where(_passes(a, top + math.pi, math.tau), -1.0, high)
        return _interval(a, low, high, _passes(a, top + math.pi / 2, math.pi))

    return interval


_sin: Final = settled(np.sin, {0: 0})
_cos: Final = settled(np.cos, {0: 1})
_tan: Final = settled(np.tan, {0: 0})


def _cotangent(x: Data) -> Data:
    return np.asarray(1.0 / _tan(x))


def _secant(x: Data) -> Data:
    return np.asarray(1.0 / _cos(x))


def _cosecant(x: Data) -> Data:
    return np.asarray(1.0 / _sin(x))


def _arc(y: Data, x: Data) -> Data:
    """Return the angle of a point; zeros have no sign in Spark.

    Java's documentation promises the angles on the axes.
    """
    out = np.arctan2(y + 0.0, x + 0.0)
    if not _is_on_axis(y, x).any():
        return np.asarray(out)
    on_axis = [(y == 0) & (x >= 0), (y == 0) & (x < 0), (x == 0) & (y > 0), (x == 0) & (y < 0)]
    return np.select(on_axis, [0.0, math.pi, math.pi / 2, -math.pi / 2], out)


def _is_on_axis(y: Data, x: Data) -> Mask:
    return np.asarray((y == 0) | (x == 0), np.bool_)


def _arc_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of the angle of points, which jumps from pi to -pi left of (0, 0)."""
    y, x = args
    function = Function(numbers(2), lambda call, y, x: _arc(y, x), monotone=True)
    found = corners(call, function, args)
    any_angle = ~(x.low > 0) & ~(y.single & x.single) & found.may_hold_value
    return replace(
        found,
        low=np.where(any_angle, -4.0, below(found.low)),
        high=np.where(any_angle, 4.0, above(found.high)),
    )


def _is_zero(x: Data) -> Mask:
    return np.asarray(x == 0, np.bool_)


FUNCTIONS: Final = {
    "sin": near(_sin, _wave(_sin, math.pi / 2), numbers(1), _is_zero),
    "cos": near(_cos, _wave(_cos, 0.0), numbers(1), _is_zero),
    "tan": near(_tan, _slope(_tan, math.pi / 2), numbers(1), _is_zero),
    "cot": near(_cotangent, _slope(_cotangent, 0.0), numbers(1), _is_zero),
    "sec": near(_secant, _arch(_secant, 0.0), numbers(1), _is_zero),
    "csc": near(_cosecant, _arch(_cosecant, math.pi / 2), numbers(1), _is_zero),
    "atan2": near(_arc, _arc_interval, numbers(2), _is_on_axis),
}
