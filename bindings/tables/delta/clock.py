"""What partition values that were made from a time tell of it: the stretch of a clock that it lies in.

Years, months, days and hours are read off a wall clock. That of a TIMESTAMP is the clock of the session that
wrote the row, whose zone no log names, so that an instant may lie as far from what the clock shows as any
zone does (delta#2343: planned by the reader's zone, rows are lost). Dates and TIMESTAMP_NTZ are walls themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.tables.delta.columns import is_zoned, partition_values
from skipstone.bindings.tables.delta.generation import SHORT, Cell, Turn
from skipstone.ir.functions.dates import HOUR, STEPS, month_start, months, truncate_days
from skipstone.ir.zones import DAY, FARTHEST, FIRST
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import Raw

Ticks = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FAR: Final = FARTHEST.days * DAY + FARTHEST.seconds * 10**6
YEARS: Final = 287_000  # both ways from 0: nearly all that microseconds can count
DAYS: Final = YEARS * 365
MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
LONGEST: Final = {
    **STEPS,
    "week": 7 * DAY,
    "month": 31 * DAY,
    "quarter": 92 * DAY,
    "year": 366 * DAY,
}
TURNS: Final = ("month", "day", "hour")
# Days that some zone's clocks never showed, as islands moved over the date line; Spark takes such a date for the next.
# Source: the tz database, all versions (Enderbury's and Kiritimati's day was moved in 2021).
SKIPPED: Final = np.array(
    ["1844-12-31", "1993-08-21", "1994-12-31", "1995-01-01", "2011-12-30"], "datetime64[D]"
).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """A stretch of a clock for each file: [start, stop), in microseconds since 1970, where it is known."""

    start: Ticks
    stop: Ticks
    known: Mask

    def __and__(self, other: Stretch) -> Stretch:
        """What lies in both."""
        a, b = self, other
        start = np.where(
            a.known & b.known, np.maximum(a.start, b.start), np.where(a.known, a.start, b.start)
        )
        stop = np.where(
            a.known & b.known, np.minimum(a.stop, b.stop), np.where(a.known, a.stop, b.stop)
        )
        return Stretch(start, stop, a.known | b.known)


def told_of_time(kind: pa.DataType, made: Sequence[tuple[Cell | Turn, Given, pa.DataType]]) -> Raw:
    """Bounds of a date or timestamp from partition values made of it, and whether it is NULL: each form is NULL there alone.

    Args:
        kind: The column's type.
        made: How partition columns are made from it, their texts, and their types.
    """
    n = len(made[0][1])
    wall = axis = Stretch(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_))
    null, real = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    turns: dict[str, tuple[Ticks, Mask]] = {}
    for form, texts, own in made:
        values, empty = partition_values(texts, own, "UTC")
        null |= np.asarray(empty)
        real |= np.asarray(pc.is_valid(values))
        if isinstance(form, Turn):
            turns[form.unit] = _numbers(values)
            continue
        start, known = _starts(values, form)
        if pa.types.is_timestamp(own) and (zoned := np.asarray(is_zoned(texts))).any():
            if pa.types.is_timestamp(kind):
                axis &= _since(start, known & zoned, form.unit)
            else:
                wall &= _unskipped(_around(start, known & zoned, form.unit))
            known = known & ~zoned
        cell = _after(start, known, form.unit)
        wall &= _unskipped(cell) if form.zoned and pa.types.is_date32(kind) else cell
    for unit in TURNS:
        if unit in turns:
            wall &= _turn(wall, unit, *turns[unit])
    found = axis & _on_axis(wall, kind)
    known = found.known & (found.start < found.stop) & ~null
    return Raw(
        _array(found.start, known, kind),
        _array(found.stop - 1, known, kind),
        _nulls(null, real),
        pa.array(np.ones(n, np.int64)),
    )


def _nulls(null: Mask, real: Mask) -> pa.Array:
    return pa.array(null.astype(np.int64), mask=null == real)


def _array(values: Ticks, known: Mask, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array((values // DAY).astype(np.int32), pa.int32(), mask=~known).cast(kind)
    return pa.array(values, pa.int64(), mask=~known).cast(kind)


def _numbers(values: pa.ChunkedArray) -> tuple[Ticks, Mask]:
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    return np.asarray(whole.cast(pa.int64()).fill_null(0), np.int64), np.asarray(
        pc.is_valid(values), np.bool_
    )


def _within(values: Ticks, known: Mask, most: int) -> tuple[Ticks, Mask]:
    """Values up to a size, of either sign; greater ones are not known."""
    known = known & (values >= -most) & (values <= most)
    return np.where(known, values, 0), known


def _starts(values: pa.ChunkedArray, form: Cell) -> tuple[Ticks, Mask]:
    """Where the stretches begin that dates, numbers of years, texts and timestamps name."""
    if form.pattern:
        coded = values.combine_chunks().dictionary_encode()
        read = [_parsed(text, form.pattern) for text in coded.dictionary.to_pylist()]
        return _numbers(pa.chunked_array([pc.take(pa.array(read, pa.int64()), coded.indices)]))
    if pa.types.is_date32(values.type):
        days, known = _within(*_numbers(values), DAYS)
        return days * DAY, known
    if pa.types.is_timestamp(values.type):
        return _numbers(values)
    years, known = _within(*_numbers(values), YEARS)
    return month_start((years - 1970) * 12) * DAY, known


def _parsed(text: str, pattern: str) -> int | None:
    """The time that a text of date_format begins with: years before 1 have a sign, and so have those of five digits.

    Source: Spark 3 and later, `DateTimeFormatterHelper`, where `y` is the year, not that of the era.
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
    if abs(year) > YEARS or not 1 <= month <= 12 or not 1 <= day <= 31 or hour > 23:
        return None
    first = int(month_start(np.array([(year - 1970) * 12 + month - 1]))[0])
    return (first + day - 1) * DAY + hour * HOUR


