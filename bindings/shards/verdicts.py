"""What was found in shards, packed: a few words for each, whoever judged it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skipstone.ir.cached import cached_property
from skipstone.ir.errors import StatisticsError
from skipstone.ir.outcome import Verdict
from skipstone.kernels.index.descend import Found
from skipstone.kernels.pack.planes import clear_tail, word_count


@dataclass(frozen=True)
class ShardVerdicts:
    """The verdicts of the containers of all shards.

    Sparse: it holds 20 bytes for 64 containers of which one is kept, and nothing for those that are pruned.

    Attributes:
        starts: Where each shard's containers start, and n at last; int64, shape (shards + 1,).
        parts: Per shard what was found there; one verdict, where all of its containers have it.
        unreadable: File -> why it could not be read, of shards that are kept as a whole.
        opened: How many shards were opened; what is known of the others settled them.
    """

    starts: npt.NDArray[np.int64]
    parts: Sequence[Found | Verdict]
    unreadable: Mapping[str, StatisticsError]
    opened: int

    @property
    def num_containers(self) -> int:
        """How many containers there are."""
        return int(self.starts[-1])

    @cached_property
    def survivors(self) -> npt.NDArray[np.int64]:
        """The positions of the containers to keep: int64, shape (k,), host memory, ascending."""
        found = [
            survivors_of(part, n) + start
            for part, n, start in zip(self.parts, np.diff(self.starts), self.starts, strict=False)
        ]
        return np.concatenate([np.zeros(0, np.int64), *found])

    @cached_property
    def verdicts(self) -> npt.NDArray[np.uint8]:
        """0 NEVER, 1 MAYBE or 2 ALWAYS for each container: uint8, shape (n,), host memory."""
        out = np.zeros(self.num_containers, np.uint8)
        for part, first, stop in zip(self.parts, self.starts, self.starts[1:], strict=False):
            out[first:stop] = part.verdicts() if isinstance(part, Found) else int(part)
        return out

    @cached_property
    def kept(self) -> int:
        """How many containers are to be kept."""
        return sum(
            _count(part, int(n)) for part, n in zip(self.parts, np.diff(self.starts), strict=True)
        )

    def __len__(self) -> int:
        return self.num_containers

    def __repr__(self) -> str:
        unread = (
            f"; {len(self.unreadable)} shards could not be read and are kept"
            if self.unreadable
            else ""
        )
        return f"ShardVerdicts({self.kept:,} of {self.num_containers:,} containers kept; {self.opened} of {len(self.parts)} shards opened{unread})"


def survivors_of(part: Found | Verdict, n: int) -> npt.NDArray[np.int64]:
    """Positions of the containers of one shard that are to be kept, ascending."""
    if isinstance(part, Found):
        return part.survivors()
    return np.arange(0 if part is Verdict.NEVER else n, dtype=np.int64)


def _count(part: Found | Verdict, n: int) -> int:
    if isinstance(part, Found):
        return (
            int(np.bitwise_count(part.match).sum())
            if hasattr(np, "bitwise_count")
            else len(part.survivors())
        )
    return 0 if part is Verdict.NEVER else n


def as_bytes(found: Found) -> tuple[bytes, bytes, bytes]:
    """What was found as it travels: numbers of words, unless all are there; what may match; what matches whole, unless nothing does."""
    words = (
        b""
        if len(found.words) == word_count(found.n)
        else found.words.astype(np.uint32, copy=False).tobytes()
    )
    sure = b"" if found.sure is None or not found.sure.any() else found.sure.tobytes()
    return words, found.match.tobytes(), sure


def from_bytes(n: int, words: bytes, match: bytes, sure: bytes) -> Found:
    """What travelled, of n containers.

    Raises:
        StatisticsError: it is of others.
    """
    bits = np.frombuffer(match, np.uint64)
    numbers = np.frombuffer(words, np.uint32) if words else np.arange(len(bits), dtype=np.uint32)
    whole = np.frombuffer(sure, np.uint64) if sure else np.zeros_like(bits)
    if (
        not len(numbers) == len(bits) == len(whole)
        or (not words and len(bits) not in (0, word_count(n)))
        or (len(numbers) and numbers[-1] >= word_count(n))
    ):
        raise StatisticsError(
            f"a worker judged {len(bits)} words of a shard of {n} containers; expected those of the manifest: is another version of it there?"
        )
    return Found(n, numbers, clear_tail(bits.copy(), n, numbers), whole)
