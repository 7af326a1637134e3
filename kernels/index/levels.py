"""Levels: a block of containers is itself a container, with statistics derived from its containers.

A block may hold anything that one of its containers may hold. Its bounds are the least and the
greatest of their bounds. Containers without rows, or with no values but NULL and NaN, do not widen
them. Any outcome that is impossible for a block is impossible for each of its containers, so NEVER
and ALWAYS of a block settle them. A container without rows is NEVER anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.lower import Program
from skipstone.ir.node import Path
from skipstone.ir.types import DType
from skipstone.kernels.index.blocks import Blocks, Positions
from skipstone.kernels.index.coarse import PLACE_TYPE, encoded, fitted
from skipstone.kernels.pack.bounds import BoundArray
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import Mask, Plane, both_of, plane_of, unpack, word_count
from skipstone.kernels.run import pool
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.prepare import prepare

PART: Final = 1 << 18  # containers of a task of the pool


class Level(Packed):
    """Statistics of blocks, each a group of another source's containers; computed at first use."""

    def __init__(self, finer: Packed, blocks: Blocks) -> None:
        super().__init__(finer.files)
        self.finer, self.blocks = finer, blocks

    @property
    def num_containers(self) -> int:
        """The number of blocks."""
        return self.blocks.count

    @property
    def bounds_elements(self) -> bool:
        """True if `column` knows the elements of arrays, and the keys and values of maps."""
        return self.finer.bounds_elements

    def pack(self, path: Path, dtype: DType) -> Column:
        """Return the statistics of a column in each block."""
        return summary(self.finer.column(path, dtype), self.finer.rows_plane(), self.blocks)

    def pack_rows(self) -> Plane:
        """Return the plane of blocks that may hold rows."""
        return any_of(self.finer.rows_plane(), self.blocks)


class Coarse(Packed):
    """The containers of another source with bounds of two bytes, where these are narrower.

    kernels/index/coarse.py explains the codes.
    """

    def __init__(self, full: Packed) -> None:
        super().__init__(full.files)
        self.full = full

    @property
    def num_containers(self) -> int:
        """The number of containers of the source."""
        return self.full.num_containers

    @property
    def bounds_elements(self) -> bool:
        """True if `column` knows the elements of arrays, and the keys and values of maps."""
        return self.full.bounds_elements

    def pack(self, path: Path, dtype: DType) -> Column:
        """Return a column whose bounds are places on a grid."""
        column = self.full.column(path, dtype)
        grid = fitted(column)
        if grid is None:
            return column
        low, high = (None if b is None else encoded(b, grid) for b in (column.low, column.high))
        return replace(column, numpy_type=PLACE_TYPE, low=low, high=high, codes=grid)

    def pack_rows(self) -> Plane:
        """Return the source's plane of containers that may hold rows."""
        return self.full.rows_plane()

    def prepared(self, program: Program) -> Launch:
        """Return the program's launch, with the root "can match with full bounds" added."""
        return prepare(program, self, self.peek, definite=True)


def levels_over(leaf: Packed, grouped: list[Blocks], fan: int) -> tuple[Level, ...]:
    """Return levels over a source, coarsest first.

    The first are grouped as given. Above them, each level has blocks of `fan`, until few remain.
    """
    levels: list[Level] = []
    for blocks in grouped:
        levels.insert(0, Level(levels[0] if levels else leaf, blocks))
    while (below := levels[0] if levels else leaf).num_containers > 2 * fan:
        levels.insert(0, Level(below, Blocks(below.num_containers, fan)))
    return tuple(levels)


def summary(c: Column, rows: Plane, blocks: Blocks) -> Column:
    """Return a column's statistics in blocks of containers."""
    has_value = both_of(c.may_hold_value, rows)
    may_hold_value = any_of(has_value, blocks)
    low = (
        None
        if c.low is None
        else _ends(c.low, has_value, blocks, np.minimum, _last(c.low.dtype, 1))
    )
    if c.high is None:
        high = None
    else:
        high = _ends(c.high, has_value, blocks, np.maximum, _last(c.high.dtype, -1))
    if not isinstance(may_hold_value, bool) or not may_hold_value:
        # The bounds of blocks without any value are unknown.
        none = ~_bits(may_hold_value, 0, blocks.count)
        for bounds, is_high in ((low, False), (high, True)):
            if bounds is not None:
                bounds[none] = c.end(is_high)
    return replace(
        c,
        low=low,
        high=high,
        may_hold_value=may_hold_value,
        may_hold_null=any_of(both_of(c.may_hold_null, rows), blocks),
        may_hold_nan=any_of(both_of(c.may_hold_nan, rows), blocks),
        may_raise=False,
    )


def any_of(plane: Plane, blocks: Blocks) -> Plane:
    """Return the plane of blocks in which a plane holds for any container."""
    if isinstance(plane, bool):
        return plane
    if blocks.whole_words:
        starts = np.arange(0, len(plane), (blocks.size or 1) // 64)
        return plane_of(np.bitwise_or.reduceat(plane, starts) != 0)
    found = np.empty(blocks.count, np.bool_)

    def work(b: int, e: int, start: int, stop: int, at: Positions) -> None:
        found[b:e] = np.logical_or.reduceat(_bits(plane, start, stop), at)

    _by_parts(blocks, work)
    return plane_of(found)


def _ends(
    values: BoundArray, has_value: Plane, blocks: Blocks, reduce: np.ufunc, neutral: float | int
) -> BoundArray:
    """Return the least or greatest bound in each block, of containers that hold values."""
    out = np.empty(blocks.count, values.dtype)

    def work(b: int, e: int, start: int, stop: int, at: Positions) -> None:
        part: npt.NDArray[Any] = values[start:stop]
        if not isinstance(has_value, bool) or not has_value:
            part = np.where(_bits(has_value, start, stop), part, values.dtype.type(neutral))
        out[b:e] = reduce.reduceat(part, at)

    _by_parts(blocks, work)
    return out


def _by_parts(blocks: Blocks, work: Callable[[int, int, int, int, Positions], None]) -> None:
    """Call `work` in the thread pool for parts of the blocks.

    Its arguments are: the first block and the end of the blocks, the first container and the end of
    the containers, and the starts of the blocks among these containers.
    """
    parts = blocks.parts(PART)

    def some(first: int, stop: int) -> None:
        for p in range(first, stop):
            b, e = int(parts[p]), int(parts[p + 1])
            edges = blocks.edges(np.arange(b, e + 1))
            work(b, e, int(edges[0]), int(edges[-1]), edges[:-1] - edges[0])

    pool.run_chunks(some, len(parts) - 1, 1)


def _bits(plane: Plane, start: int, stop: int) -> Mask:
    if isinstance(plane, bool):
        return np.full(stop - start, plane)
    first = start // 64
    return unpack(plane[first : word_count(stop)], stop - first * 64)[start - first * 64 :]


def _last(numpy_type: np.dtype[Any], sign: int) -> float | int:
    """Return the greatest value of a type, or the least."""
    if numpy_type.kind == "f":
        return sign * np.inf
    return int(np.iinfo(numpy_type).max if sign > 0 else np.iinfo(numpy_type).min)
