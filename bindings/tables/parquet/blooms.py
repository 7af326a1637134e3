"""Bloom filters of Parquet files, which are read by blocks.

Source: Apache Parquet, `BloomFilter.md` and `parquet.thrift`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.location import is_local
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.statistics.membership import (
    BLOCK,
    Blooms,
    Hashes,
    block_of,
    hashes_of,
    in_blocks,
    none_of,
    same_axis,
)
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.parquet.file_schemas import BloomLocation, StoredType
from skipstone.bindings.tables.parquet.groups import RowGroups
from skipstone.bindings.tables.parquet.pages.ranges import REMOTE_GAP, Ranges, Span
from skipstone.bindings.tables.parquet.thrift import ThriftError, sized_struct
from skipstone.ir.arrow import type_at
from skipstone.ir.cached import cached_property
from skipstone.ir.node import Node, Op, Path, is_part
from skipstone.ir.session import Session
from skipstone.ir.simplify import is_in
from skipstone.ir.types import DType, from_arrow, leaves_of
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.pool import REQUESTS, ContextPool

MAX_HEADER: Final = 64  # bytes; a header has about 20
MAX_BITSET: Final = 128 << 20  # bytes; the format recommends this limit
# Local filters of up to `SMALL` bytes are read whole, and so are remote ones of up to `REMOTE_GAP`
# bytes, because a request takes as long. A table keeps about `MAX_KEPT` bytes of them in memory.
SMALL, MAX_KEPT = 1 << 16, 1 << 26
FEW: Final = 1 << 6  # blocks of a filter that are read one by one; of more, all are read
# Values are hashed in steps: half of `FEW` first, then `STEP_GROWTH` times as many in each step.
STEP_GROWTH: Final = 8
MAX_PROBES: Final = 1 << 16  # pairs of filter and hash that are tested at once
# parquet.thrift, BloomFilterHeader: numBytes, then algorithm, hash and compression. These three are
# unions with one member each.
NUM_BYTES: Final = 1
REQUIRED: Final[dict[int, dict[int, object]]] = {2: {1: {}}, 3: {1: {}}, 4: {1: {}}}

ReadSpans = Callable[[Sequence[Span]], Sequence[memoryview]]


class BloomFilter(NamedTuple):
    """The bits of a bloom filter in a file.

    Attributes:
        start: Their first byte.
        blocks: The number of blocks.
    """

    start: int
    blocks: int

    @property
    def span(self) -> Span:
        """The first byte of the bits, and the byte after the last."""
        return self.start, self.start + self.blocks * BLOCK

    @property
    def nbytes(self) -> int:
        """The bytes of all bits."""
        return self.blocks * BLOCK


def rules_out(read: ReadSpans, filters: Sequence[BloomFilter], values: HashedValues) -> Mask:
    """Return which filters of a file prove that none of the values occurs.

    Args:
        read: Reads bytes of the file.
        filters: The filters.
        values: The values.

    Returns:
        bool array, shape (filters,).

    Raises:
        OSError: the bytes cannot be read.
    """
    undecided, out = list(range(len(filters))), np.zeros(len(filters), np.bool_)
    for hashes in values.steps():
        if hashes is None or not undecided:
            return out
        at_once = max(1, MAX_PROBES // len(hashes)) if len(hashes) <= FEW else 1
        each = [undecided[i : i + at_once] for i in range(0, len(undecided), at_once)]
        undecided = [
            i
            for own in each
            for i, may_hold in zip(
                own, _may_hold(read, [filters[i] for i in own], hashes), strict=True
            )
            if not may_hold
        ]
    out[undecided] = True
    return out


def _may_hold(read: ReadSpans, filters: Sequence[BloomFilter], hashes: Hashes) -> list[bool]:
    """Return whether each of some filters may hold one of the hashes.

    Args:
        read: Reads bytes of the file.
        filters: The filters; a single one if the hashes are many.
        hashes: The hashes.
    """
    sizes = np.array([[one.blocks] for one in filters], np.uint64)
    block = block_of(hashes, sizes).astype(np.intp)
    if len(hashes) > FEW:
        words = np.frombuffer(read([filters[0].span])[0], "<u4").reshape(-1, 8)[block]
    else:
        starts = (np.array([[one.start] for one in filters]) + block * BLOCK).ravel().tolist()
        data = b"".join(read([(start, start + BLOCK) for start in starts]))
        words = np.frombuffer(data, "<u4").reshape(*block.shape, 8)
    held: list[bool] = np.asarray(in_blocks(words, hashes).any(axis=1), np.bool_).tolist()
    return held


class HashedValues:
    """Values to look up in filters; they are hashed in steps, when they are needed.

    Args:
        values: Axis values of `dtype`.
        stored: The type of the column in the file.
    """

    def __init__(self, values: Sequence[object], stored: StoredType) -> None:
        self._values, self._stored = values, stored
        self._steps: dict[int, Hashes | None] = {}  # threads may compute one twice

    def steps(self) -> Iterator[Hashes | None]:
        """Yield the hashes of the next values; None if the hashed bytes are not certain."""
        first = 0
        for step in itertools.count():
            stop = first + FEW // 2 * STEP_GROWTH**step
            if first >= len(self._values):
                return
            if step not in self._steps:
                self._steps[step] = hashes_of(self._values[first:stop], *self._stored)
            yield self._steps[step]
            first = stop


def find_filters(ranges: Ranges, locations: Sequence[BloomLocation]) -> list[BloomFilter | None]:
    """Return the filters at some locations of a file; None for those of an unknown kind.

    Short remote filters are read with their headers.

    Args:
        ranges: Reads the file.
        locations: The locations.

    Raises:
        OSError: the file cannot be read.
    """
    spans = []
    for location in locations:
        whole = location.length if location.length and not ranges.local else 0
        length = max(whole, MAX_HEADER) if whole <= REMOTE_GAP + MAX_HEADER else MAX_HEADER
        spans.append((location.offset, min(location.offset + length, ranges.size)))
    inside = [0 < start < stop for start, stop in spans]
    data = iter(ranges.read(list(itertools.compress(spans, inside)), keep=True, exact=True))
    return [
        _filter_of(bytes(next(data)[:MAX_HEADER]), location, ranges.size) if known else None
        for location, known in zip(locations, inside, strict=True)
    ]


def _filter_of(data: bytes, location: BloomLocation, size: int) -> BloomFilter | None:
    """Return the filter whose header the data starts with; None if it is damaged or unknown."""
    try:
        header, header_size = sized_struct(data)
    except ThriftError:
        return None
    length, start = header.get(NUM_BYTES), location.offset + header_size
    if (
        not isinstance(length, int)
        or not 0 < length <= min(MAX_BITSET, size - start)
        or length % BLOCK
        or location.length not in (None, header_size + length)
        or any(header.get(k) != v for k, v in REQUIRED.items())
    ):
        return None
    return BloomFilter(start, length // BLOCK)


class FileBlooms:
    """The bloom filters of a table's files, as evidence that row groups lack values.

    A filter is read when the bounds of its row group admit one of the tested values. Small filters
    stay in memory.

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
        self._filters: dict[tuple[Path, int], BloomFilter | None] = {}
        self._bits: dict[tuple[Path, int], bytes] = {}
        self._room = MAX_KEPT
        self._last: tuple[object, Mask] | None = None

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
        locations, question = self.locations(path), (path, values, dtype)
        if not locations:
            return None
        last = self._last  # another thread may replace it; planning asks each question twice
        if last is not None and last[0] == question:
            return none_of(last[1])
        by_storage: dict[StoredType, list[int]] = {}
        for i in admitted_containers(self._bounds, path, values, dtype):
            if i in locations and same_axis((stored := locations[i].stored)[0], dtype):
                by_storage.setdefault(stored, []).append(i)
        absent = np.zeros(len(self._groups), np.bool_)
        for stored, which in by_storage.items():
            absent[self._read_filters(path, which, HashedValues(values, stored))] = True
            kept = [i for i in which if (path, i) in self._bits]
            bits = pa.array([self._bits[path, i] for i in kept], pa.large_binary())
            proven = Blooms(bits, *stored).absent(values)
            if proven is not None:
                absent[kept] = proven
        self._last = question, absent
        return none_of(absent)

    def locations(self, path: Path) -> dict[int, BloomLocation]:
        """Return row group -> location of its filter, for the row groups that have one."""
        if path not in self._locations:
            self._locations[path] = self._groups.blooms(path)
        return self._locations[path]

    def _read_filters(self, path: Path, which: Sequence[int], values: HashedValues) -> list[int]:
        """Read filters that are not in memory; keep small ones.

        Returns:
            The row groups whose filters were read in part, and rule out the values.
        """
        by_file: dict[int, list[int]] = {}
        for i in which:
            key = path, i
            if key not in self._bits and (
                key not in self._filters or self._filters[key] is not None
            ):
                by_file.setdefault(int(self._groups.file[i]), []).append(i)
        if not by_file:
            return []
        with ContextPool(min(REQUESTS, len(by_file)), "skipstone-blooms") as readers:
            lacking = readers.map(lambda f: self._read_file(path, f, by_file[f], values), by_file)
            return list(itertools.chain.from_iterable(lacking))

    def _read_file(
        self, path: Path, file: int, which: Sequence[int], values: HashedValues
    ) -> list[int]:
        name = self._groups.files.paths[file].as_py()
        try:
            with self._filesystem.open_input_file(name) as source:
                ranges = Ranges(source, is_local(self._filesystem))
                return self._read(path, ranges, which, values)
        except (OSError, pa.ArrowException):
            return []

    def _read(
        self, path: Path, ranges: Ranges, which: Sequence[int], values: HashedValues
    ) -> list[int]:
        new = [i for i in which if (path, i) not in self._filters]
        found = find_filters(ranges, [self._locations[path][i] for i in new])
        self._filters |= {(path, i): one for i, one in zip(new, found, strict=True)}
        filters = {i: one for i in which if (one := self._filters[path, i]) is not None}
        short, largest = {}, SMALL if ranges.local else REMOTE_GAP
        for i, one in filters.items():
            if one.nbytes <= min(largest, self._room):
                self._room -= one.nbytes
                short[i] = one.span
        nbytes = MAX_HEADER * len(new)

        def read(spans: Sequence[Span]) -> list[memoryview]:
            nonlocal nbytes
            nbytes += sum(stop - start for start, stop in spans)
            return ranges.read(spans, exact=True)

        for i, data in zip(short, read([*short.values()]), strict=True):
            self._bits[path, i] = bytes(data)
        long = {i: one for i, one in filters.items() if i not in short}
        absent = rules_out(read, [*long.values()], values).tolist() if long else []
        self.meter.count("bloom filters", len(which), nbytes)
        return [i for i, proven in zip(long, absent, strict=True) if proven]


def admitted_containers(
    bounds: Statistics, path: Path, values: Sequence[object], dtype: DType
) -> list[int]:
    """Return the containers whose bounds admit one of the values of a column.

    Args:
        bounds: Statistics without value lists and bloom filters.
        path: The column.
        values: Values on the axis of `dtype`.
        dtype: The column's type; if the statistics have another one, no container is returned.
    """
    from skipstone.bindings.predicates.predicate import PruningPredicate

    leaf = leaves_of(bounds.schema).get(path)
    if is_part(path):
        own = from_arrow(type_at(bounds.schema, path))
    elif leaf is not None:
        own = leaf.dtype
    else:
        return []
    if own != dtype:
        return []
    test = is_in(Node(Op.COLUMN, value=path, dtype=dtype), list(values))
    predicate = PruningPredicate._from_bound(test, bounds.schema, Session())
    survivors: list[int] = predicate.survivors(bounds, "numpy").tolist()
    return survivors
