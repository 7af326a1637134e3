"""What lowering sees: the bound predicate with tests of one scalar judged together.

`bind` keeps a predicate as it was written, for people and for literal guarantees. Here patterns are
split into their prefix, which prunes, and the whole.
"""

from __future__ import annotations

from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.functions.build import build
from skipstone.ir.like import pattern_of, quoted
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.session import Session
from skipstone.ir.simplify import TRUE

LOGIC: Final = (Op.AND, Op.OR, Op.NOT, Op.IS_TRUE, Op.IS_NULL)


def merge(n: Node) -> Node:
    """A bound predicate that has the same value on every row, and of which statistics say more."""
    if n.op in LOGIC and not (n.op is Op.IS_NULL and n.args[0].op in (Op.COLUMN, Op.CALL)):
        return Node(n.op, tuple(map(merge, n.args)), n.value, n.dtype)
    if n.op is Op.LIKE and not pattern_of(n).is_prefix:
        return _split(n)
    return n


def _split(n: Node) -> Node:
    """s LIKE 'a%b' is s LIKE 'a%' AND s LIKE 'a%b'. The first is a range; the second is computed where s is one value."""
    assert isinstance(n.value, str)
    subject, pattern = n.args
    prefix = pattern_of(n).prefix
    whole = Node(Op.EQ, (build("fits", (subject, pattern, literal(n.value.encode(), ty.STRING)), Session()), TRUE))
    if not prefix:
        return whole
    return Node(Op.AND, (Node(Op.LIKE, (subject, literal((quoted(prefix) + "%").encode(), ty.STRING)), "\\"), whole))
