"""The Spark settings that predicates depend on, and the exception of rules that cannot judge."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from skipstone.ir.errors import PredicateError
from skipstone.ir.zones import zone_of


class CannotJudge(Exception):
    """Spark rejects the comparison, or its outcome is not known here. The leaf becomes UNKNOWN.

    Args:
        why: The reason.
        hint: What to write instead, or a function that says so; "" if that is not known.
    """

    def __init__(self, why: str, hint: str | Callable[[], str] = "") -> None:
        super().__init__(why)
        self._hint = hint

    @property
    def hint(self) -> str:
        """What to write instead; "" if that is not known."""
        return self._hint if isinstance(self._hint, str) else self._hint()


def check_flag(name: str, value: object) -> None:
    """Check an argument that switches something on or off.

    Raises:
        PredicateError: it is neither True nor False. Texts such as "no" would pass for True.
    """
    if value is not True and value is not False:
        raise PredicateError(f"{name} is {value!r:.60}; expected True or False")


class Settings(TypedDict):
    """The fields of a `Session` as keyword arguments of `PruningPredicate` and of `plan`."""

    timezone: str
    ansi: bool
    case_sensitive: bool


@dataclass(frozen=True, slots=True)
class Session:
    """The Spark settings that affect a predicate's meaning; the defaults are Spark's.

    Raises:
        PredicateError: `ansi` or `case_sensitive` is not True or False. Spark's own settings are
            texts, and "false" would pass for True.
    """

    timezone: str = "UTC"
    ansi: bool = True
    case_sensitive: bool = False

    def __post_init__(self) -> None:
        check_flag("ansi", self.ansi)
        check_flag("case_sensitive", self.case_sensitive)

    @property
    def zone(self) -> dt.tzinfo:
        """The session's time zone."""
        return zone_of(self.timezone)
