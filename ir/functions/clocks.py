"""Calls that take a unit or a time zone, built from simpler calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.function import check_arity, int_literal, text_literal
from skipstone.ir.functions.dates import STEPS, UNITS
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.zones import DAY, is_fixed, zone_of

MICROS: Final = {
    "microsecond": 1, "millisecond": 1000, "second": 10**6, "minute": 60 * 10**6,
    "hour": 3600 * 10**6, "day": DAY, "dayofyear": DAY, "week": 7 * DAY,
}  # fmt: skip
MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
SECONDS: Final = "yyyy-MM-dd HH:mm:ss"  # the format of from_unixtime and unix_timestamp

Make = Callable[[str, tuple[Node, ...], Session], Node]
Cast = Callable[..., Node]  # node, type, session[, name]


def _is_steady(at: Node, session: Session) -> bool:
    """Return True if no change of the zone's offset can affect how a time is moved."""
    zoned = at.dtype is None or at.dtype.kind is not Kind.TIMESTAMP or at.dtype.zoned
    return not zoned or is_fixed(session.zone)


def later_by_time(at: Node, micros: Node, session: Session, build: Make) -> Node:
    """Build a timestamp shifted by microseconds; whole days shift the wall clock."""
    short = micros.op is Op.LITERAL and (
        not isinstance(micros.value, int) or abs(micros.value) < DAY
    )
    steady = short or _is_steady(at, session)
    return build("later" if steady else "instant_add_days", (at, micros), session)


def later_by_months(at: Node, months: Node, session: Session, build: Make, cast: Cast) -> Node:
    """Build a timestamp whose clock is moved by months."""
    if not _is_steady(at, session):
        return build("instant_add_months", (at, months), session)
    assert at.dtype is not None
    moved = build("wall_add_months", (cast(at, ty.TIMESTAMP_NTZ, session), months), session)
    return cast(moved, ty.TIMESTAMP if at.dtype.zoned else ty.TIMESTAMP_NTZ, session)


def _as_time(at: Node, session: Session, cast: Cast) -> Node:
    if at.dtype is not None and at.dtype.kind in (Kind.STRING, Kind.NULL):
        return cast(at, ty.TIMESTAMP, session)
    if at.dtype is None or at.dtype.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise CannotJudge(f"expected a date or timestamp, got {at.dtype}")
    return at if at.dtype.kind is Kind.TIMESTAMP else cast(at, ty.TIMESTAMP, session)


