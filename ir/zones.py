"""Wall clocks and instants: the effect of Spark's session time zone on dates and timestamps."""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import PredicateError
from skipstone.ir.types import EPOCH, NAIVE_EPOCH

Ticks: TypeAlias = npt.NDArray[np.int64]

MAX_OFFSET: Final = dt.timedelta(hours=18)  # Java's limit of an offset
MAX_OFFSET_MICROS: Final = 18 * 3600 * 10**6
LOWEST, HIGHEST = -(2**63), 2**63 - 1  # the ends of timestamps, microseconds
DAY: Final = 86_400_000_000  # microseconds
# Offsets of regions are trusted between these times. Builds of the tz database differ in 100 zones
# for times before 1970: for 1960, Java has Berlin's time for Oslo, Debian has Oslo's own. For times
# far in the future the database holds only today's rules. All that is known of other times is that
# their wall clock lies within MAX_OFFSET of them.
FIRST_TRUSTED: Final = 0  # 1970-01-01
LAST_TRUSTED: Final = 7_258_118_400_000_000  # 2200-01-01
# Zones whose past was corrected by a release since 2020, and the time from which all agree: Java
# may have another release than Python. Found by comparing eight releases, 2020a to 2026f.
REVISED: Final = {
    name: round(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**6
    for year, names in {
        1972: "Australia/Currie",
        1974: "America/Nipigon America/Rainy_River America/Thunder_Bay",
        1976: "America/Tijuana America/Ensenada America/Santa_Isabel Mexico/BajaNorte",
        1980: "America/Cambridge_Bay America/Inuvik America/Iqaluit America/Rankin_Inlet "
        "America/Resolute America/Yellowknife Pacific/Niue",
        1985: "Atlantic/Madeira Pacific/Efate",
        1986: "Asia/Jerusalem Asia/Tel_Aviv Israel",
        1993: "Asia/Manila Europe/Uzhgorod Europe/Zaporozhye America/Guyana",
        1994: "America/Bogota Atlantic/Azores",
        1998: "America/Cancun America/Pangnirtung Asia/Tehran CET EET Europe/Lisbon Iran MET "
        "Portugal WET",
        2009: "Asia/Choibalsan",
    }.items()
    for name in names.split()
}
# Spark before 3.0, and later versions in legacy mode, wrote dates and timestamps in the Julian
# calendar, which differs from ours before these limits (day 2299161 in Julian days; zones settle by
# 1900). Their hashes also differ.
GREGORIAN: Final = -141_427  # 1582-10-15, days since 1970
SETTLED: Final = -2_208_988_800  # 1900-01-01, seconds since 1970


# Source: Java, `ZoneId.of`; Spark, `SparkDateTimeUtils.getZoneId`, which also reads hours and
# minutes of one digit.
_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(\d{1,2}(?::\d{1,2}|:\d{2}:\d{2})?|\d{4}|\d{6})", re.ASCII
)


def zone_of(name: str) -> dt.tzinfo:
    """Return a time zone by Spark's names: a region, `UTC`, or an offset such as `+05:30`.

    Raises:
        ValueError: the zone does not exist.
    """
    if not isinstance(name, str):
        raise ValueError(
            f"timezone is {name!r}; expected a region such as 'Europe/Berlin' "
            "or an offset such as '+01:00'"
        )
    return _zone_of(name)


@functools.lru_cache(maxsize=64)
def _zone_of(name: str) -> dt.tzinfo:
    if name.upper() in ("UTC", "Z", "GMT", "UT", "ETC/UTC"):
        return dt.UTC
    if m := _OFFSET.fullmatch(name):
        parts = m[2].split(":") if ":" in m[2] else re.findall("..?", m[2])
        hours, minutes, seconds = (*map(int, parts), 0, 0)[:3]
        delta = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if delta > MAX_OFFSET or minutes > 59 or seconds > 59:
            raise ValueError(
                f"timezone {name!r} is not known; expected an offset of at most 18 hours"
            )
        return dt.timezone(-delta if m[1] == "-" else delta)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise ValueError(
            f"timezone {name!r} is not known; expected a region such as 'Europe/Berlin' "
            "or an offset such as '+01:00'"
        ) from e


