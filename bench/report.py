"""What a workload is asked for, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    full: bool = False
    rounds: int | None = None
    containers: int = 10_000_000


@dataclass(frozen=True)
class Requirement:
    """A figure that must hold: `value` at least, or at most, `bound`."""

    text: str
    value: float
    bound: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound


@dataclass
class Report:
    """What a workload found."""

    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class WrongAnswer(Exception):
    """A contestant's answer differs from the others': nothing is timed."""


def equal(name: str, answer: Any, expected: Any) -> None:
    """Refuse an answer that is not the expected one."""
    if not np.array_equal(np.asarray(answer), np.asarray(expected)):
        raise WrongAnswer(f"{name} answers otherwise: {np.sum(answer)} kept, expected {np.sum(expected)}")
