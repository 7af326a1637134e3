"""`first`: the first answers that a person waits for; `--only` chooses parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bench.first.files import first_files
from bench.first.predicates import first_predicates
from bench.first.processes import first_processes
from bench.first.tables import first_tables
from bench.report.report import Options, Report

PARTS: Final[Mapping[str, Callable[[Options], Report]]] = {
    "predicates": first_predicates,
    "processes": first_processes,
    "files": first_files,
    "tables": first_tables,
}


def first(options: Options) -> Report:
    """First answers: new predicates, fresh processes, small files and tables."""
    if unknown := set(options.only) - set(PARTS):
        raise ValueError(f"--only names {min(unknown)!r}; expected any of {', '.join(PARTS)}")
    report = Report("what a person meets first")
    for name in options.only or PARTS:
        part = PARTS[name](options)
        report.rows += [_row(name, row) for row in part.rows]
        report.timings += part.timings
        report.absent += part.absent
        report.requirements += part.requirements
        report.notes += [f"{name}: {part.title}", *part.notes]
    return report


def _row(part: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose columns are those of all parts."""
    unit = next(key for key in row if key not in ("", "goal"))
    shown = {"part": part, "": row[""], "figure": row[unit], "unit": unit}
    return {**shown, "goal": row.get("goal", "")}
