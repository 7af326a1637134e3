"""Intervals: year-month intervals count months, day-time intervals count microseconds.

Source: Spark 4, `BinaryArithmeticWithDatetimeResolver`, `intervalExpressions.scala`,
`IntervalUtils`; seen in 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import Call, Function, Signature, check_arity, fixed
from skipstone.ir.functions.arithmetic import exact, towards_zero, wrap
from skipstone.ir.functions.clocks import later_by_months, later_by_time
from skipstone.ir.node import Node, literal
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import Data
from skipstone.ir.zones import DAY

Make = Callable[[str, tuple[Node, ...], Session], Node]
Cast = Callable[[Node, DType, Session], Node]
SECOND: Final = 10**6
TIMES: Final = (Kind.DATE, Kind.TIMESTAMP)


def _kind(n: Node) -> Kind | None:
    return None if n.dtype is None else n.dtype.kind


def moved(
    sign: str, args: tuple[Node, ...], session: Session, build: Make, cast: Cast
) -> Node | None:
    """Build + and - that have a date, a timestamp or an interval as operand; None for others."""
    a, b = args
    kinds = (_kind(a), _kind(b))
    if sign == "+" and kinds[1] in TIMES and kinds[0] in (Kind.INT, Kind.INTERVAL, Kind.NULL):
        a, b, kinds = b, a, kinds[::-1]
    if kinds[0] in TIMES and kinds[1] is Kind.INTERVAL:
        by = b if sign == "+" else build("negative", (b,), session)
        return _shifted(a, by, session, build, cast)
    if sign == "-" and (kinds[1] in TIMES or (kinds[0] in TIMES and kinds[1] is Kind.NULL)):
        return _between(a, b, session, build, cast)
    narrow = b.dtype is not None and b.dtype.kind is Kind.INT and b.dtype.bits <= 32
    if sign == "+" and kinds[0] in TIMES and kinds[1] is Kind.NULL:
        # Spark treats it as an interval.
        return _shifted(a, literal(None, ty.DAY_TIME), session, build, cast)
    if kinds[0] is Kind.DATE and narrow:
        return build("date_add" if sign == "+" else "date_sub", (a, b), session)
    return None


def _between(a: Node, b: Node, session: Session, build: Make, cast: Cast) -> Node:
    """Build the interval between two dates or timestamps, measured by their wall clocks."""
    sides = [n.dtype for n in (a, b) if n.dtype is not None and n.dtype.kind in TIMES]
    if any(_kind(n) not in (*TIMES, Kind.NULL) for n in (a, b)):
        raise CannotJudge(f"the interval between {a.dtype} and {b.dtype} is not understood")
    stamps = [t for t in sides if t.kind is Kind.TIMESTAMP]
    if not stamps:
        return build("days_between", (a, b), session)
    if any(t.zoned for t in stamps):
        a, b = (cast(n, ty.TIMESTAMP, session) for n in (a, b))
    return build(
        "clocks_between", tuple(cast(n, ty.TIMESTAMP_NTZ, session) for n in (a, b)), session
    )


def _shifted(at: Node, by: Node, session: Session, build: Make, cast: Cast) -> Node:
    """Build a date or timestamp that is moved by an interval.

    An interval of months moves the wall clock. One of a day or more moves a zoned timestamp by days
    of the wall clock, which matters in a zone whose offset changes.
    """
    assert at.dtype is not None and by.dtype is not None
    if at.dtype == ty.DATE and by.dtype == ty.YEAR_MONTH:
        return build("add_months", (at, build("units_of", (by,), session)), session)
    if at.dtype == ty.DATE and by.dtype == ty.DAYS:
        return build("date_add", (at, build("interval_days", (by,), session)), session)
    zoned = at.dtype.kind is Kind.DATE or at.dtype.zoned
    clock = ty.TIMESTAMP if zoned else ty.TIMESTAMP_NTZ
    at = cast(at, clock, session)
    units = build("units_of", (by,), session)
    if by.dtype == ty.YEAR_MONTH:
        return later_by_months(at, units, session, build, cast)
    return later_by_time(at, units, session, build)


def part_of(field: str, interval: DType | None) -> str | None:
    """Return the function of a field of an interval, by the name of the field of a date."""
    if interval is None or interval.kind is not Kind.INTERVAL:
        return None
    months = {"year": "interval_years", "month": "interval_months"}
    clock = {
        "day": "interval_days", "hour": "interval_hours", "minute": "interval_minutes",
        "seconds_of": "interval_seconds",
    }  # fmt: skip
    return (months if interval == ty.YEAR_MONTH else clock).get(field)


def as_interval(n: Node, to: DType, session: Session, build: Make, cast: Cast) -> Node:
    """Build the cast of an integer to an interval of months or days.

    Raises:
        CannotJudge: the cast is of another type.
    """
    if n.dtype is None or n.dtype.kind is not Kind.INT or to not in (ty.DAYS, ty.YEAR_MONTH):
        raise CannotJudge(f"the cast from {n.dtype} to {to} is not understood")
    name = "months_interval" if to == ty.YEAR_MONTH else "days_interval"
    return build(name, (n,), session)


def _one(dtype: DType) -> Callable[[tuple[Node, ...], Session], Signature]:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1)
        if args[0].dtype not in (ty.DAYS, ty.DAY_TIME, ty.YEAR_MONTH):
            raise CannotJudge(f"expected an interval, got {args[0].dtype}")
        return (args[0].dtype,), dtype

    return signature


def _units_signature(args: tuple[Node, ...], session: Session) -> Signature:
    types, _ = _one(ty.INT64)(args, session)
    return types, ty.INT32 if types[0] == ty.YEAR_MONTH else ty.INT64


def _part(size: int, of: int | None, dtype: DType) -> Function:
    """Return the function of a field: whole units below the next larger one, cut towards zero."""

    def point(call: Call, a: Data) -> Any:
        return towards_zero(a if of is None else np.fmod(a, of), size)

    return Function(_one(dtype), point, monotone=of is None)


def _counted(unit: int, to: DType) -> Function:
    return Function(
        fixed(ty.INT64, returns=to),
        lambda call, a: wrap(exact(np.multiply, a, np.full(1, unit), 64), to),
        monotone=True,
        bad="raise",
    )


def _made(types: tuple[DType, ...], units: tuple[int, ...], to: DType) -> Function:
    """Return make_dt_interval or make_ym_interval: a sum of numbers of units."""

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 0, len(types))
        for a, t in zip(args, types, strict=False):
            kinds = (Kind.INT, Kind.NULL) if t.kind is Kind.INT else (Kind.INT, Kind.DECIMAL)
            if a.dtype is None or a.dtype.kind not in kinds:
                raise CannotJudge(f"expected {t}, got {a.dtype}")
        return types[: len(args)], to

    def point(call: Call, *data: Data) -> Any:
        total = np.zeros(1, np.int64)
        for a, unit in zip(data, units, strict=False):
            part = exact(np.multiply, a, np.full(1, unit), 64)
            total = exact(np.add, total, part, 64)
        return wrap(total, to)

    return Function(signature, point, monotone=True, bad="raise")


def make_ym_interval(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build make_ym_interval; without arguments, the interval is 0."""
    return build("sum_of_months", args, session) if args else literal(0, ty.YEAR_MONTH)


