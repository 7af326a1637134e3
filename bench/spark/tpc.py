"""`tpch` and `tpcds`: the benchmarks' queries in plain Spark, and under `enable`."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.report.measure import Run, Timing, interleave
from bench.report.report import OWN, Options, Report, Requirement, WrongAnswer
from bench.slow_s3 import BUCKET, DELAY, slow_store, spark_settings
from bench.spark.spark_reads import PEER, bench_session
from bench.spark.tpc_data import lake_of, queries_of
from skipstone.bindings.spark.session.metrics import files_opened

ENABLED: Final = "spark.skipstone.enabled"
# The sum of all queries, as a share of plain Spark's.
SORTED, UNSORTED, STORED = 0.9, 1.02, 0.6
MEMORY: Final = {"spark.driver.memory": "6g"}  # some queries broadcast large tables
SLOWER, SLACK = 1.05, 0.05  # a query may take this many times as long, or seconds more


@dataclass(frozen=True, slots=True)
class Found:
    """One query in plain Spark and under `enable`."""

    plain: Timing
    own: Timing
    files: tuple[int, int]

    @property
    def excess(self) -> float:
        """Return the time as a share of the allowed time."""
        plain = self.plain.best
        return self.own.best / max(plain * SLOWER, plain + SLACK)


def tpch(options: Options) -> Report:
    """TPC-H's 22 queries in Spark, plain and under `enable`: time and files."""
    return _on_disk("tpch", options)


def tpcds(options: Options) -> Report:
    """TPC-DS's 99 queries in Spark, plain and under `enable`: time and files."""
    return _on_disk("tpcds", options)


def tpch_s3(options: Options) -> Report:
    """TPC-H as `tpch`, sorted, on an S3 server with 10 ms added to each request."""
    return _on_s3("tpch", options)


def tpcds_s3(options: Options) -> Report:
    """TPC-DS as `tpcds`, sorted, on an S3 server with 10 ms added to each request."""
    return _on_s3("tpcds", options)


def _on_disk(name: str, options: Options) -> Report:
    report = Report(
        f"{name.upper()}, scale 1, queries in Spark: plain, and with sks.enable(spark); rows equal"
    )
    for ordered, most in ((True, SORTED), (False, UNSORTED)):
        lake = "sorted" if ordered else "unsorted"
        if options.only and lake not in options.only:
            continue
        tables = folders(lake_of(name, ordered=ordered))
        uris = {table.name: table.as_uri() for table in tables}
        with bench_session(MEMORY) as spark:
            for table, uri in uris.items():
                spark.read.parquet(uri).createOrReplaceTempView(table)
            benchmark(report, lake, spark, name, options, most)
    return report


def _on_s3(name: str, options: Options) -> Report:
    report = Report(
        f"{name.upper()}, scale 1, in Spark on S3 with {DELAY * 1e3:.0f} ms a request: plain, and "
        "with sks.enable(spark); rows equal"
    )
    tables = folders(lake_of(name, ordered=True))
    with tempfile.TemporaryDirectory() as folder, slow_store(Path(folder), tables) as address:
        uris = {table.name: f"s3a://{BUCKET}/{table.name}" for table in tables}
        with bench_session(MEMORY | spark_settings(address, _hadoop())) as spark:
            for table, uri in uris.items():
                spark.read.parquet(uri).createOrReplaceTempView(table)
            benchmark(report, "sorted, S3", spark, name, options, STORED)
    return report


def _hadoop() -> str:
    """Return the version of the Hadoop that PySpark brings."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return next(jars.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]


def folders(lake: Path) -> list[Path]:
    """Return the folders of a lake's tables."""
    return [table for table in sorted(lake.iterdir()) if table.is_dir()]


def benchmark(
    report: Report,
    lake: str,
    spark: Any,
    name: str,
    options: Options,
    most: float,
) -> None:
    """Run the queries of a benchmark over the session's views, and report them.

    Args:
        report: The report.
        lake: The kind of tables, for the report.
        spark: The session.
        name: "tpch" or "tpcds".
        options: The rounds, and the only queries, by names such as "Q1".
        most: The largest allowed total time, as a share of plain Spark's.
    """
    queries = {
        query: text
        for query, text in queries_of(name).items()
        if not {o for o in options.only if o.startswith("Q")} or query in options.only
    }
    found = dict(_queries(spark, queries, options.rounds or 3, report))
    for query, one in found.items():
        _row(report, f"{lake}, {query}", one)
    _summary(report, lake, found, most)


