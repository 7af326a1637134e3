"""Merge the tests of one scalar before lowering.

`bind` keeps a predicate as it was written, for people and for literal guarantees. Here a pattern is
split into its prefix, which prunes, and the whole pattern. Tests of one scalar under AND, OR and
NOT become one set of values, so that `x > 3 AND x < 4` on integers is never TRUE.
"""

from __future__ import annotations

from skipstone.ir import ranges
from skipstone.ir import types as ty
from skipstone.ir.functions.build import build
from skipstone.ir.like import pattern_of, quoted
from skipstone.ir.node import TERMS, Node, Op, literal
from skipstone.ir.ranges import Piece
from skipstone.ir.session import Session
from skipstone.ir.simplify import TRUE, simplify

# The one scalar that a predicate tests, and the values that satisfy it.
Found = tuple[Node, Piece] | None


def merge(n: Node) -> Node:
    """Return a predicate that equals a bound one on every row, but that statistics decide more
    often.

    Besides the forms of bound predicates it may hold BOTH: two predicates that are equal on every
    row. Each bounds the outcomes in its own way, so only the outcomes that both allow are possible.
    """
    return simplify(_merge(n)[0])


def _merge(n: Node) -> tuple[Node, Found]:
    match n.op:
        case Op.LITERAL | Op.UNKNOWN:
            return n, None
        case Op.NOT:
            inner, found = _merge(n.args[0])
            return Node(n.op, (inner,)), found and (found[0], ranges.negated(found[1]))
        case Op.IS_TRUE:
            inner, found = _merge(n.args[0])
            return Node(n.op, (inner,)), found and (found[0], ranges.is_true(found[1]))
        case Op.IS_NULL if n.args[0].op not in TERMS:
            inner, found = _merge(n.args[0])
            return Node(n.op, (inner,)), found and (found[0], ranges.is_null(found[1]))
        case Op.AND | Op.OR:
            return _join(n)
        case Op.LIKE if not pattern_of(n).is_prefix:
            return _split(n), None
    piece = ranges.piece_of(n)
    return n, None if piece is None else (n.args[0], piece)


def _join(n: Node) -> tuple[Node, Found]:
    parts = [_merge(a) for a in n.args]
    groups: dict[Node, list[int]] = {}
    for i, (_, found) in enumerate(parts):
        if found is not None:
            groups.setdefault(found[0], []).append(i)
    out: dict[int, Node | None] = {i: p for i, (p, _) in enumerate(parts)}
    whole: Found = None
    for term, where in groups.items():
        pieces = [found[1] for i in where if (found := parts[i][1]) is not None]
        piece = ranges.joined(n.op, pieces)
        if len(piece.ranges) > ranges.MOST:
            continue
        if len(where) == len(parts):
            whole = (term, piece)
        if len(where) > 1:
            mine = tuple(parts[i][0] for i in where)
            out[where[0]] = _together(Node(n.op, mine), piece, term)
            out.update(dict.fromkeys(where[1:]))
    kept = tuple(p for p in out.values() if p is not None)
    return kept[0] if len(kept) == 1 else Node(n.op, kept), whole


def _together(n: Node, piece: Piece, term: Node) -> Node:
    """Combine several tests of one scalar: keep them, replace them by their set of values, or use
    both.
    """
    leaves = _leaves(n)
    lists = [leaf for leaf in leaves if leaf.op in (Op.EQ, Op.IN)]
    members = sum(len(leaf.value) if isinstance(leaf.value, tuple) else 1 for leaf in lists)
    merged = simplify(ranges.written(piece, term, members))
    plain = all(leaf.op in (Op.LT, Op.LE, Op.GT, Op.GE) for leaf in leaves)
    if merged == n or (plain and len(_leaves(merged)) == len(leaves)):
        return n
    # Providers and bloom filters may know more about the members of a list than bounds do.
    return (
        Node(Op.BOTH, (n, merged))
        if lists and term.op is Op.COLUMN and _lists(merged) != _lists(n)
        else merged
    )


def _leaves(n: Node) -> list[Node]:
    if n.op in (Op.AND, Op.OR, Op.NOT, Op.IS_TRUE, Op.BOTH) or (
        n.op is Op.IS_NULL and n.args[0].op not in TERMS
    ):
        return [leaf for a in n.args for leaf in _leaves(a)]
    return [n]


def _lists(n: Node) -> set[Node]:
    return {leaf for leaf in _leaves(n) if leaf.op in (Op.EQ, Op.IN)}


def _split(n: Node) -> Node:
    """Split s LIKE 'a%b' into s LIKE 'a%' AND s LIKE 'a%b'.

    The first is a range. The second is computed where s has a single value.
    """
    assert isinstance(n.value, str)
    subject, pattern = n.args
    prefix = pattern_of(n).prefix
    found = build("fits", (subject, pattern, literal(n.value.encode(), ty.STRING)), Session())
    whole = found if found.op is Op.UNKNOWN else Node(Op.EQ, (found, TRUE))
    if not prefix:
        return whole
    return Node(
        Op.AND,
        (
            Node(Op.LIKE, (subject, literal((quoted(prefix) + "%").encode(), ty.STRING)), "\\"),
            whole,
        ),
    )