def make_dt_interval(args: tuple[Node, ...], session: Session, build: Make, cast: Cast) -> Node:
    """Build make_dt_interval; without arguments, the interval is 0."""
    return build("sum_of_times", args, session) if args else literal(0, ty.DAY_TIME)


FUNCTIONS: Final = {
    "units_of": Function(_units_signature, lambda call, a: a, monotone=True),
    "days_between": Function(
        fixed(ty.DATE, ty.DATE, returns=ty.DAYS),
        lambda call, a, b: wrap(exact(np.multiply, a - b, np.full(1, DAY), 64), ty.DAY_TIME),
        monotone=True,
        bad="raise",
    ),
    "clocks_between": Function(
        fixed(ty.TIMESTAMP_NTZ, ty.TIMESTAMP_NTZ, returns=ty.DAY_TIME),
        lambda call, a, b: wrap(exact(np.subtract, a, b, 64), ty.DAY_TIME),
        monotone=True,
        bad="raise",
    ),
    "days_interval": _counted(DAY, ty.DAYS),
    "months_interval": _counted(1, ty.YEAR_MONTH),
    "interval_days": _part(DAY, None, ty.INT32),
    "interval_hours": _part(3600 * SECOND, DAY, ty.INT8),
    "interval_minutes": _part(60 * SECOND, 3600 * SECOND, ty.INT8),
    "interval_seconds": _part(1, 60 * SECOND, ty.decimal_type(8, 6)),
    "interval_years": _part(12, None, ty.INT32),
    "interval_months": _part(1, 12, ty.INT8),
    "sum_of_months": _made((ty.INT32, ty.INT32), (12, 1), ty.YEAR_MONTH),
    "sum_of_times": _made(
        (ty.INT32, ty.INT32, ty.INT32, ty.decimal_type(18, 6)),
        (DAY, 3600 * SECOND, 60 * SECOND, 1),
        ty.DAY_TIME,
    ),
}
