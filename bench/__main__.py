"""`python -m bench [WORKLOAD ...]`: measure, print, and say whether the requirements hold."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.report import Options, Report
from bench.workloads import USUAL, WORKLOADS
from skipstone.kernels.pool import threads

RESULTS = Path(__file__).parent / "results" / "latest.json"
PACKAGES = ("skipstone", "numpy", "numba", "llvmlite", "pyarrow", "sqlglot", "polars", "duckdb", "datafusion", "numexpr", "pyiceberg", "pyspark")


def main() -> int:
    """Run what the command line asks for; 1 if a requirement does not hold."""
    options = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    options.add_argument("workload", nargs="*", help=f"any of {', '.join(WORKLOADS)}; if none is named {', '.join(USUAL)}, and all with --full")
    options.add_argument("--full", action="store_true", help="more rounds, more contestants")
    options.add_argument("--rounds", type=int, help="rounds of each workload")
    options.add_argument("--containers", type=int, default=10_000_000, help="containers of `ranges` (default: 10 million)")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options.add_argument("--save", action="store_true", help=f"write the figures to {RESULTS.parent.name}/{RESULTS.name}")
    asked = options.parse_args()
    for name in asked.workload:
        if name not in WORKLOADS:
            options.error(f"no workload is named {name!r}; expected any of {', '.join(WORKLOADS)}")
    if asked.containers < 1000:
        options.error(f"--containers is {asked.containers}; expected at least 1,000")
    where = machine()
    print(f"{where['processor']}, {where['cpus']} CPUs, {where['threads']} threads, Python {where['python']}, load {where['load']}, {where['date']}")
    reports = {}
    for name in asked.workload or (WORKLOADS if asked.full else USUAL):
        reports[name] = WORKLOADS[name](Options(asked.full, asked.rounds, asked.containers))
        show(name, reports[name])
    measured = {k: as_json(r) for k, r in reports.items()}
    # Workloads that were not run now keep the figures of their own day.
    kept = json.loads(RESULTS.read_text())["workloads"] if asked.save and RESULTS.exists() else {}
    for path, workloads in ((asked.json, measured), (RESULTS if asked.save else None, {**kept, **measured})):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"machine": where, "workloads": workloads}, indent=2) + "\n")
            print(f"\nwritten: {path}")
    return 0 if all(q.met for r in reports.values() for q in r.requirements) else 1


def show(name: str, report: Report) -> None:
    """Print one report."""
    print(f"\n{name}: {report.title}\n")
    cells = [list(report.rows[0])] if report.rows else []
    for row in report.rows:
        if list(row) != cells[0]:
            raise ValueError(f"rows of {name} have different columns")
        cells.append([figure(v) for v in row.values()])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        first, *others = (text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True)))
        print("  ".join([first, *others]))
    if report.notes:
        print("\n" + "\n".join(report.notes))
    print()
    for q in report.requirements:
        print(f"{'met   ' if q.met else 'FAILED'}  {q.text}: {figure(q.value)} ({'at most' if q.at_most else 'at least'} {q.bound:g})")


def figure(value: object) -> str:
    """A number with about three digits."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def as_json(report: Report) -> dict[str, Any]:
    return {**asdict(report), "requirements": [{**asdict(q), "met": q.met} for q in report.requirements]}


def machine() -> dict[str, Any]:
    """What the figures were measured with."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "threads": threads(),
        # How many others wanted a CPU in the minute before: figures of a busy machine are to be read as ratios.
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


if __name__ == "__main__":
    sys.exit(main())
