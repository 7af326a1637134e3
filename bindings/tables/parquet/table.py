"""Parquet tables: one table over many files, planned from the statistics of their row groups."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.location import (
    FileSystemLike,
    Location,
    all_of,
    chosen_filesystem,
    in_folder,
    resolve,
)
from skipstone.bindings.plans.plan import Plan, plan_table
from skipstone.bindings.plans.records import log_opened
from skipstone.bindings.plans.table_protocol import CompleteTable, DatasetFile, DataSize
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.progress import FooterProgress, reporting
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.files import (
    Files,
    Where,
    list_files,
    partition_folders,
)
from skipstone.bindings.tables.parquet.contents import Contents, contents_of
from skipstone.bindings.tables.parquet.footer_cache import FooterCache
from skipstone.bindings.tables.parquet.groups import Exactness, LazyColumns
from skipstone.bindings.tables.parquet.options import (
    SNAPSHOT_NAME,
    check_on_error,
    saved_at,
    types_of,
)
from skipstone.bindings.tables.partitions import partition_fields
from skipstone.bindings.tables.table import Table
from skipstone.bindings.tables.unchanged import check_unchanged
from skipstone.ir.arrow import booleans_of, fill, int64_of
from skipstone.ir.errors import SourceError, counted
from skipstone.ir.node import Path
from skipstone.ir.session import check_flag
from skipstone.ir.types import TEXT
from skipstone.kernels.decode.arrays import distinct
from skipstone.kernels.settings import ProgressSetting

if TYPE_CHECKING:
    from skipstone.bindings.plans.readers import ReaderName
    from skipstone.bindings.plans.request import PlanRequest
    from skipstone.bindings.tables.read import Tasks


MAX_ASKED: Final = 256  # files whose writer is looked up to explain a plan


class ParquetTable(Table, CompleteTable):
    """A table of Parquet files whose footers are known.

    `scan_parquet` makes it.

    Attributes:
        filesystem: The file system of the files.
        groups: The row groups, in table order. An unreadable file counts as one row group without
            statistics.
        footers: Path -> footer, for the files whose own footer was read.
        unreadable: Path -> error, for the files that `on_error="keep"` kept.
    """

    def __init__(
        self,
        files: Files,
        cache: FooterCache,
        partitions: list[pa.Field],
        listed: int,
        schema: pa.Schema | None = None,
        progress: FooterProgress | None = None,
        values: Mapping[str, pa.Array] | None = None,
    ) -> None:
        if schema is None and values is None:
            contents = contents_of(files, cache, partitions, progress)
        else:
            contents = Contents(files, cache.parts(files, progress), schema, partitions, values)
        self.filesystem = cache.filesystem
        self._cache, self._listed, self._contents = cache, listed, contents
        self.groups, self.footers = contents.groups, contents.footers
        self.unreadable = contents.unreadable

    @property
    def path(self) -> str | None:
        """The folder that was scanned, as its file system names it; None for files or a glob."""
        return self._cache.root

    @property
    def schema(self) -> pa.Schema:
        """The columns of all files, partition columns last."""
        return self._contents.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns whose values come from folders' names."""
        return tuple(self.groups.partitions)

    @property
    def statistics(self) -> Statistics:
        """Statistics of the row groups; partition timestamps without a zone are read in UTC."""
        return self.statistics_in("UTC")

    def statistics_in(self, timezone: str) -> Statistics:
        """Return the statistics of the row groups.

        Args:
            timezone: The zone in which partition timestamps without a zone are read.
        """
        return self._contents.statistics_in(timezone, self._cache)

    @property
    def work(self) -> Work:
        """The work done so far by the scan and by plans: files listed, footers and bytes read."""
        return self._cache.meter.work

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files, in table order."""
        return self.all_files

    @property
    def all_files(self) -> tuple[str, ...]:
        """The paths of all files, in table order."""
        return tuple(self.groups.files.paths.to_pylist())

    @property
    def num_files(self) -> int:
        """The number of files."""
        return len(self.groups.files)

    @property
    def unit(self) -> str:
        """The kind of its containers."""
        return "row groups"

    def size(self, chosen: npt.NDArray[np.bool_]) -> DataSize:
        """Return how much data the chosen row groups hold; `chosen` is a mask, shape (n,)."""
        return self.groups.size(chosen)

    def logical_rows(self) -> npt.NDArray[np.int64]:
        """Return the rows of each row group, int64; -1 is unknown."""
        return self.groups.rows

    def null_counts(self, path: Path) -> npt.NDArray[np.int64]:
        """Return the NULLs in each row group; -1 is unknown."""
        counts = self.statistics.raw(path).null_count
        if counts is None:
            return np.full(len(self.groups), -1, np.int64)
        nulls = int64_of(counts, -1)
        if path[0] in self.partition_columns:
            return nulls * self.logical_rows()  # a partition value counts as one row
        return nulls

    def occurring(self, path: Path) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return whether the bounds of each row group occur in a row.

        They do if the footer says so, or if no writer truncates bounds of the column's type.

        Returns:
            Two masks, shape (n,): for the minima and for the maxima.
        """
        leaf = self.statistics.leaf(path)
        whole = leaf is not None and leaf.dtype.kind not in TEXT
        if not whole or path[0] not in self.partition_columns:
            exact = self.statistics.extras(path)
        else:
            exact = {}
        low, high = (
            fill(exact.get(key, pa.nulls(len(self.groups), pa.bool_())), whole)
            for key in ("min_exact", "max_exact")
        )
        return booleans_of(low), booleans_of(high)

    def row_groups_of(self, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
        """Return path -> numbers of row groups; an unreadable file has an empty list.

        Args:
            kept: The row groups, as indices into the table's row groups.
        """
        return self.groups.by_path(kept)

    def load(self, paths: Iterable[Path]) -> None:
        """Look up the statistics of columns together, so that footers are opened once."""
        self.groups.load(paths)

    def why_missing(self, path: Path, statistic: str, containers: npt.NDArray[np.int64]) -> str:
        """Return which programs wrote the files that lack statistics of a column."""
        files = self.groups.files.take(distinct(self.groups.file[containers])).paths
        writers: Counter[str] = Counter()
        for file in files.slice(0, MAX_ASKED).to_pylist():
            footer = self.footers.get(file)
            writer = None if footer is None else footer.head.writer
            writers[writer or "an unknown program"] += 1
        by, count = writers.most_common(1)[0]
        by += "" if count == len(files) else " and others"
        if self.unreadable.keys() >= {*files.slice(0, MAX_ASKED).to_pylist()}:
            return f"no {statistic} in {counted(len(files), 'files')} that cannot be read"
        return f"no {statistic} in {counted(len(files), 'files')} written by {by}"

    def check_unchanged(self, containers: npt.NDArray[np.int64]) -> None:
        """Raise an error if a file changed since its footer was read; only local files are checked.

        Args:
            containers: The row groups whose files are checked.

        Raises:
            StaleFile: a file was replaced, changed or removed.
        """
        at = distinct(self.groups.file[containers])
        files = self.groups.files.take(at)
        check_unchanged(
            self.filesystem, files.paths.to_pylist(), files.sizes.tolist(), files.times.tolist()
        )

    def tasks(self, plan: Plan, *, lenient: bool = False, reader: ReaderName = "auto") -> Tasks:
        """Return the tasks that read the matching rows of a plan of this table.

        Args:
            plan: The plan.
            lenient: True to add the rows for which the condition cannot be evaluated here.
            reader: The decoder of the files, where it can decode them.

        Raises:
            SourceError: the plan keeps a file whose footer could not be read.
        """
        from skipstone.bindings.tables.parquet.read_groups import tasks_of
        from skipstone.bindings.tables.read import RowSelection

        return tasks_of(self, RowSelection.of(plan, lenient, reader), plan)

    def dataset_files(self, plan: Plan) -> Iterator[DatasetFile]:
        """Yield the description that pyarrow.dataset needs of each file of a plan."""
        from skipstone.bindings.tables.parquet.dataset_files import dataset_files

        return dataset_files(self, plan)

    def save_stats(self, path: Location | None = None) -> str:
        """Save the footers' statistics, so that later scans read only new and changed footers.

        A scan finds the saved file beside the data, or takes it as `stats=`. It is used for files
        whose path, size, modification time and, if there is one, etag are the same. Local files
        must also have the same time of change, which no program can set (`ctime`). Files
        that changed in the last few milliseconds before they were listed are not saved (two
        seconds, if times are whole seconds): they might change again and keep their time. Files
        that cannot be read are not saved either.

        Args:
            path: The file to write. None is `_skipstone_stats` in the table's folder, which Spark
                skips. An existing file is replaced in one step, when the new one is complete and on
                disk; processes that are reading the old one can continue.

        Returns:
            The path of the file.

        Raises:
            SourceError: files were named one by one, so that there is no folder for the file.
            OSError: the file cannot be written.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> folder = tempfile.mkdtemp()
            >>> path = os.path.join(folder, "t.parquet")
            >>> pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
            >>> os.utime(path, (1, 1))
            >>> _ = scan_parquet(folder).save_stats()
            >>> again = scan_parquet(folder)
            >>> again.work["footers"], len(again.plan("x = 5").kept)
            (0, 1)
        """
        from skipstone.bindings.tables.parquet.saved_footers import write_snapshot

        if path is None and self._cache.root is None:
            raise SourceError(
                "files were named, not a folder, so there is no place beside the data; "
                "give save_stats a path"
            )
        if path is None:
            fs, where = (self.filesystem, in_folder(self._cache.root or "", SNAPSHOT_NAME))
        else:
            fs, where = resolve(path)
        groups = self.groups.with_all_columns()
        exact = Exactness(LazyColumns(groups, "UTC"))
        write_snapshot(groups, exact, self._listed, self.filesystem, fs, where)
        return where

    def answer(self, request: PlanRequest) -> Plan:
        """Return the plan of a request; its containers are row groups."""
        with self._cache.meter.phase("planning"):
            return plan_table(self, request)

    def __repr__(self) -> str:
        sizes = f"{counted(self.num_files, 'files')}, {counted(len(self.groups), 'row groups')}"
        return f"ParquetTable({sizes}, {self._shown_columns()})"


def scan_parquet(
    source: Where,
    *,
    filesystem: FileSystemLike | None = None,
    storage_options: Mapping[str, str] | None = None,
    base_path: Location | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    progress: ProgressSetting | FooterProgress = None,
    stats: Location | Literal[False] | None = None,
    use_metadata: bool = True,
    ignore_table_format: bool = False,
) -> ParquetTable:
    """Open a table of Parquet files.

    Footers are read in parallel, unless a snapshot or `_metadata` has their statistics.

    Args:
        source: A file, a folder, a glob (`**` crosses folders), or several of them: a list, an
            iterator, an Arrow array or a series of Polars or pandas; paths or URIs. The folder of a
            Delta, Iceberg or Hudi table is refused: it holds files that the table removed.
        filesystem: Any file system of pyarrow or fsspec, the name of an fsspec protocol, or the URI
            of a folder. Paths are then paths of this file system.
        storage_options: Credentials and the address of an object store, instead of `filesystem`:
            strings by the names that Polars, deltalake, pyiceberg, Hadoop or fsspec use, such as
            {"AWS_REGION": "eu-west-1"}. Local paths ignore them. docs/object-stores.md lists names.
        base_path: The folder below which `key=value` folders are partition columns. By default the
            folder that was named, or the part of a glob before its first wildcard.
        partition_schema: Types of partition columns; the others are inferred as Spark does.
        on_error: "raise", or "keep" a file that is missing, truncated, not Parquet or encrypted. A
            plan that keeps such a file cannot be read; `unreadable` reports it.
        progress: As `skipstone.config.progress`, for this call. A function of two arguments is
            called with (files whose footer is known, files), after each file.
        stats: A path or URI that `save_stats` wrote. None looks beside the data, and reads footers
            if no usable file is there; False ignores saved files. The footers of files that have
            changed since are read.
        use_metadata: True to use a `_metadata` file in the named folder instead of the footers of
            the files that it fits: it names them, is not older, and their row groups lie within
            them without gaps. This check does not notice if a file was replaced by an older one of
            almost the same size; pass False if that may happen.
        ignore_table_format: True to take all Parquet files in the folder of a Delta, Iceberg or
            Hudi table, including rows that the table has deleted or replaced.

    Returns:
        The table. So far only footers, or what replaces them, have been read; `work` counts them.

    Raises:
        SourceError: nothing exists at `source`; a file cannot be read; the files' columns do not
            fit together; a storage option is unknown.
        StatisticsError: `stats` names a file that is damaged, or of another version.
    """
    check_on_error(on_error)
    check_flag("use_metadata", use_metadata)
    check_flag("ignore_table_format", ignore_table_format)
    source = all_of(source)
    meter, listed, given = Meter(), time.time_ns(), types_of(partition_schema)
    filesystem = chosen_filesystem(source, filesystem, storage_options)
    with reporting(progress) as footer_progress:
        with meter.phase("listing"):
            found = list_files(
                source, filesystem, base_path, meter, ignore_format=ignore_table_format
            )
            partitions = partition_fields(partition_folders(found.files), given)
        cache = FooterCache(
            found.root, found.filesystem, saved_at(stats), meter, summaries=use_metadata,
            keep=on_error == "keep", beside=found.beside,
        )  # fmt: skip
        table = ParquetTable(found.files, cache, partitions, listed, progress=footer_progress)
    return log_opened(table, "parquet", source)
