"""Judge containers by the keys of a join: whether no row, some or every row has a match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.filters.data import DynamicFilterData
from skipstone.bindings.filters.domain import Domain
from skipstone.bindings.filters.keys import axis_of
from skipstone.bindings.filters.tuples import Group
from skipstone.bindings.predicates.expr import Expr
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.coercion.pullback import Span
from skipstone.ir.coercion.thresholds import against_nan, against_span, never
from skipstone.ir.node import Node, Op, literal, statistics_key
from skipstone.ir.outcome import Verdict
from skipstone.ir.simplify import TRUE, is_in
from skipstone.ir.types import DType
from skipstone.kernels.index.boxes import any_inside
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import Mask, Verdicts, mask_of
from skipstone.kernels.pack.rank import ranks_of

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """A filter and the bound scalars that its keys are compared with."""

    data: DynamicFilterData
    terms: tuple[Node, ...]


def evaluate(bound: BoundFilter, stats: Statistics) -> Verdicts:
    """Return whether no row, some or every row of each container has a match.

    Only an exact filter gives ALWAYS.

    Returns:
        uint8 array, shape (n,), host memory, of `Verdict`.
    """
    data, n = bound.data, stats.num_containers
    if not data.filtering:
        return np.full(n, Verdict.MAYBE, np.uint8)
    if data.state.rows is not None and not data.state.rows.num_rows:
        return np.full(n, Verdict.NEVER, np.uint8)
    if data.exact and len(bound.terms) == 1:
        verdicts = predicate_of(bound, 0, stats.schema).evaluate(stats)
        if bound.terms[0].dtype is not None and bound.terms[0].dtype.ordered:
            return verdicts
        return np.minimum(verdicts, np.uint8(Verdict.MAYBE))
    may_match = np.ones(n, np.bool_)
    for i, (term, domain) in enumerate(zip(bound.terms, data.domains, strict=True)):
        if domain.kind == "set" or (domain.kind == "ranges" and not len(domain.firsts)):
            may_match &= predicate_of(bound, i, stats.schema).prune(stats)
        elif domain.kind == "ranges":
            may_match &= _in_ranges(term, domain, stats)
    out = may_match.astype(np.uint8)
    if data.exact and all(t.dtype is not None and t.dtype.ordered for t in bound.terms):
        at = np.flatnonzero(may_match)
        out[at] = _by_tuples(bound, stats, at)
    return out


def evaluate_absent(bound: BoundFilter, stats: Statistics) -> Verdicts:
    """Return the verdicts of NOT IN: whether no row, some or every row certainly has no match.

    With keys, NOT IN is not TRUE for a row with NULL. Without keys, it is TRUE for every row.

    Returns:
        uint8 array, shape (n,), host memory, of `Verdict`.
    """
    data, n = bound.data, stats.num_containers
    if data.empty:
        return np.full(n, Verdict.ALWAYS, np.uint8)
    if data.null_safe:  # NOT IN compares by `=`, so it is unclear what the caller meant
        return np.full(n, Verdict.MAYBE, np.uint8)
    if data.state.all_null_row:
        return np.full(n, Verdict.NEVER, np.uint8)
    if not data.exact:
        return np.full(n, Verdict.MAYBE, np.uint8)
    if len(bound.terms) == 1 and bound.terms[0].dtype is not None and bound.terms[0].dtype.ordered:
        absent = Node(Op.NOT, (_membership(bound.terms[0], data.domains[0]),))
        return _predicate(absent, data, stats.schema).evaluate(stats)
    return np.where(evaluate(bound, stats) == Verdict.ALWAYS, Verdict.NEVER, Verdict.MAYBE).astype(
        np.uint8
    )


def may_raise(bound: BoundFilter, stats: Statistics) -> Mask:
    """Return which containers may hold a value that Spark cannot cast to the keys' type.

    Spark raises an error for such a value.
    """
    out = np.zeros(stats.num_containers, np.bool_)
    for term in bound.terms:
        if term.op is not Op.COLUMN and term.dtype is not None:
            out |= mask_of(
                stats.column(statistics_key(term), term.dtype).may_raise, stats.num_containers
            )
    return out


def evaluate_order(bound: BoundFilter, op: str, stats: Statistics) -> Verdicts:
    """Return whether no row, some or every row satisfies an inequality with a key, by container.

    It is enough to compare with the greatest key, or with the least.

    Returns:
        uint8 array, shape (n,), host memory, of `Verdict`.
    """
    data, n = bound.data, stats.num_containers
    state = data.state
    if not state.has_rows or (
        data.exact and state.rows is not None and not state.rows.num_rows and not state.unmatchable
    ):
        return np.full(n, Verdict.NEVER, np.uint8)
    domain, dtype = data.domains[0], state.dtypes[0]
    if state.unmatchable or state.failure or domain.kind == "all" or not dtype.ordered:
        return np.full(n, Verdict.MAYBE, np.uint8)
    value = extreme_of(domain, dtype, greatest=op in ("<", "<="))
    if value is None:
        return np.full(n, Verdict.NEVER, np.uint8)
    operator = {"<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}[op]
    condition = Expr(Node(operator, (bound.terms[0], literal(value, dtype))))
    verdicts = _evaluate_comparison(condition, bound, stats)
    return verdicts if data.exact else np.minimum(verdicts, np.uint8(Verdict.MAYBE))


def extreme_of(domain: Domain, dtype: DType, *, greatest: bool) -> Any:
    """Return the greatest or the least value of a domain; None if it has no value except NULL.

    NaN is above all numbers.
    """
    if domain.nan and (greatest or not len(domain.firsts)):
        return float("nan")
    if not len(domain.firsts):
        return None
    return axis_of(
        domain.lasts.slice(len(domain.lasts) - 1) if greatest else domain.firsts.slice(0, 1), dtype
    )[0]


def _evaluate_comparison(condition: Expr, bound: BoundFilter, stats: Statistics) -> Verdicts:
    op, (term, lit) = condition.node.op, condition.node.args
    value = lit.value
    nan = isinstance(value, float) and value != value
    span = Span(value, value)  # type: ignore[arg-type]
    node = against_nan(op, term) if nan else against_span(op, term, span)
    return _predicate(node, bound.data, stats.schema).evaluate(stats)


def predicate_of(bound: BoundFilter, i: int, schema: pa.Schema) -> PruningPredicate:
    """Return the predicate that a single column has a value of its domain.

    It is cached in the filter, because building it from a million keys takes as long as evaluating
    it ten times.
    """
    cache, key = bound.data.predicates, (i, bound.terms[i], schema)
    if key not in cache:
        cache[key] = _predicate(
            _membership(bound.terms[i], bound.data.domains[i]), bound.data, schema
        )
    return cache[key]


def _predicate(node: Node, data: DynamicFilterData, schema: pa.Schema) -> PruningPredicate:
    return PruningPredicate._from_bound(node, schema, data.session)


def _membership(term: Node, domain: Domain) -> Node:
    """Return a bound condition: the term has one of the values of a set."""
    assert term.dtype is not None
    if not term.dtype.ordered:  # statistics of such values only count NULLs
        return TRUE if domain.null else Node(Op.NOT, (Node(Op.IS_NULL, (term,)),))
    parts = [is_in(term, axis_of(domain.firsts, term.dtype))] if len(domain.firsts) else []
    if domain.nan:
        parts.append(Node(Op.NAN, (term,)))
    member = parts[0] if len(parts) == 1 else Node(Op.OR, tuple(parts)) if parts else never(term)
    if not domain.null:
        return member
    null = Node(Op.IS_NULL, (term,))
    return Node(Op.OR, (Node(Op.IS_TRUE, (member,)), null)) if parts else null


def _in_ranges(term: Node, domain: Domain, stats: Statistics) -> Mask:
    """Return which containers may hold a value of a domain's ranges."""
    assert term.dtype is not None
    column = stats.column(statistics_key(term), term.dtype)
    n = stats.num_containers
    at = np.arange(n)
    before = ranks_of(column, axis_of(domain.lasts, term.dtype), at)[0]
    begun = ranks_of(column, axis_of(domain.firsts, term.dtype), at)[1]
    out = (begun > before) & mask_of(column.may_hold_value, n)
    if domain.nan:
        out |= mask_of(column.may_hold_nan, n)
    if domain.null:
        out |= mask_of(column.may_hold_null, n)
    return (out | mask_of(column.may_raise, n)) & mask_of(stats.rows_plane(), n)


