"""The files of one version of a Delta table, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings import hooks
from skipstone.bindings.plans.table_protocol import CompleteTable, DataSize
from skipstone.bindings.plans.work import Meter, Work
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.delta.columns import STATS_COLUMNS, LogColumns
from skipstone.bindings.tables.delta.full_paths import full_paths
from skipstone.bindings.tables.delta.generated import statistics_of
from skipstone.bindings.tables.delta.log import SnapshotRequest
from skipstone.bindings.tables.delta.snapshot import Snapshot, logical_rows, mapping_mode, sum_of
from skipstone.bindings.tables.parquet.footers import Footer
from skipstone.bindings.tables.table import Table
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, int64_of, is_instant, python_array
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import StatisticsError, counted, without_secrets
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import Kind, leaves_of
from skipstone.kernels.pack.planes import Mask

INDEXED_COLUMNS: Final = "delta.dataSkippingNumIndexedCols"


class DeltaFiles(Table, CompleteTable):
    """The live files of one version of a Delta table, as a plan needs them.

    Attributes:
        version: The version.
        metadata: The table's id, name, description, partitionColumns, configuration and
            createdTime.

    Source: Delta Lake, `DataSkippingReaderBase`.
    """

    def __init__(
        self,
        request: SnapshotRequest,
        snapshot: Snapshot,
        meter: Meter,
        adopt: Callable[[Statistics], None] | None = None,
    ) -> None:
        """Wrap a snapshot.

        Args:
            request: The version.
            snapshot: Its columns, files and statistics.
            meter: Counts what is read, and times plans.
            adopt: Gives the statistics the packed columns of a saved file.
        """
        self.request, self.snapshot, self.meter = request, snapshot, meter
        self.version, self.metadata = snapshot.version, snapshot.metadata
        self._statistics: dict[str, Statistics] = {}
        self._footers: dict[str, Footer] = {}
        if adopt is not None:
            adopt(self.statistics_in("UTC"))

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)  # statistics that are read while they are pickled add to it

    @property
    def path(self) -> str:
        """The table's folder or URI, as the caller named it."""
        return self.snapshot.uri

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, by their logical names."""
        return self.snapshot.fields.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns; each has one value in each file."""
        return tuple(self.snapshot.fields.partitions)

    @property
    def redacted_path(self) -> str:
        """The path without the user, the password and the values of the query of a URI.

        Example:
            >>> without_secrets("s3://key:secret@bucket/t?token=x")
            's3://bucket/t?token=...'
        """
        return without_secrets(self.path)

    @property
    def name(self) -> str:
        """The name of this version's cached state.

        Source: Delta Lake, `withStatsCache`.
        """
        return f"Delta Table State with Stats #{self.version} - {self.redacted_path}"

    @property
    def work(self) -> Work:
        """Counts of what was read when this version was first scanned, and the time of plans."""
        return self.meter.work

    @property
    def column_mapping_mode(self) -> str:
        """The column mapping mode: "none", "name" or "id"."""
        return mapping_mode(self.metadata["configuration"])

    @property
    def num_files(self) -> int:
        """The number of live files."""
        return self.snapshot.num_files

    @property
    def files(self) -> pa.Table:
        """One row for each file.

        Columns: `path` (relative to the table, percent-decoded), `size`, `modificationTime`,
        `deletionVector`, `partition`, and `spark`, True if Spark certainly computed its statistics.
        """
        return self.snapshot.files

    @property
    def size_in_bytes(self) -> int:
        """The total size of all files, in bytes."""
        return int(pc.sum(self.files.column("size")).as_py() or 0)

    @property
    def nbytes(self) -> int:
        """The bytes of the log's entries and statistics, without columns packed for kernels."""
        return self.snapshot.nbytes + sum(s.nbytes for s in self._statistics.values())

    @property
    def all_files(self) -> tuple[str, ...]:
        """The full paths of all files, in table order."""
        return tuple(self._full(self.files.column("path")).to_pylist())

    def full_path(self, path: str) -> str:
        """Return a file's path as plans name it.

        Args:
            path: The path as the log stores it: relative to the table, or absolute.

        Example:
            >>> import deltalake, pyarrow as pa, tempfile, skipstone as ss
            >>> folder = tempfile.mkdtemp()
            >>> deltalake.write_deltalake(folder, pa.table({"x": [5, 3, 9]}))
            >>> table = ss.scan_delta(folder)
            >>> [table.full_path(table.files["path"][0].as_py())] == list(table.all_files)
            True
        """
        whole: str = self._full(pa.chunked_array([[path]], pa.string()))[0].as_py()
        return whole

    def _full(self, paths: pa.ChunkedArray) -> pa.ChunkedArray:
        s = self.snapshot
        return full_paths(paths, s.fs, s.root, s.uri)

    @property
    def statistics(self) -> Statistics:
        """The statistics of the files; partition timestamps without a zone are in UTC."""
        return self.statistics_in("UTC")

    def statistics_in(self, timezone: str) -> Statistics:
        """Return the statistics of the files.

        Args:
            timezone: The zone of partition timestamps that name none.
        """
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
        return any(map(is_instant, kinds))

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
        """Return one statistic of one column, an item per file; null is unknown.

        Args:
            statistic: "min", "max" or "null_count"; or "num_records" (physical rows), which needs
                no column.
            column: The column as SQL names it, in any case: `a.b` for a struct's field.

        Returns:
            The array; None if nothing is known, or the column cannot have that statistic.

        Raises:
            StatisticsError: no statistic has that name.

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
        """The files with their statistics.

        Adds to the columns of `files`: `num_records`, `num_logical_records`, `tight_bounds`, and
        `x.min`, `x.max`, `x.null_count` for each column x.

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
        """Return the files and their statistics as a DataFrame for `skipstone.spark.with_verdict`.

        Its columns are `path`, `size`, `x.min`, ..., `row_count`.

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
        """Return the rows of `with_stats` that have one of these paths.

        Args:
            paths: Paths as `files` has them, or as plans do.

        Source: Delta Lake, `getSpecificFilesWithStats`.
        """
        own, wanted = self.files.column("path"), python_array(list(paths), pa.string())
        named = [pc.is_in(found, value_set=wanted) for found in (own, self._full(own))]
        return pc.filter(self.with_stats, pc.or_(*named))

    @property
    def files_and_num_records(self) -> pa.Table:
        """The columns `path`, `num_physical_records`, `num_logical_records`; null is unknown.

        Source: Delta Lake, `getFilesAndNumRecords`.
        """
        return pa.table(
            {
                "path": self.files.column("path"),
                "num_physical_records": self._physical,
                "num_logical_records": self._logical,
            }
        )

    @property
    def unit(self) -> str:
        """The unit of the containers: "files"."""
        return "files"

    def size(self, chosen: Mask) -> DataSize:
        """Return how much data the chosen files hold."""
        return DataSize(
            int(chosen.sum()),
            sum_of(self.files.column("size"), chosen),
            sum_of(self._physical, chosen),
            sum_of(self._logical, chosen),
        )

    def logical_rows(self) -> npt.NDArray[np.int64]:
        """Return the live rows of each file, int64; -1 is unknown."""
        return int64_of(self._logical, -1)

    def null_counts(self, path: Path) -> npt.NDArray[np.int64]:
        """Return the NULLs among the live rows of each file, int64; -1 is unknown."""
        counts = self.statistics.raw(path).null_count
        if path[0] in self.partition_columns and counts is not None:
            # The count is 1 or 0: whether the file's one value is NULL.
            return int64_of(pc.multiply(counts, self._logical), -1)
        if counts is None:
            return np.full(self.num_files, -1, np.int64)
        return np.where(booleans_of(self._all_live), int64_of(counts, -1), -1)

    def occurring(self, path: Path) -> tuple[Mask, Mask]:
        """Return for each file whether its minimum and its maximum occur in live rows.

        Partition values do. Other bounds do in files without deleted rows, for types that writers
        do not truncate.

        Source: Delta Lake, `OptimizeMetadataOnlyDeltaQuery`.
        """
        leaf = self.statistics.leaf(path)
        own = next((f for f in self.snapshot.fields.leaves if f.path == path), None)
        exact = (
            leaf is not None
            and leaf.dtype.kind in (Kind.INT, Kind.DATE, Kind.FLOAT)
            and own is not None
            and not own.widened
        )
        if path[0] not in self.partition_columns:
            occurs = booleans_of(self._all_live) & exact
        else:
            occurs = np.ones(self.num_files, np.bool_)
        return occurs, occurs

    @cached_property
    def _all_live(self) -> pa.ChunkedArray:
        """True for each file whose statistics are those of its live rows."""
        return pc.and_(self._columns.tight(), pc.is_null(self.files.column("deletionVector")))

    def why_missing(self, path: Path, statistic: str, containers: npt.NDArray[np.int64]) -> str:
        """Return why Delta's writers collect no statistics of a column, by the table's properties.

        Source: Delta Lake, `StatisticsCollection`: the first 32 leaf columns, unless the table's
        properties name another number, or columns.
        """
        leaves = [p for p, leaf in leaves_of(self.schema).items() if not leaf.struct]
        data = [p for p in leaves if p[0] not in self.partition_columns]
        properties = dict(self.metadata["configuration"])
        if (named := properties.get(STATS_COLUMNS)) is not None:
            return f"the table property {STATS_COLUMNS} is {named!r}"
        given = str(properties.get(INDEXED_COLUMNS, "32"))
        indexed = int(given) if given.isdecimal() else -1  # -1: all columns
        position = data.index(path) + 1 if path in data else 0
        if 0 <= indexed < position:
            return (
                f"column {position} lies beyond the {indexed} indexed columns "
                f"({INDEXED_COLUMNS}): move it forward, or raise the number and write statistics"
            )
        files = counted(len(containers), "files")
        return f"no {statistic} in the log for {files}: the writer left it out"

    def row_groups_of(self, kept: npt.NDArray[np.int64]) -> dict[str, list[int]]:
        """Return full path -> an empty list for the kept files: each is read whole."""
        paths = pc.take(self.files.column("path"), arrow_of(kept))
        return {path: [] for path in self._full(paths).to_pylist()}
