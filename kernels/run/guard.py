"""Bytes that come from a file, verified where they are first read.

A file's bytes are cut into blocks with a checksum each. What reads few words of a column has only
the blocks that hold them verified, so a search by levels stays cheap on a file that was just opened.
"""

from __future__ import annotations

import mmap
import os
import weakref
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import StatisticsError
from skipstone.kernels.pack.planes import Mask, Todo

SHIFT: Final = 17
# Bytes that share a checksum: hashed in 5 us, and their checksums are 1/16,384 of a file. At least 64 containers
# of 8 bytes, so that those of one word lie in two blocks at most.
BLOCK: Final = 1 << SHIFT
MIN_READAHEAD: Final = 1 << 20  # bytes from which on the system is told before they are read
Checksums = npt.NDArray[np.uint64]


class Descriptor:
    """A file's descriptor, which is closed with this object."""

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)

    def state(self) -> tuple[int, int]:
        """Return the bytes of the file and the time of its last change."""
        info = os.fstat(self.number)
        return info.st_size, info.st_mtime_ns


class Checked:
    """A file's bytes, and which of them were verified. Safe to share between threads: two may verify one block.

    Mapped bytes change with the file: where it was cut they read as zeros, or end the process by
    SIGBUS. So a mapped file is asked for its size and time before and after its bytes are used
    (docs/decisions/mapped-files.md).

    Args:
        name: The file, as errors name it.
        data: The bytes: in memory, or mapped.
        sums: XXH3 of 64 bits for each block of `BLOCK` bytes, shape (blocks,).
        stop: Where the bytes that have checksums end.
        descriptor: Of a mapped file; None: the bytes are in memory.
    """

    def __init__(
        self,
        name: str,
        data: mmap.mmap | bytes,
        sums: Checksums,
        stop: int,
        descriptor: Descriptor | None = None,
    ) -> None:
        self.name, self.stop = name, stop
        self._map, self._data, self._checksums = data, memoryview(data), sums
        self.seen: Mask = np.zeros(len(sums), np.bool_)
        self._descriptor, self._opened = descriptor, (len(data), 0)
        if descriptor is not None:
            self._opened = (len(data), descriptor.state()[1])

    def check(self) -> None:
        """Make sure that nobody wrote to the file since it was opened.

        Raises:
            StatisticsError: somebody did.
        """
        if self._descriptor is not None and (now := self._descriptor.state()) != self._opened:
            raise StatisticsError(
                f"{self.name}: was changed while it was open: it had {self._opened[0]} bytes and has "
                f"{now[0]}; load it again. Replace such files by renaming, as save does: who has the "
                "old one open keeps it"
            )

    def verify(self, blocks: npt.NDArray[np.integer[Any]], what: str) -> None:
        """Compare blocks with their checksums.

        Raises:
            StatisticsError: one of them holds other bytes than were written.
        """
        import xxhash

        self.check()
        # On one thread: two took as long, as memory is what is waited for, and three times as long by way of the pool.
        for b, total in zip(blocks.tolist(), self._checksums[blocks].tolist(), strict=True):
            start, stop = b << SHIFT, min((b + 1) << SHIFT, self.stop)
            if xxhash.xxh3_64_intdigest(self._data[start:stop]) != total:
                self.check()
                damage = f"block {b}, bytes {start} to {stop}, has another checksum than when it was saved"
                raise StatisticsError(
                    f"{self.name}: {what} is damaged: {damage}; save the statistics again, or remove the file if a scan left it"
                )
            self.seen[b] = True

    def verify_range(self, start: int, stop: int, what: str) -> None:
        """Verify the blocks that hold some bytes, those that were not before."""
        if stop - start > MIN_READAHEAD and isinstance(self._map, mmap.mmap):
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
        self.file.check()
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
            needed = np.zeros(len(seen), np.bool_)
            needed[first] = needed[last] = True
            self.file.verify(np.flatnonzero(needed & ~seen), self.what)
