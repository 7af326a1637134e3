"""Intervals: what a scalar can be on the rows of each of n containers, and functions over them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skipstone.ir.function import LOST, Call, Function
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import NO, TEXT, YES, Data, Mask, Values, constant, filler, lane_of


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """What a scalar can be in n containers. Arrays have shape (n,), or (1,) where all are alike.

    Attributes:
        dtype: The type.
        low, high: Axis values around all values that are neither NULL nor NaN.
        above: Text whose greatest value is not known; `high` is then arbitrary.
        real: Some row may have a value that is neither NULL nor NaN.
        nulls: Some row may be NULL.
        nans: Some row may be NaN.
        lost: On some row Spark may raise an error, or give what is not known here.
    """

    dtype: DType
    low: Data
    high: Data
    above: Mask
    real: Mask
    nulls: Mask
    nans: Mask
    lost: Mask

    def __len__(self) -> int:
        return max(
            len(a)
            for a in (self.low, self.high, self.above, self.real, self.nulls, self.nans, self.lost)
        )

    @property
    def some(self) -> Mask:
        """Some row may have a value."""
        return self.real | self.nans

    @property
    def single(self) -> Mask:
        """At most one value besides NULL and NaN."""
        return np.asarray(~self.real | (np.asarray(self.low == self.high, np.bool_) & ~self.above))

    def take(self, where: Mask) -> Interval:
        """The containers of a mask of shape (n,)."""
        parts = (
            a if len(a) == 1 else a[where]
            for a in (self.low, self.high, self.above, self.real, self.nulls, self.nans, self.lost)
        )
        return Interval(self.dtype, *parts)


def end(dtype: DType, *, high: bool) -> Data:
    """An end of the type, shape (1,); text has no highest value, and a filler stands there."""
    out = np.empty(1, lane_of(dtype))
    value = dtype.highest if high else dtype.lowest
    out[0] = filler(dtype) if value is None else value
    return out


def point(value: object, dtype: DType) -> Interval:
    """A literal; None is NULL."""
    v = constant(value, dtype)
    nan = YES if isinstance(value, float) and value != value else NO
    return Interval(dtype, v.data, v.data, NO, v.valid & ~nan, ~v.valid, nan, NO)


def unknown(dtype: DType) -> Interval:
    """Any value, NULL or NaN."""
    return Interval(
        dtype,
        end(dtype, high=False),
        end(dtype, high=True),
        YES if dtype.kind in TEXT else NO,
        YES,
        YES,
        YES & (dtype.kind is Kind.FLOAT),
        NO,
    )


def hull(dtype: DType, parts: Iterable[tuple[Interval, Mask]]) -> Interval:
    """Around several intervals, each where its mask is set."""
    low, high = end(dtype, high=True), end(dtype, high=False)
    seen, above, nulls, nans, lost = NO, NO, NO, NO, NO
    for p, where in parts:
        use = p.real & where
        low = np.where(use & (~seen | less(p.low, low)), p.low, low)
        high = np.where(use & (~seen | less(high, p.high)), p.high, high)
        seen, above = seen | use, above | (use & p.above)
        nulls, nans, lost = (
            nulls | (p.nulls & where),
            nans | (p.nans & where),
            lost | (p.lost & where),
        )
    return Interval(dtype, low, high, above, seen, nulls, nans, lost)


def less(a: Data, b: Data) -> Mask:
    """a < b by element, as booleans for objects too."""
    return np.asarray(a < b, np.bool_)


def apply(call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """The interval of a call from those of its arguments."""
    if f.interval is not None:
        return f.interval(call, args)
    if f.monotone and not any(a.above.any() for a in args):
        return corners(call, f, args)
    fits = functools.reduce(
        np.logical_and, (~a.above if f.monotone else a.single for a in args), YES
    )
    return corners_where(fits, call, f, args)


def corners_where(use: Mask, call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """Corners in the containers of a mask; elsewhere values are not looked at."""
    if not use.any():
        return opaque(call, f, args)
    if use.all():
        return corners(call, f, args)
    where = np.broadcast_to(use, max(map(len, args)))
    return merge(where, corners(call, f, tuple(a.take(where) for a in args)), opaque(call, f, args))


def merge(where: Mask, chosen: Interval, other: Interval) -> Interval:
    """`chosen`, which has as many containers as `where` has set, at those; `other` elsewhere."""
    parts: list[Any] = []
    for name in ("low", "high", "above", "real", "nulls", "nans", "lost"):
        a, b = getattr(chosen, name), getattr(other, name)
        out = np.array(
            np.broadcast_to(b, len(where)),
            lane_of(chosen.dtype) if name in ("low", "high") else np.bool_,
        )
        out[where] = a
        parts.append(out)
    return Interval(chosen.dtype, *parts)


def _strict(args: tuple[Interval, ...]) -> tuple[Mask, Mask, Mask]:
    """Of a strict function: where all arguments may have values, where some may be NULL, where some may be lost."""
    alive, nulls, lost = YES, NO, NO
    for a in args:
        alive, nulls, lost = alive & a.some, nulls | a.nulls, lost | a.lost
    return alive, nulls, lost


def opaque(call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """What is known of a strict function without looking at values."""
    alive, nulls, lost = _strict(args)
    u, policy = unknown(call.dtype), f.policy(call)
    return Interval(
        call.dtype, u.low, u.high, u.above, alive, nulls | (alive & (policy == "null")), alive & u.nans, lost | (alive & (policy in ("raise", "lost")))
    )  # fmt: skip


def corners(call: Call, f: Function, args: tuple[Interval, ...]) -> Interval:
    """Around the values at the corners of each box, and at NaN where an argument may be NaN.

    A function that is monotone in each argument takes its extremes at corners. A bad corner means
    that bad points may lie inside: the interval then ends where the function saturates, or nowhere.
    A box of one point is that point.
    """
    assert f.point is not None
    alive, nulls, lost = _strict(args)
    policy = f.policy(call)
    saturates = f.saturates and policy != "keep"
    single = functools.reduce(np.logical_and, (a.single for a in args), YES)
    counted = YES if saturates else single if policy == "keep" else NO
    n = max(1, *map(len, args))
    low, high = (np.broadcast_to(end(call.dtype, high=h), n) for h in (True, False))
    seen, bad_seen, nan_seen, wild, good = (np.zeros(n, np.bool_) for _ in range(5))
    for combination in itertools.product(*map(_candidates, args)):
        use = functools.reduce(np.logical_and, (c[1] for c in combination), YES)
        if not use.any():
            continue
        data, bad, gone = evaluate_points(call, f, [c[0] for c in combination])
        lost = lost | (use & gone)
        nan = np.isnan(data) if call.dtype.kind is Kind.FLOAT else NO
        nan_seen = nan_seen | (use & nan & ~bad)
        if not any(c[2] for c in combination):
            wild = wild | (use & nan)
        bad_seen, good = bad_seen | (use & bad), good | (use & ~bad)
        use = use & ~nan & (~bad | counted)
        low = np.where(use & (~seen | less(data, low)), data, low)
        high = np.where(use & (~seen | less(high, data)), data, high)
        seen = seen | use
    # Nothing good lies between bad ends that saturate alike, nor in a box of one point.
    barren = (
        bad_seen
        & ~good
        & (policy != "keep")
        & (single | (saturates & np.asarray(low == high, np.bool_)))
    )
    if not saturates:
        wild = wild | bad_seen
    wild = wild & ~barren & ~single
    real = alive & (seen | wild) & ~barren
    low, high = (
        np.where(wild, end(call.dtype, high=False), low),
        np.where(wild, end(call.dtype, high=True), high),
    )
    floating = call.dtype.kind is Kind.FLOAT
    above = wild if call.dtype.kind in TEXT else NO
    nulls = nulls | (bad_seen & alive) if policy == "null" else nulls
    lost = lost | (bad_seen & alive) if policy in ("raise", "lost") else lost
    return Interval(
        call.dtype, low, high, above, real, nulls, alive & (nan_seen | (wild & floating)), lost
    )


def _candidates(a: Interval) -> list[tuple[Data, Mask, bool]]:
    """The points of an argument to try: (values, where they are possible, whether they are NaN)."""
    out = [(a.low, a.real, False)]
    if a.low is not a.high:
        out.append((a.high, a.real, False))
    if a.nans.any():
        nan = np.full(1, np.nan, lane_of(a.dtype))
        out.append((nan, a.nans, True))
    return out


def evaluate_points(call: Call, f: Function, data: list[Data]) -> tuple[Data, Mask, Mask]:
    """A function's values on points, where they are bad, and where they are not known here."""
    assert f.point is not None
    with np.errstate(all="ignore"):
        out = f.point(call, *data)
    values, bad = out if isinstance(out, tuple) else (out, NO)
    bad = np.asarray(bad)
    assert bad is NO or f.policy(call) != "never" or not bad.any(), (
        f"{call.name} has bad results, and does not say what they mean"
    )
    return np.asarray(values, lane_of(call.dtype)), bad > 0, bad == LOST


def evaluate_rows(call: Call, f: Function, args: tuple[Values, ...]) -> Values:
    """A function's values on rows."""
    if f.rows is not None:
        return f.rows(call, args)
    valid, lost = YES, NO
    for a in args:
        valid, lost = valid & a.valid, lost | a.lost
    use = valid & ~lost
    data, bad, gone = evaluate_points(call, f, [_safe(a, use) for a in args])
    policy = f.policy(call)
    bad, lost = bad & use & ~gone, lost | (gone & use)
    if policy == "null":
        valid = valid & ~bad
    elif policy in ("raise", "lost"):
        lost = lost | bad
    return Values(call.dtype, data, valid, lost)


def _safe(a: Values, use: Mask) -> Data:
    """Data with fillers where it is not used, so that nothing strange is computed."""
    if len(a.data) == 1 or use.all():
        return a.data
    fill = np.empty(1, a.data.dtype)
    fill[0] = filler(a.dtype)
    return np.where(np.broadcast_to(use, len(a.data)) if len(use) == 1 else use, a.data, fill)
