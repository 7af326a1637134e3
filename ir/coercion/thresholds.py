"""Tests of one column against a threshold.

A test that all or no values pass becomes a test for NULL.
"""

from __future__ import annotations

from skipstone.ir.coercion.pullback import Span
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.types import Kind


def against_span(op: Op, column: Node, span: Span) -> Node:
    """Compare a column with a literal that lies at `span`.

    x < v  means x < low,  since no column value lies in [v, low);   x >= v is its negation.
    x <= v means x <= high, since none lies in (high, v];            x > v is its negation.
    If all or no values pass, only the difference from NULL remains.
    """
    dtype = column.dtype
    assert dtype
    edges = dtype.discrete or dtype.coded  # floats have NaN beyond their highest value
    match op:
        case Op.LT if span.low is None:
            return Node(Op.DEFINED, (column,))
        case Op.LT if edges and span.low == dtype.lowest:
            return never(column)
        case Op.LT:
            return Node(op, (column, literal(span.low, dtype)))
        case Op.LE if span.high is None:
            return never(column)
        case Op.LE if edges and span.high == dtype.highest:
            return Node(Op.DEFINED, (column,))
        case Op.LE:
            return Node(op, (column, literal(span.high, dtype)))
        case Op.GT:
            return _mirror(Op.GT, against_span(Op.LE, column, span))
        case Op.GE:
            return _mirror(Op.GE, against_span(Op.LT, column, span))
    if span.low is None or span.high is None or span.low > span.high:  # type: ignore[operator]
        return never(column)
    if span.low == span.high:
        return Node(Op.EQ, (column, literal(span.low, dtype)))
    return Node(Op.AND, (against_span(Op.GE, column, span), against_span(Op.LE, column, span)))


def _mirror(op: Op, test: Node) -> Node:
    match test:
        case Node(Op.LT | Op.LE, args):
            return Node(op, args)
        case Node(Op.NOT, (p,)):
            return p
    return Node(Op.NOT, (test,))


def against_nan(op: Op, column: Node) -> Node:
    """Compare a column with NaN.

    Spark orders NaN above every number and considers it equal to itself.
    """
    defined, none = Node(Op.DEFINED, (column,)), never(column)
    is_nan = Node(Op.NAN, (column,)) if column.dtype and column.dtype.kind is Kind.FLOAT else none
    not_nan = defined if is_nan is none else Node(Op.NOT, (is_nan,))
    return {Op.LT: not_nan, Op.LE: defined, Op.GT: none, Op.GE: is_nan, Op.EQ: is_nan}[op]


def never(column: Node) -> Node:
    """Return a condition that is FALSE, or NULL where the column is NULL."""
    return Node(Op.NOT, (Node(Op.DEFINED, (column,)),))
