"""Loops over the values of rows, which Numba compiles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]


def take_low_words(words: Longs, low: Longs) -> int:
    """Copy the low words of numbers of 128 bits.

    Args:
        words: Low and high word of each number, shape (2 n,).
        low: Receives the low words, shape (n,).

    Returns:
        0 if all numbers fit into 64 bits, -1 if the sizes do not agree, else another number.
    """
    if len(words) != 2 * len(low):
        return -1
    lost = 0
    for i in range(len(low)):
        value = words[2 * i]
        low[i] = value
        lost |= words[2 * i + 1] ^ (value >> 63)
    return int(lost)
