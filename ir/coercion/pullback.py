"""Pullback: map a literal of the comparison's type to a threshold on the column's own axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coercion.literals import to_float, to_float32
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.zones import DAY, has_stable_offset, to_local


class Span(NamedTuple):
    """The position of a literal on a column's axis.

    Attributes:
        low: The least column value that is not below the literal; None if there is none.
        high: The greatest column value that is not above it; None if there is none.

    If `low` equals `high`, the literal is a value of the column.
    """

    low: int | float | bytes | None
    high: int | float | bytes | None


def pullback(column: DType, to: DType, value: int | float | bytes, session: Session) -> Span:
    """Map a value of `to`, the type of the comparison, to its span on the axis of `column`.

    The value is not NaN.

    Raises:
        CannotJudge: the cast keeps no order around the value.
    """
    match column.kind, to.kind, value:
        case ((Kind.INT | Kind.UINT | Kind.DECIMAL), (Kind.INT | Kind.DECIMAL), int()):
            step = 10 ** (to.scale - column.scale)
            return _clamp(column, -(-value // step), value // step)
        case ((Kind.INT | Kind.UINT | Kind.DECIMAL), Kind.FLOAT, float()):
            unit = 10**column.scale
            return _search(column, value, lambda c: to_float(c, unit, to))
        case Kind.FLOAT, Kind.FLOAT, float():
            return Span(value, value) if column.bits == to.bits else _float32_span(value)
        case Kind.INTERVAL, Kind.INTERVAL, int():
            return Span(value, value)
        case Kind.DATE, Kind.TIMESTAMP, int():
            micros = (
                -(-value * 10**6 // ty.PER_SECOND[to.unit]),
                value * 10**6 // ty.PER_SECOND[to.unit],
            )
            local = [_local(m, session) if to.zoned else m for m in micros]
            return _clamp(column, -(-local[0] // DAY), local[1] // DAY)
        case Kind.TIME, Kind.TIME, int():
            scaled, step = value * ty.PER_SECOND[column.unit], ty.PER_SECOND[to.unit]
            return _clamp(column, -(-scaled // step), scaled // step)
        case Kind.TIMESTAMP, Kind.TIMESTAMP, int():
            if to.zoned and not column.zoned:
                whole, rest = divmod(value * 10**6, ty.PER_SECOND[to.unit])
                value = (_local(whole, session) * ty.PER_SECOND[to.unit] + rest) // 10**6
            scaled, step = value * ty.PER_SECOND[column.unit], ty.PER_SECOND[to.unit]
            return _clamp(column, -(-scaled // step), scaled // step)
    if column == to:
        return Span(value, value)
    raise CannotJudge(f"the cast from {column} to {to} keeps no order")


def _local(instant: int, session: Session) -> int:
    """Return the wall clock at an instant.

    Raises:
        CannotJudge: wall clocks and instants around it do not have the same order.
    """
    local = to_local(instant, session.zone) if has_stable_offset(instant, session.zone) else None
    if local is None:
        raise CannotJudge("the session time zone's offset changes around that time")
    return local


def _clamp(column: DType, low: int, high: int) -> Span:
    least, most = column.lowest, column.highest
    assert isinstance(least, int) and isinstance(most, int)
    return Span(
        max(low, least) if low <= most else None, min(high, most) if high >= least else None
    )


def _search(column: DType, value: float, cast: Callable[[int], float]) -> Span:
    """Find the thresholds of a rounding cast by bisection.

    Several column values may equal one literal.
    """
    least, most = column.lowest, column.highest
    assert isinstance(least, int) and isinstance(most, int)

    def first(test: Callable[[float], bool]) -> int:
        lo, hi = least, most + 1
        while lo < hi:
            mid = (lo + hi) // 2
            lo, hi = (lo, mid) if test(cast(mid)) else (mid + 1, hi)
        return lo

    low, above = first(lambda c: c >= value), first(lambda c: c > value)
    return Span(low if low <= most else None, above - 1 if above > least else None)


def _float32_span(value: float) -> Span:
    near = np.float32(to_float32(value))
    if float(near) == value:
        return Span(value + 0.0, value + 0.0)
    above, below = float(near) > value, float(near) < value
    with np.errstate(over="ignore", under="ignore"):
        low = float(near) if above else float(np.nextafter(near, np.float32(np.inf)))
        high = float(near) if below else float(np.nextafter(near, np.float32(-np.inf)))
    return Span(low, high)
