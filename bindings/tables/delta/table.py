"""Plan a Delta table from its log, as Delta Lake's `DataSkippingReaderBase` does, per conjunct."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.filters.option import enabled
from skipstone.bindings.location import Location
from skipstone.bindings.plans.plan import Plan, plan_table
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.delta import disk
from skipstone.bindings.tables.delta.cache import cached_table, discard
from skipstone.bindings.tables.delta.files import DeltaFiles
from skipstone.bindings.tables.delta.footers import MAX_FOOTERS, prune_by_footers
from skipstone.bindings.tables.delta.log import locate
from skipstone.bindings.tables.delta.snapshot import read_snapshot
from skipstone.ir.errors import StatisticsError

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Dynamic
    from skipstone.bindings.predicates.predicate import PruningPredicate, Source
    from skipstone.bindings.tables.read import Tasks


class DeltaTable(DeltaFiles):
    """One version of a Delta table. Its log has been read; its files have not.

    Attributes:
        path: The table, as it was named.
        version: The version.
        metadata: The table's id, name, description, partitionColumns, configuration and
            createdTime.

    Source: Delta Lake, `DataSkippingReaderBase`.
    """

    def plan(
        self,
        where: Source | PruningPredicate | None = None,
        *,
        columns: list[str] | None = None,
        limit: int | None = None,
        order_by: str | Sequence[str] | None = None,
        stats_skipping: bool = True,
        footers: int = MAX_FOOTERS,
        dynamic: Dynamic = None,
        dynamic_filtering: bool | None = None,
        timezone: str = "UTC",
        ansi: bool = True,
        case_sensitive: bool = False,
    ) -> Plan:
        """Decide which files to read.

        Args:
            where: The condition: SQL text, an expression, filters, or a PruningPredicate over this
                table's schema. None keeps everything.
            columns: The top-level columns to read; None reads all.
            limit: The number of matching rows that suffice; any will do. Fully matched files are
                kept until their live rows suffice. If they never do, all files that may match are
                kept.
            order_by: The order of the rows, as after ORDER BY in Spark SQL: "x DESC NULLS LAST, y".
                With a limit, only files that may hold one of the first rows are kept.
            stats_skipping: Whether to use statistics; if False, only partition values decide.
            footers: The most files whose footers are read because the log lacks bounds. If more
                files that may match lack bounds, no footer is read.
            dynamic: Filters from joins: `DynamicFilterData` from a collector, or a `DynamicFilter`,
                which may still be pending. Rows that they rule out are not read; a limit chooses
                among the others.
            dynamic_filtering: Whether to use `dynamic`; None uses the setting of the table or the
                environment.
            timezone, ansi, case_sensitive: Spark's settings, as for PruningPredicate.

        Raises:
            PredicateError: the condition is malformed or names no column.
            StatisticsError: the table's file in `skipstone.cache_dir` is damaged. It is removed, so
                the next scan reads the log.

        Source: Delta Lake, `filesForScan`.
        """
        try:
            with self.meter.phase("planning"):
                return plan_table(
                    self,
                    where,
                    columns=columns,
                    limit=limit,
                    order_by=order_by,
                    stats_skipping=stats_skipping,
                    dynamic=dynamic,
                    dynamic_filtering=enabled(dynamic_filtering, self.dynamic_filtering),
                    refine=self._footer_pruning(footers) if stats_skipping else None,
                    timezone=timezone,
                    ansi=ansi,
                    case_sensitive=case_sensitive,
                )
        except StatisticsError:  # the saved file is damaged: make the next scan read the log
            disk.discard(self.asked)
            discard(self.asked)
            raise

    def _footer_pruning(
        self, limit: int
    ) -> Callable[[PruningPredicate, Statistics, npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]:
        return lambda predicate, statistics, verdicts: prune_by_footers(
            self, predicate, statistics, verdicts, self._footers, limit
        )

    def files_with_stats_for_scan(
        self, where: Source | PruningPredicate | None = None, **settings: Any
    ) -> pa.Table:
        """Return the rows of `with_stats` that the condition's partition filters keep.

        Args:
            where: The condition, as for `plan`.
            settings: Further arguments of `plan`.

        Source: Delta Lake, `filesWithStatsForScan`.
        """
        return self.with_stats.filter(
            pa.array(self.plan(where, stats_skipping=False, **settings).verdicts != 0)
        )

    def filter_on_partitions(
        self,
        where: Source | PruningPredicate | None = None,
        *,
        keep_num_records: bool = False,
        **settings: Any,
    ) -> pa.Table:
        """Return the files that the condition's partition filters keep.

        Args:
            where: The condition, as for `plan`.
            keep_num_records: Whether to add the column `num_records`, physical rows.
            settings: Further arguments of `plan`.

        Source: Delta Lake, `filterOnPartitions`.
        """
        files = (
            self.files.append_column("num_records", self._physical)
            if keep_num_records
            else self.files
        )
        return files.filter(
            pa.array(self.plan(where, stats_skipping=False, **settings).verdicts != 0)
        )

    def tasks(self, plan: Plan, *, lenient: bool = False) -> Tasks:
        """Return the tasks that read the matching rows of a plan of this table.

        Args:
            plan: The plan.
            lenient: Whether to add the rows for which the condition cannot be evaluated here.
        """
        from skipstone.bindings.tables.delta.read import tasks_of

        return tasks_of(self, plan, lenient)

    def __repr__(self) -> str:
        names = ", ".join(self.schema.names[:6]) + (", ..." if len(self.schema) > 6 else "")
        return f"DeltaTable(version {self.version}, {self.num_files} files, columns: {names})"


def scan_delta(
    path: Location,
    version: int | str | datetime.datetime | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DeltaTable:
    """Read the log of a Delta table.

    Args:
        path: The table's folder, or its URI.
        version: A version, or a time: the last version at or before it; None is the newest.
        storage_options: The options that the package `deltalake` needs to reach the storage.

    Returns:
        The table. Only its log has been read: only the newer part of it, if this process, or
        one with the same `skipstone.cache_dir`, has read the table before.

    Raises:
        SourceError: there is no such table or version, a part of the log is missing or damaged,
            or the table needs features that this reader lacks.

    Source: Delta Lake, PROTOCOL.md, "Action Reconciliation", and `DataSkippingReaderBase`.

    Example:
        >>> import deltalake, pyarrow as pa, tempfile
        >>> path = tempfile.mkdtemp()
        >>> for i in range(3):
        ...     rows = pa.table({"x": range(i * 10, i * 10 + 10)})
        ...     deltalake.write_deltalake(path, rows, mode="append")
        >>> scan_delta(path).plan("x >= 25").sizes.scan.files
        1
    """
    request, place = locate(path, version, storage_options)

    def read(older: DeltaTable | None) -> DeltaTable:
        saved = disk.newest(request, place)
        if saved is not None and saved.asked == request:
            return saved
        base = max(
            (t for t in (older, saved) if t is not None), key=lambda t: t.version, default=None
        )
        with place.meter.phase("log"):
            known = None if base is None else (base.asked, base.snapshot)
            table = DeltaTable(request, read_snapshot(request, place, known), place.meter)
        if saved is None or disk.worth_saving(saved, request):
            return disk.save(table, place)
        return table

    return cached_table(request, read)
