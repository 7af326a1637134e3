"""The pages of a column chunk: where they lie and which rows they hold.

An offset index lists them. Without one, they are found by their headers, some bytes before each.
Neither is trusted: pages must follow each other within the chunk and hold its rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.pages.chunk import Chunk
from skipstone.bindings.tables.parquet.pages.page_file import ChunkPart
from skipstone.bindings.tables.parquet.pages.ranges import Ranges, Span
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import page_layout as layout

# Encodings that use a dictionary; old writers use number 2.
DICTIONARY_ENCODINGS: Final = (2, 8)
# PLAIN, RLE, the three delta encodings, and BYTE_STREAM_SPLIT. Any other may use a dictionary.
WITHOUT_DICTIONARY: Final = frozenset((0, 3, 5, 6, 7, 9))
# Bytes that are read to find a header: at first, and whenever it does not end within them.
HEADER_BYTES: Final = (layout.HEADER_BYTES, 1 << 12, 1 << 16)
# Chunks up to this size are read whole to find their headers: the limit for any chunk, and the
# limit for a column that the condition tests.
SMALL_CHUNK, JUDGED_CHUNK = 1 << 17, 1 << 22
# Pages of other kinds hold no values; Arrow passes over them.
KINDS: Final = (at.DICTIONARY_PAGE, at.DATA_PAGE, at.DATA_PAGE_V2)


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """The data pages of a column chunk.

    Attributes:
        dictionary: Where the dictionary page lies; None if there is none.
        starts, stops: Where the data pages lie, with their headers, shape (pages,).
        rows: The first row of each page, and last the number of rows, shape (pages + 1,).
        headers: Slots of the pages' headers (kernels/decode/page_layout.py), shape (pages, any);
            None if they were not read. Their bounds are positions in `data`.
        data: The bytes that hold the headers.
        chunk: All bytes of the chunk, if they were read.
        repeated, codec: As of the chunk.
    """

    dictionary: Span | None
    starts: Ints
    stops: Ints
    rows: Ints
    headers: Ints | None = None
    data: bytes | memoryview = b""
    chunk: memoryview | None = None
    repeated: int = 0
    codec: int = 0

    def __len__(self) -> int:
        return len(self.starts)

    def compact(self) -> Pages:
        """Return the same pages without the bytes of the chunk: only their headers stay."""
        if self.headers is None or self.chunk is None:
            return self
        headers = self.headers.copy()
        first, stop = headers[:, layout.START], headers[:, layout.STOP].tolist()
        pieces = [bytes(self.data[a:b]) for a, b in zip(first.tolist(), stop, strict=True)]
        headers[:, [at.MIN, at.MAX]] += (np.cumsum([0, *map(len, pieces[:-1])]) - first)[:, None]
        return dataclasses.replace(self, headers=headers, data=b"".join(pieces), chunk=None)

    @property
    def last(self) -> Ints:
        """The number of the last page, shape (1,)."""
        return np.array([len(self) - 1])

    def needed(self, windows: Sequence[tuple[int, int]], rows: npt.NDArray[np.bool_]) -> Ints:
        """Return the numbers of the pages that hold a candidate row.

        Args:
            windows: Ranges of rows of the row group, ascending.
            rows: The mask of the candidates among the rows of all windows, one after another.
        """
        out = np.zeros(len(self), np.bool_)
        done = 0
        for first, stop in windows:
            own = rows[done : done + stop - first]
            done += stop - first
            a = int(np.searchsorted(self.rows, first, "right")) - 1
            b = int(np.searchsorted(self.rows, stop, "left"))
            edges = np.maximum(self.rows[a:b] - first, 0)
            out[a:b] |= np.logical_or.reduceat(own, edges)
        return np.flatnonzero(out)

    def dictionary_of(self, chosen: Ints) -> Span | None:
        """Return where the dictionary page lies; None if the chosen pages certainly do not use it.

        Writers stop using a dictionary when it has grown to 1 MB; later pages hold the values.
        """
        if self.dictionary is None or self.headers is None:
            return self.dictionary
        used = set(self.headers[chosen, layout.ENCODING].tolist())
        return None if used <= WITHOUT_DICTIONARY else self.dictionary

    def spans(self, chosen: Ints) -> list[Span]:
        """Return where pages lie, runs of neighbours as one; their dictionary page comes first.

        Args:
            chosen: The numbers of the pages, ascending.
        """
        dictionary = self.dictionary_of(chosen)
        out = [] if dictionary is None else [dictionary]
        first = np.flatnonzero(np.append(True, np.diff(chosen) > 1))
        last = np.append(first[1:], len(chosen)) - 1
        starts, stops = self.starts[chosen[first]].tolist(), self.stops[chosen[last]].tolist()
        return [*out, *zip(starts, stops, strict=True)]


def pages_of(chunk: Chunk, ranges: Ranges, *, judged: bool = False) -> Pages | None:
    """Return the pages of a column chunk; None if they cannot be found.

    Without an offset index, the headers of version 1 do not tell the rows of lists and maps. The
    rows of many values are counted only once the loop for it is compiled.

    Args:
        chunk: The chunk.
        ranges: Reads its file.
        judged: True if a condition tests the column, so that most of its pages are read.

    Raises:
        OSError: the file cannot be read.
    """
    if chunk.repeated:
        from skipstone.bindings.tables.parquet.pages.nested.page_rows import can_count_rows

        if not can_count_rows(chunk.values):
            return None
    if chunk.offset_index is not None:
        (data,) = ranges.read([chunk.offset_index])
        return _from_index(chunk, data)
    largest = JUDGED_CHUNK if judged else SMALL_CHUNK
    if not ranges.local or (chunk.nbytes <= largest and not chunk.repeated):
        (data,) = ranges.read([(chunk.start, chunk.stop)])
        headers = layout.headers_of(np.frombuffer(data, np.uint8), chunk.values)
        pages = None if headers is None else _from_headers(chunk, headers, chunk.start, data)
        return pages and dataclasses.replace(pages, chunk=data)
    return _from_file(chunk, ranges)


def _from_index(chunk: Chunk, data: memoryview) -> Pages | None:
    found = layout.locations_of(np.frombuffer(data, np.uint8))
    if found is None or not len(found):
        return None
    starts, sizes, rows = (found[:, i] for i in (layout.OFFSET, layout.SIZE, layout.FIRST_ROW))
    dictionary = (chunk.start, int(starts[0])) if starts[0] > chunk.start else None
    return _checked(
        chunk,
        Pages(
            dictionary,
            starts,
            starts + sizes,
            np.append(rows, chunk.rows),
            repeated=chunk.repeated,
            codec=chunk.codec,
        ),
    )


def _from_headers(
    chunk: Chunk, headers: Ints, origin: int, data: bytes | memoryview
) -> Pages | None:
    """Return pages from their headers; `origin` is where the headers' positions count from."""
    starts = headers[:, layout.START] + origin
    return _of_headers(chunk, headers, starts, headers[:, layout.STOP] + origin, data)


