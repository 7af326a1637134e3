"""`python -m bench table`: write results as Markdown, and into a block of README.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from bench.report.bandwidth import BANDWIDTH
from bench.report.report import OWN
from bench.report.results import PACKAGES
from bench.report.show import figure

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
README: Final = Path(__file__).parents[2] / "README.md"
COMPARISON: Final = Path(__file__).parents[2] / "docs" / "comparison.md"
# Workloads that compare what users call: from paths or open tables to files or rows.
COMPARED: Final = ("files", "delta", "hive", "iceberg", "scaling", "membership")
ON_DEVICE: Final = ("gpu",)  # its peers are others, so it has a table of its own
PRUNING: Final = ("lakes", "power")  # which files an engine leaves out, not how fast


def markdown(results: Mapping[str, Any]) -> str:
    """Return a table of peers, a row per workload and group; then requirements and runs, folded."""
    there = {name: results[name] for name in ON_DEVICE if name in results}
    here = {name: found for name, found in results.items() if name not in there}
    blocks = [
        _peers(here),
        *(_peers({name: found}, f"`{name}`, {found['title']}. ") for name, found in there.items()),
        _requirements(results),
    ]
    return "\n\n".join(b for b in blocks if b)


def comparison(results: Mapping[str, Any]) -> str:
    """Return what docs/comparison.md shows: times of peers, then what each leaves out."""
    timed = {name: results[name] for name in COMPARED if name in results}
    rows = [
        (f"`{name}`", q["text"], f"{q['value']:g}")
        for name in PRUNING
        if name in results
        for q in results[name]["requirements"]
    ]
    told = _table(("workload", "counted", "found"), rows, "llr") if rows else ""
    return "\n\n".join(b for b in (_peers(timed), told, _ran(timed)) if b)


def _requirements(workloads: Mapping[str, Any]) -> str:
    checked = [(name, q) for name, found in workloads.items() for q in found["requirements"]]
    rows = [
        (
            f"`{name}`",
            q["text"],
            figure(float(q["value"])),
            f"{'≤' if q['at_most'] else '≥'} {q['bound']:g}",
            "yes" if q["met"] else "**no**",
        )
        for name, q in checked
    ]
    missed = [
        f"{name}: {q['text']}, {figure(float(q['value']))}" for name, q in checked if not q["met"]
    ]
    summary = f"{len(checked) - len(missed)} of {len(checked)} requirements are met" + "".join(
        f"; not {m}" for m in missed
    )
    inside = "\n\n".join(
        b
        for b in (
            _table(("workload", "requirement", "figure", "bar", "met"), rows, "llrrl"),
            _ran(workloads),
        )
        if b
    )
    told = _filled(f"<summary>{summary}</summary>")
    return f"<details>\n{told}\n\n{inside}\n\n</details>" if rows else ""


def _peers(workloads: Mapping[str, Any], about: str = "") -> str:
    """Return a table of each engine's best contestant, as a multiple of Skipstone's time."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, workload in workloads.items():
        for t in workload["timings"]:
            if t["engine"] not in (OWN, BANDWIDTH) and "to_own" in t:
                row = found.setdefault((name, t["group"]), {})
                row[t["engine"]] = min(t["to_own"]["median"], row.get(t["engine"], float("inf")))
    engines = list(dict.fromkeys(engine for row in found.values() for engine in row))
    rows = [
        (
            f"`{name}`{': ' + group if group else ''}",
            *(figure(row[e]) if e in row else "–" for e in engines),
        )
        for (name, group), row in found.items()
    ]
    means = (
        f"{about}Each engine's time divided by Skipstone's, median over rounds; above 1, Skipstone "
        "is faster:"
    )
    return (
        f"{_filled(means)}\n\n{_table(('', *engines), rows, 'l' + 'r' * len(engines))}"
        if rows
        else ""
    )


def _ran(workloads: Mapping[str, Any]) -> str:
    """Return which workloads ran where."""
    where: dict[str, list[str]] = {}
    for name, workload in workloads.items():
        ran = workload["ran"]
        versions = ", ".join(f"{p} {ran['versions'][p]}" for p in PACKAGES if p in ran["versions"])
        line = (
            f"{ran['date']}, {ran['processor']}, {ran['cpus']} CPUs, {ran['threads']} threads, "
            f"Python {ran['python']}, {versions}"
        )
        where.setdefault(line, []).append(f"`{name}`")
    text = " ".join(f"{', '.join(names)}: {line}." for line, names in where.items())
    return _filled(text)


def _filled(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], aligned: str) -> str:
    rule = {"l": ":--", "r": "--:"}
    lines = [head, [rule[a] for a in aligned], *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def replace_block(path: Path, text: str) -> bool:
    """Replace the text between the marks of a file; return False if it has none."""
    whole = path.read_text() if path.exists() else ""
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        return False
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    return True
