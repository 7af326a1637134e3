"""Bytes that come from a file, verified where they are first read.

A file's bytes are cut into blocks with a checksum each. What reads few words of a column has only
the blocks that hold them verified, so a search by levels stays cheap on a file that was just opened.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import StatisticsError
from skipstone.kernels.planes import Mask, Todo

SHIFT: Final = 17
# Bytes that share a checksum: hashed in 5 us, and their checksums are 1/16,384 of a file. At least 64 containers
# of 8 bytes, so that those of one word lie in two blocks at most.
BLOCK: Final = 1 << SHIFT
AHEAD: Final = 1 << 20  # bytes from which on the system is told before they are read
Sums = npt.NDArray[np.uint64]


class Checked:
    """A file's bytes, and which of them were verified. Safe to share between threads: two may verify one block.

    Args:
        name: The file, as errors name it.
        data: The bytes, which must not change while they are used.
        sums: XXH3 of 64 bits for each block of `BLOCK` bytes, shape (blocks,).
        stop: Where the bytes that have checksums end.
    """

    def __init__(self, name: str, data: mmap.mmap, sums: Sums, stop: int) -> None:
        self.name, self.stop = name, stop
        self._map, self._data, self._sums = data, memoryview(data), sums
        self.seen: Mask = np.zeros(len(sums), np.bool_)

    def verify(self, blocks: npt.NDArray[np.integer[Any]], what: str) -> None:
        """Compare blocks with their checksums.

        Raises:
            StatisticsError: one of them holds other bytes than were written.
        """
        import xxhash

        # On one thread: two took as long, as memory is what is waited for, and three times as long by way of the pool.
        for b, total in zip(blocks.tolist(), self._sums[blocks].tolist(), strict=True):
            start, stop = b << SHIFT, min((b + 1) << SHIFT, self.stop)
            if xxhash.xxh3_64_intdigest(self._data[start:stop]) != total:
                told = f"block {b}, bytes {start} to {stop}, has another checksum than when it was saved"
                raise StatisticsError(
                    f"{self.name}: {what} is damaged: {told}; save the statistics again, or remove the file if a scan left it"
                )
            self.seen[b] = True

    def verify_range(self, start: int, stop: int, what: str) -> None:
        """Verify the blocks that hold some bytes, those that were not before."""
        if stop - start > AHEAD and hasattr(self._map, "madvise"):
            page = start & -mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, stop - page)
        first = start >> SHIFT
        self.verify(first + np.flatnonzero(~self.seen[first : -(-stop >> SHIFT)]), what)


@dataclass(slots=True, eq=False)
class Guard:
    """An array of a file: it must be touched before it is read.

    Attributes:
        file: The file.
        what: The array, as errors name it.
        start: Its first byte.
        size: Its bytes.
        step: Bytes of 64 containers.
        done: Whether all of it is verified.
    """

    file: Checked
    what: str
    start: int
    size: int
    step: int
    done: bool = False

    def touch(self, todo: Todo = None) -> None:
        """Verify what holds these words of containers; None: all.

        Raises:
            StatisticsError: the file is damaged there.
        """
        if self.done:
            return
        if todo is None:
            self.file.verify_range(self.start, self.start + self.size, self.what)
            self.done = True
            return
        at = todo.astype(np.int64) * self.step + self.start
        first, last = (
            at >> SHIFT,
            np.minimum(at + (self.step - 1), self.start + self.size - 1) >> SHIFT,
        )
        seen = self.file.seen
        if not (seen[first].all() and seen[last].all()):
            asked = np.zeros(len(seen), np.bool_)
            asked[first] = asked[last] = True
            self.file.verify(np.flatnonzero(asked & ~seen), self.what)
