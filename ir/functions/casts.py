"""CAST and TRY_CAST between types.

Casts that keep order carry intervals by their ends. A narrowing cast ends where the type ends;
values beyond raise, wrap or become NULL. Text keeps no order: only single values are cast.

Source: Spark 4, `Cast.scala`; seen in 4.3.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coerce import in_spark
from skipstone.ir.function import LOST, Call, Function, Policy, Signature, arity
from skipstone.ir.functions.arithmetic import exact, half_up, overflow, towards_zero, wrap
from skipstone.ir.interval import Interval, apply, unknown
from skipstone.ir.literals import from_text, is_no_value, to_float
from skipstone.ir.node import Node
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import NO, Data, lane_of
from skipstone.ir.zones import DAY, shifts_of

MICROS: Final = 10**6


def _same(call: Call, a: Data) -> Any:
    return a.astype(lane_of(call.dtype))


def _integer(call: Call, a: Data) -> Any:
    return wrap(a, call.dtype) if _fails(call) == "keep" else _clipped(call, a)


def _clipped(call: Call, a: Data) -> Any:
    """Clip integers to the range of the type; those beyond it are bad."""
    low, high = call.dtype.lowest, call.dtype.highest
    assert isinstance(low, int) and isinstance(high, int)
    if a.dtype != object and high >= 2**63:
        return a, NO
    bad = np.asarray((a < low) | (a > high), np.bool_)
    return np.where(
        bad,
        np.where(np.asarray(a < 0, np.bool_), np.array([low], a.dtype), np.array([high], a.dtype)),
        a,
    ), bad


def _float_to_integer(call: Call, a: Data) -> Any:
    low, high = call.dtype.lowest, call.dtype.highest
    assert isinstance(low, int) and isinstance(high, int)
    nan = np.isnan(a)
    x = np.where(nan, 0, a).astype(np.float64)
    # Spark compares in the float's own type, where the greatest integer may round up; Java then
    # saturates.
    least, most = float(a.dtype.type(low)), float(a.dtype.type(high))
    bad = nan | (np.floor(x) > most) | (np.ceil(x) < least)
    inside = np.clip(np.trunc(x), -(2.0**63), np.nextafter(2.0**63, 0))
    whole = np.where(x >= 2.0**63, 2**63 - 1, inside.astype(np.int64))
    whole = np.clip(whole, low, high)
    if call.session.ansi or call.name == "try_cast":
        return whole, bad
    return whole if call.dtype.bits >= 32 else (whole, np.where(bad, LOST, 0))


def _decimal_to_integer(call: Call, a: Data) -> Any:
    unit = 10 ** call.types[0].scale
    out, bad = _clipped(call, towards_zero(a, unit))
    return out, bad if call.session.ansi or call.name == "try_cast" else np.where(bad, LOST, 0)


def _to_decimal(call: Call, a: Data) -> Any:
    """Cast integers and decimals to a decimal, rounded half up."""
    digits = call.dtype.scale - call.types[0].scale
    if digits >= 0:
        out = exact(np.multiply, a, np.array([10**digits], object if digits > 18 else np.int64), 64)
    else:
        out = half_up(a, 10**-digits)
    return _clipped(call, out)


def _float_to_decimal(call: Call, a: Data) -> Any:
    """Cast floats to a decimal.

    Spark rounds the shortest text of the number. Where its exact value rounds differently, the
    result is lost.
    """
    out, bad = np.zeros(len(a), object), np.zeros(len(a), np.uint8)
    unit, most = 10**call.dtype.scale, int(call.dtype.highest or 0)
    for i, x in enumerate(a.tolist()):
        if x != x or x in (np.inf, -np.inf):
            out[i], bad[i] = (0 if x != x else most if x > 0 else -most), 1
            continue
        shown = decimal.Decimal(repr(x) if call.types[0].bits == 64 else str(np.float32(x)))
        sizes = {int(abs(Fraction(v)) * unit + Fraction(1, 2)) for v in (shown, x)}
        size = max(sizes)
        bad[i] = LOST if len(sizes) > 1 else size > most
        out[i] = min(size, most) * (1 if x > 0 else -1)
    return out.astype(lane_of(call.dtype)), bad


def _to_float(call: Call, a: Data) -> Any:
    source, to = call.types[0], call.dtype
    if source.kind is not Kind.DECIMAL:
        return a.astype(lane_of(to))
    unit = 10**source.scale
    # If both are exact as doubles, their quotient is rounded only once.
    if to.bits == 64 and source.scale <= 22 and a.dtype != object and (np.abs(a) <= 2**53).all():
        return a.astype(np.float64) / unit
    return np.array([to_float(Fraction(int(v), unit), to) for v in a], lane_of(to))


def _to_boolean(call: Call, a: Data) -> Any:
    return (a != 0).astype(np.int64)


def _to_boolean_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    (a,) = args
    zero = a.real & np.asarray((a.low <= 0) & (a.high >= 0), np.bool_)
    other = a.nans | (a.real & np.asarray((a.low != 0) | (a.high != 0), np.bool_))
    return Interval(
        ty.BOOL, (~zero).astype(np.int64), other.astype(np.int64), NO, a.some, a.nulls, NO, a.lost
    )


def _seconds_to_timestamp(call: Call, a: Data) -> Any:
    return _clipped(call, exact(np.multiply, a, np.full(1, MICROS), 64))[0].astype(
        np.int64
    )  # it saturates


def _float_to_timestamp(call: Call, a: Data) -> Any:
    """Cast seconds to timestamps.

    They saturate, unless ANSI mode or TRY_CAST refuses them. NaN and the infinities are not times.
    """
    micros = a.astype(np.float64) * MICROS
    inside = np.clip(
        np.where(np.isnan(micros), 0, np.trunc(micros)), -(2.0**63), np.nextafter(2.0**63, 0)
    ).astype(np.int64)
    beyond = (np.abs(micros) > 2.0**63) & (call.session.ansi or call.name == "try_cast")
    return np.where(micros >= 2.0**63, 2**63 - 1, inside), ~np.isfinite(a) | beyond


def _decimal_to_timestamp(call: Call, a: Data) -> Any:
    unit = 10 ** call.types[0].scale
    out, bad = _clipped(call, towards_zero(a.astype(object) * MICROS, unit))
    return out, np.where(bad, LOST, 0)


def _rescaled(call: Call, a: Data) -> Any:
    """Convert between units of timestamps; Spark's is the microsecond."""
    source, to = (ty.PER_SECOND[t.unit] for t in (call.types[0], call.dtype))
    return (
        a // (source // to)
        if source >= to
        else _clipped(call, exact(np.multiply, a, np.full(1, to // source), 64))
    )


def _shift(call: Call) -> Any:
    wall, back = shifts_of(call.session.timezone)
    return back if call.dtype.zoned else wall


def _other_clock(call: Call, a: Data) -> Any:
    shift = _shift(call)
    return shift(a), np.where(shift.certain(a), 0, LOST)


def _other_clock_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    (a,) = args
    shift = _shift(call)
    low, high = shift.around(a.low, a.high)
    fits = shift.certain(a.low) & shift.certain(a.high)
    u = unknown(call.dtype)
    return Interval(
        call.dtype,
        np.where(fits, low, u.low),
        np.where(fits, high, u.high),
        NO,
        a.real,
        a.nulls,
        NO,
        a.lost | (a.real & ~fits),
    )


def _date_to_wall(call: Call, a: Data) -> Any:
    return _clipped(call, exact(np.multiply, a, np.full(1, DAY), 64))


def _wall_to_date(call: Call, a: Data) -> Any:
    return a // DAY


def _text_to(call: Call, a: Data) -> Any:
    out, bad = np.empty(len(a), lane_of(call.dtype)), np.zeros(len(a), np.uint8)
    for i, raw in enumerate(a.tolist()):
        try:
            out[i] = from_text(raw.decode("utf-8", "strict"), call.dtype, call.session)
        except (Incomparable, ValueError, OverflowError):
            none = call.name == "try_cast" and is_no_value(
                raw.decode("utf-8", "replace"), call.dtype
            )
            out[i], bad[i] = 0, 1 if none else LOST
    return out, bad


def _text_to_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a cast from text: between two texts, the result of some is unknown."""
    (a,) = args
    found = apply(call, _TEXT_TO, args)
    return replace(found, lost=found.lost | (a.some & ~a.single))


def _text(show: Callable[[Any, DType], str | None]) -> Callable[[Call, Data], Any]:
    def point(call: Call, a: Data) -> Any:
        shown = [show(v, call.types[0]) for v in a.tolist()]
        out = np.empty(len(a), object)
        out[:] = [b"" if s is None else s.encode() for s in shown]
        return out, np.array([LOST if s is None else 0 for s in shown], np.uint8)

    return point


def _show_date(days: int, t: DType) -> str | None:
    return (
        (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()
        if -719162 <= days <= 2932896
        else None
    )


def _show_wall(micros: int, t: DType) -> str | None:
    day, rest = divmod(micros, DAY)
    date = _show_date(day, t)
    seconds, fraction = divmod(rest, MICROS)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return date and f"{date} {clock}" + (f".{fraction:06}".rstrip("0") if fraction else "")


def _show_decimal(digits: int, t: DType) -> str | None:
    # Java's toString writes exponents for small numbers of a large scale.
    return format(decimal.Decimal(digits).scaleb(-t.scale, ty.EXACT), "f") if t.scale <= 6 else None


def _as_text(call: Call, a: Data) -> Any:
    bad = np.zeros(len(a), np.uint8)
    if call.dtype.kind is Kind.STRING:
        for i, raw in enumerate(a.tolist()):
            try:
                raw.decode()
            except UnicodeDecodeError:
                bad[i] = LOST
    return a, bad


def _as_text_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    (a,) = args
    if call.dtype.kind is Kind.BINARY:
        return Interval(call.dtype, a.low, a.high, a.above, a.real, a.nulls, NO, a.lost)
    u = unknown(call.dtype)  # not all bytes between two texts are text
    return Interval(call.dtype, u.low, u.high, u.above, a.real, a.nulls, NO, a.lost | a.real)


def _fails(call: Call) -> Policy:
    return "null" if call.name == "try_cast" else overflow(call)


def _fails_or_null(call: Call) -> Policy:
    return "raise" if call.session.ansi and call.name == "cast" else "null"


_INT, _FLOAT, _DECIMAL, _BOOL = Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.BOOL
_DATE, _STAMP, _STRING, _BINARY = Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.BINARY


def _cast_signature(args: tuple[Node, ...], session: Session) -> Signature:
    raise AssertionError("casts are built by ir/functions/build.py")


def _fails_or_lost(call: Call) -> Policy:
    return "null" if call.name == "try_cast" else "raise" if call.session.ansi else "lost"


def _rule(point: Any, **more: Any) -> Function:
    return Function(_cast_signature, point, **more)


_TEXT_TO: Final = _rule(_text_to, bad=lambda call: "null" if call.name == "try_cast" else "lost")
RULES: Final[dict[tuple[Kind, Kind], Function]] = {
    (_INT, _INT): _rule(_integer, monotone=True, bad=_fails, saturates=True),
    (_INT, _FLOAT): _rule(_to_float, monotone=True),
    (_INT, _DECIMAL): _rule(_to_decimal, monotone=True, bad=_fails_or_null, saturates=True),
    (_INT, _BOOL): _rule(_to_boolean, interval=_to_boolean_interval),
    (_INT, _STAMP): _rule(_seconds_to_timestamp, monotone=True),
    (_INT, _STRING): _rule(_text(lambda v, t: str(v))),
    (_FLOAT, _INT): _rule(_float_to_integer, monotone=True, bad=_fails_or_lost, saturates=True),
    (_FLOAT, _FLOAT): _rule(_same, monotone=True),
    (_FLOAT, _DECIMAL): _rule(_float_to_decimal, monotone=True, bad=_fails_or_null, saturates=True),
    (_FLOAT, _BOOL): _rule(_to_boolean, interval=_to_boolean_interval),
    (_DECIMAL, _INT): _rule(_decimal_to_integer, monotone=True, bad=_fails_or_lost, saturates=True),
    (_DECIMAL, _FLOAT): _rule(_to_float, monotone=True),
    (_DECIMAL, _DECIMAL): _rule(_to_decimal, monotone=True, bad=_fails_or_null, saturates=True),
    (_DECIMAL, _BOOL): _rule(_to_boolean, interval=_to_boolean_interval),
    (_DECIMAL, _STRING): _rule(_text(_show_decimal), bad="lost"),
    (_BOOL, _INT): _rule(_same, monotone=True),
    (_BOOL, _FLOAT): _rule(_to_float, monotone=True),
    (_BOOL, _DECIMAL): _rule(_to_decimal, monotone=True, bad=_fails_or_null, saturates=True),
    (_BOOL, _STRING): _rule(_text(lambda v, t: "true" if v else "false"), monotone=True),
    (_DATE, _STAMP): _rule(_date_to_wall, monotone=True, bad="lost", saturates=True),
    (_DATE, _STRING): _rule(_text(_show_date), monotone=True, bad="lost"),
    (_FLOAT, _STAMP): _rule(_float_to_timestamp, monotone=True, bad=_fails_or_null, saturates=True),
    (_DECIMAL, _STAMP): _rule(_decimal_to_timestamp, monotone=True, bad="lost", saturates=True),
    (_STAMP, _FLOAT): _rule(
        lambda call, a: (a / MICROS).astype(lane_of(call.dtype)), monotone=True
    ),
    (_STAMP, _DATE): _rule(_wall_to_date, monotone=True),
    (_STAMP, _STRING): _rule(_text(_show_wall), monotone=True, bad="lost"),
    (_STAMP, _INT): _rule(
        lambda call, a: _clipped(call, a // MICROS),
        monotone=True,
        bad=_fails_or_null,
        saturates=True,
    ),
    (_STRING, _BINARY): _rule(_as_text, bad="lost", interval=_as_text_interval),
    (_BINARY, _STRING): _rule(_as_text, bad="lost", interval=_as_text_interval),
    **{
        (_STRING, k): replace(_TEXT_TO, interval=_text_to_interval)
        for k in (_INT, _FLOAT, _DECIMAL, _BOOL, _DATE, _STAMP)
    },
}
CLOCK: Final = _rule(_other_clock, bad="lost", interval=_other_clock_interval)
UNITS: Final = _rule(_rescaled, monotone=True, bad="lost", saturates=True)


def rule_of(source: DType, to: DType) -> Function | None:
    """Return the rule of a single cast; None if the cast is not supported.

    Zoned timestamps change clocks first (`steps`).
    """
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
    found = rule_of(call.types[0], call.dtype)
    assert found is not None
    return found


def _interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    return apply(call, _by_types(call), args)


def _rows(call: Call, args: tuple[Any, ...]) -> Any:
    from skipstone.ir.interval import evaluate_rows

    return evaluate_rows(call, _by_types(call), args)


CAST: Final = Function(_cast_signature, interval=_interval, rows=_rows)
FUNCTIONS: Final = {
    "cast": CAST,
    "try_cast": CAST,
    "widen": Function(_cast_signature, _same, monotone=True),
}


def check_cast(args: tuple[Node, ...], to: DType, session: Session) -> None:
    """Check that a cast is supported.

    Raises:
        Incomparable: Spark refuses the cast, or it is not supported here.
    """
    arity(args, 1)
    source = args[0].dtype
    assert source is not None
    at = in_spark(source)
    for step in steps(source, to):
        numbers = {at.kind, step.kind} & {_INT, _FLOAT, _DECIMAL}
        clockless = numbers and _STAMP in (at.kind, step.kind) and ty.TIMESTAMP not in (at, step)
        if at != step and (rule_of(at, step) is None or clockless):
            raise Incomparable(f"the cast from {source} to {to} is not understood")
        at = step
