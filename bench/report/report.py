"""The options of a workload, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from bench.report.measure import Spread, Timing, spread

OWN: Final = "Skipstone"


@dataclass(frozen=True)
class Options:
    """The options from the command line."""

    full: bool = False
    rounds: int | None = None
    containers: int = 10_000_000
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Requirement:
    """A required bound: `value` is at least, or with `at_most` at most, `bound`."""

    text: str
    value: float
    bound: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound


@dataclass(frozen=True)
class Timed:
    """The figures of one contestant in the JSON, for `compare` and the plots.

    Attributes:
        name: Unique in its workload.
        engine: Skipstone, or the peer that ran.
        group: Contestants of one group do the same work, so their times are comparable.
        rounds: The number of rounds.
        seconds: Seconds of one run.
        reference: The name of a run in the same rounds that does not change with Skipstone.
        to_reference: Seconds over the reference's seconds, round by round.
        to_own: Seconds over those of the group's own contestant, round by round.
        share: Share of the read bandwidth.
        n: The number of containers, if it differs between contestants.
    """

    name: str
    engine: str
    group: str
    rounds: int
    seconds: Spread
    reference: str | None = None
    to_reference: Spread | None = None
    to_own: Spread | None = None
    share: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Absent:
    """A peer that is absent from a group, and why."""

    engine: str
    group: str
    why: str


@dataclass
class Report:
    """The result of a workload: rows and notes for display, the rest for programs.

    `containers` is the size that the figures depend on, if the command line sets it.
    """

    title: str
    containers: int | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    timings: list[Timed] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def time(
        self,
        name: str,
        t: Timing,
        reference: tuple[str, Timing] | None = None,
        *,
        own: Timing | None = None,
        engine: str = OWN,
        group: str = "",
        share: float | None = None,
        n: int | None = None,
    ) -> None:
        """Add one contestant's spread; the reference and `own` had the same rounds."""
        to_reference, to_own = (
            None if other is None else spread(t.ratios(other))
            for other in (reference and reference[1], own)
        )
        self.timings.append(
            Timed(
                name,
                engine,
                group,
                len(t.seconds),
                spread(t.seconds),
                reference and reference[0],
                to_reference,
                to_own,
                share,
                n,
            )
        )

    def compete(
        self, group: str, rows: int, times: Mapping[str, Timing], engines: Sequence[str]
    ) -> float:
        """Add a row and the spreads of engines that answered one question in the same rounds.

        Args:
            group: The question.
            rows: The number of rows that all returned.
            times: The time of each engine, Skipstone's included.
            engines: The engines of all questions, in order.

        Returns:
            Skipstone's time divided by that of the fastest other engine.
        """
        own = times[OWN]
        best = min((t for engine, t in times.items() if engine != OWN), key=lambda t: t.median)
        self.rows.append(
            {
                "": group,
                "rows": f"{rows:,}",
                **{e: 1e3 * times[e].median if e in times else "" for e in engines},
                "/best": own.times(best),
            }
        )
        for engine, t in times.items():
            beside = None if engine == OWN else own
            self.time(f"{group}: {engine}", t, own=beside, engine=engine, group=group)
        return own.times(best)

    def leave_out(self, engine: str, why: str, group: str = "") -> None:
        """Add an absent peer."""
        self.absent.append(Absent(engine, group, why))


class WrongAnswer(Exception):
    """A contestant's answer differs from the others', so nothing is timed."""


def equal(name: str, answer: Any, expected: Any) -> None:
    """Raise `WrongAnswer` if an answer is not the expected one."""
    if not np.array_equal(np.asarray(answer), np.asarray(expected)):
        raise WrongAnswer(
            f"{name} answers differently: {np.sum(answer)} kept, expected {np.sum(expected)}"
        )
