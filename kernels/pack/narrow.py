"""Narrow types: integer bounds in the fewest bytes that hold them exactly.

The cost of a kernel is the bytes that it reads. An unknown bound is replaced by an end of the
column's type. If that end lies beyond the narrow type, the narrow type's own end replaces it, and
no known bound may use it: the narrow type is *open* there. A literal beyond an open end is clamped
so that every comparison keeps its outcome.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skipstone.ir.node import Op
from skipstone.ir.types import DType

CANDIDATES: Final = ("int8", "int16", "int32")


def narrowest(least: int, most: int, dtype: DType) -> str:
    """Return the narrowest type for bounds between two values.

    Args:
        least: The least bound.
        most: The greatest bound.
        dtype: The column's type.

    Returns:
        `dtype.numpy_type`, or a narrower type whose open ends no bound uses.
    """
    own = np.dtype(dtype.numpy_type)
    if not narrows(dtype):
        return dtype.numpy_type
    for name in CANDIDATES:
        info = np.iinfo(name)
        open_low, open_high = open_ends(dtype, name)
        if (
            info.dtype.itemsize < own.itemsize
            and info.min + open_low <= least
            and most <= info.max - open_high
        ):
            return name
    return dtype.numpy_type


def narrows(dtype: DType) -> bool:
    """Return True if bounds of a type may be stored in a narrower type."""
    return dtype.discrete and np.dtype(dtype.numpy_type).itemsize >= 4


def end_of(dtype: DType, numpy_type: str, *, high: bool) -> int | float:
    """Return the value that replaces an unknown bound in an array of `numpy_type`."""
    value = dtype.highest if high else dtype.lowest
    assert isinstance(value, int | float)
    if not dtype.discrete:
        return value
    info = np.iinfo(numpy_type)
    return int(max(info.min, min(value, info.max)))


def open_ends(dtype: DType, numpy_type: str) -> tuple[bool, bool]:
    """Return for the lower and for the upper end of the type if it lies beyond `numpy_type`."""
    info, low, high = np.iinfo(numpy_type), dtype.lowest, dtype.highest
    assert isinstance(low, int) and isinstance(high, int)
    return low < info.min, high > info.max


def clamp(op: Op, value: int, dtype: DType, numpy_type: str) -> int:
    """Return a literal of the type clamped to a narrow type, for one comparison with a bound.

    Let A and B be open ends. A < bound if the bound is known, and A replaces an unknown lower
    bound. bound < B if it is known, and B replaces an unknown upper bound. Then, except for the
    type's own ends,
      low < v, high >= v   keep their outcome for v clamped to [A + 1, B];
      low <= v, high > v   keep it for v clamped to [A, B - 1].
    No value is below the type's lowest: low < lowest is FALSE, as is low < A. The highest likewise.
    """
    info = np.iinfo(numpy_type)
    open_low, open_high = open_ends(dtype, numpy_type)
    first = info.min + (open_low and op in (Op.LT, Op.GE) and value != dtype.lowest)
    last = info.max - (open_high and op in (Op.LE, Op.GT) and value != dtype.highest)
    return int(max(first, min(value, last)))
