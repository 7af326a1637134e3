"""Residuals, which a partition leaves of a predicate, and rows judged in plain Python."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from skipstone.ir.comparisons import COMPARE
from skipstone.ir.errors import limited_nesting
from skipstone.ir.like import fits, pattern_of
from skipstone.ir.node import TERMS, Node, Op, Path
from skipstone.ir.outcome import Outcome
from skipstone.ir.partitioning.projection import (
    IS_FALSE,
    IS_NULL,
    IS_TRUE,
    PartitionField,
    leaf_condition,
)
from skipstone.ir.session import CannotJudge
from skipstone.ir.simplify import FALSE, NULL, TRUE, simplify
from skipstone.ir.spec import LEAVES, check_bound

PROOFS: Final = ((IS_TRUE, TRUE), (IS_FALSE, FALSE), (IS_NULL, NULL))


def residual(
    bound: Node, fields: Sequence[PartitionField], partition: Mapping[str, object]
) -> Node:
    """Return a predicate that has the outcome of `bound` on every row of a partition.

    The outcome is TRUE, FALSE or NULL.

    Args:
        bound: A bound predicate over rows.
        fields: The partition spec under which the partition was written.
        partition: Its values by field name, on the axes of the transforms' result types; None is
            NULL. A missing field is unknown.

    Returns:
        A bound predicate. Leaves that the partition decides are replaced by their outcome. The
        other leaves, and tests of functions, stay unchanged.

    Raises:
        PredicateTooDeep: the nesting exceeds what Python can follow.
    Example:
        >>> from skipstone.ir.node import literal
        >>> from skipstone.ir.text import show
        >>> from skipstone.ir.partitioning.transforms import Transform
        >>> from skipstone.ir.types import DATE, INT32
        >>> d = Node(Op.COLUMN, value=("d",), dtype=DATE)
        >>> x = Node(Op.COLUMN, value=("x",), dtype=INT32)
        >>> since = Node(Op.GE, (d, literal(19358, DATE)))
        >>> seven = Node(Op.EQ, (x, literal(7, INT32)))
        >>> months = [PartitionField(("d",), Transform("month"), "d_month")]
        >>> p = Node(Op.AND, (since, seven))
        >>> [show(residual(p, months, {"d_month": m})) for m in (635, 636, 637)]
        ['false', 'x = 7', 'x = 7']
    """
    known_fields = tuple(f for f in fields if f.name in partition)
    row: dict[Path, object] = {(name,): value for name, value in partition.items()}
    with limited_nesting():
        return check_bound(simplify(_reduce(bound, known_fields, row)))


def _reduce(n: Node, fields: tuple[PartitionField, ...], row: Mapping[Path, object]) -> Node:
    if n.op in LEAVES or (n.op is Op.IS_NULL and n.args[0].op in TERMS):
        if n.args[0].op is Op.CALL:
            return n
        try:
            return next(
                (
                    proof
                    for wanted, proof in PROOFS
                    if outcome(leaf_condition(n, wanted, fields, True), row) is True
                ),
                n,
            )
        except CannotJudge:
            return n
    return Node(n.op, tuple(_reduce(a, fields, row) for a in n.args), n.value, n.dtype)


def outcome(n: Node, row: Mapping[Path, object]) -> Outcome:
    """Evaluate a bound predicate on one row, in plain Python.

    Args:
        n: A bound predicate on columns, without UNKNOWN and calls of functions.
        row: The values of its columns on their axes; None is NULL.

    Raises:
        CannotJudge: a pattern of LIKE is too long.
    """
    match n.op:
        case Op.LITERAL:
            return None if n.value is None else bool(n.value)
        case Op.NOT:
            inner = outcome(n.args[0], row)
            return None if inner is None else not inner
        case Op.AND | Op.OR:
            inputs = [outcome(a, row) for a in n.args]
            final = n.op is Op.OR
            return final if final in inputs else None if None in inputs else not final
        case Op.IS_TRUE:
            return outcome(n.args[0], row) is True
        case Op.IS_NULL if n.args[0].op not in TERMS:
            return outcome(n.args[0], row) is None
    value = row[n.args[0].value]  # type: ignore[index]
    if n.op is Op.IS_NULL:
        return value is None
    return None if value is None else _test(n, value)


def _test(n: Node, value: object) -> bool:
    nan = isinstance(value, float) and math.isnan(value)
    match n.op:
        case Op.DEFINED:
            return True
        case Op.NAN:
            return nan
        case Op.IN:
            return value in _set(n)
        case Op.LIKE:
            assert isinstance(value, bytes)
            return bool(fits(pattern_of(n), pa.array([value.decode()]))[0].as_py())
    if nan:  # greater than every literal
        return n.op in (Op.GT, Op.GE)
    return COMPARE[n.op](value, n.args[1].value)


@functools.lru_cache(maxsize=64)
def _set(n: Node) -> frozenset[object]:
    assert isinstance(n.value, tuple)
    return frozenset(n.value)
