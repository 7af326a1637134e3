"""A plan: which containers of a table to read, what that costs, and reading them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.statistics import Statistics
from skipstone.ir.errors import PredicateError
from skipstone.ir.node import Node, Op, Path, columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.simplify import TRUE
from skipstone.kernels.columns import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from skipstone.bindings.predicate import Source
    from skipstone.bindings.sources.parquet import ParquetTable

Mask = npt.NDArray[np.bool_]


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


class Plan:
    """Which files and row groups of a table can hold a matching row.

    Attributes:
        table: The table that was planned.
        predicate: The condition; None keeps everything.
        verdicts: uint8, shape (row groups,): `Verdict` of each, in table order.
        columns: What reading gives.
    """

    def __init__(
        self, table: ParquetTable, predicate: PruningPredicate | None, verdicts: npt.NDArray[np.uint8], columns: list[str], by_partition: Mask
    ) -> None:
        self.table, self.predicate = table, predicate
        self.verdicts, self.columns = verdicts, columns
        self._by_partition = by_partition

    @property
    def kept(self) -> npt.NDArray[np.int64]:
        """Positions of the kept containers, ascending."""
        return np.flatnonzero(self.verdicts != Verdict.NEVER).astype(np.int64, copy=False)

    @cached_property
    def row_groups(self) -> dict[str, list[int]]:
        """Path -> indices of its kept row groups. A file that could not be read has an empty list: read it whole."""
        out: dict[str, list[int]] = {}
        for i in self.kept:
            c = self.table.containers[i]
            groups = out.setdefault(self.table.footers[c.footer].file.path, [])
            if c.row_group is not None:
                groups.append(c.row_group)
        return out

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files to read, in table order."""
        return tuple(self.row_groups)

    @property
    def skipping(self) -> Literal["none", "partition", "data", "limit"]:
        """Which branch of planning ran: nothing to filter by, partition columns alone, or statistics as well.

        Source: Delta Lake, `filesForScan`.
        """
        if self.predicate is None or self.predicate.node == TRUE or not len(self.table.schema):
            return "none"
        read = {path[0] for path in columns_of(self.predicate.node)}
        return "partition" if read <= set(self.table.partition_columns) and not _has_unknown(self.predicate.node) else "data"

    @cached_property
    def sizes(self) -> Sizes:
        """What there is, what partition filters leave, what statistics leave.

        Source: Delta Lake, `DeltaScan` (total, partition, scanned).
        """
        everything = np.ones(len(self.verdicts), np.bool_)
        return Sizes(self._size(everything), self._size(self._by_partition), self._size(self.verdicts != Verdict.NEVER))

    def _size(self, mask: Mask) -> DataSize:
        chosen = [self.table.containers[i] for i in np.flatnonzero(mask)]
        total = self.table.num_files if mask.all() else len({c.footer for c in chosen})
        rows = _sum(self.table.group_rows(c) for c in chosen)
        return DataSize(total, _sum(self.table.group_bytes(c) for c in chosen), rows, rows)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows, in table order, a batch at a time.

        Raises:
            UnsupportedForm: a row group that may match must be filtered by a form that only planning understands.
            SourceError: a file can no longer be read.
        """
        from skipstone.bindings.sources.read import read_plan

        return read_plan(self)

    def to_arrow(self) -> pa.Table:
        """The matching rows as an Arrow table: what reading everything and filtering in Spark would give."""
        from skipstone.bindings.sources.read import output_schema

        return pa.Table.from_batches(self.to_batches(), output_schema(self))

    def to_pandas(self) -> pd.DataFrame:
        """The matching rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def unpruned(self) -> Plan:
        """The same question without any pruning: every row group is read and every row is judged."""
        everything = np.full(len(self.verdicts), Verdict.ALWAYS if self.predicate is None else Verdict.MAYBE, np.uint8)
        return Plan(self.table, self.predicate, everything, self.columns, np.ones(len(everything), np.bool_))

    def explain(self) -> str:
        """A report for people: how the predicate was understood, and what each conjunct prunes."""
        if self.predicate is None:
            return "no predicate: everything is kept"
        return self.predicate.explain(self.table.statistics)

    def __repr__(self) -> str:
        s = self.sizes
        return f"Plan({s.scan.files} of {s.total.files} files, {len(self.kept)} of {len(self.verdicts)} row groups, skipping={self.skipping!r})"


def _sum(values: Iterator[int | None]) -> int | None:
    total = 0
    for v in values:
        if v is None:
            return None
        total += v
    return total


def _has_unknown(n: Node) -> bool:
    return any(m.op is Op.UNKNOWN for m in n.walk())


def plan_table(
    table: ParquetTable,
    where: Source | PruningPredicate | None,
    *,
    columns: list[str] | None,
    timezone: str,
    ansi: bool,
    case_sensitive: bool,
) -> Plan:
    """Judge every container of a table (`ParquetTable.plan` says what the arguments mean)."""
    names = table.schema.names
    for c in columns or ():
        if c not in names:
            raise PredicateError(f"columns names {c!r}; the table has {', '.join(names)}")
    n = len(table.containers)
    if where is None:
        everything = np.ones(n, np.bool_)
        return Plan(table, None, np.full(n, Verdict.ALWAYS, np.uint8), columns or names, everything)
    predicate = (
        where if isinstance(where, PruningPredicate) else PruningPredicate(where, table.schema, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive)
    )
    if predicate.schema is not table.schema and not predicate.schema.equals(table.schema):
        raise PredicateError("the PruningPredicate was made for another schema; make it with table.schema, or give its text")
    return Plan(table, predicate, predicate.evaluate(table.statistics), columns or names, _partition_mask(table, predicate))


def _partition_mask(table: ParquetTable, predicate: PruningPredicate) -> Mask:
    """What the partition columns alone leave."""
    if not table.partition_columns:
        return np.ones(len(table.containers), np.bool_)
    known: dict[Path, Raw] = {(name,): table.statistics.raw((name,)) for name in table.partition_columns}
    only = Statistics(table.schema, len(table.containers), known)
    return predicate.prune(only)