def _of_headers(
    chunk: Chunk, headers: Ints, starts: Ints, bodies: Ints, data: bytes | memoryview
) -> Pages | None:
    stops = bodies + headers[:, at.BYTES]
    of_data = is_data(headers)
    others = np.flatnonzero(~of_data)
    dictionary = None
    if len(others):
        if others.tolist() != [0] or headers[0, at.TYPE] != at.DICTIONARY_PAGE:
            return None
        dictionary = (int(starts[0]), int(stops[0]))
    headers = headers[of_data]
    if chunk.repeated and (headers[:, at.TYPE] != at.DATA_PAGE_V2).any():
        return None
    counts = headers[:, at.PAGE_ROWS if chunk.repeated else at.PAGE_VALUES]
    pages = Pages(
        dictionary,
        starts[of_data],
        stops[of_data],
        np.cumsum(np.append(0, counts)),
        headers,
        data,
        repeated=chunk.repeated,
        codec=chunk.codec,
    )
    return _checked(chunk, pages)


def _from_file(chunk: Chunk, ranges: Ranges) -> Pages | None:
    """Find pages by reading one header after another, without the bytes in between."""
    kinds = (at.DICTIONARY_PAGE, at.DATA_PAGE_V2) if chunk.repeated else KINDS
    found = headers_in(chunk, ranges, kinds)
    if found is None:
        return None
    starts, headers, pieces = found
    origins = np.cumsum([0, *map(len, pieces[:-1])])
    headers[:, [at.MIN, at.MAX]] += origins[:, None]
    return _of_headers(chunk, headers, starts, starts + headers[:, layout.STOP], b"".join(pieces))


