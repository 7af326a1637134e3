"""Rules that shrink a bound predicate without changing its outcome on any row, NULL included."""

from __future__ import annotations

import operator
from collections.abc import Callable

from skipstone.ir import types as ty
from skipstone.ir.node import Node, Op

TRUE = Node(Op.LITERAL, value=1, dtype=ty.BOOL)
FALSE = Node(Op.LITERAL, value=0, dtype=ty.BOOL)
NULL = Node(Op.LITERAL, value=None, dtype=ty.BOOL)


def flatten(n: Node) -> Node | None:
    """a AND (b AND c) -> a AND b AND c; OR likewise. Both are associative in three-valued logic."""
    if n.op not in (Op.AND, Op.OR) or not any(a.op is n.op for a in n.args):
        return None
    return Node(n.op, tuple(inner for a in n.args for inner in (a.args if a.op is n.op else (a,))))


def double_not(n: Node) -> Node | None:
    """NOT NOT p -> p. Safe for null: negation keeps null."""
    match n:
        case Node(Op.NOT, (Node(Op.NOT, (p,)),)):
            return p
    return None


def not_literal(n: Node) -> Node | None:
    """NOT TRUE -> FALSE, NOT FALSE -> TRUE, NOT NULL -> NULL."""
    match n:
        case Node(Op.NOT, (Node(Op.LITERAL, value=v),)):
            return NULL if v is None else FALSE if v else TRUE
    return None


def absorb_literals(n: Node) -> Node | None:
    """p AND FALSE -> FALSE, p AND TRUE -> p; OR mirrored.

    NULL stays: p AND NULL is FALSE where p is FALSE.
    """
    if n.op not in (Op.AND, Op.OR):
        return None
    neutral, final = (TRUE, FALSE) if n.op is Op.AND else (FALSE, TRUE)
    if final in n.args:
        return final
    rest = tuple(a for a in n.args if a != neutral)
    return None if len(rest) == len(n.args) else Node(n.op, rest)


def drop_repeats(n: Node) -> Node | None:
    """p AND p -> p, p OR p -> p. Predicates are deterministic."""
    if n.op not in (Op.AND, Op.OR) or len(rest := tuple(dict.fromkeys(n.args))) == len(n.args):
        return None
    return Node(n.op, rest)


def unwrap(n: Node) -> Node | None:
    """AND and OR of one input -> that input; of no input -> their neutral value."""
    if n.op not in (Op.AND, Op.OR) or len(n.args) > 1:
        return None
    return n.args[0] if n.args else TRUE if n.op is Op.AND else FALSE


def null_tests(n: Node) -> Node | None:
    """IS TRUE and IS NULL of a literal, or of a predicate that is never NULL -> a literal or p."""
    match n:
        case Node(Op.IS_TRUE, (Node(Op.LITERAL, value=v),)):
            return TRUE if v else FALSE
        case Node(Op.IS_NULL, (Node(Op.LITERAL, value=v),)):
            return TRUE if v is None else FALSE
        case Node(Op.IS_TRUE, (p,)) if _never_null(p):
            return p
        case Node(Op.IS_NULL, (p,)) if _never_null(p):
            return FALSE
        case Node(Op.IS_NULL, (Node(Op.NOT, (p,)),)):
            return Node(Op.IS_NULL, (p,))
    return None


def _never_null(n: Node) -> bool:
    return n.op in (Op.IS_NULL, Op.IS_TRUE) or (n.op is Op.NOT and _never_null(n.args[0]))


def equalities_to_in(n: Node) -> Node | None:
    """x = 1 OR x = 2 OR x IN (3) -> x IN (1, 2, 3): one test instead of many."""
    if n.op is not Op.OR:
        return None
    sets: dict[Node, list[Node]] = {}
    for a in n.args:
        if a.op in (Op.EQ, Op.IN):
            sets.setdefault(a.args[0], []).append(a)
    merged = {
        c: is_in(c, [v for a in tests for v in _members(a)])
        for c, tests in sets.items()
        if len(tests) > 1
    }
    if not merged:
        return None
    tests = (merged.get(a.args[0], a) if a.op in (Op.EQ, Op.IN) else a for a in n.args)
    return Node(Op.OR, tuple(dict.fromkeys(tests)))


def _members(n: Node) -> tuple[object, ...]:
    if n.op is Op.EQ:
        return (n.args[1].value,)
    assert isinstance(n.value, tuple)
    return n.value


SIMPLIFY: tuple[Callable[[Node], Node | None], ...] = (
    flatten, unwrap, double_not, not_literal, absorb_literals, drop_repeats, null_tests,
    equalities_to_in,
)  # fmt: skip


# The operations that rules rewrite, and those whose inputs they may rewrite.
LOGIC = frozenset({Op.AND, Op.OR, Op.NOT, Op.IS_NULL, Op.IS_TRUE, Op.BOTH})


def is_in(column: Node, values: list[object] | tuple[object, ...]) -> Node:
    """Return membership in a set of axis values, sorted and distinct; for one value, equality."""
    # Sorted first, because values usually arrive in order, and a set would scatter them.
    distinct = tuple(dict.fromkeys(sorted(values)))  # type: ignore[type-var]
    if len(distinct) == 1:
        return Node(Op.EQ, (column, Node(Op.LITERAL, value=distinct[0], dtype=column.dtype)))
    return Node(Op.IN, (column,), distinct, column.dtype)


def simplify(n: Node) -> Node:
    """Apply SIMPLIFY from the leaves up until nothing changes."""
    if n.op not in LOGIC:
        return n
    args = tuple(map(simplify, n.args))
    if any(map(operator.is_not, args, n.args)):
        n = Node(n.op, args, n.value, n.dtype)
    changed = True
    while changed:
        changed = False
        for rule in SIMPLIFY:
            if (new := rule(n)) is not None:
                n, changed = new, True
    return n
