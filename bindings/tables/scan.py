"""Open a table of any format."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Never, TypeAlias, cast

from skipstone.bindings.location import (
    FileSystemLike,
    ListedFolder,
    all_of,
    chosen_filesystem,
    is_unity,
    shown,
)
from skipstone.bindings.progress import overriding
from skipstone.bindings.tables.detect import check_format, find_format, format_of
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
    version: int | str | datetime.datetime | None = None,
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    filesystem: FileSystemLike | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
    progress: ProgressSetting = None,
    **others: Never,
) -> ParquetTable | HiveTable | DeltaTable | IcebergTable:
    """Open a table of any format.

    Args:
        source: A file, a folder, a glob or several of them, as for `scan_parquet`; a pyiceberg or
            deltalake table; the name of a table in Unity Catalog, `uc://catalog.schema.table`; or a
            table that is open already.
        format: "parquet", "hive", "delta" or "iceberg". None detects it: a folder `_delta_log`
            means Delta, `metadata/*.metadata.json` means Iceberg, folders `key=value` mean Hive,
            everything else is Parquet. A catalog knows the format.
        version: The version of a Delta table: its number, or a time, which means the last version
            at or before it. The snapshot of an Iceberg table: its id, or the name of a branch or
            tag. None is the newest.
        catalog: As for `scan_iceberg`; `source` is then the table's name in it. Hive's metastore
            and AWS Glue also have Delta and Parquet tables.
        storage_options: As for `scan_parquet`. For Unity Catalog, also its `databricks_host` and
            `databricks_token`, which environment variables of these names in capitals can also
            give.
        filesystem, partition_schema, on_error: For Parquet and Hive tables, as for `scan_parquet`.
        progress: As `skipstone.config.progress`, for this call.
        others: Not supported: an error names the function that has the option.

    Returns:
        The table that `scan_parquet`, `scan_hive`, `scan_delta` or `scan_iceberg` returns. These
        functions have more options. An open table is returned unchanged.

    Raises:
        SourceError: nothing exists at `source`, it cannot be read, there is no such version, the
            format lacks an option, or `format` or a storage option is unknown.
        TypeError: only another function has an option.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> os.makedirs(f"{folder}/day=1")
        >>> pq.write_table(pa.table({"x": range(100)}), f"{folder}/day=1/part.parquet")
        >>> scan(folder).partition_columns
        ('day',)
    """
    for keyword in others:
        raise _unexpected(keyword)
    check_format(format)
    source = all_of(source)
    own = {
        "filesystem": filesystem is not None,
        "partition_schema": partition_schema is not None,
        "on_error": on_error != "raise",
    }
    given = [name for name, is_given in own.items() if is_given]
    if isinstance(source, Table):
        for name in ["version"] * (version is not None) + given:
            raise SourceError(f"{source!r} is open already; {name}= applies to a location")
        return cast("SomeTable", source)
    if filesystem is None or catalog is not None or is_unity(source):
        found = find_table(source, format, catalog=catalog, storage_options=storage_options)
    else:
        filesystem = chosen_filesystem(source, filesystem, storage_options)
        found = TableLocation(source, format or format_of(source, filesystem), None)
    if given and found.format not in ("parquet", "hive"):
        if found.format != "catalog" or given != ["on_error"]:
            known = "that its catalog describes" if catalog is not None else found.format
            raise SourceError(
                f"{given[0]}= applies to Parquet and Hive tables; {shown(source)} is read as "
                f"{known}"
            )
    with overriding(progress):
        return open_table(
            found.source,
            found.format,
            version=version,
            catalog=catalog,
            storage_options=found.storage_options,
            filesystem=filesystem,
            partition_schema=found.partition_schema or partition_schema,
            on_error=on_error,
        )


def _unexpected(keyword: str) -> TypeError:
    """Return the error for a keyword that `scan` lacks; it names the functions that have it."""
    import inspect

    from skipstone.bindings.tables.delta.table import scan_delta
    from skipstone.bindings.tables.hive.table import scan_hive
    from skipstone.bindings.tables.iceberg.table import scan_iceberg
    from skipstone.bindings.tables.parquet.table import scan_parquet

    having = [
        f.__name__
        for f in (scan_delta, scan_hive, scan_iceberg, scan_parquet)
        if keyword in inspect.signature(f).parameters
    ]
    if not having:
        return TypeError(f"scan() got an unexpected keyword argument {keyword!r}")
    do = "does" if len(having) == 1 else "do"
    return TypeError(f"scan() takes no {keyword}=; {' and '.join(having)} {do}")


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
    """Return a table's location and format.

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
                f"format is {format!r}, but {source} is {table.format!r} according to its catalog; "
                "omit format="
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
    version: int | str | datetime.datetime | None = None,
    catalog: Any = None,
    storage_options: Mapping[str, str] | None = None,
    filesystem: FileSystemLike | None = None,
    infer_types: bool = True,
    base_path: str | None = None,
    partition_schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    on_error: Literal["raise", "keep"] = "raise",
) -> SomeTable:
    """Open a table of a given format. Options that the format lacks are ignored.

    Args:
        source: As for `scan`.
        format: One of `FORMATS`, or "catalog" for a table of any format in a catalog.
        version, catalog, storage_options, filesystem: As for `scan`.
        infer_types: True to infer the types of Hive's partition columns.
        base_path: The table's folder if `source` lists the folders of its partitions.
        partition_schema: The types of partition columns by name, where they are known.
        on_error: "keep" keeps Parquet files whose footers cannot be read.

    Raises:
        SourceError: as `scan`; a version is given, and the format has none.
    """
    match format:
        case "catalog":
            return _in_catalog(source, version, catalog, storage_options, on_error)
        case "delta":
            from skipstone.bindings.tables.delta.table import scan_delta

            return scan_delta(source, version, storage_options=storage_options)
        case "iceberg":
            from skipstone.bindings.tables.iceberg.table import scan_iceberg

            # Of a time, scan_iceberg says what it expects.
            snapshot = cast("int | str | None", version)
            return scan_iceberg(source, snapshot, catalog=catalog, storage_options=storage_options)
    if version is not None:
        raise SourceError(
            f"version= applies to Delta and Iceberg tables; {shown(source)} is read as {format}"
        )
    match format:
        case "hive":
            from skipstone.bindings.tables.hive.table import scan_hive

            return scan_hive(
                source,
                filesystem=filesystem,
                storage_options=storage_options,
                infer_types=infer_types,
                partition_schema=partition_schema,
                on_error=on_error,
            )
    from skipstone.bindings.tables.parquet.table import scan_parquet

    return scan_parquet(
        source,
        filesystem=filesystem,
        storage_options=storage_options,
        base_path=base_path,
        partition_schema=partition_schema,
        on_error=on_error,
    )


def _in_catalog(
    name: Any,
    version: int | str | datetime.datetime | None,
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
