"""Narrow a plan by a further condition: fewer containers, pages and rows are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from skipstone.bindings.plans.selection import Cut
from skipstone.bindings.predicates.predicate import Condition, PruningPredicate
from skipstone.ir.node import Node, Op, conjuncts_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.simplify import TRUE

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

# Rows are filtered again later, so only comparisons, which cost little, are made before.
NOT_ON_ROWS: Final = frozenset({Op.UNKNOWN, Op.CALL, Op.CAST})


def narrowed(plan: Plan, condition: Condition | None, columns: list[str]) -> Plan:
    """Return a plan that also leaves out what a further condition rules out; it has no order.

    It may keep rows that do not match the condition.

    Args:
        plan: The plan.
        condition: The condition. Parts that are not understood, or that cost much, filter no rows.
        columns: Names of the columns that reading returns.
    """
    verdicts, predicate = plan.verdicts, plan.predicate
    if condition is not None:
        asked = PruningPredicate(
            condition,
            plan.table.schema,
            timezone=plan.timezone,
            ansi=plan.settings.ansi,
            case_sensitive=True,
        )
        verdicts = np.minimum(verdicts, asked.evaluate(plan._pruned_by))
        predicate = _filter_of_rows(
            asked, () if predicate is None else conjuncts_of(predicate.node)
        )
    return plan._judged(predicate, verdicts, columns, plan.dynamic)


def first_of(plan: Plan, limit: int) -> Plan:
    """Return a plan of the first rows in table order; `limit=` of a plan may take any rows.

    Args:
        plan: A plan without an order and without a limit.
        limit: The number of rows.
    """
    if plan.dynamic is not None:
        return plan  # how many rows joins need is not known
    rows = np.where(plan.verdicts == Verdict.ALWAYS, plan.table.logical_rows(), 0).clip(0)
    last = int(np.searchsorted(np.cumsum(rows), limit)) if limit else -1
    verdicts = plan.verdicts.copy()
    verdicts[last + 1 :] = Verdict.NEVER
    found = plan._judged(plan.predicate, verdicts, plan.columns)
    found.cut = Cut(limit, int(rows[: last + 1].sum()), reached=last < len(rows))
    return found


def without_unjudged(plan: Plan) -> Plan:
    """Return a plan that may keep more rows, without the conjuncts that cannot filter rows."""
    if plan.predicate is None:
        return plan
    return plan._judged(_filter_of_rows(plan.predicate), plan.verdicts, plan.columns)


def _filter_of_rows(asked: PruningPredicate, own: tuple[Node, ...] = ()) -> PruningPredicate:
    """Join `own` and the conjuncts of a condition that can filter rows into one predicate."""
    plain = [c for c in conjuncts_of(asked.node) if NOT_ON_ROWS.isdisjoint(n.op for n in c.walk())]
    parts = tuple(dict.fromkeys([*own, *plain])) or (TRUE,)
    return asked.part(Node(Op.AND, parts) if len(parts) > 1 else parts[0])
