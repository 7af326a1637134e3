"""Search a tree of points with a loop that Numba compiles.

Numba compiles the text of this module (kernels/run/loops.py).
"""

from __future__ import annotations

from typing import Any


def find_points(
    points: Any,
    least: Any,
    most: Any,
    low: Any,
    high: Any,
    first: int,
    stop: int,
    stack: Any,
    out: Any,
) -> int:
    """Set `out` to 1 for each box from `first` to `stop` that holds a point.

    The arrays are those of `boxes.Tree` and `boxes.any_inside`. Nodes are numbered level by level,
    so the children of node i are 2i + 1 and 2i + 2, and the last half of the nodes are leaves.
    """
    d, nodes = points.shape[1], least.shape[0]
    inner = nodes // 2
    leaf = points.shape[0] // (nodes - inner)
    for box in range(first, stop):
        found = 0
        stack[0], top = 0, 1
        while top > 0 and found == 0:
            top -= 1
            node = stack[top]
            meets, within = True, True
            for k in range(d):
                if (
                    low[box, k] > most[node, k]
                    or high[box, k] < least[node, k]
                    or low[box, k] > high[box, k]
                ):
                    meets = False
                    break
                if low[box, k] > least[node, k] or high[box, k] < most[node, k]:
                    within = False
            if not meets:
                continue
            if within:
                found = 1
            elif node < inner:
                stack[top], stack[top + 1] = 2 * node + 2, 2 * node + 1
                top += 2
            else:
                for row in range((node - inner) * leaf, (node - inner + 1) * leaf):
                    held = True
                    for k in range(d):
                        if points[row, k] < low[box, k] or points[row, k] > high[box, k]:
                            held = False
                            break
                    if held:
                        found = 1
                        break
        out[box] = found
    return 0