def _after(start: Ticks, known: Mask, unit: str) -> Stretch:
    """One unit of a wall clock from its start on."""
    start, known = _within(start, known, DAYS * DAY)
    if unit in MONTHS:
        return Stretch(start, month_start(months(start // DAY) + MONTHS[unit]) * DAY, known)
    return Stretch(start, start + LONGEST[unit], known)


def _turn(wall: Stretch, unit: str, numbers: Ticks, valid: Mask) -> Stretch:
    """Where a stretch lies in one year, the month of a number in it; in one month the day, in one day the hour."""
    known = wall.known & valid & (wall.start < wall.stop) & (numbers >= 0) & (numbers <= 31)
    first, last, number = (np.where(known, a, 0) for a in (wall.start, wall.stop - 1, numbers))
    if unit == "hour":
        return Stretch(
            begin := first // DAY * DAY + number * HOUR,
            begin + HOUR,
            known & (first // DAY == last // DAY),
        )
    a, b = months(first // DAY), months(last // DAY)
    if unit == "day":
        return Stretch(begin := (month_start(a) + number - 1) * DAY, begin + DAY, known & (a == b))
    month = a // 12 * 12 + number
    return Stretch(
        month_start(month - 1) * DAY, month_start(month) * DAY, known & (a // 12 == b // 12)
    )


def _on_axis(wall: Stretch, kind: pa.DataType) -> Stretch:
    """The values of a column that a stretch of its wall clock holds; of what contradicts itself nothing is known."""
    known = wall.known & (wall.start < wall.stop)
    if pa.types.is_timestamp(kind):
        far = 0 if kind.tz is None else FAR
        return Stretch(wall.start - far, wall.stop + far, known)
    return Stretch(wall.start // DAY * DAY, -(-wall.stop // DAY) * DAY, known)


def _unskipped(days: Stretch) -> Stretch:
    """And a day before them that clocks skipped, which Spark takes for the first of them."""
    return Stretch(
        days.start - np.where(np.isin(days.start // DAY - 1, SKIPPED), DAY, 0),
        days.stop,
        days.known,
    )


def _since(instant: Ticks, known: Mask, unit: str) -> Stretch:
    """The instants that were cut to one: none is earlier, and the clock goes on for a unit, and for what it is put back.

    That is a day and a daylight saving at most, where an island moves over the date line; within an hour it is less than
    one since 1900, and within a minute nothing is changed.
    """
    start, known = _within(instant, known, DAYS * DAY)
    stop = start + LONGEST[unit]
    if unit not in ("second", "millisecond", "microsecond"):
        stop = np.where(
            (start < FIRST) | (LONGEST[unit] > HOUR), stop + DAY + 2 * HOUR, stop + HOUR
        )
    return Stretch(start, stop, known)


def _around(instant: Ticks, known: Mask, unit: str) -> Stretch:
    """The days that began at an instant, in whatever zone: at a midnight, or two hours later where that was skipped."""
    instant, known = _within(instant, known, DAYS * DAY)
    earliest, latest = instant - FAR - 2 * HOUR, instant + FAR
    if unit in SHORT or unit == "day":
        return Stretch(-(-earliest // DAY) * DAY, latest // DAY * DAY + DAY, known)
    begin = truncate_days(latest // DAY, unit) * DAY
    return _after(begin, known & (begin >= earliest), unit)
