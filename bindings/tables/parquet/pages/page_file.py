"""Chosen pages as a Parquet file in memory, which any decoder reads.

The file has the pages' own bytes between a new head and a new footer.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skipstone.bindings.tables.parquet.pages import thrift_writer as t
from skipstone.bindings.tables.parquet.pages.leaf_types import CHILDREN, NAME, LeafType
from skipstone.bindings.tables.parquet.pages.ranges import Ranges, Span

MAGIC: Final = b"PAR1"
# Encodings that a chunk may have: PLAIN, RLE and RLE_DICTIONARY. Pages say which they have.
ENCODINGS: Final = (0, 3, 8)


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """Pages of one column chunk, as they are in their file.

    Attributes:
        codec: Parquet's number of the compression.
        values: The number of values in the data pages, NULLs included.
        unpacked: The approximate number of bytes after decompression.
        spans: Where the pages lie with their headers; the dictionary page comes first.
        dictionary: Whether the first span is a dictionary page and nothing else.
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
        return sum(stop - start for start, stop in self.spans)


@dataclass(frozen=True, slots=True)
class GroupPart:
    """Parts of the column chunks of one row group, with the same number of values each.

    Attributes:
        ranges: Reads the file.
        parts: A part for each column.
    """

    ranges: Ranges
    parts: Sequence[ChunkPart]


def read_pages(
    columns: Sequence[tuple[str, LeafType]], groups: Sequence[GroupPart]
) -> tuple[bytes, list[list[memoryview]]]:
    """Read pages into a Parquet file.

    Args:
        columns: Names and types.
        groups: The row groups.

    Returns:
        The file, and the bytes of the pages in it: for each row group one view for each column.

    Raises:
        OSError: a file cannot be read, or is shorter.
    """
    footer = t.write_struct(_footer(columns, [g.parts for g in groups]))
    end = b"".join((footer, struct.pack("<I", len(footer)), MAGIC))
    out = io.BytesIO()
    out.write(MAGIC)
    out.seek(len(MAGIC) + sum(p.nbytes for g in groups for p in g.parts))
    out.write(end)
    views: list[list[memoryview]] = []
    with out.getbuffer() as buffer:
        at = len(MAGIC)
        for group in groups:
            wanted: list[tuple[Span, memoryview]] = []
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
            group.ranges.read_into(wanted)
            for _, view in wanted:
                view.release()
    file = out.getvalue()  # shares the memory
    whole, at = memoryview(file), len(MAGIC)
    for group in groups:
        views.append([])
        for part in group.parts:
            views[-1].append(whole[at : at + part.nbytes])
            at += part.nbytes
    return file, views


def _footer(
    columns: Sequence[tuple[str, LeafType]], groups: Sequence[Sequence[ChunkPart]]
) -> t.Fields:
    at = len(MAGIC)
    row_groups = []
    for parts in groups:
        chunks = []
        for (name, leaf), part in zip(columns, parts, strict=True):
            chunks.append(_chunk(name, leaf, part, at))
            at += part.nbytes
        row_groups.append(
            {
                1: t.structures(chunks),
                2: t.i64(sum(part.unpacked for part in parts)),
                3: t.i64(parts[0].values),
            }
        )
    root: t.Fields = {NAME: t.binary(b"schema"), CHILDREN: t.i32(len(columns))}
    elements = [dict(leaf.element) | {NAME: t.binary(name.encode())} for name, leaf in columns]
    return {
        1: t.i32(2),
        2: t.structures([root, *elements]),
        3: t.i64(sum(parts[0].values for parts in groups)),
        4: t.structures(row_groups),
    }


def _chunk(name: str, leaf: LeafType, part: ChunkPart, first: int) -> t.Fields:
    start, stop = part.spans[0]
    metadata = {
        1: t.i32(leaf.physical),
        2: t.numbers(ENCODINGS),
        3: t.texts([name.encode()]),
        4: t.i32(part.codec),
        5: t.i64(part.values),
        6: t.i64(part.unpacked),
        7: t.i64(part.nbytes),
        9: t.i64(first + (stop - start if part.dictionary else 0)),
    }
    if part.dictionary:
        metadata[11] = t.i64(first)
    return {2: t.i64(first), 3: t.structure(metadata)}
