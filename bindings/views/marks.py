"""Aggregate containers into marks, each for one or many of them, and compute overlap depth.

No loop runs over containers in Python, so that a million of them take about a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.views.axis import Positions

LEVELS: Final = 12  # the finest grid has 2**LEVELS cells along an axis
MAX_EXACT: Final = 100_000  # ends among which the distinct ones are looked for
SAMPLE: Final = 100_000  # containers that are sampled to choose grids
MAX_SEGMENTS: Final = 600  # segments of the curve that shows the depth


@dataclass(frozen=True, slots=True)
class Marks:
    """Groups of containers that are drawn as one mark each.

    Attributes:
        order: Positions of the containers, mark after mark, in table order within each.
        starts: Where each mark starts in `order`; ascending.
    """

    order: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def counts(self) -> Ints:
        """The number of containers of each mark."""
        return np.diff(self.starts, append=len(self.order))

    @property
    def first(self) -> Ints:
        """The first container of each mark, in table order."""
        return self.order[self.starts]

    def least(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the least value among each mark's containers; `values` has one per container."""
        return np.minimum.reduceat(values[self.order], self.starts) if len(self) else values[:0]

    def most(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the greatest value among each mark's containers."""
        return np.maximum.reduceat(values[self.order], self.starts) if len(self) else values[:0]

    def at_least(self, values: npt.NDArray[Any]) -> Ints:
        """Return a container of each mark that has its least value, the first of them."""
        return self._extreme(values, self.least(values))

    def at_most(self, values: npt.NDArray[Any]) -> Ints:
        """Return a container of each mark that has its greatest value, the first of them."""
        return self._extreme(values, self.most(values))

    def _extreme(self, values: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> Ints:
        hits = np.flatnonzero(values[self.order] == np.repeat(wanted, self.counts))
        owner = np.searchsorted(self.starts, hits, "right") - 1
        return self.order[hits[np.unique(owner, return_index=True)[1]]]


def marks_of(
    at: Ints, group: npt.NDArray[np.uint8], ends: Sequence[Positions], limit: int
) -> Marks:
    """Group containers whose ends lie in the same cells of a grid, and that share a group.

    The grid's lines are quantiles of the ends, so cells are narrow where many containers lie. It is
    the finest one, of up to 2**LEVELS cells along each axis, that gives at most `limit` marks,
    unless even two cells along each axis give more.

    Args:
        at: The containers to draw, ascending.
        group: The group of each of these.
        ends: Arrays of positions of these containers: low and high of one column, or of several.
        limit: The largest number of marks. Up to this many containers get one mark each.
    """
    if len(at) <= limit:
        order = np.lexsort([*reversed(ends)]) if len(at) else at
        return Marks(at[order], np.arange(len(at), dtype=np.int64))
    cells = [
        _cells(end, lines)
        for k in range(0, len(ends), 2)
        for lines in [_lines(ends[k], ends[k + 1])]
        for end in ends[k : k + 2]
    ]
    # A sample finds the finest grid that may do; all containers decide.
    few = [cell[:: 1 + len(at) // SAMPLE] for cell in cells]
    some = group[:: 1 + len(at) // SAMPLE]
    level = 1
    while level < LEVELS and _distinct(_keys(few, some, level + 1)) <= limit:
        level += 1
    keys = _keys(cells, group, level)
    while level > 1 and _distinct(keys) > limit:
        level -= 1
        keys = _keys(cells, group, level)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    return Marks(at[order], starts.astype(np.int64))


def _keys(cells: Sequence[Ints], group: npt.NDArray[np.uint8], level: int) -> Ints:
    """Return one number for each container's cells and group, on a grid of 2**level cells."""
    keys = np.zeros(len(group), np.int64)
    for cell in cells:  # at most four, of 13 bits each
        # The first and the last cell hold infinite ends, and stay apart on every grid.
        coarse = ((cell - 1) >> (LEVELS - level)) + 1
        coarse[cell == 0], coarse[cell == _LAST] = 0, 2**level + 1
        keys = (keys << (level + 1)) | coarse
    return (keys << 8) | group


def _distinct(keys: Ints) -> int:
    ordered = np.sort(keys)
    return 1 + int((ordered[1:] != ordered[:-1]).sum())


_LAST: Final = 2**LEVELS + 1  # the cell of positive infinity


def _lines(low: Positions, high: Positions) -> Positions:
    """Return the lines of the finest grid: quantiles of finite ends, of a sample if many."""
    ends = np.concatenate([end[:: 1 + len(end) // SAMPLE] for end in (low, high)])
    ends = np.sort(ends[np.isfinite(ends)])
    if not len(ends):
        return ends
    return ends[np.linspace(0, len(ends) - 1, 2**LEVELS).astype(np.int64)]


def _cells(end: Positions, lines: Positions) -> Ints:
    """Return the cell of each end: from 1 to 2**LEVELS, 0 for -Infinity, `_LAST` for Infinity."""
    cells = np.searchsorted(lines, end, "right").astype(np.int64)
    cells = np.clip(cells, 1, 2**LEVELS)
    cells[end == -np.inf], cells[end == np.inf] = 0, _LAST
    return cells


@dataclass(frozen=True, slots=True)
class Depth:
    """How many ranges overlap, along an axis.

    Attributes:
        start, end: The segments, shape (segments,): ascending, without overlap. Of up to a few
            hundred ranges they are exact, and a segment may be a single point.
        counts: int64, shape (segments, groups): the ranges of each group that hold one point of the
            segment: a point where most ranges overlap.
    """

    start: Positions
    end: Positions
    counts: Ints


def depth_of(
    low: Positions,
    high: Positions,
    group: npt.NDArray[np.uint8],
    groups: int,
    *,
    ranks: bool = False,
) -> Depth:
    """Count the overlapping ranges along an axis.

    Args:
        low, high: The closed ranges; an end may be infinite.
        group: The group of each range.
        groups: The number of groups.
        ranks: Whether positions are ranks: whole numbers, with nothing between them. A segment
            then reaches from half a rank before its first to half a rank behind its last.
    """
    lows, highs = np.sort(low), np.sort(high)
    finite = [ends[np.isfinite(ends)] for ends in (lows, highs)]
    size = sum(map(len, finite))
    if not size:
        return Depth(lows[:0], lows[:0], np.zeros((0, groups), np.int64))
    points = np.unique(np.concatenate(finite)) if ranks or size < MAX_EXACT else None
    if points is not None and ranks and points[-1] - points[0] < MAX_SEGMENTS:
        sample = np.arange(points[0], points[-1] + 1)
        start, end = sample - 0.5, sample + 0.5
    elif points is not None and not ranks and len(points) * 2 <= MAX_SEGMENTS:
        start, end = _exact_segments(points)
        sample = (start + end) / 2
    else:
        start, end = _bins(finite)
        sample = _deepest(lows, highs, start)
    counts = np.zeros((len(sample), groups), np.int64)
    for g in range(groups):
        own = group == g
        counts[:, g] = np.searchsorted(np.sort(low[own]), sample, "right") - np.searchsorted(
            np.sort(high[own]), sample, "left"
        )
    keep = np.ones(len(start), np.bool_)
    keep[1:] = (counts[1:] != counts[:-1]).any(1)
    at = np.flatnonzero(keep)
    return Depth(start[at], end[np.append(at[1:], len(end)) - 1], counts[at])


def _exact_segments(points: Positions) -> tuple[Positions, Positions]:
    """Return the points, and the open segments between them, in order."""
    start = np.empty(2 * len(points) - 1)
    end = np.empty_like(start)
    start[0::2] = end[0::2] = points
    start[1::2], end[1::2] = points[:-1], points[1:]
    # Between neighbouring floats there is no point.
    middle = (start + end) / 2
    real = (start == end) | ((middle > start) & (middle < end))
    return start[real], end[real]


def _bins(finite: list[Positions]) -> tuple[Positions, Positions]:
    """Return bins: half of their edges lie evenly, half where many ranges end.

    Args:
        finite: The finite lows and the finite highs, ascending; one of them may be empty.
    """
    ends = [e for e in finite if len(e)]
    low, high = min(float(e[0]) for e in ends), max(float(e[-1]) for e in ends)
    dense = [e[np.linspace(0, len(e) - 1, MAX_SEGMENTS // 4).astype(np.int64)] for e in ends]
    edges = np.unique(np.concatenate([np.linspace(low, high, MAX_SEGMENTS // 2), *dense]))
    return (edges[:-1], edges[1:]) if len(edges) > 1 else (edges, edges)


def _deepest(lows: Positions, highs: Positions, start: Positions) -> Positions:
    """Return for each bin a point where most ranges overlap: its start, or where one begins."""
    sample = start.copy()
    best = np.searchsorted(lows, start, "right") - np.searchsorted(highs, start, "left")
    # The lows of bin k lie from edges[k] to edges[k + 1]; the last bin has no end.
    edges = np.append(np.searchsorted(lows, start, "left"), np.searchsorted(lows, np.inf, "left"))
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    within = lows[edges[0] : edges[-1]]
    if not len(within):
        return sample
    depth = np.searchsorted(lows, within, "right") - np.searchsorted(highs, within, "left")
    most = np.maximum.reduceat(depth, edges[filled] - edges[0])
    hits = np.flatnonzero(depth == np.repeat(most, edges[filled + 1] - edges[filled]))
    owner = np.searchsorted(edges[filled] - edges[0], hits, "right") - 1
    first = hits[np.unique(owner, return_index=True)[1]]
    deeper = most > best[filled]
    sample[filled[deeper]] = within[first[deeper]]
    return sample


def cover_of(
    cells: Sequence[Ints], group: npt.NDArray[np.uint8], shape: tuple[int, int, int]
) -> Ints:
    """Count for each cell of a grid the rectangles that cover it.

    Args:
        cells: The first and last cell along x, and the first and last along y, of each rectangle.
        group: The group of each rectangle.
        shape: The number of groups, of cells along y, and of cells along x.

    Returns:
        int64, of that shape.
    """
    groups, height, width = shape
    x1, x2, y1, y2 = cells
    size = groups * (height + 1) * (width + 1)

    def corners(y: Ints, x: Ints) -> Ints:
        flat = (group.astype(np.int64) * (height + 1) + y) * (width + 1) + x
        return np.bincount(flat, minlength=size)

    # Each corner changes the count of all cells beyond it.
    change = corners(y1, x1) - corners(y1, x2 + 1) - corners(y2 + 1, x1) + corners(y2 + 1, x2 + 1)
    counts = change.reshape(groups, height + 1, width + 1).cumsum(1).cumsum(2)
    return counts[:, :height, :width]


def cells_of(positions: Positions, low: float, high: float, cells: int) -> Ints:
    """Return the cell of each position, of `cells` even ones from low to high; ends are clipped."""
    part = np.clip((positions - low) / (high - low), 0, 1) * cells
    return np.minimum(part.astype(np.int64), cells - 1)


def strip_of(verdicts: npt.NDArray[np.uint8], bins: int) -> tuple[Ints, Ints]:
    """Count NEVER and ALWAYS among neighbouring containers.

    Args:
        verdicts: Verdicts in table order, shape (n,).
        bins: How many bins there are; at most n.

    Returns:
        Two int64 arrays of shape (bins,): how often NEVER and ALWAYS occur in each.
    """
    starts = bin_starts(len(verdicts), bins)
    if not len(starts):
        return starts, starts
    never, always = (np.add.reduceat((verdicts == v).astype(np.int64), starts) for v in (0, 2))
    return never, always


def bin_starts(n: int, bins: int) -> Ints:
    """Return where each of several bins of n containers starts."""
    bins = min(n, bins)
    return (np.arange(bins, dtype=np.int64) * n) // max(bins, 1)
