"""`spark_joins`: the query of Flink's document on dynamic partition pruning, in Spark.

It runs by `prune_join`, by `prune` and by Spark alone.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.report.measure import Run
from bench.report.report import OWN, Options, Report, equal
from bench.spark.spark_reads import bench_session
from bench.tables.dynamic import DAYS, PER_DAY, star, times

PEER: Final = "Spark"
PRUNE: Final = f"{OWN}, prune"
LARGER: Final = 10 * PER_DAY  # rows of a file; Spark has a high fixed cost


def spark_joins(options: Options) -> Report:
    """A star join in Spark on a table clustered by date, and on one partitioned by date."""
    days = min(DAYS, max(options.containers // 1000, 50))
    report = Report(
        f"store_returns of {days:,} days joined with the days of a month in twelve, in Spark"
    )
    with tempfile.TemporaryDirectory() as folder, bench_session() as spark:
        for name, apart in (("clustered by date", False), ("partitioned by date", True)):
            root = Path(folder) / name.split()[0]
            dimension = star(root, days, apart=apart, per_day=PER_DAY if apart else LARGER)
            pq.write_table(dimension, f"{folder}/date_dim.parquet")
            returns = spark.read.parquet(str(root))
            dates = spark.read.parquet(f"{folder}/date_dim.parquet").where("d_moy = 2")
            _compare(name, returns, dates, days, options.rounds or 3, report)
    return report


def _compare(name: str, returns: Any, dates: Any, days: int, rounds: int, report: Report) -> None:
    from skipstone.bindings.spark.session.metrics import files_opened
    from skipstone.spark import prune, prune_join

    def plain() -> Any:
        return returns.join(dates, returns.sr_returned_date_sk == dates.d_date_sk).selectExpr(
            "count(*)", "sum(sr_item_sk)"
        )

    def own() -> Any:
        return prune_join(returns, dates, {"sr_returned_date_sk": "d_date_sk"}).selectExpr(
            "count(*)", "sum(sr_item_sk)"
        )

    def pruned() -> Any:
        return prune(plain())

    each = [plain(), own(), pruned()]
    for df in each[1:]:
        equal(OWN, df.collect(), each[0].collect())
    opened = [max(files_opened(df)[:1], default=0) for df in each]
    runs: dict[str, Run] = {
        OWN: partial(_rows, own),
        PRUNE: partial(_rows, pruned),
        PEER: partial(_rows, plain),
    }
    found = times(name, runs, days, rounds, report, PEER)
    faster = [f"{found[PEER].times(found[name]):.1f}" for name in (OWN, PRUNE)]
    report.notes.append(
        f"{name}: {opened[0]:,} files by plain Spark, {opened[1]:,} by prune_join, "
        f"{opened[2]:,} by prune; {faster[0]} and {faster[1]} times as fast",
    )


def _rows(make: Any) -> Any:
    return make().collect()
