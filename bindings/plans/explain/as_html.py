"""Print the explanation of a plan as a self-contained page of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from skipstone.bindings.html import document, escape
from skipstone.bindings.plans.explain.as_text import (
    PHASE_NAMES,
    conjunct_rows,
    phase_rows,
    summary,
)
from skipstone.ir.errors import counted

if TYPE_CHECKING:
    from skipstone.bindings.plans.explain.container import ContainerExplanation
    from skipstone.bindings.plans.explain.report import Explanation

STYLE: Final = """
.skipstone h1 { font-size: 18px; font-weight: 600; margin: 0 0 8px; overflow-wrap: anywhere; }
.skipstone h2 { font-size: 14px; margin: 20px 0 4px; }
.skipstone .scroll { overflow-x: auto; }
.skipstone td { white-space: pre-wrap; overflow-wrap: anywhere; vertical-align: top; }
.skipstone td:last-child { vertical-align: middle; }
.skipstone li { margin: 2px 0; overflow-wrap: anywhere; }
.skipstone .bar { background: var(--never); width: 160px; height: 10px; border-radius: 2px; }
.skipstone .bar div { background: var(--maybe); height: 10px; border-radius: 2px; min-width: 1px; }
.skipstone .NEVER { color: var(--faint); } .skipstone .MAYBE { color: var(--maybe); }
.skipstone .ALWAYS { color: var(--always); }
"""


def as_html(e: Explanation) -> str:
    """Return an explanation as a page that loads nothing from the network."""
    return document(f"Plan of {e.condition or 'all rows'}", "\n".join(_body(e)), style=STYLE)


def _body(e: Explanation) -> Iterator[str]:
    yield f"<h1>Plan of <code>{escape(e.condition or 'all rows')}</code></h1>"
    yield "".join(
        f"<div{' class=faint' if i else ''}>{escape(line)}</div>"
        for i, line in enumerate(summary(e))
    )
    if e.unused:
        yield "<h2>Parts that never prune</h2>"
        yield _list(f'<span class="warn">{escape(str(part))}</span>' for part in e.unused)
    if e.phases:
        heading, *rows = phase_rows(e)
        bars = [_bar(p.containers_out, e.containers) if p.name != "pages" else "" for p in e.phases]
        yield "<h2>Phases</h2>"
        yield _table(heading, rows, bars)
    if e.conjuncts:
        heading, *rows = conjunct_rows(e)
        yield "<h2>Conjuncts</h2>"
        yield _table(
            heading, rows, [_bar(e.containers - c.alone, e.containers) for c in e.conjuncts]
        )
    if e.reasons:
        yield "<h2>Why containers are kept</h2>"
        yield _list(
            f"{counted(r.containers, escape(e.unit))}: {escape(r.reason)}"
            + (f'<div class="faint">{escape(r.hint)}</div>' if r.hint else "")
            for r in e.reasons
        )
    if e.dynamic:
        yield f"<h2>Dynamic filters</h2><pre>{escape(chr(10).join(e.dynamic))}</pre>"
    for one in e.stories:
        yield from _container(one)
    if e.program is not None:
        yield f'<h2>Program</h2><pre class="scroll">{escape(e.program)}</pre>'


def _container(one: ContainerExplanation) -> Iterator[str]:
    group = "" if one.row_group is None else f", row group {one.row_group}"
    by = one.pruned_by
    outcome = "kept" if by is None else f"pruned by {PHASE_NAMES.get(by, by)}"
    yield f"<h2>{escape(one.path)}{group}</h2>"
    yield (
        f'<div>{escape(outcome)}: <span class="{one.verdict}">{one.verdict}</span>, '
        f"{counted(one.rows, 'rows')}, {counted(one.bytes, 'bytes')}</div>"
    )
    yield _list(
        f'<code>{escape(c.text)}</code> <span class="{c.verdict}">{c.verdict}</span>'
        + "".join(
            f'<div class="faint">{escape(line)}</div>'
            for line in (*map(str, c.statistics), c.why, c.hint)
            if line
        )
        for c in one.conjuncts
    )


def _table(heading: tuple[str, ...], rows: list[tuple[str, ...]], bars: list[str]) -> str:
    """Return a table; each row ends with a bar."""
    kinds = [' class="number"' if title else "" for title in heading]
    head = "".join(f"<th{k}>{escape(cell)}</th>" for k, cell in zip(kinds, heading, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{k}>{escape(cell)}</td>" for k, cell in zip(kinds, row, strict=True))
        + f"<td>{bar}</td></tr>"
        for row, bar in zip(rows, bars, strict=True)
    )
    return f'<div class="scroll"><table><tr>{head}<th>left</th></tr>{body}</table></div>'


def _bar(part: int, whole: int) -> str:
    """Return a bar that shows how many containers are left; it is empty if none is."""
    share = 100 * part / whole if whole else 0
    filled = f'<div style="width: {share:.2f}%"></div>' if part else ""
    return f'<div class="bar" title="{share:.1f} % left">{filled}</div>'


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"
