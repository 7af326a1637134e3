"""Find the pages of column chunks: in a footer, in an offset index, and by their own headers.

Source: Apache Parquet, `parquet.thrift`, "Page Index" of its documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from skipstone.kernels.decode import footer_layout, footer_loops
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode.footer_layout import Grammar, layouts_of, structures_of, table_of
from skipstone.kernels.decode.spans import Bytes, Longs
from skipstone.kernels.run import compile_cache, loops
from skipstone.kernels.run.loops import (
    PLAIN_SIZE,
    Loop,
    compiled,
    compiled_or_plain,
    with_arguments,
)

HEADERS: Final = Loop(
    footer_loops,
    "read_page_headers",
    "i8(readonly, i8, i8, matrix, matrix, array, matrix, array, matrix)",
    ("read_varint", "decode_zigzag", "read_list_head", "store_struct", "read_struct"),
)
SOUND: Final = Loop(
    footer_loops,
    "check_pages",
    "i8(readonly, matrix, i8, matrix, matrix, array, matrix, array)",
    ("read_varint", "decode_zigzag", "read_list_head", "store_struct", "read_struct"),
)
# Slots of a column chunk, in the place of its statistics.
CODEC, VALUES, UNCOMPRESSED, DATA, DICTIONARY = range(2, 7)
OFFSET_INDEX, OFFSET_INDEX_SIZE, COLUMN_INDEX, COLUMN_INDEX_SIZE = range(8, 12)
# What the loop found of a footer, and where its chunks begin.
WHERE: Final = (at.FOUND, at.GROUPS, at.COLUMNS, at.FIRST_CHUNK)
# Slots of a location.
OFFSET, FIRST_ROW, SIZE = 2, 3, at.BYTES
# Columns that follow the slots of a page.
ENCODING, START, STOP = range(at.WIDTH, at.WIDTH + 3)
PAGE_WIDTH: Final = at.WIDTH + 3
PAGE_ROWS: Final = 1 << 14  # most writers start a new page after 20,000 rows, or 1 MB
HEADER_BYTES: Final = 1 << 8  # nearly every header fits in this many bytes
FEW_PAGES: Final = 1 << 6  # Python reads so many in some 10 ms; loading a loop takes 2 to 30 ms
_seen_by_python = 0


def _without_slots(grammar: Grammar) -> Grammar:
    return {
        structure: {f: (*entry[:3], -1) for f, entry in fields.items()}
        for structure, fields in grammar.items()
    }


_page_locations = _without_slots(footer_layout.GRAMMAR)
_page_locations[at.GROUP][3] = (at.I64, 0, 0, at.ROWS)
_page_locations[at.CHUNK] |= {
    1: (at.MAP, 0, 0, -1),  # pages in another file: refused
    4: (at.I64, 0, 0, OFFSET_INDEX),
    5: (at.I32, 0, 0, OFFSET_INDEX_SIZE),
    6: (at.I64, 0, 0, COLUMN_INDEX),
    7: (at.I32, 0, 0, COLUMN_INDEX_SIZE),
}
_page_locations[at.COLUMN] |= {
    1: (at.I32, 0, 0, at.TYPE),
    4: (at.I32, 0, 0, CODEC),
    5: (at.I64, 0, 0, VALUES),
    6: (at.I64, 0, 0, UNCOMPRESSED),
    7: (at.I64, 0, 0, at.BYTES),
    9: (at.I64, 0, 0, DATA),
    11: (at.I64, 0, 0, DICTIONARY),
}
PAGE_LOCATIONS: Final = table_of(_page_locations, footer_layout.REQUIRED)
LOCATIONS: Final = table_of(
    {
        at.FILE: {1: (at.LIST, at.STRUCT, at.CHUNK, -1)},
        at.CHUNK: {
            1: (at.I64, 0, 0, OFFSET),
            2: (at.I32, 0, 0, SIZE),
            3: (at.I64, 0, 0, FIRST_ROW),
        },
    },
    {at.FILE: (1,), at.CHUNK: (1, 2, 3)},
)
# Structures of a page header, under kinds that the loop does not store.
_DATA, _DATA_V2, _DICTIONARY = at.LEVELS, at.SORTING, at.PAIR
PAGE: Final = table_of(
    {
        at.FILE: {
            1: (at.I32, 0, 0, at.TYPE),
            2: (at.I32, 0, 0, at.UNPACKED),
            3: (at.I32, 0, 0, at.BYTES),
            4: (at.I32, 0, 0, -1),
            5: (at.STRUCT, 0, _DATA, -1),
            7: (at.STRUCT, 0, _DICTIONARY, -1),
            8: (at.STRUCT, 0, _DATA_V2, -1),
        },
        _DATA: {
            1: (at.I32, 0, 0, at.PAGE_VALUES),
            2: (at.I32, 0, 0, at.PAGE_ENCODING),
            3: (at.I32, 0, 0, -1),
            4: (at.I32, 0, 0, -1),
            5: (at.STRUCT, 0, at.STATISTICS, at.HAS_STATISTICS),
        },
        _DICTIONARY: {1: (at.I32, 0, 0, at.PAGE_VALUES), 2: (at.I32, 0, 0, at.PAGE_ENCODING)},
        _DATA_V2: {
            1: (at.I32, 0, 0, at.PAGE_VALUES),
            2: (at.I32, 0, 0, at.PAGE_NULLS),
            3: (at.I32, 0, 0, at.PAGE_ROWS),
            4: (at.I32, 0, 0, at.PAGE_ENCODING),
            5: (at.I32, 0, 0, at.DEFINED_BYTES),
            6: (at.I32, 0, 0, at.REPEATED_BYTES),
            7: (at.TRUE, 0, 0, -1),
            8: (at.STRUCT, 0, at.STATISTICS, at.HAS_STATISTICS),
        },
        at.STATISTICS: footer_layout.GRAMMAR[at.STATISTICS],
    },
    {at.FILE: (1, 2, 3), _DATA: (1, 2, 3, 4), _DICTIONARY: (1, 2), _DATA_V2: (1, 2, 3, 4, 5, 6)},
)


def is_compiled() -> bool:
    """Return True if the loops are compiled."""
    return footer_layout.is_compiled() and compile_cache.find(HEADERS) is not None


def compiled_or_start() -> bool:
    """Return True if the loops are compiled; otherwise start compiling them in the background."""
    return all([footer_layout.compiled_or_start(), loops.compiled_or_start(HEADERS)])


def load_from_disk() -> bool:
    """Return True if the loops are compiled, or were loaded from disk now."""
    return footer_layout.load_from_disk() and loops.load(HEADERS) is not None


class PageSlots(NamedTuple):
    """The places of the pages and indexes of a footer's column chunks.

    Attributes:
        slots: Shape (row groups, columns, WIDTH): `CODEC` to `COLUMN_INDEX_SIZE`, with the bits of
            those that are set in slot 0.
        rows: The rows of each row group.
    """

    slots: Longs
    rows: Longs


def page_slots_of(footer: Bytes) -> PageSlots | None:
    """Return the positions of the pages and indexes of a footer's column chunks.

    None means that the footer is damaged, encrypted, or its pages are in other files.
    """
    return all_page_slots([footer])[0]


def all_page_slots(footers: Sequence[Bytes]) -> list[PageSlots | None]:
    """Return for each of several footers what `page_slots_of` returns, in one call of the loop."""
    starts = np.cumsum([0, *map(len, footers)])
    data = footers[0] if len(footers) == 1 else np.concatenate(footers)
    layouts = layouts_of(data, starts, PAGE_LOCATIONS)
    out: list[PageSlots | None] = []
    group = 0
    for found, groups, columns, first in layouts.found[:, WHERE].tolist():
        if not found:
            out.append(None)
            continue
        slots = layouts.chunks[first : first + groups * columns]
        rows = layouts.groups[group : group + groups, 0]
        out.append(PageSlots(slots.reshape(groups, columns, at.WIDTH), rows))
        group += groups
    return out


def locations_of(index: Bytes) -> Longs | None:
    """Return the pages that an offset index lists, not verified.

    Returns:
        Slots, shape (pages, WIDTH): `OFFSET`, `SIZE` and `FIRST_ROW`. None if the index is damaged.
    """
    found = structures_of(index, LOCATIONS, compiled_or_plain(footer_layout.WALK, len(index)))
    return None if found is None else found.chunks


class HeaderReader:
    """Reads the headers of pages; its buffers serve one thread.

    Args:
        values: The number of values in the pages, from which the number of headers is guessed.

    Attributes:
        buffer: Bytes for `read_one`.
    """

    def __init__(self, values: int) -> None:
        self._loop = compiled_or_plain(
            HEADERS, min(HEADER_BYTES * (1 + values // PAGE_ROWS), PLAIN_SIZE)
        )
        self._stack, self._now = np.empty((at.DEPTH, 4), np.int64), np.empty(at.SLOTS, np.int64)
        self._marks, self._totals = np.zeros((at.FIELDS, 2), np.int64), np.zeros(3, np.int64)
        self.buffer, self._one = (
            memoryview(bytearray(HEADER_BYTES)),
            np.empty((1, PAGE_WIDTH), np.int64),
        )
        data = np.frombuffer(self.buffer.toreadonly(), np.uint8)
        self._read_one = with_arguments(
            self._loop,
            data,
            0,
            1,
            PAGE,
            self._stack,
            self._now,
            self._marks,
            self._totals,
            self._one,
        )

    def read_one(self, size: int) -> Longs | None:
        """Read the header at the start of the buffer.

        Args:
            size: The number of bytes in the buffer that are of the file.

        Returns:
            Slots, shape (WIDTH + 3,), which the next call replaces; None if the header is damaged,
            or longer than that.
        """
        found = self._read_one() == 1 and self._one[0, STOP] <= size
        return self._one[0] if found else None

    def read(self, data: Bytes, values: int, room: int = 128) -> Longs | None:
        """Read the headers of a column chunk's pages.

        Args:
            data: Bytes from the chunk, from the start of a header on. They may end within a page.
            values: The number of values after which the chunk ends.
            room: A guess of the number of pages.

        Returns:
            Slots, shape (pages, WIDTH + 3), of the pages whose headers the data holds; None if a
            header is damaged, or cut off.
        """
        while True:
            pages = np.empty((room, PAGE_WIDTH), np.int64)
            count = self._loop(
                data, 0, values, PAGE, self._stack, self._now, self._marks, self._totals, pages
            )
            if count < room:
                return None if count < 0 else pages[:count]
            room *= 4


def headers_of(data: Bytes, values: int) -> Longs | None:
    """Read the headers of a column chunk's pages; see `HeaderReader.read`."""
    return HeaderReader(min(values, len(data))).read(data, values)


