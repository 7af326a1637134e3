"""Casts of text literals to numbers, dates and times, as Spark does them.

The module is imported at first use, because compiling its patterns takes 7 ms, a fortieth of a
process's first answer.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction

from skipstone.ir.coercion.literals import instant_of, micros_to, to_float32
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.zones import DAY, to_instant, zone_of

_DATE = re.compile(r"\+?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
# Spark reads a zone only after seconds.
_TIME = re.compile(
    r"[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?"
    r"\s*(Z|(?:UTC|GMT|UT)?[+-][\d:]+|UTC|GMT|UT|[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)+)?)?",
    re.ASCII,
)
# Texts that Spark reads as a time of day, except those with AM or PM.
_CLOCK_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]?\d)(?::([0-5]?\d)(?:\.(\d{0,6}))?)?", re.ASCII)
_INTEGER = re.compile(r"([+-]?\d{1,40})", re.ASCII)
# Without ANSI mode Spark drops what follows a point, and a point alone is 0.
# Source: Spark, `UTF8String.toLong`; seen in 4.3.
_TRUNCATED = re.compile(r"([+-]?\d{1,40})(?:\.\d{0,400})?|[+-]?\.\d{0,400}", re.ASCII)
_NAMED_FLOATS = {
    "nan": math.nan,
    "infinity": math.inf,
    "+infinity": math.inf,
    "inf": math.inf,
    "+inf": math.inf,
    "-infinity": -math.inf,
    "-inf": -math.inf,
}
_NUMBER = re.compile(
    r"([+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,4})?)[dDfF]?", re.ASCII
)
_DECIMAL = re.compile(r"[+-]?(\d{1,38}(\.\d{0,38})?|\.\d{1,38})([eE][+-]?\d{1,3})?", re.ASCII)


def _in_range(value: int, to: DType) -> bool:
    low, high = to.lowest, to.highest
    assert isinstance(low, int) and isinstance(high, int)
    return low <= value <= high


def _nearest(text: str, to: DType) -> str:
    """Return what to write instead of a text; a message alone needs it, and its imports."""
    from skipstone.ir.coercion.nearest import nearest_literal

    return nearest_literal(text, to)


def from_text(text: str, to: DType, session: Session) -> int | float:
    """Cast a string literal as Spark casts it.

    Raises:
        CannotJudge: the text is not one of the plain forms. It is refused, not guessed.
    """
    text = text.strip(" ")
    refusal = CannotJudge(f"{text!r} is not a plain {to}", lambda: _nearest(text, to))
    match to.kind:
        case Kind.INT if m := (_INTEGER if session.ansi else _TRUNCATED).fullmatch(text):
            if _in_range(whole := int(m[1] or 0), to):
                return whole
        case Kind.FLOAT if text.lower() in _NAMED_FLOATS:
            return _NAMED_FLOATS[text.lower()]
        case Kind.FLOAT if m := _NUMBER.fullmatch(text):
            return float(m[1]) if to.bits == 64 else to_float32(Fraction(m[1]))
        case Kind.DECIMAL if _DECIMAL.fullmatch(text):
            value: Fraction = Fraction(text) * 10**to.scale
            # Half up. Where it overflows, Spark raises an error or gives NULL.
            digits = math.floor(abs(value) + Fraction(1, 2))
            if digits < 10**to.precision:
                return digits if value > 0 else -digits
        case Kind.BOOL if text.lower() in ("true", "t", "yes", "y", "1"):
            return 1
        case Kind.BOOL if text.lower() in ("false", "f", "no", "n", "0"):
            return 0
        case Kind.DATE if m := _DATE.match(text):
            if m.end() < len(text) and (m[3] is None or text[m.end()] not in " T"):
                raise refusal
            return _days(m, refusal)
        case Kind.TIME if m := _CLOCK_TIME.fullmatch(text):
            hour, minute, second = (int(g or 0) for g in m.groups()[:3])
            micros = (hour * 3600 + minute * 60 + second) * 10**6 + int((m[4] or "").ljust(6, "0"))
            return micros_to(micros, to)
        # Unlike a date, a time has a year of at most six digits.
        case Kind.TIMESTAMP if (m := _DATE.match(text)) and len(m[1]) <= 6:
            micros = _days(m, refusal) * DAY
            if micros >= 2**63:
                raise refusal
            rest = text[m.end() :]
            if not rest:
                return instant_of(micros, to, session) if to.zoned else micros_to(micros, to)
            if (t := _TIME.fullmatch(rest)) is None or m[3] is None:
                raise refusal
            hour, minute, second = (int(g or 0) for g in t.groups()[:3])
            if hour > 23 or minute > 59 or second > 59:
                raise refusal
            micros += (hour * 3600 + minute * 60 + second) * 10**6 + int((t[4] or "").ljust(6, "0"))
            if micros >= 2**63:
                raise refusal
            try:
                zone = zone_of(t[5]) if t[5] else session.zone
            except ValueError:
                raise refusal from None
            if not to.zoned:
                return micros_to(micros, to)  # Spark's cast drops the zone
            if not t[5]:
                return instant_of(micros, to, session)
            return micros_to(to_instant(micros, zone), to)
    raise refusal


_ANY_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[dDfF]?", re.ASCII)
_SPECIAL = re.compile(r"epoch|now|today|tomorrow|yesterday", re.ASCII | re.IGNORECASE)


def is_no_value(text: str, to: DType) -> bool:
    """Return True if TRY_CAST certainly gives NULL, because a text holds no value of the type.

    The text is one that `from_text` refuses. Java trims and reads more than ASCII, but no letters
    beyond those in the words of a type.
    """
    letters = {c for c in text if c.isalpha()}
    plain = text.isascii() and text.isprintable()
    text = text.strip(" ")
    match to.kind:
        # Spark reads character by character; `from_text` gives up on long texts only.
        case Kind.INT:
            return bool(letters) or (plain and len(text) <= 40)
        # A plain number has more digits than the type.
        case Kind.DECIMAL:
            number = _ANY_NUMBER.fullmatch(text) and not _DECIMAL.fullmatch(text)
            return bool(letters - set("eE")) or (plain and not number)
        case Kind.FLOAT:
            named = re.search("x|nan|inf", text, re.IGNORECASE)
            return bool(letters - set("abcdefinptxyABCDEFINPTXY")) or (
                plain and not (named or _ANY_NUMBER.fullmatch(text))
            )
        case Kind.BOOL:
            return bool(letters - set("aeflnorstuyAEFLNORSTUY")) or plain
        case Kind.DATE | Kind.TIMESTAMP:
            return not _SPECIAL.search(text) and not _may_be_dated(text, to)
    return False


# Whatever Spark reads as a date or a time: digits in their places, and any text after them. Source:
# Spark, `SparkDateTimeUtils.stringToDate` and `parseTimestampString`.
_DATED = re.compile(r"[+-]?\d{4,7}(?:-(\d{1,2})(?:-(\d{1,2})([ T].*)?)?)?", re.ASCII | re.DOTALL)
_CLOCK = re.compile(r"(?:T\d|\d{1,2}:).*", re.ASCII | re.DOTALL)
_BLANK = "".join(map(chr, (*range(0x21), 0x7F)))


def _may_be_dated(text: str, to: DType) -> bool:
    """Return False if a text certainly holds no date, or for a timestamp no time."""
    text = text.strip(_BLANK)
    if to.kind is Kind.TIMESTAMP and _CLOCK.fullmatch(text):
        return True
    m = _DATED.fullmatch(text)
    if m is None or (m[3] and to.kind is Kind.TIMESTAMP and not re.match(r".\d", m[3], re.ASCII)):
        return False
    return int(m[1] or 1) in range(1, 13) and int(m[2] or 1) in range(1, 32)


def _days(m: re.Match[str], refusal: CannotJudge) -> int:
    # The calendar repeats every 400 years, which have 146,097 days.
    cycles, year = divmod(int(m[1]), 400)
    try:
        days = (
            dt.date(2000 + year, int(m[2] or 1), int(m[3] or 1)).toordinal()
            - 719163
            + 146_097 * (cycles - 5)
        )
    except ValueError:
        raise refusal from None
    if int(m[1]) == 0 or days >= 2**31:
        raise refusal
    return days
