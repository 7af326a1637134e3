"""Blocks: how the containers of one level are grouped into those of the next, in order and without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import StatisticsError
from skipstone.kernels.pack.planes import WordNumbers, word_count

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Groups of n containers: block b holds those from edge b up to edge b + 1, which is never the same.

    Attributes:
        n: Containers.
        size: How many a block holds, but for the last; None where `starts` says.
        starts: Where blocks of different sizes start, and n; int64, shape (count + 1,).
    """

    n: int
    size: int | None = None
    starts: Positions | None = None

    @classmethod
    def of(cls, given: int | npt.ArrayLike, n: int) -> Blocks:
        """Blocks of one size, or between the given ends.

        Args:
            given: Containers per block; or where each block ends, ascending, the last at n. Empty blocks are dropped.
            n: Containers.

        Raises:
            StatisticsError: a size below 2, or ends that are not what they must be.
        """
        if isinstance(given, int | np.integer):
            if given < 2:
                raise StatisticsError(f"block is {given}; expected at least 2 containers")
            return cls(n, int(given))
        ends = np.asarray(given)
        if ends.ndim != 1 or ends.dtype.kind not in "iu" or not len(ends):
            raise StatisticsError(
                f"block is an array of shape {ends.shape} and type {ends.dtype}; expected the ends of blocks, integers"
            )
        ends = ends.astype(np.int64)
        if (ends[1:] < ends[:-1]).any() or ends[0] < 0 or ends[-1] != n:
            raise StatisticsError(
                f"the ends of blocks must ascend from 0 up to {n}, the number of containers; the last is {ends[-1]}"
            )
        return cls(n, starts=np.unique(np.append(0, ends)))

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self.starts) - 1 if self.starts is not None else -(-self.n // (self.size or 1))

    @property
    def whole_words(self) -> bool:
        """Whether all blocks start at a word of 64 containers."""
        return self.size is not None and self.size % 64 == 0

    def edges(self, at: Any) -> Positions:
        """Where blocks start; that of block `count` is n."""
        if self.starts is not None:
            return np.asarray(self.starts[at])
        return np.minimum(np.asarray(at, np.int64) * (self.size or 1), self.n)

    def words(self, at: Positions) -> WordNumbers:
        """The words that hold containers of some blocks, given ascending; ascending, each once."""
        first, stop = self.edges(at) // 64, -(-self.edges(at + 1) // 64)
        first[1:] = np.maximum(first[1:], stop[:-1])  # neighbours may share a word
        return spans(first, stop)

    def parts(self, containers: int) -> Positions:
        """Numbers of blocks, from 0 to `count`, between which there are about so many containers."""
        if self.starts is None:
            step = max(containers // (self.size or 1), 1)
            return np.append(np.arange(0, self.count, step), self.count)
        return np.unique(
            np.append(
                np.searchsorted(self.starts[:-1], np.arange(0, self.n, containers)), self.count
            )
        )


def spans(first: Positions, stop: Positions) -> WordNumbers:
    """All numbers from each `first` up to its `stop`."""
    sizes = np.maximum(stop - first, 0)
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(int(sizes.sum())) + np.repeat(first - before, sizes), np.uint32)


def words_inside(first: Positions, stop: Positions, n: int) -> tuple[WordNumbers, WordNumbers]:
    """For ranges of containers: the words that lie inside one, and those that only begin or end in it."""
    start, end = -(-first // 64), np.where(stop == n, word_count(n), stop // 64)
    edges = np.concatenate([first[first % 64 > 0] // 64, stop[(stop % 64 > 0) & (stop < n)] // 64])
    return spans(start, end), np.unique(edges).astype(np.uint32)
