"""Times as text and text as times, by patterns of years, months, days and clocks.

Source: Spark 4, `DateTimeFormatterHelper`; Java, `DateTimeFormatterBuilder.appendPattern`; seen in
4.3.
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.function import (
    VALUE_UNKNOWN,
    Call,
    Function,
    Signature,
    check_arity,
    fixed,
    only_value,
    text_literal,
)
from skipstone.ir.functions.dates import HOUR, SECOND, month_start, months
from skipstone.ir.interval import Interval, apply
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import FIRST_DATE, LAST_DATE
from skipstone.ir.values import Data
from skipstone.ir.zones import DAY

Part = tuple[str, int]  # a letter and its number, or a literal text and 0
# The letters of a pattern, from the longest unit to the shortest, and the most of each in a row.
LETTERS: Final = {"y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2, "S": 9}
DAYS_IN_FULL: Final = np.array(
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"], object
)
MONTHS_IN_FULL: Final = np.array(
    [b"January", b"February", b"March", b"April", b"May", b"June", b"July", b"August",
     b"September", b"October", b"November", b"December"], object,
)  # fmt: skip
DAY_NAMES: Final = np.array([name[:3] for name in DAYS_IN_FULL], object)
MONTH_NAMES: Final = np.array([name[:3] for name in MONTHS_IN_FULL], object)
# The parts of patterns that are names, in English.
NAMES: Final[dict[Part, Data]] = {
    ("M", 3): MONTH_NAMES,
    ("M", 4): MONTHS_IN_FULL,
    **dict.fromkeys([("E", 1), ("E", 2), ("E", 3)], DAY_NAMES),
    ("E", 4): DAYS_IN_FULL,
}
_QUOTED: Final = re.compile("'((?:[^']|'')*)'")


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
        if (c in LETTERS and run <= LETTERS[c]) or (c, run) in NAMES:
            out.append((c, run))
        elif (c.isascii() and c.isalpha()) or c in "[]{}#":
            raise CannotJudge(
                f"{c * run!r} in the pattern {pattern!r} is not understood; "
                "expected yyyy, MM, MMM, dd, E, HH, mm, ss, S and literal text"
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
    if part in NAMES:
        at = months(days) % 12 if letter == "M" else (days + 3) % 7
        return [name.decode() for name in NAMES[part].take(at).tolist()]
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
    beyond = (clocks < FIRST_DATE * DAY) | (clocks >= (LAST_DATE + 1) * DAY)
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


# Reading times.


class Layout(NamedTuple):
    """The positions of a pattern's parts in the texts that it reads, in bytes.

    Attributes:
        size: The length of a text.
        units: Letter -> the start and the stop of its digits.
        literals: The position and the value of each other byte.
        has_letters: True if one of these bytes is a letter.
        ordered: True if later texts are never earlier times.
    """

    size: int
    units: dict[str, tuple[int, int]]
    literals: tuple[tuple[int, int], ...]
    has_letters: bool
    ordered: bool


@functools.lru_cache(maxsize=256)
def layout_of(pattern: str) -> Layout:
    """Return where the parts of a pattern lie in the texts that Spark reads by it.

    Raises:
        CannotJudge: the texts have no fixed number of bytes, or have none, or units are missing.

    Example:
        >>> layout_of("yyyy-MM").size, layout_of("yyyy-MM").units
        (7, {'y': (0, 4), 'M': (5, 7)})
    """
    at, units, literals = 0, dict[str, tuple[int, int]](), []
    for part, size in parts_of(pattern):
        if size and (size != READ.get(part) or part in units):
            raise CannotJudge(
                f"{part * size!r} in the pattern {pattern!r} is not understood where text is read; "
                "expected yyyy, MM, dd, HH, mm, ss and literal text"
            )
        if size:
            units[part] = at, at + size
        elif not part.isascii():
            raise CannotJudge(f"{part!r} in the pattern {pattern!r} is not ASCII")
        else:
            literals += list(enumerate(part.encode(), at))
        at += size or len(part)
    if not at:
        raise CannotJudge("the pattern is empty")
    if units and sorted(units, key="yMdHms".index) != list("yMdHms"[: len(units)]):
        raise CannotJudge(f"the pattern {pattern!r} lacks a unit: expected yyyy, then MM, dd, ...")
    # Java reads the letters of literal text in either case.
    has_letters = any(chr(byte).isalpha() for _, byte in literals)
    ordered = not has_letters and bool(units) and keeps_order(pattern)
    return Layout(at, units, tuple(literals), has_letters, ordered)


def _parse_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    layout_of(text_literal(args[1]))
    return (ty.STRING, ty.STRING), ty.TIMESTAMP_NTZ


def _parse(call: Call, texts: Data, pattern: Data) -> Any:
    layout = layout_of(only_value(pattern).decode())
    rows = texts.tolist()
    fits = np.array([len(raw) == layout.size for raw in rows], np.bool_)
    clocks, bad = np.zeros(len(rows), np.int64), np.ones(len(rows), np.uint8)
    found = b"".join(raw for raw in rows if len(raw) == layout.size)
    clocks[fits], bad[fits] = _read(layout, np.frombuffer(found, np.uint8))
    if "y" in layout.units:  # Java reads longer years, and years before 1, after a sign
        at = layout.units["y"][0]
        bad[[raw[at : at + 1] in (b"+", b"-") for raw in rows]] = VALUE_UNKNOWN
    if layout.has_letters:  # some letters beyond ASCII have an ASCII letter as their other case
        bad[[not raw.isascii() for raw in rows]] = VALUE_UNKNOWN
    return clocks, bad


def _parse_column(call: Call, texts: Any, pattern: Any) -> Any:
    layout = layout_of(pattern.decode())
    if not isinstance(texts, pa.Array) or texts.null_count or not len(texts):
        return None
    sizes = pc.binary_length(texts)
    if pc.min(sizes).as_py() != layout.size or pc.max(sizes).as_py() != layout.size:
        return None
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    first = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset]
    clocks, bad = _read(layout, data[first : first + layout.size * len(texts)])
    return None if bad.any() else clocks


def _read(layout: Layout, data: npt.NDArray[np.uint8]) -> tuple[Data, Data]:
    """Return the clocks of consecutive texts of the layout's size, and a mask of the bad ones.

    Source: Java, `DateTimeFormatter` with the strict resolver; Spark, `TimestampFormatter`.
    """
    bytes_ = data.reshape(-1, layout.size).astype(np.int64)
    bad, values = np.zeros(len(bytes_), np.bool_), {"y": 1970, "M": 1, "d": 1, "H": 0}
    other_case_used = np.zeros(len(bytes_), np.bool_)
    for at, byte in layout.literals:
        differs = bytes_[:, at] != byte
        if chr(byte).isalpha():
            other_case = (bytes_[:, at] | 32) == (byte | 32)
            other_case_used |= differs & other_case
            differs &= ~other_case
        bad |= differs
    numbers: dict[str, Any] = {**values, "m": 0, "s": 0}
    for letter, (start, stop) in layout.units.items():
        digits = bytes_[:, start:stop] - ord("0")
        bad |= ((digits < 0) | (digits > 9)).any(axis=1)
        numbers[letter] = digits @ 10 ** np.arange(stop - start)[::-1]
    year, month, day = (np.broadcast_to(numbers[c], len(bytes_)) for c in "yMd")
    hour, minute, second = (numbers[c] for c in "Hms")
    bad |= (month < 1) | (month > 12) | (hour > 23) | (minute > 59) | (second > 59)
    first = month_start((np.where(bad, 1970, year) - 1970) * 12 + np.where(bad, 1, month) - 1)
    length = month_start(months(first) + 1) - first
    bad |= (day < 1) | (day > length)
    clocks = (first + day - 1) * DAY + hour * HOUR + minute * 60 * SECOND + second * SECOND
    uncertain = ~bad & (other_case_used | (year == 0))
    return np.where(bad, 0, clocks), np.where(uncertain, VALUE_UNKNOWN, bad).astype(np.uint8)


def _parsed(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of times that texts of a container are read as.

    Between two texts that are read, all others that are read lie between them; some may not be.
    """
    texts, pattern = args
    ordered = isinstance(pattern.low[0], bytes) and layout_of(pattern.low[0].decode()).ordered
    read = Function(_parse_signature, _parse, monotone=ordered, bad=FUNCTIONS[call.name].bad)
    found = apply(call, read, args)
    others = found.may_hold_value & ~texts.single
    if read.policy(call) == "null":
        return replace(found, may_hold_null=found.may_hold_null | others)
    return replace(found, may_raise=found.may_raise | others)


READ: Final = {letter: size for letter, size in LETTERS.items() if letter != "S"}
_PLAIN: Final = Function(_signature, _point, bad="unknown")
_ORDERED: Final = Function(_signature, _point, monotone=True, bad="unknown")
FUNCTIONS: Final[dict[str, Function]] = {
    "dayname": Function(
        fixed(ty.DATE, returns=ty.STRING), lambda call, a: DAY_NAMES.take((a + 3) % 7)
    ),
    "monthname": Function(
        fixed(ty.DATE, returns=ty.STRING), lambda call, a: MONTH_NAMES.take(months(a) % 12)
    ),
    "wall_format": Function(_signature, _point, bad="unknown", interval=_interval),
    "read_time": Function(
        _parse_signature,
        _parse,
        bad=lambda call: "raise" if call.session.ansi else "null",
        interval=_parsed,
        column=_parse_column,
    ),
    "try_read_time": Function(
        _parse_signature, _parse, bad="null", interval=_parsed, column=_parse_column
    ),
}
