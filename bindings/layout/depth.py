"""Overlaps and depths of containers along one column's axis, in O(n log n).

A container is a closed range [low, high]. Two containers overlap if they share a value. The depth
at a value is the number of containers that hold it, and the depth of a container is the greatest
depth within its range, itself included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]
Ends = npt.NDArray[Any]


def overlaps_and_depths(low: Ends, high: Ends) -> tuple[Counts, Counts]:
    """Return for each container the number of others that it overlaps, and its depth.

    Args:
        low, high: Ends of n ranges, shape (n,), of one type with an order; low <= high.

    Example:
        >>> import numpy as np
        >>> overlaps, depths = overlaps_and_depths(np.array([0, 2, 5, 9]), np.array([4, 5, 6, 9]))
        >>> overlaps.tolist(), depths.tolist()
        ([1, 2, 1, 0], [2, 2, 2, 1])
    """
    # Ends are searched for in ascending order, which keeps the search in cache.
    by_low, by_high = np.argsort(low), np.argsort(high)
    lows, highs = low[by_low], high[by_high]
    ended = np.searchsorted(highs, lows, "left")  # ranges that end before each beginning
    overlaps = np.empty(len(low), np.int64)
    overlaps[by_high] = np.searchsorted(lows, highs, "right") - 1
    overlaps[by_low] -= ended
    # The depth rises only where a range begins, so some beginning within a range has its maximum.
    is_first = np.ones(len(lows), np.bool_)
    is_first[1:] = lows[1:] != lows[:-1]
    at = np.flatnonzero(is_first)
    depth_at = np.r_[at[1:], len(lows)][: len(at)] - ended[at]
    first, stop = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
    first[by_low] = np.cumsum(is_first) - 1  # a range's own beginning is one of them
    stop[by_high] = np.searchsorted(lows[at], highs, "right")
    return overlaps, _greatest(depth_at, first, stop)


def _greatest(values: Counts, first: Counts, stop: Counts) -> Counts:
    """Return the maxima of `values[first:stop]`, by maxima of runs of 1, 2, 4, ... values."""
    out = np.empty(len(first), np.int64)
    if not len(first):
        return out
    exponent = np.frexp((stop - first).astype(np.float64))[1] - 1  # the longest run that fits
    order = np.argsort(exponent, kind="stable")
    ends = np.searchsorted(exponent[order], np.arange(int(exponent.max()) + 2), "left")
    runs = values
    for level in range(len(ends) - 1):
        if level:
            half = 1 << (level - 1)
            runs = np.maximum(runs[:-half], runs[half:])
        which = order[ends[level] : ends[level + 1]]
        # Two runs, which may overlap, cover the range.
        out[which] = np.maximum(runs[first[which]], runs[stop[which] - (1 << level)])
    return out


def histogram_of(depths: Counts) -> dict[int, int]:
    """Return how many containers have which depth, in Snowflake's buckets.

    Buckets are 0, 1, ... 16, then 32, 64, ... up to the greatest depth. A bucket above 16 counts
    depths above the bucket before it, up to its own number.

    Source: Snowflake, `SYSTEM$CLUSTERING_INFORMATION`, `partition_depth_histogram`.

    Example:
        >>> import numpy as np
        >>> {b: n for b, n in histogram_of(np.array([1, 16, 17, 40])).items() if n}
        {1: 1, 16: 1, 32: 1, 64: 1}
    """
    buckets = list(range(17))
    while len(depths) and buckets[-1] < depths.max():
        buckets.append(2 * buckets[-1])
    counts = np.bincount(np.searchsorted(buckets, depths, "left"), minlength=len(buckets))
    return dict(zip(buckets, counts.tolist(), strict=True))
