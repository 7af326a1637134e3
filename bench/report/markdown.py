"""`python -m bench table`: write results as Markdown, and into README.md and docs/."""

from __future__ import annotations

import re
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
FIGURES: Final = Path(__file__).parents[2] / "docs" / "figures.md"
COMPARISON: Final = Path(__file__).parents[2] / "docs" / "comparison.md"
# Rows of the table in README.md: workload and group -> label. Both wins and losses are shown.
SHOWN: Final = {
    ("ranges", ""): "judge 10 million containers in memory",
    ("files", "paths to row groups"): "plan over 20 Parquet files of 500 row groups",
    ("hive", "in one folder"): "plan over 20,000 Hive files, for one folder",
    ("delta", "stats_parsed"): "plan over a million Delta files (parsed statistics)",
    ("delta", "JSON"): "plan over a million Delta files (JSON statistics)",
    ("iceberg", "three tests, by bounds"): "plan over 200,000 Iceberg files",
    ("first", "a fresh process, one id in 10,000 files"): "plan 10,000 files in a fresh process",
    ("rows", "one"): "read rows of one sorted file",
    ("rows", "orders"): "read rows of 64 files that are sorted by another column",
    ("rows", "delta"): "read rows of a Delta table of 256 files",
    ("rows", "iceberg"): "read rows of an Iceberg table of 256 files",
    ("remote", "scattered rows, Parquet"): "read rows of 200 Parquet objects in S3",
    ("remote", "scattered rows, Delta"): "read rows of 200 Delta objects in S3",
    ("remote", "a lookup, large Parquet"): "look up rows of 6 large Parquet objects in S3",
    ("files", "paths to the number of matching rows"): "count rows in tiny row groups",
}
SHOWN_PEERS: Final = ("pyarrow", "Polars", "DuckDB", "DataFusion", "deltalake", "pyiceberg")
IN_SPARK: Final = ("tpch", "tpcds", "tpcds_delta", "tpch_s3")
SHARE_OF_SPARK: Final = re.compile(r"(.*): total time.*, as a share of plain Spark's")
# Workloads that compare what users call, from paths or open tables to files or rows.
COMPARED: Final = ("files", "delta", "hive", "iceberg", "scaling", "membership")
ON_DEVICE: Final = ("gpu",)  # it has other peers, so it gets its own table
MEANS: Final = (
    "Each engine's time divided by Skipstone's time (median over rounds). Above 1, Skipstone is "
    "faster:"
)
PRUNING: Final = ("lakes", "power")  # which files an engine skips, not how fast


def markdown(results: Mapping[str, Any]) -> str:
    """Return what docs/figures.md shows: tables of peers, goals, and machines."""
    there = {name: results[name] for name in ON_DEVICE if name in results}
    here = {name: found for name, found in results.items() if name not in there}
    blocks = [
        _peers(here),
        *(_peers({name: found}, f"`{name}`, {found['title']}. ") for name, found in there.items()),
        _requirements(results),
    ]
    return "\n\n".join(b for b in blocks if b)


def highlights(results: Mapping[str, Any]) -> str:
    """Return what README.md shows: a few rows of each kind, and how many goals are met."""
    found = _rows_of_peers({name: results[name] for name, _ in SHOWN if name in results})
    shown = {key: found[key] for key in SHOWN if key in found}
    engines = [e for e in SHOWN_PEERS if any(e in row for row in shown.values())]
    rows = [
        (SHOWN[key], *(figure(row[e]) if e in row else "–" for e in engines))
        for key, row in shown.items()
    ]
    sums = [
        (f"`{name}`, {match[1]}", figure(float(q["value"])))
        for name in IN_SPARK
        if name in results
        for q in results[name]["requirements"]
        if (match := SHARE_OF_SPARK.fullmatch(q["text"]))
    ]
    checked = [q for found in results.values() for q in found["requirements"]]
    met = sum(q["met"] for q in checked)
    told = (
        "Benchmarks set goals for their figures, such as at most half of another engine's time. "
        f"{met} of {len(checked)} goals are met. [docs/figures.md](docs/figures.md) lists all "
        "figures, including missed goals."
    )
    in_spark = "All queries of TPC-H and TPC-DS in Spark, with `sks.enable(spark)`:"
    blocks = [
        _filled(MEANS) if rows else "",
        _table(("", *engines), rows, "l" + "r" * len(engines)) if rows else "",
        in_spark if sums else "",
        _table(("tables", "share of plain Spark's time"), sums, "lr") if sums else "",
        _filled(told) if checked else "",
    ]
    return "\n\n".join(b for b in blocks if b)


def comparison(results: Mapping[str, Any]) -> str:
    """Return what docs/comparison.md shows: times of peers, then how much each skips."""
    timed = {name: results[name] for name in COMPARED if name in results}
    rows = [
        (f"`{name}`", q["text"], f"{q['value']:g}")
        for name in PRUNING
        if name in results
        for q in results[name]["requirements"]
    ]
    told = _table(("workload", "what is counted", "count"), rows, "llr") if rows else ""
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
    missed = sum(not q["met"] for _, q in checked)
    blocks = [
        f"{len(checked) - missed} of {len(checked)} goals are met.",
        _table(("workload", "measured", "figure", "goal", "met"), rows, "llrrl"),
        _ran(workloads),
    ]
    return "\n\n".join(b for b in blocks if b) if rows else ""


def _peers(workloads: Mapping[str, Any], about: str = "") -> str:
    """Return a table of each engine's best contestant, as a multiple of Skipstone's time."""
    found = _rows_of_peers(workloads)
    engines = list(dict.fromkeys(engine for row in found.values() for engine in row))
    rows = [
        (
            f"`{name}`{': ' + group if group else ''}",
            *(figure(row[e]) if e in row else "–" for e in engines),
        )
        for (name, group), row in found.items()
    ]
    return (
        f"{_filled(about + MEANS)}\n\n{_table(('', *engines), rows, 'l' + 'r' * len(engines))}"
        if rows
        else ""
    )


def _rows_of_peers(workloads: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, float]]:
    """Return workload and group -> engine -> its best time, as a multiple of Skipstone's."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, workload in workloads.items():
        for t in workload["timings"]:
            if t["engine"] not in (OWN, BANDWIDTH) and "to_own" in t:
                row = found.setdefault((name, t["group"]), {})
                row[t["engine"]] = min(t["to_own"]["median"], row.get(t["engine"], float("inf")))
    return found


def _ran(workloads: Mapping[str, Any]) -> str:
    """Return a list of the machines and versions, and which workloads ran there."""
    where: dict[str, list[str]] = {}
    for name, workload in workloads.items():
        ran = workload["ran"]
        versions = ", ".join(f"{p} {ran['versions'][p]}" for p in PACKAGES if p in ran["versions"])
        line = (
            f"{ran['date']}, {ran['processor']}, {ran['cpus']} CPUs, {ran['threads']} threads, "
            f"Python {ran['python']}, {versions}"
        )
        where.setdefault(line, []).append(f"`{name}`")
    return "\n".join(_filled(f"- {', '.join(names)}: {line}.") for line, names in where.items())


def _filled(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


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
