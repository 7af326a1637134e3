"""Compare the time zones of Spark's JVM with Python's: each uses its own tz database.

When a law changes a zone, one of the two may learn of it later. Mexico has had no summer time since
2022, but a JVM of 2021 still applies it, and Spark's rows follow the JVM.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_right
from typing import Any, Final
from weakref import WeakKeyDictionary

from skipstone.bindings.spark.session.session import is_connect
from skipstone.ir.errors import describe_error
from skipstone.ir.zones import DAY, first_of, is_fixed, offset_at, shifts_of, zone_of

# Java's text of a change: "Transition[Gap at 2026-03-29T02:00+01:00 to +02:00]".
_CHANGE: Final = re.compile(r"Transition\[\w+ at (\S+?)(Z|[+-][\d:]+) to (Z|[+-][\d:]+)\]")
# Until 2100, dates fall on the same days of the week after 28 years, of which 7 are leap years.
CYCLE: Final = 28
CYCLE_SECONDS: Final = (CYCLE * 365 + 7) * 86400
END: Final = 4_102_444_800  # 2100-01-01, seconds: both sides follow rules long before
MICROS: Final = 10**6

# JVM, or the session of Spark Connect -> zone -> answer
_known: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def other_zone(spark: Any, name: str) -> str:
    """Return why times in a zone may differ from Spark's, or "" if they do not.

    Args:
        spark: The session, classic or Spark Connect.
        name: The zone's name, as Spark takes it.
    """
    try:
        zone = zone_of(name)
    except ValueError:  # whoever uses the zone says so
        return ""
    if is_fixed(zone):
        return ""
    known = _known.setdefault(spark if is_connect(spark) else spark._jvm, {})
    if name not in known:
        known[name] = _compared(spark, name, zone)
    return known[name]


def _compared(spark: Any, name: str, zone: dt.tzinfo) -> str:
    try:
        offsets = (_of_server if is_connect(spark) else _of_jvm)(spark, name)
    except Exception as e:  # py4j's and gRPC's errors have no common base
        return f"the JVM's rules of {name} cannot be read ({describe_error(e)})"
    differing = (at for at, there in offsets if offset_at(at, zone, local=False) != there)
    at = next(differing, None)
    if at is None:
        return ""
    day = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=at)).date()
    return f"the JVM has other rules of {name} than Python, from {day} on (update the older one)"


def _of_server(spark: Any, name: str) -> list[tuple[int, int]]:
    """Return times and the offsets that the server of Spark Connect gives them, in microseconds.

    The times are those at which Python's offset changes, and one of each week.
    """
    times = _times(name, shifts_of(name)[0].switches.tolist())
    micros = f"timestamp_micros(t), '{name}'"
    found = spark.sql(
        f"SELECT transform(from_json('{times}', 'array<bigint>'), "
        f"t -> unix_micros(from_utc_timestamp({micros})) - t) AS offsets"
    ).head()
    return list(zip(times, found.offsets, strict=True))


def _of_jvm(spark: Any, name: str) -> list[tuple[int, int]]:
    """Return times and the offsets that the JVM gives them, in microseconds.

    The times are those at which the JVM's offset changes, and one of each week.
    """
    changes = _changes(spark._jvm, name)
    instants = [at * MICROS for at, _, _ in changes]
    offsets = [changes[0][1], *(after for _, _, after in changes)]
    return [(at, offsets[bisect_right(instants, at)] * MICROS) for at in _times(name, instants)]


def _times(name: str, changes: list[int]) -> list[int]:
    """Return trusted times on both sides of changes and of each week, ascending."""
    first, end = first_of(zone_of(name)), END * MICROS
    around = (at + step for at in changes for step in (-1, 0))
    times: set[int] = {*range(first, end, 7 * DAY), *around}
    return sorted(t for t in times if first <= t <= end)


def _changes(jvm: Any, name: str) -> list[tuple[int, int, int]]:
    """Return the changes of a zone's offset: the instant, and the offsets before and after it.

    All are in seconds. After the last change that Java lists, its rules hold until `END`.
    """
    zones = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils
    rules = zones.getZoneId(name).getRules()
    listed = _parsed(str(rules.getTransitions().toString()))
    if not listed:
        start = _seconds(str(rules.getOffset(jvm.java.time.Instant.EPOCH).toString()))
        listed = [(-(2**40), start, start)]
    last = max(listed[-1][0], 0)
    first = (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=last)).year
    yearly = list(rules.getTransitionRules())
    ruled = [
        change
        for year in range(first, first + CYCLE)
        for rule in yearly
        for change in _parsed(str(rule.createTransition(year).toString()))
    ]
    cycles = range((END - last) // CYCLE_SECONDS + 1)
    repeated = [(at + n * CYCLE_SECONDS, old, new) for n in cycles for at, old, new in ruled]
    return listed + sorted(change for change in repeated if change[0] > last)


def _parsed(text: str) -> list[tuple[int, int, int]]:
    out = []
    for wall, before, after in _CHANGE.findall(text):
        moment = dt.datetime.fromisoformat(wall) - dt.datetime(1970, 1, 1)
        offset = _seconds(before)
        out.append((moment.days * 86400 + moment.seconds - offset, offset, _seconds(after)))
    if text.count("Transition[") != len(out):
        raise ValueError(f"{text[:80]!r} is not understood")
    return out


def _seconds(offset: str) -> int:
    """Return Java's text of an offset, such as "+05:30", in seconds."""
    if offset == "Z":
        return 0
    hours, minutes, seconds = [*map(int, offset[1:].split(":")), 0][:3]
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if offset[0] == "-" else 1)
