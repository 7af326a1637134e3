"""Bloom filters of Parquet files: read for the columns and row groups that a predicate asks for, and kept."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.membership import Blooms, none_of, same_axis
from skipstone.bindings.sources.footers import READERS, Container, Footer, RowGroups
from skipstone.bindings.sources.thrift import ThriftError, sized_struct
from skipstone.bindings.statistics import Statistics
from skipstone.ir.node import Node, Op, Path
from skipstone.ir.session import Session
from skipstone.ir.simplify import is_in
from skipstone.ir.types import DType, leaves_of

HEADER: Final = 64  # bytes that hold any header; it has about 20
LARGEST: Final = 128 << 20  # what the format recommends as a limit
# parquet.thrift: BloomFilterHeader.numBytes, then algorithm, hash and compression, unions of one member each.
NUM_BYTES: Final = 1
ONLY: Final[dict[int, dict[int, object]]] = {2: {1: {}}, 3: {1: {}}, 4: {1: {}}}

Place = tuple[int, int | None]  # where a filter starts, and its length with the header's where the footer tells
Stored = tuple[DType, str, int]  # the column's type in a file, Parquet's type, bytes of a fixed length


class FileBlooms:
    """What the bloom filters of a data set's files say of sets of values.

    A filter is read when a set is asked for that its row group's bounds admit. Memory: what was read stays.
    """

    def __init__(self, footers: Sequence[Footer], containers: Sequence[Container], groups: RowGroups, bounds: Statistics, filesystem: pafs.FileSystem) -> None:
        self._footers, self._containers, self._groups, self._filesystem = footers, containers, groups, filesystem
        self._bounds = bounds
        self._places: dict[Path, dict[int, Place]] = {}
        self._kept: dict[tuple[Path, int], bytes | None] = {}

    def contained(self, path: Path, values: tuple[object, ...], dtype: DType) -> pa.BooleanArray | None:
        """As in `PruningStatistics`, for axis values of `dtype`; a file that cannot be read says nothing."""
        by_storage: dict[Stored, list[int]] = {}
        for i in self._admitted(path, values, dtype):
            if (stored := self._stored(path, i)) is not None and same_axis(stored[0], dtype):
                by_storage.setdefault(stored, []).append(i)
        if not by_storage:
            return None
        absent = np.zeros(len(self._containers), np.bool_)
        for (own, physical, length), which in by_storage.items():
            blooms = Blooms(pa.array(self._read(path, which), pa.large_binary()), own, physical, length)
            found = blooms.absent(values)
            if found is not None:
                absent[which] = found
        return none_of(absent)

    def _admitted(self, path: Path, values: tuple[object, ...], dtype: DType) -> list[int]:
        """The containers with a filter whose bounds leave room for one of the values."""
        from skipstone.bindings.predicate import PruningPredicate

        leaf = leaves_of(self._bounds.schema).get(path)
        places = self.places(path)
        if leaf is None or leaf.dtype != dtype or not places:
            return []
        test = is_in(Node(Op.COLUMN, value=path, dtype=dtype), list(values))
        asked = PruningPredicate._from_bound(test, self._bounds.schema, Session())
        return [int(i) for i in asked.survivors(self._bounds, "numpy") if int(i) in places]

    def places(self, path: Path) -> dict[int, Place]:
        """The containers that have a filter of a column, and where it lies."""
        if path not in self._places:
            found = {} if self._groups.is_partition(path) else {i: self._place(path, c) for i, c in enumerate(self._containers)}
            self._places[path] = {i: place for i, place in found.items() if place is not None}
        return self._places[path]

    def _place(self, path: Path, c: Container) -> Place | None:
        metadata, index = self._footers[c.footer].metadata, self._groups.position(c.footer, path)
        if metadata is None or index is None or c.row_group is None:
            return None
        chunk = metadata.row_group(c.row_group).column(index)
        return None if chunk.bloom_filter_offset is None else (chunk.bloom_filter_offset, chunk.bloom_filter_length)

    def _stored(self, path: Path, i: int) -> Stored | None:
        footer = self._footers[self._containers[i].footer]
        index = self._groups.position(self._containers[i].footer, path)
        if footer.metadata is None or footer.schema is None or index is None:
            return None
        column = footer.metadata.schema.column(index)
        leaf = leaves_of(footer.schema).get(path)
        return None if leaf is None else (leaf.dtype, column.physical_type, column.length)

    def _read(self, path: Path, which: list[int]) -> list[bytes | None]:
        by_file: dict[int, list[int]] = {}
        for i in which:
            if (path, i) not in self._kept:
                by_file.setdefault(self._containers[i].footer, []).append(i)
        if by_file:
            with ThreadPoolExecutor(min(READERS, len(by_file)), "skipstone-blooms") as readers:
                list(readers.map(lambda f: self._read_file(path, f, by_file[f]), by_file))
        return [self._kept[path, i] for i in which]

    def _read_file(self, path: Path, footer: int, which: list[int]) -> None:
        try:
            with self._filesystem.open_input_file(self._footers[footer].file.path) as source:
                for i in which:
                    self._kept[path, i] = _bitset(source, *self._places[path][i])
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
    if not isinstance(length, int) or not 0 < length <= LARGEST or (total is not None and size + length != total):
        return None
    if any(header.get(k) != v for k, v in ONLY.items()):
        return None
    data: bytes = source.read_at(length, at + size)
    return data if len(data) == length else None
