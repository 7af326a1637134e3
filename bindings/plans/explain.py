"""Explain predicates and plans: how a predicate was understood, and what each conjunct prunes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.statistics.statistics import PruningStatistics, Statistics
from skipstone.ir.node import Node, Op, columns_of, not_understood, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.text import show
from skipstone.kernels.pack.bounds import Given, Side, bounds_of

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.table_protocol import DataSize
    from skipstone.bindings.predicates.predicate import PruningPredicate

Mask = npt.NDArray[np.bool_]


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


def conjuncts_of(n: Node) -> tuple[Node, ...]:
    """Return the parts of a predicate that are joined by AND."""
    return n.args if n.op is Op.AND else (n,)


def judge_conjuncts(predicate: PruningPredicate, stats: Statistics) -> list[Conjunct]:
    """Judge each conjunct by itself over the same statistics."""
    parts = conjuncts_of(predicate.node)
    verdicts = [predicate.part(p).evaluate(stats) for p in parts]
    kept = predicate.prune(stats)
    left = np.ones(stats.num_containers, np.bool_)
    out = []
    for part, v in zip(parts, verdicts, strict=True):
        pruned = v == Verdict.NEVER
        undecided = _undecided_reasons(part, stats, kept & (v == Verdict.MAYBE))
        reasons = {reason: int(where.sum()) for reason, where in undecided}
        always = int((kept & (v == Verdict.ALWAYS)).sum())
        out.append(
            Conjunct(show(part), int(pruned.sum()), int((pruned & left).sum()), always, reasons)
        )
        left &= ~pruned
    return out


NOT_UNDERSTOOD: Final = "the form is not understood"
OVERLAP: Final = "the bounds overlap the condition"


def kept_because(
    predicate: PruningPredicate, stats: Statistics, verdicts: npt.NDArray[np.uint8]
) -> dict[str, int]:
    """Return reason -> number of containers that are kept for it.

    If several reasons apply to a container, the most actionable one counts: first missing
    statistics, then forms that are not understood, then overlapping bounds.
    """
    out = {"every row matches": int((verdicts == Verdict.ALWAYS).sum())}
    reasons: dict[str, Mask] = {}
    for part in conjuncts_of(predicate.node):
        undecided = (predicate.part(part).evaluate(stats) == Verdict.MAYBE) & (
            verdicts == Verdict.MAYBE
        )
        for reason, where in _undecided_reasons(part, stats, undecided):
            reasons[reason] = reasons.get(reason, np.zeros(len(where), np.bool_)) | where
    left = verdicts == Verdict.MAYBE
    last = (NOT_UNDERSTOOD, OVERLAP)
    for reason in (*(r for r in reasons if r not in last), *(r for r in last if r in reasons)):
        out[reason] = int((reasons[reason] & left).sum())
        left &= ~reasons[reason]
    out["no single conjunct rules the container out"] = int(left.sum())
    return {reason: count for reason, count in out.items() if count}


def _undecided_reasons(
    part: Node, stats: Statistics, undecided: Mask
) -> Iterator[tuple[str, Mask]]:
    """Yield each reason why containers are undecided, with its containers; each container once."""
    if not undecided.any():
        return
    if any(m.op is Op.UNKNOWN for m in part.walk()):
        yield NOT_UNDERSTOOD, undecided
        return
    rest = undecided.copy()
    for path in columns_of(part):
        leaf = stats.leaf(path)
        raw = stats.raw(path)
        has_bound = np.zeros(len(rest), np.bool_)
        ends: tuple[tuple[Given | None, Side], ...] = ((raw.min, "min"), (raw.max, "max"))
        for array, side in ends:
            if leaf is None or array is None:
                continue
            bounds = bounds_of(array, leaf.dtype, side)
            if bounds is not None:
                has_bound |= True if bounds.known is None else bounds.known
        if (missing := rest & ~has_bound).any():
            yield f"no bounds of {show_path(path)}", missing
            rest &= has_bound
    if rest.any():
        yield OVERLAP, rest


def explain(
    predicate: PruningPredicate, stats: Statistics | PruningStatistics | None = None
) -> str:
    """Return the report of `PruningPredicate.explain`."""
    lines = [f"predicate   {predicate.expr}", f"rewritten   {predicate.rewritten}"]
    lines += [f"kept for    {r.what}: {r.why}" for r in not_understood(predicate.node)]
    for g in predicate.literal_guarantees:
        shown = sorted(map(repr, g.literals))
        more = f", ... {len(shown) - 8} more" if len(shown) > 8 else ""
        operator = "IN" if g.kind == "in" else "NOT IN"
        lines.append(f"guarantee   {g.column} {operator} ({', '.join(shown[:8])}{more})")
    lines += ["program", *(f"  {line}" for line in str(predicate.program).splitlines())]
    if stats is not None:
        lines += _container_lines(predicate, stats)
    lines.append(f"backends    {predicate.backends_text}")
    return "\n".join(lines)


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


def explain_plan(plan: Plan) -> str:
    """Return the report of `Plan.explain`."""
    size, unit = plan.sizes, plan.table.unit
    lines = [f"skipping    {plan.skipping} ({plan.kind})"]
    lines += [
        f"{name:<12}{_show_size(s)}"
        for name, s in (("total", size.total), ("partition", size.partition), ("scan", size.scan))
    ]
    lines += _page_lines(plan)
    if plan.order:
        lines.append(f"order       {', '.join(map(str, plan.order))}")
    if plan.cut is not None:
        if plan.cut.reached:
            reached = f"reached by {plan.cut.logical_rows} rows of fully matched containers"
        else:
            reached = "not reached by rows of fully matched containers"
        lines.append(f"limit       {plan.cut.limit}: {reached}")
    if plan.deferred is not None:
        lines.append(
            f"limit       {plan.deferred}: left to the join, because it is not certain which rows "
            "have a match"
        )
    if plan.dynamic is not None:
        lines += explain_dynamic(plan.dynamic, plan.columns, unit)
    lines += [
        f"kept        {count} {unit}: {reason}" for reason, count in plan.kept_because.items()
    ]
    lines += [f"unused      {text}" for text in plan.unused]
    lines.append(f"work        {plan.table.work}")
    if plan.predicate is not None:
        lines += [plan.predicate.explain(plan.statistics)]
    if plan.table.skipped_folders:
        lines.append(f"folders     {plan.table.skipped_folders} not listed, by partition values")
    return "\n".join(lines)


def _page_lines(plan: Plan) -> list[str]:
    """Return the line about pages, if they are known."""
    size, found = plan.sizes, plan._pages
    if found is None or size.pages is None:
        return []
    groups, left = found.row_groups
    rows = "unknown" if size.pages.rows is None else size.pages.rows
    return [
        f"pages       {size.pages.files} files, {left} of {groups} row groups, {rows} rows; "
        f"{found.left} of {found.pages} judged pages"
    ]


def explain_dynamic(dynamic: DynamicFilters, columns: list[str], unit: str) -> Iterator[str]:
    """Yield the lines about dynamic filters: the scan, then each collector with its effect.

    Source: Flink FLIP-248, the explained plan.
    """
    yield f"DynamicFilteringTableSourceScan(fields=[{', '.join(columns)}])"
    for e in dynamic.effects:
        f = e.filter
        keys = ", ".join(f.data.fields if f.data is not None else f.columns)
        built = [] if e.rows is None else [f"{e.rows:,} rows"]
        built += [] if e.seconds is None else [f"{e.seconds * 1e3:.1f} ms"]
        yield f"+- DynamicFilteringDataCollector(fields=[{keys}])"
        columns_text = ", ".join(e.fields) or "not known yet"
        yield (
            f"     compared     {columns_text} {f.op} key, {f.how} join, "
            f"which needs {f.needs.value}"
        )
        yield f"     collected    {e.state}{' of ' + ' in '.join(built) if built else ''}"
        yield f"     pruned       {e.pruned} {unit} more"
        for reason, count in e.kept.items():
            yield f"     kept         {count} {unit}: filter cannot be evaluated: {reason}"
    if dynamic.pending:
        pending, total = len(dynamic.pending), len(dynamic.filters)
        yield f"     incomplete   {pending} of {total} filters may still come"


def _show_size(size: DataSize) -> str:
    counts = (("bytes", size.bytes), ("rows", size.rows), ("live rows", size.logical_rows))
    return ", ".join(
        [f"{size.files} files", *(f"{'unknown' if n is None else n} {unit}" for unit, n in counts)]
    )
