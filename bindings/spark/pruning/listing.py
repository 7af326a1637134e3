"""The files of a scan as Spark lists them, judged by their footers."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.location import resolve
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.spark.pruning.cost import UNKNOWN_BOUNDS, ColumnBounds
from skipstone.bindings.spark.pruning.listed_files import ListedFiles
from skipstone.bindings.spark.pruning.scan_files import UnjudgedFiles
from skipstone.bindings.tables.files import UNKNOWN, Files, Ints
from skipstone.bindings.tables.identity import settled
from skipstone.bindings.tables.parquet.footer_cache import FooterCache
from skipstone.bindings.tables.parquet.groups import LazyColumns, schemas_in
from skipstone.bindings.tables.parquet.table import ParquetTable
from skipstone.bindings.tables.partitions import Texts
from skipstone.bindings.tables.table_columns import paths_in
from skipstone.ir.arrow import whole
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import columns_of, show_path
from skipstone.ir.outcome import Verdict
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.ir.node import Path

MAX_CACHED: Final = 16  # tables
RECHECK_NS: Final = 10**8  # a younger check is not repeated


class Listing(ListedFiles):
    """Files of one scan that are judged by their footers. Threads may share it.

    Args:
        text, partitions, data, partitioned: As in `ListedFiles`.
        roots: The paths that were named.
        filesystem: Where the files are; None finds it by their paths.

    Raises:
        UnjudgedFiles: Arrow cannot read the store of these files.
    """

    def __init__(
        self,
        text: str,
        partitions: str,
        data: pa.Schema,
        partitioned: pa.Schema,
        roots: Sequence[str],
        filesystem: pafs.FileSystem | None,
    ) -> None:
        super().__init__(text, partitions, data, partitioned)
        self.filesystem, self._own = own_paths(self.paths, filesystem)
        if len(roots) == 1 and self._is_folder(roots[0]):
            root = own_paths(roots, self.filesystem)[1][0]
        else:
            root = None
        self._footers = FooterCache(
            root, self.filesystem, None, Meter(), summaries=False, keep=True
        )
        self._tables: OrderedDict[bytes, ParquetTable] = OrderedDict()
        self._mtimes: Ints | None = None
        self._same: Mask | None = None
        self._checked_at = 0  # ns
        self.settled = False
        self._lock = forks.lock()

    def _is_folder(self, root: str) -> bool:
        return root not in self.paths and not any(ch in root for ch in "*?[{")

    def unchanged(self) -> Mask:
        """Return the files that are still as Spark listed them, bool, shape (n,).

        Files of remote stores count as unchanged. If a local file's modification time differs from
        that of the last call, all cached footers are forgotten. The answer holds only for a moment:
        `PrunedFiles.java` checks each file again when it leaves it out.
        """
        listed = time.time_ns()
        if self._same is not None and listed - self._checked_at < RECHECK_NS:
            return self._same
        if not isinstance(self.filesystem, pafs.LocalFileSystem):
            self.settled = bool(settled(self.times * 10**6, listed).all())
            return np.ones(len(self), np.bool_)
        infos = self.filesystem.get_file_info(self._own)
        mtimes = np.array([UNKNOWN if i.mtime_ns is None else i.mtime_ns for i in infos], np.int64)
        if self._mtimes is not None and not (mtimes == self._mtimes).all():
            self.forget()
        self._mtimes = mtimes
        self.settled = bool(settled(mtimes, listed).all())
        sizes = np.array([UNKNOWN if i.size is None else i.size for i in infos], np.int64)
        self._same = (sizes == self.sizes) & (mtimes // 10**6 == self.times)
        self._checked_at = listed
        return self._same

    def look_again(self) -> None:
        """Check all files again when they are next judged."""
        self._checked_at = 0

    def forget(self) -> None:
        """Forget all cached footers, so that they are read again."""
        self._tables.clear()
        self._footers = FooterCache(
            self._footers.root, self.filesystem, None, Meter(), summaries=False, keep=True
        )

    def keep_mask(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        *,
        case_sensitive: bool,
        require_columns: bool = False,
        filters: DynamicFilters | None = None,
    ) -> Mask:
        """Return which of some files may hold a matching row; see `ScanFiles.keep_mask`.

        Args:
            predicate, candidates, case_sensitive, filters: As in `ScanFiles`.
            require_columns: True if every file must have all columns of the predicate.

        Raises:
            UnjudgedFiles: Spark may be case-sensitive, and a file has a column that differs from
                the predicate's only in case; or it is not, and a file has two columns that differ
                only in case; or a file lacks a required column.
        """
        with self._lock:
            same = self.unchanged()
            chosen = np.flatnonzero(candidates & same)
            out = candidates & ~same
            if len(chosen):
                table = self._table(chosen)
                keys = () if filters is None else filters.columns
                used = [*columns_of(predicate.node), *((name,) for name in keys)]
                _check_names(table, used, case_sensitive)
                if require_columns:
                    _check_present(table, predicate)
                statistics = table.statistics_in(predicate.timezone)
                found = predicate.survivors(statistics)
                if filters is not None:
                    verdicts = np.zeros(statistics.num_containers, np.uint8)
                    verdicts[found] = Verdict.MAYBE
                    found = np.flatnonzero(filters.judged(statistics, verdicts))
                out[chosen[table.groups.file[found]]] = True
            if not self.settled:
                self.forget()
            return out

    def bounds(self, column: str, candidates: Mask) -> ColumnBounds:
        """Return the bounds of a column in the row groups of some files."""
        with self._lock:
            table = self._table(np.flatnonzero(candidates))
            raw = LazyColumns(table.groups, "UTC").get((column,))
            if raw is None or raw.min is None or raw.max is None:
                return UNKNOWN_BOUNDS
            return ColumnBounds(whole(raw.min), whole(raw.max), table.groups.nbytes)

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
            UnjudgedFiles: Spark is case-sensitive, and a file has a used column in another case; or
                it is not, and a file has two columns that differ only in case.
            SourceError: a file cannot be read, or is no longer as it was listed.
            UnsupportedForm: the predicate cannot filter rows, or a partition column is used,
                whose values are Spark's.
        """
        used = {path[0] for path in columns_of(predicate.node)} | set(columns)
        if not used.isdisjoint(self.partitioned.names):
            raise UnsupportedForm("a partition column is used, whose values are Spark's")
        with self._lock:
            table = self._table(np.flatnonzero(candidates))
            used_paths = [*columns_of(predicate.node), *((name,) for name in columns)]
            _check_names(table, used_paths, case_sensitive)
        return table.plan(predicate, columns=columns).to_arrow()

    def _table(self, chosen: Ints) -> ParquetTable:
        key = chosen.tobytes()
        if key not in self._tables:
            if len(self._tables) >= MAX_CACHED:
                self._tables.popitem(last=False)
            mtimes = self._mtimes if self._mtimes is not None else self.times * 10**6
            paths = pa.array([self._own[i] for i in chosen.tolist()], pa.string())
            folders: tuple[tuple[str, Texts], ...] = tuple(("", {}) for _ in range(self.partitions))
            files = Files(
                paths,
                self.sizes[chosen],
                mtimes[chosen],
                pa.nulls(len(chosen), pa.string()),
                folders,
                self.partition[chosen],
            )
            self._tables[key] = ParquetTable(
                files, self._footers, list(self.partitioned), 0, self.data, values=self.values
            )
        self._tables.move_to_end(key)
        return self._tables[key]


