"""The folders of a Hive table that a plan listed, as a Parquet table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipstone.bindings.plans.table_protocol import DataSize, Mask
from skipstone.bindings.tables.parquet.table import ParquetTable

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.request import PlanRequest
    from skipstone.bindings.tables.hive.table import HiveTable


class HiveFolders(ParquetTable):
    """The folders that a condition allows; the contents of other folders are unknown.

    Attributes:
        table: The whole table.
        skipped_folders: The number of folders that were not listed.
    """

    table: HiveTable

    def total(self, planned: Mask) -> DataSize:
        """Return how much data the whole table holds; unknown if folders were not listed."""
        return DataSize(None, None, None, None) if self.skipped_folders else super().total(planned)

    def whole(self) -> HiveFolders:
        """Return the table of all folders; this lists them and reads every footer."""
        return self.table.whole

    def replan(self, request: PlanRequest) -> Plan:
        """Return the plan of another request; it lists the folders that this one needs."""
        return self.table.answer(request)
