"""Functions of dates and timestamps.

They are defined on dates (days) and on wall clocks (TIMESTAMP_NTZ, microseconds). A zoned timestamp
is first cast to one of them, in the session's time zone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import (
    VALUE_UNKNOWN,
    Call,
    Function,
    Policy,
    Signature,
    check_arity,
    fixed,
    only_value,
    text_literal,
)
from skipstone.ir.functions.arithmetic import exact, number, towards_zero
from skipstone.ir.interval import Interval, corners, merge
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import Data
from skipstone.ir.zones import DAY

MIN_TABLE_ROWS: Final = 1000  # for fewer rows, no table of their values is made
SECOND: Final = 10**6
HOUR: Final = 3600 * SECOND
# Names of units, as trunc and date_trunc take them. Source: Spark, `DateTimeUtils.parseTruncLevel`.
UNITS: Final = {
    "microsecond": "microsecond", "millisecond": "millisecond", "second": "second",
    "minute": "minute", "hour": "hour",
    "day": "day", "dd": "day", "week": "week", "mon": "month", "month": "month", "mm": "month",
    "quarter": "quarter",
    "year": "year", "yyyy": "year", "yy": "year",
}  # fmt: skip
# Names of fields, as EXTRACT and date_part take them, and their functions.
FIELDS: Final = {
    "year": "year", "y": "year", "years": "year", "quarter": "quarter", "qtr": "quarter",
    "month": "month", "mon": "month", "months": "month",
    "week": "weekofyear", "w": "weekofyear", "day": "day", "d": "day", "days": "day",
    "dayofweek": "dayofweek", "dow": "dayofweek",
    "doy": "dayofyear", "hour": "hour", "h": "hour", "hours": "hour", "minute": "minute",
    "min": "minute", "minutes": "minute",
    "second": "seconds_of", "s": "seconds_of", "sec": "seconds_of", "seconds": "seconds_of",
    "secs": "seconds_of",
}  # fmt: skip
STEPS: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": HOUR,
    "day": DAY,
}


def _by_table(convert: Callable[[Data], Data]) -> Callable[[Data], Data]:
    """Return a conversion that converts each value once if many rows have few values.

    NumPy takes some 50 ns to convert a date.
    """

    @functools.wraps(convert)
    def look_up(values: Data) -> Data:
        if len(values) < MIN_TABLE_ROWS:
            return convert(values)
        low, high = int(values.min()), int(values.max())
        if 2 * (high - low) > len(values):
            return convert(values)
        return convert(np.arange(low, high + 1)).take(values - low)

    return look_up


@_by_table
def months(days: Data) -> Data:
    """Convert days since 1970 to months since January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


@_by_table
def month_start(month: Data) -> Data:
    """Return the first day of a month, in days since 1970."""
    return month.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def truncate_days(days: Data, unit: str) -> Data:
    """Return the first day of the week, month, quarter or year of a day."""
    if unit == "week":
        return np.asarray(days - (days + 3) % 7)
    m = months(days)
    return month_start(m - m % {"month": 1, "quarter": 3, "year": 12}[unit])