def _check_names(table: ParquetTable, paths: Sequence[Path], case_sensitive: bool) -> None:
    """Check that Spark finds the columns of each file that Skipstone judges.

    Args:
        table: The files.
        paths: The columns that are judged.
        case_sensitive: True if Spark is.
    """
    if not case_sensitive:
        return _check_twins(table)
    every = list(paths_in(table.schema, ()))
    # A test of a struct for NULL depends on all of its fields, and so do the items of a list.
    leaves = [
        leaf
        for path in paths
        if path[0] not in table.partition_columns
        for leaf in every
        if leaf[: len(path)] == path
    ]
    for schema in schemas_in(table.groups.parts):
        for path in leaves:
            own = schema.respelled(path)
            if own is not None:
                raise UnjudgedFiles(
                    f"{schema.example} has {show_path(own)!r} for {show_path(path)!r}, "
                    "which a case-sensitive Spark tells apart (spark.sql.caseSensitive)"
                )
    return None


def _check_twins(table: ParquetTable) -> None:
    # Spark raises an error where it reads such a column, whatever the condition is about.
    for schema in schemas_in(table.groups.parts):
        for one, other in schema.twins:
            raise UnjudgedFiles(
                f"{schema.example} has both {show_path(one)!r} and {show_path(other)!r}, "
                "which Spark does not tell apart (spark.sql.caseSensitive)"
            )


def _check_present(table: ParquetTable, predicate: PruningPredicate) -> None:
    for schema in schemas_in(table.groups.parts):
        for path in columns_of(predicate.node):
            if path[0] in table.schema.names and schema.lacks(path):
                raise UnjudgedFiles(
                    f"{schema.example} lacks {'.'.join(path)!r}, which may be a partition column"
                )


def own_paths(
    paths: Sequence[str], filesystem: pafs.FileSystem | None
) -> tuple[pafs.FileSystem, list[str]]:
    """Return the file system of Hadoop paths, and the paths as Arrow's file system names them.

    Neither form escapes any character.

    Raises:
        UnjudgedFiles: the files lie in several stores, or a path has an unknown form.
    """
    split = [
        re.fullmatch(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(/.*)?", p, re.DOTALL)
        for p in paths
    ]
    stores = {(m[1] or "file", m[2] or "") if m else None for m in split}
    if len(stores) > 1 or None in stores:
        raise UnjudgedFiles(
            "the files lie in several stores, or a path has an unknown form "
            f"({', '.join(map(str, stores))})"
        )
    scheme, authority = next(iter(stores), None) or ("file", "")
    rest = [(m[3] or "/") if m else "" for m in split]
    if scheme == "file":
        return filesystem or pafs.LocalFileSystem(), rest
    if filesystem is None:
        filesystem = resolve(f"{scheme}://{authority}/")[0]
    bucket = "" if scheme in ("hdfs", "viewfs") else authority.rpartition("@")[0] or authority
    return filesystem, [f"{bucket}{path}" if bucket else path for path in rest]
