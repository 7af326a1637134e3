"""The nearest literal to a text that Spark cannot cast, for messages."""

from __future__ import annotations

import calendar
import re
from fractions import Fraction
from typing import Final

from skipstone.ir.node import Node
from skipstone.ir.types import DType, Kind

_NUMBER = re.compile(r"[+-]?\d{1,30}(?:[,_ ]\d{3})*(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_DATE = re.compile(r"(\d{1,4})\D(\d{1,2})\D(\d{1,4})", re.ASCII)
_DIGITS = re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?", re.ASCII)
EXAMPLES: Final = {
    Kind.INT: "5",
    Kind.FLOAT: "0.5",
    Kind.DECIMAL: "0.5",
    Kind.BOOL: "'true'",
    Kind.DATE: "'2013-12-31'",
    Kind.TIMESTAMP: "'2013-12-31 23:59:59'",
}


def nearest_literal(text: str, to: DType) -> str:
    """Return what to write instead of a text that is not a literal of a type; "" if unknown.

    Example:
        >>> from skipstone.ir.types import INT32, TIMESTAMP
        >>> nearest_literal("2013-13-45", TIMESTAMP)
        "the nearest TIMESTAMP is '2013-12-31'"
        >>> nearest_literal("1,024 rows", INT32), nearest_literal("abc", INT32)
        ('the nearest INT is 1024', 'write a literal of INT, such as 5')
    """
    kind = str(to)
    near = _date(text, to) if to.kind in (Kind.DATE, Kind.TIMESTAMP) else _number(text, to)
    if near is not None:
        return f"the nearest {kind} is {near}"
    example = EXAMPLES.get(to.kind)
    return f"write a literal of {kind}, such as {example}" if example else ""


def nearest_to_cast(n: Node) -> str:
    """Return what to write instead of the cast of a text literal that fails; "" for other calls."""
    assert isinstance(n.value, tuple)
    text = n.args[0].value
    if n.value[0] not in ("cast", "try_cast") or not isinstance(text, bytes) or n.dtype is None:
        return ""
    return nearest_literal(text.decode("utf-8", "replace"), n.dtype)


def _number(text: str, to: DType) -> str | None:
    """Return the number that a text begins with, in the range of an integer type."""
    m = _NUMBER.match(text.strip()) if to.kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL) else None
    if m is None:
        return None
    plain = re.sub(r"[,_ ]", "", m[0])
    if to.kind is not Kind.INT:
        return plain
    low, high = to.lowest, to.highest
    assert isinstance(low, int) and isinstance(high, int)
    return str(max(low, min(int(Fraction(plain)), high)))


def _date(text: str, to: DType) -> str | None:
    """Return the calendar's nearest day, and for a timestamp the nearest time of day, quoted."""
    m = _DATE.search(text) or _DIGITS.search(text)
    if m is None:
        return None
    first, second, third = map(int, m.groups())
    if len(m[1]) == 4:
        year, month, day = first, second, third
    elif len(m[3]) == 4 and 12 < max(first, second) <= 31:  # else day and month cannot be told
        year, month, day = third, min(first, second), max(first, second)
    else:
        return None
    year, month = max(1, year), max(1, min(month, 12))
    day = max(1, min(day, calendar.monthrange(year, month)[1]))
    near = f"{year:04}-{month:02}-{day:02}"
    clock = _CLOCK.search(text, m.end()) if to.kind is Kind.TIMESTAMP else None
    if clock is not None:
        ends = (23, 59, 59)
        parts = (min(int(g or 0), end) for g, end in zip(clock.groups(), ends, strict=True))
        near += " {:02}:{:02}:{:02}".format(*parts)
    return f"'{near}'"
