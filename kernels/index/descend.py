"""Judge by levels: first blocks, then only the containers of blocks with the verdict MAYBE.

Results stay sparse: the words, of 64 containers each, in which something may match. The cost is
therefore proportional to the matches, not to the number of containers. If levels settle too little,
the flat kernel takes over, and the index remembers that for this predicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from skipstone.ir.lower import Program
from skipstone.ir.node import Op
from skipstone.kernels.index.blocks import Positions, words_inside
from skipstone.kernels.index.index import Index
from skipstone.kernels.index.levels import Coarse, Level
from skipstone.kernels.index.order import Order
from skipstone.kernels.index.subset import Subset
from skipstone.kernels.pack.packed import Packed
from skipstone.kernels.pack.planes import (
    Plane,
    Todo,
    Verdicts,
    WordNumbers,
    Words,
    clear_tail,
    nonzero_words,
    pack,
    positions,
    word_count,
)
from skipstone.kernels.run.guard import Guard
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.run import Backend, run, run_sparse

# For fewer containers the flat kernel takes less time than the levels.
MIN_CONTAINERS: Final = 1 << 16
# Share of a level's blocks; if more are undecided, the level is not used.
MAX_OPEN_SHARE: Final = 0.5
# Words that are sampled to estimate the benefit of coarse codes.
SAMPLE: Final = 1 << 10
# Coarse codes are used if they promise to cost less than this share of the flat kernel.
WORTH: Final = 0.8
# Cost of a word that is found, in costs of a word in the flat kernel.
FOUND_COST: Final = 0.9


@dataclass(frozen=True, slots=True)
class SparseVerdicts:
    """The verdicts of n containers, without the words whose containers are all NEVER.

    Attributes:
        n: The number of containers.
        words: The numbers of the words, ascending, shape (k,).
        match: For each word the containers that may match, shape (k,).
        fully_matched: For each word the containers in which every row matches; None if not
            requested.
        order: The position of each container in the table; None if it is the same.
        guard: The guard of the order, if it comes from a file.
    """

    n: int
    words: WordNumbers
    match: Words
    fully_matched: Words | None = None
    order: Order | None = None
    guard: Guard | None = None

    def survivors(self) -> Positions:
        """Return the positions of the containers that may match, ascending."""
        found = positions(self.match, self.words)
        self._verify_order()
        return (
            found if self.order is None else np.sort(self.order[found]).astype(np.int64, copy=False)
        )

    def verdicts(self) -> Verdicts:
        """Return 0, 1 or 2 for each of the n containers; only 0 or 1 if `fully_matched` is None."""
        out = np.zeros(word_count(self.n) * 64, np.uint8)
        self._verify_order()
        if self.order is not None:
            for words, verdict in ((self.match, 1), (self.fully_matched, 2)):
                if words is not None:
                    out[self.order[positions(words, self.words)]] = verdict
            return out[: self.n]
        bits = _bytes(self.match)
        if self.fully_matched is not None:
            bits = bits + _bytes(self.fully_matched)
        out.reshape(-1, 64)[self.words] = bits
        return out[: self.n]

    def in_place(self) -> SparseVerdicts:
        """Return the same result in the order of the table."""
        if self.order is None:
            return self
        self._verify_order()
        nothing = np.zeros_like(self.match)
        bits = np.zeros((2, word_count(self.n) * 64), np.bool_)
        for mask, words in zip(
            bits,
            (self.match, nothing if self.fully_matched is None else self.fully_matched),
            strict=True,
        ):
            mask[self.order[positions(words, self.words)]] = True
        return sparse_verdicts_of((pack(bits[0]), pack(bits[0] & ~bits[1])), self.n)

    def _verify_order(self) -> None:
        if self.guard is not None:
            self.guard.verify(self.words[self.match != 0])


def sparse_verdicts_of(planes: Sequence[Plane], n: int) -> SparseVerdicts:
    """Return the verdicts that the planes "can match" and "can miss" of n containers give.

    Bits past the last container are 0.
    """
    match, miss = (_words(p, word_count(n)) for p in planes)
    at = nonzero_words(clear_tail(match, n))
    return SparseVerdicts(n, at.astype(np.uint32), match[at], match[at] & ~miss[at])


def descend(
    index: Index, for_blocks: Program, wanted: Program, *, dense: bool, backend: Backend
) -> SparseVerdicts | None:
    """Judge containers by levels and coarse codes.

    Args:
        index: The levels.
        for_blocks: The program that judges blocks: can match, can miss.
        wanted: The program that judges containers: the same, or only `can match`.
        dense: True if the result will be spread over all containers; levels then pay only if few
            match.
        backend: As in `run`.

    Returns:
        None if the flat kernel should be used instead.
    """
    search = _Search(index, for_blocks, wanted, backend)
    if search.n < MIN_CONTAINERS:
        return None
    search.judge_levels()
    if not search.judge_codes(dense):
        return None
    return search.judge_containers(dense)


class _Search:
    """The state of one descent."""

    def __init__(
        self, index: Index, for_blocks: Program, wanted: Program, backend: Backend
    ) -> None:
        self.index, self.for_blocks, self.wanted, self.backend = index, for_blocks, wanted, backend
        self.n = index.leaf.num_containers
        self.todo: Todo = None
        # Words that settled blocks share with other blocks.
        self.edges: list[WordNumbers] = []
        # Words whose containers are all settled, and their containers in which every row matches.
        self.settled: list[tuple[WordNumbers, Words]] = []
        # True if ALWAYS of a block settles its containers: no value lists or bloom filters may
        # contradict the bounds.
        self.blocks_settle = not (
            index.leaf.has_members
            and any(
                n.op in (Op.MAY_CONTAIN, Op.MAY_CONTAIN_OTHER)
                for r in for_blocks.roots
                for n in r.walk()
            )
        )

    def judge_levels(self) -> None:
        """Judge the levels, except those that are known to settle too little."""
        levels = self.index.levels
        first = self.index.starts.find(self.for_blocks) or 0
        for i, level in enumerate(levels[first:], first):
            match, full = self._judge_blocks(level, self.for_blocks)
            n = level.num_containers
            open_ = positions(match & ~full, self.todo)
            if len(open_) > MAX_OPEN_SHARE * n:
                self.todo, self.edges, self.settled = None, [], []
                self.index.starts.put(self.for_blocks, i + 1)
                continue
            if full.any():
                self._settle(positions(full, self.todo), levels[i:])
            self.todo = level.blocks.words(open_)

    def _settle(self, blocks: Positions, levels: tuple[Level, ...]) -> None:
        """Record that every row of these blocks matches."""
        first, stop = blocks, blocks + 1
        for level in levels:
            first, stop = level.blocks.edges(first), level.blocks.edges(stop)
        whole, shared = words_inside(first, stop, self.n)
        self.edges.append(shared)
        rows = self.index.leaf.rows_plane()
        if isinstance(rows, bool):
            bits = np.full(len(whole), -bool(rows), np.int64).view(np.uint64)
        else:
            bits = rows[whole]
        self.settled.append((whole, clear_tail(bits, self.n, whole)))

    def judge_codes(self, dense: bool) -> bool:
        """Judge by coarse codes if that promises to pay.

        Returns:
            False: neither codes nor levels pay.
        """
        coarse = self.index.coarse
        if (
            coarse is not None
            and not self.for_blocks.derived
            and self.index.pays.get((self.wanted, dense), lambda: self._pays(coarse, dense))
        ):
            words, match, undecided = self._judge_coarse(coarse, self.todo)
            settled = undecided == 0
            self.settled.append((words[settled], match[settled]))
            self.todo = words[~settled]
        return self.todo is not None

    def _pays(self, coarse: Coarse, dense: bool) -> bool:
        count = word_count(self.n) if self.todo is None else len(self.todo)
        if count < 2 * SAMPLE:
            return False
        own, full = (
            self.index.launch(source, self.wanted).nbytes for source in (coarse, self.index.leaf)
        )
        sample = np.arange(0, count, count // SAMPLE, dtype=np.uint32)
        _, match, open_bits = self._judge_coarse(
            coarse, sample if self.todo is None else self.todo[sample]
        )
        found, undecided = len(match) / len(sample), np.count_nonzero(open_bits) / len(sample)
        return bool(
            found * count <= word_count(self.n) * self._share(dense)
            and own + full * (undecided + FOUND_COST * found) < WORTH * full
        )

    def _judge_coarse(self, coarse: Coarse, todo: Todo) -> tuple[WordNumbers, Words, Words]:
        """Judge words by coarse codes.

        Returns:
            The words in which something may match; the containers that may match; and those of them
            that full bounds must still judge.
        """
        result = run_sparse(self.index.launch(coarse, self.wanted), self.backend, todo=todo)
        assert result.words is not None
        match, *others = (_words(p, len(result.words)) for p in result.planes)
        clear_tail(match, self.n, result.words)
        if not self.blocks_settle:
            return result.words, match, match
        # If "can miss" is not requested, a container is settled once it is certain that it can
        # match; otherwise, once it is certain that all its rows do.
        return (
            result.words,
            match,
            match & (~others[0] if self.wanted.can_miss is None else others[0]),
        )

    def judge_containers(self, dense: bool) -> SparseVerdicts | None:
        """Judge the containers that remain.

        Returns:
            None: there are too many matches to scatter individually.
        """
        assert self.todo is not None
        remaining = np.union1d(self.todo, np.concatenate(self.edges)) if self.edges else self.todo
        done = [
            (w, b) if not len(remaining) else _exclude(w, b, remaining) for w, b in self.settled
        ]
        if (len(remaining) + sum(len(w) for w, _ in done)) > word_count(self.n) * self._share(
            dense
        ):
            return None
        if not len(remaining):
            match, miss = np.empty(0, np.uint64), None
        elif self.wanted.derived:
            subset = Subset(self.index.leaf, remaining)
            # Statistics that are made for this call are not worth an upload, unless "cupy" is
            # requested.
            if self.backend == "cupy":
                launch = self.index.launch(subset, self.wanted)
            else:
                launch = subset.launch(self.wanted)
            match, miss = self._judge(subset, launch, None)
        else:
            match, miss = self._judge(
                self.index.leaf, self.index.launch(self.index.leaf, self.wanted), remaining
            )
        full = np.zeros_like(match) if miss is None else match & ~miss
        if done:
            words = np.concatenate([remaining, *(w for w, _ in done)])
            match, full = (np.concatenate([own, *(b for _, b in done)]) for own in (match, full))
            order = np.argsort(words, kind="stable")
            words, match, full = words[order], match[order], full[order]
            once = np.ones(len(words), np.bool_)
            once[1:] = words[1:] != words[:-1]
            remaining, match, full = words[once], match[once], full[once]
        clear_tail(match, self.n, remaining)
        full &= match
        return SparseVerdicts(
            self.n,
            remaining,
            match,
            None if self.wanted.can_miss is None else full,
            self.index.order,
            self.index.guard,
        )

    def _share(self, dense: bool) -> float:
        """Return the share of all words up to which a sparse result costs less than a flat one."""
        if self.index.order is not None:
            return 1 / 64  # each container is written or sorted to its own position
        return 1 / 4 if dense else 1

    def _judge_blocks(self, source: Packed, program: Program) -> tuple[Words, Words]:
        """Judge blocks: return words of those that may match, and of those whose rows all match."""
        match, miss = self._judge(source, self.index.launch(source, program), self.todo)
        if miss is None or not self.blocks_settle:
            return match, np.zeros_like(match)
        return match, match & ~miss

    def _judge(self, source: Packed, launch: Launch, todo: Todo) -> tuple[Words, Words | None]:
        """Return words of containers that can match, and of those that can miss, if requested."""
        planes = run(launch, self.backend, todo=todo).planes
        words = word_count(source.num_containers) if todo is None else len(todo)
        found = [_words(p, words) for p in planes]
        clear_tail(found[0], source.num_containers, todo)
        return found[0], found[1] if len(found) > 1 else None


def _words(plane: Plane, words: int) -> Words:
    return (
        np.full(words, -int(plane), np.int64).view(np.uint64) if isinstance(plane, bool) else plane
    )


def _exclude(words: WordNumbers, bits: Words, others: WordNumbers) -> tuple[WordNumbers, Words]:
    """Return the words that are not among others; both ascend."""
    at = np.minimum(np.searchsorted(others, words), len(others) - 1)
    keep = others[at] != words
    return words[keep], bits[keep]


def _bytes(words: Words) -> Verdicts:
    return np.unpackbits(words.view(np.uint8), bitorder="little").reshape(-1, 64)
