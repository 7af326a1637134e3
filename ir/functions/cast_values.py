"""The values and intervals of casts, for the rules in `ir/functions/casts.py`.

Most functions take the call and axis values, and return values, or values and a mask of bad ones.

Source: Spark 4, `Cast.scala`; seen in 4.3.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.arrow import arrow_of, booleans_of, int64_of
from skipstone.ir.coercion.literals import to_float
from skipstone.ir.function import VALUE_UNKNOWN, Call, with_unknown
from skipstone.ir.functions.arithmetic import exact, half_up, reach, rounded, towards_zero
from skipstone.ir.interval import Interval, unknown
from skipstone.ir.session import CannotJudge
from skipstone.ir.types import EPOCH_DAY, FIRST_DATE, LAST_DATE, DType, Kind
from skipstone.ir.values import NO, Data, axis_values_of, numpy_type_of
from skipstone.ir.zones import DAY

MICROS: Final = 10**6
# The digits and the rounding of scala.math.BigDecimal.defaultMathContext.
SCALA: Final = decimal.Context(34, decimal.ROUND_HALF_EVEN)


def unchanged(call: Call, a: Data) -> Any:
    """Keep the values and change their NumPy type only."""
    return a.astype(numpy_type_of(call.dtype))


def clipped(call: Call, a: Data) -> Any:
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


def float_to_integer(call: Call, a: Data) -> Any:
    """Cast floats to integers, truncated; NaN and values beyond the type are bad.

    Without ANSI mode, types of 32 bits and more saturate as in Java. For narrower types, values
    beyond the range are unknown.
    """
    low, high = call.dtype.lowest, call.dtype.highest
    assert isinstance(low, int) and isinstance(high, int)
    nan = np.isnan(a)
    x = np.where(nan, 0, a).astype(np.float64)
    # Spark compares as doubles, where the greatest BIGINT rounds up; Java then saturates.
    least, most = float(low), float(high)
    bad = nan | (np.floor(x) > most) | (np.ceil(x) < least)
    inside = np.clip(np.trunc(x), -(2.0**63), np.nextafter(2.0**63, 0))
    whole = np.where(x >= 2.0**63, 2**63 - 1, inside.astype(np.int64))
    whole = np.clip(whole, low, high)
    if call.session.ansi or call.name == "try_cast":
        return whole, bad
    return whole if call.dtype.bits >= 32 else (whole, np.where(bad, VALUE_UNKNOWN, 0))


def decimal_to_integer(call: Call, a: Data) -> Any:
    """Cast decimals to integers, truncated.

    Values beyond the type are bad; without ANSI mode a plain CAST of them is unknown. In ANSI mode
    and for TRY_CAST, Spark turns some decimals into a DOUBLE first; where that differs, the value
    is unknown.

    Source: Spark 4, `Decimal.roundToNumeric`; seen in 4.3.
    """
    source = call.types[0]
    out, bad = clipped(call, towards_zero(a, 10**source.scale))
    if not (call.session.ansi or call.name == "try_cast"):
        return out, np.where(bad, VALUE_UNKNOWN, 0)
    if call.dtype.bits == 64 or not source.scale or source.precision <= 15:  # exact as a DOUBLE
        return out, bad
    by_float, beyond = clipped(call, np.trunc(number_to_float(replace(call, dtype=ty.DOUBLE), a)))
    return out, np.where((by_float != out) | (beyond != bad), VALUE_UNKNOWN, bad)


def to_decimal(call: Call, a: Data) -> Any:
    """Cast integers and decimals to a decimal, rounded half up."""
    digits = call.dtype.scale - call.types[0].scale
    if digits >= 0:
        out = exact(np.multiply, a, np.array([10**digits], object if digits > 18 else np.int64), 64)
    else:
        out = half_up(a, 10**-digits)
    return clipped(call, out)


def float_to_decimal(call: Call, a: Data, *, by_text: bool = True) -> Any:
    """Cast floats to a decimal.

    Spark rounds the text of the number as a DOUBLE. Where that is not certain and the exact value
    rounds differently, the result is unknown. `by_text=False` rounds the exact value alone.
    """
    unit, most = 10**call.dtype.scale, int(call.dtype.highest or 0)
    sizes, certain = rounded(a.astype(np.float64), call.dtype.scale)
    certain &= sizes <= min(most, 2**50)
    signed = np.copysign(np.where(certain, sizes, 0), a).astype(np.int64)
    if certain.all():
        return signed, NO
    from fractions import Fraction

    out, bad = signed.astype(object), np.zeros(len(a), np.uint8)
    for i in np.flatnonzero(~certain).tolist():
        x = a[i].item()
        if x != x or x in (np.inf, -np.inf):
            out[i], bad[i] = (0 if x != x else most if x > 0 else -most), 1
            continue
        # Beyond the type, all sizes are alike.
        exact_sizes = {
            min(int(abs(Fraction(v)) * unit + Fraction(1, 2)), most + 1)
            for v in (texts_of(x) if by_text else (x,))
        }
        size = max(exact_sizes)
        bad[i] = VALUE_UNKNOWN if len(exact_sizes) > 1 else size > most
        out[i] = min(size, most) * (1 if x > 0 else -1)
    return out.astype(numpy_type_of(call.dtype)), bad


def texts_of(x: float) -> tuple[decimal.Decimal | float, ...]:
    """Return the value of a DOUBLE's text; also its exact value if the text is not certain."""
    shown = decimal.Decimal(repr(x))
    return (shown,) if show_float(x, ty.DOUBLE) else (shown, x)


