"""`ingest`: the cost of packing statistics, relative to one read of the arrays, and their size."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import skipstone as ss
from bench.report.bandwidth import BANDWIDTH, Bandwidth
from bench.report.measure import Run, Timing, clock
from bench.report.report import OWN, Options, Report, Requirement, equal
from skipstone.ir.types import INT64

Arrays = dict[str, npt.NDArray[np.int64]]
Given = dict[str, Any]  # arrays of NumPy and Arrow
SCHEMA: Final = pa.schema([("x", pa.int64())])
# The least value of each case.
CASES: Final = {
    "values of 8 bytes": 1_700_000_000_000_000,
    "values of 4 bytes": 0,
}
SCRATCH: Final = 1_300_000_000  # bytes, more than any cache
COPY: Final = "NumPy, copies of the arrays"


def arrays_of(n: int, base: int) -> Arrays:
    """Make statistics of n containers in random order: a few NULLs, one in a hundred all NULL."""
    r = np.random.default_rng(7)
    low, rows = base + r.integers(0, 1_000_000_000, n), r.integers(900, 1100, n)
    nulls = np.where(r.random(n) < 0.01, rows, r.integers(0, 10, n))
    return {"min": low, "max": low + r.integers(0, 2000, n), "null_count": nulls, "row_count": rows}


def given(arrays: Arrays) -> Given:
    """Return the same statistics without bounds where all is NULL."""
    unknown = arrays["null_count"] == arrays["row_count"]
    bounds = {k: pa.array(arrays[k], mask=unknown) for k in ("min", "max")}
    return {**arrays, **bounds}


def pack(columns: Given) -> ss.Statistics:
    """Make fresh statistics and pack their column, which is all that pruning reads."""
    stats = ss.Statistics.from_dict({"x": columns}, SCHEMA)
    stats.column(("x",), INT64)
    return stats


def interleave_cold(
    runs: dict[str, Run], reads: dict[str, Run], rounds: int, size: int
) -> tuple[dict[str, Timing], dict[str, Timing]]:
    """Time each run, and a read of the arrays next to it, all with cold caches.

    Return the seconds of the runs and of the reads.
    """
    scratch, few = np.ones(size // 8), given(arrays_of(1000, 0))

    def cold(run: Run) -> float:
        scratch.sum()
        pack(few)  # bring the code, which the scratch array drove out, back into the caches
        return clock(run)

    for run in (*runs.values(), *reads.values()):
        run()
    trial = {name: [cold(run) for _ in range(3)] for name, run in reads.items()}
    read = reads[min(trial, key=lambda name: statistics.median(trial[name]))]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    reads_beside: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            before, own, after = cold(read), cold(run), cold(read)
            seconds[name].append(own)
            reads_beside[name].append((before + after) / 2)
    timings, limits = (
        {name: Timing(tuple(s)) for name, s in figures.items()}
        for figures in (seconds, reads_beside)
    )
    return timings, limits


def ingest(options: Options) -> Report:
    """Packing of 10 million containers' min, max, null count and row count."""
    n = options.containers
    report = Report(
        f"{n:,} containers: min, max, null_count, row_count of a bigint column, "
        "from fresh Statistics to what kernels read",
        n,
    )
    bandwidth = Bandwidth(n)
    for case, base in CASES.items():
        arrays = arrays_of(n, base)
        raw = sum(a.nbytes for a in arrays.values())
        columns = given(arrays)
        share = _check_and_size(arrays, columns) / raw
        runs: dict[str, Run] = {OWN: partial(pack, columns), COPY: partial(_copies, arrays)}
        timings, reads = interleave_cold(
            runs,
            bandwidth.runs,
            options.rounds or (25 if options.full else 9),
            min(SCRATCH, 40 * n * 8),
        )
        for name, t in timings.items():
            read, own = reads[name], name == OWN
            report.time(
                f"{name}, {case}",
                t,
                (BANDWIDTH, read),
                own=timings[OWN],
                engine=OWN if own else "NumPy",
                group=case,
            )
            report.rows.append(_row(f"{name}, {case}", t, read, share if own else None))
        report.requirements += [
            Requirement(
                f"{case}: time relative to one read of the arrays",
                timings[OWN].times(reads[OWN]),
                3,
                at_most=True,
            ),
            Requirement(f"{case}: packed size as a share of the arrays", share, 0.6, at_most=True),
        ]
    report.notes.append(
        "A read of the four arrays, by the fastest loop, is timed before and after each run; "
        "all start with cold caches."
    )
    return report


def _check_and_size(arrays: Arrays, columns: Given) -> int:
    """Check the answer, then return the bytes of the packed column."""
    stats = pack(columns)
    at = int(np.median(arrays["min"]))
    expected = (
        (arrays["min"] <= at)
        & (arrays["max"] >= at)
        & (arrays["null_count"] != arrays["row_count"])
    )
    equal(OWN, ss.PruningPredicate(f"x = {at}", SCHEMA).prune(stats, "numpy"), expected)
    return stats.nbytes


def _copies(arrays: Arrays) -> list[Any]:
    return [a.copy() for a in arrays.values()]


def _row(name: str, t: Timing, read: Timing, share: float | None) -> dict[str, Any]:
    return {
        "": name,
        "ms": t.median * 1e3,
        "best ms": t.best * 1e3,
        "10 % to 90 %": f"{t.quantile(0.1) * 1e3:.1f} to {t.quantile(0.9) * 1e3:.1f}",
        "read ms": read.median * 1e3,
        "times one read": t.times(read),
        "bytes left": "" if share is None else share,
    }
