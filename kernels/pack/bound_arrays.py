"""Pack the bounds of all containers into the arrays that kernels compare.

Chunks are read, checked and written while they are in a core's cache, so ingestion costs little
more than reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from skipstone.ir.types import DType
from skipstone.kernels.pack.bounds import BoundArray, Bounds
from skipstone.kernels.pack.narrow import CANDIDATES, end_of, narrowest, narrows
from skipstone.kernels.run import pool

# Containers of a task of the pool, a multiple of 64. A few arrays of them, 8 bytes each, stay in
# the L2 cache. In smaller chunks, threads wait for each other between NumPy's loops.
CHUNK: Final = 1 << 16
# Places where bounds are sampled before a NumPy type is chosen.
SAMPLES: Final = 8
SAMPLE: Final = 1 << 10  # containers at each place

Pair = tuple[Bounds | None, Bounds | None]  # lower and upper bounds
Read = Callable[[int, int], Pair]


def pack_bounds(
    read: Read,
    dtype: DType,
    n: int,
    given: tuple[bool, bool],
    in_place: tuple[BoundArray | None, BoundArray | None],
) -> tuple[str, BoundArray | None, BoundArray | None]:
    """Return the narrowest NumPy type that holds all bounds, and the bounds in it.

    A sample decides which type is written first. If a sweep over the chunks finds a bound that
    needs a wider type, another sweep follows.

    Args:
        read: Returns the bounds of containers [first, stop).
        dtype: The column's type, ordered and not coded.
        n: The number of containers.
        given: Two flags: there are lower bounds, there are upper bounds.
        in_place: These bounds in the column's own type. They are not copied unless they can be
            narrowed, or `read` drops some of them.

    Returns:
        The NumPy type, the lower bounds and the upper bounds; None for a side without known bounds.
    """
    if n <= CHUNK:  # one chunk, which is read once
        pair = read(0, n)
        read = lambda first, stop: pair  # noqa: E731
    numpy_type = _guess(read, dtype, n)
    # Each turn writes all bounds in `numpy_type`. It ends if that was the right type; else the next
    # turn uses the type that the bounds turned out to need.
    while True:
        # A side whose array already has the column's own type is checked, and not written again.
        stays = [array is not None and numpy_type == dtype.numpy_type for array in in_place]
        out = [
            array if stay else np.empty(n, numpy_type) if there else None
            for array, stay, there in zip(in_place, stays, given, strict=True)
        ]
        known, ends = _sweep(read, dtype, n, numpy_type, out, stays)
        if not any(known):
            return dtype.numpy_type, None, None
        fits = (
            narrowest(min(ends), max(ends), dtype) if numpy_type != dtype.numpy_type else numpy_type
        )
        dropped = [stay and count < n for stay, count in zip(stays, known, strict=True)]
        if numpy_type == fits and not any(dropped):
            low, high = (array if count else None for array, count in zip(out, known, strict=True))
            return numpy_type, low, high
        numpy_type = fits
        # Arrays from which bounds were dropped cannot stay: the next turn writes them anew.
        low, high = (None if drop else array for drop, array in zip(dropped, in_place, strict=True))
        in_place = (low, high)


def _guess(read: Read, dtype: DType, n: int) -> str:
    """Return a NumPy type that is not too wide, from a sample."""
    if not narrows(dtype):
        return dtype.numpy_type
    starts = (*range(0, n, max(n // SAMPLES, CHUNK)), max(n - SAMPLE, 0))
    ends = [end for first in starts for end in _ends(read(first, min(first + SAMPLE, n)))]
    return narrowest(min(ends), max(ends), dtype) if ends else CANDIDATES[0]


def _sweep(
    read: Read,
    dtype: DType,
    n: int,
    numpy_type: str,
    out: list[BoundArray | None],
    stays: list[bool],
) -> tuple[list[int], list[int]]:
    """Write all bounds in one type.

    Returns:
        The numbers of known lower and upper bounds; and, unless the type is the widest, values
        between which all bounds lie.
    """
    known: tuple[list[int], list[int]] = ([], [])
    ends: list[int] = []

    def work(first: int, stop: int) -> None:
        pair = read(first, stop)
        if numpy_type != dtype.numpy_type:
            ends.extend(_ends(pair))
        for high, b in enumerate(pair):
            array = out[high]
            if b is not None:
                known[high].append(
                    stop - first if b.known is None else int(np.count_nonzero(b.known))
                )
            if array is None or stays[high]:
                continue
            if b is not None and b.known is None:
                array[first:stop] = b.values
                continue
            array[first:stop] = end_of(dtype, numpy_type, high=high == 1)
            if b is not None:
                np.copyto(array[first:stop], b.values, casting="unsafe", where=b.known)

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