def check_zone(name: str) -> None:
    """Check the name of a time zone that a caller gave.

    Raises:
        PredicateError: the zone is not known.
    """
    try:
        zone_of(name)
    except ValueError as e:
        raise PredicateError(str(e)) from None


def is_fixed(zone: dt.tzinfo) -> bool:
    """Return True if the zone's offset never changes."""
    return isinstance(zone, dt.timezone)


def same_zone(a: str, b: str) -> bool:
    """Return True if two names certainly mean the same zone, such as "UTC" and "Etc/UTC".

    Regions with other names differ, because the tz databases of two programs may differ about them.
    """
    if a == b:
        return True
    try:
        first, second = zone_of(a), zone_of(b)
    except ValueError:
        return False
    return is_fixed(first) and is_fixed(second) and first == second


def first_of(zone: dt.tzinfo) -> int:
    """Return the first time for which a region's offset is trusted, microseconds since 1970."""
    return REVISED.get(getattr(zone, "key", ""), FIRST_TRUSTED)


def offset_at(micros: int, zone: dt.tzinfo, *, local: bool) -> int | None:
    """Return the zone's offset in microseconds at an instant, or at a wall-clock reading.

    A reading that occurs twice has the earlier instant's offset; one that never occurs has the
    offset before the gap: both are Java's choices.

    Returns:
        The offset; None at times for which it is not trusted.
    """
    if is_fixed(zone):
        return _micros(zone.utcoffset(None))
    if not first_of(zone) <= micros <= LAST_TRUSTED:
        return None
    if local:
        moment = (NAIVE_EPOCH + dt.timedelta(microseconds=micros)).replace(tzinfo=zone, fold=0)
    else:
        moment = (EPOCH + dt.timedelta(microseconds=micros)).astimezone(zone)
    return _micros(moment.utcoffset())


def _micros(delta: dt.timedelta | None) -> int:
    return 0 if delta is None else (delta.days * 86400 + delta.seconds) * 10**6 + delta.microseconds


def to_instant(local: int, zone: dt.tzinfo) -> int | None:
    """Convert a wall-clock reading to an instant; None if the offset is not trusted.

    Both are microseconds since 1970.
    """
    offset = offset_at(local, zone, local=True)
    return None if offset is None else local - offset


def to_local(instant: int, zone: dt.tzinfo) -> int | None:
    """Convert an instant to a wall-clock reading; None if the offset is not trusted.

    Both are microseconds since 1970.
    """
    offset = offset_at(instant, zone, local=False)
    return None if offset is None else instant + offset


