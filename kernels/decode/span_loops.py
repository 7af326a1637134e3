"""Concatenate spans of bytes with a loop that Numba compiles.

Numba compiles the text of this module (kernels/run/loops.py).
"""

from __future__ import annotations

from typing import Any


def gather(data: Any, starts: Any, ends: Any, out: Any) -> int:
    """Copy spans of bytes one after the other; return the end, or -1 if a span is out of range.

    The i-th value starts at `starts[i]` in `data`, and ends at `ends[i]` in `out`.
    """
    at = 0
    for row in range(len(starts)):
        pos, size = starts[row], ends[row] - at
        if size < 0 or (size > 0 and (pos < 0 or pos > len(data) - size)) or ends[row] > len(out):
            return -1
        for i in range(size):
            out[at + i] = data[pos + i]
        at += size
    return at
