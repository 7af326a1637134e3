"""Time contestants in turn, with the read bandwidth or the yardstick in the same rounds."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from skipstone.kernels.run.pool import threads

Run = Callable[[], object]
# Reads a part of the arrays once, on one thread, without the GIL.
Read = Callable[..., Any]


BANDWIDTH: Final = "read bandwidth"
YARDSTICK: Final = "yardstick"
SCRATCH: Final = 1 << 30  # bytes


@dataclass(frozen=True)
class Spread:
    """A summary of one figure per round: seconds, or a ratio."""

    median: float
    q10: float
    q90: float


def spread(figures: Sequence[float]) -> Spread:
    """Summarise one figure per round."""
    q10, q90 = (float(q) for q in np.quantile(figures, (0.1, 0.9)))
    return Spread(statistics.median(figures), q10, q90)


@dataclass(frozen=True)
class Timing:
    """The seconds of one contestant, one number per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    def quantile(self, q: float) -> float:
        """Return the time that a share q of the rounds stayed within."""
        return float(np.quantile(self.seconds, q))

    def ratios(self, other: Timing) -> tuple[float, ...]:
        """Return the ratios to another timing round by round, so that both saw the same load."""
        return tuple(a / b for a, b in zip(self.seconds, other.seconds, strict=True))

    def times(self, other: Timing) -> float:
        """Return the median of `ratios`."""
        return statistics.median(self.ratios(other))


