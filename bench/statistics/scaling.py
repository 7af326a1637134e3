"""`scaling`: time of a range on one bigint column over the number of containers."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.report.bandwidth import BANDWIDTH, Bandwidth
from bench.report.measure import YARDSTICK, Run, Timing, interleave, yardstick
from bench.report.report import OWN, Options, Report, equal
from bench.report.show import figure
from bench.statistics.peers import PEERS, Ranges

BASE: Final = 1 << 50
SPAN: Final = 1 << 44  # values need 8 bytes, as microseconds since 1970 do
LOW, HIGH = BASE + SPAN // 1000 * 500, BASE + SPAN // 1000 * 505  # half a percent of the containers
MAX_ROUNDS: Final = 40
INDEXED: Final = "Skipstone, indexed"
BURST: Final = {1_000: 20, 10_000: 10, 100_000: 3}  # runs in a row by containers; else 1
# With fewer containers, threads cost more than reading, and no loop over memory is a limit.
BANDWIDTH_FROM: Final = 1_000_000
FULL: Final = 100_000_000
BYTES: Final = 120  # memory for each container, with the copies that engines make

# Skipstone's contestants. Each makes a run that returns the mask; only the run is timed. Another
# index or backend is another line.
OWN_RUNS: Final[dict[str, Callable[[ss.PruningPredicate, ss.Statistics], Run]]] = {
    OWN: lambda p, stats: lambda: p.prune(stats, "numba"),
    INDEXED: lambda p, stats: functools.partial(p.prune, stats.index(), "numba"),
    "Skipstone on NumPy": lambda p, stats: lambda: p.prune(stats, "numpy"),
}


def containers(n: int) -> Ranges:
    """Make overlapping bounds of x, sorted by lower end, as in tables written over time."""
    r = np.random.default_rng(7)
    low = np.sort(BASE + r.integers(0, SPAN, n))
    high = low + r.exponential(2 * SPAN / n, n).astype(np.int64)
    return Ranges(
        pa.table({"x_min": low, "x_max": high}), (("x_max", ">=", LOW), ("x_min", "<", HIGH))
    )


def scaling(options: Options) -> Report:
    """Time over the number of containers, from 1,000 to 10 million (100 million with --full)."""
    report = Report(
        f"bigint x >= {LOW} AND x < {HIGH}, clustered containers, no counts; times Skipstone's time"
    )
    for n in _sizes(options, report):
        _at(n, options, report)
    report.notes.append(
        f"From {BANDWIDTH_FROM:,} containers on, the read bandwidth is the least time that reading "
        "both bounds takes."
    )
    return report


def _sizes(options: Options, report: Report) -> Iterator[int]:
    most = FULL if options.full else options.containers
    for power in range(3, int(math.log10(most) + 1e-9) + 1):
        n = 10**power
        if (free := _free()) is not None and n * BYTES > free:
            report.notes.append(
                f"{n:,} containers were not measured: they need {n * BYTES / 1e9:.0f} GB of "
                f"memory, {free / 1e9:.0f} GB are free"
            )
            return
        yield n


def _free() -> int | None:
    """Return the free memory in bytes, if the system has that figure."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _at(n: int, options: Options, report: Report) -> None:
    given = containers(n)
    schema = pa.schema([("x", pa.int64())])
    stats = ss.Statistics.from_dict(
        {"x": {"min": given.table["x_min"], "max": given.table["x_max"]}}, schema
    )
    p = ss.PruningPredicate(f"x >= {LOW} AND x < {HIGH}", schema)
    expected = p.prune(stats, "numpy")
    runs = {name: make(p, stats) for name, make in OWN_RUNS.items()}
    engines = dict.fromkeys(runs, OWN)
    for name, run in runs.items():
        equal(name, run(), expected)
    for peer in PEERS:
        if peer.missing:
            report.leave_out(peer.name, peer.missing, f"{n:,}")
        elif peer.column:
            run, read = peer.prepare(given)
            equal(peer.name, read(run()), expected)
            runs[peer.name], engines[peer.name] = run, peer.engine
    # Four arrays of half the length have as many bytes.
    bandwidth = Bandwidth(n // 2) if n >= BANDWIDTH_FROM else None
    references = bandwidth.runs if bandwidth else {YARDSTICK: yardstick}
    rounds = options.rounds or max(
        5, min(MAX_ROUNDS, 100_000_000 // n // (1 if options.full else 3))
    )
    timings = interleave({**references, **runs}, rounds, BURST.get(n, 1))
    limit = bandwidth.best(timings) if bandwidth else None
    reference = (BANDWIDTH, limit) if limit else (YARDSTICK, timings[YARDSTICK])
    group, own = f"{n:,}", timings[OWN]
    if limit:
        report.time(f"{BANDWIDTH}, {group}", limit, engine=BANDWIDTH, group=group, n=n)
    for name in runs:
        t = timings[name]
        # An index does not read both bounds, so a share of that time means nothing for it.
        share = limit.times(t) if limit and name != INDEXED else None
        report.time(
            f"{name}, {group}",
            t,
            reference,
            own=own,
            engine=engines[name],
            group=group,
            share=share,
            n=n,
        )
    report.rows.append(_row(n, timings, limit, list(runs)))


def _row(
    n: int, timings: dict[str, Timing], limit: Timing | None, names: list[str]
) -> dict[str, Any]:
    own = timings[OWN]
    return {
        "containers": f"{n:,}",
        "Skipstone us": own.median * 1e6,
        "10 % to 90 %": f"{figure(own.quantile(0.1) * 1e6)} to {figure(own.quantile(0.9) * 1e6)}",
        "of bandwidth": limit.times(own) if limit else "",
        **{name: timings[name].times(own) for name in names if name != OWN},
    }
