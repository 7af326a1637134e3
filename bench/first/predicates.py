"""The part of `first` about predicates: the time to make them, and to their first verdicts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

import skipstone as ss
from bench.report.measure import Timing, interleave
from bench.report.report import OWN, Options, Report, Requirement, equal

SCHEMA: Final = pa.schema(
    {"x": pa.int64(), "y": pa.int32(), "s": pa.string(), "d": pa.date32(), "f": pa.float64()}
)
WIDE: Final = pa.schema([(f"c{i}", pa.int64()) for i in range(304)])
TESTS: Final = ("{} >= {}", "{} < {}", "{} = {}", "{} <> {}", "{} <= {}", "{} > {}")
NEW_SHAPES: Final = 200
CONTAINERS: Final = 1000
# Kind of predicate -> the microseconds that making it may take.
GOALS: Final = {
    "from text, new literals, a seen shape": 250,
    "from text, a new shape": 350,
    "from col()": 150,
    "from text, 16 tests": 1800,
    "from text, IN of 1,000": 3400,
    "from text, IN of 100,000": 300_000,
    "from text, two of 304 columns": 350,
    "first verdicts over 1,000 containers, after a seen shape": 350,
    "verdicts over 10 containers": 5.5,
}


def first_predicates(options: Options) -> Report:
    """New predicates, and their first verdicts."""
    report = Report("a predicate of two tests, if nothing else is said; us")
    rounds = options.rounds or 100
    number = itertools.count(1000)
    shapes = _shapes(number)
    stats = statistics(CONTAINERS)
    sixteen = " AND ".join(f"x <> {{{i}}}" for i in range(16))
    runs: dict[str, tuple[Callable[[], object], int]] = {
        "from text, new literals, a seen shape": (lambda: _made(f"x >= {next(number)}"), rounds),
        "from text, a new shape": (
            lambda: ss.PruningPredicate(next(shapes), SCHEMA),
            min(rounds, NEW_SHAPES - 1),
        ),
        "from col()": (
            lambda: ss.PruningPredicate((ss.col("x") >= next(number)) & (ss.col("y") == 3), SCHEMA),
            rounds,
        ),
        "from text, 16 tests": (
            lambda: ss.PruningPredicate(sixteen.format(*_some(number, 16)), SCHEMA),
            rounds,
        ),
        "from text, IN of 1,000": (_list(number, 1000), min(rounds, 20)),
        "from text, IN of 100,000": (_list(number, 100_000), min(rounds, 3)),
        "from text, two of 304 columns": (
            lambda: ss.PruningPredicate(f"c5 >= {next(number)} AND c300 = 3", WIDE),
            rounds,
        ),
    }
    for name, (run, times) in runs.items():
        _add(report, name, interleave({name: run}, times)[name])
    ready = iter([_made(f"x >= {i}") for i in range(rounds + 1)])
    name = "first verdicts over 1,000 containers, after a seen shape"
    _add(report, name, interleave({name: lambda: next(ready).evaluate(stats)}, rounds)[name])
    few, warm = statistics(10), _made("x >= 5")
    equal("few", warm.evaluate(few), warm.evaluate(stats)[:10])
    name = "verdicts over 10 containers"
    _add(report, name, interleave({name: lambda: warm.evaluate(few)}, rounds, burst=20)[name])
    _datafusion(report, number, rounds)
    return report


def statistics(n: int) -> ss.Statistics:
    """Return bounds of two columns of n containers."""
    low = np.arange(n)
    columns = {"x": {"min": low, "max": low + 5}, "y": {"min": low, "max": low + 5}}
    return ss.Statistics.from_dict(columns, SCHEMA)


def _made(test: str) -> ss.PruningPredicate:
    return ss.PruningPredicate(f"{test} AND y = 3", SCHEMA)


def _some(number: Iterator[int], count: int) -> list[int]:
    return [next(number) for _ in range(count)]


def _list(number: Iterator[int], members: int) -> Callable[[], object]:
    """Return a run that makes x IN (...) of numbers that no list had before."""

    def run() -> object:
        first = next(number) * members
        text = ",".join(map(str, range(first, first + members)))
        return ss.PruningPredicate(f"x IN ({text})", SCHEMA)

    return run


def _shapes(number: Iterator[int]) -> Iterator[str]:
    for a, b, p, q in itertools.product("xyf", "xyf", TESTS, TESTS):
        yield f"{p.format(a, next(number))} AND {q.format(b, next(number))}"


def _datafusion(report: Report, number: Iterator[int], rounds: int) -> None:
    """Time DataFusion's package, which plans a whole query from text."""
    group = "a condition from text"
    try:
        import datafusion
    except ImportError as e:
        report.leave_out("DataFusion", str(e), group)
        return
    context: Any = datafusion.SessionContext()
    context.register_record_batches("t", [[pa.RecordBatch.from_pylist([], SCHEMA)]])

    def run() -> object:
        return context.sql(f"SELECT * FROM t WHERE x >= {next(number)} AND y = 3").logical_plan()

    t = interleave({"DataFusion": run}, rounds)["DataFusion"]
    report.rows.append({"": "DataFusion: a logical plan from text", "us": t.best * 1e6})
    report.time("a logical plan", t, engine="DataFusion", group=group)


def _add(report: Report, name: str, t: Timing) -> None:
    report.rows.append({"": name, "us": t.median * 1e6, "goal": GOALS[name]})
    report.time(name, t, engine=OWN, group=name)
    report.requirements.append(
        Requirement(f"{name}, us: median", t.median * 1e6, GOALS[name], at_most=True)
    )
