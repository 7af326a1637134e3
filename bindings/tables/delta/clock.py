"""Bound a date or timestamp by the partition values that were generated from it.

Such a value names an interval of a clock: a year, a month, a day, an hour. Years, months, days and
hours are read off a wall clock. For a TIMESTAMP that is the clock of the session that wrote the
row. No log names its zone, so the instant may differ from the clock by as much as any zone's
offset. (Delta plans by the reader's zone and loses rows: delta#2343.) Dates and TIMESTAMP_NTZ are
wall-clock values themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.tables.delta.generation import SHORT, DatePart, Truncation
from skipstone.bindings.tables.partition_values import is_zoned, partition_values
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, fill, int64_of, python_array
from skipstone.ir.functions.dates import HOUR, STEPS, month_start, months, truncate_days
from skipstone.ir.zones import DAY, MAX_OFFSET_MICROS, SETTLED
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask

Ticks = npt.NDArray[np.int64]

# The last year that is computed; the first is -287,000. int64 microseconds end soon after.
MAX_YEAR: Final = 287_000
MAX_DAYS: Final = MAX_YEAR * 365  # days before or after 1970
MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
MAX_LENGTH: Final = {
    **STEPS,
    "week": 7 * DAY,
    "month": 31 * DAY,
    "quarter": 92 * DAY,
    "year": 366 * DAY,
}
PART_UNITS: Final = ("month", "day", "hour")
# Days that the clocks of some zone skipped, because islands moved across the date line. Spark takes
# such a date for the next one. Source: the tz database, all versions (2021 moved the day of
# Enderbury and Kiritimati).
SKIPPED_DAYS: Final = np.array(
    ["1844-12-31", "1993-08-21", "1994-12-31", "1995-01-01", "2011-12-30"], "datetime64[D]"
).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ClockInterval:
    """An interval of a clock for each file: [start, stop) in microseconds since 1970.

    Attributes:
        start, stop: int64, shape (n,).
        known: Where the interval is known; elsewhere it is unbounded.
    """

    start: Ticks
    stop: Ticks
    known: Mask

    def __and__(self, other: ClockInterval) -> ClockInterval:
        """Return the intersection; where only one side is known, that side."""
        a, b = self, other
        start = np.where(
            a.known & b.known, np.maximum(a.start, b.start), np.where(a.known, a.start, b.start)
        )
        stop = np.where(
            a.known & b.known, np.minimum(a.stop, b.stop), np.where(a.known, a.stop, b.stop)
        )
        return ClockInterval(start, stop, a.known | b.known)


def bounds_from_times(
    arrow_type: pa.DataType, generated: Sequence[tuple[Truncation | DatePart, Given, pa.DataType]]
) -> ColumnStatistics:
    """Bound a date or timestamp column by the partition values that were generated from it.

    The result also says whether the column is NULL: each form is NULL exactly where its source is.

    Args:
        arrow_type: The column's type.
        generated: For each partition column its form, its texts, and its type.
    """
    n = len(generated[0][1])
    wall = axis = ClockInterval(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_))
    null, present = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    parts: dict[str, tuple[Ticks, Mask]] = {}
    for form, texts, own in generated:
        values, empty = partition_values(texts, own, "UTC")
        null |= np.asarray(empty)
        # An empty text may stand for NULL; no form gives it.
        present |= booleans_of(pc.and_(pc.is_valid(values), fill(pc.not_equal(texts, ""), False)))
        if isinstance(form, DatePart):
            parts[form.unit] = _numbers(values)
            continue
        start, known = _interval_starts(values, form)
        if pa.types.is_timestamp(own) and (zoned := np.asarray(is_zoned(texts))).any():
            if pa.types.is_timestamp(arrow_type):
                axis &= _instants_truncated_to(start, known & zoned, form.unit)
            else:
                wall &= _with_skipped_day(_days_beginning_at(start, known & zoned, form.unit))
            known = known & ~zoned
        interval = _unit_from(start, known, form.unit)
        if form.zoned and pa.types.is_date32(arrow_type):
            interval = _with_skipped_day(interval)
        wall &= interval
    for unit in PART_UNITS:
        if unit in parts:
            wall &= _narrow_by_part(wall, unit, *parts[unit])
    found = axis & _column_interval(wall, arrow_type)
    known = found.known & (found.start < found.stop) & ~null
    return ColumnStatistics(
        _array(found.start, known, arrow_type),
        _array(found.stop - 1, known, arrow_type),
        _nulls(null, present),
        arrow_of(np.ones(n, np.int64)),
    )


def _nulls(null: Mask, present: Mask) -> pa.Array:
    return arrow_of(null.astype(np.int64), null != present)


def _array(values: Ticks, known: Mask, arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_date32(arrow_type):
        return arrow_of((values // DAY).astype(np.int32), known).cast(arrow_type)
    return pc.cast(arrow_of(values, known), arrow_type)


def _numbers(values: pa.ChunkedArray) -> tuple[Ticks, Mask]:
    whole = pc.cast(values, pa.int32()) if pa.types.is_date32(values.type) else values
    return int64_of(whole.cast(pa.int64())), np.asarray(pc.is_valid(values), np.bool_)


def _within(values: Ticks, known: Mask, limit: int) -> tuple[Ticks, Mask]:
    """Mark values whose absolute value exceeds `limit` as unknown."""
    known = known & (values >= -limit) & (values <= limit)
    return np.where(known, values, 0), known


def _interval_starts(values: pa.ChunkedArray, form: Truncation) -> tuple[Ticks, Mask]:
    """Return the starts of the intervals that dates, years, texts or timestamps name."""
    if form.pattern:
        coded = pc.dictionary_encode(values.combine_chunks())
        read = [_start_of_text(text, form.pattern) for text in coded.dictionary.to_pylist()]
        return _numbers(pa.chunked_array([pc.take(python_array(read, pa.int64()), coded.indices)]))
    if pa.types.is_date32(values.type):
        days, known = _within(*_numbers(values), MAX_DAYS)
        return days * DAY, known
    if pa.types.is_timestamp(values.type):
        return _numbers(values)
    years, known = _within(*_numbers(values), MAX_YEAR)
    return month_start((years - 1970) * 12) * DAY, known


def _start_of_text(text: str, pattern: str) -> int | None:
    """Return the start, in microseconds since 1970, of the interval that a text names.

    The text was made by `date_format` with this pattern. Years before 1 and years of more than four
    digits have a sign.

    Source: Spark 3 and later, `DateTimeFormatterHelper`, where `y` is the proleptic year, not the
    year of the era.
    """
    regex = (
        pattern.replace("yyyy", r"([+-]?\d{4,6})")
        .replace("MM", r"(\d\d)")
        .replace("dd", r"(\d\d)")
        .replace("HH", r"(\d\d)")
    )
    found = re.fullmatch(regex, text, re.ASCII)
    if found is None:
        return None
    parts = [int(g) for g in found.groups()]
    year, month, day, hour = (*parts, *(1, 1, 0)[len(parts) - 1 :])
    if abs(year) > MAX_YEAR or not 1 <= month <= 12 or not 1 <= day <= 31 or hour > 23:
        return None
    first = int(month_start(np.array([(year - 1970) * 12 + month - 1]))[0])
    return (first + day - 1) * DAY + hour * HOUR


def _unit_from(start: Ticks, known: Mask, unit: str) -> ClockInterval:
    """Return the intervals of a wall clock that start here and are one unit long."""
    start, known = _within(start, known, MAX_DAYS * DAY)
    if unit in MONTHS:
        return ClockInterval(start, month_start(months(start // DAY) + MONTHS[unit]) * DAY, known)
    return ClockInterval(start, start + MAX_LENGTH[unit], known)


def _narrow_by_part(wall: ClockInterval, unit: str, numbers: Ticks, valid: Mask) -> ClockInterval:
    """Narrow an interval by a part of its dates: the number of a month, a day or an hour.

    A month is known where the interval lies in one year, a day where it lies in one month, and an
    hour where it lies in one day.
    """
    known = wall.known & valid & (wall.start < wall.stop) & (numbers >= 0) & (numbers <= 31)
    first, last, number = (np.where(known, a, 0) for a in (wall.start, wall.stop - 1, numbers))
    if unit == "hour":
        return ClockInterval(
            begin := first // DAY * DAY + number * HOUR,
            begin + HOUR,
            known & (first // DAY == last // DAY),
        )
    a, b = months(first // DAY), months(last // DAY)
    if unit == "day":
        return ClockInterval(
            begin := (month_start(a) + number - 1) * DAY, begin + DAY, known & (a == b)
        )
    month = a // 12 * 12 + number
    return ClockInterval(
        month_start(month - 1) * DAY, month_start(month) * DAY, known & (a // 12 == b // 12)
    )


def _column_interval(wall: ClockInterval, arrow_type: pa.DataType) -> ClockInterval:
    """Return the column's values in an interval of its wall clock; an empty interval is unknown."""
    known = wall.known & (wall.start < wall.stop)
    if pa.types.is_timestamp(arrow_type):
        far = 0 if arrow_type.tz is None else MAX_OFFSET_MICROS
        return ClockInterval(wall.start - far, wall.stop + far, known)
    return ClockInterval(wall.start // DAY * DAY, -(-wall.stop // DAY) * DAY, known)


def _with_skipped_day(days: ClockInterval) -> ClockInterval:
    """Extend days to a skipped day just before them, which Spark takes for their first day."""
    return ClockInterval(
        days.start - np.where(np.isin(days.start // DAY - 1, SKIPPED_DAYS), DAY, 0),
        days.stop,
        days.known,
    )


def _instants_truncated_to(instant: Ticks, known: Mask, unit: str) -> ClockInterval:
    """Return the instants that `date_trunc` may have cut to an instant.

    None is earlier. The last one lies a unit later on the clock, or later still if the clock was
    put back meanwhile: by at most a day and a daylight saving change, where an island crosses the
    date line. Since 1900, clocks were put back less than an hour within an hour, and never within a
    minute.
    """
    start, known = _within(instant, known, MAX_DAYS * DAY)
    stop = start + MAX_LENGTH[unit]
    if unit not in ("second", "millisecond", "microsecond"):
        stop = np.where(
            (start < SETTLED * 10**6) | (MAX_LENGTH[unit] > HOUR),
            stop + DAY + 2 * HOUR,
            stop + HOUR,
        )
    return ClockInterval(start, stop, known)


def _days_beginning_at(instant: Ticks, known: Mask, unit: str) -> ClockInterval:
    """Return the days that began at an instant in any zone.

    A day begins at midnight, or two hours later where clocks skipped midnight.
    """
    instant, known = _within(instant, known, MAX_DAYS * DAY)
    earliest, latest = instant - MAX_OFFSET_MICROS - 2 * HOUR, instant + MAX_OFFSET_MICROS
    if unit in SHORT or unit == "day":
        return ClockInterval(-(-earliest // DAY) * DAY, latest // DAY * DAY + DAY, known)
    begin = truncate_days(latest // DAY, unit) * DAY
    return _unit_from(begin, known & (begin >= earliest), unit)