def _iso_year(days: Data) -> Data:
    """Return the year of the day's ISO week: that of its Thursday."""
    return np.asarray(months(days - (days + 3) % 7 + 3) // 12)


def _field(
    source: DType,
    first: int,
    last: int,
    value: Callable[[Data], Data],
    period: Callable[[Data], Data],
) -> Function:
    """Return a function for a part of a date or clock.

    The part increases within a period and restarts with the next one.
    """
    base = Function(fixed(source, returns=ty.INT32), lambda call, a: value(a), monotone=True)

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        (a,) = args
        within = np.asarray(period(a.low) == period(a.high), np.bool_) | ~a.may_hold_value
        whole = a.with_bounds(ty.INT32, np.full(1, first), np.full(1, last))
        if within.all():
            return corners(call, base, args)
        where = np.broadcast_to(within, len(a))
        return merge(where, corners(call, base, (a.take(where),)), whole)

    return Function(base.signature, base.point, interval=interval)


def _month_of(days: Data) -> Data:
    return np.asarray(months(days) % 12 + 1)


def _unit(n: Node, supported: tuple[str, ...]) -> str:
    unit = UNITS.get(text_literal(n).lower(), "")
    if unit not in supported:
        raise CannotJudge(
            f"the unit {text_literal(n)!r} is not understood; "
            f"expected one of {', '.join(supported)}"
        )
    return unit


def _trunc_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    _unit(args[1], ("week", "month", "quarter", "year"))
    return (ty.DATE, ty.STRING), ty.DATE


def _trunc(call: Call, a: Data, unit: Data) -> Any:
    return in_days(truncate_days(a, UNITS[only_value(unit).decode().lower()]))


def _wall_trunc_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    _unit(args[0], (*STEPS, "week", "month", "quarter", "year"))
    return (ty.STRING, ty.TIMESTAMP_NTZ), ty.TIMESTAMP_NTZ


def _wall_trunc(call: Call, unit: Data, a: Data) -> Any:
    name = UNITS[only_value(unit).decode().lower()]
    if name in STEPS:
        low = np.iinfo(np.int64).min + STEPS[name]
        return np.maximum(a, low) // STEPS[name] * STEPS[name], np.where(a < low, VALUE_UNKNOWN, 0)
    return truncate_days(a // DAY, name) * DAY, np.where(
        a < np.iinfo(np.int64).min + 366 * DAY, VALUE_UNKNOWN, 0
    )


def in_days(values: Data) -> tuple[Data, Data]:
    """Return days as a date, which is 32 bits wide; days beyond are unknown."""
    low, high = ty.DATE.lowest, ty.DATE.highest
    assert isinstance(low, int) and isinstance(high, int)
    return np.clip(values, low, high), np.where((values < low) | (values > high), VALUE_UNKNOWN, 0)


def add_months(days: Data, count: Data) -> tuple[Data, Data]:
    """Move days by months; the day is the last one of a shorter month. Also mark unknown days."""
    m = months(days)
    first = month_start(m + count)
    length = month_start(m + count + 1) - first
    return in_days(first + np.minimum(days - month_start(m), length - 1))


def _make_date(call: Call, year: Data, month: Data, day: Data) -> Any:
    """Return the date of a year, month and day; bad where there is none."""
    first = month_start((np.clip(year, -1_000_000, 1_000_000) - 1970) * 12 + month - 1)
    length = month_start(months(first) + 1) - first
    bad = (month < 1) | (month > 12) | (day < 1) | (day > length)
    days, beyond = in_days(np.where(bad, 0, first + day - 1))
    beyond = np.where(np.abs(year) > 1_000_000, VALUE_UNKNOWN, beyond)
    return days, np.where(bad, 1, beyond).astype(np.uint8)


def _instant_from(step: int) -> Function:
    """Return a function that reads whole numbers of a unit as an instant."""
    return Function(
        fixed(ty.INT64, returns=ty.TIMESTAMP),
        lambda call, a: _instant(exact(np.multiply, a, np.full(1, step), 64)),
        monotone=True,
        bad="raise",
    )


def _seconds_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 1)
    dtype = number(args[0].dtype)
    if dtype.scale > 6:
        raise CannotJudge("Spark refuses decimal seconds with parts of a microsecond")
    return (dtype,), ty.TIMESTAMP


def _instant_of_seconds(call: Call, a: Data) -> Any:
    (dtype,) = call.types
    if dtype.kind is not Kind.FLOAT:
        return _instant(exact(np.multiply, a, np.full(1, 10 ** (6 - dtype.scale)), 64))
    micros = np.nan_to_num(a.astype(np.float64) * SECOND, nan=0.0)
    inside = np.clip(micros, -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64)
    return np.where(micros >= 2.0**63, 2**63 - 1, inside), ~np.isfinite(a)


def _null_or_raise(call: Call) -> Policy:
    return "null" if call.types[0].kind is Kind.FLOAT else "raise"


def _instant(values: Data) -> Any:
    low, high = -(2**63), 2**63 - 1
    return np.clip(values, low, high).astype(np.int64), np.asarray(
        (values < low) | (values > high), np.bool_
    )