def are_sound(data: Bytes, chunks: Longs) -> bool:
    """Return True if the headers of pages fit each other and the footer.

    Also return False if there are many headers, and no compiled loop is on disk yet.

    Decoders trust headers: a negative number of values ends the process in Polars (2.1).

    Args:
        data: Bytes that hold all pages.
        chunks: Where the pages of each column chunk start and stop, and the number of their values,
            shape (any, 3). Flat columns only.
    """
    stack, slots = np.empty((at.DEPTH, 4), np.int64), np.empty(at.SLOTS, np.int64)
    spans, totals = np.zeros((at.FIELDS, 2), np.int64), np.zeros(3, np.int64)
    # If another loop is compiled, this one loads from disk in 2 ms.
    other = compile_cache.find(HEADERS) is not None
    loop = loops.load(SOUND) if other else compile_cache.find(SOUND)
    if loop is None:
        global _seen_by_python
        found = footer_loops.check_pages(data, chunks, FEW_PAGES, PAGE, stack, slots, spans, totals)
        _seen_by_python += abs(found)
        if found >= 0 and _seen_by_python <= FEW_PAGES:
            return found > 0
        is_ready = loops.compiled_or_start(SOUND)
        if found >= 0 or not is_ready:
            return found > 0
        loop = compiled(SOUND)
    return loop(data, chunks, len(data), PAGE, stack, slots, spans, totals) > 0