def add_units(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build dateadd(unit, count, time); a date becomes an instant."""
    check_arity(args, 3)
    unit, count = text_literal(args[0]), int_literal(args[1])
    at = _as_time(args[2], session, cast)
    zoned = at.dtype is not None and at.dtype.zoned
    if unit in MICROS:
        micros = count * MICROS[unit]
        if abs(micros) >= 2**63:
            raise CannotJudge("the interval exceeds 64 bits")
        at = cast(at, DType(Kind.TIMESTAMP, unit="us", zoned=zoned), session)
        if unit not in ("day", "dayofyear", "week") and abs(micros) >= DAY:
            if not _is_steady(at, session):
                raise CannotJudge(
                    "where the zone's offset changes, versions of Spark differ about "
                    f"{count} {unit}s; add an INTERVAL"
                )
        return later_by_time(at, literal(micros, ty.INT64), session, build)
    months = count * MONTHS[unit]
    if abs(months) >= 2**31:
        raise CannotJudge("the interval exceeds 32 bits")
    return later_by_months(at, literal(months, ty.INT32), session, build, cast)


def units_between(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build datediff(unit, start, end): whole units, cut towards zero."""
    check_arity(args, 3)
    unit, ends = text_literal(args[0]), [_as_time(a, session, cast) for a in args[1:]]
    if unit == "dayofyear":
        raise CannotJudge("Spark raises an error for DAYOFYEAR between times")
    if len({a.dtype.zoned for a in ends if a.dtype is not None}) > 1:
        ends = [cast(a, ty.TIMESTAMP, session) for a in ends]
    if not all(_is_steady(a, session) for a in ends):
        raise CannotJudge("where the zone's offset changes, units of time differ in length")
    # Spark makes instants of wall clocks, which moves those that the zone skips.
    instants = (cast(a, ty.TIMESTAMP, session) for a in ends)
    start, end = (cast(a, ty.TIMESTAMP_NTZ, session) for a in instants)
    if unit in MICROS:
        between = build("micros_between", (start, end), session)
        return build("div", (between, literal(MICROS[unit], ty.INT64)), session)
    between = build("months_apart", (start, end), session)
    return build("div", (between, literal(MONTHS[unit], ty.INT64)), session)


def months_between(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build months_between(later, earlier, rounded), a DOUBLE."""
    check_arity(args, 2, 3)
    if any(a.op is not Op.LITERAL or a.dtype != ty.BOOL for a in args[2:]):
        raise CannotJudge("months_between expects true or false as third argument")
    ends = [a if a.dtype == ty.DATE else _as_time(a, session, cast) for a in args[:2]]
    if any(a.dtype != ty.DATE for a in ends) and not is_fixed(session.zone):
        raise CannotJudge("where the zone's offset changes, days differ in length")
    walls = (cast(a, ty.TIMESTAMP_NTZ, session) for a in ends)
    return build("clock_months", (*walls, *args[2:]), session)


def _in(name: str, session: Session) -> Session:
    try:
        zone_of(name)
    except ValueError as e:
        raise CannotJudge(str(e)) from e
    return replace(session, timezone=name)


def convert_timezone(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build convert_timezone(from, to, clock), which takes and returns a wall clock."""
    check_arity(args, 2, 3)
    zones = [session.timezone] * (3 - len(args)) + [text_literal(a) for a in args[:-1]]
    wall = cast(args[-1], ty.TIMESTAMP_NTZ, session)
    instant = cast(wall, ty.TIMESTAMP, _in(zones[0], session))
    return cast(instant, ty.TIMESTAMP_NTZ, _in(zones[1], session))


def shifted(to_utc: bool) -> Callable[[tuple[Node, ...], Session, Make, Cast], Node]:
    """Return the builder of to_utc_timestamp or from_utc_timestamp."""

    def make(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
        check_arity(args, 2)
        zone, utc = _in(text_literal(args[1]), session), _in("UTC", session)
        source, to = (utc, zone) if to_utc else (zone, utc)
        instant = _as_time(args[0], session, cast)
        instant = cast(instant, ty.TIMESTAMP, session)
        return cast(cast(instant, ty.TIMESTAMP_NTZ, source), ty.TIMESTAMP, to)

    return make


def date_trunc(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Truncate instants on the session's wall clock, as Spark does for every argument."""
    check_arity(args, 2)
    unit, at = args
    source = at.dtype
    kinds = (Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.NULL)
    if source is None or source.kind not in kinds:
        raise CannotJudge(f"date_trunc expects a date or timestamp, got {source}")
    if (
        not is_fixed(session.zone)
        and UNITS.get(text_literal(unit).lower()) in STEPS
        and UNITS[text_literal(unit).lower()] != "day"
    ):
        raise CannotJudge(
            "where the zone's offset changes, two instants have the same clock reading, "
            "and the result differs between them"
        )
    wall = cast(cast(at, ty.TIMESTAMP, session), ty.TIMESTAMP_NTZ, session)
    return cast(build("wall_trunc", (unit, wall), session), ty.TIMESTAMP, session)


def date_format(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Format instants on the session's wall clock, as Spark does for every argument."""
    check_arity(args, 2)
    at = args[0]
    kinds = (Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.NULL)
    if at.dtype is None or at.dtype.kind not in kinds:
        raise CannotJudge(f"date_format expects a date or timestamp, got {at.dtype}")
    if args[1].dtype == ty.NULL:
        if at.dtype == ty.STRING:
            raise CannotJudge("date_format without a format still casts its text")
        return literal(None, ty.STRING)
    wall = cast(cast(at, ty.TIMESTAMP, session), ty.TIMESTAMP_NTZ, session)
    return build("wall_format", (wall, args[1]), session)


def read_as(to: DType, *, tried: bool = False) -> Callable[..., Node]:
    """Return the builder of to_date, to_timestamp and their like, with or without a format.

    Args:
        to: The type of the result.
        tried: True if text that cannot be read is NULL in every mode.
    """

    def make(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
        check_arity(args, 1, 2)
        at, dtype, how = args[0], args[0].dtype, "try_cast" if tried else "cast"
        if len(args) == 2:
            if to == ty.DATE and dtype is not None and dtype.kind is Kind.INT:
                at = cast(at, ty.STRING, session)
            _require_same_micros(dtype, ty.TIMESTAMP if to == ty.DATE else to)
            clock = _clock_of(at, args[1], session, build, tried=tried)
            return cast(cast(clock, ty.TIMESTAMP, session) if to == ty.DATE else clock, to, session)
        if tried and to == ty.TIMESTAMP and dtype is not None and dtype.kind is Kind.FLOAT:
            # TRY_CAST gives NULL beyond the range; try_to_timestamp saturates. Seen in Spark 4.3.
            return build("timestamp_seconds", args, session)
        return cast(at, to, session, how)

    return make


def _require_same_micros(dtype: DType | None, to: DType) -> None:
    """Require that a date or time keeps its microseconds, which Spark copies from type to type.

    A date has those of its midnight in the session's zone. Source: Spark 4, `GetTimestamp`.
    """
    if dtype is not None and dtype.kind in (Kind.DATE, Kind.TIMESTAMP):
        instant = dtype.kind is Kind.DATE or dtype.zoned
        if instant != to.zoned:
            raise CannotJudge(f"a format that reads {dtype} as {to} is not understood")


def _clock_of(
    at: Node, pattern: Node, session: Session, build: Make, *, tried: bool = False
) -> Node:
    """Build the wall clock that text is read as; the format of dates and times is not used."""
    text_literal(pattern)
    if at.dtype is not None and at.dtype.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.NULL):
        return at
    if at.dtype != ty.STRING:
        raise CannotJudge(f"expected STRING, a date or timestamp, got {at.dtype}")
    return build("try_read_time" if tried else "read_time", (at, pattern), session)


def unix_timestamp(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build the seconds since 1970 of a date, a timestamp, or of text that is read by a format."""
    check_arity(args, 1, 2)
    at = _clock_of(args[0], _pattern(args), session, build)
    # A wall clock is read without a zone, and seconds are cut towards zero.
    # Source: Spark, `ToTimestamp`; seen in 4.3.
    dtype = args[0].dtype
    wall = dtype is not None and dtype.kind is Kind.TIMESTAMP and not dtype.zoned
    return build(
        "whole_seconds", (cast(at, ty.TIMESTAMP_NTZ if wall else ty.TIMESTAMP, session),), session
    )


def from_unixtime(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build the text of a time that is given in seconds since 1970."""
    check_arity(args, 1, 2)
    if args[0].dtype is None or args[0].dtype.kind not in (Kind.INT, Kind.NULL):
        raise CannotJudge(f"from_unixtime expects an integer, got {args[0].dtype}")
    at = build("timestamp_seconds", (cast(args[0], ty.INT64, session),), session)
    return date_format((at, _pattern(args)), session, build, cast)


def _pattern(args: tuple[Node, ...]) -> Node:
    return args[1] if len(args) == 2 else literal(SECONDS.encode(), ty.STRING)
