"""Long IN lists of SQL text, which are read in bulk.

sqlglot takes 25 us for each member of a list. So a long list of plain numbers, or of plain strings,
is cut out of the text before the parser sees it, and two marks take its place. Afterwards each pair
of marks must be the whole list of one IN. If it is anything else, such as part of a string, the
whole text is parsed unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from skipstone.ir import types as ty
from skipstone.ir.node import Node, Op
from skipstone.ir.types import DType

MIN_MEMBERS: Final = 64  # shorter lists are left to sqlglot
# Numbers that are INT or BIGINT by their size alone, and strings without quotes and escapes.
_NUMBER, _STRING = r"(?:\d{1,18}|-\d{1,9})", r"'[^'\\]*'"
_LISTS: Final = re.compile(
    "|".join(
        rf"(?<=[\s)`\w])[iI][nN]\s*\(\s*({one}(?:\s*,\s*{one}){{{MIN_MEMBERS - 1},}})\s*\)"
        for one in (_NUMBER, _STRING)
    ),
    re.ASCII,
)
MAX_INT: Final = 2**31 - 1
Member = tuple[DType, object]


class Cut(NamedTuple):
    """A text without its long lists.

    Attributes:
        text: The text, with two marks in the place of each list.
        lists: The lists by their marks.
        moved: Where each list ends in `text`, and by how many characters it was longer.
    """

    text: str
    lists: dict[tuple[Member, ...], tuple[Member, ...]]
    moved: list[tuple[int, int]]

    def original_position(self, at: int) -> int:
        """Return where a position in `text` lies in the original text."""
        return at + sum(longer for end, longer in self.moved if end <= at)


def cut_lists(text: str) -> Cut | None:
    """Cut long lists out of a text; None if it has none.

    Example:
        >>> cut = cut_lists(f"x IN ({', '.join(map(str, range(100)))}) AND y")
        >>> cut.text
        'x IN (900000001, 900000002) AND y'
        >>> cut.text[cut.original_position(-1)]
        'y'
    """
    if len(text) < 2 * MIN_MEMBERS:
        return None
    out, lists, moved, done = [], dict[tuple[Member, ...], tuple[Member, ...]](), [], 0
    marks = _unused_numbers(text)
    length = 0
    for found in _LISTS.finditer(text):
        members = _numbers(found[1]) if found[1] else _strings(found[2])
        if members is None:
            continue
        first, last = found.span(1 if found[1] else 2)
        pair = next(marks), next(marks)
        mark = f"{pair[0]}, {pair[1]}"
        out += [text[done:first], mark]
        length += first - done + len(mark)
        moved.append((length, last - first - len(mark)))
        lists[tuple((ty.INT32, n) for n in pair)] = members
        done = last
    if not lists:
        return None
    return Cut("".join([*out, text[done:]]), lists, moved)


def put_back(node: Node, cut: Cut) -> Node | None:
    """Put lists in the place of their marks; None if one is not the list of exactly one IN.

    Args:
        node: The tree that the parser made of `cut.text`.
        cut: The text and its lists.
    """
    missing = dict(cut.lists)
    marks = {value for pair in cut.lists for _, value in pair}

    def replaced(n: Node) -> Node:
        if n.op is Op.IN and len(n.args) == 1 and isinstance(n.value, tuple) and n.value in missing:
            return Node(n.op, tuple(map(replaced, n.args)), missing.pop(n.value), n.dtype)
        args = tuple(map(replaced, n.args))
        return n if args == n.args else Node(n.op, args, n.value, n.dtype)

    out = replaced(node)
    is_clean = not any(n.op is Op.LITERAL and n.value in marks for n in out.walk())
    return out if not missing and is_clean else None


def _unused_numbers(text: str) -> Iterator[int]:
    """Yield numbers that the text does not hold."""
    number = 900_000_000
    while True:
        number += 1
        if str(number) not in text:
            yield number


def _numbers(text: str) -> tuple[Member, ...]:
    values = map(int, text.split(","))
    return tuple([(ty.INT32 if v <= MAX_INT else ty.INT64, v) for v in values])


def _strings(text: str) -> tuple[Member, ...] | None:
    try:
        values = [v.encode() for v in re.findall(_STRING, text)]
    except UnicodeEncodeError:
        return None
    return tuple([(ty.STRING, v[1:-1]) for v in values])
