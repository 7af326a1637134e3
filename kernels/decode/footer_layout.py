"""Find the statistics of column chunks in a Parquet footer.

`GRAMMAR` is parquet.thrift as a table, and a compiled loop reads by it.

Source: Apache Parquet, `parquet.thrift`; Apache Thrift, `doc/specs/thrift-compact-protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from skipstone.kernels.decode import footer_loops
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode.spans import GATHER, Bytes, Longs
from skipstone.kernels.run import compile_cache, loops
from skipstone.kernels.run.loops import Loop, compiled

WALK: Final = Loop(
    footer_loops,
    "read_footers",
    "i8(readonly, array, matrix, matrix, array, matrix, matrix, matrix, array, matrix)",
    ("read_varint", "decode_zigzag", "read_list_head", "store_struct", "read_struct"),
)
# Bytes of a footer for each column chunk; a footer with fewer is read twice.
TYPICAL: Final = 64
END: Final = bytes([at.STRUCT])  # the list of row groups, without its items
# Structure -> field -> (type, type of a list's items, structure of the value or of the items, slot
# that keeps the value, or -1). `REQUIRED` lists the fields that a structure must have: if one is
# missing, Arrow's reader also rejects the footer. A chunk's metadata is the exception, since it may
# be encrypted.
GRAMMAR: Final[dict[int, dict[int, tuple[int, int, int, int]]]] = {
    at.FILE: {4: (at.LIST, at.STRUCT, at.GROUP, -1), 7: (at.LIST, at.STRUCT, at.ORDER, -1)},
    at.ORDER: {1: (at.STRUCT, 0, at.ANY, -1)},
    at.GROUP: {
        1: (at.LIST, at.STRUCT, at.CHUNK, -1),
        2: (at.I64, 0, 0, -1),
        3: (at.I64, 0, 0, at.ROWS),
        4: (at.LIST, at.STRUCT, at.SORTING, -1),
        5: (at.I64, 0, 0, -1),
        6: (at.I64, 0, 0, -1),
        7: (at.I16, 0, 0, -1),
    },
    at.SORTING: {1: (at.I32, 0, 0, -1), 2: (at.TRUE, 0, 0, -1), 3: (at.TRUE, 0, 0, -1)},
    at.CHUNK: {
        1: (at.BINARY, 0, 0, -1),
        2: (at.I64, 0, 0, -1),
        3: (at.STRUCT, 0, at.COLUMN, -1),
        4: (at.I64, 0, 0, -1),
        5: (at.I32, 0, 0, -1),
        6: (at.I64, 0, 0, -1),
        7: (at.I32, 0, 0, -1),
        # Encrypted chunks: the loop refuses these fields and leaves the footer to Arrow's reader.
        8: (at.MAP, 0, 0, -1),
        9: (at.MAP, 0, 0, -1),
    },
    at.COLUMN: {
        1: (at.I32, 0, 0, at.TYPE),
        2: (at.LIST, at.I32, 0, -1),
        3: (at.LIST, at.BINARY, 0, -1),
        4: (at.I32, 0, 0, -1),
        5: (at.I64, 0, 0, -1),
        6: (at.I64, 0, 0, -1),
        7: (at.I64, 0, 0, at.BYTES),
        8: (at.LIST, at.STRUCT, at.PAIR, -1),
        9: (at.I64, 0, 0, -1),
        10: (at.I64, 0, 0, -1),
        11: (at.I64, 0, 0, -1),
        12: (at.STRUCT, 0, at.STATISTICS, at.HAS_STATISTICS),
        13: (at.LIST, at.STRUCT, at.ENCODING, -1),
        14: (at.I64, 0, 0, at.BLOOM),
        15: (at.I32, 0, 0, at.BLOOM_SIZE),
        16: (at.STRUCT, 0, at.LEVELS, -1),
        17: (at.MAP, 0, 0, -1),  # geospatial statistics: left to Arrow's reader
    },
    at.STATISTICS: {
        1: (at.BINARY, 0, 0, -1),
        2: (at.BINARY, 0, 0, -1),
        3: (at.I64, 0, 0, at.NULLS),
        4: (at.I64, 0, 0, -1),
        5: (at.BINARY, 0, 0, at.MAX),
        6: (at.BINARY, 0, 0, at.MIN),
        7: (at.TRUE, 0, 0, at.MAX_EXACT),
        8: (at.TRUE, 0, 0, at.MIN_EXACT),
    },
    at.PAIR: {1: (at.BINARY, 0, 0, -1), 2: (at.BINARY, 0, 0, -1)},
    at.ENCODING: {1: (at.I32, 0, 0, -1), 2: (at.I32, 0, 0, -1), 3: (at.I32, 0, 0, -1)},
    at.LEVELS: {
        1: (at.I64, 0, 0, at.UNENCODED),
        2: (at.LIST, at.I64, 0, at.REPEATED),
        3: (at.LIST, at.I64, 0, at.DEFINED),
    },
}
REQUIRED: Final = {
    at.FILE: (1, 2, 3, 4),
    at.GROUP: (1, 2, 3),
    at.SORTING: (1, 2, 3),
    at.CHUNK: (2, 3),
    at.COLUMN: (1, 2, 3, 4, 5, 6, 7, 9),
    at.PAIR: (1,),
    at.ENCODING: (1, 2, 3),
}


Grammar = dict[int, dict[int, tuple[int, int, int, int]]]


def table_of(grammar: Grammar, required: dict[int, tuple[int, ...]]) -> Longs:
    """Return a grammar as the loop reads it."""
    out = np.zeros((at.FIELDS * (at.ORDER + 1), 4), np.int64)
    out[:, at.SLOT] = -1
    for structure, fields in grammar.items():
        for field, entry in fields.items():
            out[structure * at.FIELDS + field] = entry
    for structure, needed in required.items():
        out[structure * at.FIELDS, at.KIND] = sum(1 << field for field in needed)
    return out


TABLE: Final = table_of(GRAMMAR, REQUIRED)


class Layout(NamedTuple):
    """The statistics in a footer of g row groups of c columns.

    Attributes:
        rows: The rows of each row group, shape (g,).
        nbytes: The bytes of each row group, shape (g,).
        chunks: The slots of each column chunk, shape (g, c, WIDTH); kernels/decode/footer_loops.py
            defines them, `FLAGS` to `DEFINED`.
        orders: The number of columns whose bounds have the order of their type, as the footer says.
        rest: The footer without its row groups and its number of rows; files of one writer often
            share it.
    """

    rows: Longs
    nbytes: Longs
    chunks: Longs
    orders: int
    rest: bytes

    def fits(self, columns: int) -> bool:
        """Return True if each row group has as many columns as the schema."""
        return not len(self.rows) or self.chunks.shape[1] == columns


def is_compiled() -> bool:
    """Return True if the loops are compiled."""
    return all(compile_cache.find(loop) is not None for loop in (WALK, GATHER))


def compiled_or_start() -> bool:
    """Return True if the loops are compiled; otherwise start compiling them in the background."""
    return all([loops.compiled_or_start(WALK), loops.compiled_or_start(GATHER)])


def load() -> None:
    """Load the loops, or compile them, now."""
    for loop in (WALK, GATHER):
        compiled(loop)


def load_from_disk() -> bool:
    """Return True if the loops are compiled, or were loaded from disk now."""
    return all(loops.load(loop) is not None for loop in (WALK, GATHER))


class Layouts(NamedTuple):
    """The structures that the loop found in m footers, or in other lists of structures.

    Attributes:
        found: What it found in each one, shape (m, FINDS); kernels/decode/footer_loops.py defines
            the columns, `FOUND` to `LAST`.
        groups: The rows, bytes and last chunk of each row group, shape (g, 3).
        chunks: The slots of each column chunk, shape (k, WIDTH).
    """

    found: Longs
    groups: Longs
    chunks: Longs


def layouts_of(
    data: Bytes, starts: Longs, table: Longs = TABLE, walk: Callable[..., int] | None = None
) -> Layouts:
    """Read consecutive footers, or other lists of structures.

    Args:
        data: The structures, in Thrift's compact protocol.
        starts: The start of each one, then the end of the last one, shape (m + 1,).
        table: Their grammar.
        walk: The loop; None means the compiled one.
    """
    walk = walk or compiled(WALK)
    stack, slots = np.empty((at.DEPTH, 4), np.int64), np.empty(at.SLOTS, np.int64)
    spans = np.empty((at.FIELDS, 2), np.int64)
    found = np.empty((len(starts) - 1, at.FINDS), np.int64)
    capacity = len(data) // TYPICAL + 16 * len(found)
    while True:
        groups, chunks = np.empty((capacity, 3), np.int64), np.empty((capacity, at.WIDTH), np.int64)
        totals = np.zeros(3, np.int64)
        walk(data, starts, table, stack, slots, groups, chunks, spans, totals, found)
        number, total, _ = totals.tolist()
        if max(number, total) <= capacity:
            return Layouts(found, groups[:number], chunks[:total])
        capacity = max(number, total)


def structures_of(
    data: Bytes, table: Longs, walk: Callable[..., int] | None = None
) -> Layouts | None:
    """Read a footer, or another list of structures; None if the bytes are damaged."""
    layouts = layouts_of(data, np.array([0, len(data)]), table, walk)
    return layouts if layouts.found[0, at.FOUND] else None


def layout_of(data: Bytes, walk: Callable[..., int] | None = None) -> Layout | None:
    """Return the layout of a footer, or None if only Arrow's reader can read it.

    Args:
        data: FileMetaData in Thrift's compact protocol.
        walk: The loop; None means the compiled one.
    """
    layouts = structures_of(data, TABLE, walk)
    if layouts is None or not has_rest(layouts.found)[0]:
        return None
    return Layout(
        layouts.groups[:, 0],
        layouts.groups[:, 1],
        per_group(layouts),
        int(layouts.found[0, at.ORDERS]),
        rest_of(data, 0, len(data), layouts.found[0].tolist()),
    )


def has_rest(found: Longs) -> npt.NDArray[np.bool_]:
    """Return a mask of the footers that the loop understood, fields in their usual order."""
    _from, to, first, last = found[:, at.FROM : at.LAST + 1].T
    ordered = (_from < to) & (to <= first) & (first < last)
    return np.asarray(ordered & (found[:, at.FOUND] == 1), np.bool_)


def rest_of(data: Bytes, start: int, stop: int, found: Sequence[int]) -> bytes:
    """Return a footer without its row groups and its number of rows.

    Args:
        data: The bytes of one or more footers.
        start, stop: The start and the end of this one.
        found: What the loop found of it, shape (FINDS,).
    """
    number, after, first, last = found[at.FROM : at.LAST + 1]
    view = data.data
    return b"".join((view[start:number], b"\0", view[after:first], END, view[last:stop]))


def per_group(found: Layouts) -> Longs:
    """Return the slots of one footer's column chunks, shape (g, c, WIDTH)."""
    groups, columns = found.found[0, [at.GROUPS, at.COLUMNS]].tolist()
    return found.chunks.reshape(groups, columns, at.WIDTH)
