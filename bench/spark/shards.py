"""`shards`: `prune_shards` and the driver, compared with Spark's own expression and UDFs.

All judge the same statistics in a separate Spark session. `python -m bench.spark.shards` is that
session: it reads what to measure from standard input, and prints a line of JSON for each
contestant.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from bench.report.measure import Timing, clock
from bench.report.report import OWN, Options, Report, Requirement

SPARK: Final = "Spark"
UDF: Final = "UDF in Spark"
BASE, STEP = 1_700_000_000_000_000, 1_000_000  # microseconds since 1970: all values need 8 bytes
FOUND: Final = 10_000  # one container in 10,000 survives
KEYS: Final = 10_000
# Usually, and with --full; Spark compares each of them with each key.
IN_CONTAINERS: Final = (100_000, 1_000_000)
IN: Final = f"IN with {KEYS:,} keys"
SHARD: Final = 1 << 20
PARTS: Final = 16  # Parquet files
SCHEMA: Final = pa.schema([("x", pa.int64())])
ORDERS: Final = ("in no order", "clustered")
CONFIG: Final = {
    "spark.driver.memory": "6g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
BYTES: Final = 60  # temporary disk space for each container
PRUNE_SHARDS: Final = "prune_shards"
NATIVE: Final = "native expression"
STRATEGIES: Final[dict[str, Any]] = {
    "pandas UDF": "pandas_udf",
    "Arrow UDF": "arrow_udf",
    "mapInArrow": "map_in_arrow",
}
SLOW: Final = 10_000_000  # with more containers, UDFs run once


def shards(options: Options) -> Report:
    """Statistics in shards, judged by Spark's executors, its driver, expressions and UDFs."""
    most = 100_000_000 if options.full else options.containers
    sizes = [n for n in (1_000_000, 10_000_000, 100_000_000) if n <= most] or [most]
    report = Report(
        "one bigint column's bounds; a range that 1 container in 10,000 survives, "
        "and IN with 10,000 keys; counts of survivors; seconds",
        sizes[-1],
    )
    with tempfile.TemporaryDirectory() as folder:
        while len(sizes) > 1 and shutil.disk_usage(folder).free < sizes[-1] * BYTES:
            report.notes.append(f"{sizes.pop():,} containers were not measured: not enough disk")
        found = _session(
            {
                "folder": folder,
                "sizes": sizes,
                "keyed": IN_CONTAINERS[options.full],
                "rounds": options.rounds or 5,
            }
        )
    for n, what in dict.fromkeys((one["n"], one["what"]) for one in found):
        timings = {
            one["who"]: Timing(tuple(one["seconds"]))
            for one in found
            if (one["n"], one["what"]) == (n, what)
        }
        _add(report, n, what, timings, required=n == sizes[-1] or what == IN)
    report.notes.append(
        "Spark's own expression, from `to_column` and written by hand, reads a cached DataFrame "
        "and Parquet files; the fastest counts."
    )
    report.notes.append(
        "prune_shards leaves few containers to the driver, and many to the executors; "
        "both are also measured alone."
    )
    return report


def _add(report: Report, n: int, what: str, timings: dict[str, Timing], *, required: bool) -> None:
    """Add the contestants' figures for one size and order."""
    own, group = timings[PRUNE_SHARDS], f"{n:,} {what}"
    for who, t in timings.items():
        report.time(
            f"{group}: {who}",
            t,
            own=own if len(own.seconds) == len(t.seconds) else None,
            engine=_engine(who),
            group=group,
            n=n,
        )
        report.rows.append(
            {
                "containers": f"{n:,}",
                "": what,
                "by": who,
                "s": t.median,
                "best s": t.best,
                "times prune_shards": t.median / own.median,
            }
        )
    if required:
        best = min(t.median for who, t in timings.items() if NATIVE in who)
        text = f"{group}: speed-up of prune_shards over Spark's own expression"
        bound = 3 if what == "in no order" else 10
        report.requirements.append(Requirement(text, best / own.median, bound))


def _engine(who: str) -> str:
    if NATIVE in who:
        return SPARK
    return UDF if any(who.startswith(udf) for udf in STRATEGIES) else OWN


