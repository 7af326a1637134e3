"""Scan a table whose format is found by what lies there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skipstone.bindings.tables.detect import FORMATS, format_of
from skipstone.ir.errors import SourceError

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.table import DeltaTable
    from skipstone.bindings.tables.hive.table import HiveTable
    from skipstone.bindings.tables.iceberg.table import IcebergTable
    from skipstone.bindings.tables.parquet.table import ParquetTable


def scan(
    source: Any, *, format: str | None = None
) -> ParquetTable | HiveTable | DeltaTable | IcebergTable:
    """Open a table, whatever its format.

    Args:
        source: A file, a folder, a glob or a list of them, by path or URI; or pyiceberg's table.
        format: "parquet", "hive", "delta" or "iceberg"; None looks: a folder `_delta_log` makes a
            Delta table, `metadata/*.metadata.json` an Iceberg table, folders `key=value` a Hive
            table, all else is Parquet.

    Returns:
        What `scan_parquet`, `scan_hive`, `scan_delta` or `scan_iceberg` returns; these have more
        options.

    Raises:
        SourceError: nothing is there, it cannot be read, or `format` is another word.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> os.makedirs(f"{folder}/day=1")
        >>> pq.write_table(pa.table({"x": range(100)}), f"{folder}/day=1/part.parquet")
        >>> scan(folder).partition_columns
        ('day',)
    """
    if format is not None and format not in FORMATS:
        raise SourceError(
            f"format is {format!r}; expected {', '.join(FORMATS)}, or None to find it"
        )
    if format is None and (type(source).__module__ or "").startswith("pyiceberg."):
        format = "iceberg"
    match format or format_of(source):
        case "delta":
            from skipstone.bindings.tables.delta.table import scan_delta

            return scan_delta(source)
        case "iceberg":
            from skipstone.bindings.tables.iceberg.table import scan_iceberg

            return scan_iceberg(source)
        case "hive":
            from skipstone.bindings.tables.hive.table import scan_hive

            return scan_hive(source)
    from skipstone.bindings.tables.parquet.table import scan_parquet

    return scan_parquet(source)
