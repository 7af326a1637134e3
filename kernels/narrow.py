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
from skipstone.kernels.bounds import Bounds

CANDIDATES: Final = ("int8", "int16", "int32")


def narrowest(low: Bounds | None, high: Bounds | None, dtype: DType) -> str:
    """The lane type for both bounds of a column: `dtype.lane`, or a narrower one whose open ends no bound uses."""
    own = np.dtype(dtype.lane)
    if not dtype.discrete or own.itemsize < 4:
        return dtype.lane
    ranges = [r for b in (low, high) if b is not None and (r := _range(b)) is not None]
    if not ranges:
        return dtype.lane
    least, most = min(r[0] for r in ranges), max(r[1] for r in ranges)
    for name in CANDIDATES:
        info = np.iinfo(name)
        open_low, open_high = is_open(dtype, name)
        if info.dtype.itemsize < own.itemsize and info.min + open_low <= least and most <= info.max - open_high:
            return name
    return dtype.lane


def _range(b: Bounds) -> tuple[int, int] | None:
    """Least and greatest of the known bounds."""
    values = b.values if b.known is None else b.values[b.known]
    return (int(values.min()), int(values.max())) if len(values) else None


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
