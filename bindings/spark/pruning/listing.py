"""The files of a scan as Spark lists them, and which of them can hold a matching row."""

from __future__ import annotations

import json
import re
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.location import resolve
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.spark.session.catalyst import value_of
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.statistics.store.settled import settled
from skipstone.bindings.tables.files import UNKNOWN, Files
from skipstone.bindings.tables.parquet.footer_cache import FooterCache
from skipstone.bindings.tables.parquet.groups import constant, forms_in
from skipstone.bindings.tables.parquet.table import ParquetTable
from skipstone.bindings.tables.partitions import Texts
from skipstone.ir.errors import SourceError
from skipstone.ir.node import columns_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import from_arrow
from skipstone.kernels.pack.columns import Raw
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.ir.node import Path

Ints = npt.NDArray[np.int64]
KEPT: Final = 16  # listings


class Unread(SourceError):
    """A scan whose files cannot be judged; it is left as it is."""


class Listing:
    """n files of one scan, in m partitions. Safe to share between threads.

    Args:
        text: Path, length, time of change in ms and partition of each file, with a zero character behind each.
        partitions: The values of the partition columns in each partition, as JSON.
        data: The columns that are read from the files, as far as statistics can tell of them.
        partitioned: The partition columns.
        roots: The paths that were named.
        filesystem: Where the files are; None finds it by their paths.

    Raises:
        Unread: the files lie where Arrow cannot read.
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
        cells = text.split("\0")[:-1]
        self.paths = cells[0::4]
        self.sizes, self.times, self.partition = (
            np.array(cells[i::4], np.int64) for i in (1, 2, 3)
        )
        self.data, self.partitioned = data, partitioned
        rows = json.loads(partitions)
        self.values = {
            f.name: _array([row[i] for row in rows], f.type) for i, f in enumerate(partitioned)
        }
        self.partitions = len(rows)
        self.filesystem, self._own = own_paths(self.paths, filesystem)
        root = (
            own_paths(roots, self.filesystem)[1][0]
            if len(roots) == 1 and self._is_folder(roots[0])
            else None
        )
        self._known = FooterCache(root, self.filesystem, None, Meter(), summaries=False, keep=True)
        self._tables: OrderedDict[bytes, ParquetTable] = OrderedDict()
        self._stamps: Ints | None = None
        self.settled = False
        self._lock = forks.lock()

    def _is_folder(self, root: str) -> bool:
        return root not in self.paths and not any(ch in root for ch in "*?[{")

    def __len__(self) -> int:
        return len(self.paths)

    def admitted(self, predicate: PruningPredicate) -> Mask:
        """Files whose partition may hold a matching row, bool, shape (n,). Spark knows as much."""
        if not len(self.partitioned):
            return np.ones(len(self), np.bool_)
        raw: dict[Path, Raw] = {(name,): constant(values) for name, values in self.values.items()}
        kept = predicate.prune(Statistics(predicate.schema, self.partitions, raw))
        return kept[self.partition]

    def joined(self, filters: DynamicFilters) -> Mask:
        """Files whose partition may hold a row that joins need, bool, shape (n,)."""
        if not len(self.partitioned):
            return np.ones(len(self), np.bool_)
        raw: dict[Path, Raw] = {(name,): constant(values) for name, values in self.values.items()}
        found = filters.judged(
            Statistics(filters.schema, self.partitions, raw),
            np.full(self.partitions, Verdict.MAYBE, np.uint8),
        )
        kept: Mask = found != Verdict.NEVER
        return kept[self.partition]

    def current(self) -> Mask:
        """Files that are now as Spark listed them, bool, shape (n,); those of remote stores are taken for it.

        What was read of the others is forgotten.
        """
        listed = time.time_ns()
        if not isinstance(self.filesystem, pafs.LocalFileSystem):
            self.settled = bool(settled(self.times * 10**6, listed).all())
            return np.ones(len(self), np.bool_)
        infos = self.filesystem.get_file_info(self._own)
        stamps = np.array([UNKNOWN if i.mtime_ns is None else i.mtime_ns for i in infos], np.int64)
        if self._stamps is not None and not (stamps == self._stamps).all():
            self.forget()
        self._stamps = stamps
        self.settled = bool(settled(stamps, listed).all())
        sizes = np.array([UNKNOWN if i.size is None else i.size for i in infos], np.int64)
        same: Mask = (sizes == self.sizes) & (stamps // 10**6 == self.times)
        return same

    def forget(self) -> None:
        """Read footers again."""
        self._tables.clear()
        self._known = FooterCache(
            self._known.root, self.filesystem, None, Meter(), summaries=False, keep=True
        )

    def kept(
        self,
        predicate: PruningPredicate,
        admitted: Mask,
        *,
        case_sensitive: bool,
        everywhere: bool = False,
        filters: DynamicFilters | None = None,
    ) -> Mask:
        """Of some of the files, those that may hold a matching row: bool, shape (n,).

        Args:
            predicate: Over the columns of the files and of partitions.
            admitted: Which files to look at, bool, shape (n,).
            case_sensitive: Whether Spark minds case.
            everywhere: Whether every file must have all columns of the predicate.
            filters: What joins say of the rows; None: nothing.

        Raises:
            Unread: a file has a column that only its case tells from the predicate's, and Spark minds case; it lacks one.
        """
        with self._lock:
            return self._kept(predicate, admitted, case_sensitive, everywhere, filters)

    def _kept(
        self,
        predicate: PruningPredicate,
        admitted: Mask,
        case_sensitive: bool,
        everywhere: bool,
        filters: DynamicFilters | None,
    ) -> Mask:
        same = self.current()
        chosen = np.flatnonzero(admitted & same)
        out = admitted & ~same
        if len(chosen):
            table = self._table(chosen)
            asked = columns_of(predicate.node)
            if case_sensitive:
                _check_case(
                    table,
                    [
                        *asked,
                        *((name,) for name in (filters.columns if filters is not None else ())),
                    ],
                )
            if everywhere:
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

    def _table(self, chosen: Ints) -> ParquetTable:
        key = chosen.tobytes()
        if key not in self._tables:
            if len(self._tables) >= KEPT:
                self._tables.popitem(last=False)
            stamps = self._stamps if self._stamps is not None else self.times * 10**6
            paths = pa.array([self._own[i] for i in chosen.tolist()], pa.string())
            folders: tuple[tuple[str, Texts], ...] = tuple(("", {}) for _ in range(self.partitions))
            files = Files(
                paths,
                self.sizes[chosen],
                stamps[chosen],
                pa.nulls(len(chosen), pa.string()),
                folders,
                self.partition[chosen],
            )
            self._tables[key] = ParquetTable(
                files, self._known, list(self.partitioned), 0, self.data, values=self.values
            )
        self._tables.move_to_end(key)
        return self._tables[key]


class Listings:
    """The last listings that were judged, each with what its files' footers say."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._lock = forks.lock()
        self._kept: OrderedDict[Hashable, Listing] = OrderedDict()

    def get(self, key: Hashable, make: Any) -> Listing:
        """The listing of a key, made at its first use. What has changed since has another key."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made: Listing = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return made


def _check_case(table: ParquetTable, asked: Sequence[Path]) -> None:
    for form in forms_in(table.groups.parts):
        for path in asked:
            own = form.own(path)
            if own is not None and own != path and path[0] not in table.partition_columns:
                raise Unread(
                    f"{form.example}: has {'.'.join(own)!r} for {'.'.join(path)!r}, and Spark minds case (spark.sql.caseSensitive)"
                )


def _check_present(table: ParquetTable, predicate: PruningPredicate) -> None:
    for form in forms_in(table.groups.parts):
        for path in columns_of(predicate.node):
            if path[0] in table.schema.names and form.lacks(path):
                raise Unread(
                    f"{form.example}: lacks {'.'.join(path)!r}, which may be a partition column"
                )


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as Spark keeps them as Arrow's."""
    dtype = from_arrow(kind)
    axis = [None if (node := value_of(v, dtype)) is None else node.value for v in values]
    if pa.types.is_decimal(kind):
        from decimal import Decimal

        return pa.array([None if v is None else Decimal(v["decimal"]) for v in values], kind)
    if pa.types.is_string(kind):
        return pa.array(axis, pa.binary()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(axis, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(axis, pa.int64()).cast(kind)
    return pa.array(
        [None if v is None else bool(v) for v in axis] if pa.types.is_boolean(kind) else axis, kind
    )


def own_paths(
    paths: Sequence[str], filesystem: pafs.FileSystem | None
) -> tuple[pafs.FileSystem, list[str]]:
    """Hadoop's paths as a file system of Arrow names them. Neither escapes anything."""
    split = [
        re.fullmatch(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(/.*)?", p, re.DOTALL)
        for p in paths
    ]
    stores = {(m[1] or "file", m[2] or "") if m else None for m in split}
    if len(stores) > 1 or None in stores:
        raise Unread(
            f"the files lie in several stores, or in one of an unknown form ({', '.join(map(str, stores))})"
        )
    scheme, authority = next(iter(stores), None) or ("file", "")
    rest = [(m[3] or "/") if m else "" for m in split]
    if scheme == "file":
        return filesystem or pafs.LocalFileSystem(), rest
    if filesystem is None:
        filesystem = resolve(f"{scheme}://{authority}/")[0]
    bucket = "" if scheme in ("hdfs", "viewfs") else authority.rpartition("@")[0] or authority
    return filesystem, [f"{bucket}{path}" if bucket else path for path in rest]
