"""Bloom filters of Parquet files: read for the columns and row groups that a predicate asks for, and kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.statistics.membership import Blooms, none_of, same_axis
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.parquet.file_schemas import Bloom, Stored
from skipstone.bindings.tables.parquet.footers import READERS
from skipstone.bindings.tables.parquet.groups import RowGroups
from skipstone.bindings.tables.parquet.thrift import ThriftError, sized_struct
from skipstone.ir.node import Node, Op, Path
from skipstone.ir.session import Session
from skipstone.ir.simplify import is_in
from skipstone.ir.types import DType, leaves_of

HEADER: Final = 64  # bytes that hold any header; it has about 20
LARGEST: Final = 128 << 20  # what the format recommends as a limit
# parquet.thrift: BloomFilterHeader.numBytes, then algorithm, hash and compression, unions of one member each.
NUM_BYTES: Final = 1
ONLY: Final[dict[int, dict[int, object]]] = {2: {1: {}}, 3: {1: {}}, 4: {1: {}}}


class FileBlooms:
    """What the bloom filters of a data set's files say of sets of values.

    A filter is read when a set is asked for that its row group's bounds admit. Memory: what was read stays.
    """

    def __init__(
        self, groups: RowGroups, bounds: Statistics, filesystem: pafs.FileSystem, meter: Meter
    ) -> None:
        self._groups, self._bounds, self._filesystem, self._meter = (
            groups,
            bounds,
            filesystem,
            meter,
        )
        self._places: dict[Path, dict[int, Bloom]] = {}
        self._kept: dict[tuple[Path, int], bytes | None] = {}

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """As in `PruningStatistics`, for axis values of `dtype`; a file that cannot be read says nothing."""
        by_storage: dict[Stored, list[int]] = {}
        for i in self._admitted(path, values, dtype):
            if same_axis((stored := self.places(path)[i].stored)[0], dtype):
                by_storage.setdefault(stored, []).append(i)
        if not by_storage:
            return None
        absent = np.zeros(len(self._groups), np.bool_)
        for (own, physical, length), which in by_storage.items():
            blooms = Blooms(
                pa.array(self._read(path, which), pa.large_binary()), own, physical, length
            )
            found = blooms.absent(values)
            if found is not None:
                absent[which] = found
        return none_of(absent)

    def _admitted(self, path: Path, values: tuple[object, ...], dtype: DType) -> list[int]:
        """The containers with a filter whose bounds leave room for one of the values."""
        from skipstone.bindings.predicates.predicate import PruningPredicate

        leaf = leaves_of(self._bounds.schema).get(path)
        places = self.places(path)
        if leaf is None or leaf.dtype != dtype or not places:
            return []
        test = is_in(Node(Op.COLUMN, value=path, dtype=dtype), list(values))
        asked = PruningPredicate._from_bound(test, self._bounds.schema, Session())
        return [int(i) for i in asked.survivors(self._bounds, "numpy") if int(i) in places]

    def places(self, path: Path) -> dict[int, Bloom]:
        """The containers that have a filter of a column, and where it lies."""
        if path not in self._places:
            self._places[path] = self._groups.blooms(path)
        return self._places[path]

    def _read(self, path: Path, which: list[int]) -> list[bytes | None]:
        by_file: dict[int, list[int]] = {}
        for i in which:
            if (path, i) not in self._kept:
                by_file.setdefault(int(self._groups.file[i]), []).append(i)
        if by_file:
            with ThreadPoolExecutor(min(READERS, len(by_file)), "skipstone-blooms") as readers:
                list(readers.map(lambda f: self._read_file(path, f, by_file[f]), by_file))
        return [self._kept[path, i] for i in which]

    def _read_file(self, path: Path, file: int, which: list[int]) -> None:
        try:
            with self._filesystem.open_input_file(self._groups.files.paths[file].as_py()) as source:
                for i in which:
                    place = self._places[path][i]
                    bits = self._kept[path, i] = _bitset(source, place.offset, place.length)
                    self._meter.count("bloom filters", 1, len(bits or b""))
        except (OSError, pa.ArrowException):
            for i in which:
                self._kept.setdefault((path, i), None)


def _bitset(source: pa.NativeFile, at: int, total: int | None) -> bytes | None:
    """The bits behind a filter's header; None where it is damaged, or of a kind that is not known."""
    try:
        header, size = sized_struct(source.read_at(HEADER, at))
    except ThriftError:
        return None
    length = header.get(NUM_BYTES)
    if (
        not isinstance(length, int)
        or not 0 < length <= LARGEST
        or (total is not None and size + length != total)
    ):
        return None
    if any(header.get(k) != v for k, v in ONLY.items()):
        return None
    data: bytes = source.read_at(length, at + size)
    return data if len(data) == length else None
