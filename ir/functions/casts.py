"""CAST and TRY_CAST between types.

Casts that keep order carry intervals by their ends. A narrowing cast ends where the type ends;
values beyond raise, wrap or become NULL. Text keeps no order: only single values are cast.

Source: Spark 4, `Cast.scala`; seen in 4.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.function import Call, Function, Policy, Signature, check_arity
from skipstone.ir.functions.arithmetic import overflow, wrap
from skipstone.ir.functions.cast_values import (
    MICROS,
    change_unit,
    clipped,
    date_to_wall,
    decimal_to_integer,
    decimal_to_timestamp,
    float_to_decimal,
    float_to_integer,
    float_to_timestamp,
    integer_bytes,
    number_to_float,
    seconds_to_timestamp,
    show_date,
    show_decimal,
    show_float,
    show_wall,
    text_bytes,
    text_bytes_interval,
    text_column_to,
    text_to,
    to_boolean,
    to_boolean_interval,
    to_decimal,
    to_text,
    unchanged,
    wall_to_date,
)
from skipstone.ir.functions.instants import change_clock, change_clock_interval
from skipstone.ir.functions.text_columns import integer_text
from skipstone.ir.interval import Interval, apply, corners, corners_where, hull_of, merge
from skipstone.ir.node import Node, Op
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import Data, numpy_type_of


def _fails(call: Call) -> Policy:
    return "null" if call.name == "try_cast" else overflow(call)


def _fails_or_null(call: Call) -> Policy:
    return "raise" if call.session.ansi and call.name == "cast" else "null"


_INT, _FLOAT, _DECIMAL, _BOOL = Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.BOOL
_DATE, _STAMP, _STRING, _BINARY = Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.BINARY


def _cast_signature(args: tuple[Node, ...], session: Session) -> Signature:
    # Casts are built by ir/functions/build.py.
    raise CannotJudge("write CAST(x AS INT)")


def _fails_or_unknown(call: Call) -> Policy:
    return "null" if call.name == "try_cast" else "raise" if call.session.ansi else "unknown"


def _rule(point: Any, **more: Any) -> Function:
    return Function(_cast_signature, point, **more)


def _integer(call: Call, a: Data) -> Any:
    """Cast integers; those out of range wrap in a plain CAST without ANSI mode, else are bad."""
    return wrap(a, call.dtype) if _fails(call) == "keep" else clipped(call, a)


def _text_to_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a cast from text: between two texts, the result of some is unknown."""
    (a,) = args
    interval = apply(call, _TEXT_TO, args)
    return replace(interval, may_raise=interval.may_raise | (a.may_hold_any & ~a.single))


def _float_text_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a cast to text: 0.0 and -0.0 have one bound, but differ as text."""
    (a,) = args
    zero = np.asarray((a.low <= 0) & (a.high >= 0), np.bool_)
    return corners_where(a.single & ~zero, call, _FLOAT_TEXT, args)


def _float_decimal_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a cast from a float to a decimal.

    If a result is unknown because a text and its number round differently, the numbers on both
    sides bound the text.
    """
    found = corners(call, _FLOAT_DECIMAL, args)
    if not found.may_raise.any():
        return found
    where = np.array(np.broadcast_to(found.may_raise, len(found)))
    some = tuple(a.take(where) for a in args)
    return merge(where, hull_of(call.dtype, (corners(call, f, some) for f in _AROUND)), found)


def _beside(end: float) -> Function:
    """Return the cast to a decimal of the next number in a direction."""

    def point(call: Call, a: Data) -> Any:
        return float_to_decimal(call, np.nextafter(a.astype(np.float64), end), by_text=False)

    return _rule(point, monotone=True, bad=_fails_or_null, saturates=True)


def _null_or_unknown(call: Call) -> Policy:
    return "unknown" if call.session.ansi and call.name != "try_cast" else "null"


