"""Packed statistics of one column: what a kernel reads.

Bounds are contiguous arrays, widened to the type's ends where they are unknown, so that no kernel
asks whether one is known. Counts become three planes: may hold a value, may hold NULL, may hold NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.types import DType, Kind
from skipstone.kernels import pool
from skipstone.kernels.bounds import Bounds, bounds_of
from skipstone.kernels.codes import encode
from skipstone.kernels.narrow import narrowest
from skipstone.kernels.planes import Mask, Plane, Words, clear_tail, pack, plane_of, word_count

if TYPE_CHECKING:
    from skipstone.kernels.coarse import Grid
    from skipstone.kernels.codes import Dictionary
    from skipstone.kernels.guard import Guard

Lanes = npt.NDArray[np.generic]
PART: Final = 1 << 16  # containers whose counts one task of the pool makes planes of; a multiple of 64


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Statistics of one column for n containers, host memory.

    Attributes:
        dtype: The column's type.
        lane: The type of the bounds' arrays: `dtype.lane`, a narrower one (kernels/narrow.py), or that of codes.
        low, high: Shape (n,); None where unknown everywhere.
        real: May hold a value that is neither NULL nor NaN.
        nulls: May hold NULL.
        nans: May hold NaN.
        codes: What codes stand for, when bounds are codes: a dictionary, exactly; or a grid, coarsely (kernels/coarse.py).
        lost: Of calls: on some row Spark may raise an error, or give what is not known here.
        guards: By attribute, of arrays that come from a file and are not verified: touch one before its array is read.
    """

    dtype: DType
    lane: str
    low: Lanes | None
    high: Lanes | None
    real: Plane
    nulls: Plane
    nans: Plane
    codes: Dictionary | Grid | None = None
    lost: Plane = False
    guards: Mapping[str, Guard] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and planes; the dictionary's included."""
        arrays = (self.low, self.high, self.real, self.nulls, self.nans, self.lost)
        own = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
        return own + (0 if self.codes is None else self.codes.nbytes)

    @property
    def narrowed(self) -> bool:
        """Whether lanes are narrower than the type's own, so that literals may have to be clamped."""
        return self.codes is None and self.lane != self.dtype.lane

    def end(self, high: bool) -> int | float:
        """What stands for an unknown bound, on the lanes: a value or a code."""
        if self.codes is not None:
            return self.codes.end(high)
        value = self.dtype.highest if high else self.dtype.lowest
        assert isinstance(value, int | float)
        if not self.dtype.discrete:
            return value
        info = np.iinfo(self.lane)
        return int(max(info.min, min(value, info.max)))


@dataclass(frozen=True, slots=True)
class Raw:
    """Statistics of one column as they came: Arrow arrays of length n; None or null is unknown."""

    min: pa.Array | None = None
    max: pa.Array | None = None
    null_count: pa.Array | None = None
    row_count: pa.Array | None = None
    nan_count: pa.Array | None = None


def pack_column(raw: Raw, dtype: DType, n: int, *, nullable: bool = True, above: bool = False, rows: pa.Array | None = None) -> Column:
    """Pack the statistics of one column.

    Args:
        raw: As they came. What cannot be true makes that statistic unknown, never an error.
        dtype: The type to read bounds as.
        n: Containers.
        nullable: Whether the schema lets the column hold NULL; it decides where no count does.
        above: Whether a struct around the column may be NULL without its null count telling.
        rows: Row counts of the containers, which stand in for the column's own.
    """
    low = None if raw.min is None else bounds_of(raw.min, dtype, "min")
    high = None if raw.max is None else bounds_of(raw.max, dtype, "max")
    low, high = _in_order(low, high, dtype)
    real, nulls, nans = _planes(raw, dtype, n, nullable, rows)
    return column_of(dtype, low, high, real, above or nulls, nans)


def column_of(dtype: DType, low: Bounds | None, high: Bounds | None, real: Plane, nulls: Plane, nans: Plane) -> Column:
    """A column from its bounds, in order, and planes."""
    codes = None
    if dtype.coded:
        a, b, codes = encode(low, high, dtype)
        if a is not None and b is not None and (disorder := a > b).any():
            a, b = np.where(disorder, 0, a).astype(np.int32), np.where(disorder, codes.end(high=True), b).astype(np.int32)
        return Column(dtype, "int32", a, b, real, nulls, nans, codes)
    column = Column(dtype, narrowest(low, high, dtype), None, None, real, nulls, nans)
    if not dtype.ordered:
        return column
    ends = (column.end(high=False), column.end(high=True))
    filled = [_fill(b, end, np.dtype(column.lane)) for b, end in zip((low, high), ends, strict=True)]
    return replace(column, low=filled[0], high=filled[1])


def _fill(b: Bounds | None, end: int | float, lane: np.dtype[np.generic]) -> Lanes | None:
    if b is None or (b.known is not None and not b.known.any()):
        return None
    values: Lanes = np.ascontiguousarray(b.values, dtype=lane)
    return values if b.known is None else np.where(b.known, values, lane.type(end))


