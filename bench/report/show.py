"""Print reports as text tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.report.report import Report


def show(name: str, report: Report) -> None:
    """Print one report."""
    print(f"\n{name}: {report.title}\n")
    print(table(report.rows))
    if notes := [*report.notes, *_absent(report)]:
        print("\n" + "\n".join(notes))
    print()
    for q in report.requirements:
        print(
            f"{'met   ' if q.met else 'FAILED'}  {q.text}: {figure(q.value)} "
            f"({'at most' if q.at_most else 'at least'} {q.bound:g})"
        )


def _absent(report: Report) -> list[str]:
    """Return a line for each reason why peers are absent."""
    engines: dict[str, dict[str, None]] = {}
    groups: dict[str, dict[str, None]] = {}
    for a in report.absent:
        engines.setdefault(a.why, {})[a.engine] = None
        groups.setdefault(a.why, {})[a.group] = None
    places = {why: ", ".join(f"`{g}`" for g in found if g) for why, found in groups.items()}
    return [
        f"{', '.join(found)} absent{' from ' + places[why] if places[why] else ''}: {why}"
        for why, found in engines.items()
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay out rows of the same columns, with the first column aligned left."""
    if not rows:
        return ""
    if any(list(row) != list(rows[0]) for row in rows):
        raise ValueError(f"rows have different columns: {sorted({tuple(row) for row in rows})}")
    cells = [list(rows[0]), *([figure(v) for v in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        [
            text.ljust(w) if i == 0 else text.rjust(w)
            for i, (text, w) in enumerate(zip(line, widths, strict=True))
        ]
        for line in cells
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def figure(value: object) -> str:
    """Format a number with about three digits."""
    if not isinstance(value, float):
        return str(value)
    return (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )
