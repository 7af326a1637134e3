"""Hive-partitioned tables whose folders and footers are read only where a plan may need them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.location import FileSystemLike, Location, info_at, missing, resolve, shown
from skipstone.bindings.plans.plan import Plan, plan_table, same_columns
from skipstone.bindings.plans.table_protocol import DataSize, Sizes
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.detect import refuse_other_formats
from skipstone.bindings.tables.dynamic_table import DynamicTable
from skipstone.bindings.tables.hive.tree import Folder, Tree
from skipstone.bindings.tables.parquet.file_schemas import plain_schema
from skipstone.bindings.tables.parquet.footer_cache import FooterCache
from skipstone.bindings.tables.parquet.groups import constant, forms_in
from skipstone.bindings.tables.parquet.metadata_file import read_schema
from skipstone.bindings.tables.parquet.table import ParquetTable, saved_at, types_of
from skipstone.bindings.tables.partitions import partition_fields, values_of
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import PredicateError, SourceError
from skipstone.ir.node import Path
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import Session
from skipstone.kernels.pack.columns import Raw
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.plans.plan import Dynamic
    from skipstone.bindings.predicates.predicate import Source


class HiveTable(DynamicTable):
    """A table of Parquet files in partition folders. Planning lists the folders that its condition admits, and reads their footers.

    What was listed or read once is kept, so that one table sees one state of each folder and file.

    Attributes:
        root: The folder.
        schema: The columns, partition columns last.
        partition_columns: Their names, outermost first.
    """

    def __init__(
        self,
        tree: Tree,
        known: FooterCache,
        partitions: list[pa.Field],
        schema: pa.Schema | None,
        meter: Meter,
        listed: int,
    ) -> None:
        self.root, self._tree, self._known, self._meter, self._listed = (
            tree.root,
            tree,
            known,
            meter,
            listed,
        )
        self._partitions = partitions
        data = plain_schema(self._first_schema() if schema is None else schema)
        names = {f.name.lower() for f in partitions}
        # Files that were not looked at may lack a column.
        self._data = pa.schema([f.with_nullable(True) for f in data if f.name.lower() not in names])
        self.schema: pa.Schema = pa.schema([*self._data, *partitions])
        self.partition_columns: tuple[str, ...] = tuple(f.name for f in partitions)

    def _first_schema(self) -> pa.Schema:
        """The columns that a summary file names, or else the first file that can be read.

        Source: Spark, `ParquetUtils.inferSchema`, which does so unless it is told to merge schemas.
        """
        told = read_schema(self.root, self._known.filesystem, self._meter)
        if told is not None:
            return told
        for folder in self._tree.each():
            files = self._tree.files([folder])
            for i in range(len(files)):
                for form in forms_in(self._known.parts(files.take(np.array([i])))):
                    return form.schema
        raise SourceError(
            f"{self.root} holds no Parquet file that can be read, so the table's columns are not known; give schema="
        )

    @property
    def work(self) -> Work:
        """What was read so far, by the scan and by plans."""
        return self._meter.work

    @cached_property
    def whole(self) -> ParquetTable:
        """All of the table: every folder is listed and every footer read.

        Raises:
            SourceError: a footer cannot be read, and such files are not kept.
        """
        return self._table(self._folders(None)[0])

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of all files, in table order; every folder is listed."""
        with self._meter.phase("listing"):
            return tuple(self._tree.files(self._tree.folders()[0]).paths.to_pylist())

    @property
    def statistics(self) -> Statistics:
        """Statistics of all row groups: of `whole`."""
        return self.whole.statistics

    def save_stats(self, path: Location | None = None) -> str:
        """Save what the footers of all files say, as `ParquetTable.save_stats` does; those that were not read yet are read."""
        return self.whole.save_stats(path)

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

        Folders that the condition rules out are not listed, level by level, and footers are read of the files in the others.
        The plan's verdicts, statistics and explanation are of these.

        Args:
            where, columns, limit, order_by, dynamic, dynamic_filtering, timezone, ansi, case_sensitive: As for `ParquetTable.plan`.

        Raises:
            PredicateError: the condition is malformed or names no column.
            SourceError: a folder cannot be listed; folders lie at different depths; a footer cannot be read.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> folder = tempfile.mkdtemp()
            >>> for year in (2023, 2024):
            ...     os.makedirs(f"{folder}/year={year}")
            ...     pq.write_table(pa.table({"x": range(100)}), f"{folder}/year={year}/part.parquet", row_group_size=10)
            >>> table = scan_hive(folder, partition_schema={"year": pa.int32()})
            >>> plan = table.plan("year = 2024 AND x >= 95")
            >>> plan.to_arrow().num_rows, table.work["footers"]
            (5, 2)
        """
        if where is not None and not isinstance(where, PruningPredicate):
            where = PruningPredicate(
                where, self.schema, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive
            )
        if where is not None and not same_columns(where.schema, self.schema):
            raise PredicateError(
                "the PruningPredicate was made for another schema; make it with table.schema, or give its text"
            )
        wanted = enabled(dynamic_filtering, self.dynamic_filtering)
        if dynamic is not None and wanted:
            from skipstone.bindings.filters.scan import filters_of

            dynamic = filters_of(dynamic)
        folders, passed_over = self._folders(
            where,
            self._filters(dynamic, Session(timezone, ansi, case_sensitive)) if wanted else None,
        )
        part = self._table(folders) if passed_over else self.whole
        with self._meter.phase("planning"):
            plan = plan_table(
                part,
                where,
                columns=columns,
                limit=limit,
                order_by=order_by,
                dynamic=dynamic,
                dynamic_filtering=wanted,
                timezone=timezone,
                ansi=ansi,
                case_sensitive=case_sensitive,
            )
        return HivePlan(plan, self, passed_over)

    def _filters(self, dynamic: Dynamic, session: Session) -> DynamicFilters | None:
        """Filters that are there already, so that folders need not be listed for them."""
        if dynamic is None or not self._partitions:
            return None
        from skipstone.bindings.filters.scan import DynamicFilters, filters_of

        found = tuple(f for f in filters_of(dynamic) if f.data is not None)
        return DynamicFilters(found, self.schema, session) if found else None

    def _folders(
        self, predicate: PruningPredicate | None, filters: DynamicFilters | None = None
    ) -> tuple[list[Folder], int]:
        with self._meter.phase("listing"):
            return self._tree.folders(
                None
                if not self._partitions or (predicate is None and filters is None)
                else lambda found: self._admits(predicate, filters, found)
            )

    def _admits(
        self,
        predicate: PruningPredicate | None,
        filters: DynamicFilters | None,
        folders: Sequence[Folder],
    ) -> Mask:
        """Which folders may hold a row that matches and has a match, by the partition columns that are known at their depth."""
        fields = self._partitions[: len(folders[0][1])]
        timezone = (
            predicate.timezone
            if predicate is not None
            else filters.session.timezone
            if filters is not None
            else "UTC"
        )
        known: dict[Path, Raw] = {
            (f.name,): constant(values_of(folders, f, timezone)) for f in fields
        }
        statistics = Statistics(self.schema, len(folders), known)
        kept = np.ones(len(folders), np.bool_) if predicate is None else predicate.prune(statistics)
        return (
            kept
            if filters is None
            else filters.judged(statistics, kept.astype(np.uint8)) != Verdict.NEVER
        )

    def _table(self, folders: Sequence[Folder]) -> ParquetTable:
        with self._meter.phase("listing"):
            files = self._tree.files(folders)
        return ParquetTable(files, self._known, self._partitions, self._listed, self._data)

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names[:6]) + (", ..." if len(self.schema) > 6 else "")
        return f"HiveTable({self.root}, partitioned by {', '.join(self.partition_columns) or 'nothing'}, columns: {names})"


class HivePlan(Plan):
    """A plan of the folders that a condition admits; what the others hold is not known."""

    def __init__(self, plan: Plan, source: HiveTable, passed_over: int) -> None:
        self.__dict__.update(plan.__dict__)
        self._source, self._passed_over = source, passed_over

    @cached_property
    def sizes(self) -> Sizes:
        """As for other plans; the total is unknown where folders were not listed."""
        found = super().sizes
        return (
            Sizes(DataSize(None, None, None, None), found.partition, found.scan)
            if self._passed_over
            else found
        )

    def unpruned(self) -> Plan:
        """The same question without any pruning: every folder is listed, every row group is read and every row is judged."""
        return self._again(self._source.whole, None).unpruned()

    def with_dynamic(self, filters: Sequence[DynamicFilter]) -> Plan:
        """As for other plans; without a filter that folders were passed over for, these are listed."""
        if self.dynamic is not None and not set(self.dynamic.filters) <= set(filters):
            limit = self.deferred if self.cut is None else self.cut.limit
            return self._again(self._source, limit, filters)
        return HivePlan(super().with_dynamic(filters), self._source, self._passed_over)

    def _again(
        self,
        table: HiveTable | ParquetTable,
        limit: int | None,
        filters: Sequence[DynamicFilter] | None = None,
    ) -> Plan:
        """The same question, asked of a table under the same settings; `filters` stand in for the
        plan's own.
        """
        own = () if self.dynamic is None else self.dynamic.filters
        return table.plan(
            self.predicate,
            columns=self.columns,
            limit=limit,
            order_by=[str(key) for key in self.order] or None,
            dynamic=list(own if filters is None else filters) or None,
            dynamic_filtering=self.session
            is not None,  # whatever the table and the environment say by now
            timezone=self.timezone,
            ansi=self.settings.ansi,
            case_sensitive=self.settings.case_sensitive,
        )

    def explain(self) -> str:
        """As for other plans, and how many folders were not listed."""
        return super().explain() + (
            f"\nfolders     {self._passed_over} not listed, by partition values"
            if self._passed_over
            else ""
        )

    def __repr__(self) -> str:
        if not self._passed_over:
            return super().__repr__()
        groups = f"{len(self.kept)} of {len(self.verdicts)} row groups"
        return f"Plan({self.sizes.scan.files} files, {groups}, {self._passed_over} folders not listed, skipping={self.skipping!r})"


def scan_hive(
    path: Location,
    *,
    filesystem: FileSystemLike | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    infer_types: bool = True,
    schema: pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    stats: Location | Literal[False] | None = None,
    use_metadata: bool = True,
) -> HiveTable:
    """A table of Parquet files in folders `key=value`, nested to one depth; hardly anything is read yet.

    Where types of partition columns are to be inferred, all folders are listed but the innermost, and empty ones count; else
    only those that lead to the first file, whose footer has the columns, if neither `schema` nor a summary file tells them.

    Args:
        path: The table's folder, or its URI. Names that begin with `.` or `_` are passed over, as Spark does.
        filesystem: As for `scan_parquet`.
        partition_schema: Types of partition columns, by name.
        infer_types: Whether the others are inferred as Spark does, or are strings
            (`spark.sql.sources.partitionColumnTypeInference.enabled`).
        schema: The columns of the files. By default those of `_common_metadata`, `_metadata` or the first file, as Spark
            has it without `mergeSchema`. Columns that a file lacks are NULL there, others that it has are not read.
        on_error: "raise", or "keep" a file that cannot be read, as for `scan_parquet`.
        stats, use_metadata: As for `scan_parquet`.

    Raises:
        SourceError: nothing is there; folders lie at different depths, or have different columns at one.
        StatisticsError: `stats` names a file that is damaged, or of another version.

    Source: Spark, `PartitioningUtils` and "Partition Discovery".

    Example:
        >>> scan_hive("/no/such/table")
        Traceback (most recent call last):
        ...
        skipstone.ir.errors.SourceError: /no/such/table is not there; expected the folder of a table
    """
    if on_error not in ("raise", "keep"):
        raise SourceError(f"on_error is {on_error!r}; expected 'raise' or 'keep'")
    fs, root = resolve(path, filesystem)
    kind = info_at(fs, root, path).type
    if kind == pafs.FileType.NotFound:
        raise missing(path, "the folder of a table")
    if kind != pafs.FileType.Directory:
        raise SourceError(f"{shown(path)} is a file; expected the folder of a table")
    refuse_other_formats(fs, root, None)
    meter, listed, given = Meter(), time.time_ns(), types_of(partition_schema)
    named = saved_at(stats)
    with meter.phase("listing"):
        tree = Tree(root, fs, meter)
        own = {name.lower() for name in tree.columns}
        if strange := [name for name in given or () if name.lower() not in own]:
            raise SourceError(
                f"partition_schema names {strange[0]!r}; the folders of {root} have {', '.join(tree.columns) or 'no partition columns'}"
            )
        untyped = own - {name.lower() for name in given or ()}
        folders = (
            tree.folders()[0] if untyped and infer_types else [(root, dict.fromkeys(tree.columns))]
        )
        partitions = partition_fields(folders, given, infer=infer_types)
    known = FooterCache(root, fs, named, meter, summaries=use_metadata, keep=on_error == "keep")
    return HiveTable(tree, known, partitions, schema, meter, listed)
