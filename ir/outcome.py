"""Outcomes of a predicate on a row, and verdicts on a container."""

from __future__ import annotations

import enum
from collections.abc import Set

Outcome = bool | None


class Verdict(enum.IntEnum):
    """The answer for one container: no row, some rows or every row can match.

    NEVER: no row is TRUE; prune. ALWAYS: every row is TRUE; keep, no residual filter is needed.
    MAYBE: keep, and filter the rows.

    Example:
        >>> Verdict.NEVER < Verdict.MAYBE < Verdict.ALWAYS
        True
    """

    NEVER = 0
    MAYBE = 1
    ALWAYS = 2


def verdict_of(outcomes: Set[Outcome]) -> Verdict:
    """Return the verdict that follows from the possible outcomes.

    Example:
        >>> verdict_of({True, None})
        <Verdict.MAYBE: 1>
    """
    if True not in outcomes:
        return Verdict.NEVER
    return Verdict.ALWAYS if len(outcomes) == 1 else Verdict.MAYBE
