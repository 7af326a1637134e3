"""Compare rows of values, such as `(a, b) IN ((1, 2))`, field by field."""

from __future__ import annotations

from collections.abc import Callable

from skipstone.ir.coercion.char import is_char
from skipstone.ir.node import Node, Op, is_tuple, unknown
from skipstone.ir.text import show
from skipstone.ir.types import Kind

Compare = Callable[[Op, Node, Node], Node]


def equal_tuples(a: Node, b: Node, scalar: Callable[[Node], Node], compare: Compare) -> Node:
    """Return the condition that two unbound rows of values are equal: TRUE or FALSE.

    NULL equals NULL there, as fields of structs do in Spark. Fields of different kinds are not
    compared, because Spark casts them to the common type of all rows of an IN; nor are floats,
    because NaN equals NaN in some of Spark's plans and not in others (4.3).
    """
    if not (is_tuple(a) and is_tuple(b) and len(a.args) == len(b.args)):
        return unknown(f"{show(a)} = {show(b)}", "expected two rows with the same number of values")
    for pair in zip(a.args, b.args, strict=True):
        x, y = map(scalar, pair)
        for one in (x, y):
            if one.op is Op.UNKNOWN:
                return one
        kinds = {one.dtype.kind for one in (x, y) if one.dtype is not None} - {Kind.NULL}
        if len(kinds) > 1 or kinds & {Kind.FLOAT, Kind.OTHER} or is_char(x) or is_char(y):
            return unknown(f"{show(a)} = {show(b)}", "rows of these types are not compared")
    tests = [compare(Op.NULL_SAFE_EQ, x, y) for x, y in zip(a.args, b.args, strict=True)]
    return Node(Op.AND, tuple(tests)) if len(tests) > 1 else tests[0]
