"""`spark_reads`: queries in Spark over TPC-H's lineitem and New York's flights, with `prune`."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.report.measure import Run, Timing, clock, interleave
from bench.report.report import OWN, Options, Report, Requirement, WrongAnswer
from skipstone.bindings.shell.demo import make_flights, make_lineitem
from skipstone.bindings.spark.session.metrics import files_opened

PEER: Final = "Spark"
CORES: Final = 4
SLOWER, SLACK = 1.1, 0.1  # allowed: this many times as long, or seconds more, whichever is greater

MONTH: Final = "l_shipdate >= DATE '1995-03-01' AND l_shipdate < DATE '1995-04-01'"
QUERIES: Final = {
    # TPC-H, and queries like it.
    "Q1": """SELECT l_returnflag, l_linestatus, sum(l_quantity),
                    sum(l_extendedprice * (1 - l_discount)), avg(l_discount), count(*)
             FROM lineitem
             WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY GROUP BY ALL""",
    "Q6": """SELECT sum(l_extendedprice * l_discount) FROM lineitem
             WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
             AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "one month": f"SELECT sum(l_quantity) FROM lineitem WHERE {MONTH}",
    "one day": """SELECT count(*), max(l_extendedprice) FROM lineitem
                  WHERE l_shipdate = DATE '1996-02-29'""",
    "first days": """SELECT l_orderkey, l_linenumber FROM lineitem
                     WHERE l_shipdate <= DATE '1992-01-05'""",
    "no day": "SELECT count(*) FROM lineitem WHERE l_shipdate > DATE '1999-06-01'",
    "year(l_shipdate)": """SELECT count(*), sum(l_tax) FROM lineitem
                           WHERE year(l_shipdate) = 1993 AND month(l_shipdate) = 7""",
    "receipt date": """SELECT count(*), avg(l_quantity) FROM lineitem
                       WHERE l_receiptdate < DATE '1992-03-01'""",
    "ORDER BY LIMIT": f"""SELECT l_orderkey, l_linenumber FROM lineitem WHERE {MONTH}
                          ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 10""",
    "join of months": f"""SELECT count(*) FROM (SELECT * FROM lineitem WHERE {MONTH}) a
                          JOIN (SELECT * FROM lineitem WHERE l_shipdate >= DATE '1995-06-01'
                          AND l_shipdate < DATE '1995-07-01') b ON a.l_orderkey = b.l_orderkey""",
    "UNION ALL": f"""SELECT l_shipmode, count(*) FROM lineitem WHERE {MONTH} GROUP BY l_shipmode
                     UNION ALL
                     SELECT l_shipmode, count(*) FROM lineitem
                     WHERE l_shipdate >= DATE '1998-11-01' GROUP BY l_shipmode""",
    "subquery": f"""SELECT count(*) FROM lineitem WHERE {MONTH} AND l_quantity >
                    (SELECT avg(l_quantity) FROM lineitem WHERE l_shipdate < DATE '1992-02-01')""",
    "a key": "SELECT * FROM lineitem WHERE l_orderkey = 4711",
    "no condition": "SELECT count(*), sum(l_quantity) FROM lineitem",
    "a part of all": """SELECT sum(l_extendedprice) FROM lineitem
                        WHERE l_shipmode = 'AIR' AND l_discount > 0.09""",
    # Flights: a folder for each month, sorted by destination.
    "flights to Boston": """SELECT count(*), avg(dep_delay) FROM flights
                            WHERE dest = 'BOS' AND dep_delay > 60""",
    "flights of a month": """SELECT carrier, count(*) FROM flights
                             WHERE month = 2 AND carrier IN ('HA', 'AS') GROUP BY carrier""",
    "flights at Christmas": """SELECT count(*) FROM flights
                               WHERE time_hour >= TIMESTAMP '2013-12-24 00:00:00'
                               AND dest = 'HNL'""",
    "flights of a day": """SELECT origin, count(*) FROM flights
                           WHERE time_hour >= TIMESTAMP '2013-07-04'
                           AND time_hour < TIMESTAMP '2013-07-05' GROUP BY origin""",
    "flights to nowhere": "SELECT count(*) FROM flights WHERE dest = 'ZZZ'",
}


def spark_reads(options: Options) -> Report:
    """Spark with and without `prune`: files opened, and the time from the text to the rows."""
    report = Report(
        "TPC-H lineitem (scale 1, a file for each month of shipping) and flights, "
        f"{len(QUERIES)} queries, Spark on {_cores()} cores"
    )
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, bench_session() as spark:
        root = Path(folder)
        for name, path in (
            ("lineitem", _by_month(make_lineitem(root, 1), root / "months")),
            ("flights", make_flights(root)),
        ):
            spark.read.parquet(path.as_uri()).createOrReplaceTempView(name)
        for name, sql in QUERIES.items():
            worst = max(worst, _compare(name, sql, spark, options.rounds or 5, report))
    report.requirements.append(
        Requirement(
            "the slowest query: time relative to the limit of 1.1 times plain Spark or 100 ms more",
            worst,
            1,
            at_most=True,
        )
    )
    return report


def _cores() -> int:
    return min(os.cpu_count() or 1, CORES)


@contextmanager
def bench_session(more: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Start a session with code generation on this machine's cores, and more settings."""
    from skipstone.spark import session

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_cores()),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    spark = session(
        settings | dict(more or {}), master=f"local[{_cores()}]", name="skipstone bench"
    )
    try:
        yield spark
    finally:
        spark.stop()


def _by_month(source: Path, target: Path) -> Path:
    """Split the table, which is sorted by ship date, into one file for each month."""
    target.mkdir()
    table = pq.read_table(source)
    days = table["l_shipdate"]
    months = np.asarray(pc.add(pc.multiply(pc.year(days), 12), pc.month(days)))
    starts = [*np.flatnonzero(np.diff(months, prepend=-1)).tolist(), table.num_rows]
    for i, (start, stop) in enumerate(itertools.pairwise(starts)):
        pq.write_table(table.slice(start, stop - start), target / f"{i:02}.parquet")
    return target


def _compare(name: str, sql: str, spark: Any, rounds: int, report: Report) -> float:
    """Compare and time a query; return the pruned query's time as a share of the allowed time."""
    from skipstone.spark import prune

    plain, small = spark.sql(sql), prune(spark.sql(sql))
    expected, found = (sorted(map(str, df.collect())) for df in (plain, small))
    if found != expected:
        raise WrongAnswer(f"{name}: {found[:3]}, expected {expected[:3]}")
    runs: dict[str, Run] = {
        PEER: lambda: spark.sql(sql).collect(),
        OWN: lambda: prune(spark.sql(sql)).collect(),
    }
    timings = interleave(runs, rounds)
    own, peer = timings[OWN], timings[PEER]
    for engine in (OWN, PEER):
        report.time(f"{name}: {engine}", timings[engine], own=own, engine=engine, group=name)
    only = Timing(tuple(_planning(sql, spark)))
    files = [sum(files_opened(df)) for df in (plain, small)]
    report.rows.append(
        {
            "": name,
            "files, plain": files[0],
            "files": files[1],
            "plain ms": peer.median * 1e3,
            "ms": own.median * 1e3,
            "of it prune() ms": only.median * 1e3,
            "times as fast": peer.times(own),
        }
    )
    return own.median / max(peer.median * SLOWER, peer.median + SLACK)


def _planning(sql: str, spark: Any) -> Iterator[float]:
    """Yield the seconds of `prune` alone, with Spark's optimiser, which it runs once more."""
    from skipstone.spark import prune

    for _ in range(3):
        yield clock(partial(prune, spark.sql(sql)))