def headers_in(
    chunk: Chunk, ranges: Ranges, kinds: Sequence[int] = KINDS
) -> tuple[Ints, Ints, list[bytes]] | None:
    """Read the headers of the pages of a chunk, one after another.

    Args:
        chunk: The chunk.
        ranges: Reads its file.
        kinds: The kinds of pages that may occur.

    Returns:
        Arrays that say where pages begin and what their headers hold, and the headers' bytes; None
        if a header is damaged or its page has another kind.
    """
    found, starts, pieces, at_byte, remaining = [], [], [], chunk.start, chunk.values
    reader = layout.HeaderReader(min(chunk.values, chunk.nbytes))
    while remaining > 0:
        header = header_at(reader, ranges, at_byte, chunk.stop)
        if header is None:
            return None
        slots, data = header
        if (kind := slots.item(at.TYPE)) not in kinds:
            return None
        if kind != at.DICTIONARY_PAGE:
            remaining -= slots.item(at.PAGE_VALUES)
        found.append(slots)
        starts.append(at_byte)
        pieces.append(data)
        at_byte += slots.item(layout.STOP) + slots.item(at.BYTES)
    return (np.array(starts), np.stack(found), pieces) if found else None


def header_at(
    reader: layout.HeaderReader, ranges: Ranges, start: int, stop: int
) -> tuple[Ints, bytes] | None:
    """Return the header of a page, shape (any,), and its bytes; None if it is damaged.

    Args:
        reader: Reads headers.
        ranges: Reads the file.
        start: Where the page begins.
        stop: Where it must have ended.
    """
    if ranges.local and start < stop:
        size = min(layout.HEADER_BYTES, stop - start)
        ranges.read_start(start, reader.buffer[:size])
        slots = reader.read_one(size)
        if slots is not None:
            return slots.copy(), bytes(reader.buffer[: slots.item(layout.STOP)])
    for size in HEADER_BYTES:
        end = min(start + size, stop)
        if end <= start:
            return None
        (data,) = ranges.read([(start, end)])
        headers = reader.read(np.frombuffer(data, np.uint8), 1, room=2)
        if headers is not None or end == stop:
            break
    if headers is None or not len(headers):
        return None
    return headers[0].copy(), bytes(data[: headers[0, layout.STOP]])


def is_data(headers: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask of the headers of data pages."""
    kinds = headers[:, at.TYPE]
    return np.asarray((kinds == at.DATA_PAGE) | (kinds == at.DATA_PAGE_V2), np.bool_)


def _checked(chunk: Chunk, pages: Pages) -> Pages | None:
    """Return pages if they follow each other within the chunk and hold its rows, else None."""
    edges = np.append(pages.starts, chunk.stop)
    ok = (
        len(pages) > 0
        and pages.rows[0] == 0
        and pages.rows[-1] == chunk.rows
        and (np.diff(pages.rows) > 0).all()
        and pages.starts[0] >= (chunk.start if pages.dictionary is None else pages.dictionary[1])
        and (pages.stops > pages.starts).all()
        and (pages.stops <= edges[1:]).all()
    )
    return pages if ok else None


def part_of(chunk: Chunk, pages: Pages, chosen: Ints) -> ChunkPart:
    """Return chosen pages of a chunk.

    Args:
        chunk: The chunk.
        pages: Its pages.
        chosen: The numbers of the pages, ascending.
    """
    rows = values = int((pages.rows[chosen + 1] - pages.rows[chosen]).sum())
    if pages.repeated:
        # An offset index does not tell how many values pages have; readers stop at the last page.
        values = chunk.values
        if pages.headers is not None:
            values = int(pages.headers[chosen, at.PAGE_VALUES].sum())
    spans = pages.spans(chosen)
    nbytes = sum(stop - start for start, stop in spans)
    unpacked = max(nbytes, chunk.unpacked * nbytes // max(chunk.nbytes, 1))
    known = None if pages.chunk is None else (chunk.start, pages.chunk)
    dictionary = pages.dictionary_of(chosen) is not None
    return ChunkPart(chunk.codec, rows, values, unpacked, nbytes, spans, dictionary, known)
