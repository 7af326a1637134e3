"""Find the table that a user names: a Skipstone table, or a path and a format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from skipstone.bindings.location import resolve
from skipstone.bindings.tables.delta.table import DeltaTable, scan_delta
from skipstone.bindings.tables.detect import FORMATS, HINT, format_of, metadata_files
from skipstone.bindings.tables.hive.table import HiveTable, scan_hive
from skipstone.bindings.tables.iceberg.table import IcebergTable, scan_iceberg
from skipstone.bindings.tables.parquet.table import ParquetTable, scan_parquet
from skipstone.ir.errors import SourceError

Table: TypeAlias = DeltaTable | HiveTable | IcebergTable | ParquetTable


def table_of(
    table: Any,
    format: str | None = None,
    version: int | str | None = None,
    *,
    infer_types: bool = True,
) -> Table:
    """Return a Skipstone table unchanged; scan a path, its URI, or a list of paths in its format.

    Args:
        table: Which table.
        format: "parquet", "hive", "delta" or "iceberg". None detects it: a folder `_delta_log`,
            Iceberg's metadata, folders `key=value`.
        version: The version of a Delta table, or the id of an Iceberg snapshot; None is the newest.
        infer_types: True to infer the types of partition folders.

    Raises:
        SourceError: nothing is there, or the format is another.
    """
    if isinstance(table, DeltaTable | HiveTable | IcebergTable | ParquetTable):
        if format is not None or version is not None:
            raise SourceError(
                "format= and version= apply to a path; a scanned table already has both"
            )
        return table
    if format is not None and format not in FORMATS:
        raise SourceError(
            f"format is {format!r}; expected {', '.join(FORMATS)}, or None to detect it"
        )
    if not isinstance(table, str | os.PathLike | Sequence):
        # A pyiceberg table; scan_iceberg raises an error that names anything else.
        return scan_iceberg(table, None if version is None else int(version))
    found = format or format_of(table)
    if version is not None and found not in ("delta", "iceberg"):
        raise SourceError(
            f"version= applies to Delta and Iceberg tables; {table} is read as {found}"
        )
    match found:
        case "delta":
            return scan_delta(table, version)
        case "iceberg":
            metadata = _metadata(os.fspath(table))  # type: ignore[arg-type]
            return scan_iceberg(metadata, None if version is None else int(version))
        case "hive":
            return scan_hive(table, infer_types=infer_types)  # type: ignore[arg-type]
    return scan_parquet(table)


def _metadata(path: str) -> str:
    """Return the metadata file of an Iceberg table: the named file, or the newest in its folder."""
    if path.endswith(".json"):
        return path
    names = metadata_files(*resolve(path))
    if not names:
        raise SourceError(
            f"{path}: not an Iceberg table; its folder metadata has no *.metadata.json"
        )
    newest = max(names, key=lambda n: (_number(n), names[n]))
    return path if HINT in names else f"{path.rstrip('/')}/metadata/{newest}"


def _number(name: str) -> int:
    """Return the version in the name of a metadata file; -1 if there is none.

    Names are `00012-<uuid>.metadata.json` or `v12.metadata.json`.
    """
    digits = name.removeprefix("v").split("-")[0].split(".")[0]
    return int(digits) if digits.isdigit() else -1
