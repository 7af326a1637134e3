"""Turn the domain of a key column into a condition on the column that it is compared with."""

from __future__ import annotations

from typing import Final

from skipstone.bindings.filters.domain import Domain
from skipstone.bindings.filters.keys import axis_of
from skipstone.bindings.predicates.expr import Expr
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.simplify import FALSE
from skipstone.ir.types import DType

NAN_VALUE: Final = float("nan")
MAX_SHOWN_RANGES: Final = 64  # with more ranges, a condition has only the first and the last end


def domain_condition(column: Expr, domain: Domain, dtype: DType) -> Expr | None:
    """Return the condition that a column has a value of a domain; None if any value does.

    Args:
        column: The column.
        domain: The domain.
        dtype: The type of the domain's keys.
    """
    if domain.kind == "all" or not dtype.ordered:
        return None
    condition = (
        _of_set(column, domain, dtype)
        if domain.kind == "set"
        else _of_ranges(column, domain, dtype)
    )
    if domain.null:
        return column.is_null() if condition is None else condition | column.is_null()
    return Expr(FALSE) if condition is None else condition


def _of_set(column: Expr, domain: Domain, dtype: DType) -> Expr | None:
    """Return `column IN (values)`; None for no value."""
    nan = [(dtype, NAN_VALUE)] if domain.nan else []
    members = (*((dtype, v) for v in axis_of(domain.firsts, dtype)), *nan)
    return Expr(Node(Op.IN, (column.node,), members)) if members else None


def _of_ranges(column: Expr, domain: Domain, dtype: DType) -> Expr | None:
    """Return the condition that the column lies in one of the ranges; None for no range."""
    ends = list(zip(axis_of(domain.firsts, dtype), axis_of(domain.lasts, dtype), strict=True))
    ends = ends if len(ends) <= MAX_SHOWN_RANGES else [(ends[0][0], ends[-1][1])]
    parts = []
    for a, b in ends:
        least = Node(Op.GE, (column.node, literal(a, dtype)))
        parts.append(Node(Op.AND, (least, Node(Op.LE, (column.node, literal(b, dtype))))))
    parts += [Node(Op.EQ, (column.node, literal(NAN_VALUE, dtype)))] if domain.nan else []
    if not parts:
        return None
    return Expr(parts[0] if len(parts) == 1 else Node(Op.OR, tuple(parts)))
