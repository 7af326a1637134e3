"""Parquet files with footers as other writers make them, through Thrift's compact protocol.

Source: Apache Parquet, `parquet.thrift`; Apache Thrift, `doc/specs/thrift-compact-protocol.md`.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
# FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
ROW_GROUPS, CREATED_BY, COLUMN_ORDERS, COLUMNS, META_DATA, STATISTICS = 4, 6, 7, 1, 3, 12
# FileMetaData, SchemaElement
SCHEMA, NAME, CONVERTED_TYPE, LOGICAL_TYPE = 2, 4, 6, 10
# Statistics
OLD_MAX, OLD_MIN, NULLS, MAX, MIN, MAX_EXACT, MIN_EXACT = 1, 2, 3, 5, 6, 7, 8
KINDS = {OLD_MAX: BINARY, OLD_MIN: BINARY, NULLS: I64, MAX: BINARY, MIN: BINARY}
Fields = dict[
    int, tuple[int, Any]
]  # field number -> (type, value); a list's value is (type of items, items)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.take(1)[0]) >= 0x80:
            value, shift = value | (byte & 0x7F) << shift, shift + 7
        return value | byte << shift

    def signed(self) -> int:
        n = self.varint()
        return (n >> 1) ^ -(n & 1)

    def value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in (BYTE, DOUBLE):
            return self.take(1 if kind == BYTE else 8)
        if kind in (I16, I32, I64):
            return self.signed()
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct()
        head = self.take(1)[0]
        n = head >> 4 if head >> 4 < 15 else self.varint()
        item = head & 15
        return item, [self.take(1) if item in (TRUE, FALSE) else self.value(item) for _ in range(n)]

    def struct(self) -> Fields:
        out: Fields = {}
        field = 0
        while head := self.take(1)[0]:
            field = field + (head >> 4) if head >> 4 else self.signed()
            out[field] = head & 15, self.value(head & 15)
        return out


def _varint(n: int) -> bytes:
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def _written(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind in (BYTE, DOUBLE):
        return bytes(value)
    if kind in (I16, I32, I64):
        return _varint((value << 1) ^ (value >> 63))
    if kind == BINARY:
        return _varint(len(value)) + value
    if kind == STRUCT:
        return write_struct(value)
    item, items = value
    head = (
        bytes([len(items) << 4 | item])
        if len(items) < 15
        else bytes([0xF0 | item]) + _varint(len(items))
    )
    return head + b"".join(v if item in (TRUE, FALSE) else _written(item, v) for v in items)


def write_struct(fields: Fields) -> bytes:
    """Return a structure as bytes; field numbers are always written in full."""
    parts = []
    for number, (kind, value) in sorted(fields.items()):
        tag = kind if kind not in (TRUE, FALSE) else TRUE if value else FALSE
        parts.append(bytes([tag]) + _written(I16, number) + _written(kind, value))
    return b"".join(parts) + b"\0"


def read_footer(path: Path) -> Fields:
    """Return the FileMetaData of a file."""
    data = path.read_bytes()
    return _Reader(data[-8 - struct.unpack("<I", data[-8:-4])[0] : -8]).struct()


def write_footer(path: Path, fields: Fields) -> None:
    """Replace the FileMetaData of a file."""
    data = path.read_bytes()
    footer = write_struct(fields)
    path.write_bytes(
        data[: -8 - struct.unpack("<I", data[-8:-4])[0]]
        + footer
        + struct.pack("<I", len(footer))
        + b"PAR1"
    )


def restate(path: Path, statistics: dict[int, Any], column: int = 0) -> None:
    """Change one column's Statistics in each row group.

    The changes are field -> its new value, None to remove it.
    """
    footer = read_footer(path)
    for group in footer[ROW_GROUPS][1][1]:
        said = group[COLUMNS][1][1][column][META_DATA][1].setdefault(STATISTICS, (STRUCT, {}))[1]
        for field, value in statistics.items():
            said.pop(field, None)
            if value is not None:
                said[field] = KINDS.get(field, TRUE), value
    write_footer(path, footer)


def annotate(path: Path, name: str, converted: int | None, logical: int | None) -> None:
    """Change the annotations of all columns of a name; None removes one.

    Args:
        path: The file.
        name: The last part of the columns' paths.
        converted: The number of the ConvertedType.
        logical: The number of the LogicalType, one without parameters.
    """
    footer = read_footer(path)
    for element in footer[SCHEMA][1][1]:
        if element[NAME][1] == name.encode():
            element.pop(CONVERTED_TYPE, None), element.pop(LOGICAL_TYPE, None)
            if converted is not None:
                element[CONVERTED_TYPE] = I32, converted
            if logical is not None:
                element[LOGICAL_TYPE] = STRUCT, {logical: (STRUCT, {})}
    write_footer(path, footer)


def forget_orders(path: Path) -> None:
    """Make an old file: bounds in the fields that existed before column orders."""
    footer = read_footer(path)
    footer.pop(COLUMN_ORDERS, None)
    for group in footer[ROW_GROUPS][1][1]:
        for chunk in group[COLUMNS][1][1]:
            said = chunk[META_DATA][1][STATISTICS][1]
            for new, old in ((MAX, OLD_MAX), (MIN, OLD_MIN)):
                said[old] = said.pop(new)
            said.pop(MAX_EXACT, None), said.pop(MIN_EXACT, None)
    write_footer(path, footer)