@dataclass(frozen=True, slots=True)
class _Box:
    """The values that one column of some containers may hold, by rank; shape (n,) each.

    Attributes:
        low, high: The ranks of the least and the greatest key within the bounds.
        may_hold_value: The container may hold a value.
        may_hold_nan, may_hold_null: It may hold NaN, NULL.
        may_raise: A cast of a value may raise an error.
        single: All rows have one value, which is a key.
    """

    low: Positions
    high: Positions
    may_hold_value: Mask
    may_hold_nan: Mask
    may_hold_null: Mask
    may_raise: Mask
    single: Mask

    @classmethod
    def of(cls, column: Column, values: list[Any], n: int, at: Positions) -> _Box:
        low, high = ranks_of(column, values, at)
        high = high - 1
        c = column
        planes = (c.may_hold_value, c.may_hold_nan, c.may_hold_null, c.may_raise)
        may_hold_value, nans, nulls, may_raise = (mask_of(p, n)[at] for p in planes)
        single = may_hold_value & ~nans & ~nulls & ~may_raise & (low == high)
        if column.low is None or column.high is None:
            single = np.zeros(len(at), np.bool_)
        else:
            known_low, known_high = column.known(high=False), column.known(high=True)
            single &= column.low[at] == column.high[at]
            single &= known_low[at] & known_high[at]  # type: ignore[index]
        return cls(low, high, may_hold_value, nans, nulls, may_raise, single)