_FLOAT_DECIMAL: Final = _rule(float_to_decimal, monotone=True, bad=_fails_or_null, saturates=True)
_AROUND: Final = (_beside(-np.inf), _beside(np.inf))
_FLOAT_TEXT: Final = _rule(to_text(show_float), bad="unknown")
_TEXT_TO: Final = _rule(text_to, bad=_null_or_unknown, column=text_column_to)
RULES: Final[dict[tuple[Kind, Kind], Function]] = {
    (_INT, _INT): _rule(_integer, monotone=True, bad=_fails, saturates=True),
    (_INT, _FLOAT): _rule(number_to_float, monotone=True),
    (_INT, _DECIMAL): _rule(to_decimal, monotone=True, bad=_fails_or_null, saturates=True),
    (_INT, _BOOL): _rule(to_boolean, interval=to_boolean_interval),
    (_INT, _STAMP): _rule(seconds_to_timestamp, monotone=True),
    (_INT, _STRING): _rule(to_text(lambda v, t: str(v)), column=integer_text),
    (_FLOAT, _INT): _rule(float_to_integer, monotone=True, bad=_fails_or_unknown, saturates=True),
    (_FLOAT, _FLOAT): _rule(unchanged, monotone=True),
    (_FLOAT, _DECIMAL): replace(_FLOAT_DECIMAL, interval=_float_decimal_interval),
    (_FLOAT, _BOOL): _rule(to_boolean, interval=to_boolean_interval),
    (_DECIMAL, _INT): _rule(
        decimal_to_integer, monotone=True, bad=_fails_or_unknown, saturates=True
    ),
    (_DECIMAL, _FLOAT): _rule(number_to_float, monotone=True),
    (_DECIMAL, _DECIMAL): _rule(to_decimal, monotone=True, bad=_fails_or_null, saturates=True),
    (_DECIMAL, _BOOL): _rule(to_boolean, interval=to_boolean_interval),
    (_DECIMAL, _STRING): _rule(to_text(show_decimal), bad="unknown"),
    (_BOOL, _INT): _rule(unchanged, monotone=True),
    (_BOOL, _FLOAT): _rule(number_to_float, monotone=True),
    (_BOOL, _DECIMAL): _rule(to_decimal, monotone=True, bad=_fails_or_null, saturates=True),
    (_BOOL, _STRING): _rule(to_text(lambda v, t: "true" if v else "false"), monotone=True),
    (_DATE, _STAMP): _rule(date_to_wall, monotone=True, bad="unknown", saturates=True),
    (_DATE, _STRING): _rule(to_text(show_date), monotone=True, bad="unknown"),
    (_FLOAT, _STAMP): _rule(float_to_timestamp, monotone=True, bad=_fails_or_null, saturates=True),
    (_DECIMAL, _STAMP): _rule(decimal_to_timestamp, monotone=True, bad="unknown", saturates=True),
    (_STAMP, _FLOAT): _rule(
        lambda call, a: (a / MICROS).astype(numpy_type_of(call.dtype)), monotone=True
    ),
    (_STAMP, _DATE): _rule(wall_to_date, monotone=True),
    (_STAMP, _STRING): _rule(to_text(show_wall), monotone=True, bad="unknown"),
    (_STAMP, _INT): _rule(
        lambda call, a: clipped(call, a // MICROS),
        monotone=True,
        bad=_fails_or_null,
        saturates=True,
    ),
    (_STRING, _BINARY): _rule(text_bytes, bad="unknown", interval=text_bytes_interval),
    (Kind.INTERVAL, Kind.INTERVAL): _rule(unchanged, monotone=True),
    (_FLOAT, _STRING): replace(_FLOAT_TEXT, interval=_float_text_interval),
    (_INT, _BINARY): _rule(integer_bytes),
    (_BINARY, _STRING): _rule(text_bytes, bad="unknown", interval=text_bytes_interval),
    **{
        (_STRING, k): replace(_TEXT_TO, interval=_text_to_interval)
        for k in (_INT, _FLOAT, _DECIMAL, _BOOL, _DATE, Kind.TIME, _STAMP)
    },
}
CLOCK: Final = _rule(change_clock, bad="unknown", interval=change_clock_interval)
UNITS: Final = _rule(change_unit, monotone=True, bad="unknown", saturates=True)


def rule_of(source: DType, to: DType) -> Function | None:
    """Return the rule of a single cast; None if the cast is not supported.

    Zoned timestamps change clocks first (`steps`).
    """
    if source.kind is Kind.TIME and to.kind is Kind.TIME:
        return UNITS
    if source.kind is _STAMP and to.kind is _STAMP:
        return UNITS if source.zoned == to.zoned else CLOCK
    return RULES.get((source.kind, to.kind))


def steps(source: DType, to: DType) -> tuple[DType, ...]:
    """Return the types that a cast passes through; the last one is its own.

    Every path between dates, timestamps and text passes through microseconds of the wall clock.
    """
    at, path = in_spark(source), []
    stamps = at.kind is _STAMP and to.kind is _STAMP
    if at.kind is _STAMP and at.unit != "us" and not (stamps and at.zoned == to.zoned):
        at = DType(_STAMP, unit="us", zoned=at.zoned)
        path.append(at)
    if (at.kind is _DATE and to.kind is _STAMP) or (
        at.kind is _STAMP and at.zoned and to.kind in (_DATE, _STRING)
    ):
        at = ty.TIMESTAMP_NTZ
        path.append(at)
    if at.kind is _STAMP and to.kind is _STAMP and at.zoned != to.zoned:
        at = DType(_STAMP, unit="us", zoned=to.zoned)
        path.append(at)
    return (*path, to) if not path or path[-1] != to else tuple(path)


def _by_types(call: Call) -> Function:
    rule = rule_of(call.types[0], call.dtype)
    assert rule is not None
    return rule


def _interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    return apply(call, _by_types(call), args)


def _rows(call: Call, args: tuple[Any, ...]) -> Any:
    from skipstone.ir.interval import evaluate_rows

    return evaluate_rows(call, _by_types(call), args)


CAST: Final = Function(_cast_signature, interval=_interval, rows=_rows)
FUNCTIONS: Final = {
    "cast": CAST,
    "try_cast": CAST,
    "widen": Function(_cast_signature, unchanged, monotone=True),
}


def check_cast(args: tuple[Node, ...], to: DType, session: Session) -> None:
    """Check that a cast is supported.

    Raises:
        CannotJudge: Spark refuses the cast, it is not supported here, or its result is not certain.
    """
    check_arity(args, 1)
    source = args[0].dtype
    assert source is not None
    at = in_spark(source)
    for step in steps(source, to):
        numbers = {at.kind, step.kind} & {_INT, _FLOAT, _DECIMAL}
        refused = step.kind is _BINARY and at.kind is _INT and session.ansi
        clockless = numbers and _STAMP in (at.kind, step.kind) and ty.TIMESTAMP not in (at, step)
        if at != step and (rule_of(at, step) is None or clockless or refused):
            raise CannotJudge(f"the cast from {source} to {to} is not understood")
        at = step
    if to.kind is _STRING and any(map(_is_zero, args[0].walk())):
        raise CannotJudge("0.0 and -0.0 are equal, but differ as text")


def _is_zero(n: Node) -> bool:
    """Return True for a literal 0.0, whose sign is not known: -0.0 becomes the same literal."""
    floating = n.op is Op.LITERAL and n.dtype is not None and n.dtype.kind is _FLOAT
    return floating and n.value == 0.0
