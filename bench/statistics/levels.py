"""`levels`: judge blocks before containers, compared with the flat kernel. `growth`: over sizes.

Containers are clustered, in random order, or ordered by the index.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.report.measure import Run, Timing, interleave
from bench.report.report import Options, Report, Requirement, equal
from bench.statistics.kernels import BASE, STEP, within
from skipstone.kernels.index import descend

USUAL: Final = 100_000_000
BYTES: Final = 150  # memory for each container while an order is made
BURST: Final = 3  # runs in a row, for flat and indexed
FOUND: Final = 10_000  # one container in so many survives, of 100 million
SCHEMA: Final = pa.schema([("x", pa.int64()), ("y", pa.int64())])


def statistics(n: int, *, clustered: bool) -> ss.Statistics:
    """Make statistics: x ascends and neighbours overlap, or it is shuffled; y is random."""
    r = np.random.default_rng(3)
    x = np.arange(n) if clustered else r.permutation(n)
    low, other = BASE + x * STEP, BASE + r.integers(0, n, n) * STEP
    columns = {
        "x": {"min": low, "max": low + 2 * STEP},
        "y": {"min": other, "max": other + 2 * STEP},
    }
    return ss.Statistics.from_dict(
        {name: {**c, "null_count": np.zeros(n, np.int8)} for name, c in columns.items()}, SCHEMA
    )


def levels(options: Options) -> Report:
    """An index over 100 million containers that are clustered, ordered by it, or neither."""
    n = _affordable(USUAL if options.containers >= 10_000_000 else options.containers)
    few = max(n // FOUND, 10)
    report = Report(
        f"{n:,} containers; a range that {few:,} survive, `survivors`, compiled; times of one run",
        n,
    )
    rounds = options.rounds or (25 if options.full else 9)
    start = n // 3
    narrow, wide = within("x", start, start + few - 2), within("x", start, start + n // 3)

    flat = statistics(n, clustered=True)
    indexed = flat.index()
    p = ss.PruningPredicate(narrow, SCHEMA)
    t = _case(report, "clustered", p, flat, indexed, rounds)
    report.requirements.append(Requirement("clustered: speed-up over the flat kernel", t, 100))
    for name, where in {
        "clustered, AND of a column in no order": f"{narrow} AND {within('y', 0, n // 2)}",
        "clustered, OR of two ranges": f"({narrow}) OR ({within('x', 2 * start, 2 * start + few)})",
        "clustered, NOT": f"NOT (x < {BASE + start * STEP} OR x >= {BASE + (start + few) * STEP})",
        "clustered, a third survives": wide,
    }.items():
        _case(report, name, ss.PruningPredicate(where, SCHEMA), flat, indexed, rounds)

    flat = statistics(n, clustered=False)
    indexed = flat.index()
    p = ss.PruningPredicate(wide, SCHEMA)
    t = _case(
        report, "in no order, a third survives, prune", p, flat, indexed, 3 * rounds, masks=True
    )
    report.requirements.append(
        Requirement(
            "in no order, a third survives: time relative to the flat kernel",
            1 / t,
            1.05,
            at_most=True,
        )
    )
    t = _case(
        report,
        "in no order, two-byte codes first",
        ss.PruningPredicate(narrow, SCHEMA),
        flat,
        indexed,
        rounds,
    )
    report.requirements.append(
        Requirement("in no order, codes first: speed-up over the flat kernel", t, 3)
    )
    indexed = flat.index(order_by="x")
    t = _case(
        report,
        "in no order, index ordered by x",
        ss.PruningPredicate(narrow, SCHEMA),
        flat,
        indexed,
        rounds,
    )
    report.requirements.append(
        Requirement("in no order, index ordered by x: speed-up over the flat kernel", t, 30)
    )
    if options.full:
        indexed = flat.index(order_by=("x", "y"))
        p = ss.PruningPredicate(
            f"{within('x', start, start + n // 100)} AND {within('y', start, start + n // 100)}",
            SCHEMA,
        )
        _case(report, "in no order, index along a curve of x and y", p, flat, indexed, rounds)
    report.notes.append(
        f"Means of {BURST} runs in a row, after one that does not count; "
        "the flat kernel still reads more than caches hold."
    )
    report.notes.append(
        f"Codes judge first if they promise to read less than {descend.WORTH:g} of the bytes; "
        "levels have blocks of 512."
    )
    return report


def _case(
    report: Report,
    name: str,
    p: ss.PruningPredicate,
    flat: ss.Statistics,
    indexed: ss.Statistics,
    rounds: int,
    *,
    masks: bool = False,
) -> float:
    """Time survivors, or masks, with and without the index; return flat time over indexed time."""
    found = p.survivors(flat, "numba")
    equal(name, p.survivors(indexed, "numba"), found)
    ask = p.prune if masks else p.survivors
    runs: dict[str, Run] = {
        "flat": partial(ask, flat, "numba"),
        "indexed": partial(ask, indexed, "numba"),
    }
    timings = interleave(runs, rounds, BURST)
    t, own = timings["flat"], timings["indexed"]
    report.time(f"{name}, flat", t, group=name, own=own)
    report.time(f"{name}, indexed", own, ("flat", t), group=name, own=own)
    report.rows.append(_row(name, len(found), t, own))
    return t.times(own)


def _row(name: str, found: int, flat: Timing, own: Timing) -> dict[str, Any]:
    return {
        "": name,
        "found": f"{found:,}",
        "flat ms": flat.median * 1e3,
        "indexed ms": own.median * 1e3,
        "10 % to 90 %": f"{own.quantile(0.1) * 1e3:.2f} to {own.quantile(0.9) * 1e3:.2f}",
        "times faster": flat.times(own),
    }


def growth(options: Options) -> Report:
    """A range that finds 1,000 among up to 100 million containers; `stored --full` has more."""
    report = Report(
        "a range that finds 1,000 clustered containers, by levels; the flat kernel beside it"
    )
    runs: dict[str, Run] = {}
    sizes = [10**k for k in range(4, 9) if 10**k <= max(options.containers * 10, 10**5)]
    predicates = {}
    for n in sizes:
        if _affordable(n) < n:
            report.notes.append(f"{n:,} containers were not measured: not enough free memory")
            continue
        low = BASE + np.arange(n) * STEP
        flat = ss.Statistics.from_dict({"x": {"min": low, "max": low + STEP}}, SCHEMA)
        p = predicates[n] = ss.PruningPredicate(within("x", n // 2, n // 2 + 999), SCHEMA)
        indexed = flat.index()
        equal(f"{n:,}", p.survivors(indexed, "numba"), p.survivors(flat, "numba"))
        runs[f"{n:,}"] = partial(p.survivors, indexed, "numba")
        runs[f"{n:,}, flat"] = partial(p.survivors, flat, "numba")
    timings = interleave(runs, options.rounds or 9, BURST)
    for n in predicates:
        own, flat_time = timings[f"{n:,}"], timings[f"{n:,}, flat"]
        report.time(f"levels, {n:,}", own, group=f"{n:,}", own=own, n=n)
        report.time(f"flat, {n:,}", flat_time, group=f"{n:,}", own=own, n=n)
        report.rows.append(
            {
                "containers": f"{n:,}",
                "by levels us": own.median * 1e6,
                "flat us": flat_time.median * 1e6,
                "times faster": flat_time.times(own),
            }
        )
    most = max(predicates)
    least = min(n for n in predicates if n >= 1_000_000 or n == most)
    grown = timings[f"{most:,}"].times(timings[f"{least:,}"])
    report.requirements.append(
        Requirement(
            f"by levels, {most:,} containers: time relative to {least:,}", grown, 3, at_most=True
        )
    )
    return report


def _affordable(n: int) -> int:
    """Return n, halved until the free memory suffices."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return n
    while n * BYTES > free and n > 1_000_000:
        n //= 2
    return n
