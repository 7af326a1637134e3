"""Read Thrift's compact protocol, for the parts of a Parquet footer that pyarrow does not show.

Every length is checked against the buffer; malformed bytes raise ThriftError. Structures become
dictionaries from field number to value.

Source: Apache Thrift, `doc/specs/thrift-compact-protocol.md`; Apache Parquet, `parquet.thrift`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

MAX_DEPTH: Final = 32  # nested structures; a footer needs about six
BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class ThriftError(ValueError):
    """The bytes are not a structure in the compact protocol."""


# The functions below return a value and its end. They read numbers of one byte, the most frequent
# ones, in place: function calls would take most of the time. An index beyond the data is an
# IndexError.


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ThriftError("a number has more than ten bytes")


def _binary(data: bytes, at: int) -> tuple[bytes, int]:
    size = data[at]
    at += 1
    if size >= 0x80:
        size, at = _varint(data, at - 1)
    end = at + size
    if end > len(data):
        raise ThriftError(f"expected {size} bytes at {at}; the data has {len(data)}")
    return data[at:end], end


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if I16 <= kind <= I64:
        value, at = _varint(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return kind == BOOL_TRUE, at
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        if at + 8 > len(data):
            raise ThriftError(f"expected 8 bytes at {at}; the data has {len(data)}")
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind == BINARY:
        return _binary(data, at)
    if kind in (LIST, SET):
        return _items(data, at, depth)
    if kind == STRUCT:
        return _struct(data, at, depth)
    raise ThriftError(f"type {kind} is not expected in a footer")


def _items(data: bytes, at: int, depth: int) -> tuple[list[Any] | bytes, int]:
    if depth > MAX_DEPTH:
        raise ThriftError(f"structures are nested more than {MAX_DEPTH} deep")
    head = data[at]
    at += 1
    size, kind = head >> 4, head & 15
    if size == 15:
        size, at = _varint(data, at)
    if size > len(data) - at:  # each item takes at least one byte
        raise ThriftError(f"a list of {size} items does not fit")
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return [b == 1 for b in data[at : at + size]], at + size
    if kind == BYTE:
        return data[at : at + size], at + size
    out = []
    for _ in range(size):
        value, at = _value(data, at, kind, depth + 1)
        out.append(value)
    return out, at


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > MAX_DEPTH:
        raise ThriftError(f"structures are nested more than {MAX_DEPTH} deep")
    out: dict[int, Any] = {}
    field = 0
    while head := data[at]:
        at += 1
        if head >= 16:
            field += head >> 4
        else:
            field, at = _value(data, at, I64, depth)
        if field in out or not 0 < field < 1 << 15:
            raise ThriftError(f"field {field} occurs twice, or its number is not valid")
        kind = head & 15
        if I16 <= kind <= I64:
            value = data[at]
            at += 1
            if value >= 0x80:
                value, at = _varint(data, at - 1)
            out[field] = (value >> 1) ^ -(value & 1)
        elif kind == BINARY:
            out[field], at = _binary(data, at)
        elif kind == STRUCT:
            out[field], at = _struct(data, at, depth + 1)
        else:
            out[field], at = _value(data, at, kind, depth + 1)
    return out, at + 1


def read_struct(data: bytes) -> dict[int, Any]:
    """Read the structure at the start of `data`.

    Returns:
        Field number -> value.

    Raises:
        ThriftError: the bytes are not a structure.
    """
    return sized_struct(data)[0]


def sized_struct(data: bytes) -> tuple[dict[int, Any], int]:
    """Read the structure at the start of `data`.

    Returns:
        Field number -> value, and the number of bytes that the structure takes.

    Raises:
        ThriftError: the bytes are not a structure.
    """
    try:
        return _struct(data, 0, 0)
    except IndexError:
        raise ThriftError(f"the data ends after {len(data)} bytes, within a structure") from None


# Field numbers of parquet.thrift. Of the footer, a row group and a column chunk:
ROW_GROUPS, COLUMNS, META_DATA, CRYPTO_META_DATA = 4, 1, 3, 8
# Of ColumnMetaData, and of its Statistics and SizeStatistics:
TYPE, BYTES, STATISTICS, SIZES = 1, 7, 12, 16
OLD_MAX, OLD_MIN, NULLS, MAX, MIN, MAX_EXACT, MIN_EXACT = 1, 2, 3, 5, 6, 7, 8
UNENCODED, REPEATED, DEFINED = 1, 2, 3
# Lists of the footer, of a row group, and of a column chunk's metadata: field -> Python's type of
# an item. Arrow's reader assumes these item types whatever the lists declare.
LIST_ITEMS: Final[tuple[dict[int, type], ...]] = (
    {2: dict, ROW_GROUPS: dict, 5: dict, 7: dict},
    {COLUMNS: dict, 4: dict},
    {2: int, 3: bytes, 8: dict, 13: dict},
)

Fields = dict[int, Any]


def column_chunks(whole: Fields) -> list[list[Fields]]:
    """Return the metadata of a footer's column chunks.

    Args:
        whole: FileMetaData.

    Returns:
        The fields of ColumnMetaData, per row group and column; no fields for encrypted chunks.

    Raises:
        ThriftError: it is not a Parquet footer, or Arrow's reader might read it differently.
    """
    _check_lists(whole, LIST_ITEMS[0])
    out = []
    for group in whole.get(ROW_GROUPS, []):
        _check_lists(group, LIST_ITEMS[1])
        out.append([_chunk(chunk) for chunk in group.get(COLUMNS, [])])
    return out


def _chunk(chunk: Fields) -> Fields:
    _check_lists(_child(_child(chunk, CRYPTO_META_DATA), 2), {1: bytes})
    metadata = _child(chunk, META_DATA)
    _check_lists(metadata, LIST_ITEMS[2])
    _check_lists(_child(metadata, SIZES), {REPEATED: int, DEFINED: int})
    _check_lists(_child(metadata, 17), {2: int})
    if CRYPTO_META_DATA in chunk:
        return {}
    return {f: metadata[f] for f in (TYPE, BYTES, STATISTICS, SIZES) if f in metadata}


def _child(outer: Fields, field: int) -> Fields:
    """Return the structure in a field; empty if the field is absent."""
    inner = outer.get(field, {})
    if not isinstance(inner, dict):
        raise ThriftError(f"field {field} is not a structure")
    return inner


def _check_lists(fields: Fields, item_types: Mapping[int, type]) -> None:
    """Raise ThriftError if a list has items of another type than Arrow's reader assumes."""
    for field, kind in item_types.items():
        items = fields.get(field)
        if items is not None and (
            not isinstance(items, list) or not all(type(i) is kind for i in items)
        ):
            raise ThriftError(f"field {field} is not a list of the type that a footer has there")
