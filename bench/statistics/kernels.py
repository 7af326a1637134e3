"""`kernels`: share of the read bandwidth by shape. `many`: predicates judged together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.report.bandwidth import BANDWIDTH, Bandwidth, interleave_with_reads
from bench.report.measure import Run, Timing, interleave, pages_kept
from bench.report.report import Options, Report, Requirement, equal
from skipstone.ir.lower import Program
from skipstone.kernels.pack.planes import unpack
from skipstone.kernels.run.launch import Launch
from skipstone.kernels.run.run import run

COLUMNS: Final = "abcdefgh"
BASE, STEP = 1_700_000_000_000_000, 1_000_000  # microseconds since 1970: all values need 8 bytes
TEXTS: Final = 1_000_000  # distinct texts
ROWS: Final = 100  # rows of each container
PLANES: Final = 64  # multiplies the containers of shapes that read only planes


def within(column: str, first: int = 300_000, stop: int = 700_000) -> str:
    """Return a range of the values of containers; by default four in ten overlap it."""
    return f"{column} >= {BASE + first * STEP} AND {column} < {BASE + stop * STEP}"


def point(column: str) -> str:
    """Return a test for a value that one container in a thousand may hold."""
    return f"{column} = {BASE + 50_000 * STEP}"


def members(count: int) -> str:
    """Return an IN list of `count` values over the whole range."""
    return (
        f"a IN ({', '.join(str(BASE + (k * 1_000_000 // count + 7) * STEP) for k in range(count))})"
    )


@dataclass(frozen=True)
class Shape:
    """A predicate and its required share of the bandwidth; `both` computes all three verdicts."""

    name: str
    where: str
    bound: float
    both: bool = False


SHAPES: Final = (
    Shape("range, 1 column", within("a"), 0.9),
    Shape("point, 1 column", point("a"), 0.9),
    Shape("null tests, 2 columns", "a IS NULL AND b IS NOT NULL", 0.9),
    Shape("range, 2 columns", f"{within('a')} AND {within('b')}", 0.9),
    Shape("range and point, 2 columns", f"{within('a')} AND {point('b')}", 0.9),
    Shape("range, 4 columns", " AND ".join(map(within, "abcd")), 0.9),
    Shape("OR of three columns", f"{within('a')} OR {point('b')} OR {within('c')}", 0.9),
    Shape("range, 8 columns", " AND ".join(map(within, COLUMNS)), 0.8),
    Shape("three outcomes, range, 1 column", within("a"), 0.75, both=True),
    Shape("three outcomes, range, 2 columns", f"{within('a')} AND {within('b')}", 0.75, both=True),
    Shape(
        "three outcomes, OR of three columns",
        f"{within('a')} OR {point('b')} OR {within('c')}",
        0.75,
        both=True,
    ),
    Shape("text range", "s >= '000300000' AND s < '000700000'", 0.75),
    Shape("arithmetic, a + b", f"a + b = {2 * BASE + 1_000_000 * STEP}", 0.75),
    Shape("IN of 3", members(3), 0.75),
    Shape("IN of 8", members(8), 0.75),
)


def statistics(n: int) -> ss.Statistics:
    """Make statistics of eight random bigint columns and one of text.

    There are a few NULLs; in each column, one container in a hundred is all NULL.
    """
    r = np.random.default_rng(1)
    columns: dict[str, dict[str, Any]] = {}
    for name in COLUMNS:
        low = BASE + r.integers(0, 1_000_000, n) * STEP
        nulls = np.where(r.random(n) < 0.01, ROWS, r.integers(0, 2, n))
        columns[name] = {
            "min": pa.array(low, mask=nulls == ROWS),
            "max": pa.array(low + r.integers(0, 2000, n) * STEP, mask=nulls == ROWS),
            "null_count": nulls,
        }
    texts = pa.array([f"{i:09}" for i in range(TEXTS)])
    at = r.integers(0, TEXTS - 2000, n)
    columns["s"] = {
        "min": texts.take(pa.array(at)),
        "max": texts.take(pa.array(at + r.integers(0, 2000, n))),
    }
    schema = pa.schema([*((name, pa.int64()) for name in COLUMNS), ("s", pa.string())])
    return ss.Statistics.from_dict(columns, schema, row_count=np.full(n, ROWS))


def kernels(options: Options) -> Report:
    """Shares of the read bandwidth: ranges, null tests, OR, outcomes, text, arithmetic, IN."""
    n = options.containers
    stats = statistics(n)
    report = Report(
        f"{n:,} containers, random bounds of 8 bytes, packed results; "
        "next to each run, a plain loop reads its arrays",
        n,
    )
    report.notes.append(
        "of bandwidth: bytes that a run reads and writes a second, over those that the loop reads; "
        "the loop writes none."
    )
    limit = Bandwidth(n)
    launches = {shape.name: _launch(shape, stats) for shape in SHAPES}
    runs: dict[str, Run] = {
        name: partial(run, launch, "numba") for name, launch in launches.items()
    }
    arrays = {name: [*launch.arrays, *launch.planes] for name, launch in launches.items()}
    timings = interleave_with_reads(
        runs, arrays, limit, options.rounds or (25 if options.full else 11)
    )
    for shape in SHAPES:
        t, before = timings[shape.name]
        launch = launches[shape.name]
        written = launch.n // 8 * launch.answers.count(None)
        share = before.times(t) * (1 + written / launch.nbytes)
        report.time(shape.name, t, (BANDWIDTH, before), share=share)
        report.rows.append(_row(shape.name, t, launch, written, share, before.median))
        report.requirements.append(
            Requirement(f"{shape.name}: share of the read bandwidth", share, shape.bound)
        )
    by_name = {name: t for name, (t, _) in timings.items()}
    times = by_name["text range"].times(by_name["range, 1 column"])
    report.requirements.append(
        Requirement("text range, time relative to a bigint range", times, 2, at_most=True)
    )
    return report


def _launch(shape: Shape, stats: ss.Statistics) -> Launch:
    """Check that Numba and NumPy agree, then return the launch to time."""
    p = ss.PruningPredicate(shape.where, stats.schema)
    equal(shape.name, p.evaluate(stats, "numba"), p.evaluate(stats, "numpy"))
    launch = stats.launch(p.program if shape.both else Program(p.program.can_match))
    packed = run(launch, "numba").planes[0]
    assert not isinstance(packed, bool)
    equal(shape.name, unpack(packed, len(stats)), p.prune(stats, "numpy"))
    if launch.arrays:
        return launch
    # Planes hold a bit or two a container: with ten million, only the start of threads would count.
    return Launch(
        launch.n // 64 * 64 * PLANES,
        launch.roots,
        planes=[np.tile(plane[: launch.n // 64], PLANES) for plane in launch.planes],
    )


def _row(
    name: str, t: Timing, launch: Launch, written: int, share: float, read: float
) -> dict[str, Any]:
    return {
        "": name,
        "ms": t.median * 1e3,
        "reading alone": read * 1e3,
        "10 % to 90 %": f"{t.quantile(0.1) * 1e3:.1f} to {t.quantile(0.9) * 1e3:.1f}",
        "containers": f"{launch.n:,}",
        "bytes each": launch.nbytes / launch.n,
        "written": written / launch.n,
        "of bandwidth": share,
    }


def many(options: Options) -> Report:
    """100 predicates, of one shape and of ten shapes: together, and one by one."""
    n = options.containers
    stats = statistics(n)
    report = Report(f"100 predicates over {n:,} containers, a bool mask for each", n)
    report.notes.append(
        "Both reuse mapped pages of an earlier run: a gigabyte of fresh ones costs each of them "
        "at least 0.1 s."
    )
    cases = {"one shape": list(_alike(stats.schema)), "ten shapes": list(_mixed(stats.schema))}
    for name, predicates in cases.items():
        runs: dict[str, Run] = {
            "one by one": partial(_one_by_one, predicates, stats),
            "together": partial(ss.prune_many, predicates, stats, "numba"),
        }
        equal(name, np.array(runs["one by one"]()), runs["together"]())
        with pages_kept():
            timings = interleave(runs, options.rounds or 5)
        apart, together = timings["one by one"], timings["together"]
        for label, t in timings.items():
            report.time(f"{name}, {label}", t, own=together, group=name)
        report.rows.append(
            {
                "": name,
                "one by one ms": apart.median * 1e3,
                "together ms": together.median * 1e3,
                "times faster": apart.times(together),
            }
        )
        bound = 4 if name == "one shape" else 1
        report.requirements.append(
            Requirement(
                f"100 predicates, {name}: speed-up over one by one",
                apart.times(together),
                bound,
            )
        )
    return report


def _one_by_one(predicates: list[ss.PruningPredicate], stats: ss.Statistics) -> list[Any]:
    return [p.prune(stats, "numba") for p in predicates]


def _alike(schema: pa.Schema) -> Iterator[ss.PruningPredicate]:
    r = np.random.default_rng(2)
    for _ in range(100):
        first = int(r.integers(0, 900_000))
        yield ss.PruningPredicate(
            f"{within('a', first, first + int(r.integers(1, 100_000)))} "
            f"AND b = {BASE + int(r.integers(0, 1_000_000)) * STEP}",
            schema,
        )


def _mixed(schema: pa.Schema) -> Iterator[ss.PruningPredicate]:
    shapes = [
        within("a"),
        point("b"),
        f"{within('a')} AND {point('c')}",
        within("d"),
        "e IS NULL",
        members(5),
        f"{point('a')} OR {point('f')}",
    ]
    shapes += [
        " AND ".join(map(within, "abc")),
        f"NOT ({within('g')})",
        f"h <> {BASE} AND {within('h')}",
    ]
    for i in range(100):
        yield ss.PruningPredicate(
            f"{shapes[i % 10]} OR a = {BASE + i * STEP}" if i % 20 < 10 else shapes[i % 10], schema
        )
