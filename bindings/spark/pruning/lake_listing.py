"""The files that Delta or Iceberg selected for a scan, judged by their table's own statistics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.spark.pruning.cost import UNKNOWN_BOUNDS, ColumnBounds
from skipstone.bindings.spark.pruning.scan_files import UnjudgedFiles
from skipstone.bindings.spark.registered.listed_rows import NO_ROW, rows_named, where_equal
from skipstone.bindings.tables.delta.replay import keys_of, paths_of
from skipstone.bindings.tables.delta.table import DeltaTable, scan_delta
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.iceberg.fields import ids_of
from skipstone.bindings.tables.iceberg.files import IcebergFiles
from skipstone.bindings.tables.iceberg.table import IcebergTable, scan_iceberg
from skipstone.ir import compute as pc
from skipstone.ir.arrow import whole
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import Node, columns_of, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.predicates.predicate import PruningPredicate

LakeTable: TypeAlias = DeltaTable | IcebergTable
# The field id of the metadata column `_deleted`. A scan that reads it also returns deleted rows.
# Source: Iceberg, `MetadataColumns`.
IS_DELETED: Final = 2**31 - 4


class LakeListing:
    """n files of one scan of a Delta or Iceberg table. Threads may share it.

    Args:
        table: The version that the scan reads.
        paths: The files.
        sizes: Their sizes in bytes, int64, shape (n,).
        row: The position of each file among the table's files, int64, shape (n,). It is -1 for a
            file that the table does not list in the same state; such a file is always read.
        partitioned: The partition columns.
        with_deleted: True if the scan also returns deleted rows.
    """

    by = ""
    first = None  # files are judged by their paths

    def __init__(
        self,
        table: LakeTable,
        paths: list[str],
        sizes: Ints,
        row: Ints,
        partitioned: pa.Schema,
        with_deleted: bool = False,
    ) -> None:
        self.table, self.paths, self.sizes, self._row = table, paths, sizes, row
        self.partitioned, self._with_deleted = partitioned, with_deleted

    def __len__(self) -> int:
        return len(self.paths)

    def partition_mask(self, predicate: PruningPredicate) -> Mask:
        """Return True for each file: Spark has applied the conditions on partitions."""
        return np.ones(len(self), np.bool_)

    def filtered_partitions(self, filters: DynamicFilters) -> Mask:
        """Return the files whose partition may hold a row that joins need, bool, shape (n,)."""
        statistics = self.table.statistics_in(filters.session.timezone)
        statistics = statistics.of_partitions(self.table.partition_columns)
        verdicts = np.full(statistics.num_containers, Verdict.MAYBE, np.uint8)
        return self._not_never(filters.judged(statistics, verdicts))

    def keep_mask(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        *,
        case_sensitive: bool,
        filters: DynamicFilters | None = None,
    ) -> Mask:
        """Return which of some files may hold a matching row; see `ScanFiles.keep_mask`.

        Raises:
            UnjudgedFiles: a column of the table has another type than in Spark.
        """
        self._check_types(predicate, filters)
        statistics = self.table.statistics_in(predicate.timezone)
        verdicts = predicate.evaluate(statistics)
        if filters is not None:
            verdicts = filters.judged(statistics, verdicts)
        return candidates & self._not_never(verdicts)

    def _not_never(self, verdicts: npt.NDArray[np.uint8]) -> Mask:
        out = np.ones(len(self), np.bool_)
        known = self._row != NO_ROW
        out[known] = verdicts[self._row[known]] != Verdict.NEVER
        return out

    def _check_types(self, predicate: PruningPredicate, filters: DynamicFilters | None) -> None:
        own, known = leaves_of(predicate.schema), leaves_of(self.table.schema)
        names = () if filters is None else filters.columns
        for path in (*columns_of(predicate.node), *((name,) for name in names)):
            if path not in known or own[path].dtype != known[path].dtype:
                raise UnjudgedFiles(
                    f"the column {show_path(path)} has another type in the table's metadata than "
                    "in Spark's plan"
                )

    def bounds(self, column: str, candidates: Mask) -> ColumnBounds:
        """Return the bounds of a column in some files."""
        chosen = self._row[candidates]
        raw = self.table.statistics.raw((column,))
        if raw.min is None or raw.max is None or (chosen == NO_ROW).any():
            return UNKNOWN_BOUNDS
        at = pa.array(chosen)
        return ColumnBounds(
            whole(pc.take(raw.min, at)), whole(pc.take(raw.max, at)), self.sizes[candidates]
        )

    def rows(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        columns: list[str],
        *,
        case_sensitive: bool,
    ) -> pa.Table:
        """Read the rows of some files that match a predicate; see `ScanFiles.rows`.

        Raises:
            SourceError: a file cannot be read.
            UnsupportedForm: the predicate cannot filter rows, a file is not known, or the scan also
                returns deleted rows.
        """
        self._check_types(predicate, None)
        source, chosen = predicate.source, self._row[candidates]
        if self._with_deleted or not isinstance(source, Node) or (chosen == NO_ROW).any():
            raise UnsupportedForm("only Spark can read these rows")
        plan = self.table.plan(source, columns=columns, **predicate.settings)
        if isinstance(plan.table, IcebergFiles):  # those of some manifests
            own = pa.array(self.paths, pa.string()).filter(pa.array(candidates))
            chosen = rows_named(own, plan.table.paths)
        return plan.only(np.intersect1d(plan.kept, chosen), columns).to_arrow()


def delta_listing(text: str, partitioned: pa.Schema) -> LakeListing:
    """Return the files of a scan of a Delta table.

    A file is judged by the log's statistics only if the log's entry for its path has the size, the
    time and the deletion vector that Spark's scan has. Any other file is read.

    Args:
        text: As `DeltaFiles.java` writes it.
        partitioned: The partition columns.

    Raises:
        SourceError: the log cannot be read.
        UnjudgedFiles: another table is there.
    """
    root, version, own_id, *cells = text.split("\0")[:-1]
    table = scan_delta(_location(root), int(version))
    if table.metadata["id"] != own_id:
        raise UnjudgedFiles(f"{root}: the log is not that of the table that Spark reads")
    files = paths_of(pa.table({"path": pa.array(cells[0::4], pa.string())})).to_pylist()
    sizes, times = (np.array(cells[i::4], np.int64) for i in (1, 2))
    keys = [
        f"{path}\n{vector}" if vector else path
        for path, vector in zip(files, cells[3::4], strict=True)
    ]
    own = pc.replace_substring_regex(pa.array(keys, pa.string()), r"^file:/+", "file:/")
    row = rows_named(own, keys_of(table.files, decoded=True))
    row = where_equal(row, sizes, table.files.column("size"))
    row = where_equal(row, times, table.files.column("modificationTime"))
    return LakeListing(table, [f"{root}/{key}" for key in keys], sizes, row, partitioned)


def iceberg_listing(text: str) -> LakeListing:
    """Return the files of a scan of an Iceberg table.

    A file is judged only if the snapshot has it with the same size.

    Args:
        text: As `IcebergFiles.java` writes it.

    Raises:
        SourceError: the metadata cannot be read.
        UnjudgedFiles: Spark reads other columns by the same names.
        BackendMissing: pyiceberg is not installed.
    """
    metadata, snapshot, projection, *cells = text.split("\0")[:-1]
    table = scan_iceberg(_location(metadata))
    if table.version != int(snapshot):
        table = scan_iceberg(_location(metadata), int(snapshot))
    ids = ids_of(projection)
    _check_ids(ids, table)
    files, sizes = cells[0::2], np.array(cells[1::2], np.int64)
    row = rows_named(pa.array(files, pa.string()), table.files.paths)
    row = where_equal(row, sizes, table.files.sizes)
    with_deleted = IS_DELETED in ids.values()
    if with_deleted:
        row = _without_empty(row, table.files.logical_rows())
    return LakeListing(table, files, sizes, row, pa.schema([]), with_deleted)


def _check_ids(read: Mapping[str, int], table: IcebergTable) -> None:
    """Check that the columns that Spark reads have the field ids of the table's columns.

    Raises:
        UnjudgedFiles: one has another.
    """
    for path, leaf in table.fields.leaves.items():
        if read.get(".".join(path), leaf.id) != leaf.id:
            raise UnjudgedFiles(
                f"the column {show_path(path)} has another field id in the snapshot than in "
                "Spark's plan"
            )


def _location(root: str) -> str:
    """Return a Hadoop path, which escapes no character, as a path or a URI."""
    scheme, colon, path = root.partition(":")
    if not colon:
        return root
    if scheme == "file":
        return re.sub("^/+", "/", path)
    return f"{scheme}:{quote(path)}"


def _without_empty(row: Ints, live: Ints) -> Ints:
    """Return the positions of files that have live rows; -1 for the others.

    Statistics say that a file without live rows matches no condition.

    Args:
        row: The position of each file of the scan in the table; -1 is unknown.
        live: The number of live rows of each file of the table; negative is unknown.
    """
    out = row.copy()
    known = row != NO_ROW
    out[known] = np.where(live[row[known]] == 0, NO_ROW, row[known])
    return out
