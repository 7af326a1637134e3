"""Find out which rows remain in the kept files of a plan after judging their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skipstone.bindings.plans.pages import GroupRanges, PlanPages

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.table_protocol import Positions


def pages_of(plan: Plan) -> PlanPages:
    """Return the rows of a plan's files that page statistics cannot rule out.

    Raises:
        SourceError: a file can no longer be read.
        StaleFile: a file was replaced after it was planned.
    """
    table, kept = plan.table, _readable(plan)
    table.check_unchanged(kept)
    tasks = table.tasks(plan.only(kept, []), lenient=True)
    ranges: dict[str, GroupRanges] = {path: {} for path in plan.row_groups}
    pages = remaining = 0
    for file in tasks.reader.judge_pages(tasks.each):
        ranges[file.path] |= file.ranges
        pages, remaining = pages + file.pages, remaining + file.remaining
    return PlanPages(ranges, pages, remaining)


def _readable(plan: Plan) -> Positions:
    """Return the kept containers of files that could be read."""
    table = plan.table
    if not table.unreadable:
        return plan.kept
    paths = [next(iter(table.row_groups_of(np.array([i])))) for i in plan.kept.tolist()]
    return plan.kept[[path not in table.unreadable for path in paths]]
