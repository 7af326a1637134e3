"""`latency`: time to the first and to warm verdicts over 1,000 containers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.report.measure import YARDSTICK, Timing, clock, interleave, repeat, yardstick
from bench.report.report import Options, Report, Requirement, equal
from skipstone.bindings.predicates.sql import parse
from skipstone.ir.node import Node
from skipstone.kernels.run import numpy_cpu

SMALL: Final = 1000
ROWS: Final = 100  # rows of each container
WARM: Final = 500  # rounds of warm calls
BURST: Final = 20  # calls in a row, averaged: the clock itself would cool the caches
COLUMNS: Final = {
    "a": pa.int64(),
    "b": pa.int32(),
    "c": pa.float64(),
    "d": pa.date32(),
    "e": pa.string(),
    "f": pa.timestamp("us"),
}
LITERALS: Final = {
    "a": "500",
    "b": "77",
    "c": "12.5",
    "d": "DATE '2001-05-06'",
    "e": "'k500'",
    "f": "TIMESTAMP '2001-05-06 07:08:09'",
}


def small_statistics() -> ss.Statistics:
    """Make statistics of 1,000 containers: six columns of six types, one in twenty all NULL."""
    r = np.random.default_rng(3)
    columns = {}
    for name, dtype in COLUMNS.items():
        low = r.integers(0, 900, SMALL)
        ends = [low, low + r.integers(0, 99, SMALL)]
        nulls = np.where(r.random(SMALL) < 0.05, ROWS, r.integers(0, 5, SMALL))
        unknown = nulls == ROWS
        if dtype == pa.string():
            low_high = [pa.array([f"k{v:03}" for v in end], mask=unknown) for end in ends]
        else:
            stored = np.int32 if dtype.bit_width == 32 else np.int64
            low_high = [pa.array(end.astype(stored), mask=unknown).cast(dtype) for end in ends]
        columns[name] = {"min": low_high[0], "max": low_high[1], "null_count": nulls}
    return ss.Statistics.from_dict(
        columns, pa.schema(list(COLUMNS.items())), row_count=np.full(SMALL, ROWS)
    )


def new_shapes() -> Iterator[str]:
    """Yield predicates of different shapes: four tests over all columns and operators."""
    tests = (
        "{0} < {1}",
        "{0} >= {1}",
        "{0} = {1}",
        "{0} IN ({1}, {1})",
        "{0} <> {1}",
        "{0} IS NULL OR {0} <= {1}",
    )
    for picked in itertools.permutations(COLUMNS, 4):
        for forms in itertools.combinations(tests, 4):
            yield " AND ".join(
                f"({form.format(c, LITERALS[c])})" for form, c in zip(forms, picked, strict=True)
            )


def latency(options: Options) -> Report:
    """First verdicts for a new shape over 1,000 containers, and warm ones."""
    report = Report(
        f"{SMALL:,} containers, six columns; each time a new shape, nothing compiled, "
        "columns not packed yet"
    )
    rounds = options.rounds or (200 if options.full else 60)
    schema = small_statistics().schema
    ss.PruningPredicate("a = 1", schema)  # sqlglot's import and first parse
    phases: dict[str, list[float]] = {
        "parse": [],
        "make": [],
        "first prune": [],
        "second prune": [],
        "parsed": [],
        "all": [],
        YARDSTICK: [],
    }
    shapes = new_shapes()
    while len(phases["all"]) < rounds:
        _first(next(shapes), phases)
    labels = {
        "parse": "SQL text to nodes",
        "make": "nodes to PruningPredicate",
        "first prune": "first prune: pack the columns, write a NumPy kernel, run it",
        "parsed": "first verdicts, once the text is parsed",
        "all": "first verdicts, from the text",
        "second prune": "second prune of the same",
    }
    for key, label in labels.items():
        _add(report, label, Timing(tuple(phases[key])), Timing(tuple(phases[YARDSTICK])))

    stats = small_statistics()
    p = ss.PruningPredicate("a >= 300 AND a < 700 AND b = 77", stats.schema)
    numba = ss.PruningPredicate("a >= 300 AND a < 700 AND b = 77", stats.schema)
    equal("Numba", numba.prune(stats, "numba"), p.prune(stats, "numpy"))
    warm: dict[str, Callable[[], object]] = {
        "prune, NumPy": lambda: p.prune(stats, "numpy"),
        "prune, Numba": lambda: numba.prune(stats, "numba"),
        "evaluate, NumPy": lambda: p.evaluate(stats, "numpy"),
        "survivors, NumPy": lambda: p.survivors(stats, "numpy"),
    }
    timed = {name: interleave({name: call}, WARM, BURST)[name] for name, call in warm.items()}
    # Timed apart: between warm calls it would cool the caches.
    steady = Timing((repeat(yardstick, 200).median,) * WARM)
    for name, t in timed.items():
        _add(report, f"warm: {name}", t, steady)
    worst = Timing(tuple(phases["all"]))
    report.requirements += [
        Requirement(
            "first verdicts of a predicate from text, ms: 95th percentile",
            worst.quantile(0.95) * 1e3,
            10,
            at_most=True,
        ),
        Requirement(
            "warm p.prune(stats), us: median", timed["prune, NumPy"].median * 1e6, 15, at_most=True
        ),
    ]
    return report


def _first(text: str, phases: dict[str, list[float]]) -> None:
    """Time one predicate of a new shape over fresh statistics."""
    stats = small_statistics()
    nodes: list[Node] = []
    made: list[ss.PruningPredicate] = []
    parsing = clock(lambda: nodes.append(parse(text)[0]))
    making = clock(lambda: made.append(ss.PruningPredicate(nodes[0], stats.schema)))
    reference = clock(yardstick)
    misses = numpy_cpu.compile_shape.cache_info().misses
    first = clock(lambda: made[0].prune(stats))
    if numpy_cpu.compile_shape.cache_info().misses == misses:
        return  # the shape was compiled before
    second = clock(lambda: made[0].prune(stats))
    for key, value in (
        ("parse", parsing),
        ("make", making),
        ("first prune", first),
        ("second prune", second),
        (YARDSTICK, reference),
    ):
        phases[key].append(value)
    phases["parsed"].append(making + first)
    phases["all"].append(parsing + making + first)


def _add(report: Report, label: str, t: Timing, reference: Timing) -> None:
    report.time(label, t, (YARDSTICK, reference))
    row: dict[str, Any] = {
        "": label,
        "us": t.median * 1e6,
        "best us": t.best * 1e6,
        "95 of 100": t.quantile(0.95) * 1e6,
        "worst us": max(t.seconds) * 1e6,
    }
    report.rows.append(row)
