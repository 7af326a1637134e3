"""Coarse codes: two bytes for each bound, which are judged first.

The code of a bound is its place on a grid of 65,535 steps. Places never decrease as values
increase, so `low <= v` implies that the code of low is at most the code of v. Every test of codes
therefore holds where the test of the bounds does: the outcomes of a coarse container include all of
its own outcomes, like those of a block. Containers that codes cannot settle are judged by their
bounds. The grid spans nearly all bounds of a sample. Bounds beyond it get its first and last
places, so a few extreme values cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.node import Op
from skipstone.kernels.pack.narrow import clamp
from skipstone.kernels.run import pool

if TYPE_CHECKING:
    from skipstone.kernels.pack.bounds import BoundArray
    from skipstone.kernels.pack.columns import Column

PLACE_TYPE: Final = "uint16"
LAST: Final = (1 << 16) - 2  # a rank may be greater by one
SAMPLE: Final = 1 << 14  # sampled bounds of each side
PART: Final = 1 << 16  # containers of a task of the pool
Places = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Places for the bounds of a column, in even steps from `base` on.

    Attributes:
        of: The column without its arrays.
        base: The value or code at place 0.
        shift: Steps of integers are 2 ** shift.
        scale: The places per unit, for floats.
    """

    of: Column
    base: int | float
    shift: int = 0
    scale: float = 1.0

    @property
    def nbytes(self) -> int:
        """Always 0: a grid has no arrays."""
        return 0

    def end(self, high: bool) -> int:
        """Return the place of an unknown bound."""
        return LAST if high else 0

    def place(self, value: int | float) -> int:
        """Return the place of one value, of any size."""
        if isinstance(self.base, int):
            return max(0, min((int(value) - self.base) >> self.shift, LAST))
        return int(self.places(np.array([value], self.of.numpy_type))[0])

    def places(self, values: BoundArray) -> Places:
        """Return the places of values."""
        if isinstance(self.base, float):
            with np.errstate(over="ignore"):
                # Each step rounds, and keeps the order.
                return np.asarray(
                    np.clip((values.astype(np.float64) - self.base) * self.scale, 0, LAST),
                    np.uint16,
                )
        if values.dtype.itemsize < 8:
            return np.asarray(
                np.clip((values.astype(np.int64) - self.base) >> self.shift, 0, LAST), np.uint16
            )
        largest = int(np.iinfo(values.dtype).max)  # type: ignore[type-var]
        top = min(self.base + ((LAST + 1) << self.shift) - 1, largest)
        clipped = np.clip(values, values.dtype.type(self.base), values.dtype.type(top))
        # The difference may exceed the signed type, and is right as an unsigned word.
        base = np.array(self.base, values.dtype).view(np.uint64)
        steps = (clipped.view(np.uint64) - base) >> np.uint64(self.shift)
        return np.asarray(np.minimum(steps, LAST), np.uint16)

    def rank(self, op: Op, axis: Any, *, definite: bool = False) -> int:
        """Return the place that replaces a value in a comparison.

        LT and LE become place < rank, GE and GT become place >= rank. The comparison of places
        holds wherever that of the bounds does; with `definite`, it holds only there.
        """
        below = op in (Op.LT, Op.LE)
        if not isinstance(self.base, int):
            # Two values with the same place may compare either way.
            return self.place(axis) + (below is not definite)
        if self.of.codes is not None:
            axis = self.of.codes.rank(op, axis)
            # The least code that is not below the value, or the least that is above it.
            least = axis
        else:
            if self.of.narrowed:
                axis = clamp(op, axis, self.of.dtype, self.of.numpy_type)
            least = axis + (op in (Op.LE, Op.GT))
        # LT and LE are bound < least. The others are bound >= least; for integers, bound > least -
        # 1.
        return self.place(least - (below is not definite)) + (below is not definite)

    def runs(self, values: tuple[object, ...]) -> tuple[Places, Places]:
        """Return ascending values as runs of places (kernels/pack/keys.py)."""
        if self.of.codes is not None:
            firsts, lasts = (self.places(codes) for codes in self.of.codes.runs(values))
        else:
            points = np.asarray(values, self.of.dtype.numpy_type)
            if self.of.narrowed:
                points = points.clip(self.of.end(high=False), self.of.end(high=True))
            firsts = lasts = self.places(points.astype(self.of.numpy_type))
        apart = firsts[1:] > lasts[:-1]
        return firsts[np.append(True, apart)], lasts[np.append(apart, True)]


def fitted(c: Column) -> Grid | None:
    """Return a grid for a column's bounds.

    None: places would not be narrower, or they would decide nothing.
    """
    sides = [b for b in (c.low, c.high) if b is not None]
    if not sides or sides[0].dtype.itemsize <= 2:
        return None
    sampled = np.concatenate([b[:: max(len(b) // SAMPLE, 1)] for b in sides])
    known = np.sort(sampled[(sampled != c.end(high=False)) & (sampled != c.end(high=True))])
    if not len(known):
        return None
    # One bound in a thousand may lie beyond each end.
    base, top = known[len(known) // 1000].item(), known[-1 - len(known) // 1000].item()
    of = c.without_arrays()
    if isinstance(base, int):
        return Grid(of, base, shift=max((top - base).bit_length() - 16, 0))
    half = top / 2 - base / 2  # the full difference may exceed the type
    return Grid(of, base, scale=min(LAST / 2 / half, 1e300) if half > 0 else 1.0)


def encoded(values: BoundArray, grid: Grid) -> Places:
    """Return the places of all containers' bounds."""
    out = np.empty(len(values), np.uint16)

    def work(first: int, stop: int) -> None:
        out[first:stop] = grid.places(values[first:stop])

    pool.run_chunks(work, len(values), PART)
    return out
