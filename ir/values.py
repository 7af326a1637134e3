"""Values: n axis values of one type, the inputs and outputs of functions.

Integers, dates, timestamps, booleans and decimals of up to 18 digits are int64. Longer decimals are
Python integers and text is bytes, both in object arrays. Floats keep their width, so that FLOAT
rounds as Spark's does.

To save memory, text may stay in Arrow's form, and long decimals with short values may be int64.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import (
    DTYPES,
    arrow_of,
    booleans_of,
    fill,
    int64_of,
    known_of,
    null_where,
    numbers_of,
    plain,
    scalar_of,
    ticks_of,
    times_of,
)
from skipstone.ir.arrow import Mask as Mask
from skipstone.ir.types import TEXT, DType, Kind, from_arrow, to_python

Data: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Rows of one scalar. Arrays have shape (rows,), or (1,) if all rows are alike.

    Attributes:
        dtype: The type.
        array: Axis values; arbitrary where not valid. Text may be a large Arrow array.
        valid: Not NULL.
        may_raise: Spark raises an error for the row, or its value is not known here.
    """

    dtype: DType
    array: Data | pa.Array
    valid: Mask
    may_raise: Mask

    def __len__(self) -> int:
        return len(self.array)

    @property
    def data(self) -> Data:
        """The axis values in the NumPy type of `numpy_type_of`."""
        return np.asarray(self.points, numpy_type_of(self.dtype))

    @property
    def points(self) -> Data:
        """The axis values as a NumPy array of the stored length; text is converted."""
        return self.array if isinstance(self.array, np.ndarray) else bytes_of(self.array)


NO: Mask = np.zeros(1, np.bool_)
YES: Mask = np.ones(1, np.bool_)


def both(*masks: Mask) -> Mask:
    """Return where all masks are set; those of shape (1,) hold for all entries.

    NumPy takes 30 times as long to broadcast one of shape (1,).
    """
    shared, own = YES[0], None
    for m in masks:
        if len(m) == 1:
            shared = shared & m[0]
        else:
            own = m if own is None else own & m
    if own is None:
        return YES if shared else NO
    return own if shared else np.zeros(len(own), np.bool_)


def either(*masks: Mask) -> Mask:
    """Return where some mask is set; see `both`."""
    shared, own = NO[0], None
    for m in masks:
        if len(m) == 1:
            shared = shared | m[0]
        else:
            own = m if own is None else own | m
    if own is None:
        return YES if shared else NO
    return np.ones(len(own), np.bool_) if shared else own


