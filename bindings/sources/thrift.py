"""A reader of Thrift's compact protocol, for the few things in a Parquet footer that pyarrow does not show.

Every length is checked against the buffer; hostile bytes end in ThriftError. Structures come as
dictionaries from field number to value.

Source: Apache Thrift, `doc/specs/thrift-compact-protocol.md`; Apache Parquet, `parquet.thrift`.
"""

from __future__ import annotations

import struct
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

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.take(1)[0]
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
        if kind in (BOOL_TRUE, BOOL_FALSE):
            return kind == BOOL_TRUE
        if kind == BYTE:
            return self.take(1)[0]
        if kind in (I16, I32, I64):
            return self.signed()
        if kind == DOUBLE:
            return struct.unpack("<d", self.take(8))[0]
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (LIST, SET):
            return self.items(depth)
        if kind == STRUCT:
            return self.struct(depth)
        raise ThriftError(f"type {kind} is not expected in a footer")

    def items(self, depth: int) -> list[Any]:
        head = self.take(1)[0]
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self.varint()
        if size > len(self.data) - self.at:  # each item takes a byte at least
            raise ThriftError(f"a list of {size} items does not fit")
        if kind in (BOOL_TRUE, BOOL_FALSE):
            return [b == 1 for b in self.take(size)]
        return [self.value(kind, depth + 1) for _ in range(size)]

    def struct(self, depth: int) -> dict[int, Any]:
        out: dict[int, Any] = {}
        field = 0
        while head := self.take(1)[0]:
            field = field + (head >> 4) if head >> 4 else self.signed()
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


# parquet.thrift: FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data, ColumnMetaData.statistics,
# Statistics.is_max_value_exact and is_min_value_exact.
ROW_GROUPS, COLUMNS, META_DATA, STATISTICS, MAX_EXACT, MIN_EXACT = 4, 1, 3, 12, 7, 8

Flags = list[list[tuple[bool | None, bool | None]]]  # of row groups, of Parquet columns: of min and max


def exact_flags(footer: bytes) -> Flags:
    """Per row group and column: whether min and max are values that occur, None where the footer does not say.

    Raises:
        ThriftError: the bytes are not a Parquet footer.
    """
    groups = read_struct(footer).get(ROW_GROUPS, [])
    try:
        return [[_flags(c.get(META_DATA, {}).get(STATISTICS, {})) for c in g.get(COLUMNS, [])] for g in groups]
    except (AttributeError, TypeError):
        raise ThriftError("a field has another type than a Parquet footer's") from None


def _flags(statistics: dict[int, Any]) -> tuple[bool | None, bool | None]:
    low, high = statistics.get(MIN_EXACT), statistics.get(MAX_EXACT)
    return (low if isinstance(low, bool) else None), (high if isinstance(high, bool) else None)
