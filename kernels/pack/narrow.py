"""Narrow lanes: integer bounds kept in the fewest bytes that hold them exactly.

Bytes are what a kernel costs. An unknown bound stands for an end of the column's type. Where that
end lies beyond the narrow type, the narrow type's own end takes its place, and no known bound may
use it: the lane is *open* there. A literal beyond an open end is clamped so that every comparison
keeps its outcome.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skipstone.ir.node import Op
from skipstone.ir.types import DType

CANDIDATES: Final = ("int8", "int16", "int32")


def narrowest(least: int | None, most: int | None, dtype: DType) -> str:
    """The lane type for all bounds of a column, of which these are the ends: `dtype.lane`, or a narrower one whose open ends no bound uses."""
    own = np.dtype(dtype.lane)
    if least is None or most is None or not narrows(dtype):
        return dtype.lane
    for name in CANDIDATES:
        info = np.iinfo(name)
        open_low, open_high = is_open(dtype, name)
        if (
            info.dtype.itemsize < own.itemsize
            and info.min + open_low <= least
            and most <= info.max - open_high
        ):
            return name
    return dtype.lane


def narrows(dtype: DType) -> bool:
    """Whether bounds of a type may have a narrower lane than its own."""
    return dtype.discrete and np.dtype(dtype.lane).itemsize >= 4


def end_of(dtype: DType, lane: str, *, high: bool) -> int | float:
    """What stands for an unknown bound on a lane."""
    value = dtype.highest if high else dtype.lowest
    assert isinstance(value, int | float)
    if not dtype.discrete:
        return value
    info = np.iinfo(lane)
    return int(max(info.min, min(value, info.max)))


def is_open(dtype: DType, lane: str) -> tuple[bool, bool]:
    """Whether the ends of the type, the lower and the upper, lie beyond those of the lane."""
    info, low, high = np.iinfo(lane), dtype.lowest, dtype.highest
    assert isinstance(low, int) and isinstance(high, int)
    return low < info.min, high > info.max


def clamp(op: Op, value: int, dtype: DType, lane: str) -> int:
    """A literal of the type on a narrow lane, for one comparison of a bound with it.

    Let A and B be open ends: A < bound where it is known and A where a lower one is not, bound < B
    where it is known and B where an upper one is not. Then, but for the type's own ends,
      low < v, high >= v   keep their outcome for v clamped to [A + 1, B];
      low <= v, high > v   keep it for v clamped to [A, B - 1].
    No value is below the type's lowest: low < lowest is FALSE, as low < A is. The highest likewise.
    """
    info = np.iinfo(lane)
    open_low, open_high = is_open(dtype, lane)
    first = info.min + (open_low and op in (Op.LT, Op.GE) and value != dtype.lowest)
    last = info.max - (open_high and op in (Op.LE, Op.GT) and value != dtype.highest)
    return int(max(first, min(value, last)))
