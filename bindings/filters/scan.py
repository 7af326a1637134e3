"""The dynamic filters of one scan.

They are bound to the scan's columns, judged with its condition, and applied to the rows that are
read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.filters.bind import BoundKeys, bind_filter, cast_terms, column_node
from skipstone.bindings.filters.data import DynamicFilterData, DynamicFilteringEvent
from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.judge import (
    BoundFilter,
    evaluate,
    evaluate_absent,
    evaluate_order,
    may_raise,
    predicate_of,
)
from skipstone.bindings.filters.keys import compared_in
from skipstone.bindings.filters.kinds import Needs
from skipstone.bindings.filters.parts import by_parts
from skipstone.ir.arrow import booleans_of
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import DynamicFilterError, UnknownColumn, describe_error
from skipstone.ir.node import Op
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import column_at
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.planes import Mask, Verdicts

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.statistics.statistics import Statistics


OnFailure = Callable[[Exception, int], None]
MAX_PROJECTED_KEYS: Final = 10_000  # each key is turned into a partition value by itself
INEQUALITIES: Final = ("<", "<=", ">", ">=")
# Comparisons of the keys of one batch; more than one only where some keys cannot be compared.
MAX_COMPARISONS: Final = 64


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one filter on the containers that the condition and earlier filters kept.

    Attributes:
        filter: The filter.
        fields: The scan's columns that it was compared with.
        pruned: Containers that it pruned, and that no filter before it had pruned.
        state: The state of the filter, for display.
        rows: Rows of the build side; None if unknown.
        seconds: Time from the build side's first row to its last; None if unknown.
        kept: Reason -> containers that are kept because the filter could not be evaluated on them.
    """

    filter: DynamicFilter
    fields: tuple[str, ...]
    pruned: int
    state: str
    rows: int | None
    seconds: float | None
    kept: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class DynamicFilters:
    """The filters of one scan, each with the columns that it is compared with.

    Attributes:
        filters: The filters, in the order given.
        schema, session: The scan's columns, and Spark's settings; they resolve the filters'
            columns.
        effects: The effect of each filter, when it was last judged.
        errors: Errors of filters that could not be evaluated then.
        refine: Returns verdicts of a predicate improved by the table's partition values.
    """

    filters: tuple[DynamicFilter, ...]
    schema: pa.Schema
    session: Session
    effects: list[Effect] = field(default_factory=list, compare=False)
    errors: list[Exception] = field(default_factory=list, compare=False)
    refine: Callable[[PruningPredicate, Verdicts], Verdicts] | None = field(
        default=None, compare=False
    )

    @property
    def decide_rows(self) -> bool:
        """True if the rows that pass are exactly those that the joins need.

        Then a LIMIT may count them.
        """
        return all(
            f.decides_rows and (f.needs is Needs.ALL or self.bound(f).all_fit) for f in self.filters
        )

    @property
    def pending(self) -> tuple[DynamicFilter, ...]:
        """The filters that are not complete."""
        return tuple(f for f in self.filters if not f.complete)

    def judged(self, statistics: Statistics, verdicts: Verdicts) -> Verdicts:
        """Return the verdicts of a condition and the filters together.

        Filters that are not complete keep everything. A container on which a filter cannot be
        evaluated is kept, and the filter's effect says why. A key that fits no column of the schema
        is left out, with a warning.

        Args:
            statistics: The containers' statistics.
            verdicts: The verdicts of the condition.

        Returns:
            uint8 array, shape (containers,), of `Verdict`.

        Raises:
            DynamicFilterError: a filter contradicts itself.
        """
        self.effects.clear()
        self.errors.clear()
        for f in self.filters:
            kept: Counter[str] = Counter()
            own = self._verdicts(f, statistics, partial(self._note_failure, f, kept))
            pruned = int(((own == Verdict.NEVER) & (verdicts != Verdict.NEVER)).sum())
            verdicts = np.minimum(verdicts, own)
            bound, data = self.bound(f), f.data
            seconds = f.seconds if data is None or not data.seconds else data.seconds
            rows = None if data is None else data.rows_seen
            self.effects.append(
                Effect(f, bound.column_names, pruned, f.state, rows, seconds, dict(kept))
            )
        return verdicts

    def _note_failure(
        self, f: DynamicFilter, kept: Counter[str], error: Exception, count: int
    ) -> None:
        """Note why a number of containers are kept, and warn."""
        reason = describe_error(error)
        if reason not in kept:
            self.errors.append(error)
            f.warn_once(f"a dynamic filter cannot be evaluated ({reason}); containers are kept")
        kept[reason] += count

    def _verdicts(self, f: DynamicFilter, statistics: Statistics, failed: OnFailure) -> Verdicts:
        n = statistics.num_containers
        if f.needs is Needs.ALL:
            return np.full(n, Verdict.ALWAYS, np.uint8)
        bound = self.bound(f)
        data = bound.data
        if data is None:
            return np.full(n, Verdict.MAYBE, np.uint8)
        judged = []
        for bound_filter in (cast_terms(data, terms) for terms in bound.targets):
            verdicts = by_parts(partial(_judge, f, bound_filter), statistics, failed)
            judged.append(self._refined(f, bound_filter, verdicts, failed))
        out = judged[0] if len(judged) == 1 else _combine_targets(judged, f.needs, data)
        return out if bound.all_fit else np.minimum(out, np.uint8(Verdict.MAYBE))

    def _refined(
        self, f: DynamicFilter, bound_filter: BoundFilter, verdicts: Verdicts, failed: OnFailure
    ) -> Verdicts:
        """Return verdicts improved by the table's partition transforms."""
        if (refine := self.refine) is None:
            return verdicts
        for condition in self._conditions(f, bound_filter):
            try:
                refined = refine(condition, np.minimum(verdicts, np.uint8(Verdict.MAYBE)))
            except Exception as e:  # as in `by_parts`
                failed(e, 0)
                continue
            verdicts = np.where(refined == Verdict.NEVER, refined, verdicts)
        return verdicts

    def _conditions(
        self, f: DynamicFilter, bound_filter: BoundFilter
    ) -> Iterator[PruningPredicate]:
        data = bound_filter.data
        plain = all(t.op is Op.COLUMN for t in bound_filter.terms)  # a cast may raise, see `_judge`
        if f.needs is Needs.MATCHED and f.op in ("=", "<=>") and data.exact and plain:
            for i, domain in enumerate(data.domains):
                if 0 < len(domain.firsts) <= MAX_PROJECTED_KEYS:
                    yield predicate_of(bound_filter, i, self.schema)

    @property
    def conditions(self) -> Iterator[PruningPredicate]:
        """Conditions that every needed row fulfils, one for each column; used to list partitions.

        Filters that are not complete, or have too many keys, give no condition.
        """
        for f in self.filters:
            bound = self.bound(f)
            if bound.data is not None:
                for terms in bound.targets:
                    yield from self._conditions(f, cast_terms(bound.data, terms))

    def leave(self, statistics: Statistics) -> Mask:
        """Return which containers the filters keep, judged by some of their statistics."""
        verdicts = [self._verdicts(f, statistics, lambda e, count: None) for f in self.filters]
        return np.asarray(np.minimum.reduce(verdicts) != Verdict.NEVER, np.bool_)

    def bound(self, f: DynamicFilter) -> BoundKeys:
        """Bind a filter's keys to the columns that they are compared with; see `bind_filter`."""
        return bind_filter(f, self.schema, self.session)

    # Rows.

    @property
    def columns(self) -> tuple[str, ...]:
        """The scan's columns that rows are filtered by."""
        judged = [self.bound(f) for f in self.filters if f.needs is not Needs.ALL]
        terms = [t for b in judged if b.data is not None for target in b.targets for t in target]
        return tuple(dict.fromkeys(t.value[0] for t in terms))  # type: ignore[index]

    def needed_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that the joins may need."""
        needed: Mask | None = None
        for f in self.filters:
            bound = self.bound(f)
            if bound.data is None or f.needs is Needs.ALL:
                continue
            for terms in bound.targets:
                columns = [column_at(batch, t.value) for t in terms]  # type: ignore[arg-type]
                rows = _needed_rows(f, bound.data, columns)
                needed = rows if needed is None or rows is None else needed & rows
        return batch if needed is None or needed.all() else batch.filter(pa.array(needed))


def _judge(f: DynamicFilter, bound: BoundFilter, statistics: Statistics) -> Verdicts:
    """Return the verdicts of one filter: whether the join needs no, some or every row."""
    unknown = np.full(statistics.num_containers, Verdict.MAYBE, np.uint8)
    if any(t.op in (Op.UNKNOWN, Op.LITERAL) for t in bound.terms):
        return unknown  # a column of the type null is a literal in every other type
    if f.op in INEQUALITIES:
        if len(bound.terms) != 1:
            raise DynamicFilterError(
                f"the operator {f.op} compares one key; the filter has "
                f"{', '.join(bound.data.fields)}: use op='='"
            )
        if f.needs is Needs.ABSENT:  # NOT IN compares by =
            return unknown
        verdicts = evaluate_order(bound, f.op, statistics)
    elif f.needs is Needs.ABSENT and bound.data.state.as_text:
        return unknown
    elif f.needs is Needs.ABSENT:
        verdicts = evaluate_absent(bound, statistics)
    else:
        verdicts = evaluate(bound, statistics)
    if any(t.op is not Op.COLUMN for t in bound.terms):
        # The join raises an error for a key that cannot be cast. So its container is read,
        # whatever the other keys are.
        verdicts = np.where(may_raise(bound, statistics), np.uint8(Verdict.MAYBE), verdicts)
    if f.needs is Needs.UNMATCHED:
        # If every row has a match, the join needs none. If no row has one, the join needs all,
        # but only an exact filter proves that.
        no_match = Verdict.ALWAYS if bound.data.exact else Verdict.MAYBE
        return np.array([no_match, Verdict.MAYBE, Verdict.NEVER], np.uint8)[verdicts]
    return verdicts if f.side == "left" else np.minimum(verdicts, np.uint8(Verdict.MAYBE))


def _combine_targets(judged: list[Verdicts], needs: Needs, data: DynamicFilterData) -> Verdicts:
    """Return the verdicts of a filter whose key must equal several columns.

    A row has no match if one of its columns has none. If every column has a match, these may be
    different keys, unless there is only one key.

    Args:
        judged: The verdicts for each column alone.
        needs: The rows that the join needs.
        data: The keys.
    """
    single = data.num_rows == 1
    if needs is Needs.MATCHED:
        least: Verdicts = np.minimum.reduce(judged)
        return least if single else np.minimum(least, np.uint8(Verdict.MAYBE))
    greatest: Verdicts = np.maximum.reduce(judged)
    return greatest if single else np.maximum(greatest, np.uint8(Verdict.MAYBE))


def _needed_rows(f: DynamicFilter, data: DynamicFilterData, columns: list[pa.Array]) -> Mask | None:
    """Return which rows a join may need; None if it may need any."""
    if f.op in INEQUALITIES:
        return None  # the join itself compares them
    rows = pa.table(columns, names=list(data.fields))
    if f.needs is Needs.MATCHED:
        return data.contains(rows)
    if f.compares_several:
        return None
    if f.needs is Needs.ABSENT and (data.null_safe or data.state.as_text):
        return None
    matched, unknown = _matched(data, rows)
    unmatched = ~matched
    if f.needs is Needs.UNMATCHED or data.empty:
        return unmatched | unknown
    if data.state.all_null_row:
        return unknown
    if len(columns) == 1:  # with several keys, the others may prove that a row with NULL differs
        unmatched &= booleans_of(columns[0].is_valid())
    return unmatched | unknown


def _matched(data: DynamicFilterData, rows: pa.Table) -> tuple[Mask, Mask]:
    """Return which rows have a match, and which cannot be compared.

    All keys are compared together. If some cannot be compared, each half is compared by itself, and
    so on, a bounded number of times.
    """
    out, unknown = np.zeros(rows.num_rows, np.bool_), np.ones(rows.num_rows, np.bool_)
    parts, comparisons = [(0, rows.num_rows)], 0
    while parts and comparisons < MAX_COMPARISONS:
        first, stop = parts.pop(0)
        comparisons += 1
        matched = data.matched(rows.slice(first, stop - first))
        if matched is not None:
            out[first:stop], unknown[first:stop] = matched, False
        elif stop - first > 1:
            middle = (first + stop) // 2
            parts += [(first, middle), (middle, stop)]
    return out, unknown


def filters_of(dynamic: Sequence[Any] | Any | None) -> tuple[DynamicFilter, ...]:
    """Return the argument `dynamic` of a plan as filters.

    Raises:
        DynamicFilterError: it holds something else.
    """
    if dynamic is None:
        return ()
    out = []
    for f in list(dynamic) if isinstance(dynamic, list | tuple) else [dynamic]:
        if isinstance(f, DynamicFilterData | DynamicFilteringEvent):
            f = DynamicFilter(f)
        if not isinstance(f, DynamicFilter):
            raise DynamicFilterError(
                f"dynamic has {f!r:.100}; expected DynamicFilterData or DynamicFilter. "
                "A collector returns its data from finish()"
            )
        out.append(f)
    return tuple(out)


def accepted(schema: pa.Schema, candidates: Sequence[str], session: Session) -> list[str]:
    """Return the candidate columns that a dynamic filter can be compared with."""
    from skipstone.bindings.arguments import checked_names

    out, leaves = [], leaves_of(schema)
    for name in checked_names("candidates", candidates):
        try:
            bound = bind_scalar(column_node(name, schema, session), leaves, session)
            if bound.op is Op.COLUMN and bound.dtype is not None and bound.dtype.ordered:
                compared_in(bound.dtype, bound.dtype, session)
                out.append(name)
        except (UnknownColumn, CannotJudge):
            continue
    return out
