"""Time contestants in turn, with the read bandwidth or the yardstick in the same rounds."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

Run = Callable[[], object]
YARDSTICK: Final = "yardstick"


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
        random.Random(i).shuffle(names)  # caches and memory are what the neighbour leaves
        for name in names:
            seconds[name].append(clock(runs[name]) if burst == 1 else _burst(runs[name], burst))
    return {name: Timing(tuple(s)) for name, s in seconds.items()}


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
    trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
    usual_maps = 1 << 16
    try:
        libc = ctypes.CDLL(None)
        mallopt, malloc_trim = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError):
        yield
        return
    mallopt(trim_threshold, (1 << 31) - 1)
    mallopt(mmap_max, 0)
    try:
        yield
    finally:
        mallopt(trim_threshold, 2 * usual_maps)
        mallopt(mmap_max, usual_maps)
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
