"""Explain predicates: how a condition was understood, and what each conjunct prunes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipstone.bindings.plans.explain.conjuncts import judge_conjuncts
from skipstone.bindings.plans.explain.report_text import ReportText
from skipstone.bindings.statistics.statistics import PruningStatistics, Statistics
from skipstone.ir.node import not_understood
from skipstone.ir.outcome import Verdict

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import PruningPredicate


def explain(
    predicate: PruningPredicate, stats: Statistics | PruningStatistics | None = None
) -> str:
    """Return the report of `PruningPredicate.explain`."""
    lines = [f"predicate   {predicate.expr}", f"rewritten   {predicate.rewritten}"]
    lines += [
        f"kept for    {r.what}: {r.why}{f'; {r.hint}' if r.hint else ''}"
        for r in not_understood(predicate.node)
    ]
    for g in predicate.literal_guarantees:
        shown = sorted(map(repr, g.literals))
        more = f", ... {len(shown) - 8} more" if len(shown) > 8 else ""
        operator = "IN" if g.kind == "in" else "NOT IN"
        lines.append(f"guarantee   {g.column} {operator} ({', '.join(shown[:8])}{more})")
    lines += ["program", *(f"  {line}" for line in str(predicate.program).splitlines())]
    if stats is not None:
        lines += _container_lines(predicate, stats)
    lines.append(f"backends    {predicate.backends_text}")
    return ReportText("\n".join(lines))


def _container_lines(
    predicate: PruningPredicate, stats: Statistics | PruningStatistics
) -> list[str]:
    if not isinstance(stats, Statistics):
        stats = Statistics.from_provider(stats, predicate.schema, predicate.columns)
    verdicts = predicate.evaluate(stats)
    n = len(verdicts)
    counts = {v: int((verdicts == v).sum()) for v in Verdict}
    if stats.device is None:
        lines = []
    else:
        lines = [f"device      {stats.device} holds {stats.device_nbytes} bytes of the statistics"]
    lines += [
        f"containers  {n}: {counts[Verdict.NEVER]} pruned, {counts[Verdict.MAYBE]} to filter, "
        f"{counts[Verdict.ALWAYS]} fully matched"
    ]
    for c in judge_conjuncts(predicate, stats):
        lines.append(f"  {c.text}")
        lines.append(
            f"    prunes {c.alone} alone, {c.after} after the ones before it; "
            f"every row passes in {c.fully} of the kept"
        )
        lines += [
            f"    cannot decide {count} of the kept: {reason}"
            for reason, count in c.undecided.items()
        ]
    return lines