def _queries(
    spark: Any, queries: dict[str, str], rounds: int, report: Report
) -> Iterator[tuple[str, Found]]:
    from skipstone.spark import enable
    from skipstone.spark import report as session_report

    enable(spark)
    for name, sql in queries.items():
        frames: dict[str, Any] = {}
        answers: dict[str, list[str]] = {}

        run = partial(_run, spark, sql, frames, answers)
        try:
            run(PEER)
        except Exception as e:  # DuckDB's dialect is not Spark's
            report.notes.append(f"{name} does not run in Spark: {str(e)[:100]!r}")
            continue
        runs: dict[str, Run] = {PEER: partial(run, PEER), OWN: partial(run, OWN)}
        try:
            timings = _timed(runs, rounds)
        except Exception as e:  # such as too little memory for a broadcast
            report.notes.append(f"{name} fails: {str(e)[-200:]!r}")
            continue
        if answers[PEER] != answers[OWN]:
            raise WrongAnswer(f"{name}: {answers[OWN][:3]}, expected {answers[PEER][:3]}")
        files = [sum(files_opened(frames[engine])) for engine in (PEER, OWN)]
        yield name, Found(timings[PEER], timings[OWN], (files[0], files[1]))
    now = session_report(spark)
    report.notes.append(
        f"{now.answered} plans answered, {now.failed} failed, {now.late} late, "
        f"{now.skipped} skipped"
    )


def _timed(runs: dict[str, Run], rounds: int) -> dict[str, Timing]:
    """Time a query; in three times the rounds if it seems slower than allowed.

    In a few rounds, some of a hundred queries are slower by chance.
    """
    timings = interleave(runs, rounds)
    if Found(timings[PEER], timings[OWN], (0, 0)).excess <= 1:
        return timings
    more = interleave(runs, 2 * rounds)
    return {name: Timing(t.seconds + more[name].seconds) for name, t in timings.items()}


def _run(
    spark: Any, sql: str, frames: dict[str, Any], answers: dict[str, list[str]], engine: str
) -> None:
    with _enabled(spark, engine == OWN):
        frames[engine] = spark.sql(sql)
        answers[engine] = sorted(map(_shown, frames[engine].collect()))


@contextmanager
def _enabled(spark: Any, on: bool) -> Iterator[None]:
    spark.conf.set(ENABLED, str(on).lower())
    try:
        yield
    finally:
        spark.conf.set(ENABLED, "false")


def _shown(row: Any) -> str:
    """Return a row as text; sums of floats depend on the order of rows."""
    return repr([_rounded(v) for v in row])


def _rounded(value: object) -> object:
    if isinstance(value, Decimal):
        value = float(value)
    return float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value


def _row(report: Report, name: str, one: Found) -> None:
    for engine, timing in ((OWN, one.own), (PEER, one.plain)):
        report.time(f"{name}: {engine}", timing, engine=engine, group=name)
    report.rows.append(
        {
            "": name,
            "plain ms": one.plain.best * 1e3,
            "ms": one.own.best * 1e3,
            "share": one.own.best / one.plain.best,
            "files, plain": one.files[0],
            "files": one.files[1],
        }
    )


def _summary(report: Report, lake: str, found: dict[str, Found], most: float) -> None:
    plain, own = (
        sum(t.best for t in ts)
        for ts in zip(*((f.plain, f.own) for f in found.values()), strict=True)
    )
    files = [sum(f.files[i] for f in found.values()) for i in (0, 1)]
    report.rows.append(
        {
            "": f"{lake}, all {len(found)}",
            "plain ms": plain * 1e3,
            "ms": own * 1e3,
            "share": own / plain,
            "files, plain": files[0],
            "files": files[1],
        }
    )
    slowest = max(found, key=lambda name: found[name].excess)
    report.requirements += [
        Requirement(
            f"{lake}: total time of {len(found)} queries, as a share of plain Spark's",
            own / plain,
            most,
            at_most=True,
        ),
        Requirement(
            f"{lake}: the slowest query ({slowest}), relative to its limit: 1.05 times plain "
            "Spark's time, or 50 ms more",
            found[slowest].excess,
            1,
            at_most=True,
        ),
    ]
