"""Compare rows of values, such as `(a, b) IN ((1, 2))`, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from skipstone.ir.coercion.char import PLAIN, is_char
from skipstone.ir.comparisons import is_null
from skipstone.ir.node import Name, Node, Op, Path, is_tuple, unknown
from skipstone.ir.simplify import FALSE, NULL
from skipstone.ir.text import show
from skipstone.ir.types import Kind, Leaf

Scalar: TypeAlias = Callable[[Node], Node]
Compare: TypeAlias = Callable[[Op, Node, Node], Node]


def compare_rows(
    op: Op, a: Node, b: Node, leaves: Mapping[Path, Leaf], scalar: Scalar, compare: Compare
) -> Node:
    """Return the comparison of two unbound rows of values, of which one may be a column of structs.

    Inside of rows, NULL equals NULL and is less than any value, as in fields of structs in Spark; a
    comparison with a NULL struct is NULL. Fields of different kinds are not compared, because Spark
    casts them to the common type of all rows of an IN; nor are floats, because NaN equals NaN in
    some of Spark's plans and not in others (4.3).

    Args:
        op: A comparison other than NE.
        a, b: The rows.
        leaves: The schema's columns.
        scalar: Binds a scalar.
        compare: Binds a comparison.
    """
    what = show(Node(op, (a, b)))
    xs, ys = (_fields(n, leaves, scalar) for n in (a, b))
    if not xs or len(xs) != len(ys):
        return unknown(what, "expected two rows with the same number of values")
    for pair in zip(xs, ys, strict=True):
        x, y = map(scalar, pair)
        for one in (x, y):
            if one.op is Op.UNKNOWN:
                return one
        kinds = {one.dtype.kind for one in (x, y) if one.dtype is not None} - {Kind.NULL}
        if len(kinds) > 1 or kinds & {Kind.FLOAT, Kind.OTHER} or is_char(x) or is_char(y):
            return unknown(what, "rows of these types are not compared")
    if op in (Op.GT, Op.LE):
        xs, ys = ys, xs
    if op in (Op.EQ, Op.NULL_SAFE_EQ):
        found = _all(tuple(compare(Op.NULL_SAFE_EQ, x, y) for x, y in zip(xs, ys, strict=True)))
    else:
        found = _less(xs, ys, scalar, compare)
    if op in (Op.LE, Op.GE):
        found = Node(Op.NOT, (found,))
    nulls = tuple(is_null(scalar(n)) for n in (a, b) if not is_tuple(n))
    if not nulls:
        return found
    otherwise = FALSE if op is Op.NULL_SAFE_EQ else Node(Op.AND, (*nulls, NULL))
    return Node(Op.OR, (otherwise, Node(Op.AND, (Node(Op.NOT, nulls), found))))


def _fields(n: Node, leaves: Mapping[Path, Leaf], scalar: Scalar) -> tuple[Node, ...]:
    """Return the unbound fields of a row of values, or of a column of structs; () for others."""
    if is_tuple(n):
        return n.args
    if n.op is Op.CALL and n.value == PLAIN:
        return _fields(n.args[0], leaves, scalar)
    path = scalar(n).value if n.op is Op.COLUMN else None
    if not isinstance(path, tuple):
        return ()
    below = [p for p in leaves if len(p) == len(path) + 1 and p[:-1] == path]
    return tuple(Node(Op.COLUMN, value=Name(p)) for p in below)


def _less(xs: tuple[Node, ...], ys: tuple[Node, ...], scalar: Scalar, compare: Compare) -> Node:
    """Return the condition that a row comes before another: TRUE or FALSE."""
    (x, *more), (y, *others) = xs, ys
    null, value = is_null(scalar(x)), Node(Op.NOT, (is_null(scalar(y)),))
    before = Node(Op.OR, (Node(Op.AND, (null, value)), Node(Op.IS_TRUE, (compare(Op.LT, x, y),))))
    if not more:
        return before
    rest = _less(tuple(more), tuple(others), scalar, compare)
    return Node(Op.OR, (before, Node(Op.AND, (compare(Op.NULL_SAFE_EQ, x, y), rest))))


def _all(tests: tuple[Node, ...]) -> Node:
    return Node(Op.AND, tests) if len(tests) > 1 else tests[0]
