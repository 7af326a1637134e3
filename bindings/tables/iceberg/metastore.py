"""Find Delta and Parquet tables by their names in Hive's metastore, by pyiceberg's client of it.

Source: Hive's `hive_metastore.thrift`, and Spark's `HiveExternalCatalog` for the properties that
begin with `spark.sql.`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa

from skipstone.bindings.location import URI, shown
from skipstone.bindings.tables.iceberg.catalogs import NotIceberg, shown_name
from skipstone.ir.errors import SourceError, clip, describe_error

TABLES: Final = ("MANAGED_TABLE", "EXTERNAL_TABLE")
PARQUET_INPUT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
DELTA_HANDLER: Final = "io.delta.hive.DeltaStorageHandler"
PROVIDER: Final = "spark.sql.sources.provider"
BY_CATALOG: Final = ("spark.sql.partitionProvider", "catalog")
TYPES: Final = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
    "integer": pa.int32(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "string": pa.string(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MetastoreTable:
    """A table as Hive's metastore describes it.

    Attributes:
        source: Its folder, or the folders of its partitions.
        format: "delta", "parquet" or "hive".
        base_path: The table's folder if `source` lists partitions.
        partition_schema: The types of its partition columns, if it is not a Delta table.
    """

    source: str | list[str]
    format: str
    base_path: str | None = None
    partition_schema: dict[str, pa.DataType] | None = None


def table_in_metastore(name: str | tuple[str, ...], refused: NotIceberg) -> MetastoreTable:
    """Return where a table of Hive's metastore lies.

    Args:
        name: `database.table`, or a tuple of both.
        refused: The error of pyiceberg's catalog for it, which is raised if the catalog is another
            one than Hive's.

    Raises:
        SourceError: the table is a view, its files are neither Delta's nor Parquet, a partition
            lies outside the table's folder, or a partition column's type is not known here.
    """
    if type(refused.catalog).__name__ != "HiveCatalog":
        raise refused
    names = name.split(".") if isinstance(name, str) else name
    whose = f"{shown_name(refused.catalog)}: {clip('.'.join(names))!r}"
    try:
        with refused.catalog._client as client:
            return _described(client, ".".join(names[:-1]), names[-1], whose)
    except SourceError:
        raise
    except Exception as e:  # Thrift's errors have no common base
        raise SourceError(
            f"{whose} cannot be looked up in Hive's metastore ({describe_error(e)}); check the "
            "catalog's uri"
        ) from e


def _described(client: Any, database: str, name: str, whose: str) -> MetastoreTable:
    table = client.get_table(dbname=database, tbl_name=name)
    parameters = dict(table.parameters or {})
    provider = parameters.get(PROVIDER, "").lower()
    if table.tableType not in TABLES:
        raise SourceError(f"{whose} is a {clip(str(table.tableType))}; expected a table of files")
    location = _location(table, provider, whose)
    if provider == "delta" or parameters.get("storage_handler") == DELTA_HANDLER:
        return MetastoreTable(_uri(location), "delta")
    given = provider or table.sd.inputFormat
    if given not in ("parquet", PARQUET_INPUT):
        raise SourceError(
            f"{whose} is a table of {clip(str(given))}; expected Parquet, Delta or Iceberg"
        )
    if not table.partitionKeys:
        return MetastoreTable(_uri(location), "parquet")
    schema = {key.name: _type(key, whose) for key in table.partitionKeys}
    if provider and (BY_CATALOG[0], parameters.get(BY_CATALOG[0])) != BY_CATALOG:
        return MetastoreTable(_uri(location), "hive", None, schema)  # Spark lists its folders, too
    partitions = client.get_partitions(database, name, -1)
    if not partitions:
        raise SourceError(f"{whose} has no partitions, so its columns are unknown")
    folders = [_uri(_folder(p, list(schema), location, whose)) for p in partitions]
    return MetastoreTable(folders, "parquet", _uri(location), schema)


def _location(table: Any, provider: str, whose: str) -> str:
    """Return the folder of a table; Spark keeps that of its own formats in the options."""
    options = {k.lower(): v for k, v in (table.sd.serdeInfo.parameters or {}).items()}
    location = (options.get("path") if provider else None) or table.sd.location
    if not location:
        raise SourceError(f"{whose} has no location")
    return str(location).rstrip("/")


def _uri(location: str) -> str:
    """Return the URI of a location, which the metastore keeps as Hadoop writes paths: unescaped.

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


def _type(key: Any, whose: str) -> pa.DataType:
    """Return the type of a partition column.

    Raises:
        SourceError: it is not known here.
    """
    text = str(key.type).strip().lower()
    if text in TYPES or text.startswith("varchar("):
        return TYPES.get(text, pa.string())
    if found := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", text):
        return pa.decimal128(int(found[1]), int(found[2]))
    raise SourceError(
        f"{whose}: the partition column {clip(str(key.name))!r} is of type {clip(text)}; open the "
        "table's folder by scan_hive with partition_schema="
    )


def _folder(partition: Any, keys: list[str], location: str, whose: str) -> str:
    """Return the folder of a partition.

    Raises:
        SourceError: its name does not give the partition's values.
    """
    folder = str(partition.sd.location).rstrip("/")
    parts = folder.removeprefix(f"{location}/").split("/")
    found = [tuple(map(unquote, part.partition("=")[::2])) for part in parts]
    expected = list(zip(keys, map(str, partition.values), strict=False))
    if len(partition.values) != len(keys) or [(k.lower(), v) for k, v in found] != expected:
        raise SourceError(
            f"{whose} has a partition at {shown(folder)}, whose name does not give its values "
            f"{clip(str(list(partition.values)))}; open its folders by scan_parquet, one by one"
        )
    return folder
