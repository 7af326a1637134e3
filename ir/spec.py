"""The nodes that each stage accepts. A violation is a defect of Skipstone, not of the input."""

from __future__ import annotations

import operator
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.node import TERMS, Node, Op, Reason
from skipstone.ir.types import DType, Kind

COMPARISONS: Final = (Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ)
LEAVES: Final = (*COMPARISONS, Op.IN, Op.LIKE, Op.NAN, Op.DEFINED)
FLAGS: Final = (
    Op.MAY_HOLD_VALUE, Op.MAY_HOLD_NULL, Op.MAY_HOLD_NAN, Op.MAY_RAISE, Op.MAY_HOLD_ROWS,
    Op.MAY_CONTAIN, Op.MAY_CONTAIN_OTHER,
)  # fmt: skip

checks_programs = False  # tests set it


class SpecError(AssertionError):
    """A stage got a node that it does not accept."""


def check_bound(n: Node) -> Node:
    """Check a bound predicate (`ir/bind.py` lists its forms) and return it."""
    for node in _conditions(n):
        _require(_bound_ok(node), node, "bound predicate")
    return n


def check_program(root: Node) -> Node:
    """Check one root of a program and return it.

    Only tests check programs: it takes as long as lowering.
    """
    if not checks_programs:
        return root
    for node in root.walk():
        if node.op in (Op.AND, Op.OR):
            _require(
                len(node.args) > 1 and all(_is_condition(a) for a in node.args), node, "program"
            )
        elif node.op in FLAGS:
            _require(
                not node.args
                and (node.op is Op.MAY_HOLD_ROWS or isinstance(node.value, tuple | Node)),
                node,
                "program",
            )
        elif node.op in COMPARISONS:
            statistic, lit = node.args
            side = Op.MIN if node.op in (Op.LT, Op.LE) else Op.MAX
            _require(
                statistic.op is side and lit.op is Op.LITERAL and lit.dtype == statistic.dtype,
                node,
                "program",
            )
        elif node.op in (Op.ANY_IN, Op.NOT_ALL_IN):
            ok = [a.op for a in node.args] == [Op.MIN, Op.MAX] and isinstance(node.value, tuple)
            _require(ok and _ascends(node.value), node, "program")
        else:
            _require(node.op in (Op.MIN, Op.MAX, Op.LITERAL), node, "program")
    return root


def _ascends(values: object) -> bool:
    return isinstance(values, tuple) and all(map(operator.lt, values, values[1:]))


def _is_condition(n: Node) -> bool:
    return n.op in (Op.AND, Op.OR, Op.LITERAL, *FLAGS, *COMPARISONS, Op.ANY_IN, Op.NOT_ALL_IN)


def _conditions(n: Node) -> list[Node]:
    inner = n.args if n.op in (Op.AND, Op.OR, Op.NOT, Op.IS_TRUE) else ()
    if n.op is Op.IS_NULL and n.args and n.args[0].op not in TERMS:
        inner = n.args
    return [n, *(c for a in inner for c in _conditions(a))]


def _bound_ok(n: Node) -> bool:
    match n.op:
        case Op.LITERAL:
            return n.dtype == ty.BOOL and n.value in (0, 1, None)
        case Op.UNKNOWN:
            return not n.args and isinstance(n.value, Reason)
        case Op.AND | Op.OR:
            return len(n.args) > 1
        case Op.NOT | Op.IS_TRUE | Op.IS_NULL:
            return len(n.args) == 1
    if n.op not in LEAVES or not n.args:
        return False
    column = n.args[0]
    if (
        column.op not in TERMS
        or not isinstance(column.value, tuple)
        or not isinstance(column.dtype, DType)
    ):
        return False
    match n.op:
        case Op.DEFINED | Op.NAN:
            return len(n.args) == 1 and (n.op is Op.DEFINED or column.dtype.kind is Kind.FLOAT)
        case Op.IN:
            return column.dtype.ordered and isinstance(n.value, tuple) and len(n.value) > 1
    lit = n.args[1]
    fits = (
        lit.op is Op.LITERAL
        and lit.dtype == column.dtype
        and lit.value is not None
        and lit.value == lit.value
    )
    return fits and (n.op is not Op.LIKE or column.dtype == ty.STRING)


def _require(allowed: bool, n: Node, stage: str) -> None:
    if not allowed:
        raise SpecError(f"{n.op} is not allowed in a {stage}: {n!r:.300}")
