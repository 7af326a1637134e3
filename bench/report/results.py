"""Save and load results: a small JSON file for each workload, with the machine that it ran on.

The files are kept in git, so they hold only figures that are read again, with three significant
digits: ratios, and seconds where `compare` or a plot needs them.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import platform
import subprocess
import tarfile
from collections.abc import Collection, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from bench.report.report import OWN, Options, Report, Timed
from skipstone.kernels.run.pool import threads

CHECKOUT: Final = Path(__file__).parents[2]
FOLDER: Final = CHECKOUT / "bench" / "results"
MOMENT: Final = ("date", "load")  # what differs between two runs of the same build on one machine
PACKAGES: Final = (
    "skipstone", "numpy", "numba", "llvmlite", "pyarrow", "sqlglot",
    "polars", "duckdb", "datafusion", "numexpr", "pyiceberg", "deltalake", "pyspark",
    "cupy-cuda12x", "cupy-cuda13x", "nvidia-cuda-nvrtc", "torch", "cudf",
)  # fmt: skip


def as_json(report: Report, options: Options, where: Mapping[str, Any]) -> dict[str, Any]:
    """Return the saved form of one workload, with the machine and options of its run."""
    found: dict[str, Any] = _rounded(
        {
            "containers": report.containers,
            "ran": {**where, "options": asdict(options)},
            "requirements": [{**asdict(q), "met": q.met} for q in report.requirements],
            "timings": [_timing(t) for t in report.timings],
            "title": report.title,
        }
    )
    return found


def _timing(timed: Timed) -> dict[str, Any]:
    """Return the figures of one contestant that `compare`, the tables and the plots read."""
    found = {key: value for key, value in asdict(timed).items() if value is not None}
    if timed.engine == OWN:
        found.pop("to_own", None)  # only peers are compared with Skipstone
    if timed.reference is not None and timed.n is None:
        del found["seconds"]  # without a reference they are compared, over n they are plotted
    return found


def _rounded(value: Any) -> Any:
    """Return a JSON value whose floats have three significant digits."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {key: _rounded(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value


def save(folder: Path, workloads: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a file for each workload; leave one as it is if only the moment of the run differs.

    Files of other workloads stay, and so does the folder if it exists.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in workloads.items():
        path = folder / f"{name}.json"
        if not _holds(path, found):
            path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _holds(path: Path, found: Mapping[str, Any]) -> bool:
    """Return True if a file holds these results, from this or an earlier run."""
    try:
        saved = _parse(path.name, path.read_text())
    except (OSError, ValueError):
        return False
    return _without_moment(saved) == _without_moment(found)


def _without_moment(found: Mapping[str, Any]) -> dict[str, Any]:
    ran = {key: value for key, value in found["ran"].items() if key not in MOMENT}
    return {**found, "ran": ran}


def load(place: Path | str, order: Collection[str] = ()) -> dict[str, Any]:
    """Read the results in a folder, or those that a git revision has in bench/results.

    Args:
        place: The folder, or the revision.
        order: Names of workloads; the results are in this order, and others follow.

    Raises:
        ValueError: There are no results, or a file holds something else.
    """
    folder = Path(place)
    if folder.is_dir():
        texts = {path.stem: path.read_text() for path in folder.glob("*.json")}
    else:
        texts = _at_revision(str(place))
    if not texts:
        raise ValueError(f"{place} holds no results of `python -m bench`")
    names = [*(name for name in order if name in texts), *sorted(texts.keys() - set(order))]
    return {name: _parse(f"{place}: {name}.json", texts[name]) for name in names}


def _parse(name: str, text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict) or "ran" not in found:
        raise ValueError(f"{name} holds no results of `python -m bench`")
    return found


def _at_revision(revision: str) -> dict[str, str]:
    """Return the text of each workload's file at a git revision."""
    path = FOLDER.relative_to(CHECKOUT)
    done = subprocess.run(
        ["git", "archive", "--format=tar", revision, str(path)],
        cwd=CHECKOUT,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        why = done.stderr.decode().strip()
        raise ValueError(f"{revision} is no folder, and no git revision with {path}: {why}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        return {
            Path(member.name).stem: file.read().decode()
            for member in files
            if member.name.endswith(".json") and (file := files.extractfile(member))
        }


def machine() -> dict[str, Any]:
    """Return the machine, its load, and the versions of the installed packages."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
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
