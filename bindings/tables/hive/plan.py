"""Plans of Hive tables, whose folders are listed only if their partition values may match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipstone.bindings.plans.plan import Plan
from skipstone.bindings.plans.table_protocol import DataSize, Sizes
from skipstone.ir.cached import cached_property

if TYPE_CHECKING:
    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.tables.hive.table import HiveTable
    from skipstone.bindings.tables.parquet.table import ParquetTable


class HivePlan(Plan):
    """A plan of the folders that a condition admits; the contents of other folders are unknown."""

    def __init__(self, plan: Plan, source: HiveTable, num_skipped: int) -> None:
        self.__dict__.update(plan.__dict__)
        self._source, self._num_skipped = source, num_skipped

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes at the stages of planning; the total is unknown if folders were not listed."""
        sizes = super().sizes
        if not self._num_skipped:
            return sizes
        return Sizes(DataSize(None, None, None, None), sizes.partition, sizes.scan)

    def unpruned(self) -> Plan:
        """Return the same plan without pruning.

        It lists every folder, reads every row group and judges every row.
        """
        return self._replan(self._source.whole, None).unpruned()

    def with_dynamic(self, filters: Sequence[DynamicFilter]) -> Plan:
        """Return this plan with other dynamic filters.

        If one of the present filters is left out, the folders that it skipped are listed.

        Args:
            filters: The filters that replace those of the plan.
        """
        if self.dynamic is not None and not set(self.dynamic.filters) <= set(filters):
            limit = self.deferred if self.cut is None else self.cut.limit
            return self._replan(self._source, limit, filters)
        return HivePlan(super().with_dynamic(filters), self._source, self._num_skipped)

    def _replan(
        self,
        table: HiveTable | ParquetTable,
        limit: int | None,
        filters: Sequence[DynamicFilter] | None = None,
    ) -> Plan:
        """Make this plan again for a table, with the same settings.

        Args:
            table: The table.
            limit: The limit; None for no limit.
            filters: Dynamic filters that replace those of the plan; None keeps them.
        """
        own = () if self.dynamic is None else self.dynamic.filters
        return table.plan(
            self.predicate,
            columns=self.columns,
            limit=limit,
            order_by=[str(key) for key in self.order] or None,
            dynamic=list(own if filters is None else filters) or None,
            # As when the plan was made, even if the table's setting changed since.
            dynamic_filtering=self.session is not None,
            timezone=self.timezone,
            ansi=self.settings.ansi,
            case_sensitive=self.settings.case_sensitive,
        )

    def explain(self) -> str:
        """Describe the plan in text, with the number of folders that were not listed."""
        if not self._num_skipped:
            return super().explain()
        return (
            f"{super().explain()}\nfolders     {self._num_skipped} not listed, by partition values"
        )

    def __repr__(self) -> str:
        if not self._num_skipped:
            return super().__repr__()
        return (
            f"Plan({self.sizes.scan.files} files, "
            f"{len(self.kept)} of {len(self.verdicts)} row groups, "
            f"{self._num_skipped} folders not listed, skipping={self.skipping!r})"
        )
