"""Points in boxes: which boxes hold any of many points; what join keys of several columns are to containers with bounds.

Points become a tree: halved by their median, by one dimension after the other, down to leaves of a few, each node with the
box around its points. A box asks from the root: a node that lies apart is left, one that lies within settles the box, and
others hand the question on to their halves. All boxes go down the levels together, in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
LEAF: Final = 8  # points
AT_ONCE: Final = 1 << 15  # boxes that go down together
PAIRS: Final = 1 << 21  # of box and node, from which on a part of the boxes goes down first


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Points of shape (leaves * LEAF, d), the last repeated, and per level, root first, the least and greatest corner of each node, shape (2**level, d)."""

    points: Points
    least: tuple[Points, ...]
    most: tuple[Points, ...]


def tree_of(points: Points) -> Tree:
    """A tree over points of shape (m, d), m > 0."""
    m, d = points.shape
    depth = max(0, int(np.ceil(np.log2(m / LEAF)))) if m > LEAF else 0
    size = LEAF << depth
    # Repeated points change nothing, and make all halves equal.
    order = np.concatenate([np.arange(m), np.full(size - m, m - 1)])
    for level in range(depth):
        # Each part of this level sorted by one dimension, so that its halves lie on both sides of the median.
        part = np.repeat(np.arange(1 << level), size >> level)
        order = order[np.lexsort((points[order, level % d], part))]
    leaves = points[order]
    least, most = [leaves.reshape(-1, LEAF, d).min(axis=1)], [leaves.reshape(-1, LEAF, d).max(axis=1)]
    for _ in range(depth):
        least.append(least[-1].reshape(-1, 2, d).min(axis=1))
        most.append(most[-1].reshape(-1, 2, d).max(axis=1))
    return Tree(leaves, tuple(least[::-1]), tuple(most[::-1]))


def any_inside(tree: Tree, low: Points, high: Points) -> Mask:
    """Which boxes hold a point.

    Args:
        tree: The points.
        low, high: Corners of n boxes, both within, shape (n, d); a box whose corners are out of order is empty.

    Returns:
        bool array, shape (n,), host memory.

    Example:
        >>> tree = tree_of(np.array([[1, 10], [2, 20]]))
        >>> any_inside(tree, np.array([[1, 15], [1, 10]]), np.array([[1, 30], [2, 12]])).tolist()
        [False, True]
    """
    out = np.zeros(len(low), np.bool_)
    for first in range(0, len(low), AT_ONCE):
        stop = min(first + AT_ONCE, len(low))
        _go_down(tree, low, high, np.arange(first, stop), np.zeros(stop - first, np.int64), 0, out)
    return out


def _go_down(tree: Tree, low: Points, high: Points, box: npt.NDArray[np.int64], node: npt.NDArray[np.int64], level: int, out: Mask) -> None:
    """Settle pairs of box and node of a level; `out` gets what is found."""
    depth = len(tree.least) - 1
    while len(box):
        if len(box) > PAIRS:
            half = len(box) // 2
            _go_down(tree, low, high, box[:half], node[:half], level, out)
            box, node = box[half:], node[half:]
            open_ = ~out[box]
            box, node = box[open_], node[open_]
            continue
        a, b, least, most = low[box], high[box], tree.least[level][node], tree.most[level][node]
        meets = ((a <= most) & (least <= b)).all(axis=1)
        inside = meets & ((a <= least) & (most <= b)).all(axis=1)
        out[box[inside]] = True
        left = meets & ~out[box]
        box, node = box[left], node[left]
        if level == depth:
            points = tree.points.reshape(-1, LEAF, low.shape[1])[node]
            found = ((low[box][:, None] <= points) & (points <= high[box][:, None])).all(axis=2).any(axis=1)
            out[box[found]] = True
            return
        box, node = np.repeat(box, 2), np.repeat(node * 2, 2)
        node[1::2] += 1
        level += 1
