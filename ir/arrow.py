"""Convert between NumPy's and Arrow's arrays without pandas.

`pa.array`, `pa.scalar`, `Array.to_numpy`, and Arrow functions that are given Python values import
pandas if it is installed, which takes 0.2 s (pyarrow 26). The first answer of a process does not
need pandas.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from datetime import date
from decimal import Context, Decimal, Inexact
from importlib.machinery import PathFinder
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.node import PARTS, Path
from skipstone.ir.types import EPOCH_DAY

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.generic]
NUMBERS: Final = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
DTYPES: Final = {pa.from_numpy_dtype(name): np.dtype(name) for name in NUMBERS}
TEXTS: Final[dict[type, tuple[pa.DataType, ...]]] = {
    str: (pa.string(), pa.large_string()),
    bytes: (pa.binary(), pa.large_binary()),
}
# Converting up to this many values without pandas takes less time than importing pandas.
MAX_WITHOUT_PANDAS: Final = 1 << 16
# It holds each value of DECIMAL(38, s), and raises where it would round a longer one.
WIDE: Final = Context(prec=100, traps=[Inexact])
ARROW_TYPES: Final = {dtype: arrow for arrow, dtype in DTYPES.items()}


def whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one array for any number of chunks; several chunks are copied."""
    if not isinstance(array, pa.ChunkedArray):
        return array
    if not array.num_chunks:
        return pa.nulls(0, array.type)
    return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()


def is_instant(t: pa.DataType) -> bool:
    """Return True for Arrow's timestamps with a zone."""
    return bool(pa.types.is_timestamp(t) and t.tz is not None)


def type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    """Return the Arrow type of a column, a field of structs, or a part of a list or map."""
    t = schema.field(path[0]).type
    for name in path[1:]:
        part = None if pa.types.is_struct(t) else PARTS.get(name)
        t = t.field(name).type if part is None else getattr(t, part)
    return t


def plain(array: pa.Array) -> pa.Array:
    """Decode dictionaries and runs and unwrap extension types, so that plain values remain."""
    while True:
        if pa.types.is_dictionary(array.type):
            array = pc.take(array.dictionary, array.indices)
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def ticks_of(times: pa.Array) -> pa.Array:
    """Return times of day as int64, in their unit."""
    if times.type.bit_width == 32:
        return pc.cast(times.view(pa.int32()), pa.int64())
    return times.view(pa.int64())


def times_of(ticks: pa.Array, unit: str) -> pa.Array:
    """Return int64 ticks of a unit as times of day."""
    if unit in ("s", "ms"):
        return pc.cast(ticks, pa.int32()).view(pa.time32(unit))
    return ticks.view(pa.time64(unit))


def dtype_of(number: pa.DataType) -> np.dtype[Any]:
    """Return the NumPy type with the memory layout of a number's Arrow type.

    `DataType.to_pandas_dtype` needs pandas before pyarrow 26.
    """
    return DTYPES[number]


def known_of(array: pa.Array) -> Mask | None:
    """Return the mask of non-NULL values, from the bitmap of an array; None if no value is NULL."""
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array))


def numbers_of(array: pa.Array) -> Numbers:
    """Return the values of a primitive array without a copy; the value of a null is arbitrary."""
    data = array.buffers()[1]
    dtype = dtype_of(array.type)
    if data is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def int64_of(integers: pa.Array | pa.ChunkedArray, null: int = 0) -> npt.NDArray[np.int64]:
    """Return integers as int64, with `null` for NULL."""
    integers = whole(integers)
    numbers, known = numbers_of(integers).astype(np.int64, copy=False), known_of(integers)
    return numbers if known is None else np.where(known, numbers, np.int64(null))


def booleans_of(booleans: pa.Array | pa.ChunkedArray) -> Mask:
    """Return an Arrow array of booleans as a mask; NULL is False."""
    booleans = whole(booleans)
    data = booleans.buffers()[1]
    if data is None:
        return np.zeros(len(booleans), np.bool_)
    out, known = _bits(data, booleans.offset, len(booleans)), known_of(booleans)
    return out if known is None else out & known


def arrow_of(values: npt.NDArray[Any], known: Mask | None = None) -> pa.Array:
    """Return an array of numbers or booleans, shape (n,), as an Arrow array.

    Numbers of a contiguous array are shared, not copied.

    Args:
        values: The values, of a type in `NUMBERS`, or booleans.
        known: False where the value is NULL; None if no value is.
    """
    if values.dtype == np.bool_:
        kind, data = pa.bool_(), np.packbits(values, bitorder="little")
    else:
        kind, data = ARROW_TYPES[values.dtype], np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [bitmap(known), pa.py_buffer(data)])


def bitmap(known: Mask | None) -> pa.Buffer | None:
    """Return the validity bitmap of an array; None if no value is NULL."""
    if known is None or known.all():
        return None
    return pa.py_buffer(np.packbits(known, bitorder="little"))


