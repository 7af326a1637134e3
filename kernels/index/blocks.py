"""Group the containers of one level into blocks of the next, in order and without gaps."""

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
    """Groups of n containers.

    Block b holds the containers from edge b up to edge b + 1; none is empty.

    Attributes:
        n: The number of containers.
        size: The containers of each block but the last; None if `starts` is given.
        starts: The start of each block, then n, for blocks of different sizes; int64, shape (count
            + 1,).
    """

    n: int
    size: int | None = None
    starts: Positions | None = None

    @classmethod
    def of(cls, given: int | npt.ArrayLike, n: int) -> Blocks:
        """Return blocks of one size, or blocks with the given ends.

        Args:
            given: Containers per block; or the end of each block, ascending, the last one n. Empty
                blocks are dropped.
            n: The number of containers.

        Raises:
            StatisticsError: the size is below 2, or the ends are not integers that ascend from 0 to
                n.
        """
        if isinstance(given, int | np.integer):
            if given < 2:
                raise StatisticsError(f"block is {given}; expected at least 2 containers")
            return cls(n, int(given))
        if not hasattr(given, "__len__"):
            raise StatisticsError(
                f"block is {given!r:.60}; expected a number of containers, or the ends of blocks"
            )
        ends = np.asarray(given)
        if ends.ndim != 1 or ends.dtype.kind not in "iu" or not len(ends):
            raise StatisticsError(
                f"block is an array of shape {ends.shape} and type {ends.dtype}; expected the "
                "ends of blocks, integers"
            )
        ends = ends.astype(np.int64)
        if (ends[1:] < ends[:-1]).any() or ends[0] < 0 or ends[-1] != n:
            raise StatisticsError(
                f"the ends of blocks must ascend from 0 up to {n}, the number of containers; "
                f"the last is {ends[-1]}"
            )
        return cls(n, starts=np.unique(np.append(0, ends)))

    @property
    def count(self) -> int:
        """The number of blocks."""
        return len(self.starts) - 1 if self.starts is not None else -(-self.n // (self.size or 1))

    @property
    def whole_words(self) -> bool:
        """True if every block starts at a word of 64 containers."""
        return self.size is not None and self.size % 64 == 0

    def edges(self, at: Any) -> Positions:
        """Return the starts of blocks; block `count` starts at n."""
        if self.starts is not None:
            return np.asarray(self.starts[at])
        return np.minimum(np.asarray(at, np.int64) * (self.size or 1), self.n)

    def words(self, at: Positions) -> WordNumbers:
        """Return the numbers of the words that hold containers of some blocks.

        The blocks ascend, and so do the words; each word occurs once.
        """
        first, stop = self.edges(at) // 64, -(-self.edges(at + 1) // 64)
        first[1:] = np.maximum(first[1:], stop[:-1])  # neighbours may share a word
        return spans(first, stop)

    def parts(self, containers: int) -> Positions:
        """Return block numbers, from 0 to `count`, about `containers` containers apart."""
        if self.starts is None:
            step = max(containers // (self.size or 1), 1)
            return np.append(np.arange(0, self.count, step), self.count)
        return np.unique(
            np.append(
                np.searchsorted(self.starts[:-1], np.arange(0, self.n, containers)), self.count
            )
        )


def spans(first: Positions, stop: Positions) -> WordNumbers:
    """Return all numbers from each `first` up to its `stop`, concatenated."""
    sizes = np.maximum(stop - first, 0)
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(int(sizes.sum())) + np.repeat(first - before, sizes), np.uint32)


def words_inside(first: Positions, stop: Positions, n: int) -> tuple[WordNumbers, WordNumbers]:
    """Split the words of ranges of containers.

    Returns:
        The words that lie inside a range, and those that a range covers only in part.
    """
    start, end = -(-first // 64), np.where(stop == n, word_count(n), stop // 64)
    edges = np.concatenate([first[first % 64 > 0] // 64, stop[(stop % 64 > 0) & (stop < n)] // 64])
    return spans(start, end), np.unique(edges).astype(np.uint32)
