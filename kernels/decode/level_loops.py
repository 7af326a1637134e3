"""Count levels in pages of lists and maps with a loop that Numba compiles.

Numba compiles the text of this module (kernels/run/loops.py).

Source: Apache Parquet, "Encodings", "Run Length Encoding / Bit-Packing Hybrid".
"""

from __future__ import annotations

from typing import Any

import numpy as np


def count_zeros(data: Any, start: int, stop: int, width: int, values: int) -> int:
    """Return how many of some encoded levels are 0.

    Args:
        data: Bytes that hold the levels.
        start, stop: Where the levels begin and end; other bytes may follow the last level.
        width: The bits of a level, at least 1.
        values: The number of levels.

    Returns:
        The number; -1 if the levels are damaged, or the first one is not 0.
    """
    pos, done, zeros = start, 0, 0
    while done < values:
        head, shift, more = 0, 0, True
        while more:
            if pos >= stop or shift > 28:
                return -1
            byte: Any = np.int64(data[pos])
            head |= (byte & 127) << shift
            pos, shift, more = pos + 1, shift + 7, byte >= 128
        # A run is either groups of eight levels, or one level that is repeated.
        packed, run = head & 1 == 1, head >> 1
        count = min(8 * run if packed else run, values - done)
        bits = width if packed else (width + 7) // 8 * 8
        stored, times = (count, 1) if packed else (1, count)
        if count == 0 or (stored * bits + 7) // 8 > stop - pos:
            return -1
        for i in range(stored):
            level = 0
            for bit in range(i * bits, (i + 1) * bits):
                level |= data[pos + (bit >> 3)] >> (bit & 7) & 1
            if level == 0:
                zeros += times
            elif done + i == 0:
                return -1
        pos += run * width if packed else bits // 8
        done += count
    return zeros
