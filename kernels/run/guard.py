"""Verify bytes of a file when they are first read.

A file is divided into blocks, each with a checksum. A reader that needs few words of a column
verifies only the blocks that hold them, so a search by levels stays cheap on a newly opened file.
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
# Bytes with one checksum. A block is hashed in 5 us, and the checksums take 1/16,384 of the file.
# It holds at least 64 containers of 8 bytes, so the containers of one word lie in at most two
# blocks.
BLOCK: Final = 1 << SHIFT
# Smallest range in bytes that the system is asked to read ahead.
MIN_READAHEAD: Final = 1 << 20
Checksums = npt.NDArray[np.uint64]


class Descriptor:
    """A file descriptor that is closed with this object."""

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)

    def state(self) -> tuple[int, int]:
        """Return the size of the file in bytes and the time of its last change in nanoseconds."""
        info = os.fstat(self.number)
        return info.st_size, info.st_mtime_ns


class ChecksummedFile:
    """The bytes of a file, and which of its blocks are verified.

    Threads may share it: two of them may verify the same block.

    Mapped bytes change with the file. If the file is truncated, they read as zeros or end the
    process by SIGBUS. So the size and the time of a mapped file are checked before and after its
    bytes are used (docs/decisions/mapped-files.md).

    Args:
        name: The name of the file in errors.
        data: The bytes, in memory or mapped.
        sums: 64-bit XXH3 of each block of `BLOCK` bytes, shape (blocks,).
        stop: The end of the bytes that have checksums.
        descriptor: The descriptor of a mapped file; None if the bytes are in memory.

    Attributes:
        seen: Mask of verified blocks, shape (blocks,).
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
        """Raise an error if the file was changed since it was opened.

        Raises:
            StatisticsError: its size or modification time differs.
        """
        if self._descriptor is not None and (now := self._descriptor.state()) != self._opened:
            raise StatisticsError(
                f"{self.name}: the file was changed while it was open: it had {self._opened[0]} "
                f"bytes and has {now[0]}; load it again. Replace such files by renaming, as save "
                "does: readers of the old file then keep it"
            )

    def verify(self, blocks: npt.NDArray[np.integer[Any]], what: str) -> None:
        """Compare blocks with their checksums.

        Args:
            blocks: The numbers of the blocks.
            what: The name of the array in errors.

        Raises:
            StatisticsError: a block differs from the bytes that were saved.
        """
        import xxhash

        self.check()
        # On one thread. Two took as long, since memory is the limit, and the pool took three times
        # as long.
        for b, total in zip(blocks.tolist(), self._checksums[blocks].tolist(), strict=True):
            start, stop = b << SHIFT, min((b + 1) << SHIFT, self.stop)
            if xxhash.xxh3_64_intdigest(self._data[start:stop]) != total:
                self.check()
                damage = (
                    f"block {b}, bytes {start} to {stop}, has a different checksum than when saved"
                )
                raise StatisticsError(
                    f"{self.name}: {what} is damaged: {damage}; save the statistics again, or "
                    "remove the file if a scan left it"
                )
            self.seen[b] = True

    def verify_range(self, start: int, stop: int, what: str) -> None:
        """Verify the blocks of a range of bytes that are not verified yet.

        Args:
            start: The first byte.
            stop: The end of the range.
            what: The name of the array in errors.

        Raises:
            StatisticsError: a block differs from the bytes that were saved.
        """
        if stop - start > MIN_READAHEAD and isinstance(self._map, mmap.mmap):
            page = start & -mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, stop - page)
        first = start >> SHIFT
        self.verify(first + np.flatnonzero(~self.seen[first : -(-stop >> SHIFT)]), what)


@dataclass(slots=True, eq=False)
class Guard:
    """An array in a file that must be verified before it is read.

    Attributes:
        file: The file.
        what: The name of the array in errors.
        start: Its first byte.
        size: Its size in bytes.
        step: Bytes of 64 containers.
        done: True if the whole array is verified.
    """

    file: ChecksummedFile
    what: str
    start: int
    size: int
    step: int
    done: bool = False

    def verify(self, todo: Todo = None) -> None:
        """Verify the bytes of some words of containers.

        Args:
            todo: The numbers of the words; None means all.

        Raises:
            StatisticsError: the file is damaged there, or was changed.
        """
        self.file.check()
        if self.done:
            return
        if todo is None:
            self.file.verify_range(self.start, self.start + self.size, self.what)
            self.done = True
            return
        at = todo.astype(np.int64) * self.step + self.start
        first = at >> SHIFT
        last = np.minimum(at + (self.step - 1), self.start + self.size - 1) >> SHIFT
        seen = self.file.seen
        if not (seen[first].all() and seen[last].all()):
            needed = np.zeros(len(seen), np.bool_)
            needed[first] = needed[last] = True
            self.file.verify(np.flatnonzero(needed & ~seen), self.what)
