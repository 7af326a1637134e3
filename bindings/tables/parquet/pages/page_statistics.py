"""The statistics of pages, from column indexes or from the pages' own headers.

The pages of several columns have different boundaries. The containers are the ranges of rows
between all of these boundaries. For each column, a range has the statistics of the page that holds
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet import thrift
from skipstone.bindings.tables.parquet.column_chunks import bound_array, chunk_bounds
from skipstone.bindings.tables.parquet.encodings import Encoding, encoding_of
from skipstone.bindings.tables.parquet.footer import ParsedFooter
from skipstone.bindings.tables.parquet.heads import Head, physical_type_of
from skipstone.bindings.tables.parquet.pages.chunk import Chunk
from skipstone.bindings.tables.parquet.pages.chunk_pages import Pages
from skipstone.bindings.tables.parquet.pages.leaf_types import path_of
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.parquet.thrift import ThriftError, read_struct
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, int64_of, type_at
from skipstone.ir.node import Path, is_part
from skipstone.ir.types import is_text
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode.arrays import distinct
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask

Bytes = npt.NDArray[np.uint8]
NULL_PAGES, MIN_VALUES, MAX_VALUES, NULL_COUNTS = 1, 2, 3, 5  # fields of a ColumnIndex
HAS_BOUNDS = 1 << at.HAS_STATISTICS | 1 << at.MIN | 1 << at.MAX


class PageBounds(NamedTuple):
    """The stored statistics of the pages of one column chunk.

    Attributes:
        rows: The first row of each page, and last the number of rows, shape (pages + 1,).
        slots: As of column chunks in a footer, shape (pages, WIDTH).
        data: The bytes that hold the bounds.
        chunk: The slots of the whole chunk, and the bytes that hold its bounds, from the footer;
            None if they are not known.
    """

    rows: Ints
    slots: Ints
    data: Bytes
    chunk: tuple[Ints, Bytes] | None = None


def bounds_of(chunk: Chunk, pages: Pages, ranges: Ranges, physical: int) -> PageBounds | None:
    """Return the stored statistics of the pages of a chunk; None if there are none.

    Args:
        chunk: The chunk.
        pages: Its pages.
        ranges: Reads its file.
        physical: Parquet's number of its type.

    Raises:
        OSError: the file cannot be read.
    """
    if chunk.column_index is None:
        if pages.headers is None or not (pages.headers[:, at.FLAGS] >> at.HAS_STATISTICS & 1).any():
            return None
        slots = pages.headers[:, : at.WIDTH].copy()
        slots[:, at.TYPE] = physical
        return PageBounds(pages.rows, slots, np.frombuffer(pages.data, np.uint8))
    (data,) = ranges.read([chunk.column_index])
    try:
        index = read_struct(bytes(data))
    except ThriftError:
        return None
    return _of_index(index, pages, physical)


def _of_index(index: dict[int, object], pages: Pages, physical: int) -> PageBounds | None:
    """Return the statistics of a column index; None if it does not fit the pages."""
    n = len(pages)
    empty, low, high, nulls = (
        index.get(f) for f in (NULL_PAGES, MIN_VALUES, MAX_VALUES, NULL_COUNTS)
    )
    if not (_is_list(empty, bool, n) and _is_list(low, bytes, n) and _is_list(high, bytes, n)):
        return None
    assert isinstance(empty, list) and isinstance(low, list) and isinstance(high, list)
    slots = np.zeros((n, at.WIDTH), np.int64)
    is_empty = np.array(empty, np.bool_)
    slots[:, at.TYPE] = physical
    slots[:, at.FLAGS] = np.where(is_empty, 1 << at.HAS_STATISTICS, HAS_BOUNDS)
    sizes = np.array([[len(b) for b in side] for side in (low, high)], np.int64)
    slots[:, at.MIN_SIZE], slots[:, at.MAX_SIZE] = sizes
    starts = np.concatenate([[0], np.cumsum(sizes.T.ravel())])[:-1].reshape(n, 2)
    slots[:, at.MIN], slots[:, at.MAX] = starts.T
    if isinstance(nulls, list) and _is_list(nulls, int, n):
        slots[:, at.NULLS] = nulls
        slots[:, at.FLAGS] |= 1 << at.NULLS
    joined = b"".join(b for pair in zip(low, high, strict=True) for b in pair)
    # A page that should hold only NULLs, but whose count says otherwise, is unknown.
    rows = np.diff(pages.rows)
    counted = slots[:, at.FLAGS] >> at.NULLS & 1 == 1
    slots[is_empty & counted & (slots[:, at.NULLS] != rows), at.FLAGS] = 0
    slots[is_empty & ~counted, at.NULLS] = rows[is_empty & ~counted]
    slots[is_empty & ~counted, at.FLAGS] |= 1 << at.NULLS
    return PageBounds(pages.rows, slots, np.frombuffer(joined, np.uint8))


def bounds_of_chunk(footer: ParsedFooter, group: int, position: int) -> tuple[Ints, Bytes] | None:
    """Return the slots of a whole chunk's statistics, and the bytes that hold its bounds.

    None means that the footer has no statistics of it, or none that can be read safely.

    Args:
        footer: The footer.
        group: The row group.
        position: The column's position among the Parquet columns.
    """
    if footer.layout is not None:
        return footer.layout.chunks[group, position], footer.data
    if not footer.is_sound(group, position):
        return None
    chunk = footer.chunk(group, position)
    stats = chunk.get(thrift.STATISTICS, {})
    low, high, nulls = (stats.get(f) for f in (thrift.MIN, thrift.MAX, thrift.NULLS))
    slots = np.zeros(at.WIDTH, np.int64)
    slots[at.TYPE], slots[at.FLAGS] = chunk[thrift.TYPE], 1 << at.HAS_STATISTICS
    if isinstance(low, bytes) and isinstance(high, bytes):
        slots[at.FLAGS] |= HAS_BOUNDS
        slots[[at.MIN, at.MIN_SIZE, at.MAX, at.MAX_SIZE]] = 0, len(low), len(low), len(high)
    else:
        low = high = b""
    if type(nulls) is int and 0 <= nulls < 1 << 63:
        slots[at.NULLS], slots[at.FLAGS] = nulls, slots[at.FLAGS] | 1 << at.NULLS
    return slots, np.frombuffer(low + high, np.uint8)


def _is_list(values: object, kind: type, n: int) -> bool:
    return isinstance(values, list) and len(values) == n and all(type(v) is kind for v in values)


class Segments(NamedTuple):
    """Ranges of rows of row groups, with statistics.

    Attributes:
        starts, stops: Half-open ranges of rows, which count through all row groups, shape (n,).
        counts: The number of ranges of each row group.
        statistics: Their statistics, n containers.
    """

    starts: Ints
    stops: Ints
    counts: list[int]
    statistics: Statistics


def segments_of(
    schema: pa.Schema,
    head: Head,
    positions: Mapping[str, int],
    groups: Sequence[tuple[int, Mapping[str, PageBounds]]],
) -> Segments:
    """Return the ranges between the page boundaries of row groups of one head.

    Args:
        schema: The table's columns.
        head: The part of the footer that concerns the whole file.
        positions: The key of a Parquet column -> its position.
        groups: For each row group its rows, and the page statistics of columns.
    """
    edges, firsts = [], np.cumsum([0, *(rows for rows, _ in groups)])
    for (rows, bounds), first in zip(groups, firsts.tolist(), strict=False):
        inner = [b.rows for b in bounds.values()]
        edges.append(distinct(np.concatenate([[0, rows], *inner]))[:-1] + first)
    starts = np.concatenate(edges) if edges else np.zeros(0, np.int64)
    stops = np.append(starts[1:], firsts[-1])[: len(starts)]
    columns = _Columns()
    for name, position in positions.items():
        path = path_of(name)
        arrow_type = type_at(schema, path)
        encoding = encoding_of(head, position, arrow_type)
        pages = [
            (b, first)
            for (_, bounds), first in zip(groups, firsts.tolist(), strict=False)
            if (b := bounds.get(name)) is not None
        ]
        if pages and encoding is not None:
            decoder = _Decoder(head, position, arrow_type, encoding)
            found = _statistics_of(decoder, pages, starts)
            # The NULLs that are counted among elements include empty and missing lists.
            columns[path] = ColumnStatistics(found.min, found.max) if is_part(path) else found
    rows_of_each = arrow_of(stops - starts)
    return Segments(
        starts,
        stops,
        [len(e) for e in edges],
        Statistics(schema, len(starts), columns, row_count=rows_of_each, counts_parents=True),
    )


class _Columns(dict[Path, ColumnStatistics]):
    """Path -> statistics, also of the elements of arrays, and the keys and values of maps."""

    bounds_elements = True


class _Decoder(NamedTuple):
    """Decodes the bounds of one column in files of one head."""

    head: Head
    position: int
    arrow_type: pa.DataType
    encoding: Encoding

    def decode(self, parts: Sequence[tuple[Ints, Bytes]]) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return lower bounds, upper bounds and null counts of slots, with the bytes of each."""
        slots = np.concatenate([s.reshape(-1, at.WIDTH) for s, _ in parts])
        counts = [s.size // at.WIDTH for s, _ in parts]
        n = len(slots)
        decoded = chunk_bounds(
            np.concatenate([data for _, data in parts]),
            slots,
            np.repeat(np.cumsum([0, *(len(data) for _, data in parts)])[:-1], counts),
            np.array([physical_type_of(*self.head.physical[self.position])], np.int64).repeat(n, 0),
            [self.encoding],
            np.zeros(n, np.int64),
            np.full(n, self.head.julian),
            self.arrow_type,
        )
        low, high = (
            bound_array(b, decoded, {}, self.arrow_type) for b in (decoded.low, decoded.high)
        )
        return low, high, arrow_of(decoded.nulls, decoded.counted)


def _statistics_of(
    decoder: _Decoder, pages: Sequence[tuple[PageBounds, int]], starts: Ints
) -> ColumnStatistics:
    """Return the statistics of one column in the ranges that begin at `starts`.

    Args:
        decoder: The column.
        pages: The pages of each row group that has statistics of them, and its first row.
        starts: The first row of each range.
    """
    bounds = [b for b, _ in pages]
    low, high, nulls = decoder.decode([(b.slots, b.data) for b in bounds])
    believed = _agree(decoder, bounds, low, high, nulls)
    page_starts = np.concatenate([b.rows[:-1] + first for b, first in pages])
    page_rows = np.concatenate([np.diff(b.rows) for b in bounds])
    page = np.searchsorted(page_starts, starts, "right") - 1
    # Row groups without statistics of the column have ranges past its pages there.
    inside = (page >= 0) & (starts < (page_starts + page_rows)[page]) & believed[page]
    where = arrow_of(page, inside)
    return ColumnStatistics(
        pc.take(low, where),
        pc.take(high, where),
        pc.take(nulls, where),
        pc.take(arrow_of(page_rows), where),
    )


def _agree(
    decoder: _Decoder, bounds: Sequence[PageBounds], low: pa.Array, high: pa.Array, nulls: pa.Array
) -> Mask:
    """Return a mask of the pages in chunks whose page statistics all agree with the footer's.

    The footer's bounds hold for each page, and its null count is the sum of theirs. Text is not
    compared: either side may be cut to fewer bytes.
    """
    known = [i for i, b in enumerate(bounds) if b.chunk is not None]
    counts = np.array([len(b.slots) for b in bounds])
    if not known:
        return np.ones(int(counts.sum()), np.bool_)
    chunks = [b.chunk for b in bounds if b.chunk is not None]
    of_chunk = decoder.decode(chunks)
    chunk_of_page = np.full(len(bounds), -1)
    chunk_of_page[known] = np.arange(len(known))
    of_page = np.repeat(chunk_of_page, counts)
    at_page = arrow_of(of_page, of_page >= 0)
    least, greatest, total = (pc.take(a, at_page) for a in of_chunk)
    wrong = np.zeros(len(of_page), np.bool_)
    kind = decoder.arrow_type
    if not (is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        wrong |= booleans_of(pc.less(low, least)) | booleans_of(pc.greater(high, greatest))
    firsts = np.cumsum([0, *counts[:-1]])
    summed = np.add.reduceat(int64_of(nulls), firsts)
    complete = np.logical_and.reduceat(booleans_of(pc.is_valid(nulls)), firsts)
    other = np.repeat(complete, counts) & booleans_of(
        pc.not_equal(total, arrow_of(np.repeat(summed, counts)))
    )
    wrong_chunk = np.logical_or.reduceat(wrong | other, firsts)
    return np.asarray(~np.repeat(wrong_chunk, counts), np.bool_)
