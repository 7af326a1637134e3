"""Chosen pages as a Parquet file in memory, which any decoder reads.

The file holds the pages' own bytes and ends in a new footer; the bytes between have no meaning. A
mask of the rows to return can be a further column; a decoder that supports filters then decodes
only those rows.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet import thrift_writer as t
from skipstone.bindings.tables.parquet.pages.buffers import buffer
from skipstone.bindings.tables.parquet.pages.leaf_types import (
    CHILDREN,
    NAME,
    PHYSICAL,
    REPETITION,
    REQUIRED,
    TYPE,
    LeafType,
)
from skipstone.bindings.tables.parquet.pages.ranges import Ranges, Span
from skipstone.bindings.tables.parquet.thrift import STRUCT
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.pool import map_requests, run_chunks

MAGIC: Final = b"PAR1"
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
# Encodings that a chunk may have. Each page names its own.
ENCODINGS: Final = (PLAIN, RLE, RLE_DICTIONARY)
UNCOMPRESSED: Final = 0
PARALLEL_BYTES: Final = 1 << 22  # from this many bytes on, several threads read files
# The heads of a chunk's field 3, a structure, and of numbers of 64 bits in the next field and the
# one after; the head of a row group's field 1, a list; the end of a structure.
CHUNK_METADATA, NEXT, SECOND, CHUNKS, END = b"\x1c", b"\x16", b"\x26", b"\x19", b"\0"
BOOLEAN: Final = PHYSICAL["BOOLEAN"]


class ChunkPages(Protocol):
    """Pages of one column chunk, as they are in their file."""

    @property
    def codec(self) -> int:
        """Parquet's number of the compression."""

    @property
    def rows(self) -> int:
        """The number of rows in the data pages."""

    @property
    def values(self) -> int:
        """The number of values in the data pages, NULLs included; of lists and maps, at most."""

    @property
    def unpacked(self) -> int:
        """The approximate number of bytes after decompression."""

    @property
    def nbytes(self) -> int:
        """The number of bytes of the pages, with their headers."""

    @property
    def spans(self) -> Sequence[Span]:
        """The places of the pages with their headers; the dictionary page comes first."""

    @property
    def dictionary(self) -> bool:
        """True if the first span is a dictionary page and nothing else."""

    @property
    def chunk(self) -> tuple[int, memoryview] | None:
        """The bytes of the chunk if they were read before, and where they begin; else None."""


class ChunkPart(NamedTuple):
    """Chosen pages of one column chunk; see `ChunkPages`."""

    codec: int
    rows: int
    values: int
    unpacked: int
    nbytes: int
    spans: Sequence[Span]
    dictionary: bool = False
    chunk: tuple[int, memoryview] | None = None


_VALUES, _UNPACKED, _NBYTES = map(operator.attrgetter, ("values", "unpacked", "nbytes"))


class GroupPart(NamedTuple):
    """Parts of the column chunks of one row group, with the same number of rows each.

    Attributes:
        ranges: Reads the file.
        parts: A part for each column.
    """

    ranges: Ranges
    parts: Sequence[ChunkPages]


class PageFile(NamedTuple):
    """A Parquet file in memory.

    Attributes:
        data: The file.
        names: The columns.
        chunks: Where the pages of each column chunk start and stop in it, and the number of their
            values, shape (chunks, 3).
        unpacked: The approximate bytes of all columns after decompression.
        mask: The name of a further column that is true for the rows to return; None means all rows.
        keep: That mask, shape (rows,).
        int96: The columns of type INT96.
    """

    data: bytes
    names: Sequence[str]
    chunks: Ints
    unpacked: int
    mask: str | None
    keep: Mask | None
    int96: frozenset[str]

    def view(self, group: int, column: int) -> memoryview:
        """Return the bytes of the pages of a column, given by its number, in a row group."""
        start, stop, _ = self.chunks[group * len(self.names) + column].tolist()
        return memoryview(self.data)[start:stop]