def binary_of(values: Sequence[bytes], known: Mask | None = None) -> pa.Array:
    """Return byte strings as a large_binary array; `known` is False where the value is NULL."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    buffers = [bitmap(known), pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def python_array(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Return Python values as an Arrow array, as `pa.array` does; None is NULL.

    Raises:
        ArrowException, OverflowError, ValueError, TypeError: a value is not of the type.
    """
    if len(values) > MAX_WITHOUT_PANDAS or not _would_import_pandas():
        return pa.array(values, arrow_type)
    found = without_pandas(values, arrow_type)
    return pa.array(values, arrow_type) if found is None else found


def scalar_of(value: object, arrow_type: pa.DataType) -> pa.Scalar:
    """Return a value as an Arrow scalar, as `pa.scalar` does."""
    return (
        python_array([value], arrow_type)[0]
        if _would_import_pandas()
        else pa.scalar(value, arrow_type)
    )


def fill(array: Any, value: object) -> Any:
    """Return an Arrow array, chunked or not, with `value` for NULL."""
    return pc.coalesce(array, scalar_of(value, array.type)) if array.null_count else array


def without_pandas(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array | None:
    """Return the array of `python_array`; None if the values are not all of one simple type.

    It takes five times as long as `pa.array` once pandas is imported.

    Raises:
        OverflowError, ValueError: a value is beyond the range of the type, or is not text.
    """
    known = np.array([v is not None for v in values], np.bool_)
    given = {type(v) for v in values if v is not None}
    if not given:
        return pa.nulls(len(values), arrow_type)
    if given in ({str}, {bytes}) and arrow_type in TEXTS[given.pop()]:
        encoded = [v.encode() if isinstance(v, str) else v or b"" for v in values]
        return pc.cast(binary_of(encoded, known), arrow_type)
    if given == {Decimal} and pa.types.is_decimal128(arrow_type):
        return _decimals(values, known, arrow_type)
    if given == {int} and pa.types.is_integer(arrow_type):
        filled, dtype = [0 if v is None else v for v in values], dtype_of(arrow_type)
        info = np.iinfo(dtype.name)
        if min(filled) < info.min or max(filled) > info.max:  # NumPy 1 wraps
            raise OverflowError(f"a value is beyond the range of {arrow_type}")
    elif given == {float} and arrow_type in (pa.float32(), pa.float64()):
        filled, dtype = [0.0 if v is None else v for v in values], dtype_of(arrow_type)
    elif given == {bool} and arrow_type == pa.bool_():
        filled, dtype = [bool(v) for v in values], np.dtype(np.bool_)
    elif given == {date} and arrow_type == pa.date32():
        filled = [0 if v is None else v.toordinal() - EPOCH_DAY for v in values]
        dtype = np.dtype(np.int32)
    else:
        return None
    with np.errstate(over="ignore"):  # as Arrow does, to infinity
        array = np.array(filled, dtype)
    return pc.cast(arrow_of(array, known), arrow_type)


def _decimals(
    values: Sequence[Decimal | None], known: Mask, arrow_type: pa.Decimal128Type
) -> pa.Array | None:
    """Return decimals as an Arrow array; None if one is not a value of the type."""
    digits = [0 if v is None else _digits(v, arrow_type) for v in values]
    data = b"".join(d.to_bytes(16, "little", signed=True) for d in digits if d is not None)
    if None in digits:
        return None
    return pa.Array.from_buffers(arrow_type, len(values), [bitmap(known), pa.py_buffer(data)])


def _digits(value: Decimal, arrow_type: pa.Decimal128Type) -> int | None:
    """Return the digits of a decimal at the type's scale; None if they are not of the type."""
    if not value.is_finite() or abs(value.adjusted()) > 80:
        return None
    try:
        moved = WIDE.scaleb(value, arrow_type.scale)
    except Inexact:
        return None
    digits = int(moved)
    return digits if digits == moved and abs(digits) < 10**arrow_type.precision else None


def _would_import_pandas() -> bool:
    """Return True if `pa.array` would import pandas now."""
    return "pandas" not in sys.modules and _is_pandas_installed()


@functools.cache
def _is_pandas_installed() -> bool:
    # Not `importlib.util.find_spec`: it calls finders that act on the name they are given.
    return PathFinder.find_spec("pandas") is not None


def _bits(data: pa.Buffer, offset: int, n: int) -> Mask:
    """Return n bits of a buffer, from an offset on, as a mask."""
    first, skipped = divmod(offset, 8)
    bits = np.frombuffer(data, np.uint8, (skipped + n + 7) // 8, first)
    return np.unpackbits(bits, count=skipped + n, bitorder="little").view(np.bool_)[skipped:]


def repeated(value: pa.Scalar, n: int) -> pa.Array:
    """Return an array of one value n times; the value may have any type or be NULL."""
    return pa.repeat(value, n) if value.is_valid else pa.nulls(n, value.type)


def null_where(mask: Any, values: Any) -> Any:
    """Return values that are NULL where a mask is true or NULL.

    Arrow's `if_else` with a single NULL gives wrong text for slices before version 24.

    Args:
        mask: Arrow Boolean array, chunked or not, length n.
        values: Arrow array, chunked or not, length n.
    """
    return pc.if_else(mask, pa.nulls(len(values), values.type), values)
