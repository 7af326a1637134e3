"""Intervals: the possible values of a scalar in each of n containers, and functions over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skipstone.ir.function import VALUE_UNKNOWN, Call, Function
from skipstone.ir.types import BOOL, TEXT, DType, Kind
from skipstone.ir.values import (
    NO,
    YES,
    Data,
    Mask,
    Values,
    both,
    constant,
    either,
    filler,
    numpy_type_of,
    text_array,
)


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """The possible values of a scalar in n containers.

    Arrays have shape (n,), or (1,) if all containers are alike.

    Attributes:
        dtype: The type.
        low, high: Axis values that bound all values that are neither NULL nor NaN.
        unbounded_above: The greatest value is unknown (text only); `high` is then arbitrary.
        may_hold_value: Some row may hold a value that is neither NULL nor NaN.
        may_hold_null: Some row may be NULL.
        may_hold_nan: Some row may be NaN.
        may_raise: Spark may raise an error for some row, or its value is not known here.
        parts: The intervals of an array's elements, or of a map's keys and values, over all rows;
            empty if nothing is known of them.
    """

    dtype: DType
    low: Data
    high: Data
    unbounded_above: Mask
    may_hold_value: Mask
    may_hold_null: Mask
    may_hold_nan: Mask
    may_raise: Mask
    parts: tuple[Interval, ...] = field(default=(), kw_only=True)

    def __len__(self) -> int:
        return max(len(a) for a in self.arrays)

    @property
    def arrays(self) -> tuple[Data, ...]:
        """The arrays, in the order of the attributes."""
        return (
            self.low, self.high, self.unbounded_above, self.may_hold_value,
            self.may_hold_null, self.may_hold_nan, self.may_raise,
        )  # fmt: skip

    @property
    def may_hold_any(self) -> Mask:
        """Some row may hold a value or NaN."""
        return either(self.may_hold_value, self.may_hold_nan)

    @property
    def single(self) -> Mask:
        """At most one value occurs, NULL and NaN aside."""
        equal = np.asarray(self.low == self.high, np.bool_)
        return either(~self.may_hold_value, both(equal, ~self.unbounded_above))

    def with_bounds(
        self, dtype: DType, low: Data, high: Data, unbounded_above: Mask = NO
    ) -> Interval:
        """Return the interval of a function's results: other bounds, the same NULLs, no NaN."""
        return replace(
            self, dtype=dtype, low=low, high=high, unbounded_above=unbounded_above, may_hold_nan=NO
        )

    def take(self, where: Mask) -> Interval:
        """Return the containers of a mask of shape (n,)."""
        arrays = (a if len(a) == 1 else a[where] for a in self.arrays)
        return Interval(self.dtype, *arrays, parts=tuple(p.take(where) for p in self.parts))


def end(dtype: DType, *, high: bool) -> Data:
    """Return the lowest or highest value of a type, shape (1,).

    Text has no highest value; the result is then a filler.
    """
    out = np.empty(1, numpy_type_of(dtype))
    value = dtype.highest if high else dtype.lowest
    out[0] = filler(dtype) if value is None else value
    return out


def point(value: object, dtype: DType) -> Interval:
    """Return the interval of a literal; None is NULL."""
    v = constant(value, dtype)
    nan = YES if isinstance(value, float) and value != value else NO
    found = Interval(dtype, v.data, v.data, NO, v.valid & ~nan, ~v.valid, nan, NO)
    if dtype.element is None or not isinstance(value, tuple):
        return found
    return replace(found, parts=(_around(value, dtype.element),))


def exactly(v: Values) -> Interval:
    """Return the intervals of rows as containers, each of which holds the row's value alone."""
    data, nan = _with_fillers(v, both(v.valid, ~v.may_raise)), NO
    if v.dtype.kind is Kind.FLOAT:
        nan = np.isnan(data)
    value, nan = both(v.valid, ~nan), both(v.valid, nan)
    return Interval(v.dtype, data, data, NO, value, ~v.valid, nan, v.may_raise)


