"""Parquet data sets: one table over many files, planned from their footers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.plan import DataSize, Plan, plan_table
from skipstone.bindings.sources.blooms import FileBlooms
from skipstone.bindings.sources.exact import ExactFlags
from skipstone.bindings.sources.files import Where, list_files, partition_fields
from skipstone.bindings.sources.footers import Container, Footer, Progress, RowGroups, common_schema, read_footers
from skipstone.bindings.statistics import Statistics
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from skipstone.bindings.predicate import PruningPredicate, Source


class ParquetTable:
    """A Parquet data set whose footers have been read.

    Attributes:
        schema: The columns of all files, partition columns last.
        partition_columns: Names of those that come from folders' names.
        footers: One per file, in table order (by path).
        containers: One per row group, in table order; an unreadable file is one container of which nothing is known.
        statistics: Of the containers.
        unreadable: Path -> error, of files kept by `on_error="keep"`.
    """

    def __init__(self, footers: list[Footer], filesystem: pafs.FileSystem, partitions: list[pa.Field]) -> None:
        self.filesystem, self.footers = filesystem, footers
        data = common_schema(footers)
        names = {f.name for f in partitions}
        # A folder's value counts, not a column of the same name in the file: so says Spark.
        self.schema: pa.Schema = pa.schema([*(f for f in data if f.name not in names), *partitions])
        self.partition_columns: tuple[str, ...] = tuple(f.name for f in partitions)
        self.containers = [c for i, f in enumerate(footers) for c in _containers(i, f)]
        self.unreadable: dict[str, SourceError] = {f.file.path: f.error for f in footers if f.error is not None}
        rows = [self.group_rows(c) for c in self.containers]
        columns = RowGroups(footers, self.containers, self.schema, partitions)
        flags = ExactFlags(footers, self.containers, columns, filesystem)
        counts = pa.array(rows, pa.int64())
        bounds = Statistics(self.schema, len(rows), columns, row_count=counts, counts_parents=True)
        blooms = FileBlooms(footers, self.containers, columns, bounds, filesystem)
        self.statistics = Statistics(self.schema, len(rows), columns, row_count=counts, extras=flags, members=blooms, counts_parents=True)

    @property
    def files(self) -> tuple[str, ...]:
        """All paths, in table order."""
        return tuple(f.file.path for f in self.footers)

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return len(self.footers)

    @property
    def unit(self) -> str:
        """What its containers are."""
        return "row groups"

    def statistics_in(self, timezone: str) -> Statistics:
        """Statistics of the row groups; partition values of folders have no zone of their own to be read in."""
        return self.statistics

    def size(self, chosen: npt.NDArray[np.bool_]) -> DataSize:
        """How much data some row groups hold."""
        groups = [self.containers[i] for i in np.flatnonzero(chosen)]
        files = self.num_files if chosen.all() else len({c.footer for c in groups})
        rows = _sum(self.group_rows(c) for c in groups)
        return DataSize(files, _sum(self.group_bytes(c) for c in groups), rows, rows)

    def logical_rows(self) -> npt.NDArray[np.int64]:
        """Rows of each row group, int64; -1 is unknown."""
        rows = (self.group_rows(c) for c in self.containers)
        return np.array([-1 if r is None else r for r in rows], np.int64)

    def null_counts(self, path: Path) -> npt.NDArray[np.int64]:
        """NULLs in each row group; -1 is unknown."""
        counts = self.statistics.raw(path).null_count
        if counts is None:
            return np.full(len(self.containers), -1, np.int64)
        found = np.asarray(counts.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        return found * self.logical_rows() if path[0] in self.partition_columns else found  # of a partition value it only says whether it is NULL

    def occurring(self, path: Path) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Whether bounds are values of the row group: if the footer says so, or for a type whose bounds nobody cuts."""
        leaf = self.statistics.leaf(path)
        whole = leaf is not None and leaf.dtype.kind not in (Kind.STRING, Kind.BINARY)
        exact = self.statistics.extras(path) if not whole or path[0] not in self.partition_columns else {}
        low, high = (exact.get(key, pa.nulls(len(self.containers), pa.bool_())).fill_null(whole) for key in ("min_exact", "max_exact"))
        return tuple(np.asarray(found.to_numpy(zero_copy_only=False), np.bool_) for found in (low, high))  # type: ignore[return-value]

    def row_groups_of(self, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
        """Path -> indices of row groups, of some containers; a file that could not be read has an empty list."""
        out: dict[str, list[int]] = {}
        for i in kept:
            c = self.containers[i]
            groups = out.setdefault(self.footers[c.footer].file.path, [])
            if c.row_group is not None:
                groups.append(c.row_group)
        return out

    def read(self, plan: Plan) -> Iterator[pa.RecordBatch]:
        """The rows that match a plan of this table."""
        from skipstone.bindings.sources.read import read_plan

        return read_plan(self, plan)

    def group_rows(self, c: Container) -> int | None:
        """Rows of a row group; None is unknown."""
        metadata = self.footers[c.footer].metadata
        return None if metadata is None or c.row_group is None else int(metadata.row_group(c.row_group).num_rows)

    def group_bytes(self, c: Container) -> int | None:
        """Compressed bytes of a row group, or of the file where it could not be read; None is unknown."""
        footer = self.footers[c.footer]
        if footer.metadata is None or c.row_group is None:
            return footer.file.size
        group = footer.metadata.row_group(c.row_group)
        return sum(int(group.column(i).total_compressed_size) for i in range(group.num_columns))

    def plan(
        self,
        where: Source | PruningPredicate | None = None,
        *,
        columns: list[str] | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
        timezone: str = "UTC",
        ansi: bool = True,
        case_sensitive: bool = False,
    ) -> Plan:
        """Decide which files and row groups to read.

        Beside footers, the bloom filters of columns with an `=` or IN test are read, of row groups whose bounds admit a value.

        Args:
            where: The condition: SQL text, an expression, filters, or a PruningPredicate over this
                table's schema. None keeps everything.
            columns: Top-level columns that reading gives; None gives all.
            limit: How many matching rows are enough, whichever they are. Row groups of which every row matches are
                kept until they have as many; if they do not, all that may match are.
            order_by: What rows are sorted by, as after ORDER BY in Spark SQL: "x DESC NULLS LAST, y". With a limit, only
                row groups that may hold one of the first rows are kept.
            timezone, ansi, case_sensitive: Spark's settings, as for PruningPredicate.

        Raises:
            PredicateError: the condition is malformed or names no column.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> plan = scan_parquet(path).plan(where="x >= 95")
            >>> plan.row_groups[path], plan.to_arrow().num_rows
            ([9], 5)
        """
        return plan_table(self, where, columns=columns, limit=limit, order_by=order_by, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive)

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names[:6]) + (", ..." if len(self.schema) > 6 else "")
        return f"ParquetTable({self.num_files} files, {len(self.containers)} row groups, columns: {names})"


