"""Chosen pages as a Parquet file in memory, which any decoder reads.

The file holds the pages' own bytes and ends in a new footer; the bytes between have no meaning. A
mask of the rows to return can be a further column; a decoder that supports filters then decodes
only those rows.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from skipstone.bindings.tables.parquet.pages import thrift_writer as t
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
from skipstone.kernels.run.pool import run_chunks

Mask = npt.NDArray[np.bool_]
MAGIC: Final = b"PAR1"
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
# Encodings that a chunk may have. Pages say which they have.
ENCODINGS: Final = (PLAIN, RLE, RLE_DICTIONARY)
UNCOMPRESSED: Final = 0
PARALLEL_BYTES: Final = 1 << 22  # from so many bytes on, several threads read files
CHUNK_METADATA: Final = b"\x1c"  # the head of a chunk's field 3, a structure, after field 2
BOOLEAN: Final = PHYSICAL["BOOLEAN"]


class ChunkPart(NamedTuple):
    """Pages of one column chunk, as they are in their file.

    Attributes:
        codec: Parquet's number of the compression.
        values: The number of values in the data pages, NULLs included.
        unpacked: The approximate number of bytes after decompression.
        spans: Where the pages lie with their headers; the dictionary page comes first.
        dictionary: True if the first span is a dictionary page and nothing else.
        chunk: The bytes of the chunk if they were read before, and where they begin; else None.
    """

    codec: int
    values: int
    unpacked: int
    spans: Sequence[Span]
    dictionary: bool = False
    chunk: tuple[int, memoryview] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the pages."""
        if len(self.spans) == 1:
            start, stop = self.spans[0]
            return stop - start
        return sum(stop - start for start, stop in self.spans)


class GroupPart(NamedTuple):
    """Parts of the column chunks of one row group, with the same number of values each.

    Attributes:
        ranges: Reads the file.
        parts: A part for each column.
    """

    ranges: Ranges
    parts: Sequence[ChunkPart]


class PageFile(NamedTuple):
    """A Parquet file in memory.

    Attributes:
        data: The file.
        names: The columns.
        views: The bytes of the pages in it: for each row group one view for each column.
        chunks: Where the pages of each column chunk start and stop in it, and the number of their
            values, shape (chunks, 3).
        unpacked: The approximate bytes of all columns after decompression.
        mask: The name of a further column that is true for the rows to return; None: all rows.
        keep: That mask, shape (rows,).
    """

    data: bytes
    names: Sequence[str]
    views: Sequence[Sequence[memoryview]]
    chunks: npt.NDArray[np.int64]
    unpacked: int
    mask: str | None
    keep: Mask | None


@contextlib.contextmanager
def read_pages(
    columns: Sequence[tuple[str, LeafType]], groups: Sequence[GroupPart], keep: Mask | None = None
) -> Iterator[PageFile]:
    """Read pages into a Parquet file, whose memory is used again after the `with` block.

    Args:
        columns: Names and types.
        groups: The row groups.
        keep: The mask of the rows to return; None: all of them.

    Raises:
        OSError: a file cannot be read, or is shorter.
    """
    names = [name for name, _ in columns]
    mask = None if keep is None else _unused(names)
    masks = [] if keep is None else _mask_pages(keep, groups)
    end = _end(columns, groups, mask, masks)
    nbytes = sum(p.nbytes for g in groups for p in g.parts)
    stop = len(MAGIC) + nbytes + sum(map(len, masks))
    with buffer(stop + len(end)) as lent:
        with lent.getbuffer() as into:
            _read_into(groups, into)
            into[len(MAGIC) + nbytes : stop] = b"".join(masks)
            into[-len(end) :] = end
        data = lent.getvalue()  # shares the memory
        views: list[list[memoryview]] = []
        chunks: list[tuple[int, int, int]] = []
        at, whole = len(MAGIC), memoryview(data)
        for group in groups:
            views.append([])
            for part in group.parts:
                after = at + part.nbytes
                views[-1].append(whole[at:after])
                chunks.append((at, after, part.values))
                at = after
        unpacked = sum(max(8 * p.values, p.unpacked) for g in groups for p in g.parts)
        chunk_ends = np.array(chunks, np.int64)
        yield PageFile(data, names, views, chunk_ends, unpacked, mask, keep)


