"""Write Thrift's compact protocol, for footers of files in memory.

Source: Apache Thrift, `doc/specs/thrift-compact-protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skipstone.bindings.tables.parquet.thrift import (
    BINARY,
    BOOL_FALSE,
    BOOL_TRUE,
    I32,
    I64,
    LIST,
    STRUCT,
)

# A value and its type; a list has the type of its items before them. A structure may be given as
# bytes, already written.
Value: TypeAlias = (
    "tuple[int, int | bool | bytes | Mapping[int, Value] | tuple[int, Sequence[object]]]"
)
Fields: TypeAlias = Mapping[int, Value]
MANY: Final = 32  # for fewer numbers, NumPy takes longer than Python
ONE_BYTE: Final = tuple(bytes((i,)) for i in range(128))


def i32(value: int) -> Value:
    """Return a number of 32 bits."""
    return I32, value


def i64(value: int) -> Value:
    """Return a number of 64 bits."""
    return I64, value


def binary(value: bytes) -> Value:
    """Return bytes, or text in UTF-8."""
    return BINARY, value


def boolean(value: bool) -> Value:
    """Return a truth value."""
    return (BOOL_TRUE if value else BOOL_FALSE), value


def structure(fields: Fields) -> Value:
    """Return a structure."""
    return STRUCT, fields


def numbers(values: Sequence[int]) -> Value:
    """Return a list of numbers of 32 bits."""
    return LIST, (I32, values)


def texts(values: Sequence[bytes]) -> Value:
    """Return a list of binary values."""
    return LIST, (BINARY, values)


def structures(values: Sequence[Fields | bytes]) -> Value:
    """Return a list of structures."""
    return LIST, (STRUCT, values)


def write_struct(fields: Fields) -> bytes:
    """Return a structure in the compact protocol.

    Example:
        >>> from skipstone.bindings.tables.parquet.thrift import read_struct
        >>> read_struct(write_struct({1: i32(5), 4: binary(b"x"), 30: numbers([1, 2])}))
        {1: 5, 4: b'x', 30: [1, 2]}
    """
    out = bytearray()
    last = 0
    for field in sorted(fields):
        kind, value = fields[field]
        step = field - last
        out += bytes([step << 4 | kind]) if step < 16 else bytes([kind]) + zigzag(field)
        out += _value(kind, value)
        last = field
    return bytes(out) + b"\0"


def _value(kind: int, value: object) -> bytes:
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return b""
    if kind in (I32, I64):
        assert isinstance(value, int)
        return zigzag(value)
    if kind == BINARY:
        assert isinstance(value, bytes)
        return _varint(len(value)) + value
    if kind == STRUCT:
        if isinstance(value, bytes):
            return value
        assert isinstance(value, Mapping)
        return write_struct(value)
    assert kind == LIST and isinstance(value, tuple)
    item, items = value
    return list_head(item, len(items)) + b"".join(_value(item, one) for one in items)


def list_head(kind: int, count: int) -> bytes:
    """Return what comes before the items of a list, after the field's head."""
    return bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _varint(count)


def zigzag(value: int) -> bytes:
    """Return a number without its head."""
    return _varint(value << 1 ^ value >> 63)


def zigzags(values: npt.NDArray[np.int64]) -> list[bytes]:
    """Return numbers without their heads."""
    if len(values) < MANY:
        return [zigzag(value) for value in values.tolist()]
    rest = (values << 1 ^ values >> 63).view(np.uint64)
    width = max(-(-int(rest.max()).bit_length() // 7), 1)
    digits = rest[:, None] >> np.arange(0, 7 * width, 7, dtype=np.uint64)
    more = digits > 127
    data = np.where(more, digits & 127 | 128, digits).astype(np.uint8).tobytes()
    lengths = (more.sum(axis=1) + 1).tolist()
    return [data[i : i + n] for i, n in zip(range(0, len(data), width), lengths, strict=True)]


def _varint(value: int) -> bytes:
    if value < 128:
        return ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    if value < 1 << 28:
        return bytes((
            value & 127 | 128, value >> 7 & 127 | 128, value >> 14 & 127 | 128, value >> 21
        ))  # fmt: skip
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
