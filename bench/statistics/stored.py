"""`stored`: open saved statistics, and judge a billion containers on disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.report.measure import Timing, clock, repeat
from bench.report.report import Options, Report, Requirement, equal
from bench.statistics.kernels import within
from bench.statistics.levels import SCHEMA, statistics

SAVED: Final = 20_000_000
BILLION: Final = 1_000_000_000
PART: Final = 1 << 24  # containers in each write
# Run in a fresh process. Prints the seconds of opening, and of the first predicate after it.
FRESH: Final = """
import sys, time, skipstone as ss, pyarrow
ss.PruningPredicate, ss.Statistics
start = time.perf_counter()
stats = ss.Statistics.load(sys.argv[1])
opened = time.perf_counter()
found = len(ss.PruningPredicate(sys.argv[2], stats.schema).survivors(stats, "numpy"))
print(opened - start, time.perf_counter() - opened, found)
"""


def stored(options: Options) -> Report:
    """Opening 20 million saved containers with their index; with --full a billion on disk."""
    n = SAVED if options.containers >= 10_000_000 else options.containers
    report = Report(f"{n:,} containers, two bigint columns, saved with their index", n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "statistics"
        stats = statistics(n, clustered=True).index()
        saved = clock(lambda: stats.save(path))
        where = within("x", n // 2, n // 2 + 999)
        p = ss.PruningPredicate(where, SCHEMA)
        found = p.survivors(stats, "numpy")
        opened = repeat(lambda: ss.Statistics.load(path), options.rounds or 15)
        loaded = ss.Statistics.load(path)
        equal("loaded", p.survivors(loaded, "numpy"), found)
        again = repeat(lambda: p.survivors(loaded, "numpy"), options.rounds or 15)
        fresh = [_fresh_process(path, where, len(found)) for _ in range(5)]
        for label, t in {
            f"save {path.stat().st_size / 1e6:,.0f} MB": Timing((saved,)),
            "open, in a fresh process": Timing(tuple(f[0] for f in fresh)),
            "the first predicate after that, parsed, packed and verified": Timing(
                tuple(f[1] for f in fresh)
            ),
            "open again": opened,
            "a predicate again": again,
        }.items():
            report.time(label, t)
            report.rows.append(
                {
                    "": label,
                    "ms": t.median * 1e3,
                    "best ms": t.best * 1e3,
                    "worst ms": max(t.seconds) * 1e3,
                }
            )
    opening = Timing(tuple(f[0] for f in fresh)).median * 1e3
    report.requirements.append(
        Requirement(
            f"opening {n:,} containers in a fresh process, ms: median", opening, 100, at_most=True
        )
    )
    if options.full:
        _billion(report)
    return report


def _fresh_process(path: Path, where: str, found: int) -> tuple[float, float]:
    out = subprocess.run(
        [sys.executable, "-c", FRESH, str(path), where], capture_output=True, text=True, check=True
    ).stdout.split()
    equal("a fresh process", int(out[2]), found)
    return float(out[0]), float(out[1])


def _billion(report: Report) -> None:
    """Time a range that finds 1,000 among a billion containers whose bounds are on disk."""
    with tempfile.TemporaryDirectory() as folder:
        free = shutil.disk_usage(folder).free
        if free < BILLION * 30:
            report.notes.append(
                f"a billion containers were not measured: they need {BILLION * 30 / 1e9:.0f} GB "
                f"of disk, {free / 1e9:.0f} GB are free"
            )
            return
        low, high = (
            np.memmap(Path(folder) / name, np.int32, "w+", shape=(BILLION,))
            for name in ("low", "high")
        )
        for start in range(0, BILLION, PART):
            stop = min(start + PART, BILLION)
            low[start:stop] = np.arange(start, stop)
            high[start:stop] = np.arange(start + 1, stop + 1)
        schema = pa.schema([("x", pa.int32())])
        path = Path(folder) / "statistics"
        ss.Statistics.from_dict({"x": {"min": low, "max": high}}, schema).index().save(path)
        loaded = ss.Statistics.load(path)
        p = ss.PruningPredicate(f"x >= {BILLION // 2} AND x < {BILLION // 2 + 999}", schema)
        first = clock(lambda: p.survivors(loaded, "numpy"))
        equal(
            "a billion",
            p.survivors(loaded, "numpy"),
            np.arange(BILLION // 2 - 1, BILLION // 2 + 999),
        )
        again = repeat(lambda: p.survivors(loaded, "numpy"), 15)
        for label, t in {
            "a billion containers: a range that finds 1,000, first": Timing((first,)),
            "again": again,
        }.items():
            row: dict[str, Any] = {
                "": label,
                "ms": t.median * 1e3,
                "best ms": t.best * 1e3,
                "worst ms": max(t.seconds) * 1e3,
            }
            report.time(f"a billion, {label}", t, n=BILLION)
            report.rows.append(row)
