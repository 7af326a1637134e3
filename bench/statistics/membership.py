"""`membership`: IN lists of up to a million values over 10 million containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import skipstone as ss
from bench.report.bandwidth import BANDWIDTH, Bandwidth
from bench.report.measure import YARDSTICK, Run, Timing, interleave, yardstick
from bench.report.report import OWN, Options, Report, Requirement, equal
from skipstone.kernels.run.run import Backend

SIZES: Final = (20, 1000, 1_000_000)
BOUNDS: Final = {"in random order": 18, "clustered": 4}  # times one literal, for 1,000,000 values
BASE: Final = 1 << 50
SPAN: Final = 1 << 44  # values need 8 bytes, as microseconds since 1970 do
WIDTH: Final = 0.5  # average width of a container, in gaps between 1,000,000 values
PEER_ROUNDS: Final = 2  # some peers take seconds
Bounds = npt.NDArray[np.int64]
# Takes keys and both bounds; makes a run that returns which containers may hold a key.
Peer = Callable[[Bounds, Bounds, Bounds], Callable[[], Any]]


def containers(n: int) -> dict[str, tuple[Bounds, Bounds]]:
    """Return lower and upper bounds by the order of the containers."""
    r = np.random.default_rng(7)
    low = BASE + r.integers(0, SPAN, n)
    high = low + r.exponential(WIDTH * SPAN / 1e6, n).astype(np.int64)
    order = np.argsort(low)
    return {"in random order": (low, high), "clustered": (low[order], high[order])}


def by_numpy(keys: Bounds, low: Bounds, high: Bounds) -> Callable[[], Any]:
    return lambda: np.searchsorted(keys, low, "left") < np.searchsorted(keys, high, "right")


def by_arrow(keys: Bounds, low: Bounds, high: Bounds) -> Callable[[], Any]:
    import pyarrow.compute as pc

    k, a, b = (pa.array(v) for v in (keys, low, high))
    return lambda: pc.less(
        pc.search_sorted(k, a, side="left"), pc.search_sorted(k, b, side="right")
    )


def by_polars(keys: Bounds, low: Bounds, high: Bounds) -> Callable[[], Any]:
    import polars as pl

    k, a, b = (pl.Series(v) for v in (keys, low, high))
    return lambda: k.search_sorted(a, side="left") < k.search_sorted(b, side="right")


PEERS: Final[Mapping[str, Peer]] = {
    "NumPy by hand": by_numpy,
    "pyarrow.compute": by_arrow,
    "Polars": by_polars,
}
ENGINES: Final = {"NumPy by hand": "NumPy", "pyarrow.compute": "pyarrow", "Polars": "Polars"}


def membership(options: Options) -> Report:
    """IN lists of any length, relative to `x = v`."""
    n = options.containers
    report = Report(
        f"{n:,} containers, x IN (...) over bigint values of 8 bytes, prune; "
        "times one literal on the same data",
        n,
    )
    r = np.random.default_rng(11)
    sets = {size: np.unique(BASE + r.integers(0, SPAN, size)) for size in SIZES}
    schema = pa.schema([("x", pa.int64())])
    bandwidth = Bandwidth(n)
    for order, (low, high) in containers(n).items():
        counts = np.zeros(n, np.int64)
        stats = ss.Statistics.from_dict(
            {"x": {"min": pa.array(low), "max": pa.array(high), "null_count": counts}}, schema
        )
        runs = {f"one literal, {order}": _prune(ss.col("x") == int(low[n // 3]), stats)}
        for size, keys in sets.items():
            runs[_name("IN", size, order)] = _check(
                ss.col("x").isin(keys), stats, by_numpy(keys, low, high)()
            )
            runs[_name("NOT IN", size, order)] = _prune(~ss.col("x").isin(keys), stats)
        timings = interleave(
            {**bandwidth.runs, **runs}, options.rounds or (20 if options.full else 9)
        )
        one, limit = timings[f"one literal, {order}"], bandwidth.best(timings)
        report.rows += [_row(name, timings[name], timings[name].times(one)) for name in runs]
        for name in runs:
            report.time(name, timings[name], (BANDWIDTH, limit), group=order)
        ratio = timings[_name("IN", SIZES[-1], order)].times(one)
        report.requirements.append(
            Requirement(
                f"IN with {SIZES[-1]:,} values, {order}: time relative to one literal",
                ratio,
                BOUNDS[order],
                at_most=True,
            )
        )
        _slow_runs(sets[SIZES[-1]], low, high, stats, order, one, report)
    report.notes.append(
        f"Peers and Skipstone on NumPy have {PEER_ROUNDS} rounds of their own, compared with the "
        "median of one literal."
    )
    return report


def _slow_runs(
    keys: Bounds,
    low: Bounds,
    high: Bounds,
    stats: ss.Statistics,
    order: str,
    one: Timing,
    report: Report,
) -> None:
    """Time the runs that take seconds: engines without a directory of keys."""
    expected = by_numpy(keys, low, high)()
    condition = ss.col("x").isin(keys)
    runs = {OWN: _prune(condition, stats), "Skipstone on NumPy": _prune(condition, stats, "numpy")}
    for name, prepare in PEERS.items():
        try:
            run = prepare(keys, low, high)
            equal(name, run(), expected)
            runs[name] = run
        # The engine is not installed, or cannot search for many values.
        except (ImportError, AttributeError) as e:
            report.leave_out(name, str(e), order)
    timings = interleave({YARDSTICK: yardstick, **runs}, PEER_ROUNDS)
    group = f"{SIZES[-1]:,} values, {order}"
    for name in runs:
        t, engine = timings[name], ENGINES.get(name, OWN)
        report.time(
            f"{name}: {group}",
            t,
            (YARDSTICK, timings[YARDSTICK]),
            own=timings[OWN],
            engine=engine,
            group=group,
        )
        if name != OWN:
            report.rows.append(_row(f"{name}: {group}", t, t.median / one.median))


def _name(word: str, size: int, order: str) -> str:
    return f"{word}, {size:,} values, {order}"


def _prune(condition: ss.Expr, stats: ss.Statistics, backend: Backend = "numba") -> Run:
    p = ss.PruningPredicate(condition, stats.schema)
    return lambda: p.prune(stats, backend)


def _check(condition: ss.Expr, stats: ss.Statistics, expected: Any) -> Run:
    run = _prune(condition, stats)
    equal("Skipstone", run(), expected)
    return run


def _row(name: str, t: Timing, times: float) -> dict[str, Any]:
    return {"": name, "ms": t.median * 1e3, "best ms": t.best * 1e3, "times one literal": times}
