"""Find the table that a user names: a Skipstone table, or a path and a format."""

from __future__ import annotations

from typing import Any, TypeAlias

from skipstone.bindings.tables.delta.table import DeltaTable
from skipstone.bindings.tables.detect import check_format, format_of
from skipstone.bindings.tables.hive.table import HiveTable
from skipstone.bindings.tables.iceberg.table import IcebergTable
from skipstone.bindings.tables.parquet.table import ParquetTable
from skipstone.bindings.tables.scan import open_table
from skipstone.ir.errors import SourceError

Table: TypeAlias = DeltaTable | HiveTable | IcebergTable | ParquetTable


def table_of(
    table: Any,
    format: str | None = None,
    version: int | str | None = None,
    *,
    infer_types: bool = True,
) -> Table:
    """Return a Skipstone table unchanged; scan anything else in its format.

    Args:
        table: The table: a path, its URI, a list of paths, or a table of deltalake or pyiceberg.
        format: "parquet", "hive", "delta" or "iceberg". None detects it: a folder `_delta_log`,
            Iceberg's metadata, folders `key=value`.
        version: The version of a Delta table, or the id of an Iceberg snapshot, or the name of one
            of its branches or tags; None is the newest.
        infer_types: True to infer the types of partition folders.

    Raises:
        SourceError: nothing is there, or the table has another format.
    """
    if isinstance(table, DeltaTable | HiveTable | IcebergTable | ParquetTable):
        if format is not None or version is not None:
            raise SourceError(
                "format= and version= apply to a path; a scanned table already has both"
            )
        return table
    check_format(format)
    found = format or format_of(table)
    if version is not None and found not in ("delta", "iceberg"):
        raise SourceError(
            f"version= applies to Delta and Iceberg tables; {table} is read as {found}"
        )
    return open_table(table, found, version=version, infer_types=infer_types)
