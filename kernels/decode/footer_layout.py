"""Find the statistics of column chunks in a Parquet footer.

`GRAMMAR` is parquet.thrift as a table, and a compiled loop reads by it.

Source: Apache Parquet, `parquet.thrift`; Apache Thrift, `doc/specs/thrift-compact-protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from skipstone.kernels.decode import footer_loops
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode.spans import GATHER, Bytes, Longs
from skipstone.kernels.run import compile_cache, loops
from skipstone.kernels.run.loops import Loop, compiled

WALK: Final = Loop(
    footer_loops,
    "walk",
    "i8(readonly, i8, matrix, matrix, array, matrix, matrix, matrix, array)",
    ("number", "signed", "items", "ended"),
)
# Bytes of a footer for each column chunk; a footer with fewer is read twice.
TYPICAL: Final = 64
NUM_ROWS, ROW_GROUPS = 3, 4  # fields of FileMetaData
# Structure -> field -> (type, type of a list's items, structure of the value or of the items, slot
# that keeps the value, or -1). `REQUIRED` lists the fields that a structure must have: without one
# of them Arrow's reader rejects the footer too. A chunk's metadata is the exception, since it may
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
        12: (at.STRUCT, 0, at.STATISTICS, at.SAID),
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
            defines them, `TOLD` to `DEFINED`.
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


def is_there() -> bool:
    """Return True if the loops are compiled."""
    return all(compile_cache.find(loop) is not None for loop in (WALK, GATHER))


def at_hand() -> bool:
    """Return True if the loops are compiled; otherwise start compiling them in the background."""
    return all([loops.at_hand(WALK), loops.at_hand(GATHER)])


class Structures(NamedTuple):
    """The structures that the loop found in a footer, or in another list of structures.

    Attributes:
        groups: The rows, bytes and last chunk of each row group, shape (g, 3).
        chunks: The slots of each column chunk, shape (k, WIDTH).
        marks: The start, after its head, and the end of each field, shape (FIELDS, 2).
        orders: The number of columns whose bounds have the order of their type.
    """

    groups: Longs
    chunks: Longs
    marks: Longs
    orders: int


def structures_of(
    data: Bytes, table: Longs, walk: Callable[..., int] | None = None
) -> Structures | None:
    """Read a footer, or another list of structures; None if the bytes are damaged.

    Args:
        data: A structure in Thrift's compact protocol.
        table: Its grammar.
        walk: The loop; None: the compiled one.
    """
    walk = walk or compiled(WALK)
    stack = np.empty((at.DEPTH, 4), np.int64)
    now = np.empty(at.SLOTS, np.int64)
    capacity = len(data) // TYPICAL + 16
    while True:
        groups, chunks = np.empty((capacity, 3), np.int64), np.empty((capacity, at.WIDTH), np.int64)
        marks, totals = np.zeros((at.FIELDS, 2), np.int64), np.zeros(3, np.int64)
        if walk(data, 0, table, stack, now, groups, chunks, marks, totals) != len(data):
            return None
        number, total, orders = totals.tolist()
        if max(number, total) <= capacity:
            return Structures(groups[:number], chunks[:total], marks, orders)
        capacity = max(number, total)


def layout_of(data: Bytes, walk: Callable[..., int] | None = None) -> Layout | None:
    """Return the layout of a footer, or None if only Arrow's reader can read it.

    Args:
        data: FileMetaData in Thrift's compact protocol.
        walk: The loop; None: the compiled one.
    """
    found = structures_of(data, TABLE, walk)
    if found is None or (chunks := per_group(found)) is None:
        return None
    (first, after), (start, stop) = found.marks[NUM_ROWS].tolist(), found.marks[ROW_GROUPS].tolist()
    if not first < after <= start < stop:
        return None
    rest = (
        b"\0".join((data[:first].tobytes(), data[after:start].tobytes()))
        + bytes([at.STRUCT])
        + data[stop:].tobytes()
    )
    return Layout(found.groups[:, 0], found.groups[:, 1], chunks, found.orders, rest)


def per_group(found: Structures) -> Longs | None:
    """Return the slots of a footer's column chunks, shape (g, c, WIDTH).

    None: the row groups have different numbers of columns.
    """
    number = len(found.groups)
    columns = len(found.chunks) // number if number else 0
    if (found.groups[:, 2] != columns * np.arange(1, number + 1)).any():
        return None
    return found.chunks.reshape(number, columns, at.WIDTH)
