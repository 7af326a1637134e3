"""Judging containers by the keys of a join: whether no row, some or every row has a match."""

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
from skipstone.ir.node import Node, Op, literal
from skipstone.ir.outcome import Verdict
from skipstone.ir.pullback import Span
from skipstone.ir.simplify import TRUE, is_in
from skipstone.ir.thresholds import against_nan, against_span, never
from skipstone.ir.types import DType
from skipstone.kernels.index.boxes import any_inside
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import Mask, mask_of
from skipstone.kernels.pack.rank import places_of

Verdicts = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """A filter beside the bound scalars that its keys are compared with."""

    data: DynamicFilterData
    terms: tuple[Node, ...]


def evaluate(of: BoundFilter, stats: Statistics) -> Verdicts:
    """Whether no row, some or every row of each container has a match; ALWAYS by an exact filter only.

    Returns:
        uint8 array, shape (n,), host memory, of `Verdict`.
    """
    data, n = of.data, stats.num_containers
    if not data.filtering:
        return np.full(n, Verdict.MAYBE, np.uint8)
    if data.state.rows is not None and not data.state.rows.num_rows:
        return np.full(n, Verdict.NEVER, np.uint8)
    if data.exact and len(of.terms) == 1:
        found = predicate_of(of, 0, stats.schema).evaluate(stats)
        return (
            found
            if of.terms[0].dtype is not None and of.terms[0].dtype.ordered
            else np.minimum(found, np.uint8(Verdict.MAYBE))
        )
    some = np.ones(n, np.bool_)
    for i, (term, domain) in enumerate(zip(of.terms, data.domains, strict=True)):
        if domain.kind == "set" or (domain.kind == "ranges" and not len(domain.firsts)):
            some &= predicate_of(of, i, stats.schema).prune(stats)
        elif domain.kind == "ranges":
            some &= _in_ranges(term, domain, stats)
    out = some.astype(np.uint8)
    if data.exact and all(t.dtype is not None and t.dtype.ordered for t in of.terms):
        at = np.flatnonzero(some)
        out[at] = _by_tuples(of, stats, at)
    return out


def evaluate_absent(of: BoundFilter, stats: Statistics) -> Verdicts:
    """What NOT IN is of each container's rows: NULL beside keys is no match, and no row without one."""
    data, n = of.data, stats.num_containers
    if data.empty:
        return np.full(n, Verdict.ALWAYS, np.uint8)
    if data.null_safe:  # NOT IN compares by `=`: nobody knows what was meant
        return np.full(n, Verdict.MAYBE, np.uint8)
    if data.state.blank:
        return np.full(n, Verdict.NEVER, np.uint8)
    if not data.exact:
        return np.full(n, Verdict.MAYBE, np.uint8)
    if len(of.terms) == 1 and of.terms[0].dtype is not None and of.terms[0].dtype.ordered:
        bound = Node(Op.NOT, (_leaf(of.terms[0], data.domains[0]),))
        return _over(bound, data, stats.schema).evaluate(stats)
    return np.where(evaluate(of, stats) == Verdict.ALWAYS, Verdict.NEVER, Verdict.MAYBE).astype(
        np.uint8
    )


def may_raise(of: BoundFilter, stats: Statistics) -> Mask:
    """Return which containers may hold a value whose cast to the type of the keys raises an error
    in Spark.
    """
    out = np.zeros(stats.num_containers, np.bool_)
    for term in of.terms:
        if term.op is not Op.COLUMN and term.dtype is not None:
            out |= mask_of(stats.column(_key(term), term.dtype).lost, stats.num_containers)
    return out


