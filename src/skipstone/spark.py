"""Skipstone in Spark: prune queries, read tables, judge statistics.

PySpark and pandas are imported when a function is first called. Workers need Skipstone, too.

    >>> import skipstone.spark as sks
    >>> spark = sks.session()  # doctest: +SKIP
    >>> sks.enable(spark)  # doctest: +SKIP
    >>> late = sks.prune(spark.read.parquet("/lake/t"), "x = 5")  # doctest: +SKIP
    >>> kept = sks.with_verdict(stats_df, predicate).where("verdict > 0")  # doctest: +SKIP
"""

from __future__ import annotations

from skipstone.bindings.spark.automatic.enable import disable, enable, report
from skipstone.bindings.spark.automatic.new_sessions import enable_new_sessions
from skipstone.bindings.spark.automatic.queries import QueryReport, SessionReport
from skipstone.bindings.spark.pruning.prune import prune, pruned
from skipstone.bindings.spark.pruning.prune_join import prune_join
from skipstone.bindings.spark.pruning.reports import Pruned, PrunedScan
from skipstone.bindings.spark.reading.data_source import register
from skipstone.bindings.spark.reading.delta_scan import DeltaScan, files_for_scan, with_stats
from skipstone.bindings.spark.reading.read_frame import read
from skipstone.bindings.spark.registered.register import (
    register_statistics,
    registered_statistics,
    unregister_statistics,
)
from skipstone.bindings.spark.registered.registry import RegisteredStatistics
from skipstone.bindings.spark.session.java import ensure_java
from skipstone.bindings.spark.session.session import session
from skipstone.bindings.spark.shards.prune_shards import prune_shards
from skipstone.bindings.spark.shards.write_shards import write_shards
from skipstone.bindings.spark.statistics.delta_stats import delta_statistics
from skipstone.bindings.spark.statistics.native_expression import to_column
from skipstone.bindings.spark.statistics.udf import ContainerUDF, keep_udf, verdict_udf
from skipstone.bindings.spark.statistics.verdict import with_verdict

__all__ = [
    "ContainerUDF",
    "DeltaScan",
    "Pruned",
    "PrunedScan",
    "QueryReport",
    "RegisteredStatistics",
    "SessionReport",
    "delta_statistics",
    "disable",
    "enable",
    "enable_new_sessions",
    "ensure_java",
    "files_for_scan",
    "keep_udf",
    "prune",
    "prune_join",
    "prune_shards",
    "pruned",
    "read",
    "register",
    "register_statistics",
    "registered_statistics",
    "report",
    "session",
    "to_column",
    "unregister_statistics",
    "verdict_udf",
    "with_stats",
    "with_verdict",
    "write_shards",
]

if __name__ == "__main__":
    import sys

    from skipstone.bindings.spark.automatic import run

    if len(sys.argv) > 1:
        run.run(sys.argv[1:])
    else:
        print(run.__file__)
