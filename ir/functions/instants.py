"""Instants and wall clocks: casts between them, and literals whose instant is uncertain.

Such literals become calls, which have bounds but no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coercion.literals import UncertainInstant
from skipstone.ir.function import VALUE_UNKNOWN, Call, Function
from skipstone.ir.interval import Interval, apply, point
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import Data
from skipstone.ir.zones import shifts_of


def wall_of(n: Node, to: DType, session: Session) -> Node:
    """Return a text literal as its clock's time if its instant is not certain; others unchanged.

    Args:
        n: A bound scalar.
        to: The type that it is cast to.
        session: The Spark settings.
    """
    text = n.value if n.op is Op.LITERAL and to.kind is Kind.TIMESTAMP and to.zoned else None
    if isinstance(text, bytes) and n.dtype is not None and n.dtype.kind is Kind.STRING:
        from skipstone.ir.coercion.texts import from_text

        try:
            from_text(text.decode("utf-8", "replace"), to, session)
        except UncertainInstant as e:
            return literal(e.wall, ty.TIMESTAMP_NTZ)
        except CannotJudge:
            pass
    return n


# Functions of wall clocks that take text, which Spark reads as an instant.
OF_CLOCKS: Final = ("hour", "minute", "second", "seconds_of")


def instants_of(
    name: str, args: tuple[Node, ...], session: Session, cast: Callable[..., Node]
) -> tuple[Node, ...]:
    """Return a function's arguments, with text as instants if it takes wall clocks.

    Without this step, the zone in a text would be dropped.
    """
    if name not in OF_CLOCKS:
        return args
    return tuple(cast(a, ty.TIMESTAMP, session) if a.dtype == ty.STRING else a for a in args)


def is_only_bounded(call: Call, function: Function, args: tuple[Node, ...]) -> bool:
    """Return True if Spark has a value for a call of literals, of which only bounds are known.

    Args:
        call: The call, whose value is not known here.
        function: Its function.
        args: Its arguments, all literals.
    """
    if not function.bounded and call.dtype.kind is not Kind.TIMESTAMP:
        return False
    points = tuple(point(a.value, a.dtype) for a in args if a.dtype is not None)
    return not apply(call, function, points).may_raise.any()


def _shift(call: Call) -> Any:
    wall, back = shifts_of(call.session.timezone)
    return back if call.dtype.zoned else wall


def change_clock(call: Call, a: Data) -> Any:
    """Convert between instants and wall clocks; readings with an uncertain offset are unknown."""
    shift = _shift(call)
    return shift(a), np.where(shift.certain(a), 0, VALUE_UNKNOWN)


def change_clock_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a conversion between instants and wall clocks.

    An uncertain offset widens the interval. It does not make `may_raise` true, since Spark has a
    value for each row.
    """
    (a,) = args
    shift = _shift(call)
    clock = a.with_bounds(call.dtype, *shift.around(a.low, a.high))
    beyond = a.may_hold_value & shift.may_overflow(a.low, a.high)
    return replace(clock, may_raise=a.may_raise | beyond)
