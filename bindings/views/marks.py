"""Aggregation: marks, each of which stands for one or many containers, and the overlap depth.

No loop runs over containers in Python, so that a million of them take about a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.views.axis import Positions

Ints = npt.NDArray[np.int64]
LEVELS: Final = 12  # the finest grid has 2**LEVELS cells along an axis
MAX_SEGMENTS: Final = 600  # of the depth


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
        limit: The most marks wanted. Up to so many containers have a mark of their own.
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
    keys = np.stack([*cells, group.astype(np.int64)])
    ids, keys = _distinct(keys)
    for _ in range(LEVELS - 1):
        if keys.shape[1] <= limit:
            break
        keys = keys.copy()
        # 0 and the last cell are infinite ends, which stay apart.
        keys[:-1] = np.where((keys[:-1] > 0) & (keys[:-1] < _LAST), (keys[:-1] + 1) // 2, keys[:-1])
        again, keys = _distinct(keys)
        ids = again[ids]
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    return Marks(at[order], starts.astype(np.int64))


_LAST: Final = 1 << 20  # the cell of positive infinity


def _lines(low: Positions, high: Positions) -> Positions:
    """Return the lines of the finest grid: quantiles of all finite ends."""
    ends = np.concatenate([low, high])
    ends = np.sort(ends[np.isfinite(ends)])
    if not len(ends):
        return ends
    return ends[np.linspace(0, len(ends) - 1, 2**LEVELS).astype(np.int64)]


def _cells(end: Positions, lines: Positions) -> Ints:
    """Return the cell of each end: from 1 on, 0 for -Infinity, `_LAST` for Infinity."""
    cells = np.searchsorted(lines, end, "right").astype(np.int64)
    cells = np.maximum(cells, 1)
    cells[end == -np.inf], cells[end == np.inf] = 0, _LAST
    return cells


def _distinct(keys: Ints) -> tuple[Ints, Ints]:
    """Return the number of each column of `keys` among the distinct ones, and these, in order."""
    order = np.lexsort(keys[::-1])
    ordered = keys[:, order]
    new = np.ones(keys.shape[1], np.bool_)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(0)
    ids = np.empty(keys.shape[1], np.int64)
    ids[order] = np.cumsum(new) - 1
    return ids, ordered[:, new]


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
    ends = np.concatenate([lows[np.isfinite(lows)], highs[np.isfinite(highs)]])
    points = np.unique(ends)
    if not len(points):
        return Depth(points, points, np.zeros((0, groups), np.int64))
    if ranks and points[-1] - points[0] < MAX_SEGMENTS:
        sample = np.arange(points[0], points[-1] + 1)
        start, end = sample - 0.5, sample + 0.5
    elif not ranks and len(points) * 2 <= MAX_SEGMENTS:
        start, end = _exact_segments(points)
        sample = (start + end) / 2
    else:
        start, end = _bins(points)
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


def _bins(points: Positions) -> tuple[Positions, Positions]:
    """Return bins: half of their edges lie evenly, half where many ranges end."""
    half = MAX_SEGMENTS // 2
    even = np.linspace(points[0], points[-1], half)
    dense = points[np.linspace(0, len(points) - 1, half).astype(np.int64)]
    edges = np.unique(np.concatenate([even, dense]))
    return edges[:-1], edges[1:]


def _deepest(lows: Positions, highs: Positions, start: Positions) -> Positions:
    """Return for each bin a point where most ranges overlap: its start, or where one begins."""
    within = lows[lows >= start[0]]
    at = np.concatenate([start, within])
    depth = np.searchsorted(lows, at, "right") - np.searchsorted(highs, at, "left")
    owner = np.maximum(np.searchsorted(start, at, "right") - 1, 0)
    best = np.lexsort([at, -depth, owner])
    firsts = np.flatnonzero(np.diff(owner[best], prepend=-1))
    return at[best[firsts]]


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
    never, always = (
        np.add.reduceat((verdicts == v).astype(np.int64), starts) for v in (0, 2)
    )
    return never, always


def bin_starts(n: int, bins: int) -> Ints:
    """Return where each of several bins of n containers starts."""
    bins = min(n, bins)
    return (np.arange(bins, dtype=np.int64) * n) // max(bins, 1)
