"""`compile`: the cost of kernels in a fresh process.

`python -m bench.statistics.cold` is such a process; it prints JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from bench.report.measure import YARDSTICK, Timing, clock, yardstick
from bench.report.report import Options, Report, Requirement

KINDS = {
    "one test": "a < 500",
    "range and point, three columns": "a >= 300 AND a < 700 AND b = 77 AND c > 12.5",
    "text and dates": "e >= 'k500' AND d < DATE '2001-05-06'",
    "a set": "b IN (1, 5, 9)",
    "not in a set, or": "b NOT IN (1, 5, 9) OR a = 3",
    "ten tests": "(a < 3 OR a > 7) AND (b < 3 OR b > 7) AND (c < 3 OR c > 7)"
    " AND (f IS NULL OR b = 5) AND (a = 1 OR c = 2)",
}
# Prints the seconds of `import skipstone`, including its deferred imports of two main classes.
IMPORT = """
import numpy, pyarrow, pyarrow.compute, time
start = time.perf_counter()
import skipstone as ss
ss.PruningPredicate, ss.Statistics
print(time.perf_counter() - start)
"""


def measure_process() -> dict[str, float]:
    """Return this process's seconds for importing Numba and then for each kernel.

    Each kernel's answer is compared with NumPy's.
    """
    import skipstone as ss
    from bench.statistics.latency import small_statistics

    stats = small_statistics()
    yardstick()
    seconds = {YARDSTICK: clock(yardstick)}
    start = time.perf_counter()
    import numba  # noqa: F401

    seconds["import numba"] = time.perf_counter() - start
    for name, text in {"first kernel": "a > 5", **KINDS}.items():
        p = ss.PruningPredicate(text, stats.schema)
        expected = p.prune(stats, "numpy")
        start = time.perf_counter()
        found = p.prune(stats, "numba")
        seconds[name] = time.perf_counter() - start
        if not (found == expected).all():
            raise AssertionError(f"{text}: Numba and NumPy differ")
    return seconds


def measure_pairs(processes: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Measure pairs of fresh processes.

    The first of a pair starts with an empty directory of kernels, the second finds the first one's.
    Return the seconds of each kernel and of the yardstick, compiled and loaded from disk.
    """
    compiled: dict[str, list[float]] = {}
    loaded: dict[str, list[float]] = {}
    for _ in range(processes):
        with tempfile.TemporaryDirectory() as folder:
            for into in (compiled, loaded):
                for name, s in _process({**os.environ, "SKIPSTONE_CACHE_DIR": folder}).items():
                    into.setdefault(name, []).append(s)
    return compiled, loaded


def _process(environment: dict[str, str]) -> dict[str, float]:
    seconds: dict[str, float] = json.loads(
        _python("-m", "bench.statistics.cold", environment=environment)
    )
    return seconds


def _python(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Return the output of a fresh process."""
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True
    ).stdout


def compiling(options: Options) -> Report:
    """Compiling kernels, and loading them from disk in the next process.

    Callers wait for neither: NumPy answers meanwhile.
    """
    compiled, loaded = measure_pairs(options.rounds or (9 if options.full else 5))
    report = Report("milliseconds until a fresh process has a kernel")
    imports = Timing(tuple(float(_python("-c", IMPORT)) for _ in range(options.rounds or 9)))
    names = [name for name in compiled if name != YARDSTICK]
    report.rows = [
        {
            "": "import skipstone, over numpy and pyarrow",
            "compiled": "",
            "from disk": imports.median * 1e3,
        }
    ]
    report.rows += [
        {
            "": k,
            "compiled": statistics.median(compiled[k]) * 1e3,
            "from disk": statistics.median(loaded[k]) * 1e3,
        }
        for k in names
    ]
    report.time("import skipstone", imports)
    for how, found in (("compiled", compiled), ("from disk", loaded)):
        for name in names:
            report.time(
                f"{name}, {how}",
                Timing(tuple(found[name])),
                (YARDSTICK, Timing(tuple(found[YARDSTICK]))),
            )
    worst = max(row["from disk"] for row in report.rows if row[""] in KINDS)
    report.requirements.append(
        Requirement(
            "import skipstone, over numpy and pyarrow, ms: median",
            imports.median * 1e3,
            150,
            at_most=True,
        )
    )
    report.requirements.append(
        Requirement(
            "loading a kernel from disk, after the first, ms: the slowest",
            worst,
            100,
            at_most=True,
        )
    )
    return report


if __name__ == "__main__":
    print(json.dumps(measure_process()))
