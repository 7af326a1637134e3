"""A plan: which containers of a table to read, what that costs, and reading them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings import hooks
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.plans.aggregate import extreme
from skipstone.bindings.plans.explain import (
    Conjunct,
    conjuncts_of,
    explain_plan,
    judge_conjuncts,
    kept_because,
)
from skipstone.bindings.plans.order import SortKey, certain, read_in_order, sort_keys
from skipstone.bindings.plans.table_protocol import (
    LiveFiles,
    Mask,
    PlannedTable,
    Positions,
    PrunedTable,
    Sizes,
)
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import BackendMissing, PredicateError, unknown_column
from skipstone.ir.node import Node, Op, columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import Session
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show
from skipstone.ir.types import leaves_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pandas as pd

    from skipstone.bindings.filters.data import DynamicFilterData
    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.plans.enumerator import SplitEnumerator
    from skipstone.bindings.predicates.predicate import Source

Dynamic: TypeAlias = (
    "Sequence[DynamicFilter | DynamicFilterData] | DynamicFilter | DynamicFilterData | None"
)


@dataclass(frozen=True, slots=True)
class Cut:
    """What a limit left of a plan.

    Attributes:
        limit: Rows that were asked for.
        logical_rows: Rows that are certain to match, of the containers that are kept.
        reached: Whether these are enough, so that others were left out.

    Source: Delta Lake, `pruneFilesByLimit`.
    """

    limit: int
    logical_rows: int
    reached: bool


class Plan:
    """Which files and row groups of a table can hold a matching row.

    Attributes:
        table: The table that was planned.
        predicate: The condition; None keeps everything.
        verdicts: uint8, shape (containers,): `Verdict` of each, in table order.
        columns: What reading gives.
        statistics: What the verdicts were found by.
        order: What rows are sorted by.
        cut: What a limit left; None: there is none, or it is left to the join.
        timezone: What partition values without a zone are read in.
        dynamic: What joins say of the rows; None: nothing.
        session: What names of dynamic filters' columns are bound under; None: the plan takes none.
        settings: Spark's settings that it was asked under, and that it is planned again under.
        deferred: A limit that is left to the join, as it is not certain which of the rows here have a match.
    """

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
        static: npt.NDArray[np.uint8] | None = None,
        session: Session | None = None,
        asked: Statistics | None = None,
        settings: Session | None = None,
    ) -> None:
        self.timezone, self.order, self.dynamic, self.session = timezone, order, dynamic, session
        self.settings = settings or session or Session(timezone)
        self._asked = statistics if asked is None else asked
        self._static = verdicts if static is None else static
        self.table, self.predicate, self.statistics = table, predicate, statistics
        self.verdicts, self.columns = verdicts, columns
        self.cut: Cut | None = None
        self._chosen: Mask = verdicts != Verdict.NEVER
        self.deferred: int | None = None
        if dynamic is not None and not dynamic.decide_rows:
            self.deferred, limit = limit, None
        if limit is not None and order:
            found = certain(table, statistics, verdicts, order, limit)
            self.cut = Cut(limit, 0 if found is None else found.rows, found is not None)
            if found is not None:
                self._chosen &= found.kept
        elif limit is not None:
            self.cut, self._chosen = _limited(verdicts, table.logical_rows(), limit)

    @property
    def kept(self) -> Positions:
        """Positions of the kept containers, ascending."""
        return np.flatnonzero(self._chosen).astype(np.int64, copy=False)

    @cached_property
    def row_groups(self) -> dict[str, list[int]]:
        """Path -> indices of its kept row groups. An empty list is a file that is to be read whole: nothing finer is known of it."""
        return self.table.row_groups_of(self.kept)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files to read, in table order."""
        return tuple(self.row_groups)

    @property
    def skipping(self) -> Literal["none", "partition", "data", "limit"]:
        """Which branch of planning ran: a limit, nothing to filter by, partition columns alone, or statistics as well.

        Source: Delta Lake, `filesForScan`.
        """
        if self.cut is not None and not self.order:
            return "limit"
        asked = (
            self.predicate is not None
            and self.predicate.node != TRUE
            and len(self.table.schema) > 0
        )
        joined = {
            name
            for e in (self.dynamic.effects if self.dynamic is not None else ())
            if e.pruned
            for name in e.fields
        }
        if not asked and not joined:
            return "none"
        by_partition = not asked or (
            self.predicate is not None and self.is_of_partitions(self.predicate.node)
        )
        return (
            "partition" if by_partition and joined <= set(self.table.partition_columns) else "data"
        )

    @property
    def kind(self) -> str:
        """The same in Delta's words.

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
        return (
            "dataSkippingAndPartitionFilteringV1"
            if any(map(self.is_of_partitions, self._conjuncts))
            else "dataSkippingOnlyV1"
        )

    @property
    def unused(self) -> tuple[str, ...]:
        """The conjuncts of the condition that can prune nothing, whatever statistics say, as SQL text: rows alone are judged by them.

        Source: Delta Lake, `DeltaScan.unusedFilters`.
        """
        p = self.predicate
        return (
            ()
            if p is None
            else tuple(show(c) for c in self._conjuncts if c != TRUE and p.part(c).always_true)
        )

    @property
    def _conjuncts(self) -> tuple[Node, ...]:
        return () if self.predicate is None else conjuncts_of(self.predicate.node)

    def is_of_partitions(self, n: Node) -> bool:
        """Whether a bound condition is of partition columns alone."""
        return {path[0] for path in columns_of(n)} <= set(
            self.table.partition_columns
        ) and not _has_unknown(n)

    @cached_property
    def sizes(self) -> Sizes:
        """What there is, what partition filters leave, what statistics leave.

        Source: Delta Lake, `DeltaScan` (total, partition, scanned).
        """
        everything = np.ones(len(self.verdicts), np.bool_)
        total = (
            self.table.total()
            if isinstance(self.table, PrunedTable)
            else self.table.size(everything)
        )
        return Sizes(total, self.table.size(self._by_partition()), self.table.size(self._chosen))

    def _by_partition(self) -> Mask:
        """What partition values leave."""
        left, values = (
            np.ones(len(self.verdicts), np.bool_),
            self.statistics.of_partitions(self.table.partition_columns),
        )
        if self.predicate is not None:
            left = self.predicate.prune(values)
            left = (
                self.table.refined(self.predicate, left.view(np.uint8)) != Verdict.NEVER
                if isinstance(self.table, PrunedTable)
                else left
            )
        return (
            left
            if self.dynamic is None or not self.dynamic.filters
            else left & self.dynamic.leave(values)
        )

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows, a batch at a time, in table order or as they are to be sorted; as many as the limit allows.

        Sorted rows without a limit are all in memory at once.

        Raises:
            UnsupportedForm: a row group that may match must be filtered by a form that only planning understands.
            SourceError: a file can no longer be read.
        """
        if self.order:
            yield from read_in_order(self)
            return
        left = None if self.cut is None else self.cut.limit
        for batch in self._passing():
            if left is None:
                yield batch
                continue
            if left:
                yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if not left:
                return

    def _passing(self) -> Iterator[pa.RecordBatch]:
        """The matching rows that joins may need."""
        if self.dynamic is None or not self.dynamic.columns:
            yield from self.table.tasks(self).batches()
            return
        names = list(dict.fromkeys([*self.columns, *self.dynamic.columns]))
        for batch in self.table.tasks(self._of(self.kept, names, None)).batches():
            found = self.dynamic.passing(batch)
            if found.num_rows:
                yield found.select(self.columns)

    def to_arrow(self) -> pa.Table:
        """The matching rows as an Arrow table: what reading everything and filtering in Spark would give."""
        return pa.Table.from_batches(
            self.to_batches(), pa.schema([self.table.schema.field(name) for name in self.columns])
        )

    def to_pandas(self) -> pd.DataFrame:
        """The matching rows as a pandas DataFrame.

        Raises:
            BackendMissing: pandas is not installed.
        """
        found = self.to_arrow()
        try:
            return found.to_pandas()
        except ImportError as e:
            raise BackendMissing(
                'to_pandas needs the package pandas: pip install pandas, or pip install "skipstone[spark]", '
                "which brings it"
            ) from e

    def to_spark(self, spark: Any, *, how: Literal["auto", "native", "python"] = "auto") -> Any:
        """The matching rows as a Spark DataFrame, sorted and cut as the plan says; Spark filters them by the condition in any case.

        Args:
            spark: The session, classic or of Spark Connect.
            how: As for `skipstone.spark.read`.

        Raises:
            UnsupportedForm: `how="native"`, and Spark would read a file otherwise; or the condition cannot be given to Spark.
            SourceError: partition values without a zone were read in another zone than the session's.
            BackendMissing: PySpark or pandas is not installed.

        Example:
            >>> plan.to_spark(spark).groupBy("dest").count().show()  # doctest: +SKIP
        """
        return hooks.call("plan to Spark", spark, self, how)

    def count(self) -> int:
        """How many rows match; as many as the limit allows.

        Containers of which every row matches are counted by their statistics, and only the others are read.

        Raises:
            UnsupportedForm: a row group that may match must be filtered by a form that only planning understands.
            SourceError: a file can no longer be read.
            StaleFile: a file that is counted was replaced after it was planned
                (`docs/decisions/stale-plans.md`).
        """
        rows = self.table.logical_rows()
        if isinstance(self.table, LiveFiles):
            self.table.check_unchanged(self.kept)
        known = self._chosen & (self.verdicts == Verdict.ALWAYS) & (rows >= 0)
        total, left = int(rows[known].sum()), self._chosen & ~known
        if left.any():
            # One column tells how many rows there are: one that is read anyhow, if the condition understands any.
            asked = () if self.predicate is None else columns_of(self.predicate.node)
            names = [*(p[0] for p in asked), *self.columns][:1]
            total += sum(
                batch.num_rows for batch in self.only(np.flatnonzero(left), names).to_batches()
            )
        return total if self.cut is None else min(total, self.cut.limit)

    def min(self, column: str) -> Any:
        """The least value of a column among the matching rows, as Spark orders them; None: there is none but NULL.

        Where bounds are values that occur, and every row of a container matches, nothing is read of it; nor of those
        whose bounds say that they have no lesser one.

        Raises:
            PredicateError: the plan has a limit, or the column has no order.

        Example:
            >>> import deltalake, pyarrow as pa, tempfile, skipstone as ss
            >>> path = tempfile.mkdtemp()
            >>> deltalake.write_deltalake(path, pa.table({"x": [5, 3, 9]}))
            >>> plan = ss.scan_delta(path).plan("x > 4")
            >>> plan.min("x"), plan.max("x"), plan.count()
            (5, 9, 2)
        """
        return extreme(self, column, descending=False)

    def max(self, column: str) -> Any:
        """The greatest value of a column among the matching rows, NaN above all numbers; None: there is none but NULL. As `min`."""
        return extreme(self, column, descending=True)

    def only(self, containers: Positions, columns: list[str]) -> Plan:
        """A plan of some of the containers, by the same verdicts, without order and limit."""
        return self._of(containers, columns, self.dynamic)

    def _of(
        self, containers: Positions, columns: list[str], dynamic: DynamicFilters | None
    ) -> Plan:
        verdicts = np.zeros_like(self.verdicts)
        verdicts[containers] = self.verdicts[containers]
        return Plan(
            self.table,
            self.predicate,
            verdicts,
            columns,
            self.statistics,
            timezone=self.timezone,
            dynamic=dynamic,
            settings=self.settings,
        )

    def replanned(self) -> Plan:
        """The same plan, with what dynamic filters say by now.

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
        """The same plan, with other dynamic filters; without any, if dynamic filtering is off."""
        if self.session is None:
            return self
        from skipstone.bindings.filters.scan import DynamicFilters

        limit = self.deferred if self.cut is None else self.cut.limit
        if (
            isinstance(self.table, PrunedTable)
            and self.dynamic is not None
            and not set(self.dynamic.filters) <= set(filters)
        ):
            # What a filter ruled out that is gone now may not have been listed.
            return plan_table(
                self.table.whole(), self.predicate, columns=self.columns, timezone=self.timezone, ansi=self.session.ansi,
                case_sensitive=self.session.case_sensitive, limit=limit, order_by=[str(key) for key in self.order] or None,
                stats_skipping=self._asked is self.statistics, dynamic=list(filters), dynamic_filtering=True,
            )  # fmt: skip
        refine = self.table.refined if isinstance(self.table, PrunedTable) else None
        dynamic = DynamicFilters(tuple(filters), self.table.schema, self.session, refine=refine)
        verdicts = dynamic.judged(self._asked, self._static)
        return Plan(
            self.table, self.predicate, verdicts, self.columns, self.statistics, limit, self.timezone, self.order,
            dynamic, self._static, self.session, self._asked,
        )  # fmt: skip

    def splits(
        self,
        readers: Iterable[int] | None = None,
        *,
        min_desired_splits: int | None = None,
        hosts: Callable[[str], Iterable[str]] | None = None,
        wait: float = 0.0,
    ) -> SplitEnumerator:
        """Hand the plan out to several readers, part by part, while dynamic filters may still arrive.

        Args:
            readers: Numbers of the readers that are registered; None: any may ask.
            min_desired_splits: How many splits there should be at least: files are split between their row groups where there are fewer.
            hosts: Of a path, the hosts that it is local to.
            wait: Seconds that the first request waits for filters that are not complete.

        Source: Flink FLIP-248, `DynamicFileSplitEnumerator`.
        """
        from skipstone.bindings.plans.enumerator import SplitEnumerator

        return SplitEnumerator(
            self, readers, min_desired_splits=min_desired_splits, hosts=hosts, wait=wait
        )

    def unpruned(self) -> Plan:
        """The same question without any pruning: every row group is read and every row is judged."""
        table = self.table.whole() if isinstance(self.table, PrunedTable) else self.table
        statistics = table.statistics_in(self.timezone)
        unasked = self.predicate is None and self.dynamic is None
        everything = np.full(
            statistics.num_containers, Verdict.ALWAYS if unasked else Verdict.MAYBE, np.uint8
        )
        return Plan(
            table,
            self.predicate,
            everything,
            self.columns,
            statistics,
            timezone=self.timezone,
            order=self.order,
            dynamic=self.dynamic,
            settings=self.settings,
        )

    def explain(self) -> str:
        """A report for people: what is read and why, how the predicate was understood, and what each conjunct prunes."""
        return explain_plan(self)

    @cached_property
    def conjuncts(self) -> tuple[Conjunct, ...]:
        """What each conjunct of the condition prunes alone and after the ones before it, and why it leaves what it leaves."""
        return (
            ()
            if self.predicate is None
            else tuple(judge_conjuncts(self.predicate, self.statistics))
        )

    @cached_property
    def kept_because(self) -> dict[str, int]:
        """Reason -> containers that are kept for it: every row matches, no statistics, a form that is not understood, bounds that overlap."""
        chosen = np.where(self._chosen, self._static, 0)
        if self.predicate is None:
            return {"nothing is asked": len(self.kept)} if len(self.kept) else {}
        return kept_because(self.predicate, self.statistics, chosen)

    def __repr__(self) -> str:
        s = self.sizes
        finer = (
            ""
            if self.table.unit == "files"
            else f" {len(self.kept)} of {len(self.verdicts)} {self.table.unit},"
        )
        return f"Plan({s.scan.files} of {s.total.files} files,{finer} skipping={self.skipping!r})"


def _limited(verdicts: npt.NDArray[np.uint8], rows: Positions, limit: int) -> tuple[Cut, Mask]:
    """The first containers whose rows all match, until there are enough; else all that may match.

    Only rows that are certain to match count: those of containers that are ALWAYS, as many as live.
    """
    certain = np.flatnonzero((verdicts == Verdict.ALWAYS) & (rows >= 0))
    ends = np.cumsum(rows[certain])
    enough = int(np.searchsorted(ends, limit)) if limit else -1
    chosen = verdicts != Verdict.NEVER
    if enough < len(certain):
        chosen = np.zeros(len(verdicts), np.bool_)
        chosen[certain[: enough + 1]] = True
        return Cut(limit, int(ends[enough]) if limit else 0, reached=True), chosen
    return Cut(limit, int(ends[-1]) if len(ends) else 0, reached=False), chosen


def _has_unknown(n: Node) -> bool:
    return any(m.op is Op.UNKNOWN for m in n.walk())


def plan_table(
    table: PlannedTable,
    where: Source | PruningPredicate | None,
    *,
    columns: list[str] | None,
    timezone: str,
    ansi: bool,
    case_sensitive: bool,
    limit: int | None = None,
    order_by: str | Sequence[str] | None = None,
    stats_skipping: bool = True,
    dynamic: Dynamic = None,
    dynamic_filtering: bool | None = None,
    refine: Callable[[PruningPredicate, Statistics, npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]
    | None = None,
) -> Plan:
    """Judge every container of a table (`ParquetTable.plan` says what most arguments mean); `refine` may know more of some."""
    names = table.schema.names
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 0:
            raise PredicateError(
                f"limit is {limit!r}; expected a number of rows, 0 or more, or None"
            )
        limit = min(int(limit), np.iinfo(np.int64).max)
    if isinstance(columns, str):
        raise PredicateError(
            f"columns is {columns!r}; expected a list of names, such as [{columns!r}]"
        )
    if columns is not None and not columns:
        raise PredicateError(
            "columns names none; expected some of the table's, or None for all of them. Plan.count() counts rows"
        )
    for c in columns or ():
        if c not in names:
            raise unknown_column(str(c), names, "columns", "the table")
    timezone = where.timezone if isinstance(where, PruningPredicate) else timezone
    order = (
        ()
        if order_by is None
        else sort_keys(order_by, table.schema, Session(timezone, ansi, case_sensitive))
    )
    statistics = table.statistics_in(timezone)
    asked = statistics if stats_skipping else statistics.of_partitions(table.partition_columns)
    predicate = (
        None
        if where is None
        else predicate_over(
            table.schema, where, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive
        )
    )
    static = (
        np.full(statistics.num_containers, Verdict.ALWAYS, np.uint8)
        if predicate is None
        else predicate.evaluate(asked)
    )
    if predicate is not None and isinstance(table, PrunedTable):
        static = table.refined(predicate, static)
    if predicate is not None and refine is not None:
        static = refine(predicate, statistics, static)
    settings = Session(timezone, ansi, case_sensitive)
    session = settings if enabled(dynamic_filtering) else None
    judged, filters = static, None
    if dynamic is not None and session is not None:
        from skipstone.bindings.filters.scan import DynamicFilters, filters_of

        filters = DynamicFilters(
            filters_of(dynamic),
            table.schema,
            session,
            refine=table.refined if isinstance(table, PrunedTable) else None,
        )
        judged = filters.judged(asked, static)
    return Plan(
        table,
        predicate,
        judged,
        columns or names,
        statistics,
        limit,
        timezone,
        order,
        filters,
        static,
        session,
        asked,
        settings,
    )


def predicate_over(
    schema: pa.Schema,
    where: Source | PruningPredicate,
    *,
    timezone: str,
    ansi: bool,
    case_sensitive: bool,
) -> PruningPredicate:
    """A condition as a predicate over a table's schema.

    Raises:
        PredicateError: it is malformed, or a predicate over another schema.
    """
    if not isinstance(where, PruningPredicate):
        return PruningPredicate(
            where, schema, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive
        )
    if where.schema is not schema and not same_columns(where.schema, schema):
        raise PredicateError(
            "the PruningPredicate was made for another schema; make it with table.schema, or give its text"
        )
    return where


def same_columns(schema: pa.Schema, other: pa.Schema) -> bool:
    """Return True if two schemas have the same columns, notes such as collations included."""
    return schema.equals(other) and leaves_of(schema) == leaves_of(other)
