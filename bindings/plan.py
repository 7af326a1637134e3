"""A plan: which containers of a table to read, what that costs, and reading them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.explain import conjuncts_of
from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.statistics import Statistics
from skipstone.ir.errors import PredicateError, SourceError
from skipstone.ir.node import Node, Op, Path, columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show
from skipstone.kernels.columns import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from skipstone.bindings.predicate import Source

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DataSize:
    """How much data a set of containers holds; None is unknown, as soon as one container's is.

    Attributes:
        files: Files with at least one of the containers.
        bytes: Compressed bytes of the row groups.
        rows: Physical rows.
        logical_rows: Rows that live: physical ones less deleted ones.

    Source: Delta Lake, `DataSize`.
    """

    files: int
    bytes: int | None
    rows: int | None
    logical_rows: int | None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes at the three stages of planning: everything, after partition filters, after statistics."""

    total: DataSize
    partition: DataSize
    scan: DataSize


class PlannedTable(Protocol):
    """What a plan asks of its table."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns that have one value in each file."""
        ...

    @property
    def unreadable(self) -> Mapping[str, SourceError]:
        """Path -> error, of files of which nothing is known, and which are kept."""
        ...

    @property
    def unit(self) -> str:
        """What its containers are, for people: "row groups", "files"."""
        ...

    def statistics_in(self, timezone: str) -> Statistics:
        """Statistics of the containers, where partition values without a zone are read in this one."""
        ...

    def size(self, chosen: Mask) -> DataSize:
        """How much data some containers hold."""
        ...

    def logical_rows(self) -> Positions:
        """Rows that live in each container; -1 is unknown."""
        ...

    def row_groups_of(self, kept: Positions) -> dict[str, list[int]]:
        """Path -> indices of row groups, of some containers; an empty list is a file as a whole."""
        ...

    def read(self, plan: Plan) -> Iterator[pa.RecordBatch]:
        """The matching rows, in table order."""
        ...


