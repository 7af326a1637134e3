"""A Delta table, planned from its log: Delta Lake's `DataSkippingReaderBase`, in Python and per conjunct."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings import hooks
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.location import Location
from skipstone.bindings.plans.plan import Plan, plan_table
from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.delta import disk
from skipstone.bindings.tables.delta.cache import discard, table_of
from skipstone.bindings.tables.delta.columns import LogColumns
from skipstone.bindings.tables.delta.footers import MOST, by_footers
from skipstone.bindings.tables.delta.generated import statistics_of
from skipstone.bindings.tables.delta.log import (
    MAPPING,
    Snapshot,
    SnapshotRequest,
    locate,
    logical_rows,
    snapshot,
    sums,
)
from skipstone.bindings.tables.dynamic_table import DynamicTable
from skipstone.bindings.tables.parquet.footers import Footer
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, StatisticsError
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Dynamic
    from skipstone.bindings.predicates.predicate import PruningPredicate, Source
    from skipstone.bindings.tables.read import Tasks

Mask = npt.NDArray[np.bool_]


class DeltaTable(DynamicTable):
    """One version of a Delta table, whose log has been read; files have not.

    Attributes:
        path: Where the table is, as it was named.
        version: Which version.
        metadata: The table's id, name, description, partitionColumns, configuration and createdTime.

    Source: Delta Lake, `DataSkippingReaderBase`.
    """

    def __init__(
        self,
        asked: SnapshotRequest,
        read: Snapshot,
        meter: Meter,
        adopt: Callable[[Statistics], None] | None = None,
    ) -> None:
        """A version that was read. `adopt` gives its statistics what was packed of them before."""
        self.asked, self.snapshot, self.meter = asked, read, meter
        self.path, self.version, self.metadata = read.uri, read.version, read.metadata
        self._statistics: dict[str, Statistics] = {}
        self._footers: dict[str, Footer] = {}
        if adopt is not None:
            adopt(self.statistics_in("UTC"))

    # What the table is.

    @property
    def schema(self) -> pa.Schema:
        """The columns, by their logical names."""
        return self.snapshot.fields.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the columns that have one value in each file."""
        return tuple(self.snapshot.fields.partitions)

    @property
    def redacted_path(self) -> str:
        """The path without what may be secret in a URI: a user and password, and the query.

        Example:
            >>> redacted("s3://key:secret@bucket/t?token=x")
            's3://bucket/t'
        """
        return redacted(self.path)

    @property
    def name(self) -> str:
        """What the cached state of this version is called.

        Source: Delta Lake, `withStatsCache`.
        """
        return f"Delta Table State with Stats #{self.version} - {self.redacted_path}"

    @property
    def work(self) -> Work:
        """What was read of the log when this version was first asked for, and the time that plans took."""
        return self.meter.work

    @property
    def column_mapping_mode(self) -> str:
        """ "none", "name" or "id"."""
        return str(self.metadata["configuration"].get(MAPPING, "none"))

    @property
    def num_files(self) -> int:
        """How many files there are."""
        return self.snapshot.num_files

    @property
    def files(self) -> pa.Table:
        """One row for each file: `path` (relative to the table, percent signs decoded), `size`, `modificationTime`, `deletionVector`, `partition`."""
        return self.snapshot.files

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all files."""
        return int(pc.sum(self.files.column("size")).as_py() or 0)

    @property
    def nbytes(self) -> int:
        """Bytes of what is known of the files, host memory; what was packed for kernels comes on top."""
        return self.snapshot.nbytes + sum(s.nbytes for s in self._statistics.values())

    @property
    def all_files(self) -> tuple[str, ...]:
        """Paths of all files, in table order."""
        return tuple(self.files.column("path").to_pylist())

    # Statistics.

    @property
    def statistics(self) -> Statistics:
        """Statistics of the files; partition timestamps without a zone are read in UTC."""
        return self.statistics_in("UTC")

    def statistics_in(self, timezone: str) -> Statistics:
        """Statistics of the files; partition timestamps without a zone are read in this one."""
        if not self._zoned:
            timezone = "UTC"
        if timezone not in self._statistics:
            columns = LogColumns(self.snapshot, timezone)
            self._statistics[timezone] = statistics_of(
                self.snapshot.fields, self.num_files, columns, lambda: self._logical
            )
        return self._statistics[timezone]

    @cached_property
    def _zoned(self) -> bool:
        kinds = (self.schema.field(name).type for name in self.partition_columns)
        return any(pa.types.is_timestamp(k) and k.tz is not None for k in kinds)

    @cached_property
    def _columns(self) -> LogColumns:
        return LogColumns(self.snapshot, "UTC")

    @cached_property
    def _physical(self) -> pa.ChunkedArray:
        return self._columns.rows()

    @cached_property
    def _logical(self) -> pa.ChunkedArray:
        return logical_rows(self._physical, self.files.column("deletionVector"))

    def get_stats_column(self, statistic: str, column: str = "") -> pa.Array | None:
        """One statistic of one column: null is unknown. None: nothing is known, or the column can have none.

        Args:
            statistic: "min", "max", "null_count"; or "num_records", physical rows, of no column.
            column: As SQL names it, in any case: `a.b` for a struct's field.

        Source: Delta Lake, `getStatsColumnOpt`.
        """
        if statistic == "num_records":
            return self._physical.combine_chunks()
        if statistic not in KEYS[:3]:
            raise StatisticsError(
                f"no statistic is named {statistic!r}; expected num_records, {', '.join(KEYS[:3])}"
            )
        wanted = column.lower()
        found = [
            p
            for p in self._columns
            if wanted
            in (show_path(p).lower(), "" if any("." in name for name in p) else ".".join(p).lower())
        ]
        return self.statistics.get(show_path(found[0]), statistic) if len(found) == 1 else None

    @cached_property
    def with_stats(self) -> pa.Table:
        """The files with their statistics: `num_records`, `tight_bounds`, and `x.min`, `x.max`, `x.null_count` of each column.

        Source: Delta Lake, `withStats`.
        """
        columns: dict[str, Any] = {
            "num_records": self._physical,
            "num_logical_records": self._logical,
            "tight_bounds": self._columns.tight(),
        }
        for path in self._columns:
            raw = self.statistics.raw(path)
            for key in KEYS[:3]:
                if (values := getattr(raw, key)) is not None:
                    columns[f"{show_path(path)}.{key}"] = values
        return pa.table({**{n: self.files.column(n) for n in self.files.column_names}, **columns})

    def to_spark_stats(self, spark: Any) -> Any:
        """The files and their statistics as a DataFrame that `skipstone.spark.with_verdict` judges: `path`, `size`, `x.min`, ..., `row_count`.

        Args:
            spark: The SparkSession.

        Raises:
            BackendMissing: PySpark or pandas is not installed.
        """
        files = self.files.select(["path", "size", "modificationTime"])
        return hooks.call("statistics to Spark", spark, self.statistics, files)

    @property
    def with_no_stats(self) -> pa.Table:
        """The files, without statistics.

        Source: Delta Lake, `withNoStats`.
        """
        return self.files

    def get_specific_files_with_stats(self, paths: Sequence[str]) -> pa.Table:
        """The rows of `with_stats` of these paths.

        Source: Delta Lake, `getSpecificFilesWithStats`.
        """
        return self.with_stats.filter(
            pc.is_in(self.files.column("path"), value_set=pa.array(list(paths), pa.string()))
        )

    def files_with_stats_for_scan(
        self, where: Source | PruningPredicate | None = None, **settings: Any
    ) -> pa.Table:
        """The rows of `with_stats` that partition filters leave.

        Source: Delta Lake, `filesWithStatsForScan`.
        """
        return self.with_stats.filter(
            pa.array(self.plan(where, stats_skipping=False, **settings).verdicts != 0)
        )

    def filter_on_partitions(
        self,
        where: Source | PruningPredicate | None = None,
        *,
        keep_num_records: bool = False,
        **settings: Any,
    ) -> pa.Table:
        """The files that partition filters leave; with their `num_records` if they are to be kept.

        Source: Delta Lake, `filterOnPartitions`.
        """
        files = (
            self.files.append_column("num_records", self._physical)
            if keep_num_records
            else self.files
        )
        return files.filter(
            pa.array(self.plan(where, stats_skipping=False, **settings).verdicts != 0)
        )

    @property
    def files_and_num_records(self) -> pa.Table:
        """`path`, `num_physical_records` and `num_logical_records` of each file; null is unknown.

        Source: Delta Lake, `getFilesAndNumRecords`.
        """
        return pa.table(
            {
                "path": self.files.column("path"),
                "num_physical_records": self._physical,
                "num_logical_records": self._logical,
            }
        )

    # Planning (bindings/plans/plan.py).

    def plan(
        self,
        where: Source | PruningPredicate | None = None,
        *,
        columns: list[str] | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
        stats_skipping: bool = True,
        footers: int = MOST,
        dynamic: Dynamic = None,
        dynamic_filtering: bool | None = None,
        timezone: str = "UTC",
        ansi: bool = True,
        case_sensitive: bool = False,
    ) -> Plan:
        """Decide which files to read.

        Args:
            where: The condition: SQL text, an expression, filters, or a PruningPredicate over this table's schema.
                None keeps everything.
            columns: Top-level columns that reading gives; None gives all.
            limit: How many matching rows are enough, whichever they are. Files of which every row matches are kept
                until they have as many that live; if they do not, all that may match are.
            order_by: What rows are sorted by, as after ORDER BY in Spark SQL: "x DESC NULLS LAST, y". With a limit, only
                files that may hold one of the first rows are kept.
            stats_skipping: Whether to ask statistics; else partition values alone decide.
            footers: Of so many files at most footers are read, where the log lacks bounds of a column; if there are more such
                files among those that may match, of none.
            dynamic: What joins say of the rows: `DynamicFilterData` of a collector, or `DynamicFilter`, which may still be on its
                way. What they rule out is not read; a limit chooses among the rows that they leave.
            dynamic_filtering: Whether `dynamic` counts at all; None: as the table says, or the environment.
            timezone, ansi, case_sensitive: Spark's settings, as for PruningPredicate.

        Raises:
            PredicateError: the condition is malformed or names no column.
            StatisticsError: what `skipstone.cache_dir` keeps of the table is damaged; it is removed, so that another scan reads the log.

        Source: Delta Lake, `filesForScan`.
        """
        try:
            with self.meter.phase("planning"):
                return plan_table(
                    self, where, columns=columns, limit=limit, order_by=order_by, stats_skipping=stats_skipping, dynamic=dynamic,
                    dynamic_filtering=enabled(dynamic_filtering, self.dynamic_filtering),
                    refine=self._refined(footers) if stats_skipping else None, timezone=timezone, ansi=ansi, case_sensitive=case_sensitive,
                )  # fmt: skip
        except StatisticsError:  # what was kept on disk is damaged: the next scan reads the log
            disk.discard(self.asked)
            discard(self.asked)
            raise

    def _refined(
        self, most: int
    ) -> Callable[[PruningPredicate, Statistics, npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]:
        return lambda predicate, statistics, verdicts: by_footers(
            self, predicate, statistics, verdicts, self._footers, most
        )

    @property
    def unit(self) -> str:
        """What its containers are."""
        return "files"

    @property
    def unreadable(self) -> Mapping[str, SourceError]:
        """None of its files was read."""
        return {}

    def size(self, chosen: Mask) -> DataSize:
        """How much data some files hold."""
        return DataSize(
            int(chosen.sum()),
            sums(self.files.column("size"), chosen),
            sums(self._physical, chosen),
            sums(self._logical, chosen),
        )

    def logical_rows(self) -> npt.NDArray[np.int64]:
        """Rows that live in each file, int64; -1 is unknown."""
        return np.asarray(self._logical.fill_null(-1).to_numpy(), np.int64)

    def null_counts(self, path: Path) -> npt.NDArray[np.int64]:
        """NULLs among the rows that live in each file; -1 is unknown."""
        counts = self.statistics.raw(path).null_count
        if (
            path[0] in self.partition_columns and counts is not None
        ):  # only says whether the value is NULL
            return np.asarray(pc.multiply(counts, self._logical).fill_null(-1).to_numpy(), np.int64)
        if counts is None:
            return np.full(self.num_files, -1, np.int64)
        return np.asarray(
            pc.if_else(self._untouched, counts, None).fill_null(-1).to_numpy(), np.int64
        )

    def occurring(self, path: Path) -> tuple[Mask, Mask]:
        """Whether bounds are values of rows that live: partition values, and of files that lost no row those that writers do not cut.

        Source: Delta Lake, `OptimizeMetadataOnlyDeltaQuery`.
        """
        leaf, own = (
            self.statistics.leaf(path),
            next((f for f in self.snapshot.fields.leaves if f.path == path), None),
        )
        told = (
            leaf is not None
            and leaf.dtype.kind in (Kind.INT, Kind.DATE, Kind.FLOAT)
            and own is not None
            and not own.widened
        )
        found = (
            np.asarray(self._untouched.to_numpy(), np.bool_) & told
            if path[0] not in self.partition_columns
            else np.ones(self.num_files, np.bool_)
        )
        return found, found

    @cached_property
    def _untouched(self) -> pa.ChunkedArray:
        """Whether the statistics of a file are those of the rows that live."""
        return pc.and_(self._columns.tight(), pc.is_null(self.files.column("deletionVector")))

    def row_groups_of(self, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
        """Path -> an empty list: files are kept whole."""
        return {path: [] for path in self.files.column("path").take(pa.array(kept)).to_pylist()}

    def tasks(self, plan: Plan, *, lenient: bool = False) -> Tasks:
        """How to read the rows that match a plan of this table."""
        from skipstone.bindings.tables.delta.read import tasks_of

        return tasks_of(self, plan, lenient)

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names[:6]) + (", ..." if len(self.schema) > 6 else "")
        return f"DeltaTable(version {self.version}, {self.num_files} files, columns: {names})"


def redacted(uri: str) -> str:
    """A path or URI without user, password and query."""
    return re.sub(r"[?#].*$", "", re.sub(r"(?<=://)[^/@]*@", "", uri)) if "://" in uri else uri


def scan_delta(
    path: Location,
    version: int | str | datetime.datetime | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DeltaTable:
    """Read the log of a Delta table.

    Args:
        path: The table's folder, or its URI.
        version: A version, or a time: the last version at or before it; None is the newest.
        storage_options: What the package `deltalake` needs to reach the storage.

    Returns:
        The table. Nothing but its log has been read; of a table that this process has read before, or any that uses
        the same `skipstone.cache_dir`, what is newer.

    Raises:
        SourceError: there is no such table or version; a part of the log is missing or damaged; the table needs a
            reader that knows more.

    Source: Delta Lake, PROTOCOL.md, "Action Reconciliation", and `DataSkippingReaderBase`.

    Example:
        >>> import deltalake, pyarrow as pa, tempfile
        >>> path = tempfile.mkdtemp()
        >>> for i in range(3):
        ...     deltalake.write_deltalake(path, pa.table({"x": range(i * 10, i * 10 + 10)}), mode="append")
        >>> scan_delta(path).plan("x >= 25").sizes.scan.files
        1
    """
    asked, place = locate(path, version, storage_options)

    def read(older: DeltaTable | None) -> DeltaTable:
        saved = disk.newest(asked, place)
        if saved is not None and saved.asked == asked:
            return saved
        base = max(
            (t for t in (older, saved) if t is not None), key=lambda t: t.version, default=None
        )
        with place.meter.phase("log"):
            found = DeltaTable(
                asked,
                snapshot(asked, place, None if base is None else (base.asked, base.snapshot)),
                place.meter,
            )
        return disk.saved(found, place) if saved is None or disk.outgrown(saved, asked) else found

    return table_of(asked, read)
