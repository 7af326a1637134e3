"""Hive-partitioned tables: folders are listed and footers read only if a plan may need them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.filters.scan import DynamicFilters
from skipstone.bindings.location import (
    FileSystemLike,
    Location,
    chosen_filesystem,
    info_at,
    missing,
    resolve,
    shown,
)
from skipstone.bindings.plans.plan import Plan, plan_table
from skipstone.bindings.plans.records import log_opened
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.detect import refuse_other_formats
from skipstone.bindings.tables.hive.folders import HiveFolders
from skipstone.bindings.tables.hive.inference import typing_folders
from skipstone.bindings.tables.hive.tree import Folder, Tree
from skipstone.bindings.tables.parquet.file_schemas import plain_schema
from skipstone.bindings.tables.parquet.footer_cache import FooterCache
from skipstone.bindings.tables.parquet.groups import schemas_in
from skipstone.bindings.tables.parquet.metadata_file import read_common_schema
from skipstone.bindings.tables.parquet.options import check_on_error, saved_at, types_of
from skipstone.bindings.tables.partition_values import constant_statistics
from skipstone.bindings.tables.partitions import partition_column, partition_fields
from skipstone.bindings.tables.table import Table
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, UnknownColumn
from skipstone.ir.node import Path
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import check_flag
from skipstone.ir.types import NULL, leaves_of
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.plans.request import PlanRequest


class HiveTable(Table):
    """A table of Parquet files in partition folders.

    `scan_hive` makes it. A plan lists only the folders that its condition allows, and reads the
    footers in them. Listings and footers are cached, so that a table sees one state of each folder
    and file.

    Attributes:
        root: The table's folder.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> for year in (2023, 2024):
        ...     os.makedirs(f"{folder}/year={year}")
        ...     path = f"{folder}/year={year}/part.parquet"
        ...     pq.write_table(pa.table({"x": range(100)}), path, row_group_size=10)
        >>> table = scan_hive(folder, partition_schema={"year": pa.int32()})
        >>> plan = table.plan("year = 2024 AND x >= 95")
        >>> plan.to_arrow().num_rows, table.work["footers"]
        (5, 2)
    """

    def __init__(
        self,
        tree: Tree,
        cache: FooterCache,
        partitions: list[pa.Field],
        schema: pa.Schema | None,
        meter: Meter,
        listed: int,
    ) -> None:
        self.root, self._tree, self._cache = tree.root, tree, cache
        self._meter, self._listed = meter, listed
        self._partitions = partitions
        data = plain_schema(self._first_schema() if schema is None else schema)
        names = {f.name.lower() for f in partitions}
        # A file that was not read may lack a column, so every column is nullable.
        self._data = pa.schema([f.with_nullable(True) for f in data if f.name.lower() not in names])
        self._schema = pa.schema([*self._data, *partitions])

    def _first_schema(self) -> pa.Schema:
        """Return the columns of a summary file, else of the first file that can be read.

        Source: Spark, `ParquetUtils.inferSchema`, without `mergeSchema`.
        """
        common = read_common_schema(
            self.root, self._tree.names, self._cache.filesystem, self._meter
        )
        if common is not None:
            return common
        for folder in self._tree.iter_folders():
            files = self._tree.files([folder])
            for i in range(len(files)):
                for schema in schemas_in(self._cache.parts(files.take(np.array([i])))):
                    return schema.schema
        raise SourceError(
            f"{self.root} holds no Parquet file that can be read, so the table's columns are "
            "unknown; give schema="
        )

    @property
    def path(self) -> str:
        """The table's folder, as its file system names it."""
        return self.root

    @property
    def schema(self) -> pa.Schema:
        """The columns, partition columns last."""
        return self._schema

    @property
    def unit(self) -> str:
        """The kind of its containers."""
        return "row groups"

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, outermost first."""
        return tuple(f.name for f in self._partitions)

    @property
    def work(self) -> Work:
        """The work done so far by the scan and by plans: folders listed, footers and bytes read."""
        return self._meter.work

    @cached_property
    def whole(self) -> HiveFolders:
        """The whole table; its first use lists every folder and reads every footer.

        Raises:
            SourceError: a footer cannot be read, and such files are not kept.
        """
        return self._part(self._list_folders(None)[0], 0)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files, in table order; this lists every folder."""
        return self.all_files

    @property
    def all_files(self) -> tuple[str, ...]:
        """The paths of all files, in table order; this lists every folder."""
        with self._meter.phase("listing"):
            return tuple(self._tree.files(self._tree.folders()[0]).paths.to_pylist())

    @property
    def statistics(self) -> Statistics:
        """Statistics of all row groups; this lists every folder and reads every footer."""
        return self.whole.statistics

    def save_stats(self, path: Location | None = None) -> str:
        """Save the statistics of all footers, as `ParquetTable.save_stats` does.

        Footers that were not read yet are read.

        Args:
            path: The file to write; None is `_skipstone_stats` in the table's folder.

        Returns:
            The path of the file.

        Raises:
            SourceError: a footer cannot be read, and such files are not kept.
            OSError: the file cannot be written.
        """
        return self.whole.save_stats(path)

    def answer(self, request: PlanRequest) -> Plan:
        """Return the plan of a request; its containers are row groups of the listed folders."""
        predicate, filters = request.predicate(self.schema), request.filters(self.schema)
        nulls = self._null_columns_of(predicate)
        folders, num_skipped = self._list_folders(
            None if nulls else predicate, self._complete(filters)
        )
        part = self._part(folders, num_skipped) if num_skipped else self.whole
        for path in nulls:
            part.refuse_values(path)
        dynamic = None if filters is None else filters.filters
        with self._meter.phase("planning"):
            return plan_table(part, replace(request, where=predicate, dynamic=dynamic))

    def _null_columns_of(self, predicate: PruningPredicate | None) -> list[Path]:
        """Return the columns of type NULL that a condition names.

        The first file gives the types, so other files may hold values in these columns. The
        predicate takes them for NULL in every row.
        """
        if predicate is None:
            return []
        nulls = [path for path, leaf in leaves_of(self._data).items() if leaf.dtype == NULL]
        return [path for path in nulls if _uses(predicate, self.schema, path)]

    def _complete(self, filters: DynamicFilters | None) -> DynamicFilters | None:
        """Return the filters whose keys are known by now, which can rule out folders."""
        if filters is None or not self._partitions:
            return None
        complete = tuple(f for f in filters.filters if f.data is not None)
        return DynamicFilters(complete, self.schema, filters.session) if complete else None

    def _list_folders(
        self, predicate: PruningPredicate | None, filters: DynamicFilters | None = None
    ) -> tuple[list[Folder], int]:
        """Return the folders that may hold a row to read, and the number of skipped folders."""
        every = not self._partitions or (predicate is None and filters is None)
        with self._meter.phase("listing"):
            return self._tree.folders(
                None if every else lambda folders: self._admitted(predicate, filters, folders)
            )

    def _admitted(
        self,
        predicate: PruningPredicate | None,
        filters: DynamicFilters | None,
        folders: Sequence[Folder],
    ) -> Mask:
        """Return a mask of the folders that may hold a row that matches and passes the filters.

        The folders are at one level of the tree; only the partition columns down to this level are
        known.
        """
        fields = self._partitions[: len(folders[0][1])]
        if predicate is not None:
            timezone = predicate.timezone
        elif filters is not None:
            timezone = filters.session.timezone
        else:
            timezone = "UTC"
        values: dict[Path, ColumnStatistics] = {
            (f.name,): constant_statistics(partition_column(folders, f, timezone)) for f in fields
        }
        statistics = Statistics(self.schema, len(folders), values)
        kept = np.ones(len(folders), np.bool_) if predicate is None else predicate.prune(statistics)
        if filters is None:
            return kept
        admitted: Mask = filters.judged(statistics, kept.astype(np.uint8)) != Verdict.NEVER
        return admitted

    def _part(self, folders: Sequence[Folder], num_skipped: int) -> HiveFolders:
        """Return the table of the files in some folders; this reads their footers."""
        with self._meter.phase("listing"):
            files = self._tree.files(folders)
        part = HiveFolders(files, self._cache, self._partitions, self._listed, self._data)
        part.table, part.skipped_folders = self, num_skipped
        return part

    def __repr__(self) -> str:
        partitions = ", ".join(self.partition_columns) or "nothing"
        return f"HiveTable({self.root}, partitioned by {partitions}, {self._shown_columns()})"


