"""Counted work: what a scan and its plans read, and how long each phase took."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from skipstone.ir.errors import counted
from skipstone.kernels.run import forks


@dataclass(frozen=True, slots=True)
class Work:
    """The work done so far: an immutable value; two of them can be subtracted.

    Attributes:
        counts: Number of things of each kind that were read or found: "folders", "footers",
            "manifests", ...
        bytes: Bytes requested from storage.
        seconds: Wall-clock time of each phase: "listing", "footers", "planning", ...

    Example:
        >>> before = Work({"footers": 2}, 100)
        >>> after = Work({"footers": 5, "folders": 1}, 400, {"listing": 0.25})
        >>> after - before
        Work(3 footers, 1 folder, 300 bytes; listing 250.0 ms)
        >>> after["footers"], after["manifests"]
        (5, 0)
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> int:
        return self.counts.get(name, 0)

    def __sub__(self, earlier: Work) -> Work:
        counts = {name: n - earlier[name] for name, n in self.counts.items()}
        seconds = {phase: s - earlier.seconds.get(phase, 0.0) for phase, s in self.seconds.items()}
        return Work(
            {k: n for k, n in counts.items() if n},
            self.bytes - earlier.bytes,
            {k: s for k, s in seconds.items() if s},
        )

    def __repr__(self) -> str:
        return f"Work({self})"

    def __str__(self) -> str:
        counts = {**self.counts, "bytes": self.bytes}
        done = [counted(n, name) for name, n in counts.items()]
        times = ", ".join(f"{phase} {s * 1e3:.1f} ms" for phase, s in self.seconds.items())
        return f"{', '.join(done)}{'; ' + times if times else ''}"


class Meter:
    """Count work from any thread. A pickled copy starts at zero."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._counts: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._bytes = 0

    def count(self, name: str, n: int = 1, nbytes: int = 0) -> None:
        """Add n things of one kind, and the bytes that were read for them."""
        with self._lock:
            self._bytes += nbytes
            if n:
                self._counts[name] += n

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the duration of a `with` block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    @property
    def work(self) -> Work:
        """The work counted so far."""
        with self._lock:
            return Work(dict(self._counts), self._bytes, dict(self._seconds))

    def __reduce__(self) -> tuple[type[Meter], tuple[()]]:
        return Meter, ()
