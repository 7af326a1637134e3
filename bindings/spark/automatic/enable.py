"""Turn automatic pruning of a session's queries on and off."""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.spark.automatic.pruner import Pruner
from skipstone.bindings.spark.automatic.queries import QueryLog, SessionReport
from skipstone.bindings.spark.session.jvm import plan_gateway
from skipstone.bindings.spark.session.session import (
    OLDEST_CLASSIC,
    check_session,
    is_connect,
    is_stopped,
    require_pyspark,
)
from skipstone.ir.errors import PredicateError, UnsupportedForm
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class _Installed:
    """The rule of a session, in its JVM, and the reports of its queries."""

    rule: Any
    log: QueryLog
    pruner: Pruner
    methods: Any  # of the session: its rules


# By Spark's id of the session: PySpark may make several objects of one session.
_installed: dict[str, _Installed] = {}
_INSTALLING = forks.lock()
EXIT_WAIT_SECONDS: Final = 5.0  # how long the process waits for work when it ends


def enable(spark: SparkSession, *, filesystem: pafs.FileSystem | None = None) -> None:
    """Prune every query of a session from now on, as `prune` prunes a DataFrame.

    This covers DataFrames, SQL, views, CREATE TABLE AS and INSERT. An optimiser rule asks Python
    which files the scans of a query need; this takes a few milliseconds per query. No query fails
    because of it: after an error, or after `spark.skipstone.maxPlanningMillis`, the query reads all
    files. Another call of `enable` resets the reports, the counts and any pause.

    These settings are read at each query:

    - `spark.skipstone.enabled`: true.
    - `spark.skipstone.joins`: true: collect the keys of joins where that is likely to pay.
    - `spark.skipstone.minBytes`: 1 MiB: smaller scans are left alone.
    - `spark.skipstone.maxPlanningMillis`: 1000.
    - `spark.skipstone.fileMillis`, `spark.skipstone.megabytesPerSecond`,
      `spark.skipstone.jobMillis`: the costs of reading, which decide whether collecting keys pays.

    Args:
        spark: A session of classic Spark. Sessions that are cloned from it later, as by
            foreachBatch, are also pruned; those of `newSession` are not.
        filesystem: Where the files are, as an Arrow file system; None finds it by their paths.

    Raises:
        UnsupportedForm: the session is a client of Spark Connect.
        PredicateError: the session was stopped.
        BackendMissing: PySpark is not installed, or this Spark's classes are not the expected ones.

    Example:
        >>> enable(spark)  # doctest: +SKIP
        >>> spark.table("flights").where("dest = 'BOS'").count()  # doctest: +SKIP
        >>> print(report(spark).queries[-1])  # doctest: +SKIP
        in 4 ms
          spark_catalog.default.flights: 2 of 12 files, where dest IS NOT NULL AND dest = 'BOS'
    """
    require_pyspark(OLDEST_CLASSIC)
    _require_classic(spark)
    if is_stopped(spark):
        raise PredicateError(
            "spark was stopped, so it runs no query; enable the session that runs your queries "
            "(skipstone.spark.session() starts one)"
        )
    with _INSTALLING:
        for key, one in tuple(_installed.items()):
            if key == _key(spark) or one.pruner.is_stopped:  # the JVM would keep a stopped one
                _installed.pop(key).rule.remove(one.methods)
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(spark.sparkContext._gateway)
        gateway, log = plan_gateway(spark), QueryLog()
        pruner = Pruner(spark, gateway, filesystem, log)
        rule = gateway.rule(pruner)
        methods = _methods(spark)
        rule.install(methods)
        _installed[_key(spark)] = _Installed(rule, log, pruner, methods)


def disable(spark: SparkSession) -> None:
    """Stop pruning a session's queries. If pruning is not enabled, nothing happens.

    The session that a session was cloned from stays enabled, but not the session's own clones.
    DataFrames that Spark has planned already keep their file lists.

    Args:
        spark: The session.

    Raises:
        UnsupportedForm: the session is a client of Spark Connect.

    Example:
        >>> disable(spark)  # doctest: +SKIP
    """
    _require_classic(spark)
    with _INSTALLING:
        found = _installed.pop(_key(spark), None)
        if found is not None:
            found.rule.remove(found.methods)
        elif not _methods(spark).extraOptimizations().isEmpty():
            plan_gateway(spark).removeRules(
                _methods(spark)
            )  # those of the session it is a clone of


def report(spark: SparkSession) -> SessionReport:
    """Return what automatic pruning did in a session.

    Args:
        spark: A session that `enable` was called with.

    Returns:
        Reports of its latest queries, and counts; prints as text.

    Raises:
        PredicateError: the session is not enabled.
        UnsupportedForm: the session is a client of Spark Connect.

    Example:
        >>> [scan.kept for scan in report(spark).queries[-1].scans]  # doctest: +SKIP
    """
    _require_classic(spark)
    found = _installed.get(_key(spark))
    if found is None:
        raise PredicateError("automatic pruning is off in this session; call enable(spark) first")
    outcomes = found.rule.outcomes()
    answered, failed, late, skipped = (int(n) for n in outcomes.counts())
    return SessionReport(
        found.log.reports(), answered, failed, late, skipped, str(outcomes.error())
    )


@atexit.register
def _finish() -> None:
    """Wait for late requests: Python aborts if a thread is in Arrow while it ends."""
    for one in tuple(_installed.values()):
        one.pruner.finish(EXIT_WAIT_SECONDS)


def _require_classic(spark: Any) -> None:
    check_session(spark)
    if is_connect(spark):
        raise UnsupportedForm(
            "a client of Spark Connect cannot change the server's optimiser; call enable() in the "
            "server's own Python process, or prune single DataFrames with prune(df)"
        )


def _key(spark: Any) -> str:
    return str(spark._jsparkSession.sessionUUID())


def _methods(spark: Any) -> Any:
    return spark._jsparkSession.experimental()
