"""The read bandwidth of the machine: the limit for anything that must read as many bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final

import numpy as np

from bench.report.measure import Run, Timing, clock
from skipstone.kernels.run.pool import threads

# Reads a part of the arrays once, on one thread, without the GIL.
Read = Callable[..., Any]

BANDWIDTH: Final = "read bandwidth"
SCRATCH: Final = 1 << 30  # bytes


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
        parts: list[Any] = []
        for a in arrays:
            words = a[: a.nbytes // 8 * 8 // a.itemsize].view(np.int64)
            parts += _pieces(words, max(-(-len(words) // threads()), 1))
        return lambda: self._map(either, parts)

    def scratch(self) -> None:
        """Read a gigabyte of other data, to fill the caches."""
        if self._scratch is None:
            self._scratch = np.ones(SCRATCH // 8, np.int64)
        self._map(np.sum, _pieces(self._scratch, len(self._scratch) // (4 * threads())))

    def _each(self, loop: Read, piece: int) -> None:
        """Read one array after the other, in pieces."""
        self._map(loop, [part for a in self.arrays for part in _pieces(a, piece)])

    def _all(self, loop: Read, piece: int) -> None:
        """Read all arrays together, in pieces."""
        self._map(loop, *(_pieces(a, piece) for a in self.arrays))

    def _map(self, loop: Read, *arguments: Sequence[Any]) -> None:
        """Run the loop over its arguments on all threads, and wait for it."""
        list(self._pool.map(loop, *arguments))


def _pieces(array: Any, length: int) -> list[Any]:
    return [array[start : start + length] for start in range(0, len(array), length)]


@cache
def _loops() -> tuple[Read, Read, Read]:
    """Return compiled loops: sum of one array, OR of one array, sum of four arrays."""
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
        run()
        reads[name]()
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