def _session(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what another process with a Spark session measures."""
    run = subprocess.run(
        [sys.executable, "-m", "bench.spark.shards"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"the Spark session failed: {run.stderr[-3000:]}")
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"n"')]


# Code that runs in the session.


def measure(folder: Path, sizes: list[int], keyed: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Measure one size after the other; compare each answer before it is timed."""
    from skipstone.spark import session

    affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if affinity else os.cpu_count()
    spark = session(CONFIG, master=f"local[{cpus}]")
    try:
        for n, order in [(keyed, IN), *((n, order) for n in sizes for order in ORDERS)]:
            place = folder / f"{n}-{order.replace(' ', '-')}"
            low = _write(place, n, clustered=order == "clustered")
            start = BASE + n // 3 * STEP
            where = f"x >= {start} AND x < {start + max(n // FOUND, 10) * STEP}"
            keys = None
            if order == IN:
                chosen = np.random.default_rng(5).choice(low, KEYS, replace=False)
                keys = sorted((chosen + STEP // 3).tolist())
                where = f"x IN ({', '.join(map(str, keys))})"
            del low
            for one in _contestants(spark, place, where, keys, n, rounds):
                yield {"n": n, "what": order, **one}
            shutil.rmtree(place)
    finally:
        spark.stop()


def _write(place: Path, n: int, *, clustered: bool) -> npt.NDArray[np.int64]:
    """Write the same bounds as shards and as Parquet files; return the lower ones."""
    low = np.arange(n) if clustered else np.random.default_rng(3).permutation(n)
    low *= STEP
    low += BASE
    high = low + 2 * STEP
    ss.Statistics.from_dict({"x": {"min": low, "max": high}}, SCHEMA).save_shards(
        place / "shards", rows=SHARD
    )
    (place / "parquet").mkdir()
    edges = np.linspace(0, n, PARTS + 1).astype(int)
    for i, (first, stop) in enumerate(itertools.pairwise(edges)):
        table = pa.table({"x.min": low[first:stop], "x.max": high[first:stop]})
        pq.write_table(
            table,
            place / "parquet" / f"part-{i:02}.parquet",
            compression="none",
            use_dictionary=False,
        )
    return low


def _contestants(
    spark: Any, place: Path, where: str, keys: list[int] | None, n: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """Compare and time all contestants; yield the seconds of each."""
    from skipstone.spark import prune_shards, to_column, with_verdict

    p = ss.PruningPredicate(where, SCHEMA)
    opened = ss.Shards.open(place / "shards")
    files = spark.read.parquet(str(place / "parquet"))
    cached = spark.read.parquet(str(place / "parquet")).cache()
    cached.count()
    runs: dict[str, Callable[[], int]] = {
        PRUNE_SHARDS: lambda: prune_shards(spark, opened, p).kept,
        "prune_shards, by executors": lambda: (
            prune_shards(spark, opened, p, where="executors").kept
        ),
        "prune_shards, by the driver": lambda: prune_shards(spark, opened, p, where="driver").kept,
    }
    # Spark needs minutes to analyse a native expression of 10,000 keys.
    frames = {"cached": cached} if keys else {"cached": cached, "Parquet": files}
    quick = {
        f"{NATIVE} by hand, {name}": (lambda df=df: by_hand(df, where, keys).count())
        for name, df in frames.items()
    }
    if not keys:
        quick |= {
            f"{NATIVE}, {name}": (
                lambda df=df: df.where(to_column(p, answer="keep", df=df)).count()
            )
            for name, df in frames.items()
        }
    slow = {
        f"{who}, cached": (
            lambda s=s: with_verdict(cached, p, strategy=s).where("verdict > 0").count()
        )
        for who, s in STRATEGIES.items()
    }
    # Slow contestants run less often; over many containers, UDFs run only once, and that counts.
    few = {**slow, **(quick if keys else {})}
    once = slow if n > SLOW else {}
    seconds: dict[str, list[float]] = {who: [] for who in {**runs, **quick, **slow}}
    expected = runs["prune_shards, by the driver"]()
    for who, run in {**runs, **quick, **slow}.items():
        start = time.perf_counter()
        found = run()
        if who in once:
            seconds[who].append(time.perf_counter() - start)
        if found != expected:
            raise AssertionError(f"{who} finds {found} of {n}; expected {expected}")
        if who in runs:
            run()  # by now, kernels have compiled in the background
    for _ in range(rounds):
        for who, run in {**runs, **quick}.items():
            if who not in few:
                seconds[who].append(clock(run))
    for who, run in few.items():
        if who not in once:
            seconds[who] = [clock(run) for _ in range(1 if keys else 2)]
    cached.unpersist()
    yield from ({"who": who, "seconds": s, "kept": expected} for who, s in seconds.items())


def by_hand(df: Any, where: str, keys: list[int] | None) -> Any:
    """Filter by the expression that is fastest in Spark when no statistic is unknown."""
    from pyspark.sql import functions as F

    if keys is not None:
        array = f"array({', '.join(f'{k}L' for k in keys)})"
        return df.where(F.expr(f"exists({array}, k -> k >= `x.min` AND k <= `x.max`)"))
    first, stop = (int(text.split()[2]) for text in where.split(" AND "))
    return df.where(f"`x.max` >= {first}L AND `x.min` < {stop}L")


if __name__ == "__main__":
    given = json.load(sys.stdin)
    for line in measure(Path(given["folder"]), given["sizes"], given["keyed"], given["rounds"]):
        print(json.dumps(line), flush=True)
