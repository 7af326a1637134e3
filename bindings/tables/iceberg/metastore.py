"""Find Delta and Parquet tables by their names in Hive's metastore or AWS Glue.

pyiceberg's catalogs bring the clients of both.

Source: Hive's `hive_metastore.thrift`; Glue's `GetTable` and `GetPartitions`; and Spark's
`HiveExternalCatalog` for the properties that begin with `spark.sql.`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa

from skipstone.bindings.location import URI, shown
from skipstone.bindings.store_options import names_of
from skipstone.bindings.tables.iceberg.catalogs import NotIceberg, shown_name
from skipstone.ir.errors import SourceError, clip, describe_error

TABLES: Final = ("MANAGED_TABLE", "EXTERNAL_TABLE", "")
PARQUET_INPUT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
DELTA_HANDLER: Final = "io.delta.hive.DeltaStorageHandler"
PROVIDER: Final = "spark.sql.sources.provider"
BY_CATALOG: Final = ("spark.sql.partitionProvider", "catalog")
PROJECTION: Final = "projection.enabled"  # Athena computes the partitions, and Glue lists none
TYPES: Final = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
    "integer": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "string": pa.string(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MetastoreTable:
    """The location and format of a table of a metastore.

    Attributes:
        source: Its folder, or the folders of its partitions.
        format: "delta", "parquet" or "hive".
        options: The storage options among the catalog's properties.
        base_path: The table's folder if `source` lists partitions.
        partition_schema: The types of its partition columns, if it is not a Delta table.
    """

    source: str | list[str]
    format: str
    options: dict[str, str] = field(repr=False)
    base_path: str | None = None
    partition_schema: dict[str, pa.DataType] | None = None


class Entry(NamedTuple):
    """A metastore's entry of a table.

    Attributes:
        kind: Hive's type of the table; "" if the metastore gives none.
        parameters: The table's properties.
        options: The properties of its serialization, in which Spark keeps a location.
        location: Its folder.
        input_format: Hive's class that reads its files.
        columns: Names and types of the columns of its files.
        keys: Names and types of its partition columns.
        partitions: Returns the values and the folder of each partition.
    """

    kind: str
    parameters: Mapping[str, str]
    options: Mapping[str, str]
    location: str | None
    input_format: str | None
    columns: Sequence[tuple[str, str]]
    keys: Sequence[tuple[str, str]]
    partitions: Callable[[], Iterable[tuple[Sequence[str], str | None]]]


def table_in_metastore(name: str | tuple[str, ...], refused: NotIceberg) -> MetastoreTable:
    """Return the location and format of a table of Hive's metastore or of Glue.

    Args:
        name: `database.table`, or a tuple of both.
        refused: The error of pyiceberg's catalog for it, which is raised if the catalog is of
            another type.

    Raises:
        SourceError: the table is a view, its files are neither Delta's nor Parquet, its rows are
            not those of its files, a partition lies outside the table's folder, or a partition
            column's type is not known here.
    """
    catalog = refused.catalog
    look_up = {"HiveCatalog": _in_hive, "GlueCatalog": _in_glue}.get(type(catalog).__name__)
    if look_up is None:
        raise refused
    names = name.split(".") if isinstance(name, str) else name
    whose = f"{shown_name(catalog)}: {clip('.'.join(names))!r}"
    try:
        return look_up(catalog, ".".join(names[:-1]), names[-1], whose)
    except SourceError:
        raise
    except Exception as e:  # the errors of Thrift and AWS have no common base
        raise SourceError(
            f"{whose} cannot be looked up in the metastore ({describe_error(e)}); check the "
            "catalog's properties"
        ) from e


def _in_hive(catalog: Any, database: str, name: str, whose: str) -> MetastoreTable:
    with catalog._client as client:
        table = client.get_table(dbname=database, tbl_name=name)
        entry = Entry(
            table.tableType or "",
            table.parameters or {},
            table.sd.serdeInfo.parameters or {},
            table.sd.location,
            table.sd.inputFormat,
            [(column.name, column.type) for column in table.sd.cols or ()],
            [(key.name, key.type) for key in table.partitionKeys or ()],
            lambda: [(p.values, p.sd.location) for p in client.get_partitions(database, name, -1)],
        )
        return _located(entry, catalog.properties, whose)


def _in_glue(catalog: Any, database: str, name: str, whose: str) -> MetastoreTable:
    table = catalog.glue.get_table(DatabaseName=database, Name=name)["Table"]
    stored = table.get("StorageDescriptor") or {}
    pages = catalog.glue.get_paginator("get_partitions")
    entry = Entry(
        table.get("TableType") or "",
        table.get("Parameters") or {},
        (stored.get("SerdeInfo") or {}).get("Parameters") or {},
        stored.get("Location"),
        stored.get("InputFormat"),
        [(column["Name"], column.get("Type", "")) for column in stored.get("Columns") or ()],
        [(key["Name"], key.get("Type", "")) for key in table.get("PartitionKeys") or ()],
        lambda: [
            (p["Values"], (p.get("StorageDescriptor") or {}).get("Location"))
            for page in pages.paginate(DatabaseName=database, TableName=name)
            for p in page["Partitions"]
        ],
    )
    return _located(entry, catalog.properties, whose)


def _located(entry: Entry, properties: Mapping[str, Any], whose: str) -> MetastoreTable:
    """Return the location and format of the table of an entry.

    Raises:
        SourceError: as `table_in_metastore`.
    """
    if entry.kind not in TABLES:
        raise SourceError(f"{whose} is a {clip(entry.kind)}; expected a table of files")
    parameters = entry.parameters
    provider = parameters.get(PROVIDER, "").lower()
    kind = provider or parameters.get("table_type", "").lower()  # Athena's
    location = _location(entry, provider, whose)
    root = _uri(location)
    known = names_of(root)
    options = {k: v for k, v in properties.items() if k.lower() in known and isinstance(v, str)}
    if kind == "delta" or parameters.get("storage_handler") == DELTA_HANDLER:
        return MetastoreTable(root, "delta", options)
    if (provider or entry.input_format) not in ("parquet", PARQUET_INPUT):
        given = clip(str(provider or entry.input_format))
        raise SourceError(f"{whose} is a table of {given}; expected Parquet, Delta or Iceberg")
    _refuse_other_rows(entry, whose)
    if not entry.keys:
        return MetastoreTable(root, "parquet", options)
    schema = {name: _type(name, text, whose) for name, text in entry.keys}
    if provider and parameters.get(BY_CATALOG[0]) != BY_CATALOG[1]:
        # Spark lists the folders of such a table, too.
        return MetastoreTable(root, "hive", options, None, schema)
    if parameters.get(PROJECTION, "").lower() == "true":
        raise SourceError(
            f"{whose} has projected partitions, which no catalog lists; open its folder with "
            "scan_hive and partition_schema="
        )
    partitions = list(entry.partitions())
    if not partitions:
        raise SourceError(
            f"{whose} has no partitions, so its columns are unknown; open its folder with "
            "scan_hive and schema="
        )
    folders = [_uri(_folder(*p, list(schema), location, whose)) for p in partitions]
    return MetastoreTable(folders, "parquet", options, root, schema)


def _refuse_other_rows(entry: Entry, whose: str) -> None:
    """Refuse a table whose rows are not those of its files.

    Raises:
        SourceError: Hive's transactions decide which files count, or a column is CHAR, whose values
            Spark pads with spaces.
    """
    if entry.parameters.get("transactional", "").lower() == "true":
        raise SourceError(
            f"{whose} is transactional, so only Hive knows which of its files count; copy it to a "
            "table that is not"
        )
    for name, kind in entry.columns:
        if re.search(r"(?<!var)char\(", kind.lower()):
            raise SourceError(
                f"{whose}: the column {clip(name)!r} is of type {clip(kind)}, and files may hold "
                "its values without the spaces that Spark adds; open the table's folder with "
                "scan_parquet to see them as they are"
            )


def _location(entry: Entry, provider: str, whose: str) -> str:
    """Return the folder of a table; Spark keeps that of its own formats in the options."""
    options = {k.lower(): v for k, v in entry.options.items()}
    location = (options.get("path") if provider else None) or entry.location
    if not location:
        raise SourceError(f"{whose} has no location; expected a table of files")
    return location.rstrip("/")


def _uri(location: str) -> str:
    """Return the URI of a location, which metastores keep as Hadoop writes paths: unescaped.

    Example:
        >>> _uri("s3a://lake/t/code=x%2Fy"), _uri("file:/a b/t"), _uri("/a b/t")
        ('s3a://lake/t/code%3Dx%252Fy', 'file:/a%20b/t', '/a b/t')
    """
    start = URI.match(location)
    if start is None:
        return location
    rest = location[start.end() :]
    host = rest.partition("/")[0] if start[1] else ""
    return f"{start[0]}{host}{quote(rest[len(host) :])}"


def _type(name: str, text: str, whose: str) -> pa.DataType:
    """Return the type of a partition column.

    Raises:
        SourceError: it is not known here.
    """
    text = text.strip().lower()
    if text in TYPES or text.startswith("varchar("):
        return TYPES.get(text, pa.string())
    if found := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    raise SourceError(
        f"{whose}: the partition column {clip(name)!r} is of type {clip(text)}; open the table's "
        "folder with scan_hive and partition_schema="
    )


def _folder(
    values: Sequence[str], folder: str | None, keys: list[str], location: str, whose: str
) -> str:
    """Return the folder of a partition.

    Raises:
        SourceError: its name does not give the partition's values.
    """
    folder = (folder or "").rstrip("/")
    parts = folder.removeprefix(f"{location}/").split("/")
    found = [tuple(map(unquote, part.partition("=")[::2])) for part in parts]
    expected = list(zip(keys, map(str, values), strict=False))
    if len(values) != len(keys) or [(k.lower(), v) for k, v in found] != expected:
        raise SourceError(
            f"{whose} has a partition at {shown(folder)}, whose name does not give its values "
            f"{clip(str(list(values)))}; open its folders with scan_parquet, one by one"
        )
    return folder