def number_to_float(call: Call, a: Data) -> Any:
    """Cast integers, booleans and decimals to a float, rounded once."""
    source, to = call.types[0], call.dtype
    if source.kind is not Kind.DECIMAL:
        return a.astype(numpy_type_of(to))
    unit = 10**source.scale
    if to.bits != 64 or source.scale > 22 or a.dtype == object:
        return np.array([to_float(int(v), unit, to) for v in a], numpy_type_of(to))
    # If both are exact as doubles, their quotient is rounded only once.
    out = a.astype(np.float64) / unit
    if reach(a) > 2**53:
        for i in np.flatnonzero(np.abs(a) > 2**53).tolist():
            out[i] = to_float(int(a[i]), unit, to)
    return out


def to_boolean(call: Call, a: Data) -> Any:
    """Cast numbers to BOOLEAN: TRUE unless they are 0."""
    return (a != 0).astype(np.int64)


def to_boolean_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a cast from numbers to BOOLEAN."""
    (a,) = args
    zero = a.may_hold_value & np.asarray((a.low <= 0) & (a.high >= 0), np.bool_)
    other = a.may_hold_nan | (a.may_hold_value & np.asarray((a.low != 0) | (a.high != 0), np.bool_))
    truth = a.with_bounds(ty.BOOL, (~zero).astype(np.int64), other.astype(np.int64))
    return replace(truth, may_hold_value=a.may_hold_any)


def seconds_to_timestamp(call: Call, a: Data) -> Any:
    """Cast seconds to timestamps, which saturate."""
    return clipped(call, exact(np.multiply, a, np.full(1, MICROS), 64))[0].astype(np.int64)


def float_to_timestamp(call: Call, a: Data) -> Any:
    """Cast seconds to timestamps.

    They saturate, unless ANSI mode or TRY_CAST refuses them. NaN and the infinities are not times.
    """
    micros = a.astype(np.float64) * MICROS
    inside = np.clip(
        np.where(np.isnan(micros), 0, np.trunc(micros)), -(2.0**63), np.nextafter(2.0**63, 0)
    ).astype(np.int64)
    beyond = (np.abs(micros) > 2.0**63) & (call.session.ansi or call.name == "try_cast")
    return np.where(micros >= 2.0**63, 2**63 - 1, inside), ~np.isfinite(a) | beyond


def decimal_to_timestamp(call: Call, a: Data) -> Any:
    """Cast decimal seconds to timestamps.

    Times beyond the type are unknown, and so are those that change if Spark rounds the microseconds
    to 34 digits, as Scala's BigDecimal does.
    """
    unit, micros = 10 ** call.types[0].scale, a.astype(object) * MICROS
    out, bad = clipped(call, towards_zero(micros, unit))
    if call.types[0].precision > 28:
        near = np.array([int(SCALA.create_decimal(v)) for v in micros.tolist()], object)
        bad = bad | np.asarray(towards_zero(near, unit) != out, np.bool_)
    return out, np.where(bad, VALUE_UNKNOWN, 0)


def change_unit(call: Call, a: Data) -> Any:
    """Convert between units of timestamps; Spark's is the microsecond."""
    source, to = (ty.PER_SECOND[t.unit] for t in (call.types[0], call.dtype))
    if source >= to:
        return a // (source // to)
    return clipped(call, exact(np.multiply, a, np.full(1, to // source), 64))


def date_to_wall(call: Call, a: Data) -> Any:
    """Cast days to microseconds of the wall clock."""
    return clipped(call, exact(np.multiply, a, np.full(1, DAY), 64))


def wall_to_date(call: Call, a: Data) -> Any:
    """Cast microseconds of the wall clock to days."""
    return a // DAY


def text_to(call: Call, a: Data) -> Any:
    """Cast text to another type.

    Unless a CAST raises errors, text that certainly has no value is bad. All other text that is not
    plain is unknown.
    """
    from skipstone.ir.coercion.texts import from_text

    out, bad = np.empty(len(a), numpy_type_of(call.dtype)), np.zeros(len(a), np.uint8)
    # TRY_CAST reads text as in ANSI mode, in every session.
    session = replace(call.session, ansi=call.session.ansi or call.name == "try_cast")
    for i, raw in enumerate(a.tolist()):
        try:
            out[i] = from_text(raw.decode("utf-8", "strict"), call.dtype, session)
        except (CannotJudge, ValueError, OverflowError):
            out[i], bad[i] = (
                0,
                1 if _is_null(call, raw.decode("utf-8", "replace")) else VALUE_UNKNOWN,
            )
    return out, bad


def _plain_text(call: Call) -> str | None:
    """Return a pattern of texts that Arrow casts as Spark does; None if none is known."""
    to = call.dtype
    match to.kind:
        case Kind.INT:
            return "-?[0-9]{1,18}"
        case Kind.FLOAT:
            return r"-?[0-9]{1,17}(\.[0-9]{1,17})?([eE]-?[0-9]{1,2})?"
        case Kind.DECIMAL if to.precision > to.scale:
            fraction = rf"(\.[0-9]{{1,{to.scale}}})?" if to.scale else ""
            return rf"-?[0-9]{{1,{to.precision - to.scale}}}{fraction}"
        case Kind.DATE:
            return _PLAIN_DATE
        case Kind.TIMESTAMP if to.unit == "us" and (not to.zoned or call.session.timezone == "UTC"):
            return _PLAIN_DATE + r"[ T]([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{1,6})?"
    return None


_PLAIN_DATE: Final = "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_ARROW_TYPES: Final = {
    Kind.INT: pa.int64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
}


def text_column_to(call: Call, a: Any) -> Any:
    """Cast a column of text to another type, plain text by Arrow and distinct others one by one."""
    pattern = _plain_text(call)
    if pattern is None or not isinstance(a, pa.Array):
        return None
    to = call.dtype
    arrow = _ARROW_TYPES.get(to.kind)
    if to.kind is Kind.FLOAT:
        arrow = pa.float64() if to.bits == 64 else pa.float32()
    elif to.kind is Kind.DECIMAL:
        arrow = pa.decimal128(to.precision, to.scale)
    plain = booleans_of(pc.match_substring_regex(a, pattern=rf"\A(?:{pattern})\z"))
    try:
        cast = pc.cast(a if plain.all() else pc.filter(a, arrow_of(plain)), arrow)
    except pa.ArrowInvalid:  # a month lacks the day
        plain, cast = np.zeros(len(a), np.bool_), pa.array([], arrow)
    if to.kind is Kind.INT and to.bits < 64:
        inside = int64_of(cast) >> (to.bits - 1)
        within = (inside == 0) | (inside == -1)
        plain[plain] = within
        cast = pc.filter(cast, arrow_of(within))
    values = axis_values_of(cast, to)
    if plain.all():
        return values
    others = pc.dictionary_encode(pc.filter(a, arrow_of(~plain)))
    found, bad = text_to(call, _texts(others.dictionary))
    which = int64_of(others.indices)
    out, lost = np.empty(len(a), found.dtype), np.zeros(len(a), np.uint8)
    out[plain], out[~plain], lost[~plain] = values, found[which], bad[which]
    return out, lost


def _texts(texts: pa.Array) -> Data:
    return np.array([text.encode() for text in texts.to_pylist()], object)


def _is_null(call: Call, text: str) -> bool:
    from skipstone.ir.coercion.texts import is_no_value

    raises = call.session.ansi and call.name != "try_cast"
    return not raises and is_no_value(text, call.dtype)


def to_text(show: Callable[[Any, DType], str | None]) -> Callable[[Call, Data], Any]:
    """Return a cast to text that uses `show`; values that `show` refuses (None) are unknown."""

    def point(call: Call, a: Data) -> Any:
        shown = [show(v, call.types[0]) for v in a.tolist()]
        return with_unknown([None if s is None else s.encode() for s in shown])

    return point


def show_date(days: int, t: DType) -> str | None:
    """Return a date as Spark's text; None beyond the years 1 to 9999."""
    if FIRST_DATE <= days <= LAST_DATE:
        return dt.date.fromordinal(days + EPOCH_DAY).isoformat()
    return None


def show_wall(micros: int, t: DType) -> str | None:
    """Return a wall-clock time as Spark's text; None beyond the years 1 to 9999."""
    day, rest = divmod(micros, DAY)
    date = show_date(day, t)
    seconds, fraction = divmod(rest, MICROS)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return date and f"{date} {clock}" + (f".{fraction:06}".rstrip("0") if fraction else "")


def show_decimal(digits: int, t: DType) -> str | None:
    """Return a decimal as Spark's text; None for small numbers of a scale above 6."""
    # Java's toString writes exponents for numbers below 10^-6.
    if t.scale > 6 and len(str(abs(digits))) + 6 <= t.scale:
        return None
    return format(decimal.Decimal(digits).scaleb(-t.scale, ty.EXACT), "f")


def show_float(value: float, t: DType) -> str | None:
    """Return a float as Spark's text; None where versions of Java may write it differently.

    All versions write a number of few digits, and a whole number that the type holds exactly, with
    these digits.
    """
    if value != value or value in (np.inf, -np.inf):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size and not 1e-3 <= size < 1e7:
        if size < 1e7 or size >= 2.0 ** (53 if t.bits == 64 else 24) or size != int(size):
            return None
        digits = str(int(size))
        fraction = digits[1:].rstrip("0") or "0"
        return f"{'-' * (value < 0)}{digits[0]}.{fraction}E{len(digits) - 1}"
    near = round(value, 3)
    same = near == value if t.bits == 64 else size < 1e4 and float(np.float32(near)) == value
    return repr(near) if same or value == np.trunc(value) else None


def integer_bytes(call: Call, a: Data) -> Any:
    """Cast integers to their bytes, the highest first."""
    size = call.types[0].bits // 8
    return np.array([int(v).to_bytes(size, "big", signed=True) for v in a.tolist()], object)


def text_bytes(call: Call, a: Data) -> Any:
    """Cast between text and binary, which keeps the bytes; text that is not UTF-8 is unknown."""
    bad = np.zeros(len(a), np.uint8)
    if call.dtype.kind is Kind.STRING:
        for i, raw in enumerate(a.tolist()):
            try:
                raw.decode()
            except UnicodeDecodeError:
                bad[i] = VALUE_UNKNOWN
    return a, bad


def text_bytes_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a cast between text and binary."""
    (a,) = args
    if call.dtype.kind is Kind.BINARY:
        return replace(a, dtype=call.dtype)
    u = unknown(call.dtype)  # not all bytes between two texts are text
    text = a.with_bounds(call.dtype, u.low, u.high, u.unbounded_above)
    return replace(text, may_raise=a.may_raise | a.may_hold_value)
