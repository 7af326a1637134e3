"""Convert Arrow arrays of bounds to axis values of a column, rounded outwards if types differ."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import bitmap, known_of, numbers_of, plain, ticks_of, whole
from skipstone.ir.types import EXACT, PER_SECOND, TEXT, DType, Kind, from_arrow
from skipstone.kernels.pack.planes import Mask

Side = Literal["min", "max"]
Given: TypeAlias = pa.Array | pa.ChunkedArray
BoundArray = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Bounds:
    """One bound of n containers.

    Attributes:
        values: Axis values of the column's NumPy type, or bytes as a large_binary array for coded
            columns; arbitrary where `known` is false.
        known: Mask of shape (n,), or None if all are known.
    """

    values: Any  # `DType.coded` says which of the two it is
    known: Mask | None

    @property
    def mask(self) -> Mask:
        """The mask of the known bounds, shape (n,)."""
        return np.ones(len(self.values), np.bool_) if self.known is None else self.known

    def where(self, kept: Mask) -> Bounds:
        """Return the bounds of the containers in a mask; the others become unknown."""
        return Bounds(self.values, kept if self.known is None else self.known & kept)


def bounds_of(array: Given, dtype: DType, side: Side) -> Bounds | None:
    """Read bounds from an Arrow array of the column's type, or of a type that widens to it.

    If the types differ in precision, bounds are rounded. Any rounding that keeps order is correct,
    since the column's own values round to themselves.

    Args:
        array: The bounds.
        dtype: The column's type.
        side: "min" or "max".

    Returns:
        None if the array's type cannot bound the column: the statistic is unknown.
    """
    array = plain(whole(array))
    source = from_arrow(array.type)
    if array.null_count == len(array) or not dtype.ordered:
        return None
    if dtype.kind in TEXT:
        return _text(array, dtype) if source.kind is dtype.kind else None
    if dtype.kind is Kind.DECIMAL:
        return _decimals(array, source, dtype)
    known = known_of(array)
    match source.kind, dtype.kind:
        case Kind.BOOL, Kind.BOOL:
            return Bounds(numbers_of(pc.cast(array, pa.uint8())), known)
        case _, Kind.FLOAT:
            return _floats(array, source, dtype, known)
        case Kind.DATE, Kind.DATE:
            if pa.types.is_date64(array.type):
                array = pc.cast(array, pa.date32(), safe=False)
            return Bounds(numbers_of(array.view(pa.int32())), known)
        case Kind.TIME, Kind.TIME:
            units = PER_SECOND[source.unit], PER_SECOND[dtype.unit]
            return _rescaled(numbers_of(ticks_of(array)), known, *units, side)
        case Kind.TIMESTAMP, Kind.TIMESTAMP if source.zoned == dtype.zoned:
            units = PER_SECOND[source.unit], PER_SECOND[dtype.unit]
            return _rescaled(numbers_of(array.view(pa.int64())), known, *units, side)
        case ((Kind.INT | Kind.UINT), (Kind.INT | Kind.UINT)):
            return _integers(numbers_of(array), dtype, known)
    return None


def bounds_in_place(array: Given, dtype: DType) -> BoundArray | None:
    """Return the bounds in place if all have the column's own type and are known, else None."""
    kind, numpy_type = array.type, np.dtype(dtype.numpy_type)
    if (
        not pa.types.is_primitive(kind)
        or kind.bit_width != numpy_type.itemsize * 8
        or from_arrow(kind) != dtype
    ):
        return None
    if array.null_count or (isinstance(array, pa.ChunkedArray) and array.num_chunks != 1):
        return None
    return numbers_of(whole(array).view(pa.from_numpy_dtype(numpy_type)))


def _integers(values: npt.NDArray[np.generic], dtype: DType, known: Mask | None) -> Bounds:
    numpy_type = np.dtype(dtype.numpy_type)
    if values.dtype == numpy_type:
        return Bounds(values, known)
    info = np.iinfo(values.dtype)  # type: ignore[type-var]
    fits: Mask | None = None
    if info.min < dtype.lowest:  # type: ignore[operator]
        fits = values >= dtype.lowest  # type: ignore[operator]
    if info.max > dtype.highest:  # type: ignore[operator]
        below = values <= dtype.highest  # type: ignore[operator]
        fits = below if fits is None else fits & below
    out = Bounds(values.astype(numpy_type), known)
    return out if fits is None or fits.all() else out.where(fits)