def _around(values: tuple[Any, ...], dtype: DType) -> Interval:
    """Return the interval of some axis values; None is NULL."""
    known = [v for v in values if v is not None]
    if not known:
        return point(None, dtype)
    least, greatest = point(min(known), dtype), point(max(known), dtype)
    return replace(least, high=greatest.low, may_hold_null=YES & (len(known) < len(values)))


def unknown(dtype: DType) -> Interval:
    """Return the interval of any value, NULL and NaN included."""
    low, high = end(dtype, high=False), end(dtype, high=True)
    above, nan = YES & (dtype.kind in TEXT), YES & (dtype.kind is Kind.FLOAT)
    return Interval(dtype, low, high, above, YES, YES, nan, NO)


def anything(dtype: DType) -> Interval:
    """Return the interval of an entirely unknown result; Spark may even raise an error for it."""
    return replace(unknown(dtype), may_raise=YES)


def any_result(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a function whose results nothing bounds."""
    return anything(call.dtype)


def may_share(a: Interval, b: Interval) -> Mask:
    """Return where two intervals may hold one value in common; NaN equals itself."""
    above = b.unbounded_above | ~less(b.high, a.low)
    below = a.unbounded_above | ~less(a.high, b.low)
    value = np.asarray(a.may_hold_value & b.may_hold_value & above & below)
    return value | (a.may_hold_nan & b.may_hold_nan)


def may_be_true(where: Mask, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a condition that is FALSE or NULL in rows outside a mask."""
    may_raise = either(NO, *(a.may_raise for a in args))
    low = np.zeros(1, np.int64)
    return Interval(BOOL, low, where.astype(np.int64), NO, YES, YES, NO, may_raise)


def hull(dtype: DType, parts: Iterable[tuple[Interval, Mask]]) -> Interval:
    """Return the smallest interval around several intervals, each where its mask is set."""
    low, high = end(dtype, high=True), end(dtype, high=False)
    seen, above, nulls, nans, may_raise = NO, NO, NO, NO, NO
    for p, where in parts:
        use = p.may_hold_value & where
        low = np.where(use & (~seen | less(p.low, low)), p.low, low)
        high = np.where(use & (~seen | less(high, p.high)), p.high, high)
        seen, above = seen | use, above | (use & p.unbounded_above)
        nulls = nulls | (p.may_hold_null & where)
        nans = nans | (p.may_hold_nan & where)
        may_raise = may_raise | (p.may_raise & where)
    return Interval(dtype, low, high, above, seen, nulls, nans, may_raise)


def hull_of(dtype: DType, parts: Iterable[Interval]) -> Interval:
    """Return the smallest interval around several intervals of one type."""
    return hull(dtype, ((p, YES) for p in parts))


def less(a: Data, b: Data) -> Mask:
    """Return a < b by element, as booleans even for object arrays."""
    return np.asarray(a < b, np.bool_)


def apply(call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """Compute the interval of a call from the intervals of its arguments."""
    if f.interval is not None:
        return f.interval(call, args)
    if f.monotone and not any(a.unbounded_above.any() for a in args):
        return corners(call, f, args)
    fits = both(YES, *(~a.unbounded_above if f.monotone else a.single for a in args))
    return corners_where(fits, call, f, args)


def corners_where(use: Mask, call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """Compute corners for the containers of a mask; elsewhere ignore the values."""
    if not use.any():
        return opaque(call, f, args)
    if use.all():
        return corners(call, f, args)
    where = np.broadcast_to(use, max(map(len, args)))
    return merge(where, corners(call, f, tuple(a.take(where) for a in args)), opaque(call, f, args))


def merge(where: Mask, chosen: Interval, other: Interval) -> Interval:
    """Return `chosen` where the mask is set and `other` elsewhere.

    `chosen` has one entry for each container that the mask sets.
    """
    parts: list[Any] = []
    numpy_type = numpy_type_of(chosen.dtype)
    dtypes = (numpy_type, numpy_type, *[np.dtype(np.bool_)] * 5)
    for a, b, dtype in zip(chosen.arrays, other.arrays, dtypes, strict=True):
        out = np.array(np.broadcast_to(b, len(where)), dtype)
        out[where] = a
        parts.append(out)
    return Interval(chosen.dtype, *parts)


def _strict_flags(args: tuple[Interval, ...]) -> tuple[Mask, Mask, Mask]:
    """Combine the flags of a strict function's arguments.

    Returns:
        Three masks: all arguments may hold values, some may be NULL, some may be unknown.
    """
    return (
        both(YES, *(a.may_hold_any for a in args)),
        either(NO, *(a.may_hold_null for a in args)),
        either(NO, *(a.may_raise for a in args)),
    )


def opaque(call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a strict function by its arguments' flags alone, without bounds."""
    has_value, nulls, may_raise = _strict_flags(args)
    u, policy = unknown(call.dtype), f.policy(call)
    return replace(
        u,
        may_hold_value=has_value,
        may_hold_null=nulls | (has_value & (policy == "null")),
        may_hold_nan=has_value & u.may_hold_nan,
        may_raise=may_raise | (has_value & (policy in ("raise", "unknown"))),
    )


def corners(call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """Compute the interval around the values at the corners of each box.

    Where an argument may be NaN, NaN is also a corner. A function that is monotone in each argument
    takes its extremes at corners. A bad corner means that bad points may lie inside: the interval
    then ends where the function saturates, or it is unbounded. A box of one point is that point.
    """
    assert f.point is not None
    has_value, nulls, may_raise = _strict_flags(args)
    policy = f.policy(call)
    saturates = f.saturates and policy != "keep"
    single = both(YES, *(a.single for a in args))
    included = YES if saturates else single if policy == "keep" else NO
    n = max(1, *map(len, args))
    low, high = (np.broadcast_to(end(call.dtype, high=h), n) for h in (True, False))
    seen = bad_seen = nan_seen = unbounded = good = np.zeros(n, np.bool_)
    for combination in itertools.product(*map(_candidates, args)):
        use = both(np.ones(n, np.bool_), *(c[1] for c in combination))
        if not use.any():
            continue
        data, bad, not_known = evaluate_points(call, f, [c[0] for c in combination])
        may_raise = either(may_raise, both(use, not_known))
        if call.dtype.kind is Kind.FLOAT and (nan := np.isnan(data)).any():
            nan_seen = either(nan_seen, both(use, nan, ~bad))
            if not any(c[2] for c in combination):
                unbounded = either(unbounded, both(use, nan))
            bad_or_nan = either(nan, both(bad, ~included))
        else:
            bad_or_nan = both(bad, ~included)
        bad_seen, good = either(bad_seen, both(use, bad)), either(good, both(use, ~bad))
        use = both(use, ~bad_or_nan)
        if use.all() and not seen.any():
            low = high = np.broadcast_to(data, n) if len(data) == 1 else data
        elif use.all() and seen.all() and data.dtype != object:
            low, high = np.minimum(low, data), np.maximum(high, data)
        else:
            lower = both(use, either(~seen, less(data, low)))
            higher = both(use, either(~seen, less(high, data)))
            low, high = np.where(lower, data, low), np.where(higher, data, high)
        seen = either(seen, use)
    # No good value lies between bad ends that saturate alike, nor in a box of one point.
    alike = both(YES & saturates, np.asarray(low == high, np.bool_))
    empty = both(YES & (policy != "keep"), bad_seen, ~good, either(single, alike))
    if not saturates:
        unbounded = either(unbounded, bad_seen)
    unbounded = both(unbounded, ~empty, ~single)
    may_hold_value = both(has_value, either(seen, unbounded), ~empty)
    if unbounded.any():
        low = np.where(unbounded, end(call.dtype, high=False), low)
        high = np.where(unbounded, end(call.dtype, high=True), high)
    floating = YES & (call.dtype.kind is Kind.FLOAT)
    above = unbounded if call.dtype.kind in TEXT else NO
    outside = both(bad_seen, has_value)
    nulls = either(nulls, outside) if policy == "null" else nulls
    may_raise = either(may_raise, outside) if policy in ("raise", "unknown") else may_raise
    nans = both(has_value, either(nan_seen, both(unbounded, floating)))
    return Interval(call.dtype, low, high, above, may_hold_value, nulls, nans, may_raise)


def _candidates(a: Interval) -> list[tuple[Data, Mask, bool]]:
    """Return the points of an argument to try.

    Returns:
        Triples: values, the mask where they are possible, and True if they are NaN.
    """
    out = [(a.low, a.may_hold_value, False)]
    if a.low is not a.high:
        out.append((a.high, a.may_hold_value, False))
    if a.may_hold_nan.any():
        nan = np.full(1, np.nan, numpy_type_of(a.dtype))
        out.append((nan, a.may_hold_nan, True))
    return out


def evaluate_points(call: Call, f: Function, data: list[Data]) -> tuple[Data, Mask, Mask]:
    """Evaluate a function on points.

    Returns:
        Its values, a mask of the bad ones, and a mask of those that are not known here.
    """
    values, bad, not_known = _points(call, f, data)
    return np.asarray(values, numpy_type_of(call.dtype)), bad, not_known


def _points(call: Call, f: Function, data: list[Data]) -> tuple[Data, Mask, Mask]:
    assert f.point is not None
    with np.errstate(all="ignore"):
        out = f.point(call, *data)
    values, bad = out if isinstance(out, tuple) else (out, NO)
    bad = np.asarray(bad)
    assert bad is NO or f.policy(call) != "never" or not bad.any(), (
        f"{call.name} returned bad results, but declares no policy for them"
    )
    return np.asarray(values), bad > 0, bad == VALUE_UNKNOWN


def evaluate_rows(call: Call, f: Function, args: tuple[Values, ...]) -> Values:
    """Evaluate a function on rows."""
    if f.rows is not None:
        return f.rows(call, args)
    valid, may_raise = both(YES, *(a.valid for a in args)), either(NO, *(a.may_raise for a in args))
    use = both(valid, ~may_raise)
    found = None
    if f.column is not None and max(map(len, args)) > 1:
        found = f.column(call, *map(_argument, args))
    if found is not None:
        data, lost = found if isinstance(found, tuple) else (found, NO)
        bad, not_known = np.asarray(lost) > 0, np.asarray(lost) == VALUE_UNKNOWN
    else:
        data, bad, not_known = _points(call, f, [_with_fillers(a, use) for a in args])
        if not (call.dtype.kind is Kind.DECIMAL and data.dtype == np.int64):  # of any precision
            data = np.asarray(data, numpy_type_of(call.dtype))
    if not bad.any():
        return Values(call.dtype, data, valid, may_raise)
    policy = f.policy(call)
    bad, may_raise = both(bad, use, ~not_known), either(may_raise, both(not_known, use))
    if policy == "null":
        valid = both(valid, ~bad)
    elif policy in ("raise", "unknown"):
        may_raise = either(may_raise, bad)
    return Values(call.dtype, data, valid, may_raise)


def _argument(a: Values) -> Any:
    """Return an argument of `Function.column`."""
    if len(a) == 1:
        return a.data[0]
    if a.dtype.kind is not Kind.STRING or not isinstance(a.array, np.ndarray):
        return a.array
    try:
        return text_array(a.array)
    except pa.ArrowInvalid:  # not UTF-8
        return a.array


def _with_fillers(a: Values, use: Mask) -> Data:
    """Replace unused values by fillers, so that nothing is computed on arbitrary data."""
    data = a.points
    if len(data) == 1 or use.all():
        return data
    fill = np.empty(1, data.dtype)
    fill[0] = filler(a.dtype)
    return np.where(np.broadcast_to(use, len(data)) if len(use) == 1 else use, data, fill)