def _sum(values: Iterator[int | None]) -> int | None:
    total = 0
    for v in values:
        if v is None:
            return None
        total += v
    return total


def _containers(i: int, f: Footer) -> list[Container]:
    if f.metadata is None:
        return [Container(i, None)]
    return [Container(i, g) for g in range(f.metadata.num_row_groups)]


def scan_parquet(
    where: Where,
    *,
    filesystem: pafs.FileSystem | None = None,
    base_path: str | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    progress: Progress | None = None,
) -> ParquetTable:
    """Read the footers of a Parquet data set, in parallel.

    Args:
        where: A file, a folder, a glob (`**` crosses folders), or a list of them; paths or URIs.
        filesystem: Any pyarrow file system; paths are then its own.
        base_path: The folder below which `key=value` folders are partition columns; by default the
            folder that was named, or the part of a glob before its first wildcard.
        partition_schema: Types of partition columns; the others are inferred as Spark does.
        on_error: "raise", or "keep" a file that is missing, truncated, not Parquet or encrypted: it is
            then planned to be read, and reported by `unreadable`.
        progress: Called with (footers read, files).

    Returns:
        The table. Nothing but footers has been read.

    Raises:
        SourceError: nothing is there; a file cannot be read; files have columns that do not fit together.
    """
    if on_error not in ("raise", "keep"):
        raise SourceError(f"on_error is {on_error!r}; expected 'raise' or 'keep'")
    files, fs = list_files(where, filesystem, base_path)
    given = {f.name: f.type for f in partition_schema} if isinstance(partition_schema, pa.Schema) else partition_schema
    partitions = partition_fields(files, given)
    return ParquetTable(read_footers(files, fs, keep=on_error == "keep", progress=progress), fs, partitions)
