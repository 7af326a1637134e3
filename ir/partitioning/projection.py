"""Projection: turn a predicate over rows into one over their partitions.

The values of a partition restrict the outcomes that a predicate can have on its rows. An inclusive
projection selects the partitions that may hold a row on which it is TRUE. A strict projection
selects those in which it is TRUE on every row; a NULL row is not TRUE. Both walk the tree with a
set of outcomes. Each rule holds both for "may be in the set" and for "always is", so only leaves
know the mode:

    AND is TRUE:      all inputs are               AND is FALSE:     one input is
    AND is not TRUE:  one input is not TRUE        AND is not FALSE: no input is FALSE
    AND is NULL:      no input is FALSE, and one is NULL
    AND is not NULL:  no input is NULL, or one is FALSE

OR is the mirror image. The result holds no NOT above a leaf, so an inner NULL never becomes TRUE.

Source: Iceberg, Projections. Its logic has two values; Spark SQL, which decides here, has three.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from skipstone.ir.errors import limited_nesting
from skipstone.ir.node import TERMS, Node, Op, Path
from skipstone.ir.outcome import Outcome
from skipstone.ir.partitioning.cells import may_have_outcome, negated
from skipstone.ir.partitioning.transforms import Transform
from skipstone.ir.simplify import FALSE, TRUE, simplify
from skipstone.ir.spec import check_bound

Outcomes = frozenset[Outcome]
Mode = Literal["inclusive", "strict"]

IS_TRUE: Final[Outcomes] = frozenset({True})
IS_FALSE: Final[Outcomes] = frozenset({False})
IS_NULL: Final[Outcomes] = frozenset({None})
NOT_TRUE: Final[Outcomes] = frozenset({False, None})
NOT_FALSE: Final[Outcomes] = frozenset({True, None})
NOT_NULL: Final[Outcomes] = frozenset({True, False})


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec: source column, transform, and name of its values."""

    source: Path
    transform: Transform
    name: str


def project(bound: Node, fields: Sequence[PartitionField], mode: Mode = "inclusive") -> Node:
    """Project a bound predicate onto partition values.

    Args:
        bound: A bound predicate over rows.
        fields: The partition spec under which the partitions were written, over columns of the
            types they had then. A column may have several fields.
        mode: "inclusive": TRUE wherever `bound` may be TRUE on a row of the partition. "strict":
            TRUE only where it is TRUE on every row of the partition.

    Returns:
        A bound predicate. Its columns have one-part paths, the names of fields, and the result
        types of the transforms. Only TRUE counts: elsewhere it may be FALSE or NULL.

    Raises:
        PredicateTooDeep: the nesting exceeds what Python can follow.
    Example:
        >>> from skipstone.ir.node import literal
        >>> from skipstone.ir.text import show
        >>> from skipstone.ir.types import DATE
        >>> d = Node(Op.COLUMN, value=("d",), dtype=DATE)
        >>> months = [PartitionField(("d",), Transform("month"), "d_month")]
        >>> p = Node(Op.LT, (d, literal(19358, DATE)))  # 2023-01-01
        >>> show(project(p, months)), show(project(p, months, "strict"))
        ('d_month <= 635', 'd_month < 636')
    """
    leaf = functools.partial(leaf_condition, fields=tuple(fields), strict=mode == "strict")
    with limited_nesting():
        return check_bound(simplify(_walk(bound, IS_TRUE, leaf)))


Leaf = Callable[[Node, Outcomes], Node]


def _walk(n: Node, wanted: Outcomes, leaf: Leaf) -> Node:
    """Return a condition under which the outcome of a predicate is among the wanted ones."""
    if not wanted or len(wanted) == 3:
        return TRUE if wanted else FALSE
    match n.op:
        case Op.LITERAL:
            return TRUE if (None if n.value is None else bool(n.value)) in wanted else FALSE
        case Op.NOT:
            return _walk(n.args[0], _swapped(wanted), leaf)
        case Op.IS_TRUE:
            return _walk(n.args[0], _input_outcomes(wanted, IS_TRUE, NOT_TRUE), leaf)
        case Op.IS_NULL if n.args[0].op not in TERMS:
            return _walk(n.args[0], _input_outcomes(wanted, IS_NULL, NOT_NULL), leaf)
        case Op.AND:
            return _conjunction(wanted, lambda of: [_walk(a, of, leaf) for a in n.args])
        case Op.OR:
            return _conjunction(
                _swapped(wanted), lambda of: [_walk(a, _swapped(of), leaf) for a in n.args]
            )
    return leaf(n, wanted)


