"""Follow the containers of a table through the phases of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from skipstone.ir.errors import counted
from skipstone.ir.outcome import Verdict

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.kernels.pack.planes import Mask

MEMBERSHIP: Final = "value lists and bloom filters"  # the phase "membership", for display


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of planning, and the containers that remain after it.

    Attributes:
        name: "partition", "statistics" (bounds and counts), "membership" (bloom filters, value
            lists), "footers" (of a Delta table's files without bounds in the log), "dynamic"
            (keys of joins), "limit" or "pages".
        containers_in, containers_out: Containers before and after it; for pages, row groups.
        files, bytes, rows: What remains after it; None is unknown.
        seconds: Its time, measured while the plan was made; None if it was not measured by itself.
        note: More about it, for display.
    """

    name: str
    containers_in: int
    containers_out: int
    files: int | None
    bytes: int | None
    rows: int | None
    seconds: float | None = None
    note: str = ""


def masks_of(plan: Plan) -> dict[str, Mask]:
    """Return for each phase that took part, in order, the containers that it leaves.

    The partition phase and the one of bounds are judged again; planning judges both at once.
    """
    static: Mask = plan._static_verdicts != Verdict.NEVER
    out: dict[str, Mask] = {}
    if plan.predicate is not None:
        if plan.table.partition_columns:
            out["partition"] = static | plan._kept_by_partition_values(dynamic=False)
        if plan._uses_statistics:
            bounds = static | plan.predicate.prune(plan.statistics.of_bounds())
            out["statistics"] = bounds & out.get("partition", bounds)
            if plan.statistics.has_members and plan.predicate.membership_columns:
                out["membership"] = static
            elif (out["statistics"] != static).any():
                out["footers"] = static
    if plan.dynamic is not None:
        out["dynamic"] = plan.verdicts != Verdict.NEVER
    if plan.cut is not None:
        out["limit"] = plan._selected
    return out


def phases_of(plan: Plan) -> Iterator[Phase]:
    """Yield the phases of a plan that took part, in order."""
    before, masks = len(plan.verdicts), masks_of(plan)
    for name, kept in masks.items():
        size, after = plan.table.size(kept), int(np.count_nonzero(kept))
        yield Phase(
            name, before, after, size.files, size.bytes, size.rows,
            plan.seconds.get(name), _note(plan, name, masks),
        )  # fmt: skip
        before = after
    pages, size_of_pages = plan._pages, plan.sizes.pages
    if pages is not None and size_of_pages is not None:
        groups, remaining = pages.row_groups
        note = f"{pages.remaining:,} of {pages.pages:,} judged pages"
        files, rows = size_of_pages.files, size_of_pages.rows
        yield Phase("pages", groups, remaining, files, None, rows, None, note)


def _note(plan: Plan, name: str, masks: Mapping[str, Mask]) -> str:
    match name:
        case "partition" if plan.table.skipped_folders:
            return f"{counted(plan.table.skipped_folders, 'folders')} not listed"
        case "statistics" if timed := [n for n in ("membership", "footers") if n in masks]:
            return f"the time includes {MEMBERSHIP if timed[0] == 'membership' else timed[0]}"
        case "limit":
            assert plan.cut is not None
            cut = plan.cut
            reached = "reached by" if cut.reached else "not reached by the"
            return f"{cut.limit:,}: {reached} {cut.logical_rows:,} rows of fully matched containers"
    return ""
