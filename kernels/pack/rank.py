"""Rank the bounds of containers within a sorted array."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.pack.columns import Column
from skipstone.kernels.run.pool import run_chunks

Positions = npt.NDArray[np.int64]
CHUNK: Final = 1 << 16  # bounds that a thread searches for at a time


def ranks_of(column: Column, values: list[Any], at: Positions) -> tuple[Positions, Positions]:
    """Count the values below the lower bound of each container, and up to its upper bound.

    Args:
        column: Packed statistics.
        values: Axis values of the column's type, ascending, neither NULL nor NaN.
        at: The positions of the containers, shape (n,).

    Returns:
        Two int64 arrays, shape (n,), host memory. The values from the first to the second position
        lie between the bounds. An unknown lower bound gives 0, an unknown upper bound the number of
        values.
    """
    if column.codes is not None:
        # A value between two codes is a run that ends before it starts.
        first, last = column.codes.runs(tuple(values))
        lefts, rights = first, last + np.int32(1)
    else:
        lefts = rights = np.asarray(values, column.dtype.numpy_type)
    low, high = np.zeros(len(at), np.int64), np.full(len(at), len(values), np.int64)
    for out, bounds, upper in ((low, column.low, False), (high, column.high, True)):
        known = column.known(upper)
        if bounds is None or known is None:
            continue
        bound, known = bounds[at], known[at]
        if column.codes is not None:
            # A value is below a code if all entries up to the value come before the code. It is not
            # above the code if all entries below the value do.
            found = _search(lefts if upper else rights, bound, right=True)
        else:
            found = _search(lefts, bound.astype(lefts.dtype, copy=False), right=upper)
        np.copyto(out, found, where=known)
    return low, high


def _search(ascending: npt.NDArray[Any], wanted: npt.NDArray[Any], *, right: bool) -> Positions:
    """Call `numpy.searchsorted` in the thread pool."""
    out = np.empty(len(wanted), np.int64)

    def find(first: int, stop: int) -> None:
        out[first:stop] = np.searchsorted(
            ascending, wanted[first:stop], "right" if right else "left"
        )

    run_chunks(find, len(wanted), CHUNK)
    return out
