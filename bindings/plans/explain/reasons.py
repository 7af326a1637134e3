"""Group the kept containers of a plan by the reason for keeping them, with a hint for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skipstone.bindings.plans.explain.undecided import (
    KeptBecause,
    UndecidedReason,
    undecided_reasons,
)
from skipstone.ir.node import conjuncts_of
from skipstone.ir.outcome import Verdict
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.plans.selection import Selection


@dataclass(frozen=True, slots=True)
class KeptReason:
    """Containers that are kept for one reason.

    Attributes:
        reason: The reason.
        containers: How many are kept for it.
        hint: What would prune more; "" if that is not known.
    """

    reason: str
    containers: int
    hint: str = ""


MATCHES = UndecidedReason(KeptBecause.MATCHES, "every row matches")
TOGETHER = UndecidedReason(KeptBecause.TOGETHER, "no single conjunct rules the container out")


def kept_reasons(plan: Selection) -> tuple[KeptReason, ...]:
    """Return the reasons for keeping the containers of a plan; each container counts once.

    If several reasons apply to a container, the most actionable one counts: first missing
    statistics, then forms that are not understood, functions that cannot be bounded, truncated
    bounds, and last overlapping ones.
    """
    if plan.predicate is None:
        kept = len(plan.kept)
        return (KeptReason("there is no condition", kept),) if kept else ()
    return tuple(
        KeptReason(reason.text, int(where.sum()), reason.hint or _missing(plan, reason, where))
        for reason, where in reasons_of(plan)
    )


def reasons_of(plan: Selection) -> list[tuple[UndecidedReason, Mask]]:
    """Return each reason for keeping containers of a plan that has a condition, with a mask."""
    assert plan.predicate is not None
    verdicts = np.where(plan._selected, plan._static_verdicts, np.uint8(Verdict.NEVER))
    found: dict[UndecidedReason, Mask] = {}
    for part in conjuncts_of(plan.predicate.node):
        undecided = plan.predicate.part(part).evaluate(plan.statistics) == Verdict.MAYBE
        undecided &= verdicts == Verdict.MAYBE
        for reason, where in undecided_reasons(part, plan.statistics, undecided):
            found[reason] = found[reason] | where if reason in found else where
    unexplained = verdicts == Verdict.MAYBE
    out = [(MATCHES, verdicts == Verdict.ALWAYS)]
    for reason in sorted(found, key=lambda r: r.kind):
        out.append((reason, found[reason] & unexplained))
        unexplained = unexplained & ~found[reason]
    out.append((TOGETHER, unexplained))
    return [(reason, where) for reason, where in out if where.any()]


def _missing(plan: Selection, reason: UndecidedReason, where: Mask) -> str:
    """Return why the statistics of a column are missing, if its table knows."""
    if reason.kind is not KeptBecause.MISSING:
        return ""
    return plan.table.why_missing(reason.path, reason.statistic, np.flatnonzero(where))
