"""Selection: the containers that a plan reads, their sizes, and the reasons for keeping them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from skipstone.bindings.plans.table_protocol import PlannedTable, Positions, Sizes
from skipstone.bindings.plans.work import Work
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import clip, counted
from skipstone.ir.node import Node, columns_of, conjuncts_of, has_unknown
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import Session
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.plans.explain.conjuncts import Conjunct
    from skipstone.bindings.plans.explain.reasons import KeptReason
    from skipstone.bindings.plans.explain.unused import UnusedPart
    from skipstone.bindings.plans.order import SortKey
    from skipstone.bindings.plans.pages import PlanPages
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.statistics.statistics import Statistics

# Delta's name of a kind of pruning -> what prunes.
PRUNES_BY: Final = {
    "noSkippingV1": "nothing",
    "partitionFilteringOnlyV1": "partition values",
    "dataSkippingOnlyV1": "column statistics",
    "dataSkippingAndPartitionFilteringV1": "partition values and column statistics",
    "limit": "the limit",
    "filteredLimit": "the condition and the limit",
}


@dataclass(frozen=True, slots=True)
class Cut:
    """The effect of a limit on a plan.

    Attributes:
        limit: The number of rows requested.
        logical_rows: Rows of the kept containers that are fully matched.
        reached: Whether these rows are enough, so that the other containers were left out.

    Source: Delta Lake, `pruneFilesByLimit`.
    """

    limit: int
    logical_rows: int
    reached: bool


class Selection:
    """The containers of a table that are read, and why. `Plan` documents the attributes."""

    def __init__(
        self,
        table: PlannedTable,
        predicate: PruningPredicate | None,
        verdicts: npt.NDArray[np.uint8],
        columns: list[str],
        statistics: Statistics,
        limit: int | None = None,
        timezone: str = "UTC",
        order: tuple[SortKey, ...] = (),
        dynamic: DynamicFilters | None = None,
        static_verdicts: npt.NDArray[np.uint8] | None = None,
        session: Session | None = None,
        pruned_by: Statistics | None = None,
        settings: Session | None = None,
    ) -> None:
        self.timezone, self.order, self.dynamic, self.session = timezone, order, dynamic, session
        self.settings = settings or session or Session(timezone)
        # Without stats_skipping these are the partition values alone.
        self._pruned_by = statistics if pruned_by is None else pruned_by
        # The verdicts before dynamic filters, so that other filters can replace these.
        self._static_verdicts = verdicts if static_verdicts is None else static_verdicts
        self.table, self.predicate, self.statistics = table, predicate, statistics
        self.verdicts, self.columns = verdicts, columns
        self.cut: Cut | None = None
        # Wall-clock seconds of each step of planning, and what was read during them.
        self.seconds: dict[str, float] = {}
        self.work = Work()
        self._pages: PlanPages | None = None
        self._selected: Mask = verdicts != Verdict.NEVER
        self.deferred: int | None = None
        if dynamic is not None and not dynamic.decide_rows:
            self.deferred, limit = limit, None
        if limit is not None and order:
            from skipstone.bindings.plans.order import limit_cutoff

            cutoff = limit_cutoff(table, self._pruned_by, verdicts, order, limit)
            self.cut = Cut(limit, 0 if cutoff is None else cutoff.rows, cutoff is not None)
            if cutoff is not None:
                self._selected &= cutoff.candidates
        elif limit is not None:
            self.cut, self._selected = _limit_containers(verdicts, table.logical_rows(), limit)

    @property
    def _uses_statistics(self) -> bool:
        """False if only partition values may rule out rows."""
        return self._pruned_by is self.statistics

    @property
    def kept(self) -> Positions:
        """Positions of the kept containers, ascending; int64, shape (kept,)."""
        return np.flatnonzero(self._selected).astype(np.int64, copy=False)

    @cached_property
    def row_groups(self) -> dict[str, list[int]]:
        """Path -> indices of the kept row groups of that file.

        An empty list means that the whole file is read, because nothing finer is known about it.
        """
        return self.table.row_groups_of(self.kept)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files to read, in table order."""
        return tuple(self.row_groups)

    @property
    def skipping(self) -> Literal["none", "partition", "data", "limit"]:
        """The kind of pruning that was done.

        Returns:
            "limit": a limit without an order chose the containers.
            "none": no condition and no dynamic filter pruned.
            "partition": only partition columns were used.
            "data": other columns were used, too.

        Source: Delta Lake, `filesForScan`.
        """
        if self.cut is not None and not self.order:
            return "limit"
        has_condition = (
            self.predicate is not None
            and self.predicate.node != TRUE
            and len(self.table.schema) > 0
        )
        effects = self.dynamic.effects if self.dynamic is not None else ()
        joined = {name for e in effects if e.pruned for name in e.fields}
        if not has_condition and not joined:
            return "none"
        by_partition = not has_condition or (
            self.predicate is not None and self.is_of_partitions(self.predicate.node)
        )
        return (
            "partition" if by_partition and joined <= set(self.table.partition_columns) else "data"
        )

    @property
    def kind(self) -> str:
        """The kind of pruning by Delta Lake's name, such as "partitionFilteringOnlyV1".

        Source: Delta Lake, `DeltaDataSkippingType`.
        """
        filtered = self.predicate is not None and self.predicate.node != TRUE
        match self.skipping:
            case "none":
                return "noSkippingV1"
            case "partition":
                return "partitionFilteringOnlyV1"
            case "limit":
                return "filteredLimit" if filtered else "limit"
        if any(map(self.is_of_partitions, self._conjuncts)):
            return "dataSkippingAndPartitionFilteringV1"
        return "dataSkippingOnlyV1"

    @property
    def prunes_by(self) -> str:
        """What prunes, for display: "partition values", "column statistics", "nothing"."""
        effects = self.dynamic.effects if self.dynamic is not None else ()
        if not any(effect.pruned for effect in effects):
            return self._condition_prunes_by
        if self.cut is None and (self.predicate is None or self.predicate.always_true):
            return "dynamic filters"
        words = self._condition_prunes_by
        return f"{words}{',' if ' and ' in words else ''} and dynamic filters"

    @property
    def _condition_prunes_by(self) -> str:
        """The causes of pruning besides dynamic filters, in the words of `prunes_by`."""
        if self.skipping in ("partition", "data") and self.predicate is not None:
            if self.predicate.always_true:
                return "nothing"  # no part of the condition can
            if self.predicate.program.can_match == FALSE:
                return "the condition, which is never TRUE"
        return PRUNES_BY[self.kind]

    @property
    def unused(self) -> tuple[str, ...]:
        """The conjuncts that can never prune, whatever the containers' bounds are, as SQL text.

        They only filter rows.

        Source: Delta Lake, `DeltaScan.unusedFilters`.
        """
        return tuple(part.text for part in self.unused_parts if part.conjunct)

    @cached_property
    def unused_parts(self) -> tuple[UnusedPart, ...]:
        """The parts of the condition that can never prune, with the reason and a way out.

        They are the conjuncts of `unused`, and parts that are not understood of other conjuncts.
        """
        from skipstone.bindings.plans.explain.unused import unused_parts

        return unused_parts(self.predicate, bounds_elements=self.statistics.bounds_elements)

    @property
    def _conjuncts(self) -> tuple[Node, ...]:
        return () if self.predicate is None else conjuncts_of(self.predicate.node)

    def is_of_partitions(self, n: Node) -> bool:
        """Return True if a bound condition uses partition columns only."""
        return {path[0] for path in columns_of(n)} <= set(
            self.table.partition_columns
        ) and not has_unknown(n)

    @property
    def sizes(self) -> Sizes:
        """Sizes of the whole table, of the containers left by partition filters, and of those read.

        Once `Plan.pages` has been used, they count pages, too.

        Source: Delta Lake, `DeltaScan` (total, partition, scanned).
        """
        return self._sizes if self._pages is None else self._pages.within(self._sizes)

    @cached_property
    def _sizes(self) -> Sizes:
        """The sizes without pages."""
        total = self.table.total(np.ones(len(self.verdicts), np.bool_))
        partition = self.table.size(self._kept_by_partition_values())
        return Sizes(total, partition, self.table.size(self._selected))

    def _kept_by_partition_values(self, *, dynamic: bool = True) -> Mask:
        """Return which containers remain if only partition values are used.

        Args:
            dynamic: Whether the keys of joins are compared with them, too.
        """
        kept = np.ones(len(self.verdicts), np.bool_)
        values = self.statistics.of_partitions(self.table.partition_columns)
        if self.predicate is not None:
            kept = self.predicate.prune(values)
            refine = self.table.refinement()
            if refine is not None:
                kept = refine(self.predicate, kept.view(np.uint8)) != Verdict.NEVER
        if not dynamic or self.dynamic is None or not self.dynamic.filters:
            return kept
        return kept & self.dynamic.leave(values)

    @cached_property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """The effect of each conjunct of the condition.

        Each has the number of containers that it prunes alone and after the conjuncts before it,
        and the reasons why it keeps the others.
        """
        if self.predicate is None:
            return ()
        from skipstone.bindings.plans.explain.conjuncts import judge_conjuncts

        return tuple(judge_conjuncts(self.predicate, self.statistics))

    @property
    def kept_because(self) -> dict[str, int]:
        """Reason -> number of containers that are kept for this reason.

        Reasons are, for example, that every row matches, that there are no statistics, that a form
        is not understood, or that bounds overlap. If several apply, the most actionable one counts.
        """
        out: dict[str, int] = {}
        for kept in self.kept_reasons:
            out[kept.reason] = out.get(kept.reason, 0) + kept.containers
        return out

    @cached_property
    def kept_reasons(self) -> tuple[KeptReason, ...]:
        """The reasons for keeping containers, with a hint for each."""
        from skipstone.bindings.plans.explain.reasons import kept_reasons

        return kept_reasons(self)

    def __repr__(self) -> str:
        s, unlisted = self.sizes, self.table.skipped_folders
        total = counted(s.total.files, "files")
        files = counted(s.scan.files, "files") if unlisted else f"{s.scan.files} of {total}"
        folders = f" {counted(unlisted, 'folders')} not listed," if unlisted else ""
        if self.table.unit == "files":
            finer = ""
        else:
            finer = f" {len(self.kept):,} of {counted(len(self.verdicts), self.table.unit)},"
        texts = [clip(part.text) for part in self.unused_parts]
        more = f", and {len(texts) - 3} more" if len(texts) > 3 else ""
        unused = f", unused: {', '.join(texts[:3])}{more}" if texts else ""
        return f"Plan({files},{finer}{folders} pruned by: {self.prunes_by}{unused})"


def _limit_containers(
    verdicts: npt.NDArray[np.uint8], rows: Positions, limit: int
) -> tuple[Cut, Mask]:
    """Choose the first fully matched containers that have enough rows for a limit.

    If they have too few rows, keep every container that may match. Only the live rows of
    fully matched containers count.
    """
    always = np.flatnonzero((verdicts == Verdict.ALWAYS) & (rows >= 0))
    ends = np.cumsum(rows[always])
    enough = int(np.searchsorted(ends, limit)) if limit else -1
    selected = verdicts != Verdict.NEVER
    if enough < len(always):
        selected = np.zeros(len(verdicts), np.bool_)
        selected[always[: enough + 1]] = True
        return Cut(limit, int(ends[enough]) if limit else 0, reached=True), selected
    return Cut(limit, int(ends[-1]) if len(ends) else 0, reached=False), selected
