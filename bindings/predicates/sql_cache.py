"""Cache parses for texts that differ only in plain literals.

Plain numbers and strings next to an operator are cut out of a text, and each is replaced by a mark.
The tree that the parser makes of the rest is cached, and the literals replace their marks in it. A
tree is cached only if each mark became a literal, none is cast to its own type and no form is
UNKNOWN. Every other text is parsed unchanged, and so is a text with a word that makes the reader
look at the value of a literal.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from skipstone.bindings.predicates import sql_saved
from skipstone.bindings.predicates.sql_reader import Positions
from skipstone.bindings.predicates.sql_values import number_of
from skipstone.ir import types as ty
from skipstone.ir.errors import PredicateSyntaxError, PredicateTooDeep
from skipstone.ir.node import Node, Op, literal

FIRST_MARK: Final = 987_000_000
MAX_MARKS: Final = 1_000
_PREFIX: Final = str(FIRST_MARK)[:6]  # of all marks; a text that holds it is parsed as it is
# A quoted name; or a literal between an operator and the end of a test; or another string. A number
# with an exponent or a suffix is not a plain literal, nor is one that is cast.
_PLAIN: Final = re.compile(
    r"`[^`]*`"
    r"|(?:[=<>(,+-]|\b(?:AND|OR|BETWEEN|LIKE|ILIKE|RLIKE)\b)\s*"
    r"(?:(\d{1,38}(?:\.\d{1,38})?)|'([^']*)')(?=\s*[),]|\s+(?:AND|OR)\b|\s*\Z)"
    r"|(?:\bDATE\s*'(\d{4}-\d\d-\d\d)')"
    r"|(?:\bTIMESTAMP(?:_NTZ|_LTZ)?\s*"
    r"'(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?)')"
    r"|'[^']*'",
    re.IGNORECASE | re.ASCII,
)
# A mark in its quotes; and what looks like a literal.
_MARK: Final = re.compile(rf"'?\b{_PREFIX}\d+\b'?")
_LITERAL: Final = re.compile(r"['\"]|(?<!\w)\d")
# Comments, escapes, other quotes, and words that make the reader look at the value of a literal.
_UNSAFE: Final = re.compile(
    r"--|/\*|[\"\\\0]|\b(?:ANY|SOME|ALL|ESCAPE|INTERVAL)\b", re.IGNORECASE | re.ASCII
)
Parse = Callable[[str], tuple[Node, Positions]]


class _Cached(NamedTuple):
    node: Node
    positions: Positions


def parse_cached(text: str, parse: Parse) -> tuple[Node, Positions] | None:
    """Parse a text, or fill its literals into the cached tree of a text that differs only in them.

    Args:
        text: A condition.
        parse: Parses a text.

    Returns:
        The result of `parse(text)`; None if the caller has to call `parse` itself.
    """
    if _PREFIX in text or _UNSAFE.search(text):
        return None
    pieces: list[str] = []
    marks: list[Node] = []
    given: list[Node] = []
    longer: list[tuple[int, int]] = []  # for each mark where it begins, and what it lacks in length
    done = length = 0
    for found in _PLAIN.finditer(text):
        which = found.lastindex
        if which is None:
            continue
        value = _literal(found[which], is_number=which == 1)
        if value is None or len(marks) == MAX_MARKS:
            return None
        first, last = found.span(which)
        name = str(FIRST_MARK + len(marks))
        pieces += text[done:first], name
        length += first - done
        longer.append((length, last - first - len(name)))
        length += len(name)
        marks.append(_mark(name, which == 1))
        given.append(value)
        done = last
    marked = "".join([*pieces, text[done:]])
    if not marks and _LITERAL.search(marked):
        return None
    try:
        cached = _parse_marked(marked, tuple(marks), parse)
        if cached is None:
            return None
        node = _filled(cached.node, dict(zip(marks, given, strict=True)))
    except RecursionError:
        return None
    return node, {
        name: at + sum(more for begin, more in longer if begin < at)
        for name, at in cached.positions.items()
    }


@functools.lru_cache(maxsize=512)
def _parse_marked(text: str, marks: tuple[Node, ...], parse: Parse) -> _Cached | None:
    """Parse a text with marks; None if one of them is not a literal, or its type is in the tree."""
    saved = sql_saved.find(text)
    if saved is not None:
        return _Cached(*saved)
    try:
        node, positions = parse(text)
    except (PredicateSyntaxError, PredicateTooDeep):
        return None
    missing = set(marks)
    for n in node.walk():
        if n.op is Op.UNKNOWN:
            return None
        # The reader casts the number in -(5) to its own type; another number may have another type.
        if n.op is Op.CAST and n.args[0] in marks and n.dtype == n.args[0].dtype:
            return None
        if n.op is Op.LITERAL:
            missing.discard(n)
        elif n.op is Op.IN:
            missing.difference_update(Node(Op.LITERAL, (), v, t) for t, v in _members(n))
    if missing:
        return None
    if _LITERAL.search(_MARK.sub("", text)) is None:
        sql_saved.save(text, (node, positions))
    return _Cached(node, positions)


def _filled(n: Node, values: Mapping[Node, Node]) -> Node:
    """Return a tree with literals in the place of their marks."""
    if n.op is Op.LITERAL:
        return values.get(n, n)
    args, value = n.args, n.value
    if args:
        args = tuple([_filled(a, values) for a in args])
    if n.op is Op.IN:
        members = [Node(Op.LITERAL, (), v, t) for t, v in _members(n)]
        value = tuple([(m.dtype, m.value) for m in (values.get(m, m) for m in members)])
    elif args is n.args:
        return n
    return Node(n.op, args, value, n.dtype)


def _members(n: Node) -> tuple[tuple[ty.DType, object], ...]:
    assert isinstance(n.value, tuple)
    return n.value


@functools.lru_cache(maxsize=2 * MAX_MARKS)
def _mark(name: str, is_number: bool) -> Node:
    return literal(int(name), ty.INT32) if is_number else literal(name.encode(), ty.STRING)


def _literal(text: str, *, is_number: bool) -> Node | None:
    if is_number:
        return number_of(text)
    try:
        return literal(ty.to_axis(text, ty.STRING), ty.STRING)
    except ValueError:
        return None