def interleave(runs: Mapping[str, Run], rounds: int, burst: int = 1) -> dict[str, Timing]:
    """Time each run once per round, in turn, after one round that does not count.

    With `burst`, time that many runs in a row, after one that does not count, and take their mean.
    Runs of microseconds need this: they would otherwise start with the caches, and the waking
    threads, of the previous contestant.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for run in runs.values():
        run()
    for i in range(rounds):
        # Each round starts with another contestant, so that neighbours change.
        for name in names[i % len(names) :] + names[: i % len(names)]:
            seconds[name].append(clock(runs[name]) if burst == 1 else _burst(runs[name], burst))
    return {name: Timing(tuple(s)) for name, s in seconds.items()}


def interleave_with_reads(
    runs: Mapping[str, Run], arrays: Mapping[str, Sequence[Any]], limit: Bandwidth, rounds: int
) -> dict[str, tuple[Timing, Timing]]:
    """Time each run next to the limit.

    Return for each run its timing, and that of reading its own arrays once, just before or after.
    Before each of the two, a scratch array is read that fills the caches. Otherwise some
    contestants would find their data in a last-level cache of hundreds of megabytes.
    """
    reads = {name: limit.reading(arrays[name]) for name in runs}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for name, run in runs.items():
        run(), reads[name]()
    for i in range(rounds):
        for name, run in runs.items():
            taken = {}
            for own in (i % 2 == 0, i % 2 == 1):
                limit.scratch()
                taken[own] = clock(run if own else reads[name])
            seconds[name].append((taken[True], taken[False]))
    return {
        name: (Timing(tuple(s for s, _ in both)), Timing(tuple(r for _, r in both)))
        for name, both in seconds.items()
    }


def _burst(run: Run, times: int) -> float:
    run()
    return clock(lambda: deque((run() for _ in range(times)), maxlen=0)) / times


def repeat(run: Run, rounds: int) -> Timing:
    """Time one run many times."""
    return interleave({"": run}, rounds)[""]


@contextlib.contextmanager
def pages_kept() -> Iterator[None]:
    """Keep freed memory in the process meanwhile, if its C library allows that (glibc).

    Use it for runs whose results are gigabytes. The host of a virtual machine may take back memory
    that a run frees, and providing it again costs between 0.1 and 2.6 s a gigabyte. A run that
    returns one large array pays that; one that returns many small arrays, which stay in the heap,
    does not.
    """
    trim, most, never, usual = -1, -4, 1 << 30, 1 << 16  # M_TRIM_THRESHOLD, M_MMAP_MAX of malloc.h
    try:
        libc = ctypes.CDLL(None)
        mallopt, malloc_trim = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError):
        yield
        return
    mallopt(trim, 2 * never - 1), mallopt(most, 0)
    try:
        yield
    finally:
        mallopt(trim, 2 * usual), mallopt(most, usual)
        malloc_trim(0)


def clock(run: Run) -> float:
    """Return the seconds of one run, with the garbage collector off."""
    gc.disable()
    try:
        start = time.perf_counter()
        result = run()
        end = time.perf_counter()
    finally:
        gc.enable()
    del result
    return end - start


def yardstick() -> int:
    """Run a millisecond or so of plain Python, as a measure of the machine's current speed.

    No version of Skipstone changes it.
    """
    total = 0
    for i in range(20_000):
        total += i & 7
    return total


class Bandwidth:
    """Reads four 8-byte arrays on all CPUs: the limit for anything that must read as many bytes.

    It has several loops, because none is the fastest on every machine; the fastest one counts.
    """

    def __init__(self, size: int) -> None:
        self.arrays = [np.arange(size) + i for i in range(4)]
        self.nbytes = sum(a.nbytes for a in self.arrays)
        self._pool = ThreadPoolExecutor(threads())
        self._scratch: Any = None
        one, either, together = _loops()
        self.runs: dict[str, Run] = {
            "sum, an array at a time, pieces": lambda: self._each(one, size // 10),
            "or, an array at a time, pieces": lambda: self._each(either, size // 10),
            "or, an array at a time, halves": lambda: self._each(either, -(-size // threads())),
            "sum, four arrays at once": lambda: self._all(together, size // 40),
        }

    def best(self, timings: Mapping[str, Timing]) -> Timing:
        """Return the timing of the loop with the best median."""
        return min((timings[name] for name in self.runs), key=lambda t: t.median)

    def reading(self, arrays: Sequence[Any]) -> Run:
        """Make a run that reads other arrays once, split among the threads, by the OR loop."""
        either = _loops()[1]
        whole = [a[: a.nbytes // 8 * 8 // a.itemsize].view(np.int64) for a in arrays]
        parts = [
            a[s : s + -(-len(a) // threads())]
            for a in whole
            for s in range(0, len(a), max(-(-len(a) // threads()), 1))
        ]
        return lambda: list(self._pool.map(either, parts))

    def scratch(self) -> None:
        """Read a gigabyte of other data, to fill the caches."""
        if self._scratch is None:
            self._scratch = np.ones(SCRATCH // 8, np.int64)
        step = len(self._scratch) // (4 * threads())
        list(
            self._pool.map(
                np.sum, [self._scratch[i : i + step] for i in range(0, len(self._scratch), step)]
            )
        )

    def _each(self, loop: Read, piece: int) -> None:
        list(
            self._pool.map(
                loop, [a[s : s + piece] for a in self.arrays for s in range(0, len(a), piece)]
            )
        )

    def _all(self, loop: Read, piece: int) -> None:
        size = len(self.arrays[0])
        list(
            self._pool.map(
                loop, *([a[s : s + piece] for s in range(0, size, piece)] for a in self.arrays)
            )
        )


@cache
def _loops() -> tuple[Read, Read, Read]:
    import numba

    jit = numba.njit(nogil=True, boundscheck=False)

    @jit  # type: ignore[untyped-decorator]
    def one(a: Any) -> Any:
        total = 0
        for i in range(a.size):
            total += a[i]
        return total

    @jit  # type: ignore[untyped-decorator]
    def either(a: Any) -> Any:
        total = 0
        for i in range(a.size):
            total |= a[i]
        return total

    @jit  # type: ignore[untyped-decorator]
    def together(a: Any, b: Any, c: Any, d: Any) -> Any:
        total = 0
        for i in range(a.size):
            total += a[i] + b[i] + c[i] + d[i]
        return total

    return one, either, together