def numpy_type_of(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type of axis values."""
    if dtype.kind is Kind.FLOAT:
        return np.dtype(dtype.numpy_type)
    wide = (
        dtype.kind in TEXT
        or dtype.nested
        or (dtype.kind is Kind.DECIMAL and dtype.precision > 18)
        or dtype == DType(Kind.UINT, bits=64)
    )
    return np.dtype(object if wide else np.int64)


def filler(dtype: DType) -> object:
    """Return a harmless value to compute on where a value is missing."""
    return b"" if dtype.kind in TEXT else () if dtype.nested else 0


def constant(value: object, dtype: DType) -> Values:
    """Return a literal as one value for all rows; None is NULL."""
    short = isinstance(value, int) and dtype.kind is Kind.DECIMAL and abs(value) < 2**62
    data = np.empty(1, np.int64 if short else numpy_type_of(dtype))
    data[0] = filler(dtype) if value is None else value
    return Values(dtype, data, NO if value is None else YES, NO)


def from_array(array: pa.Array) -> Values:
    """Convert an Arrow array of an ordered type; text that is not UTF-8 is unknown."""
    array = plain(array)
    dtype = from_arrow(array.type)
    valid, may_raise = _validity(array), NO
    if dtype.kind is Kind.STRING:
        array = pc.cast(array, pa.large_string())
        if (bad := malformed(array)).any():
            may_raise, array = bad, pc.if_else(arrow_of(bad), scalar_of("", array.type), array)
    return Values(dtype, axis_values_of(array, dtype), valid, may_raise)


def from_lists(array: pa.Array) -> Values:
    """Convert an Arrow array of lists to tuples, and of maps to tuples of keys and values.

    Those with text that is not UTF-8 are unknown.
    """
    dtype, array = from_arrow(array.type), plain(array)
    offsets = int64_of(array.offsets)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])  # of a slice's items
    offsets = offsets - first
    values: list[Any]
    if dtype.entries is None:
        values, lost = _elements(array.values.slice(first, count))
    else:
        (keys, lost), (found, lost_too) = (
            _elements(part.slice(first, count)) for part in (array.keys, array.items)
        )
        values, lost = list(zip(keys, found, strict=True)), lost | lost_too
    out, may_raise = np.empty(len(array), object), np.zeros(len(array), np.bool_)
    for i, (first, stop) in enumerate(itertools.pairwise(offsets)):
        out[i], may_raise[i] = tuple(values[first:stop]), lost[first:stop].any()
    valid_rows = _validity(array)
    return Values(dtype, out, valid_rows, may_raise & valid_rows)


def _elements(array: pa.Array) -> tuple[list[Any], Mask]:
    """Return axis values, with None for NULL, and a mask of the unknown ones.

    All values of a type that cannot be compared are None.
    """
    n = len(array)
    if not from_arrow(array.type).ordered:
        return [None] * n, np.zeros(n, np.bool_)
    inner = from_array(array)
    valid = np.broadcast_to(inner.valid & ~inner.may_raise, n).tolist()
    values = [v if ok else None for v, ok in zip(inner.points.tolist(), valid, strict=True)]
    return values, np.broadcast_to(inner.may_raise, n)


def _validity(array: pa.Array) -> Mask:
    if not array.null_count:
        return YES
    return booleans_of(pc.is_valid(array))


def bytes_of(texts: pa.Array) -> Data:
    """Return large text or binary as an object array of bytes; NULL is empty."""
    raw = texts.view(pa.large_binary()) if pa.types.is_large_string(texts.type) else texts
    return np.asarray(raw.fill_null(b"").to_numpy(zero_copy_only=False), object)


def text_array(data: Data) -> pa.Array:
    """Return an object array of UTF-8 as Arrow text."""
    return pc.cast(pa.array(data, pa.large_binary()), pa.large_string())


def malformed(texts: pa.Array) -> Mask:
    """Return a mask of the texts that are not UTF-8.

    Spark's reading of their characters is not known here.
    """
    if is_ascii(texts):
        return np.zeros(len(texts), np.bool_)
    try:
        texts.validate(full=True)
        return np.zeros(len(texts), np.bool_)
    except pa.ArrowInvalid:
        return np.array(
            [
                _is_malformed(raw)
                for raw in pc.cast(texts, pa.large_string()).view(pa.large_binary()).to_pylist()
            ],
            np.bool_,
        )


def is_ascii(texts: pa.Array) -> bool:
    """Return True if all texts are ASCII, and therefore UTF-8.

    Arrow's own test takes ten times as long. The result is also False if there are no texts, or if
    the values are not text.
    """
    large = pa.types.is_large_string(texts.type)
    if not len(texts) or not (large or pa.types.is_string(texts.type)):
        return False
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64 if large else np.int32)
    first, last = ends[texts.offset], ends[texts.offset + len(texts)]
    return data is None or int(np.frombuffer(data, np.int8)[first:last].min(initial=0)) >= 0


def character_count(utf8: bytes) -> int:
    """Return the number of characters of a text in UTF-8."""
    return sum(b & 0xC0 != 0x80 for b in utf8)


def _is_malformed(raw: bytes | None) -> bool:
    try:
        return raw is not None and raw.decode() is None
    except UnicodeDecodeError:
        return True


def axis_values_of(array: pa.Array, dtype: DType) -> Data | pa.Array:
    """Return the values of an Arrow array as rows store them; NULL is 0 or empty."""
    match dtype.kind:
        case Kind.STRING:
            return _from_zero(array)
        case Kind.BINARY:
            return _from_zero(pc.cast(array, pa.large_binary()))
        case Kind.DECIMAL:
            if not pa.types.is_decimal128(array.type):
                array = pc.cast(array, pa.decimal128(dtype.precision, dtype.scale))
            return _digits(unscaled(array), dtype)
        case Kind.DATE:
            array = pc.cast(array, pa.date32()).view(pa.int32())
        case Kind.TIME:
            array = ticks_of(array)
        case Kind.TIMESTAMP:
            array = array.view(pa.int64())
        case Kind.BOOL:
            array = pc.cast(array, pa.uint8())
    if array.type not in DTYPES:  # such as intervals
        array = pc.cast(array, pa.int64())
    values, known = numbers_of(array), known_of(array)
    if known is not None:
        values = np.where(known, values, values.dtype.type(0))
    return np.asarray(values, numpy_type_of(dtype))


def _from_zero(texts: pa.Array) -> pa.Array:
    """Return large text whose offsets start at 0, with no NULL.

    The result of pc.ascii_lower has wrong offsets otherwise (pyarrow 26).
    """
    if texts.null_count:
        texts = fill(texts, b"" if pa.types.is_large_binary(texts.type) else "")
    _, buffer, data = texts.buffers()
    if buffer is None or data is None:
        return pc.cast(pa.array([b""] * len(texts), pa.large_binary()), texts.type)
    offsets = np.frombuffer(buffer, np.int64, len(texts) + 1, texts.offset * 8)
    first, last = offsets[[0, -1]].tolist()
    if first:
        offsets = offsets - first
    held = [None, pa.py_buffer(offsets), data.slice(first, last - first)]
    return pa.Array.from_buffers(texts.type, len(texts), held)


def _digits(words: npt.NDArray[np.uint64], dtype: DType) -> Data:
    low, high = np.ascontiguousarray(words[:, 0]).view(np.int64), words[:, 1].view(np.int64)
    # Digits of 63 bits: the upper word repeats their sign.
    if dtype.precision <= 18 or bool(((high == low >> 63) & (high == low >> 62)).all()):
        return low
    return np.asarray(high.astype(object) * 2**64 + words[:, 0].astype(object))


def unscaled(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the digits of a decimal128 array as words, shape (n, 2), low word first.

    Nulls have digits 0.
    """
    words = np.zeros((len(array), 2), np.uint64)
    data = array.buffers()[1]
    if data is not None and len(array):
        words = np.frombuffer(data, np.uint64, len(array) * 2, array.offset * 16).reshape(-1, 2)
    if array.null_count:
        words = np.where(
            booleans_of(pc.is_valid(array))[:, None],
            words,
            np.uint64(0),
        )
    return words


def to_array(values: Values, n: int) -> pa.Array:
    """Convert values to an Arrow array of length n; NULL where they are not valid, or unknown."""
    dtype = values.dtype
    mask = np.broadcast_to(~values.valid | values.may_raise, n)
    if not isinstance(values.array, np.ndarray) and len(values) == n:
        return null_where(arrow_of(mask), values.array)
    data = np.broadcast_to(values.points, n)
    match dtype.kind:
        case Kind.OTHER if dtype.element is not None:
            return _lists(data.tolist(), mask, dtype.element)
        case Kind.STRING | Kind.BINARY:
            raw = pa.array(data, pa.large_binary(), mask=mask)
            return pc.cast(raw, pa.large_string()) if dtype.kind is Kind.STRING else raw
        case Kind.DECIMAL:
            return _decimals(data, mask, pa.decimal128(dtype.precision, dtype.scale))
        case Kind.DATE:
            return pc.cast(arrow_of(_longs(data, mask).astype(np.int32), ~mask), pa.date32())
        case Kind.TIME:
            return times_of(arrow_of(_longs(data, mask), ~mask), dtype.unit)
        case Kind.TIMESTAMP:
            return pc.cast(
                arrow_of(_longs(data, mask), ~mask),
                pa.timestamp(dtype.unit, "UTC" if dtype.zoned else None),
            )
        case Kind.BOOL:
            return arrow_of(data.astype(np.bool_), ~mask)
        case Kind.INTERVAL:
            months = dtype.unit == "month"
            return pc.cast(
                arrow_of(_longs(data, mask), ~mask), pa.int32() if months else pa.duration("us")
            )
        case Kind.UINT if dtype.bits == 64:
            return pa.array(
                [None if m else int(v) for v, m in zip(data, mask, strict=True)], pa.uint64()
            )
    return arrow_of(data.astype(dtype.numpy_type), ~mask)


def _longs(data: Data, mask: Mask) -> npt.NDArray[np.int64]:
    """Return axis values as int64; those in the mask are arbitrary, and may be objects."""
    return np.asarray(np.where(mask, 0, data) if data.dtype == object else data, np.int64)


def column_of(values: list[Any], dtype: DType) -> pa.Array:
    """Convert axis values to an Arrow array; None is NULL."""
    data, missing = np.empty(len(values), numpy_type_of(dtype)), [v is None for v in values]
    data[:] = [filler(dtype) if v is None else v for v in values]
    return to_array(Values(dtype, data, ~np.array(missing, np.bool_), NO), len(values))


def _lists(rows: list[Any], mask: Mask, element: DType) -> pa.Array:
    rows = [() if gone else row for row, gone in zip(rows, mask.tolist(), strict=True)]
    flat = [v for row in rows for v in row]
    inner = pa.nulls(len(flat)) if element.kind is Kind.NULL else column_of(flat, element)
    offsets = pa.array(np.cumsum([0, *map(len, rows)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, inner, mask=pa.array(mask))


def _decimals(data: Data, mask: Mask, to: pa.DataType) -> pa.Array:
    words = np.zeros((len(data), 2), np.int64)
    words[:, 0] = data if data.dtype != object else (data & (2**64 - 1)).astype(np.uint64)
    words[:, 1] = (data >> 63 if data.dtype != object else data >> 64).astype(np.int64)
    words[mask] = 0
    found = pa.Array.from_buffers(to, len(data), [None, pa.py_buffer(words)])
    return null_where(arrow_of(mask), found) if mask.any() else found


def python_values(data: Data, dtype: DType) -> list[object]:
    """Convert axis values to the Python values that a user would write."""
    return [to_python(v.item() if isinstance(v, np.generic) else v, dtype) for v in data]
