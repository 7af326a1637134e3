"""The advisor's report as text and as HTML. Both show the same sections of the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from skipstone.bindings.html import escape
from skipstone.bindings.layout.problems import MIN_PARTITION_BYTES, shown_bytes
from skipstone.ir.errors import counted

if TYPE_CHECKING:
    from skipstone.bindings.layout.advice import Advice, Estimate

MAX_ROWS: Final = 12  # the candidates that are printed; of queries, twice as many
WIDTH: Final = 64  # characters of a condition


class Section(NamedTuple):
    """A part of the report: a heading, a table, lines, and statements to copy.

    `numbers` is how many columns at the right hold numbers.
    """

    heading: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()
    code: Sequence[str] = ()
    numbers: int = 0


def headline(advice: Advice) -> str:
    """Return the answer in one sentence."""
    if not advice.queries:
        return "The workload has no condition on this table that can be used."
    now = advice.current
    if advice.best is None:
        return (
            f"Keep the current layout: queries read {_share(now)} of the table, and no candidate "
            "would read clearly less."
        )
    queries = "queries of the workload" if advice.has_workload else "searches for one value"
    return (
        f"Recommended layout: {advice.best.label}. On average, {queries} would read about "
        f"{_share(advice.best)} of the table instead of {_share(now)}.{_warning(advice.best)}"
    )


def _small_partitions(e: Estimate) -> str:
    """Return the mean size of a layout's partitions if they are small; else ""."""
    size = e.partition_bytes
    return "" if size is None or size >= MIN_PARTITION_BYTES else shown_bytes(size)


def _warning(e: Estimate) -> str:
    small = _small_partitions(e)
    return f" Its partitions would be small: {small} on average." if small else ""


def _share(estimate: Estimate) -> str:
    return f"{estimate.share:.1%}"


def sections(advice: Advice) -> Iterator[Section]:
    """Yield the parts of the report."""
    if advice.candidates or advice.queries:
        yield _layouts(advice)
    if advice.queries:
        yield _workload(advice)
    if advice.unread:
        yield Section(
            "Parts of the workload that were not used",
            lines=[f"{t}: {why}" for t, why in advice.unread],
        )
    if len(advice.clustering):
        yield Section(
            "Current clustering",
            ("column", "constant", "unknown", "average overlaps", "average depth"),
            [
                (c.column, f"{c.constant:,}", f"{c.unknown:,}",
                 f"{c.average_overlaps:,.1f}", f"{c.average_depth:,.1f}")
                for c in advice.clustering
            ],
            numbers=4,
        )  # fmt: skip
    if advice.problems:
        yield Section("Problems with statistics and files", lines=advice.problems)
    if advice.statements:
        for s in advice.statements:
            yield Section(f"To run in {s.engine}", lines=[s.note] if s.note else [], code=[s.sql])
    if advice.limits:
        yield Section("What the predictions assume", lines=advice.limits)


def _layouts(advice: Advice) -> Section:
    in_files = advice.unit == "files"  # the containers are files
    return Section(
        f"Layouts, predicted from {advice.source}",
        (
            "layout", "bytes read", "of table",
            *(() if in_files else (f"{advice.unit} read",)), "files read",
        ),
        [
            (
                _named(e),
                "unknown" if advice.bytes is None else shown_bytes(e.share * advice.bytes),
                f"{e.share:.1%}",
                *(() if in_files else (f"{e.containers:,.1f}",)),
                f"{e.files:,.1f}",
            )
            for e in (advice.current, *advice.candidates[:MAX_ROWS])
        ],
        [
            *_more(len(advice.candidates) - MAX_ROWS, "layouts"),
            "Each row shows what a query reads on average.",
        ],
        numbers=3 if in_files else 4,
    )  # fmt: skip


def _named(e: Estimate) -> str:
    """Return a layout's label, with any drawback."""
    notes = [] if e.runnable else ["no statement can write it"]
    if small := _small_partitions(e):
        notes.append(f"small partitions: {small} on average")
    return f"{e.label} ({'; '.join(notes)})" if notes else e.label


def _workload(advice: Advice) -> Section:
    best = advice.best.shares if advice.best else None
    return Section(
        "Workload"
        if advice.has_workload
        else "No workload given: columns ranked by searches for one value",
        ("condition", "count", "reads now", *(("would read",) if best else ())),
        [
            (
                (q.text if len(q.text) <= WIDTH else q.text[: WIDTH - 3] + "...")
                + (f" ({q.note})" if q.note else ""),
                f"{q.weight:,}",
                f"{q.share:.1%}",
                *((f"{best[i]:.1%}",) if best else ()),
            )
            for i, q in enumerate(advice.queries[: 2 * MAX_ROWS])
        ],
        _more(len(advice.queries) - 2 * MAX_ROWS, "conditions"),
        numbers=2 + (best is not None),
    )


def _more(hidden: int, what: str) -> list[str]:
    return [f"... and {hidden:,} more {what}"] if hidden > 0 else []


def _size(advice: Advice) -> str:
    size = "unknown size" if advice.bytes is None else shown_bytes(advice.bytes)
    rows = "" if advice.rows is None else f", {counted(advice.rows, 'rows')}"
    groups = f", {counted(advice.containers, 'row groups')}" if advice.unit == "row groups" else ""
    return (
        f"{advice.table}: {advice.format}, {size}{rows}, {counted(advice.files, 'files')}{groups}"
    )


def text_of(advice: Advice) -> str:
    """Return the report as text."""
    out = [_size(advice), "", headline(advice)]
    for s in sections(advice):
        out += ["", s.heading, "-" * len(s.heading)]
        out += _grid(s) + [*s.lines] + [line for code in s.code for line in code.splitlines()]
    return "\n".join(out)


def _grid(s: Section) -> list[str]:
    if not s.columns:
        return []
    cells = [tuple(s.columns), *map(tuple, s.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(s.columns))]
    first_number = len(widths) - s.numbers
    return [
        "  ".join(
            cell.ljust(w) if i < first_number else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def html_of(advice: Advice) -> str:
    """Return the report as HTML, without a page around it."""
    out = [f"<p class='faint'>{escape(_size(advice))}</p>", f"<h2>{escape(headline(advice))}</h2>"]
    for s in sections(advice):
        out.append(f"<h3>{escape(s.heading)}</h3>")
        if s.columns:
            out.append(_html_grid(s))
        out += [f"<p>{escape(line)}</p>" for line in s.lines]
        out += [f"<pre>{escape(code)}</pre>" for code in s.code]
    return "\n".join(out)


def _html_grid(s: Section) -> str:
    first_number = len(s.columns) - s.numbers

    def row(cells: Sequence[str], tag: str) -> str:
        number = f"{tag} class='number'"
        return "<tr>" + "".join(
            f"<{number if i >= first_number else tag}>{escape(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        )

    body = "".join(row(r, "td") for r in s.rows)
    return f"<table>{row(s.columns, 'th')}{body}</table>"
