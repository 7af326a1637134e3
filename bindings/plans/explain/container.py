"""Explain one container of a plan: what each conjunct saw there, and its verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.explain.phases import masks_of
from skipstone.bindings.plans.explain.undecided import undecided_reasons
from skipstone.ir.errors import PredicateError, clip, printable
from skipstone.ir.node import Node, columns_of, conjuncts_of, show_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.text import show

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.table_protocol import Positions
    from skipstone.ir.node import Path

MAX_STORIES: Final = 1_000  # row groups of one file
MAX_SHOWN: Final = 60  # characters of a bound


@dataclass(frozen=True, slots=True)
class SeenStatistics:
    """The statistics of a column in one container, for display; None is unknown.

    Attributes:
        column: The column.
        min, max: The bounds.
        null_count, nan_count: Rows that are NULL and NaN.
    """

    column: str
    min: str | None
    max: str | None
    null_count: int | None
    nan_count: int | None

    def __str__(self) -> str:
        low, high = self.min or "unknown", self.max or "unknown"
        nulls = "unknown NULLs" if self.null_count is None else f"{self.null_count:,} NULLs"
        nans = f", {self.nan_count:,} NaNs" if self.nan_count else ""
        return f"{self.column} from {low} to {high}, {nulls}{nans}"


@dataclass(frozen=True, slots=True)
class ConjunctExplanation:
    """The verdict of one conjunct on a container, with its reason.

    Attributes:
        text: The conjunct as SQL.
        verdict: "NEVER", "MAYBE" or "ALWAYS".
        why: Why it could not decide; "" if it did.
        hint: What would let it decide; "" if that is not known.
        statistics: The statistics of its columns.
    """

    text: str
    verdict: str
    why: str
    hint: str
    statistics: tuple[SeenStatistics, ...]


@dataclass(frozen=True, slots=True)
class ContainerExplanation:
    """What a plan decided about one container.

    Attributes:
        path: Its file.
        row_group: Its number in the file; None if the container is the whole file.
        verdict: The verdict of the condition and the dynamic filters: "NEVER", "MAYBE", "ALWAYS".
        kept: Whether it is read.
        pruned_by: The phase that ruled it out; None if none did.
        rows, bytes: Its size; None is unknown.
        conjuncts: What each conjunct decided.
    """

    path: str
    row_group: int | None
    verdict: str
    kept: bool
    pruned_by: str | None
    rows: int | None
    bytes: int | None
    conjuncts: tuple[ConjunctExplanation, ...]


def explain_containers(plan: Plan, container: str) -> tuple[ContainerExplanation, ...]:
    """Return an explanation of each container of a file, in its order.

    Args:
        plan: The plan.
        container: The file's path, in full or in the table, or the end of it, and possibly `:` and
            a row group.

    Raises:
        PredicateError: no file of the plan, or several, have that path, or the file has no such
            row group.
    """
    if not isinstance(container, str):
        raise PredicateError(f"container is {container!r:.60}; expected FILE or FILE:ROW_GROUP")
    found = _find(plan, container)
    masks = masks_of(plan)
    parts = () if plan.predicate is None else conjuncts_of(plan.predicate.node)
    verdicts = [
        plan.predicate.part(c).evaluate(plan.statistics)
        for c in parts
        if plan.predicate is not None
    ]
    out = []
    for at, path, group in found[:MAX_STORIES]:
        chosen = np.zeros(len(plan.verdicts), np.bool_)
        chosen[at] = True
        size = plan.table.size(chosen)
        pruned_by = next((name for name, kept in masks.items() if not kept[at]), None)
        seen = tuple(
            _conjunct(plan, c, Verdict(int(v[at])), at)
            for c, v in zip(parts, verdicts, strict=True)
        )
        verdict, kept = Verdict(int(plan.verdicts[at])).name, bool(plan._selected[at])
        sizes = size.rows, size.bytes
        out.append(ContainerExplanation(path, group, verdict, kept, pruned_by, *sizes, seen))
    return tuple(out)


def _find(plan: Plan, container: str) -> list[tuple[int, str, int | None]]:
    """Return position, path and row group of the containers that are named."""
    located = list(_located(plan))
    paths = list(dict.fromkeys(path for _, path, _ in located))
    name, _, number = container.rpartition(":")
    whole = container in paths or not number.isdecimal()
    named, group = (container, None) if whole else (name, int(number))
    for wanted in (named, plan.table.full_path(named)):
        if fitting := [p for p in paths if p == wanted]:
            break
    else:
        fitting = [p for p in paths if p.endswith("/" + named.lstrip("/"))]
    if len(fitting) != 1:
        what = (
            "several files of the plan end so"
            if fitting
            else "the plan has no such file; its files are"
        )
        some = fitting or paths
        more = f" and {len(some) - 3:,} more" if len(some) > 3 else ""
        shown = ", ".join(map(clip, some[:3])) + more
        raise PredicateError(
            f"container is {clip(container, 300)!r}; {what}: {shown}. "
            "Expected FILE or FILE:ROW_GROUP"
        )
    found = [one for one in located if one[1] == fitting[0]]
    chosen = found if group is None else [one for one in found if one[2] == group]
    if not chosen:
        groups = sum(one[2] is not None for one in found)
        raise PredicateError(
            f"container names row group {group} of {fitting[0]}; "
            + (f"the file has {groups}, from 0" if groups else "its containers are whole files")
        )
    return chosen


def _located(plan: Plan) -> Iterator[tuple[int, str, int | None]]:
    """Yield position, path and row group of every container, in table order."""
    n = len(plan.verdicts)
    every: Positions = np.arange(n, dtype=np.int64)
    by_path = plan.table.row_groups_of(every)
    located: list[tuple[str, int | None]] = []
    if sum(max(1, len(groups)) for groups in by_path.values()) == n:
        for path, groups in by_path.items():
            located += [(path, g) for g in groups] or [(path, None)]
    else:  # a file is listed twice
        for at in every:
            for path, groups in plan.table.row_groups_of(np.array([at])).items():
                located.append((path, groups[0] if groups else None))
    yield from ((at, path, group) for at, (path, group) in enumerate(located))


def _conjunct(plan: Plan, part: Node, verdict: Verdict, at: int) -> ConjunctExplanation:
    why = hint = ""
    if verdict == Verdict.MAYBE:
        here = np.zeros(len(plan.verdicts), np.bool_)
        here[at] = True
        reason, _ = next(undecided_reasons(part, plan.statistics, here))
        missing = plan.table.why_missing(reason.path, reason.statistic, np.array([at]))
        why, hint = reason.text, reason.hint or (missing if reason.path else "")
    seen = tuple(_seen(plan, path, at) for path in columns_of(part))
    return ConjunctExplanation(show(part), verdict.name, why, hint, seen)


def _seen(plan: Plan, path: Path, at: int) -> SeenStatistics:
    raw = plan.statistics.raw(path)
    low, high = (None if a is None else _value(a[at]) for a in (raw.min, raw.max))
    nulls, nans = (None if a is None else a[at].as_py() for a in (raw.null_count, raw.nan_count))
    return SeenStatistics(show_path(path), low, high, nulls, nans)


def _value(scalar: pa.Scalar) -> str | None:
    """Return a bound for display; None if it is unknown."""
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError, ImportError, pa.ArrowException):
        value = scalar  # Python has no such day, or no nanoseconds, or it is not UTF-8
    if value is None:
        return None
    shown = repr(value) if isinstance(value, str | bytes) else printable(str(value))
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
