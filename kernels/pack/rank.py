"""Where the bounds of containers stand among ascending values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.pack.columns import Column
from skipstone.kernels.run.pool import run_chunks

Positions = npt.NDArray[np.int64]
CHUNK: Final = 1 << 16  # bounds that one thread looks for at a time


def places_of(column: Column, values: list[Any], at: Positions) -> tuple[Positions, Positions]:
    """How many values lie below the lower bound of each container, and how many at the upper bound or below.

    Args:
        column: Packed statistics.
        values: Axis values of the column's type, ascending, neither NULL nor NaN.
        at: Which containers, shape (n,).

    Returns:
        Two int64 arrays, shape (n,), host memory: so the values from the first to the second place lie between the bounds.
        0 and all where a bound is not known.
    """
    if column.codes is not None:
        first, last = column.codes.runs(
            tuple(values)
        )  # a value between two codes is a run that ends before it starts
        lefts, rights = first, last + np.int32(1)
    else:
        lefts = rights = np.asarray(values, column.dtype.lane)
    low, high = np.zeros(len(at), np.int64), np.full(len(at), len(values), np.int64)
    for out, lanes, upper in ((low, column.low, False), (high, column.high, True)):
        known = column.known(upper)
        if lanes is None or known is None:
            continue
        bound, known = lanes[at], known[at]
        if (
            column.codes is not None
        ):  # of values below a code, all bounds up to them come before it; of those up to it, all below them
            found = _search(lefts if upper else rights, bound, right=True)
        else:
            found = _search(lefts, bound.astype(lefts.dtype, copy=False), right=upper)
        np.copyto(out, found, where=known)
    return low, high


def _search(ascending: npt.NDArray[Any], wanted: npt.NDArray[Any], *, right: bool) -> Positions:
    """`numpy.searchsorted`, in the pool."""
    out = np.empty(len(wanted), np.int64)

    def find(first: int, stop: int) -> None:
        out[first:stop] = np.searchsorted(
            ascending, wanted[first:stop], "right" if right else "left"
        )

    run_chunks(find, len(wanted), CHUNK)
    return out
