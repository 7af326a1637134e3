"""Casts of text literals to numbers, dates and times, as Spark does them.

The module is imported at first use, because compiling its patterns takes 7 ms, a fortieth of a
process's first answer.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from skipstone.ir.coercion.literals import instant_of, micros_to, to_float32
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import EPOCH_DAY, DType, Kind
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
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), 1),
    **dict.fromkeys(("false", "f", "no", "n", "0"), 0),
}
_NUMBER = re.compile(
    r"([+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,4})?)[dDfF]?", re.ASCII
)
_DECIMAL = re.compile(r"[+-]?(\d{1,38}(\.\d{0,38})?|\.\d{1,38})([eE][+-]?\d{1,3})?", re.ASCII)


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
    read = _READERS.get(to.kind)
    value = None if read is None else read(text, to, session)
    if value is None:
        raise CannotJudge(f"{text!r} is not a plain {to}", lambda: _nearest(text, to))
    return value


def _integer(text: str, to: DType, session: Session) -> int | None:
    m = (_INTEGER if session.ansi else _TRUNCATED).fullmatch(text)
    if m is None:
        return None
    whole, low, high = int(m[1] or 0), to.lowest, to.highest
    assert isinstance(low, int) and isinstance(high, int)
    return whole if low <= whole <= high else None


def _float(text: str, to: DType, session: Session) -> float | None:
    if (named := _NAMED_FLOATS.get(text.lower())) is not None:
        return named
    m = _NUMBER.fullmatch(text)
    if m is None:
        return None
    return float(m[1]) if to.bits == 64 else to_float32(Fraction(m[1]))


def _decimal(text: str, to: DType, session: Session) -> int | None:
    if not _DECIMAL.fullmatch(text):
        return None
    value: Fraction = Fraction(text) * 10**to.scale
    # Half up. Where it overflows, Spark raises an error or gives NULL.
    digits = math.floor(abs(value) + Fraction(1, 2))
    if digits >= 10**to.precision:
        return None
    return digits if value > 0 else -digits


def _boolean(text: str, to: DType, session: Session) -> int | None:
    return _BOOLEANS.get(text.lower())


def _date(text: str, to: DType, session: Session) -> int | None:
    m = _DATE.match(text)
    if m is None:
        return None
    rest = text[m.end() :]
    return None if rest and (m[3] is None or rest[0] not in " T") else _days(m)


def _time(text: str, to: DType, session: Session) -> int | None:
    m = _CLOCK_TIME.fullmatch(text)
    micros = None if m is None else _micros(m)
    return None if micros is None else micros_to(micros, to)


def _timestamp(text: str, to: DType, session: Session) -> int | None:
    m = _DATE.match(text)
    # Unlike a date, a time has a year of at most six digits.
    days = None if m is None or len(m[1]) > 6 else _days(m)
    if m is None or days is None:
        return None
    clock, zone = 0, None
    if rest := text[m.end() :]:
        t = _TIME.fullmatch(rest)
        micros = None if t is None or m[3] is None else _micros(t)
        if t is None or micros is None:
            return None
        try:
            clock, zone = micros, zone_of(t[5]) if t[5] else None
        except ValueError:
            return None
    wall = days * DAY + clock
    if wall >= 2**63:
        return None
    if not to.zoned:
        return micros_to(wall, to)  # Spark's cast drops the zone
    if zone is None:
        return instant_of(wall, to, session)
    return micros_to(to_instant(wall, zone), to)


# Kind -> what reads a text as a value of it; None if the text is not one of the plain forms.
_READERS: Final[dict[Kind, Callable[[str, DType, Session], int | float | None]]] = {
    Kind.INT: _integer,
    Kind.FLOAT: _float,
    Kind.DECIMAL: _decimal,
    Kind.BOOL: _boolean,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
}


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


def _days(m: re.Match[str]) -> int | None:
    """Return the days since 1970 of a match of _DATE; None if there is no such date."""
    # The calendar repeats every 400 years, which have 146,097 days.
    cycles, year = divmod(int(m[1]), 400)
    try:
        date = dt.date(2000 + year, int(m[2] or 1), int(m[3] or 1))
    except ValueError:
        return None
    days = date.toordinal() - EPOCH_DAY + 146_097 * (cycles - 5)
    return None if int(m[1]) == 0 or days >= 2**31 else days


def _micros(m: re.Match[str]) -> int | None:
    """Return the microseconds of a match of _TIME or _CLOCK_TIME; None beyond a day."""
    hour, minute, second = (int(g or 0) for g in m.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * 10**6 + int((m[4] or "").ljust(6, "0"))
