"""Times moved by days or months of the wall clock.

In a zone whose offset changes, a day keeps the clock reading and not the number of hours. Where a
reading occurs twice, the instant keeps its offset if it can; where it does not occur, it moves on
by the length of the gap.

Source: Java, `ZonedDateTime.ofLocal`; Spark 4, `DateTimeUtils.timestampAddDayTime` and
`timestampAddMonths`; seen in 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import (
    VALUE_UNKNOWN,
    Call,
    Function,
    Signature,
    check_arity,
    fixed,
    only_value,
    text_literal,
)
from skipstone.ir.functions.arithmetic import towards_zero
from skipstone.ir.functions.dates import SECOND, add_months, in_days, month_start, months
from skipstone.ir.functions.formats import DAYS_IN_FULL
from skipstone.ir.interval import Interval, apply, corners_where, merge, unknown
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.values import NO, Data
from skipstone.ir.zones import DAY, Shift, shifts_of

MAX_DAYS: Final = 200_000_000  # a greater number of days leaves the years of timestamps
MAX_MONTHS: Final = 12 * 600_000
LAST_DAY: Final = 2**63 // DAY - 1  # its clocks are the last that timestamps hold entirely


def _wall_add_months(call: Call, clocks: Data, count: Data) -> Any:
    days, lost = add_months(clocks // DAY, count)
    lost = lost | np.where(np.abs(days) > LAST_DAY, VALUE_UNKNOWN, 0)
    return np.where(lost, 0, days) * DAY + clocks % DAY, lost


def _resolved(instants: Data, moved: Data, wall: Shift, back: Shift) -> Data:
    """Return the instants of moved clocks, with the offset of the instants before if possible."""
    same = moved - (wall(instants) - instants)
    return np.where(wall(same) == moved, same, back(moved))


def _instant_add_days(call: Call, instants: Data, micros: Data) -> Any:
    """Move by whole days of the wall clock, and then by the rest of the time."""
    wall, back = shifts_of(call.session.timezone)
    known = wall.certain(instants) & (np.abs(micros) <= MAX_DAYS * DAY)
    days = towards_zero(np.where(known, micros, 0), DAY) * DAY
    moved = wall(np.where(known, instants, 0)) + days
    known = known & back.certain(moved)
    at = _resolved(instants, moved, wall, back) + (micros - days)
    return np.where(known, at, 0), np.where(known, 0, VALUE_UNKNOWN)


def _instant_add_months(call: Call, instants: Data, count: Data) -> Any:
    wall, back = shifts_of(call.session.timezone)
    known = wall.certain(instants) & (np.abs(count) <= MAX_MONTHS)
    moved, lost = _wall_add_months(
        call, wall(np.where(known, instants, 0)), np.where(known, count, 0)
    )
    known = known & (lost == 0) & back.certain(moved)
    at = _resolved(instants, moved, wall, back)
    return np.where(known, at, 0), np.where(known, 0, VALUE_UNKNOWN)


Bounds = tuple[Data, Data, Data]  # the least and greatest value, and where they are certain


def _wall_month_bounds(call: Call, low: Data, high: Data, count: Data) -> Bounds:
    """Bound clocks moved by months: their days keep order, their times of day do not."""
    known = np.abs(count) <= MAX_MONTHS
    count = np.where(known, count, 0)
    (first, lost), (last, lost_too) = (add_months(end // DAY, count) for end in (low, high))
    known = known & ((lost | lost_too) == 0) & (first >= -LAST_DAY) & (last <= LAST_DAY)
    return np.where(known, first, 0) * DAY, np.where(known, last, 0) * DAY + DAY - 1, known


def _instant_bounds(
    call: Call, low: Data, high: Data, move: Callable[[Data, Data], Bounds]
) -> Bounds:
    """Bound instants whose clocks move within the bounds that `move` gives.

    The clocks lie between those that `Shift.around` gives. The instant of a moved clock is the
    earliest one of its reading, or a later one: no further away than the zone's offsets differ.
    """
    wall, back = shifts_of(call.session.timezone)
    known = wall.certain(low) & wall.certain(high)
    low, high, moved = move(*wall.around(np.where(known, low, 0), np.where(known, high, 0)))
    known = known & moved & back.certain(low) & back.certain(high)
    low, high = back.around(np.where(known, low, 0), np.where(known, high, 0))
    return low, high + int(back.shifts.max() - back.shifts.min()), known


def _instant_month_bounds(call: Call, low: Data, high: Data, count: Data) -> Bounds:
    return _instant_bounds(call, low, high, lambda a, b: _wall_month_bounds(call, a, b, count))


def _instant_day_bounds(call: Call, low: Data, high: Data, micros: Data) -> Bounds:
    known = np.abs(micros) <= MAX_DAYS * DAY
    micros = np.where(known, micros, 0)
    days = towards_zero(micros, DAY) * DAY
    low, high, certain = _instant_bounds(call, low, high, lambda a, b: (a + days, b + days, known))
    return low + (micros - days), high + (micros - days), certain


def _moved(
    dtype: ty.DType,
    amount: ty.DType,
    point: Callable[[Call, Data, Data], Any],
    bounds: Callable[[Call, Data, Data, Data], Bounds],
) -> Function:
    """Return a function that moves times by an amount.

    Planning computes single values, and bounds of others that move by one amount.
    """
    base = Function(fixed(dtype, amount, returns=dtype), point, bad="unknown")

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        a, by = args
        single = np.broadcast_to(a.single & by.single, max(len(a), len(by)))
        if single.all():
            return corners_where(single, call, base, args)
        some = a.may_hold_value & by.may_hold_value
        low, high, known = bounds(call, a.low, a.high, by.low)
        fits, u = some & by.single & known, unknown(dtype)
        wide = replace(
            a.with_bounds(dtype, np.where(fits, low, u.low), np.where(fits, high, u.high)),
            may_hold_value=some,
            may_hold_null=a.may_hold_null | by.may_hold_null,
            may_raise=a.may_raise | by.may_raise | (some & ~fits),
        )
        if not single.any():
            return wide
        chosen = corners_where(single[single], call, base, tuple(i.take(single) for i in args))
        return merge(single, chosen, wide)

    return Function(base.signature, point, bad="unknown", interval=interval)


# Names of days, as next_day takes them, and their numbers. Source: Spark, `DateTimeUtils`.
DAYS: Final = {
    name[:size].decode().upper(): i
    for i, name in enumerate(DAYS_IN_FULL)
    for size in (2, 3, len(name))
}


def _next_day_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    if text_literal(args[1]).upper() not in DAYS:
        raise CannotJudge("expected the name of a day of the week, such as 'MON'")
    return (ty.DATE, ty.STRING), ty.DATE


def _next_day(call: Call, days: Data, name: Data) -> Any:
    """Return the first date after each date that is a day of the week. 1970 began on a Thursday."""
    weekday = DAYS[only_value(name).decode().upper()]
    return in_days(days + 1 + (weekday - 1 - (days + 3)) % 7)


def _months_between(call: Call, later: Data, earlier: Data, rounded: Data | None = None) -> Any:
    """Return the months between two clocks: a whole number between like days of a month.

    Source: Spark 4, `DateTimeUtils.monthsBetween`; seen in 4.3.
    """
    ends = [np.floor_divide(a, DAY) for a in (later, earlier)]
    apart = months(ends[0]) - months(ends[1])
    day = [d - month_start(months(d)) for d in ends]
    is_last = [month_start(months(d) + 1) - 1 == d for d in ends]
    clock = [a % DAY // SECOND for a in (later, earlier)]
    seconds = (day[0] - day[1]) * (DAY // SECOND) + clock[0] - clock[1]
    found = apart + seconds / (31.0 * (DAY // SECOND))
    if rounded is None or only_value(rounded):
        found = np.floor(found * 1e8 + 0.5) / 1e8
    return np.where((day[0] == day[1]) | (is_last[0] & is_last[1]), apart, found)


def _months_between_bounds(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of months between clocks: less than one from that between the months."""
    later, earlier = args[:2]
    exact = apply(call, Function(_months_signature, _months_between), args)
    low, high = (
        months(np.floor_divide(a, DAY)) - months(np.floor_divide(b, DAY)) + more
        for a, b, more in ((later.low, earlier.high, -1.0), (later.high, earlier.low, 1.0))
    )
    one = later.single & earlier.single
    return replace(
        exact,
        low=np.where(one, exact.low, low),
        high=np.where(one, exact.high, high),
        may_hold_nan=NO,
    )


def _months_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2, 3)
    types = (ty.TIMESTAMP_NTZ, ty.TIMESTAMP_NTZ, *(ty.BOOL for _ in args[2:]))
    return types, ty.DOUBLE


FUNCTIONS: Final = {
    "clock_months": Function(_months_signature, _months_between, interval=_months_between_bounds),
    "next_day": Function(_next_day_signature, _next_day, monotone=True, bad="unknown"),
    "wall_add_months": _moved(ty.TIMESTAMP_NTZ, ty.INT32, _wall_add_months, _wall_month_bounds),
    "instant_add_days": _moved(ty.TIMESTAMP, ty.INT64, _instant_add_days, _instant_day_bounds),
    "instant_add_months": _moved(
        ty.TIMESTAMP, ty.INT32, _instant_add_months, _instant_month_bounds
    ),
}
