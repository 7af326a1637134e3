"""Pack the bounds of all containers as lanes, which kernels compare.

Chunks are read, checked and written while they are in a core's cache, so ingestion costs little
more than reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from skipstone.ir.types import DType
from skipstone.kernels.pack.bounds import Bounds, Lanes
from skipstone.kernels.pack.narrow import CANDIDATES, end_of, narrowest, narrows
from skipstone.kernels.run import pool

# Containers of a task of the pool, a multiple of 64. A few arrays of them, 8 bytes each, stay in
# the L2 cache. In smaller chunks, threads wait for each other between NumPy's loops.
CHUNK: Final = 1 << 16
# Places where bounds are sampled before a lane type is chosen.
SAMPLES: Final = 8
SAMPLE: Final = 1 << 10  # containers at each place

Pair = tuple[Bounds | None, Bounds | None]  # lower and upper bounds
Read = Callable[[int, int], Pair]


def lanes_of(
    read: Read,
    dtype: DType,
    n: int,
    given: tuple[bool, bool],
    in_place: tuple[Lanes | None, Lanes | None],
) -> tuple[str, Lanes | None, Lanes | None]:
    """Return the narrowest lane type that holds all bounds, and the bounds in it.

    A sample decides which type is written first. If a sweep over the chunks finds a bound that
    needs a wider type, another sweep follows.

    Args:
        read: Returns the bounds of containers [first, stop).
        dtype: The column's type, ordered and not coded.
        n: The number of containers.
        given: Two flags: there are lower bounds, there are upper bounds.
        in_place: These bounds as lanes of the column's type. They are not copied unless they can be
            narrowed, or `read` drops some of them.

    Returns:
        The lane type, the lower bounds and the upper bounds; None for a side without known bounds.
    """
    if n <= CHUNK:  # one chunk, which is read once
        pair = read(0, n)
        read = lambda first, stop: pair  # noqa: E731
    lane_type = _guess(read, dtype, n)
    # Each turn writes all bounds in `lane_type`. It ends if that was the right type; else the next
    # turn uses the type that the bounds turned out to need.
    while True:
        # A side whose lanes already have the column's own type is checked, and not written again.
        stays = [lanes is not None and lane_type == dtype.lane_type for lanes in in_place]
        out = [
            lanes if stay else np.empty(n, lane_type) if there else None
            for lanes, stay, there in zip(in_place, stays, given, strict=True)
        ]
        known, ends = _sweep(read, dtype, n, lane_type, out, stays)
        if not any(known):
            return dtype.lane_type, None, None
        fits = narrowest(min(ends), max(ends), dtype) if lane_type != dtype.lane_type else lane_type
        dropped = [stay and count < n for stay, count in zip(stays, known, strict=True)]
        if lane_type == fits and not any(dropped):
            low, high = (lanes if count else None for lanes, count in zip(out, known, strict=True))
            return lane_type, low, high
        lane_type = fits
        # Lanes from which bounds were dropped cannot stay: the next turn writes them anew.
        low, high = (None if drop else lanes for drop, lanes in zip(dropped, in_place, strict=True))
        in_place = (low, high)


def _guess(read: Read, dtype: DType, n: int) -> str:
    """Return a lane type that is not too wide, from a sample."""
    if not narrows(dtype):
        return dtype.lane_type
    starts = (*range(0, n, max(n // SAMPLES, CHUNK)), max(n - SAMPLE, 0))
    ends = [end for first in starts for end in _ends(read(first, min(first + SAMPLE, n)))]
    return narrowest(min(ends), max(ends), dtype) if ends else CANDIDATES[0]


def _sweep(
    read: Read, dtype: DType, n: int, lane_type: str, out: list[Lanes | None], stays: list[bool]
) -> tuple[list[int], list[int]]:
    """Write all bounds in a lane.

    Returns:
        The numbers of known lower and upper bounds; and, unless the type is the widest, values
        between which all bounds lie.
    """
    known: tuple[list[int], list[int]] = ([], [])
    ends: list[int] = []

    def work(first: int, stop: int) -> None:
        pair = read(first, stop)
        if lane_type != dtype.lane_type:
            ends.extend(_ends(pair))
        for high, b in enumerate(pair):
            lanes = out[high]
            if b is not None:
                known[high].append(
                    stop - first if b.known is None else int(np.count_nonzero(b.known))
                )
            if lanes is None or stays[high]:
                continue
            if b is not None and b.known is None:
                lanes[first:stop] = b.values
                continue
            lanes[first:stop] = end_of(dtype, lane_type, high=high == 1)
            if b is not None:
                np.copyto(lanes[first:stop], b.values, casting="unsafe", where=b.known)

    pool.run_chunks(work, n, CHUNK)
    return [sum(counts) for counts in known], ends


def _ends(pair: Pair) -> Iterator[int]:
    """Yield values between which all bounds lie; nothing if none is known."""
    low, high = pair
    if low is not None and high is not None and low.known is high.known is None:
        if len(low.values):  # bounds are in order: two loops suffice instead of four
            yield int(low.values.min())
            yield int(high.values.max())
        return
    for b in pair:
        if b is not None and len(values := b.values if b.known is None else b.values[b.known]):
            yield int(values.min())
            yield int(values.max())