def _units_since(step: int) -> Function:
    """Return a function that counts the steps of a timestamp since 1970.

    A timestamp without a zone is counted unchanged, and not cast by the session's zone.

    Source: Spark 4.3, `unix_seconds`; earlier versions refuse a timestamp without a zone.
    """
    return Function(_any_timestamp, lambda call, a: a // step, monotone=True)


def _any_timestamp(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 1)
    t = args[0].dtype
    if t not in (ty.TIMESTAMP, ty.TIMESTAMP_NTZ):
        raise CannotJudge(f"expected a timestamp, got {t}")
    return (t,), ty.INT64


def _whole_seconds(call: Call, a: Data) -> Any:
    return np.where(a < 0, -(-np.maximum(a, np.iinfo(np.int64).min + 1) // SECOND), a // SECOND)


def _months_between(call: Call, start: Data, end: Data) -> Any:
    """Count the whole months between two clocks, as Java does."""
    days = [a // DAY for a in (start, end)]
    clocks = [a % DAY for a in (start, end)]
    # The last day counts only if its clock reaches that of the first.
    early = (days[1] > days[0]) & (clocks[1] < clocks[0])
    late = (days[1] < days[0]) & (clocks[1] > clocks[0])
    last = days[1] - early + late
    packed = [months(d) * 32 + d - month_start(months(d)) + 1 for d in (days[0], last)]
    return towards_zero(packed[1] - packed[0], 32)


def _add_micros(call: Call, a: Data, micros: Data) -> Any:
    return _instant(exact(np.add, a, micros, 64))


def _add_micros_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    t = args[0].dtype
    if t is None or t.kind is not Kind.TIMESTAMP or t.unit != "us":
        raise CannotJudge(f"expected a timestamp with an interval, got {t}")
    return (t, ty.INT64), t


FUNCTIONS: Final = {
    "year": Function(
        fixed(ty.DATE, returns=ty.INT32), lambda call, a: months(a) // 12 + 1970, monotone=True
    ),
    "quarter": _field(ty.DATE, 1, 4, lambda d: (_month_of(d) + 2) // 3, lambda d: months(d) // 12),
    "month": _field(ty.DATE, 1, 12, _month_of, lambda d: months(d) // 12),
    "day": _field(ty.DATE, 1, 31, lambda d: d - month_start(months(d)) + 1, months),
    "dayofyear": _field(
        ty.DATE, 1, 366, lambda d: d - truncate_days(d, "year") + 1, lambda d: months(d) // 12
    ),
    "dayofweek": _field(ty.DATE, 1, 7, lambda d: (d + 4) % 7 + 1, lambda d: (d + 4) // 7),
    "weekday": _field(ty.DATE, 0, 6, lambda d: (d + 3) % 7, lambda d: (d + 3) // 7),
    "weekofyear": _field(
        ty.DATE,
        1,
        53,
        lambda d: (d - (d + 3) % 7 + 3 - month_start(_iso_year(d) * 12)) // 7 + 1,
        _iso_year,
    ),
    "hour": _field(ty.TIMESTAMP_NTZ, 0, 23, lambda t: t // HOUR % 24, lambda t: t // DAY),
    "minute": _field(
        ty.TIMESTAMP_NTZ, 0, 59, lambda t: t // (60 * SECOND) % 60, lambda t: t // HOUR
    ),
    "second": _field(
        ty.TIMESTAMP_NTZ, 0, 59, lambda t: t // SECOND % 60, lambda t: t // (60 * SECOND)
    ),
    "last_day": Function(
        fixed(ty.DATE, returns=ty.DATE),
        lambda call, a: in_days(month_start(months(a) + 1) - 1),
        monotone=True,
        bad="unknown",
    ),
    "trunc": Function(_trunc_signature, _trunc, monotone=True, bad="unknown"),
    "wall_trunc": Function(_wall_trunc_signature, _wall_trunc, monotone=True, bad="unknown"),
    "date_add": Function(
        fixed(ty.DATE, ty.INT32, returns=ty.DATE),
        lambda call, a, n: in_days(a + n),
        monotone=True,
        bad="unknown",
    ),
    "date_sub": Function(
        fixed(ty.DATE, ty.INT32, returns=ty.DATE),
        lambda call, a, n: in_days(a - n),
        monotone=True,
        bad="unknown",
    ),
    "add_months": Function(
        fixed(ty.DATE, ty.INT32, returns=ty.DATE),
        lambda call, a, n: add_months(a, n),
        monotone=True,
        bad="unknown",
    ),
    "datediff": Function(
        fixed(ty.DATE, ty.DATE, returns=ty.INT32),
        lambda call, a, b: (a - b, np.where(np.abs(a - b) >= 2**31, VALUE_UNKNOWN, 0)),
        monotone=True,
        bad="unknown",
    ),
    "make_date": Function(
        fixed(ty.INT32, ty.INT32, ty.INT32, returns=ty.DATE),
        _make_date,
        bad=lambda call: "raise" if call.session.ansi else "null",
    ),
    "unix_date": Function(fixed(ty.DATE, returns=ty.INT32), lambda call, a: a, monotone=True),
    "date_from_unix_date": Function(
        fixed(ty.INT32, returns=ty.DATE), lambda call, a: a, monotone=True
    ),
    "whole_seconds": Function(_any_timestamp, _whole_seconds, monotone=True),
    "unix_seconds": _units_since(SECOND),
    "unix_millis": _units_since(1000),
    "unix_micros": _units_since(1),
    "timestamp_seconds": Function(
        _seconds_signature, _instant_of_seconds, monotone=True, bad=_null_or_raise, saturates=True
    ),
    "timestamp_millis": _instant_from(1000),
    "timestamp_micros": _instant_from(1),
    "micros_between": Function(
        fixed(ty.TIMESTAMP_NTZ, ty.TIMESTAMP_NTZ, returns=ty.INT64),
        lambda call, a, b: _instant(exact(np.subtract, b, a, 64)),
        monotone=True,
        bad="raise",
    ),
    # Not monotone: from the evening of 31 January to the morning of 1 May it is 2 months; from
    # 1 February, 3.
    "months_apart": Function(
        fixed(ty.TIMESTAMP_NTZ, ty.TIMESTAMP_NTZ, returns=ty.INT64), _months_between
    ),
    "seconds_of": Function(
        fixed(ty.TIMESTAMP_NTZ, returns=ty.decimal_type(8, 6)), lambda call, a: a % (60 * SECOND)
    ),
    "later": Function(_add_micros_signature, _add_micros, monotone=True, bad="raise"),
}
