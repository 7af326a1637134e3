"""Decode single values as Iceberg stores them: bounds of columns and values of partitions.

Source: Iceberg's specification, appendix D, "Binary single-value serialization".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, null_where, python_array
from skipstone.kernels.decode.avro_records import Entry
from skipstone.kernels.pack.planes import Mask

# The types whose bounds are read, and their stored widths. A bound from before its column was
# promoted has the width of the earlier type.
WIDTHS: Final = {
    "BooleanType": ("|u1",),
    "IntegerType": ("<i4",),
    "LongType": ("<i8", "<i4"),
    "FloatType": ("<f4",),
    "DoubleType": ("<f8", "<f4"),
    "DateType": ("<i4",),
    "TimeType": ("<i8",),
    "TimestampType": ("<i8", "<i4"),
    "TimestamptzType": ("<i8",),
    "TimestampNanoType": ("<i8", "<i4"),
    "TimestamptzNanoType": ("<i8",),
}
DAY: Final = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}


def typed(found: Entry, kind: str, to: pa.DataType) -> pa.Array | None:
    """Decode stored values to a column's type.

    Args:
        found: The values' bytes.
        kind: The name of pyiceberg's class of the type.
        to: The same type in Arrow.

    Returns:
        The values, null where one is absent or not of the type; None if the type cannot be read.
    """
    if kind in WIDTHS:
        return _numbers(found, WIDTHS[kind], to)
    if kind == "DecimalType":
        return decimals(found, to)
    if kind == "StringType":
        return strings(found.texts())
    if kind == "UUIDType":
        return uuids(found)
    return found.texts() if kind in ("BinaryType", "FixedType") else None


def _numbers(found: Entry, widths: tuple[str, ...], to: pa.DataType) -> pa.Array:
    values, known = found.of_width(widths[0])
    for narrow in widths[1:]:
        small, here = found.of_width(narrow)
        if here.any():
            if pa.types.is_timestamp(to):
                wide, fits = _days(small, to.unit)
            else:
                wide, fits = (small.astype(values.dtype), here)
            values, known = np.where(here, wide, values), known | (here & fits)
    return array(values, known, to)


def _days(days: npt.NDArray[Any], unit: str) -> tuple[npt.NDArray[np.int64], Mask]:
    """Convert days to ticks, for dates that became timestamps; also return which days fit."""
    limit = np.iinfo(np.int64).max // DAY[unit]
    fits = np.abs(days.astype(np.int64)) <= limit
    return np.where(fits, days, 0).astype(np.int64) * DAY[unit], fits


def array(values: npt.NDArray[Any], known: Mask, to: pa.DataType) -> pa.Array:
    """Return values as an Arrow array of a type of the same width; null where they are unknown."""
    if pa.types.is_boolean(to):
        return arrow_of(values != 0, known)
    return arrow_of(values, known).view(to)


def strings(texts: pa.BinaryArray) -> pa.StringArray:
    """Decode UTF-8; null where the bytes are not valid, because such bytes bound nothing."""
    out = texts.view(pa.string())
    try:
        out.validate(full=True)
    except pa.ArrowInvalid:
        return python_array([_decoded(v) for v in texts.to_pylist()], pa.string())
    return out


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


HEXADECIMAL: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
DASHES: Final = (8, 13, 18, 23)  # places in the text of a UUID


def uuids(found: Entry) -> pa.StringArray:
    """Decode UUIDs to the texts that Spark reads, which have the order of the bytes."""
    n, (values, known) = len(found.first), found.of_width("V16")
    data = values.view(np.uint8).reshape(n, 16)
    texts = np.full((n, 36), ord("-"), np.uint8)
    digits = np.stack((HEXADECIMAL[data >> 4], HEXADECIMAL[data & 15]), axis=2)
    texts[:, np.delete(np.arange(36), DASHES)] = digits.reshape(n, 32)
    whole = pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), n, [None, pa.py_buffer(texts)])
    return null_where(arrow_of(~known), pc.cast(pc.cast(whole, pa.binary()), pa.string()))


def wide_uuids(
    low: pa.Array | None, high: pa.Array | None
) -> tuple[pa.Array | None, pa.Array | None]:
    """Widen the least and greatest of some UUIDs, as Iceberg orders them in Java.

    Java compares UUIDs as two signed numbers. So among those with equal first halves, the second
    halves may be in another order than their bytes.

    Source: Java, `UUID.compareTo`; seen in Iceberg 1.12.
    """
    ends = ("-0000-000000000000", "-ffff-ffffffffffff")
    wide = (
        None if v is None else pc.utf8_replace_slice(v, 18, 36, end)
        for v, end in zip((low, high), ends, strict=True)
    )
    return next(wide), next(wide)


def decimals(found: Entry, to: pa.Decimal128Type) -> pa.Array:
    """Decode decimals: unscaled, big-endian, in the fewest bytes, at most 16; null if absent."""
    sizes = found.second
    known = (sizes > 0) & (sizes <= 16)
    if not len(found.data) or not known.any():
        return pa.nulls(len(sizes), to)
    column = np.arange(16)
    inside = (column >= 16 - sizes[:, None]) & known[:, None]
    at_bytes = np.where(inside, found.first[:, None] + sizes[:, None] - 16 + column, 0)
    digits = np.where(inside, found.data[at_bytes], 0).astype(np.uint8)
    negative = known & (found.data[np.where(known, found.first, 0)] >= 128)
    digits = np.where(~inside & negative[:, None], 255, digits).astype(np.uint8)
    words = np.ascontiguousarray(digits[:, ::-1])
    # A number with more digits than the type's precision is not a value of it.
    high, low = words.view("<i8")[:, 1], words.view("<u8")[:, 0]
    limit = 10**to.precision
    top, rest = np.int64(limit >> 64), np.uint64(limit & (2**64 - 1))
    above = (high > top) | ((high == top) & (low >= rest))
    least = -limit
    bottom, under = np.int64(least >> 64), np.uint64(least & (2**64 - 1))
    below = (high < bottom) | ((high == bottom) & (low <= under))
    valid = arrow_of(known & ~above & ~below).buffers()[1]
    return pa.Array.from_buffers(to, len(sizes), [valid, pa.py_buffer(words)])
