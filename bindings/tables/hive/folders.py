"""The folders of a Hive table that a plan listed, as a Parquet table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.tables.parquet.groups import schemas_in
from skipstone.bindings.tables.parquet.table import ParquetTable
from skipstone.ir.errors import SourceError
from skipstone.ir.node import show_path
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.request import PlanRequest
    from skipstone.bindings.tables.hive.table import HiveTable
    from skipstone.ir.node import Path


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

    def refuse_values(self, path: Path) -> None:
        """Raise an error if a file may hold values in a column that has the type NULL in the table.

        Raises:
            SourceError: the column has another type in a file.
        """
        for schema in schemas_in(self.groups.parts):
            if not schema.may_hold_values(path):
                continue
            name = show_path(path)
            raise SourceError(
                f"{schema.example}: its column {name} holds values, and has the type NULL in the "
                "table's first file, which gives the columns; pass their types as "
                "scan_hive(..., schema=), or merge those of all files by scan_parquet"
            )

    def whole(self) -> HiveFolders:
        """Return the table of all folders; this lists them and reads every footer."""
        return self.table.whole

    def replan(self, request: PlanRequest) -> Plan:
        """Return the plan of another request; it lists the folders that this one needs."""
        return self.table.answer(request)
