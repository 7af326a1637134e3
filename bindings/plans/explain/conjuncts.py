"""Judge the conjuncts of a condition one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skipstone.bindings.plans.explain.undecided import undecided_reasons
from skipstone.ir.node import conjuncts_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.text import show

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.statistics.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Conjunct:
    """The effect of one conjunct of a predicate.

    Attributes:
        text: The conjunct as SQL.
        alone: Containers that it prunes by itself.
        after: Containers that it prunes and no conjunct before it prunes.
        fully: Kept containers in which every row passes it.
        undecided: Reason -> kept containers that it could not decide.
    """

    text: str
    alone: int
    after: int
    fully: int
    undecided: dict[str, int]


def judge_conjuncts(predicate: PruningPredicate, stats: Statistics) -> list[Conjunct]:
    """Judge each conjunct by itself over the same statistics."""
    parts = conjuncts_of(predicate.node)
    verdicts = [predicate.part(p).evaluate(stats) for p in parts]
    kept = predicate.prune(stats)
    remaining = np.ones(stats.num_containers, np.bool_)
    out = []
    for part, v in zip(parts, verdicts, strict=True):
        pruned = v == Verdict.NEVER
        undecided = undecided_reasons(part, stats, kept & (v == Verdict.MAYBE))
        reasons = {reason.text: int(where.sum()) for reason, where in undecided}
        always = int((kept & (v == Verdict.ALWAYS)).sum())
        out.append(
            Conjunct(
                show(part), int(pruned.sum()), int((pruned & remaining).sum()), always, reasons
            )
        )
        remaining &= ~pruned
    return out
