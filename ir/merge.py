"""Merge the tests of one scalar before lowering.

`bind` keeps a predicate as it was written, for display and for literal guarantees. Here a pattern
is split into its prefix, which prunes, and the whole pattern. Tests of one scalar under AND, OR and
NOT become one set of values, so that `x > 3 AND x < 4` on integers is never TRUE.
"""

from __future__ import annotations

from skipstone.ir import ranges
from skipstone.ir import types as ty
from skipstone.ir.functions.build import build
from skipstone.ir.like import pattern_of, quoted
from skipstone.ir.node import TERMS, Node, Op, literal
from skipstone.ir.ranges import ValueSet
from skipstone.ir.session import Session
from skipstone.ir.simplify import TRUE, simplify

# The one scalar that a predicate tests, and the values that satisfy it.
Tested = tuple[Node, ValueSet] | None


def merge(n: Node) -> Node:
    """Return a predicate that equals a bound one on every row, but prunes more.

    Besides the forms of bound predicates it may hold BOTH: two predicates that are equal on every
    row. Each bounds the outcomes in its own way, so only the outcomes that both allow are possible.
    """
    return simplify(_merge(n)[0])


def scalar_and_values(n: Node) -> Tested:
    """Return the scalar that a predicate tests, and the values that satisfy it.

    None if the predicate does not test exactly one scalar.
    """
    return _merge(n)[1]


def _merge(n: Node) -> tuple[Node, Tested]:
    match n.op:
        case Op.LITERAL | Op.UNKNOWN:
            return n, None
        case Op.NOT:
            inner, tested = _merge(n.args[0])
            return Node(n.op, (inner,)), tested and (tested[0], ranges.negated(tested[1]))
        case Op.IS_TRUE:
            inner, tested = _merge(n.args[0])
            return Node(n.op, (inner,)), tested and (tested[0], ranges.is_true(tested[1]))
        case Op.IS_NULL if n.args[0].op not in TERMS:
            inner, tested = _merge(n.args[0])
            return Node(n.op, (inner,)), tested and (tested[0], ranges.is_null(tested[1]))
        case Op.AND | Op.OR:
            return _join(n)
        case Op.LIKE if not pattern_of(n).is_prefix:
            return _split_like(n), None
    values = ranges.value_set_of(n)
    return n, None if values is None else (n.args[0], values)


def _join(n: Node) -> tuple[Node, Tested]:
    parts = [_merge(a) for a in n.args]
    groups: dict[Node, list[int]] = {}
    for i, (_, tested) in enumerate(parts):
        if tested is not None:
            groups.setdefault(tested[0], []).append(i)
    out: dict[int, Node | None] = {i: p for i, (p, _) in enumerate(parts)}
    whole: Tested = None
    for term, positions in groups.items():
        sets = [tested[1] for i in positions if (tested := parts[i][1]) is not None]
        values = ranges.combined(n.op, sets)
        if len(values.ranges) > ranges.MAX_RANGES:
            continue
        if len(positions) == len(parts):
            whole = (term, values)
        if len(positions) > 1:
            group = tuple(parts[i][0] for i in positions)
            out[positions[0]] = _merge_group(Node(n.op, group), values, term)
            out.update(dict.fromkeys(positions[1:]))
    remaining = tuple(p for p in out.values() if p is not None)
    return remaining[0] if len(remaining) == 1 else Node(n.op, remaining), whole


def _merge_group(n: Node, values: ValueSet, term: Node) -> Node:
    """Combine several tests of one scalar.

    The result is the tests, the set of values that satisfies them, or both.
    """
    leaves = _leaves(n)
    lists = [leaf for leaf in leaves if leaf.op in (Op.EQ, Op.IN)]
    members = sum(len(leaf.value) if isinstance(leaf.value, tuple) else 1 for leaf in lists)
    merged = simplify(ranges.as_tests(values, term, members))
    plain = all(leaf.op in (Op.LT, Op.LE, Op.GT, Op.GE) for leaf in leaves)
    if merged == n or (plain and len(_leaves(merged)) == len(leaves)):
        return n
    # Providers and bloom filters may know more about the members of a list than bounds do.
    if lists and term.op is Op.COLUMN and _lists(merged) != _lists(n):
        return Node(Op.BOTH, (n, merged))
    return merged


def _leaves(n: Node) -> list[Node]:
    if n.op in (Op.AND, Op.OR, Op.NOT, Op.IS_TRUE, Op.BOTH) or (
        n.op is Op.IS_NULL and n.args[0].op not in TERMS
    ):
        return [leaf for a in n.args for leaf in _leaves(a)]
    return [n]


def _lists(n: Node) -> set[Node]:
    return {leaf for leaf in _leaves(n) if leaf.op in (Op.EQ, Op.IN)}


def _split_like(n: Node) -> Node:
    """Split s LIKE 'a%b' into s LIKE 'a%' AND s LIKE 'a%b'.

    The first is a range. The second is computed where s has a single value.
    """
    assert isinstance(n.value, str)
    subject, pattern = n.args
    prefix = pattern_of(n).prefix
    matches = build("fits", (subject, pattern, literal(n.value.encode(), ty.STRING)), Session())
    whole = matches if matches.op is Op.UNKNOWN else Node(Op.EQ, (matches, TRUE))
    if not prefix:
        return whole
    return Node(
        Op.AND,
        (
            Node(Op.LIKE, (subject, literal((quoted(prefix) + "%").encode(), ty.STRING)), "\\"),
            whole,
        ),
    )
