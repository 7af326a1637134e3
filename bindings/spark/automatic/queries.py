"""Reports of the latest queries that were pruned automatically."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from skipstone.bindings.spark.pruning.reports import Pruned

MAX_REPORTS: Final = 100


@dataclass(frozen=True, slots=True)
class QueryReport:
    """The report of one optimised plan.

    Attributes:
        scans: One `PrunedScan` for each scan of files.
        seconds: Wall-clock time that finding it took.
        why: Why the plan was left unchanged, or "".
    """

    scans: Pruned
    seconds: float
    why: str = ""

    def __str__(self) -> str:
        lines = [f"in {self.seconds * 1000:.0f} ms" + (f", {self.why}" if self.why else "")]
        return "\n".join([*lines, *(f"  {scan}" for scan in self.scans)])


class QueryLog:
    """The latest reports. Threads may share it."""

    def __init__(self) -> None:
        self._reports: deque[QueryReport] = deque(maxlen=MAX_REPORTS)

    def add(self, report: QueryReport) -> None:
        """Add a report; forget the oldest of too many."""
        self._reports.append(report)

    def reports(self) -> tuple[QueryReport, ...]:
        """Return the reports, the oldest first."""
        return tuple(self._reports.copy())


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What automatic pruning did in a session.

    Attributes:
        queries: Reports of the latest queries, the oldest first.
        answered: Plans that were pruned or needed no pruning.
        failed: Plans that were left unchanged after an error; `error` is the last one, or "".
        late: Plans that were left unchanged because the time limit passed.
        skipped: Plans that were left unchanged because too many others were in progress, or
            because the latest ones failed or were late: queries are then left alone for 30 s.
    """

    queries: tuple[QueryReport, ...]
    answered: int
    failed: int
    late: int
    skipped: int
    error: str

    def __str__(self) -> str:
        counts = (
            f"{self.answered} plans answered, {self.failed} failed, {self.late} late, "
            f"{self.skipped} skipped"
        )
        error = f"last error: {self.error}" if self.error else ""
        return "\n".join(filter(None, (counts, error, *map(str, self.queries))))
