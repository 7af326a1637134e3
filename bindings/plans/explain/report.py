"""The explanation of a plan: one object, which text, JSON and HTML print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skipstone.bindings.plans.explain.conjuncts import Conjunct
from skipstone.bindings.plans.explain.container import ContainerExplanation, explain_containers
from skipstone.bindings.plans.explain.dynamic import explain_dynamic
from skipstone.bindings.plans.explain.phases import Phase, phases_of
from skipstone.bindings.plans.explain.predicate import explain as explain_predicate
from skipstone.bindings.plans.explain.reasons import KeptReason
from skipstone.bindings.plans.explain.unused import UnusedPart
from skipstone.ir.node import Reason, not_understood
from skipstone.ir.simplify import FALSE

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.table_protocol import Sizes
    from skipstone.bindings.plans.work import Work
    from skipstone.ir.guarantee import LiteralGuarantee


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which data a plan reads, why, and what would prune more.

    Attributes:
        condition: The condition as it was understood, as SQL; None if there is none.
        rewritten: The condition over statistics.
        never_true: True if no row can match, whatever the statistics, as with x > 5 AND x < 3.
        skipping, kind, prunes_by: As in `Plan`.
        unit: The kind of the containers: "row groups", "files".
        containers, kept: How many were planned, and how many are kept.
        sizes: As in `Plan.sizes`.
        phases: What remained after each phase, in order.
        conjuncts: What each conjunct prunes alone and after those before it.
        reasons: Why containers are kept, with hints.
        unused: Parts of the condition that can never prune.
        not_understood: Parts that are not understood.
        guarantees: Values that a column must have, or must not have.
        order: The columns that rows are sorted by.
        deferred: A limit that is left to the join; None if there is none.
        dynamic: Lines about dynamic filters.
        seconds: Wall-clock seconds of each step of planning, measured while the plan was made;
            "total" is what the call of `plan` took. Empty for plans made from other plans.
        work: What the call of `plan` read. Concurrent plans of the same table in other threads are
            counted, too.
        table_work: What the scan and all plans have read so far.
        skipped_folders: Folders that were not listed.
        unreadable: Path -> error of the files that could not be read, and are kept.
        pages: The row ranges that remain after page pruning, as in `Plan.pages`; None if not
            requested.
        stories: The explanations of the requested containers.
        program: How the condition was lowered; None if not requested.
    """

    condition: str | None
    rewritten: str | None
    never_true: bool
    skipping: str
    kind: str
    prunes_by: str
    unit: str
    containers: int
    kept: int
    sizes: Sizes
    phases: tuple[Phase, ...]
    conjuncts: tuple[Conjunct, ...]
    reasons: tuple[KeptReason, ...]
    unused: tuple[UnusedPart, ...]
    not_understood: tuple[Reason, ...]
    guarantees: tuple[LiteralGuarantee, ...]
    order: tuple[str, ...]
    deferred: int | None
    dynamic: tuple[str, ...]
    seconds: dict[str, float]
    work: Work
    table_work: Work
    skipped_folders: int
    unreadable: dict[str, str]
    pages: dict[str, dict[int, list[tuple[int, int]]]] | None
    stories: tuple[ContainerExplanation, ...]
    program: str | None


def explanation_of(
    plan: Plan, *, program: bool = False, container: str | None = None
) -> Explanation:
    """Return the explanation of a plan.

    Args:
        plan: The plan.
        program: Whether to show how the condition was lowered.
        container: The file, or `FILE:ROW_GROUP`, to explain; None means no file.

    Raises:
        PredicateError: the plan has no such container.
    """
    p, dynamic = plan.predicate, plan.dynamic
    lines = () if dynamic is None else explain_dynamic(dynamic, plan.columns, plan.table.unit)
    return Explanation(
        condition=None if p is None else p.expr,
        rewritten=None if p is None else p.rewritten,
        never_true=p is not None and p.program.can_match == FALSE,
        skipping=plan.skipping,
        kind=plan.kind,
        prunes_by=plan.prunes_by,
        unit=plan.table.unit,
        containers=len(plan.verdicts),
        kept=len(plan.kept),
        sizes=plan.sizes,
        phases=tuple(phases_of(plan)),
        conjuncts=plan.conjuncts,
        reasons=plan.kept_reasons,
        unused=plan.unused_parts,
        not_understood=() if p is None else tuple(not_understood(p.node)),
        guarantees=() if p is None else p.literal_guarantees,
        order=tuple(map(str, plan.order)),
        deferred=plan.deferred,
        dynamic=tuple(lines),
        seconds=plan.seconds,
        work=plan.work,
        table_work=plan.table.work,
        skipped_folders=plan.table.skipped_folders,
        unreadable={path: str(e) for path, e in plan.table.unreadable.items()},
        pages=None if plan._pages is None else plan._pages.ranges,
        stories=() if container is None else explain_containers(plan, container),
        program=explain_predicate(p) if program and p is not None else None,
    )
