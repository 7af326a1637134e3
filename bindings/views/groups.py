"""Group the containers of a plan by the conjunct that pruned them, or why they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from skipstone.bindings.views.axis import shorten
from skipstone.ir.node import conjuncts_of
from skipstone.ir.outcome import Verdict
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

MAX_CONJUNCTS: Final = 8  # conjuncts with a colour of their own; the others share one
MAX_ROWS: Final = 24  # conjuncts that the strip shows
MAX_SQL: Final = 120  # characters of a conjunct
Decision = Literal["pruned", "limit", "filter", "whole"]
DECISIONS: Final[dict[Decision, str]] = {
    "pruned": "pruned",
    "limit": "left out: the limit is reached",
    "filter": "read, rows are filtered",
    "whole": "read, every row matches",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Containers for which a plan made the same decision for the same reason.

    Attributes:
        text: Why, for display; the conjunct as SQL if one pruned them.
        decision: What the plan decided: a key of `DECISIONS`.
        conjunct: The position of the conjunct in the condition; None if no single one decided.
        count: The number of containers.
    """

    text: str
    decision: Decision
    conjunct: int | None
    count: int


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of n containers.

    Attributes:
        groups: Those that have a container, pruned ones first, in the order of the conjuncts.
        of: The position in `groups` of each container's, uint8, shape (n,).
        conjuncts: The first conjuncts, as SQL.
        judged: The verdicts of each of `conjuncts` alone, uint8, each of shape (n,).
        hidden: The number of conjuncts that `conjuncts` leaves out.
    """

    groups: tuple[Group, ...]
    of: npt.NDArray[np.uint8]
    conjuncts: tuple[str, ...] = ()
    judged: tuple[npt.NDArray[np.uint8], ...] = ()
    hidden: int = 0


def groups_of(plan: Plan) -> Groups:
    """Group the containers of a plan by the first conjunct that prunes them.

    Args:
        plan: The plan. Its statistics are judged once more for each conjunct.
    """
    predicate = plan.predicate
    nodes = () if predicate is None else conjuncts_of(predicate.node)
    nodes = tuple(n for n in nodes if n != TRUE)
    refine = plan.table.refinement()
    unexplained = plan.verdicts == Verdict.NEVER
    first: list[npt.NDArray[np.bool_]] = []
    judged = []
    for k, node in enumerate(nodes):
        assert predicate is not None
        part = predicate.part(node)
        verdicts = part.evaluate(plan._pruned_by)
        if refine is not None:
            verdicts = refine(part, verdicts)
        if k < MAX_ROWS:
            judged.append(verdicts)
        first.append(unexplained & (verdicts == Verdict.NEVER))
        unexplained = unexplained & ~first[-1]
    by_joins = unexplained & (plan._static_verdicts != Verdict.NEVER)
    texts = [shorten(show(n), MAX_SQL) for n in nodes]
    kept = np.zeros(len(plan.verdicts), np.bool_)
    kept[plan.kept] = True
    return _numbered(
        plan,
        [*zip(texts, first, strict=True)],
        [
            ("several conjuncts together, partition values or bloom filters",
             "pruned", unexplained & ~by_joins),
            ("keys of a join", "pruned", by_joins),
            (DECISIONS["limit"], "limit", ~kept & (plan.verdicts != Verdict.NEVER)),
            (DECISIONS["filter"], "filter", kept & (plan.verdicts == Verdict.MAYBE)),
            (DECISIONS["whole"] if nodes else "read: there is no condition", "whole",
             kept & (plan.verdicts == Verdict.ALWAYS)),
        ],
        tuple(texts[:MAX_ROWS]), tuple(judged),
    )  # fmt: skip


def _numbered(
    plan: Plan,
    conjuncts: list[tuple[str, npt.NDArray[np.bool_]]],
    others: list[tuple[str, Decision, npt.NDArray[np.bool_]]],
    texts: tuple[str, ...],
    judged: tuple[npt.NDArray[np.uint8], ...],
) -> Groups:
    """Number the groups that have a container; conjuncts beyond `MAX_CONJUNCTS` share one."""
    pruning = [(int(where.sum()), k) for k, (_, where) in enumerate(conjuncts) if where.any()]
    coloured = {k for _, k in sorted(pruning, key=lambda p: (-p[0], p[1]))[:MAX_CONJUNCTS]}
    rest = np.zeros(len(plan.verdicts), np.bool_)
    for _, k in pruning:
        if k not in coloured:
            rest |= conjuncts[k][1]
    found: list[tuple[str, Decision, int | None, npt.NDArray[np.bool_]]] = [
        (conjuncts[k][0], "pruned", k, conjuncts[k][1]) for _, k in pruning if k in coloured
    ]
    found.append((f"{len(pruning) - len(coloured)} other conjuncts", "pruned", None, rest))
    found += [(text, decision, None, where) for text, decision, where in others]
    of = np.zeros(len(plan.verdicts), np.uint8)
    groups: list[Group] = []
    for text, decision, conjunct, where in found:
        count = int(where.sum())
        if count:
            of[where] = len(groups)
            groups.append(Group(text, decision, conjunct, count))
    return Groups(tuple(groups), of, texts, judged, len(conjuncts) - len(texts))
