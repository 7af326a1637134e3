"""Key sets: the members of an IN list as runs, and a directory that ranks values among their ends.

A run is a range of values that are all members: consecutive integers, or one value. Runs are
disjoint and ascending, so counts of their ends describe [low, high] completely. Let k runs end
below `low`. If more than k runs start at `high` or below, a member lies in the range. If more than
k runs start at `low` or below, and only k end below `high`, the range holds only members.

The directory is a table of buckets of one cache line each. A bucket holds the number of ends in the
buckets before it, and the places of its own ends, in steps of 1/65,536 of the bucket. The place of
a value, `(value - lowest) * scale + EDGE`, never decreases as values increase, however it is
rounded. So ends at places below the value's place are less than the value, and only ends at the
same place need to be compared. With 1 M random keys such a table takes 4 MB and one read beyond the
L1 cache. A directory of starts with the 8-byte keys beside it takes 12 MB and two or three reads,
and was twice as slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

BoundArray = npt.NDArray[Any]
# Ends that fit into a bucket. Values are searched for in fuller buckets, which skewed keys cause.
PER_BUCKET: Final = 30
# Ends in a bucket if keys are spread evenly; then one bucket in 300 is too full.
TARGET_PER_BUCKET: Final = 18
STEPS: Final = 1 << 16
EDGE: Final = 2.0  # places at both ends of the directory without ends of runs


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The runs of a set and the directories of their ends, host memory.

    Attributes:
        firsts: The first value of each run, ascending, shape (runs,), of the NumPy type of the
            bounds.
        first_lines: Their directory, int32, shape (buckets * 16 + 16,), aligned to 64 bytes. A
            bucket is its count, or -1 - count if it is too full, and PER_BUCKET places of 16 bits.
            The last line is not a bucket: it holds the number of runs.
        lasts: The last value of each run, as `firsts`.
        last_lines: Their directory, as `first_lines`.
        frame: float64: lowest, scale, the last place, and 1 if integers at one place are equal.
    """

    firsts: BoundArray
    first_lines: npt.NDArray[np.int32]
    lasts: BoundArray
    last_lines: npt.NDArray[np.int32]
    frame: npt.NDArray[np.float64]


def keys_of(firsts: BoundArray, lasts: BoundArray) -> Keys:
    """Return a set's runs in the form that kernels read.

    Args:
        firsts: The first value of each run, ascending.
        lasts: The last value of each run, ascending. In codes, a value between codes c and c + 1 is
            the empty run from c + 1 to c.
    """
    buckets = -(-len(lasts) // TARGET_PER_BUCKET)
    frame = _frame(min(firsts[0], lasts[0]), max(firsts[-1], lasts[-1]), lasts, buckets)
    last_lines = _lines(lasts, frame, buckets)
    if np.array_equal(firsts, lasts):
        return Keys(lasts, last_lines, lasts, last_lines, frame)
    return Keys(firsts, _lines(firsts, frame, buckets), lasts, last_lines, frame)


def runs_of(values: BoundArray, discrete: bool) -> tuple[BoundArray, BoundArray]:
    """Return ascending values as runs; duplicates, which clamping makes, are dropped."""
    apart = values[1:] != values[:-1]
    if discrete:
        # Values ascend. So the value after one at the end of its type equals it, and `apart`
        # already excludes it.
        with np.errstate(over="ignore"):
            apart &= values[1:] != values[:-1] + values.dtype.type(1)
    return values[np.append(True, apart)], values[np.append(apart, True)]


def _frame(least: Any, most: Any, ends: BoundArray, buckets: int) -> npt.NDArray[np.float64]:
    """Return how values map to places: evenly between the finite ends of runs."""
    low, high = float(least), float(most)
    if not (np.isfinite(low) and np.isfinite(high)):
        finite = ends[np.isfinite(ends)]
        low, high = (float(finite[0]), float(finite[-1])) if len(finite) else (0.0, 0.0)
    top = float(buckets * STEPS - 2)
    half = high / 2 - low / 2  # the full difference may exceed the type
    scale = min((top - 2 * EDGE) / 2 / half, 1e300) if half > 0 else 1.0
    whole = (
        np.issubdtype(ends.dtype, np.integer) and scale >= 2 and max(abs(low), abs(high)) < 2**53
    )
    return np.array([low, scale, top, whole])


def buckets_of(values: BoundArray, frame: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the places of values; kernels compute and round them in the same way."""
    lowest, scale, top, _ = frame
    with np.errstate(over="ignore"):
        places: npt.NDArray[np.int64] = np.clip(
            (values.astype(np.float64) - lowest) * scale + EDGE, 0.0, top
        ).astype(np.int64)
    return places


def _lines(ends: BoundArray, frame: npt.NDArray[np.float64], buckets: int) -> npt.NDArray[np.int32]:
    places = buckets_of(ends, frame)
    at = places // STEPS
    starts = np.zeros(buckets + 1, np.int64)
    np.cumsum(np.bincount(at, minlength=buckets), out=starts[1:])
    lines = _aligned(buckets + 1)
    lines[:] = -1
    buckets_16 = lines.view(np.uint16).reshape(-1, 32)
    rank = np.arange(len(ends)) - starts[at]
    held = rank < PER_BUCKET
    buckets_16[at[held], rank[held] + 2] = places[held] % STEPS
    lines[::16] = starts
    lines[:-16:16][np.diff(starts) > PER_BUCKET] ^= -1
    return lines


def _aligned(lines: int) -> npt.NDArray[np.int32]:
    """Return an uninitialized buffer that starts at a cache line."""
    room = np.empty(lines * 16 + 16, np.int32)
    skip = -room.ctypes.data % 64 // 4
    return room[skip : skip + lines * 16]
