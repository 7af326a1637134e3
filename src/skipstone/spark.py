"""Skipstone in Spark: containers judged where their statistics are, in a DataFrame with one row per container.

PySpark and pandas are imported when a function is first called. Workers need Skipstone installed too.

    >>> import skipstone as ss
    >>> from skipstone import spark as skip
    >>> spark = skip.session()  # doctest: +SKIP
    >>> kept = skip.with_verdict(stats_df, predicate).where("verdict > 0")  # doctest: +SKIP
"""

from __future__ import annotations

from skipstone.bindings.spark.data_source import register
from skipstone.bindings.spark.delta_scan import DeltaScan, files_for_scan, with_stats
from skipstone.bindings.spark.delta_stats import delta_statistics
from skipstone.bindings.spark.java import ensure_java
from skipstone.bindings.spark.native_expression import to_column
from skipstone.bindings.spark.prune import prune, pruned
from skipstone.bindings.spark.prune_join import prune_join
from skipstone.bindings.spark.prune_shards import prune_shards
from skipstone.bindings.spark.read import read
from skipstone.bindings.spark.scans import Pruned, PrunedScan
from skipstone.bindings.spark.session import session
from skipstone.bindings.spark.udf import ContainerUDF, keep_udf, verdict_udf
from skipstone.bindings.spark.verdict import with_verdict
from skipstone.bindings.spark.write_shards import write_shards

__all__ = [
    "ContainerUDF",
    "DeltaScan",
    "Pruned",
    "PrunedScan",
    "delta_statistics",
    "ensure_java",
    "files_for_scan",
    "keep_udf",
    "prune",
    "prune_join",
    "prune_shards",
    "pruned",
    "read",
    "register",
    "session",
    "to_column",
    "verdict_udf",
    "with_stats",
    "with_verdict",
    "write_shards",
]