@contextlib.contextmanager
def read_pages(
    columns: Sequence[tuple[str, LeafType]], groups: Sequence[GroupPart], keep: Mask | None = None
) -> Iterator[PageFile]:
    """Read pages into a Parquet file, whose memory is reused after the `with` block.

    Args:
        columns: Names and types.
        groups: The row groups.
        keep: The mask of the rows to return; None means all.

    Raises:
        OSError: a file cannot be read, or is shorter.
    """
    names = [name for name, _ in columns]
    mask = None if keep is None else _unused(names)
    masks = [] if keep is None else _mask_pages(keep, groups)
    parts = [part for group in groups for part in group.parts]
    placed = _placed(parts, len(MAGIC))
    pages_stop = int(placed.stop[-1])
    stop = pages_stop + sum(map(len, masks))
    end = _end(columns, groups, placed, mask, masks)
    with buffer(stop + len(end)) as lent:
        with lent.getbuffer() as into:
            _read_into(groups, into)
            into[pages_stop:stop] = b"".join(masks)
            into[-len(end) :] = end
        yield PageFile(
            lent.getvalue(),  # shares the memory
            names,
            np.stack([placed.start, placed.stop, placed.values], axis=1),
            int(np.maximum(8 * placed.values, placed.unpacked).sum()),
            mask,
            keep,
            frozenset(name for name, leaf in columns if leaf.is_int96),
        )


def _read_into(groups: Sequence[GroupPart], buffer: memoryview) -> None:
    """Read the pages, one after another."""
    at = len(MAGIC)
    # The spans of each file, and where they begin in the buffer; neighbours are read as one.
    by_file: dict[int, tuple[Ranges, list[tuple[Span, int]]]] = {}
    for group in groups:
        _, wanted = by_file.setdefault(id(group.ranges), (group.ranges, []))
        begin, end, place = 0, 0, 0
        for part in group.parts:
            for start, stop in part.spans:
                if part.chunk is not None:
                    first, data = part.chunk
                    buffer[at : at + stop - start] = data[start - first : stop - first]
                elif start == end and place + start - begin == at:
                    end = stop
                    wanted[-1] = (begin, end), place
                else:
                    begin, end, place = start, stop, at
                    wanted.append(((begin, end), place))
                at += stop - start
    each = list(by_file.values())

    def read(first: int, last: int) -> None:
        for ranges, wanted in each[first:last]:
            views = [(span, buffer[place : place + span[1] - span[0]]) for span, place in wanted]
            ranges.read_into(views)
            for _, view in views:
                view.release()

    if not all(ranges.local for ranges, _ in each):
        map_requests(lambda i: read(i, i + 1), range(len(each)))
        return
    run_chunks(read, len(each), 1 if at >= PARALLEL_BYTES else len(each))


def _unused(names: Sequence[str]) -> str:
    """Return a name that no column has."""
    name = "keep"
    while name in names:
        name += "_"
    return name


def _mask_pages(keep: Mask, groups: Sequence[GroupPart]) -> list[bytes]:
    """Return a page of BOOLEAN values for each row group."""
    out, done = [], 0
    for group in groups:
        n = group.parts[0].rows
        body = np.packbits(keep[done : done + n], bitorder="little").tobytes()
        out.append(_mask_header(n, len(body)) + body)
        done += n
    return out


@functools.lru_cache(maxsize=1024)
def _mask_header(values: int, nbytes: int) -> bytes:
    """Return the header of a page of the mask."""
    coding = {1: t.i32(values), 2: t.i32(PLAIN), 3: t.i32(RLE), 4: t.i32(RLE)}
    size = t.i32(nbytes)
    return t.write_struct({1: t.i32(0), 2: size, 3: size, 5: t.structure(coding)})


class _Placed(NamedTuple):
    """Column chunks with their places in the file; arrays have shape (chunks,)."""

    parts: Sequence[ChunkPages]
    values: Ints
    unpacked: Ints
    start: Ints
    stop: Ints