def _uses(predicate: PruningPredicate, schema: pa.Schema, path: Path) -> bool:
    """Return True if a condition names a column: it cannot be bound without this column."""
    try:
        PruningPredicate(
            predicate.source, pa.schema(_fields_without(schema, path)), **predicate.settings
        )
    except UnknownColumn:
        return True
    return False


def _fields_without(fields: Iterable[pa.Field], path: Path) -> list[pa.Field]:
    """Return fields without the column at a path, which may be a field of a struct."""
    (name, *inner), out = path, []
    for f in fields:
        if f.name != name:
            out.append(f)
        elif inner:
            out.append(f.with_type(pa.struct(_fields_without(f.type, tuple(inner)))))
    return out


def scan_hive(
    source: Location,
    *,
    filesystem: FileSystemLike | None = None,
    storage_options: Mapping[str, str] | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    infer_types: bool = True,
    schema: pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    stats: Location | Literal[False] | None = None,
    use_metadata: bool = True,
    ignore_table_format: bool = False,
) -> HiveTable:
    """Open a table of Parquet files in folders `key=value`, nested to one depth.

    This reads very little. To infer the types of partition columns, it lists all folders except the
    innermost; of those, it lists one with a file for each type that the texts of a column have.
    Otherwise only the folders on the way to the first file are listed. The footer of that file
    gives the columns, unless `schema` or a summary file does.

    Args:
        source: The table's folder, or its URI. Names that begin with `.` or `_` are skipped, as in
            Spark.
        filesystem, storage_options: As for `scan_parquet`.
        partition_schema: Types of partition columns, by name.
        infer_types: True to infer the other types as Spark does. False: they are strings
            (`spark.sql.sources.partitionColumnTypeInference.enabled`).
        schema: The columns of the files. By default those of `_common_metadata`, `_metadata` or the
            first file, as in Spark without `mergeSchema`. A column that a file lacks is NULL there;
            other columns of a file are not read.
        on_error: "raise", or "keep" a file that cannot be read, as for `scan_parquet`.
        stats, use_metadata, ignore_table_format: As for `scan_parquet`.

    Returns:
        The table; plans list its folders and read footers.

    Raises:
        SourceError: nothing exists at `source`; files are at different depths, or folders of one
            level have different columns.
        StatisticsError: `stats` names a file that is damaged, or of another version.

    Source: Spark, `PartitioningUtils` and "Partition Discovery".

    Example:
        >>> scan_hive("/no/such/table")
        Traceback (most recent call last):
        ...
        skipstone.ir.errors.SourceError: /no/such/table does not exist; expected the folder
        of a table
    """
    check_on_error(on_error)
    for name, flag in (
        ("infer_types", infer_types), ("use_metadata", use_metadata),
        ("ignore_table_format", ignore_table_format),
    ):  # fmt: skip
        check_flag(name, flag)
    if not isinstance(schema, pa.Schema | None):
        raise SourceError(f"schema is {schema!r:.60}; expected a pyarrow.Schema")
    filesystem = chosen_filesystem(source, filesystem, storage_options)
    fs, root = resolve(source, filesystem)
    kind = info_at(fs, root, source).type
    if kind == pafs.FileType.NotFound:
        raise missing(source, "the folder of a table", fs)
    if kind != pafs.FileType.Directory:
        raise SourceError(f"{shown(source)} is a file; expected the folder of a table")
    meter, listed, given = Meter(), time.time_ns(), types_of(partition_schema)
    named = saved_at(stats)
    with meter.phase("listing"):
        tree = Tree(root, fs, meter)
        if not ignore_table_format:
            refuse_other_formats(fs, root, tree.entries)
        names = {name.lower() for name in tree.columns}
        if unknown := [name for name in given or () if name.lower() not in names]:
            raise SourceError(
                f"partition_schema names {unknown[0]!r}; the folders of {root} have "
                f"{', '.join(tree.columns) or 'no partition columns'}"
            )
        untyped = names - {name.lower() for name in given or ()}
        folders: Sequence[Folder] = [(root, dict.fromkeys(tree.columns))]
        if untyped and infer_types:
            inferred = [name for name in tree.columns if name.lower() in untyped]
            folders = typing_folders(tree, tree.folders()[0], inferred)
        partitions = partition_fields(folders, given, infer=infer_types)
    cache = FooterCache(
        root, fs, named, meter, summaries=use_metadata, keep=on_error == "keep",
        beside=tree.names,
    )  # fmt: skip
    return log_opened(HiveTable(tree, cache, partitions, schema, meter, listed), "hive", source)