def _conjunction(wanted: Outcomes, inputs: Callable[[Outcomes], list[Node]]) -> Node:
    if wanted in (IS_TRUE, NOT_FALSE):
        return Node(Op.AND, tuple(inputs(wanted)))
    if wanted in (IS_FALSE, NOT_TRUE):
        return Node(Op.OR, tuple(inputs(wanted)))
    if wanted == IS_NULL:
        return Node(Op.AND, (*inputs(NOT_FALSE), Node(Op.OR, tuple(inputs(IS_NULL)))))
    return Node(Op.OR, (Node(Op.AND, tuple(inputs(NOT_NULL))), *inputs(IS_FALSE)))


def _swapped(wanted: Outcomes) -> Outcomes:
    return frozenset(o if o is None else not o for o in wanted)


def _input_outcomes(wanted: Outcomes, if_true: Outcomes, if_false: Outcomes) -> Outcomes:
    """Return the outcomes that an input needs, so that a test of it has a wanted outcome.

    The test is never NULL.
    """
    return (if_true if True in wanted else frozenset()) | (
        if_false if False in wanted else frozenset()
    )


@functools.lru_cache(maxsize=512)
def leaf_condition(
    n: Node, wanted: Outcomes, fields: tuple[PartitionField, ...], strict: bool
) -> Node:
    """Return the condition on partition values under which a leaf has a wanted outcome.

    Inclusive: some row may have one. Strict: every row has one. The condition of each field is
    correct by itself. A row must be possible under all fields, and one field suffices as a proof.
    """
    if n.args and n.args[0].op is Op.CALL:
        return _call_condition(n, wanted, fields, strict)
    path = n.args[0].value if n.args else None
    conditions = [
        _field_condition(n, wanted, f, strict)
        for f in fields
        if f.source == path and _applies(f, n)
    ]
    return Node(Op.OR if strict else Op.AND, tuple(conditions))  # without conditions: FALSE or TRUE


def _call_condition(
    n: Node, wanted: Outcomes, fields: tuple[PartitionField, ...], strict: bool
) -> Node:
    """Test the same function on partition values, if they determine all of its columns."""
    sources = {f.source: f for f in fields}

    def moved(a: Node) -> Node:
        if a.op is Op.COLUMN and isinstance(a.value, tuple) and a.dtype is not None:
            f = sources.get(a.value)
            if f is not None and f.transform.exact(a.dtype):
                return Node(a.op, value=(f.name,), dtype=a.dtype)
            return missing
        return Node(a.op, tuple(map(moved, a.args)), a.value, a.dtype)

    missing = Node(Op.UNKNOWN)
    moved_test = moved(n)
    if any(a is missing for a in moved_test.walk()):
        return FALSE if strict else TRUE
    tests = {
        True: Node(Op.IS_TRUE, (moved_test,)),
        False: Node(Op.IS_TRUE, (Node(Op.NOT, (moved_test,)),)),
        None: Node(Op.IS_NULL, (moved_test,)),
    }
    return Node(Op.OR, tuple(tests[o] for o in (True, False, None) if o in wanted))


def _applies(field: PartitionField, n: Node) -> bool:
    dtype = n.args[0].dtype
    return dtype is not None and field.transform.name != "void" and field.transform.supports(dtype)


def _field_condition(n: Node, wanted: Outcomes, field: PartitionField, strict: bool) -> Node:
    source = n.args[0].dtype
    assert source
    column = Node(Op.COLUMN, value=(field.name,), dtype=field.transform.result_type(source))
    null = Node(Op.IS_NULL, (column,))
    not_null = Node(Op.NOT, (null,))
    if n.op is Op.IS_NULL:  # IS NULL is never NULL
        if wanted >= NOT_NULL:
            return TRUE
        if True in wanted:
            return null
        if False in wanted:
            return not_null
        return FALSE
    parts = [null] if None in wanted else []
    if wanted >= NOT_NULL:
        parts.append(not_null)
    elif True in wanted or False in wanted:
        outcome = True in wanted
        # If no row can have the other outcome, every row with a value has this one.
        if strict:
            condition = negated(may_have_outcome(n, not outcome, field.transform, column))
        else:
            condition = may_have_outcome(n, outcome, field.transform, column)
        parts.append(_readable(condition, not_null))
    return Node(Op.OR, tuple(parts))


def _readable(condition: Node, not_null: Node) -> Node:
    """Replace conditions that all or no values meet by simpler ones; TRUE stays TRUE."""
    match condition:
        case Node(Op.DEFINED):
            return not_null
        case Node(Op.NOT, (Node(Op.DEFINED),)):
            return FALSE
    return condition
