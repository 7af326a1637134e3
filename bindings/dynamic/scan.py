"""Dynamic filters of one scan: bound to its columns, judged beside its condition, and applied to the rows that are read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.dynamic.data import DynamicFilterData, DynamicFilteringEvent
from skipstone.bindings.dynamic.filter import DynamicFilter
from skipstone.bindings.dynamic.judge import (
    Compared,
    evaluate,
    evaluate_absent,
    evaluate_order,
    may_raise,
    predicate_of,
)
from skipstone.bindings.dynamic.keys import Mask, compared_in
from skipstone.bindings.dynamic.kinds import Needs
from skipstone.bindings.expr import col
from skipstone.ir.bind import bind_scalar
from skipstone.ir.coerce import in_spark
from skipstone.ir.errors import DynamicFilterError, UnknownColumn
from skipstone.ir.functions.build import cast
from skipstone.ir.node import Name, Node, Op, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.rows import column_at
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import leaves_of

if TYPE_CHECKING:
    from skipstone.bindings.predicate import PruningPredicate
    from skipstone.bindings.statistics import Statistics

Verdicts = npt.NDArray[np.uint8]
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
    """

    filter: DynamicFilter
    fields: tuple[str, ...]
    pruned: int
    state: str
    rows: int | None
    seconds: float | None