def _placed(parts: Sequence[ChunkPages], start: int) -> _Placed:
    """Return column chunks that lie one after another."""
    values, unpacked, nbytes = (
        np.array([f(p) for p in parts], np.int64) for f in (_VALUES, _UNPACKED, _NBYTES)
    )
    stop = nbytes.cumsum() + start
    return _Placed(parts, values, unpacked, stop - nbytes, stop)


def _end(
    columns: Sequence[tuple[str, LeafType]],
    groups: Sequence[GroupPart],
    placed: _Placed,
    mask: str | None,
    masks: Sequence[bytes],
) -> bytes:
    """Return the end of the file: the footer, its length and the magic bytes.

    Args:
        columns: Names and types.
        groups: The row groups.
        placed: The chunks of all columns in the first row group, then in the next.
        mask: The name of the column that is the mask; None if there is none.
        masks: Its page in each row group.
    """
    each = [group.parts[0].rows for group in groups]
    chunks = _chunks([((name, *leaf.inner), leaf.physical) for name, leaf in columns], placed)
    of_mask: list[bytes] = []
    if mask is not None:
        sizes = map(len, masks)
        pages = [
            ChunkPart(UNCOMPRESSED, n, n, size, size, ())
            for n, size in zip(each, sizes, strict=True)
        ]
        of_mask = _chunks([((mask,), BOOLEAN)], _placed(pages, int(placed.stop[-1])))
    width = len(columns)
    unpacked = t.zigzags(np.add.reduceat(placed.unpacked, np.arange(0, len(chunks), width)))
    head = CHUNKS + t.list_head(STRUCT, width + (mask is not None))
    row_groups = [
        b"".join((
            head, *chunks[i * width : i * width + width], *of_mask[i : i + 1],
            NEXT, unpacked[i], NEXT, t.zigzag(rows), END,
        ))
        for i, rows in enumerate(each)
    ]  # fmt: skip
    elements = [element for name, leaf in columns for element in leaf.elements(name)]
    top = len(columns)
    if mask is not None:
        required = {TYPE: t.i32(BOOLEAN), REPETITION: t.i32(REQUIRED)}
        elements.append(required | {NAME: t.binary(mask.encode())})
        top += 1
    root: t.Fields = {NAME: t.binary(b"schema"), CHILDREN: t.i32(top)}
    footer = t.write_struct(
        {
            1: t.i32(2),
            2: t.structures([root, *elements]),
            3: t.i64(sum(each)),
            4: t.structures(row_groups),
        }
    )
    return b"".join((footer, struct.pack("<I", len(footer)), MAGIC))


@functools.lru_cache(maxsize=1 << 13)
def _metadata_of(path: tuple[str, ...], physical: int, codec: int) -> bytes:
    """Return the first fields of a chunk's metadata."""
    fields = {
        1: t.i32(physical),
        2: t.numbers(ENCODINGS),
        3: t.texts([name.encode() for name in path]),
        4: t.i32(codec),
    }
    return t.write_struct(fields)[: -len(END)]


def _chunks(leaves: Sequence[tuple[tuple[str, ...], int]], placed: _Placed) -> list[bytes]:
    """Return column chunks.

    Args:
        leaves: The path and physical type of each column.
        placed: Their chunks in the first row group, then in the next.
    """
    ends = [
        b"".join((SECOND, t.zigzag(part.spans[0][1] - part.spans[0][0] + start), SECOND))
        if part.dictionary
        else SECOND
        for part, start in zip(placed.parts, placed.start.tolist(), strict=True)
    ]
    return [
        b"".join((
            SECOND, start, CHUNK_METADATA, _metadata_of(path, physical, part.codec),
            NEXT, values, NEXT, unpacked, NEXT, nbytes, end, start, END, END,
        ))
        for (path, physical), part, start, values, unpacked, nbytes, end in zip(
            itertools.cycle(leaves),
            placed.parts,
            *map(t.zigzags, (placed.start, placed.values, placed.unpacked)),
            t.zigzags(placed.stop - placed.start),
            ends,
        )
    ]  # fmt: skip
