"""Bit planes: one bit for each container, in 64-bit words.

The first container has the lowest bit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.run import pool

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Verdicts = npt.NDArray[np.uint8]  # values of `Verdict` (ir/outcome.py)
# Numbers of words, ascending. 32 bits suffice for 274 billion containers.
WordNumbers = npt.NDArray[np.uint32]
Todo = WordNumbers | None  # None: all
# A constant plane is stored as its one answer.
Plane = Words | bool

PART_WORDS: Final = 1 << 11  # words whose positions are found at a time
# Minimum words for which several threads search for non-zero words.
PARALLEL_FROM: Final = 1 << 18

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("skipstone packs bits as little-endian words; this machine is big-endian")


def word_count(n: int) -> int:
    """Return the number of words that hold n bits."""
    return (n + 63) // 64


def pack(mask: Mask) -> Words:
    """Pack a mask of shape (n,) into words of shape (ceil(n / 64),); bits past the end are 0."""
    out = np.zeros(word_count(len(mask)), np.uint64)
    packed = np.packbits(mask, bitorder="little")
    out.view(np.uint8)[: len(packed)] = packed
    return out


def unpack(words: Words, n: int) -> Mask:
    """Return the first n bits of words as a mask of shape (n,)."""
    return np.unpackbits(words.view(np.uint8), count=n, bitorder="little").view(np.bool_)


def mask_of(plane: Plane | Mask, n: int) -> Mask:
    """Return a plane, or a mask, as a mask of shape (n,)."""
    if isinstance(plane, bool):
        return np.full(n, plane, np.bool_)
    return plane.view(np.bool_) if plane.dtype == np.bool_ else unpack(plane.view(np.uint64), n)


def verdicts(planes: Sequence[Plane | Mask], n: int) -> Verdicts:
    """Return verdicts from the planes, or masks, "can match" and "can miss".

    Without the second plane, no verdict is ALWAYS. Masks are overwritten.

    Returns:
        uint8 array, shape (n,), host memory: 0 NEVER, 1 MAYBE, 2 ALWAYS.
    """
    first, *misses = planes
    match = mask_of(first, n).view(np.uint8)
    for may_miss in misses:
        if may_miss is True:  # the most frequent case
            continue
        fully_matched = mask_of(may_miss, n).view(np.uint8)
        fully_matched ^= 1
        fully_matched &= match
        match += fully_matched
    return match


def plane_of(mask: Mask) -> Plane:
    """Return a mask as a plane.

    Constant masks become True or False; an empty mask becomes True.
    """
    if mask.all():
        return True
    return pack(mask) if mask.any() else False


def both_of(a: Plane, b: Plane) -> Plane:
    """Return the plane of the bits that both planes have; False if there are none."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    both: Words = a & b
    return both if both.any() else False


def join_parts(parts: Sequence[Plane], size: int, n: int) -> Plane:
    """Join the planes of parts into one plane of n containers.

    Args:
        parts: The planes, in order.
        size: The containers of each part, a multiple of 64; the last part may have fewer.
        n: The number of all containers.
    """
    first = parts[0]
    if isinstance(first, bool) and all(p is first for p in parts):
        return first
    words = np.empty(word_count(n), np.uint64)
    for i, part in enumerate(parts):
        words[i * size // 64 : (i + 1) * size // 64] = (
            part if not isinstance(part, bool) else ~np.uint64(0) if part else 0
        )
    return clear_tail(words, n)


def clear_tail(words: Words, n: int, todo: Todo = None) -> Words:
    """Set the bits past the n-th to 0, in place."""
    if n % 64 and len(words) and (todo is None or todo[-1] == n // 64):
        words[-1] &= np.uint64((1 << (n % 64)) - 1)
    return words


def nonzero_words(words: Words) -> npt.NDArray[np.int64]:
    """Return the numbers of the words in which a bit is set, ascending."""
    if len(words) <= PARALLEL_FROM:
        return np.flatnonzero(words != 0)  # twice as fast as on the words themselves
    size = -(-len(words) // 8)
    parts: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)] * 8

    def find(first: int, stop: int) -> None:
        parts[first // size] = np.flatnonzero(words[first:stop] != 0) + first

    pool.run_chunks(find, len(words), size)
    return np.concatenate(parts)


def positions(words: Words, todo: Todo = None) -> npt.NDArray[np.int64]:
    """Return the positions of the set bits, ascending, int64.

    Bits past the last container are 0. Words without set bits are skipped.
    """
    nonzero = nonzero_words(words)
    some, at = words[nonzero], nonzero if todo is None else todo[nonzero].astype(np.int64)
    if len(some) <= PART_WORDS:
        return _positions(some, at)
    # Processes parts whose bits stay in cache; each writes to its own range.
    parts = range(0, len(some), PART_WORDS)
    ends = np.cumsum([count_bits(some[p : p + PART_WORDS]) for p in parts])
    out = np.empty(int(ends[-1]), np.int64)

    def fill(first: int, stop: int) -> None:
        for p in range(first, stop):
            found = _positions(
                some[p * PART_WORDS : (p + 1) * PART_WORDS],
                at[p * PART_WORDS : (p + 1) * PART_WORDS],
            )
            out[ends[p] - len(found) : ends[p]] = found

    pool.run_chunks(fill, len(parts), 1)
    return out


def _positions(words: Words, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    bit = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_))
    if len(at) and at[-1] - at[0] == len(at) - 1:  # consecutive words
        bit += at[0] << 6
        return np.asarray(bit, np.int64)
    return np.asarray((at << 6)[bit >> 6] | (bit & 63), np.int64)


def count_bits(words: Words) -> int:
    """Return the number of set bits."""
    if hasattr(np, "bitwise_count"):  # NumPy 2
        return int(np.bitwise_count(words).sum(dtype=np.int64))
    return int(np.count_nonzero(np.unpackbits(words.view(np.uint8))))
