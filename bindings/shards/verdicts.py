"""`ShardVerdicts`: the packed verdicts of all shards, and how workers send them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skipstone.ir.cached import cached_property
from skipstone.ir.errors import StatisticsError, counted
from skipstone.ir.outcome import Verdict
from skipstone.kernels.index.descend import SparseVerdicts
from skipstone.kernels.pack.planes import clear_tail, count_bits, word_count


@dataclass(frozen=True)
class ShardVerdicts:
    """The verdicts of the containers of all shards, stored sparsely.

    A word of 64 containers takes 20 bytes if one of them is kept, and nothing otherwise.

    Attributes:
        starts: The position of each shard's first container, and n at the end; int64, shape
            (shards + 1,).
        parts: For each shard its verdicts, or the one verdict of all its containers.
        unreadable: By file, the error of each shard that could not be read; all of its containers
            are kept.
        opened: How many shards were opened; the summary settled the others.
    """

    starts: npt.NDArray[np.int64]
    parts: Sequence[SparseVerdicts | Verdict]
    unreadable: Mapping[str, StatisticsError]
    opened: int

    @property
    def num_containers(self) -> int:
        """The number of containers."""
        return int(self.starts[-1])

    @cached_property
    def survivors(self) -> npt.NDArray[np.int64]:
        """The positions of the containers to keep: int64, shape (k,), host memory, ascending."""
        positions = [
            survivors_of(part, n) + start
            for part, n, start in zip(self.parts, np.diff(self.starts), self.starts, strict=False)
        ]
        return np.concatenate([np.zeros(0, np.int64), *positions])

    @cached_property
    def verdicts(self) -> npt.NDArray[np.uint8]:
        """All verdicts, uint8, shape (n,), host memory: 0 NEVER, 1 MAYBE, 2 ALWAYS."""
        out = np.zeros(self.num_containers, np.uint8)
        for part, first, stop in zip(self.parts, self.starts, self.starts[1:], strict=False):
            out[first:stop] = part.verdicts() if isinstance(part, SparseVerdicts) else int(part)
        return out

    @cached_property
    def kept(self) -> int:
        """The number of containers to keep."""
        return sum(
            _count(part, int(n)) for part, n in zip(self.parts, np.diff(self.starts), strict=True)
        )

    def __len__(self) -> int:
        return self.num_containers

    def __repr__(self) -> str:
        if self.unreadable:
            unread = f"; kept, but unreadable: {counted(len(self.unreadable), 'shards')}"
        else:
            unread = ""
        return (
            f"ShardVerdicts({self.kept:,} of {counted(self.num_containers, 'containers')} kept; "
            f"{self.opened} of {counted(len(self.parts), 'shards')} opened{unread})"
        )


def survivors_of(part: SparseVerdicts | Verdict, n: int) -> npt.NDArray[np.int64]:
    """Return the positions within one shard of its containers to keep, ascending."""
    if isinstance(part, SparseVerdicts):
        return part.survivors()
    return np.arange(0 if part is Verdict.NEVER else n, dtype=np.int64)


def _count(part: SparseVerdicts | Verdict, n: int) -> int:
    """Return how many of a shard's n containers are kept."""
    if isinstance(part, SparseVerdicts):
        return count_bits(part.match)
    return 0 if part is Verdict.NEVER else n


def as_bytes(found: SparseVerdicts) -> tuple[bytes, bytes, bytes]:
    """Serialise the verdicts of one shard.

    Returns:
        The numbers of the words, empty if all words are present; the bits of containers that may
        match; the bits of fully matched containers, empty if there are none.
    """
    if len(found.words) == word_count(found.n):
        words = b""
    else:
        words = found.words.astype(np.uint32, copy=False).tobytes()
    full = found.fully_matched
    whole = b"" if full is None or not full.any() else full.tobytes()
    return words, found.match.tobytes(), whole


def from_bytes(n: int, words: bytes, match: bytes, fully_matched: bytes) -> SparseVerdicts:
    """Read the verdicts that `as_bytes` serialised, of a shard of n containers.

    Raises:
        StatisticsError: they belong to a shard of another size.
    """
    bits = np.frombuffer(match, np.uint64)
    numbers = np.frombuffer(words, np.uint32) if words else np.arange(len(bits), dtype=np.uint32)
    whole = np.frombuffer(fully_matched, np.uint64) if fully_matched else np.zeros_like(bits)
    if (
        not len(numbers) == len(bits) == len(whole)
        or (not words and len(bits) not in (0, word_count(n)))
        or (len(numbers) and numbers[-1] >= word_count(n))
    ):
        raise StatisticsError(
            f"a worker returned {len(bits)} words of verdicts that do not fit a shard of {n} "
            f"containers; expected at most {word_count(n)} words: does the worker have another "
            "version of the shard?"
        )
    return SparseVerdicts(n, numbers, clear_tail(bits.copy(), n, numbers), whole)
