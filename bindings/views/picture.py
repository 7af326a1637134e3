"""The data of a map: marks, depth and strip as plain lists of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.views.axis import FAR, Axis, Positions, shorten, show_value
from skipstone.bindings.views.groups import Groups, groups_of
from skipstone.bindings.views.marks import (
    bin_starts,
    cells_of,
    cover_of,
    depth_of,
    marks_of,
    strip_of,
)
from skipstone.bindings.views.ranges import MARGIN_NAMES, Margin, Ranges, ranges_of
from skipstone.ir.errors import counted, without_secrets
from skipstone.ir.node import Node, Op, columns_of, show_path
from skipstone.ir.types import leaves_of

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

MAX_MARKS: Final = 2400  # ranges, of all columns together
MAX_BOXES: Final = 900  # rectangles; if there are more, a grid counts those over each cell
ACROSS, UP = 96, 56  # the cells of this grid along each axis
MAX_BINS: Final = 500  # bins of the strip
MAX_IN_MARGIN: Final = 60  # containers of a margin that have a mark of their own
MAX_COLUMNS: Final = 8
MAX_LITERALS: Final = 12  # the condition's literals that are drawn on an axis
MAX_PATH: Final = 110  # characters of a file's path
MAX_WHERE: Final = 2000  # characters of the condition
OPEN: Final = 1e308  # stands for an infinite end: JSON has none
DEFAULT_COLUMNS: Final = 4


def picture_of(plan: Plan, columns: Sequence[str]) -> dict[str, Any]:
    """Return the data of a plan's map.

    Args:
        plan: The plan; none of its data is read.
        columns: The columns to draw; the first two are drawn against each other, too.

    Returns:
        What JSON can hold. Positions are those of `Axis`; `OPEN` and -`OPEN` are open ends.

    Raises:
        UnknownColumn: the table lacks a column.
    """
    groups, n = groups_of(plan), len(plan.verdicts)
    ranges = [ranges_of(plan.statistics, name) for name in columns]
    node = None if plan.predicate is None else plan.predicate.node
    drawn = [
        {**_column(r, groups, MAX_MARKS // max(2, len(ranges))), "literals": _literals(r, node)}
        for r in ranges
    ]
    boxes = _boxes(ranges[0], ranges[1], groups) if len(ranges) > 1 else None
    named = [boxes or {}, *(c["marks"] for c in drawn), *(c["margins"] for c in drawn)]
    firsts = {i for marks in named for i in marks.get("first", ())}
    names, paths, folder = _names(plan, np.array(sorted(firsts), np.int64))
    kept = sum(g.count for g in groups.groups if g.decision in ("filter", "whole"))
    return {
        "n": n,
        "kept": kept,
        "unit": plan.table.unit,
        "where": None if plan.predicate is None else shorten(plan.predicate.expr, MAX_WHERE),
        "folder": folder,
        "notes": _notes(plan),
        "groups": [
            {"text": g.text, "decision": g.decision, "conjunct": g.conjunct, "count": g.count}
            for g in groups.groups
        ],
        "columns": drawn,
        "boxes": boxes,
        "strip": _strip(groups, n),
        "names": names,
        "paths": paths,
    }


def default_columns(plan: Plan) -> list[str]:
    """Return the columns of a plan's map if none are named.

    They are those of the condition, else the partition columns, else the first that has bounds.
    """
    leaves, stats = leaves_of(plan.table.schema), plan.statistics
    used = [] if plan.predicate is None else columns_of(plan.predicate.node)
    named = [p for p in used if p in leaves] or [
        p for name in plan.table.partition_columns if (p := (name,)) in leaves
    ]
    if not named:
        known = [p for p in stats.leaf_paths() if p in leaves and leaves[p].dtype.ordered]
        named = known[:1] or list(leaves)[:1]
    return [show_path(p) for p in named[:DEFAULT_COLUMNS]]


def _column(r: Ranges, groups: Groups, limit: int) -> dict[str, Any]:
    at = np.flatnonzero(r.margin == Margin.AXIS)
    low, high, of = r.low[at], r.high[at], groups.of[at]
    marks = marks_of(at, of, [low, high], limit)
    depth = depth_of(low, high, of, len(groups.groups), ranks=r.axis.kind == "rank")
    return {
        "name": r.name,
        "type": str(r.dtype),
        "axis": _axis(r.axis),
        "note": r.note,
        "open": r.open_ends,
        "marks": {
            "low": _finite(marks.least(r.low)),
            "lowest_high": _finite(marks.least(r.high)),
            "highest_low": _finite(marks.most(r.low)),
            "high": _finite(marks.most(r.high)),
            "from": [r.text("min", i) for i in marks.at_least(r.low).tolist()],
            "to": [r.text("max", i) for i in marks.at_most(r.high).tolist()],
            "count": marks.counts.tolist(),
            "group": groups.of[marks.first].tolist(),
            "first": marks.first.tolist(),
        },
        "margins": _margins(r, groups),
        "depth": {
            "start": _finite(depth.start),
            "end": _finite(depth.end),
            "counts": depth.counts.T.tolist(),
        },
    }


def _literals(r: Ranges, node: Node | None) -> list[list[Any]]:
    """Return position and text of the first values that the condition compares the column with."""
    found: dict[float, str] = {}
    for n in () if node is None else node.walk():
        if not n.args or n.args[0].op is not Op.COLUMN or n.args[0].value != r.path:
            continue
        values = [a.value for a in n.args[1:] if a.op is Op.LITERAL]
        if n.op is Op.IN and isinstance(n.value, tuple):
            values += n.value[:MAX_LITERALS]
        for value in values:
            if value is not None and n.op is not Op.LIKE and len(found) < MAX_LITERALS:
                at = r.placed.locate(value)
                if abs(at) <= FAR:  # neither infinite nor NaN
                    found[at] = show_value(value, r.dtype)
    return [[at, text] for at, text in sorted(found.items())]


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "kind": axis.kind,
        "low": axis.low,
        "high": axis.high,
        "base": str(axis.base) if axis.base else "",
        "zoned": axis.zoned,
        "at": list(axis.labels),
        "labels": list(axis.labels.values()),
    }


def _finite(values: Any) -> list[float]:
    return np.nan_to_num(values, posinf=OPEN, neginf=-OPEN).tolist()  # type: ignore[no-any-return]


def _margins(r: Ranges, groups: Groups) -> dict[str, Any]:
    """Return the marks beside the axis: by margin and group, or by container if there are few."""
    margins: dict[str, list[Any]] = {"margin": [], "group": [], "count": [], "first": []}
    names: list[str] = []
    for margin in MARGIN_NAMES:
        at = np.flatnonzero(r.margin == margin)
        if not len(at):
            continue
        of = groups.of[at]
        order = np.argsort(of, kind="stable")
        starts = np.flatnonzero(np.diff(of[order].astype(np.int64), prepend=-1))
        if len(at) <= MAX_IN_MARGIN:
            starts = np.arange(len(at))
        margins["margin"] += [len(names)] * len(starts)
        margins["group"] += of[order[starts]].tolist()
        margins["count"] += np.diff(starts, append=len(at)).tolist()
        margins["first"] += at[order[starts]].tolist()
        names.append(MARGIN_NAMES[margin])
    return {**margins, "names": names}


def _boxes(x: Ranges, y: Ranges, groups: Groups) -> dict[str, Any]:
    """Return the rectangles of two columns; a column without bounds is open on both sides."""
    there = (x.margin <= Margin.NO_BOUNDS) & (y.margin <= Margin.NO_BOUNDS)
    at = np.flatnonzero(there & ((x.margin == Margin.AXIS) | (y.margin == Margin.AXIS)))
    ends = {
        "x_low": np.where(x.margin == Margin.AXIS, x.low, -np.inf),
        "x_high": np.where(x.margin == Margin.AXIS, x.high, np.inf),
        "y_low": np.where(y.margin == Margin.AXIS, y.low, -np.inf),
        "y_high": np.where(y.margin == Margin.AXIS, y.high, np.inf),
    }
    out: dict[str, Any] = {"count": len(at), "missing": len(x.margin) - len(at)}
    if len(at) > MAX_BOXES:
        return {**out, "cover": _cover(x.axis, y.axis, [e[at] for e in ends.values()], groups, at)}
    marks = marks_of(at, groups.of[at], [e[at] for e in ends.values()], MAX_BOXES)
    firsts = marks.first.tolist()
    out |= {name: _finite(e[marks.first]) for name, e in ends.items()}
    for name, r in (("x", x), ("y", y)):
        out[f"{name}_from"] = [r.text("min", i) for i in firsts]
        out[f"{name}_to"] = [r.text("max", i) for i in firsts]
    return {**out, "group": groups.of[marks.first].tolist(), "first": firsts}


def _cover(x: Axis, y: Axis, ends: list[Positions], groups: Groups, at: Ints) -> dict[str, Any]:
    """Return how many rectangles of each group cover each cell of an even grid."""
    axes = ((x, ACROSS), (x, ACROSS), (y, UP), (y, UP))
    cells = [
        cells_of(end, axis.low, axis.high, n) for end, (axis, n) in zip(ends, axes, strict=True)
    ]
    counts = cover_of(cells, groups.of[at], (len(groups.groups), UP, ACROSS))
    return {"across": ACROSS, "up": UP, "counts": counts.reshape(len(counts), -1).tolist()}


def _strip(groups: Groups, n: int) -> dict[str, Any]:
    """Return the strip: for bins of neighbouring containers, what each conjunct says of them."""
    starts = bin_starts(n, MAX_BINS)
    rows = []
    for text, verdicts in zip(groups.conjuncts, groups.judged, strict=True):
        never, always = strip_of(verdicts, MAX_BINS)
        rows.append({"text": text, "never": never.tolist(), "always": always.tolist()})
    whole = [
        np.add.reduceat((groups.of == g).astype(np.int64), starts).tolist() if n else []
        for g in range(len(groups.groups))
    ]
    return {"start": starts.tolist(), "rows": rows, "whole": whole, "hidden": groups.hidden}


def _names(plan: Plan, at: Ints) -> tuple[dict[int, list[int]], list[str], str]:
    """Return container -> [path, row group] for some containers, the paths, and their folder."""
    pairs: list[tuple[str, int]] = []
    for path, found in plan.table.row_groups_of(at).items():
        pairs += [(path, g) for g in found] or [(path, -1)]
    if len(pairs) != len(at):  # a path stands twice in the table
        pairs = [
            (path, found[0] if found else -1)
            for i in at
            for path, found in plan.table.row_groups_of(np.array([i])).items()
        ]
    paths = [without_secrets(path) for path, _ in pairs]
    folder = ""
    if paths:
        first, last = min(paths), max(paths)  # what these two share, all do
        same = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), -1)
        folder = first[: first.rfind("/", 0, None if same < 0 else same) + 1]
    number: dict[str, int] = {}
    for path in paths:
        number.setdefault(shorten(path.removeprefix(folder), MAX_PATH), len(number))
    names = {
        i: [number[shorten(path.removeprefix(folder), MAX_PATH)], group]
        for i, path, (_, group) in zip(at.tolist(), paths, pairs, strict=True)
    }
    return names, list(number), shorten(folder, 4 * MAX_PATH)


def _notes(plan: Plan) -> list[str]:
    """Return sentences about what the map leaves out."""
    notes = []
    if plan.table.skipped_folders:
        notes.append(
            f"Not drawn: {counted(plan.table.skipped_folders, 'folders')}, ruled out by partition "
            "values before the files were listed."
        )
    if plan.table.unreadable:
        notes.append(f"Kept, but unreadable: {counted(len(plan.table.unreadable), 'files')}.")
    return notes
