"""Parquet data sets: one table over many files, planned from what is known of their row groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.location import FileSystemLike, Location, in_folder, path_text, resolve
from skipstone.bindings.plans.plan import Plan, plan_table
from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.dynamic_table import DynamicTable
from skipstone.bindings.tables.files import (
    UNKNOWN,
    Files,
    Ints,
    Where,
    check_unchanged,
    list_files,
    partition_folders,
)
from skipstone.bindings.tables.parquet.blooms import FileBlooms
from skipstone.bindings.tables.parquet.file_schemas import common_schema
from skipstone.bindings.tables.parquet.footer_cache import FooterCache
from skipstone.bindings.tables.parquet.footers import FooterPart, Progress
from skipstone.bindings.tables.parquet.groups import Columns, Exactness, RowGroups, forms_in
from skipstone.bindings.tables.parquet.saved_footers import NAME, write_snapshot
from skipstone.bindings.tables.partitions import partition_fields
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Dynamic
    from skipstone.bindings.predicates.predicate import PruningPredicate, Source
    from skipstone.bindings.tables.read import Tasks


class ParquetTable(DynamicTable):
    """A Parquet data set whose footers are known: read, or saved before.

    Attributes:
        filesystem: Where its files are.
        schema: The columns of all files, partition columns last.
        partition_columns: Names of those that come from folders' names.
        groups: Its row groups, in table order; an unreadable file is one of which nothing is known.
        footers: Path -> footer, of the files whose own footer was read.
        unreadable: Path -> error, of files kept by `on_error="keep"`.
    """

    def __init__(
        self,
        files: Files,
        known: FooterCache,
        partitions: list[pa.Field],
        listed: int,
        schema: pa.Schema | None = None,
        progress: Progress | None = None,
        values: Mapping[str, pa.Array] | None = None,
    ) -> None:
        self.filesystem = known.filesystem
        self._known, self._listed = known, listed
        parts = known.parts(files, progress)
        names = {f.name.lower() for f in partitions}
        # A folder's value counts, not a column of the same name in the file: so says Spark.
        data = common_schema(forms_in(parts)) if schema is None else schema
        self.schema: pa.Schema = pa.schema(
            [*(f for f in data if f.name.lower() not in names), *partitions]
        )
        self.partition_columns: tuple[str, ...] = tuple(f.name for f in partitions)
        self.groups = RowGroups(files, parts, self.schema, partitions, values)
        footers = [f for p in parts if isinstance(p, FooterPart) for f in p.footers]
        self.unreadable: dict[str, SourceError] = {
            f.path: f.error for f in footers if f.error is not None
        }
        self.footers = {f.path: f.tail for f in footers if f.tail is not None and f.own}
        self._statistics: dict[str, Statistics] = {}

    @property
    def statistics(self) -> Statistics:
        """Statistics of the row groups; partition timestamps without a zone are read in UTC."""
        return self.statistics_in("UTC")

    def statistics_in(self, timezone: str) -> Statistics:
        """Statistics of the row groups; partition timestamps without a zone are read in this one."""
        if not any(
            pa.types.is_timestamp(f.type) and f.type.tz is not None
            for f in self.groups.partitions.values()
        ):
            timezone = "UTC"
        if timezone not in self._statistics:
            n, columns = len(self.groups), Columns(self.groups, timezone)
            rows = _counts(self.groups.rows)
            bounds = Statistics(self.schema, n, columns, row_count=rows, counts_parents=True)
            blooms = FileBlooms(self.groups, bounds, self.filesystem, self._known.meter)
            self._statistics[timezone] = Statistics(
                self.schema, n, columns, row_count=rows, extras=Exactness(columns), members=blooms, counts_parents=True
            )  # fmt: skip
        return self._statistics[timezone]

    @property
    def work(self) -> Work:
        """What was read so far, by the scan and by plans."""
        return self._known.meter.work

    @property
    def files(self) -> tuple[str, ...]:
        """All paths, in table order."""
        return tuple(self.groups.files.paths.to_pylist())

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return len(self.groups.files)

    @property
    def unit(self) -> str:
        """What its containers are."""
        return "row groups"

    def size(self, chosen: npt.NDArray[np.bool_]) -> DataSize:
        """How much data some row groups hold."""
        files = int(np.count_nonzero(np.diff(self.groups.file[chosen], prepend=-1)))
        rows = _sum(self.groups.rows[chosen])
        nbytes = np.where(
            self.groups.group == UNKNOWN,
            self.groups.files.sizes[self.groups.file],
            self.groups.nbytes,
        )
        return DataSize(files, _sum(nbytes[chosen]), rows, rows)

    def logical_rows(self) -> npt.NDArray[np.int64]:
        """Rows of each row group, int64; -1 is unknown."""
        return self.groups.rows

    def null_counts(self, path: Path) -> npt.NDArray[np.int64]:
        """NULLs in each row group; -1 is unknown."""
        counts = self.statistics.raw(path).null_count
        if counts is None:
            return np.full(len(self.groups), -1, np.int64)
        found = np.asarray(counts.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        return (
            found * self.logical_rows() if path[0] in self.partition_columns else found
        )  # of a partition value it only says whether it is NULL

    def occurring(self, path: Path) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Whether bounds are values of the row group: if the footer says so, or for a type whose bounds nobody cuts."""
        leaf = self.statistics.leaf(path)
        whole = leaf is not None and leaf.dtype.kind not in (Kind.STRING, Kind.BINARY)
        exact = (
            self.statistics.extras(path)
            if not whole or path[0] not in self.partition_columns
            else {}
        )
        low, high = (
            exact.get(key, pa.nulls(len(self.groups), pa.bool_())).fill_null(whole)
            for key in ("min_exact", "max_exact")
        )
        return tuple(
            np.asarray(found.to_numpy(zero_copy_only=False), np.bool_) for found in (low, high)
        )  # type: ignore[return-value]

    def row_groups_of(self, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
        """Path -> indices of row groups, of some containers; a file that could not be read has an empty list."""
        files = self.groups.file[kept]
        starts = np.flatnonzero(np.diff(files, prepend=-1))
        paths = self.groups.files.paths.take(pa.array(files[starts])).to_pylist()
        groups = np.split(self.groups.group[kept], starts[1:])
        return {
            path: [g for g in own.tolist() if g != UNKNOWN]
            for path, own in zip(paths, groups, strict=False)
        }

    def check_unchanged(self, containers: npt.NDArray[np.int64]) -> None:
        """Raise StaleFile if a file of these row groups is not the one whose footer was read;
        local files alone are looked at.
        """
        at = np.unique(self.groups.file[containers])
        files = self.groups.files.take(at)
        check_unchanged(
            self.filesystem, files.paths.to_pylist(), files.sizes.tolist(), files.times.tolist()
        )

    def tasks(self, plan: Plan, *, lenient: bool = False) -> Tasks:
        """How to read the rows that match a plan of this table."""
        from skipstone.bindings.tables.read import tasks_of

        return tasks_of(self, plan, lenient)

    def save_stats(self, path: Location | None = None) -> str:
        """Save what the footers say, so that later scans read those of new and changed files only.

        A scan finds the file beside the data, or takes it as `stats=`. It uses what it says of files whose path, size,
        time and, where the file system tells one, etag are the same. Files that were changed in the last few
        milliseconds before they were listed (two seconds, where times are whole seconds) are left out: they might
        change again and keep their time. So are those that cannot be read.

        Args:
            path: A file; None is `_skipstone_stats` in the table's folder, which Spark passes over. One of that name is
                replaced at once when the new one is whole and on disk; who is reading the old one keeps it.

        Returns:
            Where it is.

        Raises:
            SourceError: files were named one by one, so that there is no folder to put it in.
            OSError: it cannot be written.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> folder = tempfile.mkdtemp()
            >>> pq.write_table(pa.table({"x": range(100)}), os.path.join(folder, "t.parquet"), row_group_size=10)
            >>> os.utime(os.path.join(folder, "t.parquet"), (1, 1))
            >>> _ = scan_parquet(folder).save_stats()
            >>> again = scan_parquet(folder)
            >>> again.work["footers"], len(again.plan("x = 5").kept)
            (0, 1)
        """
        if path is None and self._known.root is None:
            raise SourceError(
                "files were named, not a folder, so there is no place beside the data; give save_stats a path"
            )
        fs, where = (
            (self.filesystem, in_folder(self._known.root or "", NAME))
            if path is None
            else resolve(path)
        )
        groups = self._with_all_columns()
        write_snapshot(groups, Exactness(Columns(groups, "UTC")), self._listed, fs, where)
        return where

    def _with_all_columns(self) -> RowGroups:
        """The row groups with every column that a file has, whether or not the table does, if these fit together."""
        g = self.groups
        try:
            schema = common_schema(forms_in(g.parts))
        except SourceError:
            return g
        names = {name.lower() for name in g.partitions}
        data = [f for f in schema if f.name.lower() not in names]
        return RowGroups(
            g.files,
            g.parts,
            pa.schema([*data, *g.partitions.values()]),
            list(g.partitions.values()),
        )

    def plan(
        self,
        where: Source | PruningPredicate | None = None,
        *,
        columns: list[str] | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
        dynamic: Dynamic = None,
        dynamic_filtering: bool | None = None,
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
            dynamic: What joins say of the rows: `DynamicFilterData` of a collector, or `DynamicFilter`, which may still be on its
                way. What they rule out is not read; a limit chooses among the rows that they leave.
            dynamic_filtering: Whether `dynamic` counts at all; None: as the table says, or the environment.
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
        with self._known.meter.phase("planning"):
            return plan_table(
                self,
                where,
                columns=columns,
                limit=limit,
                order_by=order_by,
                dynamic=dynamic,
                dynamic_filtering=enabled(dynamic_filtering, self.dynamic_filtering),
                timezone=timezone,
                ansi=ansi,
                case_sensitive=case_sensitive,
            )

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names[:6]) + (", ..." if len(self.schema) > 6 else "")
        return (
            f"ParquetTable({self.num_files} files, {len(self.groups)} row groups, columns: {names})"
        )


def _counts(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == UNKNOWN)


def _sum(values: Ints) -> int | None:
    """Of numbers; None where one is unknown."""
    return None if (values == UNKNOWN).any() else int(values.sum())


def scan_parquet(
    where: Where,
    *,
    filesystem: FileSystemLike | None = None,
    base_path: Location | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    progress: Progress | None = None,
    stats: Location | Literal[False] | None = None,
    use_metadata: bool = True,
) -> ParquetTable:
    """Read the footers of a Parquet data set, in parallel, as far as nothing else tells what they say.

    Args:
        where: A file, a folder, a glob (`**` crosses folders), or a list of them; paths or URIs. The
            folder of a Delta or Iceberg table is refused: it holds files that the table removed.
        filesystem: Any file system of pyarrow or fsspec, the name of an fsspec protocol, or the URI of
            a folder; paths are then its own.
        base_path: The folder below which `key=value` folders are partition columns; by default the
            folder that was named, or the part of a glob before its first wildcard.
        partition_schema: Types of partition columns; the others are inferred as Spark does.
        on_error: "raise", or "keep" a file that is missing, truncated, not Parquet or encrypted: it is
            then planned to be read, and reported by `unreadable`.
        progress: Called with (files whose footer is known, files).
        stats: A path or URI that `save_stats` wrote. None looks beside the data, and reads footers if nothing that is
            there can be used; False looks nowhere. Files that were changed since have their footers read.
        use_metadata: Whether a `_metadata` file in the folder that is named stands for the footers of the files that it
            fits: it mentions them, is not older, and its row groups lie within them without gaps. A file that was since replaced
            by an older one of much the same size cannot be told from the one that it means: then say False.

    Returns:
        The table. Nothing but footers, or what stands for them, has been read; `work` counts it.

    Raises:
        SourceError: nothing is there; a file cannot be read; files have columns that do not fit together.
        StatisticsError: `stats` names a file that is damaged, or of another version.
    """
    if on_error not in ("raise", "keep"):
        raise SourceError(f"on_error is {on_error!r}; expected 'raise' or 'keep'")
    meter, listed = Meter(), time.time_ns()
    with meter.phase("listing"):
        found = list_files(where, filesystem, base_path, meter)
        partitions = partition_fields(partition_folders(found.files), types_of(partition_schema))
    named = saved_at(stats)
    known = FooterCache(
        found.root, found.filesystem, named, meter, summaries=use_metadata, keep=on_error == "keep"
    )
    return ParquetTable(found.files, known, partitions, listed, progress=progress)


def types_of(
    given: Mapping[str, pa.DataType] | pa.Schema | None,
) -> Mapping[str, pa.DataType] | None:
    """Return types by name, of a schema or as they are.

    Raises:
        SourceError: it is none of these.
    """
    if isinstance(given, pa.Schema):
        return {f.name: f.type for f in given}
    if given is not None and not isinstance(given, Mapping):
        raise SourceError(
            f"partition_schema is a {type(given).__name__}; expected a schema, or types by name"
        )
    for name, kind in (given or {}).items():
        if not isinstance(kind, pa.DataType):
            raise SourceError(
                f"partition_schema gives {name!r} the type {kind!r}; expected a pyarrow type, such as pa.int32()"
            )
    return given


def saved_at(stats: Location | bool | None) -> str | bool | None:
    """Return `stats=` as text, None or False.

    Raises:
        SourceError: it is none of these.
    """
    if stats is None or stats is False:
        return stats
    if isinstance(stats, bool):
        raise SourceError("stats is True; expected a path, None to look beside the data, or False")
    return path_text(stats)
