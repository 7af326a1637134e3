"""Find the boxes that hold any of many points.

The points are join keys of several columns, and the boxes are bounds of containers.

The points become a tree. Each level halves them by the median of the next dimension, down to leaves
of a few points, and each node has the box around its points. A query box starts at the root: a node
apart from it is skipped, a node within it settles it, and any other node passes it on to its
halves. A compiled loop handles one box after the other. Until it is compiled, all boxes go down the
levels together, in NumPy, which takes ten times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.index import box_loops
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.loops import Loop, compiled, compiled_or_start
from skipstone.kernels.run.pool import run_chunks

Points = npt.NDArray[np.int64]
SEARCH: Final = Loop(
    box_loops, "find_points", "i8(matrix, matrix, matrix, matrix, matrix, i8, i8, array, writable)"
)
LEAF: Final = 8  # points
# Minimum boxes for which a loop is compiled.
MIN_TO_COMPILE: Final = 1 << 10
CHUNK: Final = 1 << 12  # boxes for one thread
BATCH: Final = 1 << 15  # boxes that go down the levels together
# Largest number of pairs of box and node that go down the levels together.
MAX_PAIRS: Final = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Points in a tree of boxes.

    Nodes are numbered level by level from the root, so the children of node i are 2i + 1 and 2i +
    2.

    Attributes:
        points: The points by leaf, shape (leaves * LEAF, d); the last point is repeated.
        least: The least corner of each node, shape (nodes, d).
        most: The greatest corner of each node, shape (nodes, d).
    """

    points: Points
    least: Points
    most: Points

    @property
    def depth(self) -> int:
        """The number of levels below the root."""
        return (len(self.least) + 1).bit_length() - 2


def tree_of(points: Points) -> Tree:
    """Return a tree of points of shape (m, d), m > 0."""
    m, d = points.shape
    depth = max(0, (-(-m // LEAF) - 1).bit_length())
    size = LEAF << depth
    # Repeated points do not change the result; they give all halves the same size.
    order = np.concatenate([np.arange(m), np.full(size - m, m - 1)])
    for level in range(depth):
        # Sorts each part of this level by one dimension, so that its halves lie on both sides of
        # the median.
        keys = points[order, level % d].reshape(1 << level, -1)
        within = np.argsort(keys, axis=1)
        order = np.take_along_axis(order.reshape(1 << level, -1), within, axis=1).reshape(-1)
    leaves = np.ascontiguousarray(points[order])
    least = [leaves.reshape(-1, LEAF, d).min(axis=1)]
    most = [leaves.reshape(-1, LEAF, d).max(axis=1)]
    for _ in range(depth):
        least.append(least[-1].reshape(-1, 2, d).min(axis=1))
        most.append(most[-1].reshape(-1, 2, d).max(axis=1))
    return Tree(leaves, np.concatenate(least[::-1]), np.concatenate(most[::-1]))


def any_inside(tree: Tree, low: Points, high: Points, *, compiling: bool | None = None) -> Mask:
    """Return the mask of boxes that hold a point.

    Args:
        tree: The points.
        low: The least corners of n boxes, inclusive, shape (n, d).
        high: Their greatest corners, inclusive, shape (n, d). A box whose corners are out of order
            is empty.
        compiling: True: wait for the compiled loop. False: do not use it. None: use it if it is
            compiled.

    Returns:
        bool array, shape (n,), host memory.

    Example:
        >>> tree = tree_of(np.array([[1, 10], [2, 20]]))
        >>> any_inside(tree, np.array([[1, 15], [1, 10]]), np.array([[1, 30], [2, 12]])).tolist()
        [False, True]
    """
    n = len(low)
    out = np.zeros(n, np.bool_)
    if (n >= MIN_TO_COMPILE and compiled_or_start(SEARCH)) if compiling is None else compiling:
        loop = compiled(SEARCH)
        low = np.ascontiguousarray(low)
        high = np.ascontiguousarray(high)
        found = out.view(np.uint8)

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
    """Settle pairs of box and node from a level on; write the results to `out`."""
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
        undecided = meets & ~out[box]
        box, node = box[undecided], node[undecided]
        if level == tree.depth:
            points = tree.points.reshape(-1, LEAF, low.shape[1])[node - (len(tree.least) // 2)]
            inside = ((low[box][:, None] <= points) & (points <= high[box][:, None])).all(axis=2)
            out[box[np.logical_or.reduce(inside, axis=1)]] = True
            return
        box, node = np.repeat(box, 2), np.repeat(node * 2 + 1, 2)
        node[1::2] += 1
        level += 1
