"""date_format: times as text, by patterns of years, months, days and clocks.

Source: Spark 4, `DateTimeFormatterHelper`; Java, `DateTimeFormatterBuilder.appendPattern`; seen in
4.3.
"""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import (
    VALUE_UNKNOWN,
    Call,
    Function,
    Signature,
    check_arity,
    only_value,
    text_literal,
)
from skipstone.ir.functions.dates import HOUR, SECOND, month_start, months
from skipstone.ir.interval import Interval, apply
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.values import Data
from skipstone.ir.zones import DAY

# The letters of a pattern, from the longest unit to the shortest, and the most of each in a row.
LETTERS: Final = {"y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2, "S": 9}
_QUOTED: Final = re.compile("'((?:[^']|'')*)'")
YEARS: Final = (-719162, 2932896)  # the days of the years 1 to 9999

Part = tuple[str, int]  # a letter and its number, or a literal text and 0


@functools.lru_cache(maxsize=256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """Split a pattern into runs of letters and literal texts.

    Raises:
        CannotJudge: Spark refuses the pattern, or it holds letters that are not understood.

    Example:
        >>> parts_of("yyyy-MM")
        (('y', 4), ('-', 0), ('M', 2))
    """
    out: list[Part] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == "'":
            quoted = _QUOTED.match(pattern, at)
            if quoted is None:
                raise CannotJudge(f"a quote of the pattern {pattern!r} is not closed")
            out.append((quoted[1].replace("''", "'") or "'", 0))
            at = quoted.end()
            continue
        run = len(list(itertools.takewhile(c.__eq__, pattern[at:])))
        if c in LETTERS and run <= LETTERS[c]:
            out.append((c, run))
        elif (c.isascii() and c.isalpha()) or c in "[]{}#":
            raise CannotJudge(
                f"{c * run!r} in the pattern {pattern!r} is not understood; "
                "expected yyyy, MM, dd, HH, mm, ss, S and literal text"
            )
        else:
            out.append((c * run, 0))
        at += run
    return tuple(out)


def keeps_order(pattern: str) -> bool:
    """Return True if texts of later times are never less: units from the year down, zero-padded.

    Example:
        >>> keeps_order("yyyy-MM"), keeps_order("MM/yyyy"), keeps_order("yyyy-M")
        (True, False, False)
    """
    units = [(letter, size) for letter, size in parts_of(pattern) if size]
    # A fraction of a second is cut, so any number of its digits keeps order.
    full = [(c, n) for c, n in LETTERS.items() if c != "S"]
    whole = [(letter, size) for letter, size in units if letter != "S"]
    letters = "".join(letter for letter, _ in units)
    return whole == full[: len(whole)] and bool(units) and "".join(LETTERS).startswith(letters)


def _signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    parts_of(text_literal(args[1]))
    return (ty.TIMESTAMP_NTZ, ty.STRING), ty.STRING


def _digits(numbers: Data, size: int) -> list[str]:
    return [f"{n:0{size}}" for n in numbers.tolist()]


def _shown(part: Part, clocks: Data) -> list[str]:
    """Return the texts of one part of a pattern."""
    letter, size = part
    if not size:
        return [letter] * len(clocks)
    days, rest = clocks // DAY, clocks % DAY
    match letter:
        case "y":
            years = months(days) // 12 + 1970
            return _digits(years % 100 if size == 2 else years, size)
        case "M":
            return _digits(months(days) % 12 + 1, size)
        case "d":
            return _digits(days - month_start(months(days)) + 1, size)
        case "H":
            return _digits(rest // HOUR, size)
        case "m":
            return _digits(rest // (60 * SECOND) % 60, size)
        case "s":
            return _digits(rest // SECOND % 60, size)
    return [f"{n:06}000"[:size] for n in (rest % SECOND).tolist()]


def _point(call: Call, clocks: Data, pattern: Data) -> Any:
    first, last = YEARS
    beyond = (clocks < first * DAY) | (clocks >= (last + 1) * DAY)
    inside = np.where(beyond, 0, clocks)
    parts = [_shown(p, inside) for p in parts_of(only_value(pattern).decode())]
    out = np.empty(len(inside), object)
    out[:] = ["".join(row).encode() for row in zip(*parts, strict=True)] or b""
    return out, np.where(beyond, VALUE_UNKNOWN, 0)


def _interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Map the ends of containers by a pattern that keeps order; otherwise only single values."""
    pattern = args[1].low[0]
    ordered = isinstance(pattern, bytes) and keeps_order(pattern.decode())
    return apply(call, _ORDERED if ordered else _PLAIN, args)


_PLAIN: Final = Function(_signature, _point, bad="unknown")
_ORDERED: Final = Function(_signature, _point, monotone=True, bad="unknown")
FUNCTIONS: Final = {
    "wall_format": Function(_signature, _point, bad="unknown", interval=_interval),
}
