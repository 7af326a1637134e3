"""Values: n axis values of one type as NumPy arrays, the inputs and outputs of functions.

Integers, dates, timestamps, booleans and decimals of up to 18 digits are int64. Longer decimals are
Python integers and text is bytes, both in object arrays. Floats keep their width, so that FLOAT
rounds as Spark's does.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import types as ty
from skipstone.ir.types import DType, Kind, from_arrow, plain, to_python

Data: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
TEXT = (Kind.STRING, Kind.BINARY)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Rows of one scalar. Arrays have shape (rows,), or (1,) if all rows are alike.

    Attributes:
        dtype: The type.
        data: Axis values; arbitrary where not valid.
        valid: Not NULL.
        may_raise: Spark raises an error for the row, or its value is not known here.
    """

    dtype: DType
    data: Data
    valid: Mask
    may_raise: Mask

    def __len__(self) -> int:
        return len(self.data)


NO: Mask = np.zeros(1, np.bool_)
YES: Mask = np.ones(1, np.bool_)


def lane_type_of(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type of axis values."""
    if dtype.kind is Kind.FLOAT:
        return np.dtype(dtype.lane_type)
    wide = (
        dtype.kind in TEXT
        or (dtype.kind is Kind.DECIMAL and dtype.precision > 18)
        or dtype == DType(Kind.UINT, bits=64)
    )
    return np.dtype(object if wide else np.int64)


def filler(dtype: DType) -> object:
    """Return a harmless value to compute on where a value is missing."""
    return b"" if dtype.kind in TEXT else 0


def constant(value: object, dtype: DType) -> Values:
    """Return a literal as one value for all rows; None is NULL."""
    data = np.empty(1, lane_type_of(dtype))
    data[0] = filler(dtype) if value is None else value
    return Values(dtype, data, NO if value is None else YES, NO)


def from_array(array: pa.Array) -> Values:
    """Convert an Arrow array of an ordered type; text that is not UTF-8 is unknown."""
    array = plain(array)
    dtype = from_arrow(array.type)
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    may_raise = malformed(array) if dtype.kind is Kind.STRING else np.zeros(len(array), np.bool_)
    return Values(dtype, _data(array, dtype), valid, may_raise)


def malformed(texts: pa.Array) -> Mask:
    """Return a mask of the texts that are not UTF-8.

    Spark's reading of their characters is not known here.
    """
    try:
        texts.validate(full=True)
        return np.zeros(len(texts), np.bool_)
    except pa.ArrowInvalid:
        return np.array(
            [
                _is_malformed(raw)
                for raw in texts.cast(pa.large_string()).view(pa.large_binary()).to_pylist()
            ],
            np.bool_,
        )


def _is_malformed(raw: bytes | None) -> bool:
    try:
        return raw is not None and raw.decode() is None
    except UnicodeDecodeError:
        return True


def _data(array: pa.Array, dtype: DType) -> Data:
    match dtype.kind:
        case Kind.STRING | Kind.BINARY:
            if dtype.kind is Kind.STRING:
                raw = array.cast(pa.large_string()).view(pa.large_binary())
            else:
                raw = array.cast(pa.large_binary())
            return np.asarray(raw.fill_null(b"").to_numpy(zero_copy_only=False), object)
        case Kind.DECIMAL:
            words = unscaled(array.cast(pa.decimal128(38, dtype.scale)))
            if dtype.precision <= 18:
                return words[:, 0].astype(np.int64)
            return np.asarray(
                words[:, 1].astype(np.int64).astype(object) * 2**64 + words[:, 0].astype(object)
            )
        case Kind.DATE:
            array = array.cast(pa.date32()).view(pa.int32())
        case Kind.TIMESTAMP:
            array = array.view(pa.int64())
        case Kind.BOOL:
            array = array.cast(pa.uint8())
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(values.astype(lane_type_of(dtype)))


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
            np.asarray(array.is_valid().to_numpy(zero_copy_only=False))[:, None],
            words,
            np.uint64(0),
        )
    return words


def to_array(values: Values, n: int) -> pa.Array:
    """Convert values to an Arrow array of length n; NULL where they are not valid, or unknown."""
    dtype = values.dtype
    data = np.broadcast_to(values.data, n)
    mask = np.broadcast_to(~values.valid | values.may_raise, n)
    match dtype.kind:
        case Kind.STRING | Kind.BINARY:
            raw = pa.array(data, pa.large_binary(), mask=mask)
            return raw.cast(pa.large_string()) if dtype.kind is Kind.STRING else raw
        case Kind.DECIMAL:
            digits = [
                None if m else decimal.Decimal(int(v)).scaleb(-dtype.scale, ty.EXACT)
                for v, m in zip(data, mask, strict=True)
            ]
            return pa.array(digits, pa.decimal128(dtype.precision, dtype.scale))
        case Kind.DATE:
            return pa.array(data.astype(np.int32), pa.int32(), mask=mask).cast(pa.date32())
        case Kind.TIMESTAMP:
            return pa.array(data, pa.int64(), mask=mask).cast(
                pa.timestamp(dtype.unit, "UTC" if dtype.zoned else None)
            )
        case Kind.BOOL:
            return pa.array(data.astype(np.bool_), mask=mask)
        case Kind.UINT if dtype.bits == 64:
            return pa.array(
                [None if m else int(v) for v, m in zip(data, mask, strict=True)], pa.uint64()
            )
    return pa.array(data.astype(dtype.lane_type), mask=mask)


def python_values(data: Data, dtype: DType) -> list[object]:
    """Convert axis values to the Python values that a user would write."""
    return [to_python(v.item() if isinstance(v, np.generic) else v, dtype) for v in data]