def has_stable_offset(instant: int, zone: dt.tzinfo) -> bool:
    """Return True if the offset does not change within three days of an instant.

    Only then do wall clocks and instants near it have the same order, whatever the offset.
    """
    if is_fixed(zone):
        return True
    days = range(instant - 3 * DAY, instant + 3 * DAY + 1, DAY // 4)
    return (
        len({offset_at(t, zone, local=False) for t in days}) == 1
        and offset_at(instant, zone, local=False) is not None
    )


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """A conversion between two clocks: the shift to add to readings, constant between switches.

    Attributes:
        switches: Readings at which the shift changes, ascending, microseconds, shape (k,).
        shifts: The shifts before, between and after them, shape (k + 1,).
        first, last: The range of readings for which the shift is certain.
    """

    switches: Ticks
    shifts: Ticks
    first: int
    last: int

    def certain(self, readings: Ticks) -> npt.NDArray[np.bool_]:
        """Return a mask of the readings for which the other clock is certain."""
        return (readings >= self.first) & (readings <= self.last)

    def __call__(self, readings: Ticks) -> Ticks:
        """Convert readings to the other clock."""
        return readings + self.shifts[np.searchsorted(self.switches, readings, "right")]

    def around(self, low: Ticks, high: Ticks) -> tuple[Ticks, Ticks]:
        """Return the least and greatest reading of the other clock between two of this one.

        A reading with an uncertain shift is moved by MAX_OFFSET, as no offset is greater.
        """
        low_known, high_known = self.certain(low), self.certain(high)
        if low_known.all() and high_known.all():
            return self._around(low, high)
        least, most = self._around(*(np.clip(a, self.first, self.last) for a in (low, high)))
        # If only the other end is uncertain, readings there move by at most MAX_OFFSET. This end's
        # bound is exact if it lies 2 * MAX_OFFSET within the certain years: they cannot pass it.
        low_known = low_known & (high_known | (low <= self.last - 2 * MAX_OFFSET_MICROS))
        high_known = high_known & (self.certain(low) | (high >= self.first + 2 * MAX_OFFSET_MICROS))
        earlier = np.maximum(low, LOWEST + MAX_OFFSET_MICROS) - MAX_OFFSET_MICROS
        later = np.minimum(high, HIGHEST - MAX_OFFSET_MICROS) + MAX_OFFSET_MICROS
        return np.where(low_known, least, earlier), np.where(high_known, most, later)

    def _around(self, low: Ticks, high: Ticks) -> tuple[Ticks, Ticks]:
        """Return `around` of readings whose shifts are certain.

        Where the shift falls, the other clock goes back, by a day at most. So only the two switches
        after `low` and the two before `high` can matter.
        """
        least, most = self(low), self(high)
        if not len(self.switches):
            return least, most
        after = np.searchsorted(self.switches, low, "right")
        before = np.searchsorted(self.switches, high, "right") - 1
        end = len(self.switches) - 1
        for step in range(2):
            s = self.switches[np.minimum(after + step, end)]
            inside = (after + step <= end) & (s <= high)
            least = np.where(inside, np.minimum(least, self(s)), least)
            s = self.switches[np.maximum(before - step, 0)]
            inside = (before - step >= 0) & (s > low)
            most = np.where(inside, np.maximum(most, self(s - 1)), most)
        return least, most

    def may_overflow(self, low: Ticks, high: Ticks) -> npt.NDArray[np.bool_]:
        """Return a mask of the ranges in which the other clock may lie beyond 64 bits."""
        below = (low < LOWEST + MAX_OFFSET_MICROS) & ~self.certain(low)
        above = (high > HIGHEST - MAX_OFFSET_MICROS) & ~self.certain(high)
        return below | above


@functools.lru_cache(maxsize=16)
def shifts_of(name: str) -> tuple[Shift, Shift]:
    """Return the conversions of a zone: from instants to wall-clock readings, and back."""
    zone = zone_of(name)
    first = first_of(zone)
    offsets = [offset_at(first, zone, local=False) or 0]
    switches: list[int] = []
    if not is_fixed(zone):
        moment = first
        while moment < LAST_TRUSTED:
            ahead = min(moment + DAY, LAST_TRUSTED)
            if offset_at(ahead, zone, local=False) != offsets[-1]:
                low, high = moment, ahead
                while high - low > 1:
                    middle = (low + high) // 2
                    if offset_at(middle, zone, local=False) == offsets[-1]:
                        low, high = (middle, high)
                    else:
                        low, high = (low, middle)
                switches.append(high)
                offsets.append(offset_at(high, zone, local=False) or 0)
                ahead = high
            moment = ahead
    # A wall reading that occurs twice is the earlier instant; one that never occurs takes the
    # offset before.
    walls = [t + max(a, b) for t, a, b in zip(switches, offsets, offsets[1:], strict=False)]
    if is_fixed(zone):
        ends = (-(2**63) + abs(offsets[0]), 2**63 - 1 - abs(offsets[0]))
    else:
        ends = (first, LAST_TRUSTED)
    at, shift = np.array(switches, np.int64), np.array(offsets, np.int64)
    return Shift(at, shift, *ends), Shift(np.array(walls, np.int64), -shift, *ends)