@runtime_checkable
class PrunedTable(Protocol):
    """What a plan asks besides of a table of which only what a predicate left was listed, and whose partitions tell more than its columns do."""

    def total(self) -> DataSize:
        """How much data the whole table holds."""
        ...

    def whole(self) -> PlannedTable:
        """The whole table."""
        ...

    def refined(self, predicate: PruningPredicate, verdicts: npt.NDArray[np.uint8], by_partition: Mask) -> tuple[npt.NDArray[np.uint8], Mask]:
        """Verdicts, and what partition filters leave, with what the partitions say as well."""
        ...


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
        cut: What a limit left; None: there is none.
        timezone: What partition values without a zone are read in.
    """

    def __init__(
        self,
        table: PlannedTable,
        predicate: PruningPredicate | None,
        verdicts: npt.NDArray[np.uint8],
        columns: list[str],
        by_partition: Mask,
        statistics: Statistics,
        limit: int | None = None,
        timezone: str = "UTC",
    ) -> None:
        self.timezone = timezone
        self.table, self.predicate, self.statistics = table, predicate, statistics
        self.verdicts, self.columns = verdicts, columns
        self._by_partition = by_partition
        self.cut: Cut | None = None
        self._chosen: Mask = verdicts != Verdict.NEVER
        if limit is not None:
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
        if self.cut is not None:
            return "limit"
        if self.predicate is None or self.predicate.node == TRUE or not len(self.table.schema):
            return "none"
        return "partition" if self._is_of_partitions(self.predicate.node) else "data"

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
        return "dataSkippingAndPartitionFilteringV1" if any(map(self._is_of_partitions, self._conjuncts)) else "dataSkippingOnlyV1"

    @property
    def unused(self) -> tuple[str, ...]:
        """The conjuncts of the condition that can prune nothing, whatever statistics say, as SQL text: rows alone are judged by them.

        Source: Delta Lake, `DeltaScan.unusedFilters`.
        """
        p = self.predicate
        return () if p is None else tuple(show(c) for c in self._conjuncts if c != TRUE and p.part(c).always_true)

    @property
    def _conjuncts(self) -> tuple[Node, ...]:
        return () if self.predicate is None else conjuncts_of(self.predicate.node)

    def _is_of_partitions(self, n: Node) -> bool:
        return {path[0] for path in columns_of(n)} <= set(self.table.partition_columns) and not _has_unknown(n)

    @cached_property
    def sizes(self) -> Sizes:
        """What there is, what partition filters leave, what statistics leave.

        Source: Delta Lake, `DeltaScan` (total, partition, scanned).
        """
        everything = np.ones(len(self.verdicts), np.bool_)
        total = self.table.total() if isinstance(self.table, PrunedTable) else self.table.size(everything)
        return Sizes(total, self.table.size(self._by_partition), self.table.size(self._chosen))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows, in table order, a batch at a time; as many as the limit allows.

        Raises:
            UnsupportedForm: a row group that may match must be filtered by a form that only planning understands.
            SourceError: a file can no longer be read.
        """
        left = None if self.cut is None else self.cut.limit
        for batch in self.table.read(self):
            if left is None:
                yield batch
                continue
            if left:
                yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if not left:
                return

    def to_arrow(self) -> pa.Table:
        """The matching rows as an Arrow table: what reading everything and filtering in Spark would give."""
        return pa.Table.from_batches(self.to_batches(), pa.schema([self.table.schema.field(name) for name in self.columns]))

    def to_pandas(self) -> pd.DataFrame:
        """The matching rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def count(self) -> int:
        """How many rows match; as many as the limit allows.

        Containers of which every row matches are counted by their statistics, and only the others are read.
        """
        rows = self.table.logical_rows()
        known = self._chosen & (self.verdicts == Verdict.ALWAYS) & (rows >= 0)
        total, left = int(rows[known].sum()), self._chosen & ~known
        if left.any():
            names = self.columns[:1] if self.predicate is None else [p[0] for p in columns_of(self.predicate.node)][:1]
            rest = Plan(self.table, self.predicate, np.where(left, self.verdicts, 0), names, self._by_partition, self.statistics, timezone=self.timezone)
            total += sum(batch.num_rows for batch in rest.to_batches())
        return total if self.cut is None else min(total, self.cut.limit)

    def unpruned(self) -> Plan:
        """The same question without any pruning: every row group is read and every row is judged."""
        table = self.table.whole() if isinstance(self.table, PrunedTable) else self.table
        statistics = table.statistics_in(self.timezone)
        everything = np.full(statistics.num_containers, Verdict.ALWAYS if self.predicate is None else Verdict.MAYBE, np.uint8)
        return Plan(table, self.predicate, everything, self.columns, np.ones(len(everything), np.bool_), statistics, timezone=self.timezone)

    def explain(self) -> str:
        """A report for people: how the predicate was understood, and what each conjunct prunes."""
        if self.predicate is None:
            return "no predicate: everything is kept"
        return self.predicate.explain(self.statistics)

    def __repr__(self) -> str:
        s = self.sizes
        finer = "" if self.table.unit == "files" else f" {len(self.kept)} of {len(self.verdicts)} {self.table.unit},"
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
    stats_skipping: bool = True,
) -> Plan:
    """Judge every container of a table (`ParquetTable.plan` says what the arguments mean)."""
    names = table.schema.names
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise PredicateError(f"limit is {limit!r}; expected a number of rows, 0 or more, or None")
    for c in columns or ():
        if c not in names:
            raise PredicateError(f"columns names {c!r}; the table has {', '.join(names)}")
    timezone = where.timezone if isinstance(where, PruningPredicate) else timezone
    statistics = table.statistics_in(timezone)
    n = statistics.num_containers
    if where is None:
        everything = np.ones(n, np.bool_)
        return Plan(table, None, np.full(n, Verdict.ALWAYS, np.uint8), columns or names, everything, statistics, limit, timezone)
    predicate = predicate_over(table.schema, where, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive)
    only = _of_partitions(table, statistics)
    by_partition = np.ones(n, np.bool_) if only is None else predicate.prune(only)
    if not stats_skipping:
        judged = by_partition.view(np.uint8) if only is None else predicate.evaluate(only)
    else:
        judged = predicate.evaluate(statistics)
    if isinstance(table, PrunedTable):
        judged, by_partition = table.refined(predicate, judged, by_partition)
    return Plan(table, predicate, judged, columns or names, by_partition, statistics, limit, timezone)


def predicate_over(schema: pa.Schema, where: Source | PruningPredicate, *, timezone: str, ansi: bool, case_sensitive: bool) -> PruningPredicate:
    """A condition as a predicate over a table's schema.

    Raises:
        PredicateError: it is malformed, or a predicate over another schema.
    """
    if not isinstance(where, PruningPredicate):
        return PruningPredicate(where, schema, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive)
    if where.schema is not schema and not where.schema.equals(schema):
        raise PredicateError("the PruningPredicate was made for another schema; make it with table.schema, or give its text")
    return where


def _of_partitions(table: PlannedTable, statistics: Statistics) -> Statistics | None:
    """What the partition columns alone tell; None: there are none."""
    if not table.partition_columns:
        return None
    known: dict[Path, Raw] = {(name,): statistics.raw((name,)) for name in table.partition_columns}
    return Statistics(table.schema, statistics.num_containers, known)
