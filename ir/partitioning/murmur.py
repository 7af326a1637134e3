"""Murmur3 for x86, 32 bits, over whole arrays: the hash of Iceberg's buckets and of Spark's `hash`.

Iceberg's seed is 0. Spark's is the hash of the columns before.

Source: Austin Appleby, `MurmurHash3_x86_32` (public domain); Iceberg's specification, appendix B;
Spark 4, `Murmur3_x86_32.java`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint32]

C1: Final = np.uint32(0xCC9E2D51)
C2: Final = np.uint32(0x1B873593)
ICEBERG: Final = np.zeros(1, np.uint32)  # the seed


def hash_ints(values: npt.NDArray[np.int64], seed: Hashes) -> Hashes:
    """Hash the lower four little-endian bytes of each value.

    Args:
        values: int64, shape (n,).
        seed: uint32, shape (n,) or (1,).

    Returns:
        uint32, shape (n,), host memory.

    Example:
        >>> hash_ints(np.array([1]), np.array([42], np.uint32)).view(np.int32).tolist()
        [-559580957]
    """
    return _finish(_mix(seed, values.astype(np.uint32)), np.uint32(4))


def hash_longs(values: npt.NDArray[np.int64], seed: Hashes = ICEBERG) -> Hashes:
    """Hash the eight little-endian bytes of each value.

    Args:
        values: int64, shape (n,).
        seed: uint32, shape (n,) or (1,).

    Returns:
        uint32, shape (n,), host memory.
    Example:
        >>> hash_longs(np.array([34])).tolist()
        [2017239379]
    """
    bits, h = values.view(np.uint64), seed
    for word in (bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)):
        h = _mix(h, word.astype(np.uint32))
    return _finish(h, np.uint32(8))


def hash_bytes(values: pa.Array, seed: Hashes = ICEBERG, *, in_spark: bool = False) -> Hashes:
    """Hash byte strings; the hash of a null is arbitrary.

    Args:
        values: Arrow `large_binary`, length n. Time grows with the total bytes and with the length
            of the longest value.
        seed: uint32, shape (n,) or (1,).
        in_spark: Hash as Spark does: each byte after the last four is a word of its own.

    Returns:
        uint32, shape (n,), host memory.
    Example:
        >>> hash_bytes(pa.array([b"iceberg"], pa.large_binary())).tolist()
        [1210000089]
    """
    n = len(values)
    h = np.broadcast_to(seed, n).copy()
    if n == 0:
        return h
    _, offsets, raw = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + n + 1]
    starts, sizes = ends[:-1], np.diff(ends)
    # Three extra bytes, so that the last word of a tail can be read whole.
    data = np.concatenate(
        [
            np.frombuffer(raw, np.uint8)[: ends[-1]] if raw is not None else np.zeros(0, np.uint8),
            np.zeros(3, np.uint8),
        ]
    )
    words = sizes // 4
    for k in range(int(words.max())):
        rows = np.flatnonzero(words > k)
        h[rows] = _mix(h[rows], _word(data, starts[rows] + 4 * k))
    if in_spark:
        for k in range(3):
            rows = np.flatnonzero(sizes % 4 > k)
            byte = data[starts[rows] + 4 * words[rows] + k].view(np.int8)
            h[rows] = _mix(h[rows], byte.astype(np.uint32))
        return _finish(h, sizes.astype(np.uint32))
    rows = np.flatnonzero(sizes % 4)
    tail = _word(data, starts[rows] + 4 * words[rows]) & (
        (np.uint32(1) << (8 * (sizes[rows] % 4)).astype(np.uint32)) - np.uint32(1)
    )
    h[rows] ^= _scramble(tail)
    return _finish(h, sizes.astype(np.uint32))


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> Hashes:
    """Read four little-endian bytes at each offset."""
    b = [data[at + i].astype(np.uint32) << np.uint32(8 * i) for i in range(4)]
    word: Hashes = b[0] | b[1] | b[2] | b[3]
    return word


def _rotate_left(v: Hashes, by: int) -> Hashes:
    return (v << np.uint32(by)) | (v >> np.uint32(32 - by))


def _scramble(k: Hashes) -> Hashes:
    return _rotate_left(k * C1, 15) * C2


def _mix(h: Hashes, k: Hashes) -> Hashes:
    return _rotate_left(h ^ _scramble(k), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(h: Hashes, size: Any) -> Hashes:
    h = h ^ size
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))