def _by_tuples(bound: BoundFilter, stats: Statistics, at: Positions) -> Verdicts:
    """Return the verdicts of some containers by whole rows of keys."""
    tuples, n = bound.data.tuples, stats.num_containers
    boxes = []
    for term, values, numbers in zip(bound.terms, tuples.values, tuples.numbers, strict=True):
        assert term.dtype is not None
        column = stats.column(statistics_key(term), term.dtype)
        boxes.append(_Box.of(column, axis_of(values.slice(0, numbers), term.dtype), n, at))
    may_match: Mask = np.logical_or.reduce([b.may_raise for b in boxes])
    for group in tuples.groups:
        _mark_possible(group, boxes, may_match)
    out = may_match.astype(np.uint8)
    single = np.flatnonzero(may_match & np.logical_and.reduce([b.single for b in boxes]))
    ranks = np.stack([b.low[single] for b in boxes], axis=1)
    out[single] = np.where(tuples.has(ranks), Verdict.ALWAYS, Verdict.NEVER)
    return out


def _mark_possible(group: Group, boxes: list[_Box], may_match: Mask) -> None:
    """Mark in `may_match` the boxes that may hold one of the rows of a group."""
    fits = ~may_match
    for kind, box in zip(group.kinds, boxes, strict=True):
        fits &= (box.may_hold_value, box.may_hold_nan, box.may_hold_null)[kind]
    undecided = np.flatnonzero(fits)
    numbers = [i for i, kind in enumerate(group.kinds) if kind == 0]
    if not len(undecided) or group.tree is None:
        may_match[undecided] = True
        return
    low = np.stack([boxes[i].low[undecided] for i in numbers], axis=1)
    high = np.stack([boxes[i].high[undecided] for i in numbers], axis=1)
    may_match[undecided[any_inside(group.tree, low, high)]] = True