def _read_into(groups: Sequence[GroupPart], buffer: memoryview) -> None:
    """Read the pages, one after another."""
    at = len(MAGIC)
    by_file: dict[int, tuple[Ranges, list[tuple[Span, memoryview]]]] = {}
    for group in groups:
        _, wanted = by_file.setdefault(id(group.ranges), (group.ranges, []))
        for part in group.parts:
            for start, stop in part.spans:
                into = buffer[at : at + stop - start]
                at += stop - start
                if part.chunk is None:
                    wanted.append(((start, stop), into))
                else:
                    first, data = part.chunk
                    into[:] = data[start - first : stop - first]
                    into.release()
    each = list(by_file.values())

    def read(first: int, last: int) -> None:
        for ranges, wanted in each[first:last]:
            ranges.read_into(wanted)
            for _, view in wanted:
                view.release()

    files = 1 if at >= PARALLEL_BYTES else len(each)
    run_chunks(read, len(each), files)


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
        n = group.parts[0].values
        body = np.packbits(keep[done : done + n], bitorder="little").tobytes()
        size = t.i32(len(body))
        coding = {1: t.i32(n), 2: t.i32(PLAIN), 3: t.i32(RLE), 4: t.i32(RLE)}
        out.append(t.write_struct({1: t.i32(0), 2: size, 3: size, 5: t.structure(coding)}) + body)
        done += n
    return out


def _end(
    columns: Sequence[tuple[str, LeafType]],
    groups: Sequence[GroupPart],
    mask: str | None,
    masks: Sequence[bytes],
) -> bytes:
    """Return the end of the file: the footer, its length and the magic bytes."""
    at, row_groups = len(MAGIC), []
    metadata = functools.cache(_metadata_of)
    at_mask = at + sum(p.nbytes for g in groups for p in g.parts)
    for i, group in enumerate(groups):
        chunks, values = [], group.parts[0].values
        for (name, leaf), part in zip(columns, group.parts, strict=True):
            chunks.append(_chunk(metadata(name, leaf.physical, part.codec), part, at))
            at += part.nbytes
        if mask is not None:
            nbytes = len(masks[i])
            page = ChunkPart(UNCOMPRESSED, values, nbytes, [(0, nbytes)])
            chunks.append(_chunk(metadata(mask, BOOLEAN, page.codec), page, at_mask))
            at_mask += nbytes
        row_groups.append(
            {
                1: t.structures(chunks),
                2: t.i64(sum(part.unpacked for part in group.parts)),
                3: t.i64(values),
            }
        )
    elements = [dict(leaf.element) | {NAME: t.binary(name.encode())} for name, leaf in columns]
    if mask is not None:
        required = {TYPE: t.i32(BOOLEAN), REPETITION: t.i32(REQUIRED)}
        elements.append(required | {NAME: t.binary(mask.encode())})
    root: t.Fields = {NAME: t.binary(b"schema"), CHILDREN: t.i32(len(elements))}
    footer = t.write_struct(
        {
            1: t.i32(2),
            2: t.structures([root, *elements]),
            3: t.i64(sum(g.parts[0].values for g in groups)),
            4: t.structures(row_groups),
        }
    )
    return b"".join((footer, struct.pack("<I", len(footer)), MAGIC))


def _metadata_of(name: str, physical: int, codec: int) -> bytes:
    """Return the first fields of a chunk's metadata."""
    return t.write_struct(
        {
            1: t.i32(physical),
            2: t.numbers(ENCODINGS),
            3: t.texts([name.encode()]),
            4: t.i32(codec),
        }
    )


def _chunk(metadata: bytes, part: ChunkPart, first: int) -> bytes:
    """Return a column chunk whose pages begin at `first`."""
    start, stop = part.spans[0]
    data = first + (stop - start if part.dictionary else 0)
    offsets = {9: data, 11: first} if part.dictionary else {9: data}
    numbers = {5: part.values, 6: part.unpacked, 7: part.nbytes, **offsets}
    own = t.write_numbers(metadata, 4, numbers)
    return b"".join((t.write_numbers(b"\0", 0, {2: first})[:-1], CHUNK_METADATA, own, b"\0"))
