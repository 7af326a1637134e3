"""The loop that puts spans of bytes together, as a plain function: Numba compiles this very text (kernels/run/loops.py)."""

from __future__ import annotations

from typing import Any


def gather(data: Any, starts: Any, ends: Any, out: Any) -> int:
    """Bytes one after the other: those of the i-th value start at `starts[i]`, and end in `out` at `ends[i]`."""
    at = 0
    for row in range(len(starts)):
        pos, size = starts[row], ends[row] - at
        if size < 0 or (size > 0 and (pos < 0 or pos > len(data) - size)) or ends[row] > len(out):
            return -1
        for i in range(size):
            out[at + i] = data[pos + i]
        at += size
    return at
