"""Open a table of any format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from skipstone.bindings.location import ListedFolder, chosen_filesystem, is_unity
from skipstone.bindings.progress import overriding
from skipstone.bindings.tables.detect import check_format, find_format
from skipstone.bindings.tables.table import Table
from skipstone.ir.errors import SourceError
from skipstone.kernels.settings import ProgressSetting

if TYPE_CHECKING:
    import pyarrow as pa

    from skipstone.bindings.tables.delta.table import DeltaTable
    from skipstone.bindings.tables.hive.table import HiveTable
    from skipstone.bindings.tables.iceberg.table import IcebergTable
    from skipstone.bindings.tables.parquet.table import ParquetTable

    SomeTable: TypeAlias = ParquetTable | HiveTable | DeltaTable | IcebergTable


def scan(
    source: Any,
    *,
    format: str | None = None,
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    progress: ProgressSetting = None,
) -> ParquetTable | HiveTable | DeltaTable | IcebergTable:
    """Open a table of any format.

    Args:
        source: A file, a folder, a glob or a list of them, by path or URI; a pyiceberg or
            deltalake table; the name of a table in Unity Catalog, `uc://catalog.schema.table`; or a
            table that is open already.
        format: "parquet", "hive", "delta" or "iceberg". None detects it: a folder `_delta_log`
            means Delta, `metadata/*.metadata.json` means Iceberg, folders `key=value` mean Hive,
            everything else is Parquet. A catalog knows the format.
        catalog: As for `scan_iceberg`; `source` is then the table's name in it. Hive's metastore
            and AWS Glue also have Delta and Parquet tables.
        storage_options: As for `scan_parquet`. For Unity Catalog also its `databricks_host` and
            `databricks_token`, which environment variables of these names in capitals give, too.
        progress: As `skipstone.config.progress`, for this call.

    Returns:
        The table that `scan_parquet`, `scan_hive`, `scan_delta` or `scan_iceberg` returns. These
        functions have more options. An open table is returned as it is.

    Raises:
        SourceError: nothing exists at `source`, it cannot be read, or `format` or a storage
            option is unknown.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> os.makedirs(f"{folder}/day=1")
        >>> pq.write_table(pa.table({"x": range(100)}), f"{folder}/day=1/part.parquet")
        >>> scan(folder).partition_columns
        ('day',)
    """
    check_format(format)
    if isinstance(source, Table):
        return cast("SomeTable", source)
    found = find_table(source, format, catalog=catalog, storage_options=storage_options)
    with overriding(progress):
        return open_table(
            found.source,
            found.format,
            catalog=catalog,
            storage_options=found.storage_options,
            partition_schema=found.partition_schema,
        )


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The location and the format of a table, which `open_table` takes."""

    source: Any
    format: str
    storage_options: Mapping[str, str] | None = field(repr=False)
    partition_schema: Mapping[str, pa.DataType] | None = None


def find_table(
    source: Any,
    format: str | None = None,
    *,
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
) -> TableLocation:
    """Return where a table lies and of what format it is.

    Args:
        source, format, catalog, storage_options: As for `scan`.

    Raises:
        SourceError: as `scan`.
    """
    if catalog is not None:
        if is_unity(source):
            raise SourceError(f"{source} names its catalog itself; omit catalog=")
        if format not in (None, "iceberg"):
            raise SourceError(f"format is {format!r}; a catalog knows the format, so omit it")
        return TableLocation(source, format or "catalog", storage_options)
    if is_unity(source):
        from skipstone.bindings.tables.unity import table_in_unity

        table = table_in_unity(source, storage_options)
        if format not in (None, table.format):
            raise SourceError(
                f"format is {format!r}, but {source} is {table.format!r} by its catalog"
            )
        return TableLocation(table.location, table.format, table.options, table.partition_schema)
    if format is None:
        named = isinstance(source, str | bytes | os.PathLike)
        filesystem = chosen_filesystem(source, None, storage_options) if named else None
        format, source = find_format(source, filesystem)
        if isinstance(source, ListedFolder):  # its file system was made with the options
            storage_options = None
    return TableLocation(source, format, storage_options)


def open_table(
    source: Any,
    format: str,
    *,
    version: int | str | None = None,
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    infer_types: bool = True,
    base_path: str | None = None,
    partition_schema: Mapping[str, pa.DataType] | None = None,
    on_error: Literal["raise", "keep"] = "raise",
) -> SomeTable:
    """Open a table of a given format. Options that the format lacks are ignored.

    Args:
        source: As for `scan`.
        format: One of `FORMATS`, or "catalog" for a table of whatever format in a catalog.
        version: The version of a Delta table, or the id of an Iceberg snapshot; None is the newest.
        catalog, storage_options: As for `scan`.
        infer_types: True to infer the types of Hive's partition columns.
        base_path: The table's folder if `source` lists the folders of its partitions.
        partition_schema: The types of partition columns by name, where they are known.
        on_error: "keep" keeps Parquet files whose footers cannot be read.

    Raises:
        SourceError: as `scan`.
    """
    match format:
        case "catalog":
            return _in_catalog(source, version, catalog, storage_options, on_error)
        case "delta":
            from skipstone.bindings.tables.delta.table import scan_delta

            return scan_delta(source, version, storage_options=storage_options)
        case "iceberg":
            from skipstone.bindings.tables.iceberg.table import scan_iceberg

            try:
                snapshot = None if version is None else int(version)
            except ValueError as e:
                raise SourceError(
                    f"version is {version!r}; expected the id of an Iceberg snapshot, a number"
                ) from e
            return scan_iceberg(source, snapshot, catalog=catalog, storage_options=storage_options)
        case "hive":
            from skipstone.bindings.tables.hive.table import scan_hive

            return scan_hive(
                source,
                storage_options=storage_options,
                infer_types=infer_types,
                partition_schema=partition_schema,
                on_error=on_error,
            )
    from skipstone.bindings.tables.parquet.table import scan_parquet

    return scan_parquet(
        source,
        storage_options=storage_options,
        base_path=base_path,
        partition_schema=partition_schema,
        on_error=on_error,
    )


def _in_catalog(
    name: Any,
    version: int | str | None,
    catalog: Any,
    storage_options: Mapping[str, str] | None,
    on_error: Literal["raise", "keep"],
) -> SomeTable:
    """Open a table by its name in a catalog; metastores have tables of every format."""
    from skipstone.bindings.tables.iceberg.catalogs import NotIceberg

    try:
        return open_table(
            name, "iceberg", version=version, catalog=catalog, storage_options=storage_options
        )
    except NotIceberg as e:
        from skipstone.bindings.tables.iceberg.metastore import table_in_metastore

        table = table_in_metastore(name, e)
    return open_table(
        table.source,
        table.format,
        version=version,
        storage_options={**table.options, **(storage_options or {})} or None,
        base_path=table.base_path,
        partition_schema=table.partition_schema,
        on_error=on_error,
    )