def _in_order(low: Bounds | None, high: Bounds | None, dtype: DType) -> tuple[Bounds | None, Bounds | None]:
    """Drop a bound that is NaN, and both where they are inverted: no one knows which of them is right."""
    if dtype.coded:
        return low, high  # compared once they are codes
    bad: Mask | None = None
    if dtype.kind is Kind.FLOAT:
        low, high = (_without_nan(b) for b in (low, high))
    if low is not None and high is not None:
        inverted: Mask = low.values > high.values
        if inverted.any():
            for known in (low.known, high.known):
                inverted = inverted if known is None else inverted & known
            bad = inverted
    if bad is None or not bad.any():
        return low, high
    good = ~bad
    return tuple(b and Bounds(b.values, good if b.known is None else b.known & good) for b in (low, high))  # type: ignore[return-value]


def _without_nan(b: Bounds | None) -> Bounds | None:
    if b is None or not (nan := np.isnan(b.values)).any():
        return b
    return Bounds(b.values, ~nan if b.known is None else b.known & ~nan)


def _planes(raw: Raw, dtype: DType, n: int, nullable: bool, container_rows: pa.Array | None) -> tuple[Plane, Plane, Plane]:
    """Counts as planes: (real, nulls, nans)."""
    floating = dtype.kind is Kind.FLOAT
    given = (raw.null_count, raw.row_count, raw.nan_count if floating else None, container_rows)
    if not any(_is_count(a) and a.null_count < n for a in given):
        return True, nullable, floating
    planes = [np.empty(word_count(n), np.uint64) for _ in range(3)]

    def work(first: int, stop: int) -> None:
        parts = [None if a is None else a.slice(first, stop - first) for a in given]
        for plane, mask in zip(planes, _masks(parts, stop - first, nullable, floating), strict=True):
            plane[first // 64 : word_count(stop)] = pack(mask)

    pool.run_chunks(work, n, PART)
    real, nulls, nans = (_constant(p, n) for p in planes)
    return real, nulls, nans


def _constant(words: Words, n: int) -> Plane:
    """Words as a plane, True or False if they are."""
    full = clear_tail(np.full(len(words), -1, np.int64).view(np.uint64), n)
    return True if np.array_equal(words, full) else words if words.any() else False


def _masks(given: Sequence[pa.Array | None], n: int, nullable: bool, floating: bool) -> tuple[Mask, Mask, Mask]:
    """Counts as masks: of NULLs, rows, NaNs, and the container's rows. -1 stands for an unknown count."""
    null_count, row_count, nan_count, container_rows = given
    rows_of_container = counts(container_rows, n)
    rows = counts(row_count, n)
    if rows is None:
        rows = rows_of_container
    elif rows_of_container is not None:
        rows = np.where(counts_missing(row_count, n), rows_of_container, rows)
    null, nan = counts(null_count, n), counts(nan_count, n)
    null = np.full(n, -1) if null is None else null
    rows = np.full(n, -1) if rows is None else rows
    null = np.where((rows >= 0) & (null > rows), -1, null)
    others = rows - np.maximum(null, 0)
    all_null = (null >= 0) & (null == rows)
    all_nan: Mask = np.zeros(n, np.bool_)
    nans: Mask = np.full(n, floating)
    full_nan = all_nan
    if nan is not None:
        nan = np.where((rows >= 0) & (nan > others), -1, nan)
        all_nan = (rows >= 0) & (nan >= 0) & (np.maximum(null, 0) + nan == rows)
        full_nan = all_nan & (nan == rows)
        nans = nan != 0
    empty = rows == 0
    maybe_null = np.where(null < 0, nullable, null > 0) & ~full_nan
    real = ~(all_null | all_nan | empty)
    return real, maybe_null | empty, nans & ~all_null & ~empty


def counts(array: pa.Array | None, n: int) -> npt.NDArray[np.int64] | None:
    """Counts as int64 with -1 for unknown ones: nulls, negative numbers, what is not an integer."""
    if not _is_count(array):
        return None
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.null_count == n:
        return None
    values = array.cast(pa.int64(), safe=False).fill_null(-1).to_numpy()
    return np.asarray(np.maximum(values, -1), np.int64)


def _is_count(array: pa.Array | None) -> TypeGuard[pa.Array]:
    return array is not None and (pa.types.is_integer(array.type) or pa.types.is_null(array.type))


def counts_missing(array: pa.Array | None, n: int) -> Mask:
    """Where a count was not given at all; a negative one was given, and is unknown."""
    if array is None:
        return np.ones(n, np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def rows_plane(rows: pa.Array | None, n: int) -> Plane:
    """Whether each container may hold rows."""
    known = counts(rows, n)
    return True if known is None else plane_of(known != 0)
