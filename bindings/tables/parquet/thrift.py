"""A reader of Thrift's compact protocol, for the few things in a Parquet footer that pyarrow does not show.

Every length is checked against the buffer; hostile bytes end in ThriftError. Structures come as
dictionaries from field number to value.

Source: Apache Thrift, `doc/specs/thrift-compact-protocol.md`; Apache Parquet, `parquet.thrift`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

DEEPEST: Final = 32  # nested structures; a footer needs about six
BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class ThriftError(ValueError):
    """The bytes are not a structure in the compact protocol."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        if n < 0 or self.at + n > len(self.data):
            raise ThriftError(f"{n} bytes are wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise ThriftError(f"a byte is wanted at {self.at}, the end")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ThriftError("a number has more than ten bytes")

    def signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ThriftError(f"structures are nested more than {DEEPEST} deep")
        if I16 <= kind <= I64:
            return self.signed()
        if kind in (BOOL_TRUE, BOOL_FALSE):
            return kind == BOOL_TRUE
        if kind == BYTE:
            return self.byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (LIST, SET):
            return self.items(depth)
        if kind == STRUCT:
            return self.struct(depth)
        raise ThriftError(f"type {kind} is not expected in a footer")

    def items(self, depth: int) -> list[Any] | bytes:
        head = self.byte()
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self.varint()
        if size > len(self.data) - self.at:  # each item takes a byte at least
            raise ThriftError(f"a list of {size} items does not fit")
        if kind in (BOOL_TRUE, BOOL_FALSE):
            return [b == 1 for b in self.take(size)]
        if kind == BYTE:
            return self.take(size)
        return [self.value(kind, depth + 1) for _ in range(size)]

    def struct(self, depth: int) -> dict[int, Any]:
        out: dict[int, Any] = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.signed()
            if field in out or not 0 < field < 1 << 15:
                raise ThriftError(f"field {field} is there twice, or has no such number")
            out[field] = self.value(head & 15, depth + 1)
        return out


def read_struct(data: bytes) -> dict[int, Any]:
    """The structure at the start of `data`.

    Raises:
        ThriftError: the bytes are not one.
    """
    return sized_struct(data)[0]


def sized_struct(data: bytes) -> tuple[dict[int, Any], int]:
    """The structure at the start of `data`, and how many bytes it takes.

    Raises:
        ThriftError: the bytes are not one.
    """
    reader = _Reader(data)
    return reader.struct(0), reader.at


# parquet.thrift. Fields of the footer that lead to column chunks.
ROW_GROUPS, COLUMNS, META_DATA, KEY = 4, 1, 3, 8
# Of ColumnMetaData, and of its Statistics and SizeStatistics.
TYPE, BYTES, STATISTICS, SIZES = 1, 7, 12, 16
OLD_MAX, OLD_MIN, MAX, MIN, MAX_EXACT, MIN_EXACT = 1, 2, 5, 6, 7, 8
UNENCODED, REPEATED, DEFINED = 1, 2, 3
# Lists of the footer, of a row group, of a column chunk's metadata: field -> what Python makes of an item. Arrow's reader takes
# the items for that, whatever they say they are.
LISTS: Final[tuple[dict[int, type], ...]] = (
    {2: dict, ROW_GROUPS: dict, 5: dict, 7: dict},
    {COLUMNS: dict, 4: dict},
    {2: int, 3: bytes, 8: dict, 13: dict},
)

Said = dict[int, Any]


def column_chunks(footer: bytes) -> list[list[Said]]:
    """What a footer says of its column chunks: fields of ColumnMetaData, per row group and column; none where they are encrypted.

    Raises:
        ThriftError: the bytes are not a Parquet footer, or one that Arrow's reader may take for another.
    """
    whole = read_struct(footer)
    _check(whole, LISTS[0])
    out = []
    for group in whole.get(ROW_GROUPS, []):
        _check(group, LISTS[1])
        out.append([_chunk(chunk) for chunk in group.get(COLUMNS, [])])
    return out


def _chunk(chunk: Said) -> Said:
    _check(_inner(_inner(chunk, KEY), 2), {1: bytes})
    said = _inner(chunk, META_DATA)
    _check(said, LISTS[2])
    _check(_inner(said, SIZES), {REPEATED: int, DEFINED: int})
    _check(_inner(said, 17), {2: int})
    return (
        {}
        if KEY in chunk
        else {field: said[field] for field in (TYPE, BYTES, STATISTICS, SIZES) if field in said}
    )


def _inner(outer: Said, field: int) -> Said:
    found = outer.get(field, {})
    if not isinstance(found, dict):
        raise ThriftError(f"field {field} is no structure")
    return found


def _check(found: Said, lists: Mapping[int, type]) -> None:
    for field, kind in lists.items():
        items = found.get(field)
        if items is not None and (
            not isinstance(items, list) or not all(type(i) is kind for i in items)
        ):
            raise ThriftError(f"field {field} is no list of what a Parquet footer has there")