def _floats(array: pa.Array, source: DType, dtype: DType, known: Mask | None) -> Bounds | None:
    if source.kind not in (Kind.FLOAT, Kind.INT, Kind.UINT):
        return None
    with np.errstate(over="ignore", under="ignore"):
        # Rounds to nearest: JSON's double 0.1 becomes the FLOAT nearest to 0.1 again.
        return Bounds(numbers_of(array).astype(dtype.numpy_type, copy=False), known)


def _rescaled(
    values: npt.NDArray[np.generic], known: Mask | None, source: int, to: int, side: Side
) -> Bounds:
    ticks = values.astype(np.int64, copy=False)
    if to == source:
        return Bounds(ticks, known)
    if to < source:
        step = source // to
        return Bounds(ticks // step + ((ticks % step > 0) & (side == "max")), known)
    step = to // source
    limit = np.iinfo(np.int64).max // step
    fits = (ticks >= -limit) & (ticks <= limit)
    return Bounds(np.where(fits, ticks, 0) * step, known).where(fits)


def _text(array: pa.Array, dtype: DType) -> Bounds:
    raw = pc.cast(array, pa.large_string() if dtype.kind is Kind.STRING else pa.large_binary())
    if dtype.kind is Kind.STRING:
        try:
            raw.validate(full=True)
        except pa.ArrowInvalid:
            raw = _decodable(raw)
    data = raw.view(pa.large_binary()) if dtype.kind is Kind.STRING else raw
    return Bounds(data, known_of(data))


def _decodable(raw: pa.Array) -> pa.Array:
    """Replace strings that are not UTF-8 by null, since they bound nothing."""

    def read(value: pa.Scalar) -> str | None:
        try:
            return value.as_py()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            return None

    return pa.array([read(v) for v in raw], pa.large_string())


def _decimals(array: pa.Array, source: DType, dtype: DType) -> Bounds | None:
    """Convert decimals to unscaled digits.

    They are int64 up to 18 digits, else 16 bytes in the order of the numbers.
    """
    if source.kind in (Kind.INT, Kind.UINT):
        array = pc.cast(array, pa.decimal128(20, 0))
    if not pa.types.is_decimal(array.type):
        return None
    wide = pa.decimal128(38, dtype.scale)
    if array.type != wide:
        try:
            array = pc.cast(array, wide)
        except pa.ArrowInvalid:
            array = _exact(array, wide)
    words = np.zeros((len(array), 2), np.uint64)
    data = array.buffers()[1]
    if data is not None:
        words = np.frombuffer(data, np.uint64, len(array) * 2, array.offset * 16).reshape(-1, 2)
    known = known_of(array)
    if not dtype.coded:
        low, high = (
            words[:, 0].view(np.int64)
            if words.flags.c_contiguous
            else words[:, 0].astype(np.int64),
            words[:, 1].astype(np.int64),
        )
        values = np.ascontiguousarray(low)
        limit = 10**dtype.precision
        fits = (high == (values >> 63)) & (values > -limit) & (values < limit)
        out = Bounds(values, known)
        return out if fits.all() else out.where(fits)
    if dtype.precision < 38:
        fits = below(words, 10**dtype.precision) & ~below(words, 1 - 10**dtype.precision)
        known = known if fits.all() else fits if known is None else known & fits
    flipped = np.empty((len(array), 2), ">u8")
    flipped[:, 0] = words[:, 1] ^ np.uint64(1 << 63)
    flipped[:, 1] = words[:, 0]
    keys = pa.Array.from_buffers(
        pa.binary(16), len(array), [bitmap(known), pa.py_buffer(flipped.tobytes())]
    )
    return Bounds(pc.cast(keys, pa.large_binary()), known)


def _exact(array: pa.Array, wide: pa.DataType) -> pa.Array:
    """Convert decimals to another scale; those that would lose digits become null."""
    limit = 10 ** (38 - wide.scale)
    unit = decimal.Decimal(1).scaleb(-wide.scale, EXACT)

    def fits(v: decimal.Decimal) -> bool:
        return v.copy_abs() < limit and v == v.quantize(unit, context=EXACT)

    return pa.array([None if (v := s.as_py()) is None or not fits(v) else v for s in array], wide)


def below(words: npt.NDArray[np.uint64], limit: int) -> Mask:
    """Return the mask of 128-bit numbers, low word first, that are less than `limit`."""
    high, low = words[:, 1].astype(np.int64), words[:, 0]
    first, second = limit >> 64, np.uint64(limit & (2**64 - 1))
    return np.asarray((high < first) | ((high == first) & (low < second)), np.bool_)
