"""Prune the scans of one optimised plan, when Spark's optimiser rule asks."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from typing import Any, Final

import pyarrow.fs as pafs

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.spark.automatic.queries import QueryLog, QueryReport
from skipstone.bindings.spark.pruning.context import Context, context_of
from skipstone.bindings.spark.pruning.cost import boolean_of, costs_of, number_of
from skipstone.bindings.spark.pruning.plan_scans import scans_of
from skipstone.bindings.spark.pruning.prune import indexes_without_files, listings
from skipstone.bindings.spark.pruning.prune_by_joins import filter_scans_by_joins
from skipstone.bindings.spark.pruning.reports import Pruned
from skipstone.bindings.spark.pruning.scans import FOREVER, Scan
from skipstone.bindings.spark.session.session import is_stopped, parallelism, quiet
from skipstone.ir.errors import SkipstoneError, SkipstoneWarning, describe_error

JOINS_SETTING: Final = "spark.skipstone.joins"
MIN_BYTES_SETTING: Final = "spark.skipstone.minBytes"
MIN_BYTES: Final = 1 << 20
MAX_TOLD: Final = 100  # texts of warnings


class Pruner:
    """Prunes optimised plans, as a Java `Function` that several threads may call.

    It sees the plan that Spark runs, after all other rules. It therefore judges each scan by the
    conditions above that scan, and gives each scan its own file list.

    Args:
        spark: The session that the rule was installed in.
        gateway: The object that reads and changes plans in Spark's JVM.
        filesystem: Where the files are; None finds it by their paths.
        log: Where each query's report goes.
    """

    class Java:
        """py4j makes a Java object of these interfaces."""

        implements: Final = ("java.util.function.Function",)

    def __init__(
        self, spark: Any, gateway: Any, filesystem: pafs.FileSystem | None, log: QueryLog
    ) -> None:
        self._spark, self._gateway, self._filesystem = spark, gateway, filesystem
        self._log = log
        self._warned = False
        self._told: set[str] = set()
        self._lock = threading.Lock()
        self._busy, self._changed = 0, threading.Condition()

    @property
    def is_stopped(self) -> bool:
        """True if the session's Spark was stopped."""
        return is_stopped(self._spark)

    def apply(self, request: Any) -> Any:
        """Return the plan of a `PruningRequest` with fewer files, or None to leave it."""
        with self._changed:
            self._busy += 1
        try:
            return self._answer(request)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def finish(self, seconds: float) -> None:
        """Wait for requests in progress, at most this many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy == 0, seconds)

    def _answer(self, request: Any) -> Any:
        start = time.perf_counter()
        try:
            plan, scans = self._prune(request)
        except Exception as e:  # no query fails because of this
            self._warn_unpruned(describe_error(e))
            self._log.add(QueryReport(Pruned(), time.perf_counter() - start, describe_error(e)))
            with contextlib.suppress(Exception):  # of a JVM that is gone
                request.fail(describe_error(e))
            return None
        report = Pruned(scan.report for scan in scans)
        late = request.isAbandoned()
        why = "it took too long; the query reads all files" if late else ""
        self._log.add(QueryReport(report, time.perf_counter() - start, why))
        return plan

    def _warn_unpruned(self, why: str) -> None:
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            self._warn_once(
                f"a query is not pruned, and reads all files: {why}. Later failures are counted "
                "in report(spark) without a warning"
            )

    def _warn_once(self, why: str) -> None:
        """Warn, once for each text."""
        with self._lock:
            if why in self._told:
                return
            if len(self._told) < MAX_TOLD:
                self._told.add(why)
        warnings.warn(why, SkipstoneWarning, stacklevel=3)

    def _prune(self, request: Any) -> tuple[Any, list[Scan]]:
        plan, spark = request.plan(), self._session(request)
        scans, jvm_scans = scans_of(spark, self._gateway, plan)
        context = context_of(spark, self._gateway, self._filesystem, listings, runs_now=True)
        smallest = number_of(spark.conf.get(MIN_BYTES_SETTING, None), MIN_BYTES_SETTING, MIN_BYTES)
        for scan in scans:
            # `prune` has judged a scan that it replaced.
            if scan.narrowed:
                continue
            if scan.nbytes >= smallest:
                scan.judge(context)
            else:
                scan.leave_unpruned(f"it has fewer bytes than {MIN_BYTES_SETTING}")
        self._join(context, plan, scans, jvm_scans, request)
        indexes: dict[int, Any] = {}
        for number in {scan.same for scan in scans}:
            # An object that occurs in several places of the plan has one list, which must serve
            # them all.
            occurrences = [scan for scan in scans if scan.same == number]
            if any(scan.pruned for scan in occurrences):
                indexes |= indexes_without_files(
                    self._gateway, FOREVER, occurrences[:1], occurrences
                )
        return (self._gateway.replaced(plan, jvm_scans, indexes) if indexes else None), scans

    def _join(
        self, context: Context, plan: Any, scans: list[Scan], jvm_scans: Any, request: Any
    ) -> None:
        conf = context.spark.conf
        remote = any(not root.startswith("file:") for scan in scans for root in scan.roots)
        cores = max(parallelism(context.spark) or 1, 1)
        try:
            if not (enabled() and boolean_of(conf.get(JOINS_SETTING, None), JOINS_SETTING, True)):
                return
            costs = costs_of(remote, cores, lambda key: conf.get(key, None))
        except SkipstoneError as e:
            for scan in scans:
                scan.note_join(f"joins are not used ({e})")
            self._warn_once(f"keys of joins prune nothing: {e}")
            return
        filter_scans_by_joins(context, plan, plan, scans, jvm_scans, costs, request.isAbandoned)

    def _session(self, request: Any) -> Any:
        """Return the session that asks: the rule's own, or one that was cloned from it."""
        asking = request.session()
        if asking.equals(self._spark._jsparkSession):
            return self._spark
        with quiet():
            from pyspark.sql import SparkSession

            return SparkSession(self._spark.sparkContext, asking)