@dataclass(frozen=True)
class DynamicFilters:
    """The filters of one scan, each with the columns that it is compared with.

    Attributes:
        filters: As they were given.
        schema, session: What their columns' names mean.
        effects: What each did, when it was last judged.
        refine: What a table's partitions say besides, of verdicts that a predicate has.
    """

    filters: tuple[DynamicFilter, ...]
    schema: pa.Schema
    session: Session
    effects: list[Effect] = field(default_factory=list, compare=False)
    refine: Callable[[PruningPredicate, Verdicts], Verdicts] | None = field(
        default=None, compare=False
    )

    @property
    def decide_rows(self) -> bool:
        """Whether the rows that pass are those that the joins need, so that a LIMIT may count them."""
        return all(f.decides_rows for f in self.filters)

    @property
    def pending(self) -> tuple[DynamicFilter, ...]:
        """Those that may still come."""
        return tuple(f for f in self.filters if not f.complete)

    def judged(self, statistics: Statistics, verdicts: Verdicts) -> Verdicts:
        """Verdicts of a condition, and of the filters as far as they are known.

        Where a filter cannot be evaluated it keeps everything, as in the source; only what was asked wrongly raises.
        """
        self.effects.clear()
        for f in self.filters:
            found = self._verdicts(f, statistics)
            pruned = int(((found == Verdict.NEVER) & (verdicts != Verdict.NEVER)).sum())
            verdicts = np.minimum(verdicts, found)
            data = f.data
            fields = tuple(
                dict.fromkeys(show_path(t.value) for terms in self.targets(f) for t in terms)
            )  # type: ignore[arg-type]
            seconds = f.seconds if data is None or not data.seconds else data.seconds
            self.effects.append(
                Effect(
                    f, fields, pruned, f.state, None if data is None else data.rows_seen, seconds
                )
            )
        return verdicts

    def _verdicts(self, f: DynamicFilter, statistics: Statistics) -> Verdicts:
        n, data = statistics.num_containers, f.data
        if f.needs is Needs.ALL:
            return np.full(n, Verdict.ALWAYS, np.uint8)
        if data is None:
            return np.full(n, Verdict.MAYBE, np.uint8)
        judged = [
            self._refined(f, of, _judge(f, of, statistics))
            for of in (self._compared(data, terms) for terms in self.targets(f))
        ]
        if len(judged) > 1:
            return _together(judged, f.needs, data)
        return judged[0]

    def _refined(self, f: DynamicFilter, of: Compared, found: Verdicts) -> Verdicts:
        """What transforms of the columns say, by which the table is partitioned."""
        if (refine := self.refine) is None:
            return found
        for condition in self._conditions(f, of):
            left = refine(condition, np.minimum(found, np.uint8(Verdict.MAYBE)))
            found = np.where(left == Verdict.NEVER, left, found)
        return found

    def _conditions(self, f: DynamicFilter, of: Compared) -> Iterator[PruningPredicate]:
        plain = all(t.op is Op.COLUMN for t in of.terms)  # others may raise, as in `_judge`
        if f.needs is Needs.MATCHED and f.op in ("=", "<=>") and of.data.exact and plain:
            for i, domain in enumerate(of.data.domains):
                if 0 < len(domain.firsts) <= PROJECTED:
                    yield predicate_of(of, i, self.schema)

    @property
    def conditions(self) -> Iterator[PruningPredicate]:
        """What each row that the joins need fulfils, column by column, as far as it is known and short: for who lists a table by partitions."""
        for f in self.filters:
            if f.data is not None:
                for terms in self.targets(f):
                    yield from self._conditions(f, self._compared(f.data, terms))

    def leave(self, statistics: Statistics) -> Mask:
        """Which containers the filters leave, by some of their statistics."""
        return np.asarray(
            np.minimum.reduce([self._verdicts(f, statistics) for f in self.filters])
            != Verdict.NEVER,
            np.bool_,
        )

    def targets(self, f: DynamicFilter) -> list[tuple[Node, ...]]:
        """The columns that a filter's keys are compared with."""
        names = f.data.fields if f.data is not None else tuple(f.columns)
        if strange := [name for name in f.columns if name not in names]:
            raise DynamicFilterError(
                f"the filter's columns name {strange[0]!r}; its keys are {', '.join(names)}"
            )
        each = [f.columns.get(name, name) for name in names]
        leaves = leaves_of(self.schema)
        bound = []
        for one in each:
            scalars = [
                bind_scalar(named(name, self.schema, self.session), leaves, self.session)
                for name in ([one] if isinstance(one, str) else one)
            ]
            if wrong := [s for s in scalars if s.op is not Op.COLUMN]:
                raise DynamicFilterError(
                    f"a filter is compared with {wrong[0]}; expected a column of the scan"
                )
            bound.append(scalars)
        return list(itertools.product(*bound))

    def _compared(self, data: DynamicFilterData, terms: tuple[Node, ...]) -> Compared:
        """The columns in the types that keys are compared in."""
        out = []
        for term, name, declared, dtype in zip(
            terms, data.fields, data.declared, data.state.dtypes, strict=True
        ):
            assert term.dtype is not None
            if in_spark(term.dtype) != declared:
                raise DynamicFilterError(
                    f"the filter's key {name!r} was collected to be compared with {declared}, and {show_path(term.value)} is {term.dtype}; "  # type: ignore[arg-type]
                    "give the collector the schema of the scan"
                )
            out.append(term if term.dtype == dtype else cast(term, dtype, data.session))
        return Compared(data, tuple(out))

    # Rows.

    @property
    def columns(self) -> tuple[str, ...]:
        """The scan's columns that rows are judged by."""
        found = [
            t
            for f in self.filters
            if f.data is not None and f.needs is not Needs.ALL
            for terms in self.targets(f)
            for t in terms
        ]
        return tuple(dict.fromkeys(t.value[0] for t in found))  # type: ignore[index]

    def passing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that the joins may need."""
        out: Mask | None = None
        for f in self.filters:
            if f.data is None or f.needs is Needs.ALL:
                continue
            for terms in self.targets(f):
                found = _rows(f, f.data, [column_at(batch, t.value) for t in terms])  # type: ignore[arg-type]
                out = found if out is None or found is None else out & found
        return batch if out is None or out.all() else batch.filter(pa.array(out))


def _judge(f: DynamicFilter, of: Compared, statistics: Statistics) -> Verdicts:
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
    elif f.needs is Needs.ABSENT:
        found = evaluate_absent(of, statistics)
    else:
        found = evaluate(of, statistics)
    if any(t.op is not Op.COLUMN for t in of.terms):
        # The join raises an error for a key that cannot be cast, so its container is read, whatever the other keys are.
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
    """Return verdicts of a filter whose key must equal several columns, from those of each column alone.

    A row has no match if one of its columns has none. If each has one, these may still be different keys, unless there is
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
    if f.compares_several or (f.needs is Needs.ABSENT and data.null_safe):
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
