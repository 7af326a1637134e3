"""Plan: which containers of a table to read, what that costs, and reading them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings import hooks
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.plans.records import log_planned
from skipstone.bindings.plans.request import PlanRequest, check_columns, check_limit
from skipstone.bindings.plans.shown import Shown
from skipstone.bindings.plans.table_protocol import PlannedTable, Positions
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.plans.enumerator import SplitEnumerator
    from skipstone.bindings.plans.order import SortKey


TIMED_STEPS: Final = ("condition", "statistics", "dynamic", "limit")  # in the order of `plan_table`


class Plan(Shown):
    """The files and row groups of a table that can hold a matching row, and how to read them.

    Tables make plans: `table.plan("x > 5")`. A plan reads no data until one of its `to_` methods,
    `count`, `min` or `max` is called.

    Attributes:
        table: The table that was planned.
        predicate: The condition; None keeps every row.
        verdicts: uint8, shape (containers,): the `Verdict` of each container, in table order.
        columns: Names of the columns that reading returns.
        statistics: The statistics that gave the verdicts.
        order: The columns that rows are sorted by.
        cut: The effect of the limit; None if there is no limit, or if it is deferred.
        timezone: The zone in which partition values without a zone are read.
        dynamic: The dynamic filters of joins; None if there are none.
        session: Spark's settings for resolving the columns of dynamic filters; None if the plan
            accepts no dynamic filters.
        settings: Spark's settings under which the plan was made, and is made again.
        deferred: A limit that is left to the join, because it is not certain which rows have a
            match; else None.
    """

    def count(self) -> int:
        """Return the number of matching rows, at most the limit.

        Fully matched containers are counted from their statistics. Only the others are read.

        Raises:
            UnsupportedForm: rows of a container must be filtered by a form that only planning
                understands.
            SourceError: a file can no longer be read.
            StaleFile: a file that is counted was replaced after it was planned
                (`docs/decisions/stale-plans.md`).
        """
        rows = self.table.logical_rows()
        self.table.check_unchanged(self.kept)
        counted = self._selected & (self.verdicts == Verdict.ALWAYS) & (rows >= 0)
        total, unread = int(rows[counted].sum()), self._selected & ~counted
        if unread.any():
            # One column is enough to count rows; a column of the condition is read anyway.
            used = () if self.predicate is None else columns_of(self.predicate.node)
            names = [*(path[0] for path in used), *self.columns][:1]
            batches = self.only(np.flatnonzero(unread), names).to_batches()
            total += sum(batch.num_rows for batch in batches)
        return total if self.cut is None else min(total, self.cut.limit)

    def min(self, column: str) -> Any:
        """Return the least value of a column among the matching rows, in Spark's order.

        A fully matched container with exact bounds is not read. Neither is a container whose
        bounds prove that it has no lesser value.

        Args:
            column: The column's name; a struct's field is written `a.b`.

        Returns:
            The value; None if no row matches, or if all values are NULL.

        Raises:
            UnknownColumn: the table lacks the column.
            PredicateError: the plan has a limit, or the column has no order.
            StaleFile: a file was replaced after it was planned.

        Example:
            >>> import deltalake, pyarrow as pa, tempfile, skipstone as ss
            >>> path = tempfile.mkdtemp()
            >>> deltalake.write_deltalake(path, pa.table({"x": [5, 3, 9]}))
            >>> plan = ss.scan_delta(path).plan("x > 4")
            >>> plan.min("x"), plan.max("x"), plan.count()
            (5, 9, 2)
        """
        from skipstone.bindings.plans.aggregate import extreme

        return extreme(self, column, descending=False)

    def max(self, column: str) -> Any:
        """Return the greatest value of a column among the matching rows; NaN is above all numbers.

        Arguments, result and errors are those of `min`.
        """
        from skipstone.bindings.plans.aggregate import extreme

        return extreme(self, column, descending=True)

    def only(self, containers: Positions, columns: list[str]) -> Plan:
        """Return a plan of some of the containers, with the same verdicts, no order and no limit.

        Args:
            containers: Positions of the containers.
            columns: Names of the columns that reading returns.
        """
        return self._restricted(containers, columns, self.dynamic)

    def _judged(
        self,
        predicate: PruningPredicate | None,
        verdicts: npt.NDArray[np.uint8],
        columns: list[str],
        dynamic: DynamicFilters | None = None,
    ) -> Plan:
        return Plan(
            self.table, predicate, verdicts, columns, self.statistics, None, self.timezone,
            dynamic=dynamic, pruned_by=self._pruned_by, settings=self.settings,
        )  # fmt: skip

    def replanned(self) -> Plan:
        """Return this plan with the keys that its dynamic filters have by now.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> later = ss.DynamicFilter(columns={"k": "x"})
            >>> plan = ss.scan_parquet(path).plan(dynamic=[later])
            >>> collector = ss.DynamicFilterCollector(["k"], pa.schema([("k", pa.int64())]))
            >>> collector.add(pa.table({"k": [7, 95]}))
            >>> later.report(collector.finish())
            True
            >>> len(plan.kept), len(plan.replanned().kept)
            (10, 2)
        """
        return self if self.dynamic is None else self.with_dynamic(self.dynamic.filters)

    def with_dynamic(self, filters: Sequence[DynamicFilter]) -> Plan:
        """Return this plan with other dynamic filters.

        If dynamic filtering is off, return the plan itself.
        """
        if self.session is None:
            return self
        from skipstone.bindings.filters.scan import DynamicFilters, filters_of

        filters = filters_of(filters)
        limit = self.deferred if self.cut is None else self.cut.limit
        if self.dynamic is not None and not set(self.dynamic.filters) <= set(filters):
            # Files that a removed filter ruled out may not have been listed.
            again = self.table.replan(self._request(limit, filters))
            if again is not None:
                return again
        dynamic, verdicts = None, self._static_verdicts
        if filters:
            dynamic = DynamicFilters(
                tuple(filters), self.table.schema, self.session, refine=self.table.refinement()
            )
            verdicts = dynamic.judged(self._pruned_by, self._static_verdicts)
        return Plan(
            self.table, self.predicate, verdicts, self.columns, self.statistics, limit,
            timezone=self.timezone, order=self.order, dynamic=dynamic,
            static_verdicts=self._static_verdicts, session=self.session,
            pruned_by=self._pruned_by,
        )  # fmt: skip

    def _request(self, limit: int | None, filters: Sequence[DynamicFilter]) -> PlanRequest:
        """Return the request of this plan, with another limit and other dynamic filters."""
        return PlanRequest(
            self.predicate,
            self.columns,
            limit,
            [str(key) for key in self.order] or None,
            stats_skipping=self._uses_statistics,
            dynamic=list(filters) or None,
            dynamic_filtering=self.session is not None,  # whatever the environment says by now
            timezone=self.timezone,
            ansi=self.settings.ansi,
            case_sensitive=self.settings.case_sensitive,
        )

    def splits(
        self,
        readers: Iterable[int] | None = None,
        *,
        min_desired_splits: int | None = None,
        hosts: Callable[[str], Iterable[str]] | None = None,
        wait: float = 0.0,
    ) -> SplitEnumerator:
        """Distribute the plan over several readers, while dynamic filters may still arrive.

        Args:
            readers: Numbers of the registered readers; None allows any reader.
            min_desired_splits: The number of splits to reach. If there are fewer files, files are
                split between their row groups.
            hosts: Returns the hosts that have a path locally.
            wait: Seconds that the first request waits for incomplete filters.

        Source: Flink FLIP-248, `DynamicFileSplitEnumerator`.
        """
        from skipstone.bindings.plans.enumerator import SplitEnumerator

        return SplitEnumerator(
            self, readers, min_desired_splits=min_desired_splits, hosts=hosts, wait=wait
        )

    def unpruned(self) -> Plan:
        """Return the plan of the same rows without pruning: it reads and filters everything."""
        table = self.table.whole()
        statistics = table.statistics_in(self.timezone)
        unfiltered = self.predicate is None and self.dynamic is None
        verdict = Verdict.ALWAYS if unfiltered else Verdict.MAYBE
        verdicts = np.full(statistics.num_containers, verdict, np.uint8)
        return Plan(
            table, self.predicate, verdicts, self.columns, statistics, timezone=self.timezone,
            order=self.order, dynamic=self.dynamic, settings=self.settings,
        )  # fmt: skip

    @property
    def pages(self) -> dict[str, dict[int, list[tuple[int, int]]]]:
        """Path -> row group -> the row ranges that remain after page pruning; kept row groups only.

        Pages are containers within row groups. Pages of different columns end at different rows, so
        the result is ranges of rows: half-open, ascending, counted from the start of the row group,
        deleted rows included. A row group has one range, all of its rows, if every row matches or
        its pages rule out none, and an empty list if they rule out all. A file has an empty mapping
        if nothing finer is known about it, so that it is kept whole: it could not be read
        (`table.unreadable`), it is not Parquet, or Iceberg's equality deletes apply to it.

        Only the condition prunes pages here; joins, order and limit do not. Reading rows by a plan
        prunes by pages in any case, unless it was made with `stats_skipping=False`.

        The first use reads the column and offset indexes of the condition's columns, those of a
        file together. For local files without indexes, it reads the headers of these columns'
        pages. It also reads the footers of Delta and Iceberg files, and of files whose footer is
        known only from a saved file. Indexes that contradict the footer, themselves or the headers
        of pages at the ends of ranges rule out nothing.

        Raises:
            SourceError: a file can no longer be read.
            StaleFile: a file was replaced after it was planned.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os, skipstone as ss
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> rows = pa.table({"x": range(100)})
            >>> pq.write_table(rows, path, row_group_size=50, max_rows_per_page=10,
            ...                write_batch_size=10, write_page_index=True)
            >>> plan = ss.scan_parquet(path).plan("x IN (12, 34) OR x >= 45")
            >>> plan.pages[path]
            {0: [(10, 20), (30, 50)], 1: [(0, 50)]}
            >>> plan.sizes.scan.pages, plan.sizes.pages.pages, plan.sizes.pages.rows
            (5, 3, 80)
        """
        if self._pages is None:
            plan = self if self._uses_statistics else self._unfiltered()
            self._pages = hooks.call("pages of plan", plan)
        return self._pages.ranges


def plan_table(
    table: PlannedTable,
    request: PlanRequest,
    refine: Callable[[PruningPredicate, Statistics, npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]
    | None = None,
) -> Plan:
    """Judge every container of a table and return the plan.

    Args:
        table: The table.
        request: The condition, columns, limit, order and settings.
        refine: Returns better verdicts, from knowledge that the statistics lack.

    Raises:
        PredicateError: the condition, the limit, the columns or the order are malformed.
        UnknownColumn: the table lacks a column.
        DynamicFilterError: `dynamic` holds no dynamic filters.
    """
    clock = [time.perf_counter()]
    schema, settings = table.schema, request.settings
    limit, columns = check_limit(request.limit), check_columns(request.columns, schema.names)
    order: tuple[SortKey, ...] = ()
    if request.order_by is not None:
        from skipstone.bindings.plans.order import sort_keys

        order = sort_keys(request.order_by, schema, settings)
    statistics = pruned_by = table.statistics_in(settings.timezone)
    if not request.stats_skipping:
        pruned_by = statistics.of_partitions(table.partition_columns)
    predicate, refinement = request.predicate(schema), table.refinement()
    clock.append(time.perf_counter())
    if predicate is None:
        static = np.full(statistics.num_containers, Verdict.ALWAYS, np.uint8)
    else:
        if pruned_by is statistics:
            table.load(columns_of(predicate.node))
        static = predicate.evaluate(pruned_by)
        static = static if refinement is None else refinement(predicate, static)
        static = static if refine is None else refine(predicate, statistics, static)
    clock.append(time.perf_counter())
    filters = request.filters(schema, refinement)
    verdicts = static if filters is None else filters.judged(pruned_by, static)
    session = settings if enabled(request.dynamic_filtering) else None
    clock.append(time.perf_counter())
    log_planned(table, predicate, verdicts, clock[0])
    plan = Plan(
        table, predicate, verdicts, columns, statistics, limit, timezone=settings.timezone,
        order=order, dynamic=filters, static_verdicts=static, session=session,
        pruned_by=pruned_by, settings=settings,
    )  # fmt: skip
    clock.append(time.perf_counter())
    plan.seconds = dict(zip(TIMED_STEPS, np.diff(clock).tolist(), strict=True))
    return plan
