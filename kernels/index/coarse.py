"""Coarse codes: two bytes for each bound, which judge first.

A bound's code is its place on a grid of 65,535 steps. Places never decrease where values increase, so
`low <= v` implies that the code of low is at most that of v, and every test of codes holds where the
test of the bounds does: like a block's, a coarse container's outcomes hold all those of its own. What
codes cannot settle is judged on the bounds. The grid spans nearly all bounds of a sample; those beyond
it have its first and last places, so a few extreme ones cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.node import Op
from skipstone.kernels.pack.narrow import clamp
from skipstone.kernels.run import pool

if TYPE_CHECKING:
    from skipstone.kernels.pack.bounds import Lanes
    from skipstone.kernels.pack.columns import Column

LANE: Final = "uint16"
LAST: Final = (1 << 16) - 2  # a rank may be one more
SAMPLE: Final = 1 << 14  # bounds of each side that the grid is fitted to
PART: Final = 1 << 16  # containers that one task of the pool encodes
Places = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Places of the bounds of a column, even steps from `base` on.

    Attributes:
        of: The column, without its arrays.
        base: The value, or the code, at place 0.
        shift: Steps of integers are 2 ** shift.
        scale: Places for each unit of floats.
    """

    of: Column
    base: int | float
    shift: int = 0
    scale: float = 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of its own: none."""
        return 0

    def end(self, high: bool) -> int:
        """The place of an unknown bound."""
        return LAST if high else 0

    def place(self, value: int | float) -> int:
        """The place of one value of the lane's kind, however large."""
        if isinstance(self.base, int):
            return max(0, min((int(value) - self.base) >> self.shift, LAST))
        return int(self.places(np.array([value], self.of.lane))[0])

    def places(self, values: Lanes) -> Places:
        """The places of lanes."""
        if isinstance(self.base, float):
            with np.errstate(over="ignore"):
                # Each step rounds, and none of them reverses an order.
                return np.asarray(
                    np.clip((values.astype(np.float64) - self.base) * self.scale, 0, LAST),
                    np.uint16,
                )
        if values.dtype.itemsize < 8:
            return np.asarray(
                np.clip((values.astype(np.int64) - self.base) >> self.shift, 0, LAST), np.uint16
            )
        top = min(self.base + ((LAST + 1) << self.shift) - 1, int(np.iinfo(values.dtype).max))  # type: ignore[type-var]
        clipped = np.clip(values, values.dtype.type(self.base), values.dtype.type(top))
        # The difference may exceed the lane; as unsigned words it is right.
        base = np.array(self.base, values.dtype).view(np.uint64)
        steps = (clipped.view(np.uint64) - base) >> np.uint64(self.shift)
        return np.asarray(np.minimum(steps, LAST), np.uint16)

    def rank(self, op: Op, axis: Any, *, certain: bool = False) -> int:
        """A comparison with a value, on places: LT and LE are place < rank, GE and GT place >= rank.

        It holds wherever that of the bounds does; if it is to be certain, nowhere else.
        """
        below = op in (Op.LT, Op.LE)
        if not isinstance(self.base, int):
            # Of two values at one place nothing is known but that the one may be either side of the other.
            return self.place(axis) + (below is not certain)
        if self.of.codes is not None:
            axis = self.of.codes.rank(op, axis)
            least = axis  # the least code that is not below, or the least that is no less
        else:
            if self.of.narrowed:
                axis = clamp(op, axis, self.of.dtype, self.of.lane)
            least = axis + (op in (Op.LE, Op.GT))
        # Below is bound < least, the others are bound >= least: of integers, bound > least - 1.
        return self.place(least - (below is not certain)) + (below is not certain)

    def runs(self, values: tuple[object, ...]) -> tuple[Places, Places]:
        """Ascending values as runs of places (kernels/pack/keys.py)."""
        if self.of.codes is not None:
            firsts, lasts = (self.places(codes) for codes in self.of.codes.runs(values))
        else:
            lanes = np.asarray(values, self.of.dtype.lane)
            if self.of.narrowed:
                lanes = lanes.clip(self.of.end(high=False), self.of.end(high=True))
            firsts = lasts = self.places(lanes.astype(self.of.lane))
        apart = firsts[1:] > lasts[:-1]
        return firsts[np.append(True, apart)], lasts[np.append(apart, True)]


def fitted(c: Column) -> Grid | None:
    """A grid for a column's bounds; None where places would not be narrower, or would tell nothing."""
    lanes = [b for b in (c.low, c.high) if b is not None]
    if not lanes or lanes[0].dtype.itemsize <= 2:
        return None
    sampled = np.concatenate([b[:: max(len(b) // SAMPLE, 1)] for b in lanes])
    known = np.sort(sampled[(sampled != c.end(high=False)) & (sampled != c.end(high=True))])
    if not len(known):
        return None
    # One in a thousand may lie beyond each end.
    base, top = known[len(known) // 1000].item(), known[-1 - len(known) // 1000].item()
    bare = replace(c, low=None, high=None, real=True, nulls=True, nans=True, lost=False)
    if isinstance(base, int):
        return Grid(bare, base, shift=max((top - base).bit_length() - 16, 0))
    half = top / 2 - base / 2  # the whole may exceed the type
    return Grid(bare, base, scale=min(LAST / 2 / half, 1e300) if half > 0 else 1.0)


def encoded(values: Lanes, grid: Grid) -> Places:
    """The places of all containers' bounds."""
    out = np.empty(len(values), np.uint16)

    def work(first: int, stop: int) -> None:
        out[first:stop] = grid.places(values[first:stop])

    pool.run_chunks(work, len(values), PART)
    return out
