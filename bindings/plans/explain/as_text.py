"""Print the explanation of a plan as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from skipstone.bindings.plans.explain.phases import MEMBERSHIP
from skipstone.ir.errors import clip, counted, shown_number

if TYPE_CHECKING:
    from skipstone.bindings.plans.explain.container import ContainerExplanation
    from skipstone.bindings.plans.explain.phases import Phase
    from skipstone.bindings.plans.explain.report import Explanation

Row = tuple[str, ...]
MAX_SHOWN: Final = 80  # characters of a conjunct in a table


def as_text(e: Explanation) -> str:
    """Return an explanation as a tree of lines."""
    return "\n".join(_lines(e))


def _lines(e: Explanation) -> Iterator[str]:
    yield f"Plan of {e.condition or 'all rows'}"
    yield from (f"  {line}" for line in summary(e))
    yield from _section("phases", _table(phase_rows(e)))
    yield from _section("conjuncts", _table(conjunct_rows(e)))
    yield from _section(
        "kept",
        _with_hints((f"{counted(r.containers, e.unit)}: {r.reason}", r.hint) for r in e.reasons),
    )
    yield from _section("unused", [[str(part)] for part in e.unused])
    if e.dynamic:
        yield "dynamic filters"
        yield from (f"  {line}" for line in e.dynamic)
    for one in e.stories:
        yield from _container(one)
    if e.program is not None:
        yield "program"
        yield from (f"  {line}" for line in e.program.splitlines())


# The name of a phase -> its name for display.
PHASE_NAMES: Final = {"membership": MEMBERSHIP}


def summary(e: Explanation) -> Iterator[str]:
    """Yield lines about the whole plan: what it keeps, in what time, and what was read."""
    total, scan = e.sizes.total, e.sizes.scan
    parts = []
    if e.unit != "files":
        the, listed = ("the ", " listed") if e.skipped_folders else ("", "")
        parts.append(f"{e.kept:,} of {the}{counted(e.containers, e.unit)}{listed}")
    parts += [
        f"{_of(kept, all_, what)}{_share(kept, all_)}"
        for what, kept, all_ in (
            ("files", scan.files, total.files),
            ("bytes", scan.bytes, total.bytes),
            ("rows", scan.rows, total.rows),
        )
    ]
    yield f"keeps {', '.join(parts)}"
    if e.never_true:
        yield "no row can match: the condition is never TRUE, whatever the statistics say"
    if scan.logical_rows != scan.rows:
        yield f"live rows: {shown_number(scan.logical_rows)} of {shown_number(total.logical_rows)}"
    yield f"prunes by {e.prunes_by}"
    if e.seconds:
        yield _times(e.seconds)
    counts = "".join(f", {counted(n, name)}" for name, n in e.work.counts.items())
    now = f"{counted(e.work.bytes, 'bytes')}{counts}"
    yield f"this plan read {now}; the scan and all plans: {e.table_work}"
    if e.order:
        yield f"order {', '.join(e.order)}"
    if e.deferred is not None:
        yield (
            f"limit {e.deferred:,}: left to the join, because it is not certain which rows have "
            "a match"
        )
    if e.skipped_folders:
        yield f"{counted(e.skipped_folders, 'folders')} not listed, by partition values"
    yield from (f"kept, but unreadable: {error}" for error in e.unreadable.values())


def _times(seconds: Mapping[str, float]) -> str:
    """Return how long planning took, by steps that add up to the whole."""
    steps = {name: s for name, s in seconds.items() if name != "total"}
    whole = seconds.get("total")
    if whole is not None:
        steps["listing, opening and other work"] = max(0.0, whole - sum(steps.values()))
    shown = ", ".join(f"{name} {milliseconds(s)}" for name, s in steps.items())
    return f"planned in {'unknown time' if whole is None else milliseconds(whole)}: {shown}"


def _of(kept: int | None, total: int | None, what: str) -> str:
    if total is not None:
        return f"{shown_number(kept)} of {counted(total, what)}"
    return counted(kept, what)


def phase_rows(e: Explanation) -> list[Row]:
    """Return the phases as rows of a table, with a heading."""
    if not e.phases:
        return []
    judged = "before → after" if e.unit == "files" else e.unit  # another column holds the files
    return [
        ("", judged, "files", "bytes", "rows", "time", ""),
        *(_phase_row(p) for p in e.phases),
    ]


def _phase_row(p: Phase) -> Row:
    time = "" if p.seconds is None else milliseconds(p.seconds)
    change = f"{p.containers_in:,} → {p.containers_out:,}"
    return (
        PHASE_NAMES.get(p.name, p.name),
        change,
        shown_number(p.files),
        shown_number(p.bytes),
        shown_number(p.rows),
        time,
        p.note,
    )


def conjunct_rows(e: Explanation) -> list[Row]:
    """Return the conjuncts as rows of a table, with a heading."""
    if not e.conjuncts:
        return []
    return [
        ("", "prunes alone", "in order", "every row passes"),
        *(
            (clip(c.text, MAX_SHOWN), f"{c.alone:,}", f"{c.after:,}", f"{c.fully:,}")
            for c in e.conjuncts
        ),
    ]


def milliseconds(seconds: float) -> str:
    """Return a time for display."""
    return f"{seconds * 1e3:,.1f} ms"


def _share(kept: int | None, total: int | None) -> str:
    return "" if kept is None or not total else f" ({100 * kept / total:.1f} %)"


def _table(rows: list[Row]) -> list[list[str]]:
    """Return rows as aligned lines: the first column to the left, numbers to the right."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    out = []
    for row in rows:
        cells = [
            cell.ljust(w) if i == 0 or (i == last and i > 3) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        out.append(["  ".join(cells).rstrip()])
    return out


def _with_hints(items: Iterable[tuple[str, str]]) -> list[list[str]]:
    return [[text, *([f"hint: {hint}"] if hint else [])] for text, hint in items]


def _section(title: str, entries: list[list[str]]) -> Iterator[str]:
    """Yield a heading and its entries as the branches of a tree; nothing if there are none."""
    if not entries:
        return
    if title in ("phases", "conjuncts"):  # the first entry is a heading
        yield title
        yield f"   {entries[0][0]}"
        entries = entries[1:]
    else:
        yield title
    yield from _branches(entries)


def _branches(entries: list[list[str]]) -> Iterator[str]:
    """Yield the first line of each entry as a branch of a tree, and its other lines below it."""
    for i, (first, *more) in enumerate(entries):
        last = i == len(entries) - 1
        yield f"{'└─ ' if last else '├─ '}{first}"
        yield from (f"{'   ' if last else '│  '}   {line}" for line in more)


def _container(one: ContainerExplanation) -> Iterator[str]:
    """Yield the lines about one container."""
    group = "" if one.row_group is None else f", row group {one.row_group}"
    yield f"container {one.path}{group}"
    if one.pruned_by is not None:
        outcome = f"pruned by {PHASE_NAMES.get(one.pruned_by, one.pruned_by)}"
    else:
        outcome = (
            "kept, every row matches" if one.verdict == "ALWAYS" else "kept, rows are filtered"
        )
    yield f"   {outcome}: {counted(one.rows, 'rows')}, {counted(one.bytes, 'bytes')}"
    entries = []
    for c in one.conjuncts:
        why = f": {c.why}" if c.why else ""
        lines = [f"{c.text}  {c.verdict}{why}", *map(str, c.statistics)]
        entries.append([*lines, *([f"hint: {c.hint}"] if c.hint else [])])
    yield from _branches(entries)
