"""Save and load figures as JSON, with the machine and the versions of each run."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from bench.report.report import Options, Report
from skipstone.kernels.run.pool import threads

FOLDER: Final = Path(__file__).parent.parent / "results"
LATEST: Final = FOLDER / "latest.json"
PACKAGES: Final = (
    "skipstone", "numpy", "numba", "llvmlite", "pyarrow", "sqlglot",
    "polars", "duckdb", "datafusion", "numexpr", "pyiceberg", "deltalake", "pyspark",
    "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc", "torch", "cudf",
)  # fmt: skip


def as_json(report: Report, options: Options, where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of one workload. An entry outlives the run that saved it, hence `ran`."""
    requirements = [{**asdict(q), "met": q.met} for q in report.requirements]
    return {
        "ran": {**where, "options": asdict(options)},
        **asdict(report),
        "requirements": requirements,
    }


def save(path: Path, where: Mapping[str, Any], workloads: Mapping[str, Any]) -> None:
    """Write a file of results, and its folder if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": where, "workloads": workloads}, indent=1) + "\n")


def load(path: Path) -> dict[str, Any]:
    """Read a file that `save` wrote.

    Raises:
        ValueError: The file holds something else.
    """
    found = json.loads(path.read_text())
    if not isinstance(found, dict) or not isinstance(found.get("workloads"), dict):
        raise ValueError(f"{path} holds no results of `python -m bench`")
    return found


def machine() -> dict[str, Any]:
    """Return the machine, the load and the versions of packages."""
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
        # Others who wanted a CPU in the last minute: with a high load, only ratios mean something.
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }


def processor() -> str:
    """Return the processor's name, if the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
