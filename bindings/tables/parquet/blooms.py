"""Bloom filters of Parquet files: read for the row groups that need them, then cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.statistics.membership import Blooms, none_of, same_axis
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.parquet.file_schemas import BloomLocation, StoredType
from skipstone.bindings.tables.parquet.groups import RowGroups
from skipstone.bindings.tables.parquet.thrift import ThriftError, sized_struct
from skipstone.ir.cached import cached_property
from skipstone.ir.node import Node, Op, Path
from skipstone.ir.session import Session
from skipstone.ir.simplify import is_in
from skipstone.ir.types import DType, leaves_of
from skipstone.kernels.run.pool import REQUESTS, ContextPool

MAX_HEADER: Final = 64  # bytes; a header has about 20
MAX_BITSET: Final = 128 << 20  # bytes; the format recommends this limit
# parquet.thrift, BloomFilterHeader: numBytes, then algorithm, hash and compression. These three are
# unions with one member each.
NUM_BYTES: Final = 1
REQUIRED: Final[dict[int, dict[int, object]]] = {2: {1: {}}, 3: {1: {}}, 4: {1: {}}}


class FileBlooms:
    """The bloom filters of a table's files, as evidence that row groups lack values.

    A filter is read when the bounds of its row group admit one of the tested values. Then it stays
    in memory.

    Attributes:
        meter: Counts the filters that are read.
    """

    def __init__(
        self,
        groups: RowGroups,
        bounds: Callable[[], Statistics],
        filesystem: pafs.FileSystem,
        meter: Meter,
    ) -> None:
        self._groups, self._make_bounds = groups, bounds
        self._filesystem, self.meter = filesystem, meter
        self._locations: dict[Path, dict[int, BloomLocation]] = {}
        self._bitsets: dict[tuple[Path, int], bytes | None] = {}

    @cached_property
    def _bounds(self) -> Statistics:
        return self._make_bounds()

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Test which row groups may hold one of the values, as in `PruningStatistics`.

        A file that cannot be read rules out nothing.

        Args:
            path: The column.
            values: Values on the axis of `dtype`.
            dtype: The column's type.
        """
        by_storage: dict[StoredType, list[int]] = {}
        for i in self._candidates(path, values, dtype):
            if same_axis((stored := self.locations(path)[i].stored)[0], dtype):
                by_storage.setdefault(stored, []).append(i)
        if not by_storage:
            return None
        absent = np.zeros(len(self._groups), np.bool_)
        for (file_dtype, physical, length), which in by_storage.items():
            blooms = Blooms(
                pa.array(self._read(path, which), pa.large_binary()), file_dtype, physical, length
            )
            proven = blooms.absent(values)
            if proven is not None:
                absent[which] = proven
        return none_of(absent)

    def _candidates(self, path: Path, values: tuple[object, ...], dtype: DType) -> list[int]:
        """Return the row groups that have a filter and whose bounds admit one of the values."""
        from skipstone.bindings.predicates.predicate import PruningPredicate

        leaf = leaves_of(self._bounds.schema).get(path)
        locations = self.locations(path)
        if leaf is None or leaf.dtype != dtype or not locations:
            return []
        test = is_in(Node(Op.COLUMN, value=path, dtype=dtype), list(values))
        predicate = PruningPredicate._from_bound(test, self._bounds.schema, Session())
        return [int(i) for i in predicate.survivors(self._bounds, "numpy") if int(i) in locations]

    def locations(self, path: Path) -> dict[int, BloomLocation]:
        """Return row group -> location of its filter, for the row groups that have one."""
        if path not in self._locations:
            self._locations[path] = self._groups.blooms(path)
        return self._locations[path]

    def _read(self, path: Path, which: list[int]) -> list[bytes | None]:
        by_file: dict[int, list[int]] = {}
        for i in which:
            if (path, i) not in self._bitsets:
                by_file.setdefault(int(self._groups.file[i]), []).append(i)
        if by_file:
            with ContextPool(min(REQUESTS, len(by_file)), "skipstone-blooms") as readers:
                list(readers.map(lambda f: self._read_file(path, f, by_file[f]), by_file))
        return [self._bitsets[path, i] for i in which]

    def _read_file(self, path: Path, file: int, which: list[int]) -> None:
        try:
            with self._filesystem.open_input_file(self._groups.files.paths[file].as_py()) as source:
                for i in which:
                    location = self._locations[path][i]
                    bits = _read_bitset(source, location.offset, location.length)
                    self._bitsets[path, i] = bits
                    self.meter.count("bloom filters", 1, len(bits or b""))
        except (OSError, pa.ArrowException):
            for i in which:
                self._bitsets.setdefault((path, i), None)


def _read_bitset(source: pa.NativeFile, at: int, total: int | None) -> bytes | None:
    """Read the bits of a filter.

    Args:
        source: The file.
        at: The offset of the filter's header.
        total: Bytes of the header and the bits, if the footer has this number.

    Returns:
        The bits; None if the filter is damaged or of an unknown kind.
    """
    try:
        header, size = sized_struct(source.read_at(MAX_HEADER, at))
    except ThriftError:
        return None
    length = header.get(NUM_BYTES)
    if (
        not isinstance(length, int)
        or not 0 < length <= MAX_BITSET
        or (total is not None and size + length != total)
    ):
        return None
    if any(header.get(k) != v for k, v in REQUIRED.items()):
        return None
    data: bytes = source.read_at(length, at + size)
    return data if len(data) == length else None
