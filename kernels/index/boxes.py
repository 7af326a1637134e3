"""Points in boxes: which boxes hold any of many points; what join keys of several columns are to containers with bounds.

Points become a tree: halved by their median, by one dimension after the other, down to leaves of a few, each node with the
box around its points. A box asks from the root: a node that lies apart is left, one that lies within settles the box, and
others hand the question on to their halves. A compiled loop takes one box after the other; until it is compiled, all boxes go
down the levels together, in NumPy, which takes ten times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.index import box_loops
from skipstone.kernels.run.loops import Loop, at_hand, compiled
from skipstone.kernels.run.pool import run_chunks

Points = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
SEARCH: Final = Loop(
    box_loops, "search", "i8(matrix, matrix, matrix, matrix, matrix, i8, i8, array, writable)"
)
LEAF: Final = 8  # points
MIN_TO_COMPILE: Final = 1 << 10  # boxes for which no loop is compiled
CHUNK: Final = 1 << 12  # boxes for one thread
BATCH: Final = 1 << 15  # boxes that go down together
MAX_PAIRS: Final = 1 << 21  # of box and node, from which on a part of the boxes goes down first


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Points of shape (leaves * LEAF, d), the last repeated, and the least and greatest corner of each node, shape (nodes, d).

    Nodes are numbered level by level, the root first, so those below node i are 2i + 1 and 2i + 2.
    """

    points: Points
    least: Points
    most: Points

    @property
    def depth(self) -> int:
        """How many levels there are below the root."""
        return (len(self.least) + 1).bit_length() - 2


def tree_of(points: Points) -> Tree:
    """A tree over points of shape (m, d), m > 0."""
    m, d = points.shape
    depth = max(0, (-(-m // LEAF) - 1).bit_length())
    size = LEAF << depth
    # Repeated points change nothing, and make all halves equal.
    order = np.concatenate([np.arange(m), np.full(size - m, m - 1)])
    for level in range(depth):
        # Each part of this level sorted by one dimension, so that its halves lie on both sides of the median.
        keys = points[order, level % d].reshape(1 << level, -1)
        within = np.argsort(keys, axis=1)
        order = np.take_along_axis(order.reshape(1 << level, -1), within, axis=1).reshape(-1)
    leaves = np.ascontiguousarray(points[order])
    least, most = (
        [leaves.reshape(-1, LEAF, d).min(axis=1)],
        [leaves.reshape(-1, LEAF, d).max(axis=1)],
    )
    for _ in range(depth):
        least.append(least[-1].reshape(-1, 2, d).min(axis=1))
        most.append(most[-1].reshape(-1, 2, d).max(axis=1))
    return Tree(leaves, np.concatenate(least[::-1]), np.concatenate(most[::-1]))


def any_inside(tree: Tree, low: Points, high: Points, *, compiling: bool | None = None) -> Mask:
    """Which boxes hold a point.

    Args:
        tree: The points.
        low, high: Corners of n boxes, both within, shape (n, d); a box whose corners are out of order is empty.
        compiling: Whether to wait for the compiled loop; False: do without it; None: take it if it is there.

    Returns:
        bool array, shape (n,), host memory.

    Example:
        >>> tree = tree_of(np.array([[1, 10], [2, 20]]))
        >>> any_inside(tree, np.array([[1, 15], [1, 10]]), np.array([[1, 30], [2, 12]])).tolist()
        [False, True]
    """
    n = len(low)
    out = np.zeros(n, np.bool_)
    if (n >= MIN_TO_COMPILE and at_hand(SEARCH)) if compiling is None else compiling:
        loop, low, high, found = (
            compiled(SEARCH),
            np.ascontiguousarray(low),
            np.ascontiguousarray(high),
            out.view(np.uint8),
        )

        def search(first: int, stop: int) -> None:
            loop(
                tree.points,
                tree.least,
                tree.most,
                low,
                high,
                first,
                stop,
                np.zeros(tree.depth + 3, np.int64),
                found,
            )

        run_chunks(search, n, CHUNK)
        return out
    for first in range(0, n, BATCH):
        stop = min(first + BATCH, n)
        _go_down(tree, low, high, np.arange(first, stop), np.zeros(stop - first, np.int64), 0, out)
    return out


def _go_down(
    tree: Tree, low: Points, high: Points, box: Points, node: Points, level: int, out: Mask
) -> None:
    """Settle pairs of box and node of a level; `out` gets what is found."""
    while len(box):
        if len(box) > MAX_PAIRS:
            half = len(box) // 2
            _go_down(tree, low, high, box[:half], node[:half], level, out)
            still = ~out[box[half:]]
            box, node = box[half:][still], node[half:][still]
            continue
        a, b, least, most = low[box], high[box], tree.least[node], tree.most[node]
        meets = ((a <= most) & (least <= b) & (a <= b)).all(axis=1)
        out[box[meets & ((a <= least) & (most <= b)).all(axis=1)]] = True
        left = meets & ~out[box]
        box, node = box[left], node[left]
        if level == tree.depth:
            points = tree.points.reshape(-1, LEAF, low.shape[1])[node - (len(tree.least) // 2)]
            held = ((low[box][:, None] <= points) & (points <= high[box][:, None])).all(axis=2)
            out[box[np.logical_or.reduce(held, axis=1)]] = True
            return
        box, node = np.repeat(box, 2), np.repeat(node * 2 + 1, 2)
        node[1::2] += 1
        level += 1
