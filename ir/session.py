"""The session of a predicate, and the exception that every rule of coercion may raise."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TypedDict

from skipstone.ir.zones import zone_of


class CannotJudge(Exception):
    """Spark rejects the comparison, or its outcome is not known here. The leaf becomes UNKNOWN."""


class Settings(TypedDict):
    """The Spark settings that affect a predicate's meaning.

    They are keywords of `PruningPredicate` and of `plan`.
    """

    timezone: str
    ansi: bool
    case_sensitive: bool


@dataclass(frozen=True, slots=True)
class Session:
    """Spark settings; the defaults are Spark's."""

    timezone: str = "UTC"
    ansi: bool = True
    case_sensitive: bool = False

    @property
    def zone(self) -> dt.tzinfo:
        """The session's time zone."""
        return zone_of(self.timezone)
