"""Key sets: the members of an IN list as runs, and a directory that ranks a value among their ends.

A run is a range of values that all are members: consecutive integers, or one value. Runs are
disjoint and ascending, so counts of their ends tell everything about [low, high]. Of k runs that end
below `low`, the next starts at `high` or below if more than k runs do: a member lies in the range.
It holds nothing but members if more than k start at `low` or below and only k end below `high`.

The directory is a table of buckets of one cache line each: how many ends lie in the buckets before,
and where in the bucket its own ends lie, in steps of 1/65,536 of it. A value's place, `(value -
lowest) * scale + EDGE`, never decreases, whatever is rounded, so ends at places below the value's
are less, and only those at the same place need to be compared themselves. Of 1 M random keys such a
table takes 4 MB and one read beyond the L1 cache; a directory of starts with the 8-byte keys beside
it takes 12 MB and two or three, and was twice as slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[Any]
SLOTS: Final = 30  # ends that a bucket has room for; in a fuller one, where keys are skewed, values are searched for
TARGET_SLOTS: Final = (
    18  # ends in a bucket, if keys are spread evenly: one bucket in 300 then is too full
)
STEPS: Final = 1 << 16
EDGE: Final = 2.0  # places at both ends of the directory that no end of a run has


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The runs of a set and the directories of their ends, host memory.

    Attributes:
        firsts, lasts: Where runs start and end, ascending, shape (runs,), of the bounds' lane type.
        first_lines, last_lines: Their directories: int32, shape (buckets * 16 + 16,), aligned to 64 bytes. A bucket
            is its count, negative (-1 - count) where it is too full, and SLOTS 16-bit places; the last is no bucket
            but the number of runs.
        frame: float64: lowest, scale, the last place, and 1 if integers of one place are equal.
    """

    firsts: Lanes
    first_lines: npt.NDArray[np.int32]
    lasts: Lanes
    last_lines: npt.NDArray[np.int32]
    frame: npt.NDArray[np.float64]


def keys_of(firsts: Lanes, lasts: Lanes) -> Keys:
    """A set's runs as kernels want them.

    Args:
        firsts, lasts: Ends of runs, ascending. Of codes, a value between codes c and c + 1 is the empty run from c + 1 to c.
    """
    buckets = -(-len(lasts) // TARGET_SLOTS)
    frame = _frame(min(firsts[0], lasts[0]), max(firsts[-1], lasts[-1]), lasts, buckets)
    last_lines = _lines(lasts, frame, buckets)
    if np.array_equal(firsts, lasts):
        return Keys(lasts, last_lines, lasts, last_lines, frame)
    return Keys(firsts, _lines(firsts, frame, buckets), lasts, last_lines, frame)


def runs_of(values: Lanes, discrete: bool) -> tuple[Lanes, Lanes]:
    """Ascending values as runs; repeats, which clamping makes, are dropped."""
    apart = values[1:] != values[:-1]
    if discrete:
        # Ascending, so what follows a value at the end of its type is that value, which `apart` tells.
        with np.errstate(over="ignore"):
            apart &= values[1:] != values[:-1] + values.dtype.type(1)
    return values[np.append(True, apart)], values[np.append(apart, True)]


def _frame(least: Any, most: Any, ends: Lanes, buckets: int) -> npt.NDArray[np.float64]:
    """How values are spread over places: evenly between the finite ends of runs."""
    low, high = float(least), float(most)
    if not (np.isfinite(low) and np.isfinite(high)):
        finite = ends[np.isfinite(ends)]
        low, high = (float(finite[0]), float(finite[-1])) if len(finite) else (0.0, 0.0)
    top = float(buckets * STEPS - 2)
    half = high / 2 - low / 2  # the whole may exceed the type
    scale = min((top - 2 * EDGE) / 2 / half, 1e300) if half > 0 else 1.0
    whole = (
        np.issubdtype(ends.dtype, np.integer) and scale >= 2 and max(abs(low), abs(high)) < 2**53
    )
    return np.array([low, scale, top, whole])


def places_of(values: Lanes, frame: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """The places of values; kernels compute the same, and round the same."""
    lowest, scale, top, _ = frame
    with np.errstate(over="ignore"):
        places: npt.NDArray[np.int64] = np.clip(
            (values.astype(np.float64) - lowest) * scale + EDGE, 0.0, top
        ).astype(np.int64)
    return places


def _lines(ends: Lanes, frame: npt.NDArray[np.float64], buckets: int) -> npt.NDArray[np.int32]:
    places = places_of(ends, frame)
    at = places // STEPS
    starts = np.zeros(buckets + 1, np.int64)
    np.cumsum(np.bincount(at, minlength=buckets), out=starts[1:])
    lines = _aligned(buckets + 1)
    lines[:] = -1
    slots = lines.view(np.uint16).reshape(-1, 32)
    slot = np.arange(len(ends)) - starts[at]
    held = slot < SLOTS
    slots[at[held], slot[held] + 2] = places[held] % STEPS
    lines[::16] = starts
    lines[:-16:16][np.diff(starts) > SLOTS] ^= -1
    return lines


def _aligned(lines: int) -> npt.NDArray[np.int32]:
    """Room that starts at a cache line."""
    room = np.empty(lines * 16 + 16, np.int32)
    skip = -room.ctypes.data % 64 // 4
    return room[skip : skip + lines * 16]
