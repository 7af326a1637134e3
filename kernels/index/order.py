"""Reorder containers: by one column, or along a curve through several.

The curve keeps containers close that are close in these columns.

In a table in random order, each block spans nearly all values, so levels settle nothing. Sorted
copies of the packed statistics, with the position of each container in the table, can be searched
by levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.node import Path
from skipstone.ir.types import DType
from skipstone.kernels.pack.bounds import BoundArray
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import Plane, pack, unpack
from skipstone.kernels.run import pool
from skipstone.kernels.run.guard import Guard

BITS: Final = 12  # bits of each column's coordinate on the curve
SAMPLE: Final = 1 << 16  # sampled bounds that define the coordinates
PART: Final = 1 << 16  # containers of a task of the pool
Order = npt.NDArray[np.signedinteger[Any]]  # int32 if that suffices


class Reordered(Packed):
    """Another source's containers in another order, host memory.

    Columns are copied at first use.
    """

    def __init__(self, full: Packed, order: Order, guard: Guard | None = None) -> None:
        super().__init__(full.files)
        self.full, self._order, self._guard = full, order, guard

    @property
    def order(self) -> Order:
        """The position of each container in the source."""
        if self._guard is not None:
            self._guard.verify()
        return self._order

    @property
    def num_containers(self) -> int:
        """The number of containers of the source."""
        return len(self._order)

    @property
    def has_members(self) -> bool:
        """True if the source's `contained_in` may return an answer."""
        return self.full.has_members

    @property
    def bounds_elements(self) -> bool:
        """True if `column` knows the elements of arrays, and the keys and values of maps."""
        return self.full.bounds_elements

    def pack(self, path: Path, dtype: DType) -> Column:
        """Return the column's statistics in this order."""
        return self.full.column(path, dtype).rearranged(self._bounds, self._plane)

    def pack_rows(self) -> Plane:
        """Return the plane of containers that may hold rows, in this order."""
        return self._plane(self.full.rows_plane())

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Return the source's answer in this order."""
        answer = self.full.contained_in(path, values, dtype)
        return None if answer is None else answer.take(pa.array(self.order))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_order": self.order, "_guard": None}

    def _bounds(self, values: BoundArray) -> BoundArray:
        out, order = np.empty(len(values), values.dtype), self.order

        def work(first: int, stop: int) -> None:
            np.take(values, order[first:stop], out=out[first:stop], mode="clip")

        pool.run_chunks(work, len(values), PART)
        return out

    def _plane(self, plane: Plane) -> Plane:
        return (
            plane if isinstance(plane, bool) else pack(unpack(plane, len(self.order))[self.order])
        )


def order_of(columns: Sequence[Column], n: int) -> Order:
    """Return the positions of n containers, sorted by their lower bounds.

    With several columns they are sorted along a Hilbert curve.
    """
    sides = [c.low if c.low is not None else c.high for c in columns]
    known = [b for b in sides if b is not None]
    narrow: type[np.signedinteger[Any]] = np.int32 if n < 2**31 else np.int64
    if not known:
        return np.arange(n, dtype=narrow)
    if len(known) == 1:
        return np.argsort(known[0], kind="stable").astype(narrow)
    bits = min(BITS, 64 // len(known))
    cuts = [_cuts(b, bits) for b in known]
    key = np.empty(n, np.uint64)

    def work(first: int, stop: int) -> None:
        places = [
            np.searchsorted(c, b[first:stop], "right").astype(np.uint64)
            for c, b in zip(cuts, known, strict=True)
        ]
        key[first:stop] = hilbert(places, bits)

    pool.run_chunks(work, n, PART)
    return np.argsort(key, kind="stable").astype(narrow)


def _cuts(values: BoundArray, bits: int) -> Any:
    """Return values that cut a sample into 2 ** bits parts of equal size."""
    sampled = np.sort(values[:: max(len(values) // SAMPLE, 1)])
    return sampled[np.arange(1, 1 << bits) * len(sampled) >> bits]


def hilbert(places: list[npt.NDArray[np.uint64]], bits: int) -> npt.NDArray[np.uint64]:
    """Return the distances of points along the Hilbert curve; each coordinate has `bits` bits.

    Source: J. Skilling, Programming the Hilbert curve, 2004.
    """
    x = [p.copy() for p in places]
    one = np.uint64(1)
    for bit in range(bits - 1, 0, -1):
        q = one << np.uint64(bit)
        below = q - one
        for axis in x:
            # If the bit is set, the first coordinate's lower bits are inverted; otherwise they are
            # exchanged with those of this coordinate.
            inverted = (axis & q) != 0
            exchanged = np.where(inverted, 0, (x[0] ^ axis) & below)
            x[0] ^= np.where(inverted, below, exchanged)
            axis ^= exchanged
    for before, axis in itertools.pairwise(x):
        axis ^= before
    flips = np.zeros_like(x[0])
    for bit in range(bits - 1, 0, -1):
        q = one << np.uint64(bit)
        flips ^= np.where((x[-1] & q) != 0, q - one, 0).astype(np.uint64)
    out = np.zeros_like(x[0])
    for axis in x:
        axis ^= flips
    for bit in range(bits - 1, -1, -1):
        for axis in x:
            out = (out << one) | ((axis >> np.uint64(bit)) & one)
    return out
