"""Plan a Delta table from its log, as Delta Lake's `DataSkippingReaderBase` does, per conjunct."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.location import is_unity
from skipstone.bindings.plans.plan import Plan, plan_table
from skipstone.bindings.plans.records import log_opened
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.delta import disk
from skipstone.bindings.tables.delta.cache import cached_table, discard
from skipstone.bindings.tables.delta.files import DeltaFiles
from skipstone.bindings.tables.delta.footers import prune_by_footers
from skipstone.bindings.tables.delta.log import locate
from skipstone.bindings.tables.delta.snapshot import read_snapshot
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.errors import StatisticsError, counted
from skipstone.ir.session import check_flag

if TYPE_CHECKING:
    from skipstone.bindings.plans.readers import ReaderName
    from skipstone.bindings.plans.request import PlanRequest
    from skipstone.bindings.plans.table_protocol import DatasetFile
    from skipstone.bindings.predicates.predicate import Condition, PruningPredicate
    from skipstone.bindings.tables.read import Tasks


class DeltaTable(DeltaFiles):
    """One version of a Delta table. Its log has been read; its files have not.

    Attributes:
        version: The version.
        metadata: The table's id, name, description, partitionColumns, configuration and
            createdTime.

    Source: Delta Lake, `DataSkippingReaderBase`.
    """

    def answer(self, request: PlanRequest) -> Plan:
        """Return the plan of a request; it may read the footers of a few files without bounds."""
        refine = self._footer_pruning(request.footers) if request.stats_skipping else None
        try:
            with self.meter.phase("planning"):
                return plan_table(self, request, refine)
        except StatisticsError:  # the saved file is damaged: make the next scan read the log
            disk.discard(self.request)
            discard(self.request)
            raise

    def _footer_pruning(
        self, limit: int
    ) -> Callable[[PruningPredicate, Statistics, npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]:
        return lambda predicate, statistics, verdicts: prune_by_footers(
            self, predicate, statistics, verdicts, self._footers, limit
        )

    def files_with_stats_for_scan(
        self, where: Condition | None = None, **settings: Any
    ) -> pa.Table:
        """Return the rows of `with_stats` that the condition's partition filters keep.

        Args:
            where: The condition, as for `plan`.
            settings: Further arguments of `plan`.

        Source: Delta Lake, `filesWithStatsForScan`.
        """
        return pc.filter(
            self.with_stats,
            arrow_of(self.plan(where, stats_skipping=False, **settings).verdicts != 0),
        )

    def filter_on_partitions(
        self, where: Condition | None = None, *, keep_num_records: bool = False, **settings: Any
    ) -> pa.Table:
        """Return the files that the condition's partition filters keep.

        Args:
            where: The condition, as for `plan`.
            keep_num_records: True to add the column `num_records`, physical rows.
            settings: Further arguments of `plan`.

        Source: Delta Lake, `filterOnPartitions`.
        """
        check_flag("keep_num_records", keep_num_records)
        if keep_num_records:
            files = self.files.append_column("num_records", self._physical)
        else:
            files = self.files
        return pc.filter(
            files, arrow_of(self.plan(where, stats_skipping=False, **settings).verdicts != 0)
        )

    def tasks(self, plan: Plan, *, lenient: bool = False, reader: ReaderName = "auto") -> Tasks:
        """Return the tasks that read the matching rows of a plan of this table.

        Args:
            plan: The plan.
            lenient: True to add the rows for which the condition cannot be evaluated here.
            reader: The decoder of the files, where it can decode them.
        """
        from skipstone.bindings.tables.delta.read_files import tasks_of
        from skipstone.bindings.tables.read import RowSelection

        return tasks_of(self, RowSelection.of(plan, lenient, reader), plan)

    def dataset_files(self, plan: Plan) -> Iterator[DatasetFile]:
        """Yield what pyarrow.dataset must know about the files of a plan."""
        from skipstone.bindings.tables.delta.dataset_files import dataset_files

        return dataset_files(self, plan)

    def __repr__(self) -> str:
        return (
            f"DeltaTable(version {self.version}, {counted(self.num_files, 'files')}, "
            f"{self._shown_columns()})"
        )


def _is_open(source: Any) -> bool:
    """Return True for a table that the package `deltalake` has open."""
    return (type(source).__module__ or "").startswith("deltalake.") and hasattr(source, "table_uri")


def scan_delta(
    source: Any,
    version: int | str | datetime.datetime | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DeltaTable:
    """Read the log of a Delta table.

    Args:
        source: The table's folder, its URI, its name in Unity Catalog as `scan` takes it, or a
            table that the package `deltalake` has open, whose version and options are used.
        version: A version, or a time: the last version at or before it; None is the newest.
        storage_options: The options that the package `deltalake` needs to reach the storage, in
            any of the spellings that `scan_parquet` takes.

    Returns:
        The table. Only its log has been read; if this process, or one with the same
        `config.statistics_cache_dir`, has read the table before, only the newer part of the log.

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
    if _is_open(source):
        version = source.version() if version is None else version
        storage_options = storage_options or source._storage_options
        source = source.table_uri
    if is_unity(source):
        from skipstone.bindings.tables.unity import delta_in_unity

        source, storage_options = delta_in_unity(source, storage_options)
    request, location = locate(source, version, storage_options)

    def read(older: DeltaTable | None) -> DeltaTable:
        saved = disk.newest(request, location)
        if saved is not None and saved.request == request:
            return saved
        base = max(
            (t for t in (older, saved) if t is not None), key=lambda t: t.version, default=None
        )
        with location.meter.phase("log"):
            known = None if base is None else (base.request, base.snapshot)
            table = DeltaTable(request, read_snapshot(request, location, known), location.meter)
        if saved is None or disk.worth_saving(saved, request):
            return disk.save(table, location)
        return table

    return log_opened(cached_table(request, read), "delta", source)
