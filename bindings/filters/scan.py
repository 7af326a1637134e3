"""Dynamic filters of one scan: bound to its columns, judged beside its condition, and applied to the rows that are read."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
from skipstone.bindings.filters.keys import Mask, compared_in
from skipstone.bindings.filters.kinds import Needs
from skipstone.bindings.filters.parts import by_parts
from skipstone.bindings.predicates.expr import col
from skipstone.ir.bind import bind_scalar
from skipstone.ir.coerce import in_spark
from skipstone.ir.errors import DynamicFilterError, PredicateError, UnknownColumn
from skipstone.ir.functions.build import cast
from skipstone.ir.node import Name, Node, Op, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import column_at
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import leaves_of

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.ir.types import DType

Verdicts = npt.NDArray[np.uint8]
Failed = Callable[[Exception, int], None]
PROJECTED: Final = 10_000  # keys that are turned into partition values one by one
ORDERED: Final = ("<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Effect:
    """What one filter did to the containers that the condition and the filters before it had left.

    Attributes:
        filter: The filter.
        fields: The scan's columns that it was compared with.
        pruned: Containers that it left out, and no one before it had.
        state: What was known of the keys, for people.
        rows: Rows of the build side; None: not known.
        seconds: From its first row to its last; None: not known.
        kept: Reason -> containers that are kept since the filter could not be evaluated on them.
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
        filters: As they were given.
        schema, session: What their columns' names mean.
        effects: What each did, when it was last judged.
        errors: Why some could not be evaluated then.
        refine: What a table's partitions say besides, of verdicts that a predicate has.
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
        """Whether the rows that pass are those that the joins need, so that a LIMIT may count them."""
        return all(
            f.decides_rows and (f.needs is Needs.ALL or self.bound(f).whole) for f in self.filters
        )

    @property
    def pending(self) -> tuple[DynamicFilter, ...]:
        """Those that may still come."""
        return tuple(f for f in self.filters if not f.complete)

    def judged(self, statistics: Statistics, verdicts: Verdicts) -> Verdicts:
        """Return verdicts of a condition, and of the filters as far as they are known.

        A container on which a filter cannot be evaluated is kept, and its effect says why. A key
        that fits no column of the schema is left out, with a warning. A filter that contradicts
        itself raises DynamicFilterError.
        """
        self.effects.clear()
        self.errors.clear()
        for f in self.filters:
            kept: Counter[str] = Counter()
            found = self._verdicts(f, statistics, partial(self._failed, f, kept))
            pruned = int(((found == Verdict.NEVER) & (verdicts != Verdict.NEVER)).sum())
            verdicts = np.minimum(verdicts, found)
            bound, data = self.bound(f), f.data
            seconds = f.seconds if data is None or not data.seconds else data.seconds
            rows = None if data is None else data.rows_seen
            self.effects.append(Effect(f, bound.shown, pruned, f.state, rows, seconds, dict(kept)))
        return verdicts

    def _failed(self, f: DynamicFilter, kept: Counter[str], error: Exception, count: int) -> None:
        """Note why containers are kept."""
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        if reason not in kept:
            self.errors.append(error)
            f.warn_once(f"a dynamic filter cannot be evaluated ({reason}); containers are kept")
        kept[reason] += count

    def _verdicts(self, f: DynamicFilter, statistics: Statistics, failed: Failed) -> Verdicts:
        n = statistics.num_containers
        if f.needs is Needs.ALL:
            return np.full(n, Verdict.ALWAYS, np.uint8)
        bound = self.bound(f)
        data = bound.data
        if data is None:
            return np.full(n, Verdict.MAYBE, np.uint8)
        judged = []
        for of in (_compared(data, terms) for terms in bound.targets):
            found = by_parts(partial(_judge, f, of), statistics, failed)
            judged.append(self._refined(f, of, found, failed))
        out = judged[0] if len(judged) == 1 else _together(judged, f.needs, data)
        return out if bound.whole else np.minimum(out, np.uint8(Verdict.MAYBE))

    def _refined(
        self, f: DynamicFilter, of: BoundFilter, found: Verdicts, failed: Failed
    ) -> Verdicts:
        """What transforms of the columns say, by which the table is partitioned."""
        if (refine := self.refine) is None:
            return found
        for condition in self._conditions(f, of):
            try:
                left = refine(condition, np.minimum(found, np.uint8(Verdict.MAYBE)))
            except Exception as e:  # as in `by_parts`
                failed(e, 0)
                continue
            found = np.where(left == Verdict.NEVER, left, found)
        return found

    def _conditions(self, f: DynamicFilter, of: BoundFilter) -> Iterator[PruningPredicate]:
        plain = all(t.op is Op.COLUMN for t in of.terms)  # others may raise, as in `_judge`
        if f.needs is Needs.MATCHED and f.op in ("=", "<=>") and of.data.exact and plain:
            for i, domain in enumerate(of.data.domains):
                if 0 < len(domain.firsts) <= PROJECTED:
                    yield predicate_of(of, i, self.schema)

    @property
    def conditions(self) -> Iterator[PruningPredicate]:
        """What each row that the joins need fulfils, column by column, as far as it is known and short: for who lists a table by partitions."""
        for f in self.filters:
            bound = self.bound(f)
            if bound.data is not None:
                for terms in bound.targets:
                    yield from self._conditions(f, _compared(bound.data, terms))

    def leave(self, statistics: Statistics) -> Mask:
        """Which containers the filters leave, by some of their statistics."""
        return np.asarray(
            np.minimum.reduce(
                [self._verdicts(f, statistics, lambda e, count: None) for f in self.filters]
            )
            != Verdict.NEVER,
            np.bool_,
        )

    def bound(self, f: DynamicFilter) -> Bound:
        """Return a filter's keys beside the columns that they are compared with.

        A key that fits no column is left out: rows with a match still need one by the others. What
        else a join needs is not
        told by some of its keys, so then the whole filter is.

        Raises:
            DynamicFilterError: the filter names keys that it does not have.
        """
        data = f.data
        names = data.fields if data is not None else tuple(f.columns)
        if strange := [name for name in f.columns if name not in names]:
            raise DynamicFilterError(
                f"the filter's columns name {strange[0]!r}; its keys are {', '.join(names)}"
            )
        terms: dict[str, list[Node]] = {}
        whole = True
        for i, key in enumerate(names):
            given = f.columns.get(key, key)
            for column in [given] if isinstance(given, str) else given:
                found = self._term(key, column, None if data is None else data.declared[i])
                if isinstance(found, str):
                    f.warn_once(f"a dynamic filter skips its key {key!r}: {found}")
                    whole = False
                else:
                    terms.setdefault(key, []).append(found)
        if data is not None and not whole:
            data = data.only(tuple(terms)) if terms and f.needs is Needs.MATCHED else None
        return Bound(data, tuple(itertools.product(*terms.values())), whole)

    def _term(self, key: str, column: str, declared: DType | None) -> Node | str:
        """Return the column of a name, or why it is none that a key can be compared with."""
        try:
            term = bind_scalar(
                named(column, self.schema, self.session), leaves_of(self.schema), self.session
            )
        except PredicateError as e:
            return str(e)
        if term.op is not Op.COLUMN or term.dtype is None:
            return f"it is compared with {term}; expected a column of the scan"
        if declared is not None and in_spark(term.dtype) != declared:
            return (
                f"it was collected to be compared with {declared}, and {column} is {term.dtype}; "
                "give the collector the schema of the scan"
            )
        return term

    # Rows.

    @property
    def columns(self) -> tuple[str, ...]:
        """The scan's columns that rows are judged by."""
        judged = [self.bound(f) for f in self.filters if f.needs is not Needs.ALL]
        found = [t for b in judged if b.data is not None for terms in b.targets for t in terms]
        return tuple(dict.fromkeys(t.value[0] for t in found))  # type: ignore[index]

    def passing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that the joins may need."""
        out: Mask | None = None
        for f in self.filters:
            bound = self.bound(f)
            if bound.data is None or f.needs is Needs.ALL:
                continue
            for terms in bound.targets:
                columns = [column_at(batch, t.value) for t in terms]  # type: ignore[arg-type]
                found = _rows(f, bound.data, columns)
                out = found if out is None or found is None else out & found
        return batch if out is None or out.all() else batch.filter(pa.array(out))


@dataclass(frozen=True, slots=True)
class Bound:
    """A filter bound to the columns of a scan.

    Attributes:
        data: Its keys, as far as they fit columns; None: they are not known, or say nothing.
        targets: The columns that keys are compared with; several, if a key is compared with
            several columns.
        whole: Whether all of its keys fit.
    """

    data: DynamicFilterData | None
    targets: tuple[tuple[Node, ...], ...]
    whole: bool

    @property
    def shown(self) -> tuple[str, ...]:
        """The names of the columns."""
        paths = (t.value for terms in self.targets for t in terms)
        return tuple(dict.fromkeys(show_path(p) for p in paths if isinstance(p, tuple)))


def _compared(data: DynamicFilterData, terms: tuple[Node, ...]) -> BoundFilter:
    """The columns in the types that keys are compared in."""
    pairs = zip(terms, data.state.dtypes, strict=True)
    return BoundFilter(
        data, tuple(t if t.dtype == dtype else cast(t, dtype, data.session) for t, dtype in pairs)
    )


def _judge(f: DynamicFilter, of: BoundFilter, statistics: Statistics) -> Verdicts:
    if any(t.op is Op.UNKNOWN for t in of.terms):
        return np.full(statistics.num_containers, Verdict.MAYBE, np.uint8)
    if f.op in ORDERED:
        if len(of.terms) != 1:
            raise DynamicFilterError(
                f"{f.op} compares one key, and the filter has {', '.join(of.data.fields)}"
            )
        if f.needs is Needs.ABSENT:  # NOT IN compares by =
            return np.full(statistics.num_containers, Verdict.MAYBE, np.uint8)
        found = evaluate_order(of, f.op, statistics)
    elif f.needs is Needs.ABSENT and of.data.state.as_text:
        return np.full(statistics.num_containers, Verdict.MAYBE, np.uint8)
    elif f.needs is Needs.ABSENT:
        found = evaluate_absent(of, statistics)
    else:
        found = evaluate(of, statistics)
    if any(t.op is not Op.COLUMN for t in of.terms):
        # The join raises an error for a key that cannot be cast, so its container is read,
        # whatever the other keys are.
        found = np.where(may_raise(of, statistics), np.uint8(Verdict.MAYBE), found)
    if f.needs is Needs.UNMATCHED:
        # Every row has a match: the join needs none. No row has one: it needs all, which only an exact filter may say.
        opposite = np.array(
            [Verdict.ALWAYS if of.data.exact else Verdict.MAYBE, Verdict.MAYBE, Verdict.NEVER],
            np.uint8,
        )
        return opposite[found]
    return found if f.side == "left" else np.minimum(found, np.uint8(Verdict.MAYBE))


def _together(judged: list[Verdicts], needs: Needs, data: DynamicFilterData) -> Verdicts:
    """Return verdicts of a filter whose key must equal several columns, from those of each column
    alone.

    A row has no match if one of its columns has none. If each has one, these may still be
    different keys, unless there is
    only one.
    """
    single = data.num_rows == 1
    if needs is Needs.MATCHED:
        found: Verdicts = np.minimum.reduce(judged)
        return found if single else np.minimum(found, np.uint8(Verdict.MAYBE))
    found = np.maximum.reduce(judged)
    return found if single else np.maximum(found, np.uint8(Verdict.MAYBE))


def _rows(f: DynamicFilter, data: DynamicFilterData, columns: list[pa.Array]) -> Mask | None:
    """Return which rows a join may need; None: any."""
    if f.op in ORDERED:
        return None  # the join itself compares them
    rows = pa.table(columns, names=list(data.fields))
    if f.needs is Needs.MATCHED:
        return data.contains(rows)
    if f.compares_several:
        return None
    if f.needs is Needs.ABSENT and (data.null_safe or data.state.as_text):
        return None
    matched = data.matched(rows)
    if matched is None:
        return None
    found = ~matched
    if f.needs is Needs.UNMATCHED or data.empty:
        return found
    if data.state.blank:
        return np.zeros(len(found), np.bool_)
    if len(columns) == 1:  # of several keys, others may tell a row from NULL
        found &= np.asarray(columns[0].is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return found


def filters_of(given: Sequence[Any] | Any | None) -> tuple[DynamicFilter, ...]:
    """What a plan was given as filters.

    Raises:
        DynamicFilterError: it is none.
    """
    if given is None:
        return ()
    listed = list(given) if isinstance(given, list | tuple) else [given]
    out = []
    for one in listed:
        if isinstance(one, DynamicFilterData | DynamicFilteringEvent):
            one = DynamicFilter(one)
        if not isinstance(one, DynamicFilter):
            raise DynamicFilterError(
                f"dynamic has {one!r:.100}; expected DynamicFilterData or DynamicFilter. A collector gives its data by finish()"
            )
        out.append(one)
    return tuple(out)


def accepted(schema: pa.Schema, candidates: Sequence[str], session: Session) -> list[str]:
    """Those of some columns that a dynamic filter can be compared with."""
    out, leaves = [], leaves_of(schema)
    for name in candidates:
        try:
            bound = bind_scalar(named(name, schema, session), leaves, session)
            if bound.op is Op.COLUMN and bound.dtype is not None and bound.dtype.ordered:
                compared_in(bound.dtype, bound.dtype, session)
                out.append(name)
        except (UnknownColumn, Incomparable):
            continue
    return out


def named(name: str, schema: pa.Schema, session: Session) -> Node:
    """A column by the name that the schema has for it, whatever that holds, or as SQL writes it: `a.b` is a struct's field."""
    fold = (lambda s: s) if session.case_sensitive else str.lower
    return (
        Node(Op.COLUMN, value=Name((name,)))
        if fold(name) in map(fold, schema.names)
        else col(name).node
    )