def evaluate_order(of: BoundFilter, op: str, stats: Statistics) -> Verdicts:
    """Whether rows compare with any key as an inequality says: with the greatest, or the least."""
    data, n = of.data, stats.num_containers
    state = data.state
    if not state.seen or (
        data.exact and state.rows is not None and not state.rows.num_rows and not state.dropped
    ):
        return np.full(n, Verdict.NEVER, np.uint8)
    domain, dtype = data.domains[0], state.dtypes[0]
    if state.dropped or state.broken or domain.kind == "all" or not dtype.ordered:
        return np.full(n, Verdict.MAYBE, np.uint8)
    value = extreme_of(domain, dtype, greatest=op in ("<", "<="))
    if value is None:
        return np.full(n, Verdict.NEVER, np.uint8)
    way = {"<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}[op]
    condition = Expr(Node(way, (of.terms[0], literal(value, dtype))))
    found = _over_scalar(condition, of, stats)
    return found if data.exact else np.minimum(found, np.uint8(Verdict.MAYBE))


def extreme_of(domain: Domain, dtype: DType, *, greatest: bool) -> Any:
    """The greatest or the least value of a domain, NaN above all numbers; None: it has none but NULL."""
    if domain.nan and (greatest or not len(domain.firsts)):
        return float("nan")
    if not len(domain.firsts):
        return None
    return axis_of(
        domain.lasts.slice(len(domain.lasts) - 1) if greatest else domain.firsts.slice(0, 1), dtype
    )[0]


def _over_scalar(condition: Expr, of: BoundFilter, stats: Statistics) -> Verdicts:
    op, (term, lit) = condition.node.op, condition.node.args
    value = lit.value
    nan = isinstance(value, float) and value != value
    bound = against_nan(op, term) if nan else against_span(op, term, Span(value, value))  # type: ignore[arg-type]
    return _over(bound, of.data, stats.schema).evaluate(stats)


def predicate_of(of: BoundFilter, i: int, schema: pa.Schema) -> PruningPredicate:
    """What one column must be by itself. Making it of a million keys takes as long as asking it ten times, so the filter keeps it."""
    kept, key = of.data.predicates, (i, of.terms[i], schema)
    if key not in kept:
        kept[key] = _over(_leaf(of.terms[i], of.data.domains[i]), of.data, schema)
    return kept[key]


def _over(bound: Node, data: DynamicFilterData, schema: pa.Schema) -> PruningPredicate:
    return PruningPredicate._from_bound(bound, schema, data.session)


def _leaf(term: Node, domain: Domain) -> Node:
    """A bound predicate: the term has one of the values of a set."""
    assert term.dtype is not None
    if not term.dtype.ordered:  # equality is not understood there; NULL is
        return TRUE if domain.null else Node(Op.NOT, (Node(Op.IS_NULL, (term,)),))
    parts = [is_in(term, axis_of(domain.firsts, term.dtype))] if len(domain.firsts) else []
    if domain.nan:
        parts.append(Node(Op.NAN, (term,)))
    found = parts[0] if len(parts) == 1 else Node(Op.OR, tuple(parts)) if parts else never(term)
    if not domain.null:
        return found
    null = Node(Op.IS_NULL, (term,))
    return Node(Op.OR, (Node(Op.IS_TRUE, (found,)), null)) if parts else null


def _key(term: Node) -> Any:
    """By what statistics know a scalar."""
    return term.value if term.op is Op.COLUMN else term


def _in_ranges(term: Node, domain: Domain, stats: Statistics) -> Mask:
    """Which containers may hold a value of a domain's ranges."""
    assert term.dtype is not None
    column = stats.column(_key(term), term.dtype)
    n = stats.num_containers
    at = np.arange(n)
    before = places_of(column, axis_of(domain.lasts, term.dtype), at)[0]
    begun = places_of(column, axis_of(domain.firsts, term.dtype), at)[1]
    out = (begun > before) & mask_of(column.real, n)
    if domain.nan:
        out |= mask_of(column.nans, n)
    if domain.null:
        out |= mask_of(column.nulls, n)
    return (out | mask_of(column.lost, n)) & mask_of(stats.rows_plane(), n)


@dataclass(frozen=True, slots=True)
class _Box:
    """What one column of some containers may hold, by rank: shape (n,) each."""

    low: Positions
    high: Positions
    real: Mask
    nans: Mask
    nulls: Mask
    lost: Mask
    single: Mask  # one value, which is a key's

    @classmethod
    def of(cls, column: Column, values: list[Any], n: int, at: Positions) -> _Box:
        low, high = places_of(column, values, at)
        high = high - 1
        real, nans, nulls, lost = (
            mask_of(p, n)[at] for p in (column.real, column.nans, column.nulls, column.lost)
        )
        single = real & ~nans & ~nulls & ~lost & (low == high)
        if column.low is None or column.high is None:
            single = np.zeros(len(at), np.bool_)
        else:
            known = column.known(high=False), column.known(high=True)
            single &= (column.low[at] == column.high[at]) & known[0][at] & known[1][at]  # type: ignore[index]
        return cls(low, high, real, nans, nulls, lost, single)


def _by_tuples(of: BoundFilter, stats: Statistics, at: Positions) -> Verdicts:
    """The verdicts of some containers by whole rows of keys."""
    tuples, n = of.data.tuples, stats.num_containers
    boxes = []
    for term, values, numbers in zip(of.terms, tuples.values, tuples.numbers, strict=True):
        assert term.dtype is not None
        boxes.append(
            _Box.of(
                stats.column(_key(term), term.dtype),
                axis_of(values.slice(0, numbers), term.dtype),
                n,
                at,
            )
        )
    some: Mask = np.logical_or.reduce([b.lost for b in boxes])
    for group in tuples.groups:
        _look(group, boxes, some)
    out = some.astype(np.uint8)
    single = np.flatnonzero(some & np.logical_and.reduce([b.single for b in boxes]))
    ranks = np.stack([b.low[single] for b in boxes], axis=1)
    out[single] = np.where(tuples.has(ranks), Verdict.ALWAYS, Verdict.NEVER)
    return out


def _look(group: Group, boxes: list[_Box], some: Mask) -> None:
    """Mark boxes that may hold one of the rows of a group."""
    fits = ~some
    for kind, box in zip(group.kinds, boxes, strict=True):
        fits &= (box.real, box.nans, box.nulls)[kind]
    left = np.flatnonzero(fits)
    numbers = [i for i, kind in enumerate(group.kinds) if kind == 0]
    if not len(left) or group.tree is None:
        some[left] = True
        return
    low = np.stack([boxes[i].low[left] for i in numbers], axis=1)
    high = np.stack([boxes[i].high[left] for i in numbers], axis=1)
    some[left[any_inside(group.tree, low, high)]] = True
