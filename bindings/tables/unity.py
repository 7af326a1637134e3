"""Find tables by their names in Unity Catalog: `uc://catalog.schema.table`.

A scan makes two requests: for the table's location, and for temporary credentials for it.

Source: Unity Catalog's open API, `GET /tables/{full_name}` and `temporary-table-credentials`; seen
in its server 0.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa

from skipstone.bindings.location import SCHEME_ALIASES, is_unity, options_of, scheme_of, shown
from skipstone.bindings.store_options import STORES
from skipstone.bindings.tables.unity_client import OWN, UnityCatalog
from skipstone.ir.errors import SourceError, clip

# Keywords of a store, as `Option.arrow`, that say who the caller is.
IDENTITY: Final = frozenset(
    {"access_key", "anonymous", "profile", "role_arn", "access_token", "account_key", "sas_token",
     "client_id"}
)  # fmt: skip
TABLES: Final = ("MANAGED", "EXTERNAL")
FORMATS: Final = {"DELTA": "delta", "PARQUET": "parquet"}
# The parts of `TemporaryCredentials`: part -> field -> storage option.
GOOGLE: Final = "gcp_oauth_token"
VENDED: Final[Mapping[str, Mapping[str, str]]] = {
    "aws_temp_credentials": {
        "access_key_id": "AWS_ACCESS_KEY_ID",
        "secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "session_token": "AWS_SESSION_TOKEN",
    },
    "azure_user_delegation_sas": {"sas_token": "AZURE_STORAGE_SAS_TOKEN"},
    GOOGLE: {"oauth_token": "access_token"},
}
PARTITION_TYPES: Final = {
    "BOOLEAN": pa.bool_(), "BYTE": pa.int8(), "SHORT": pa.int16(), "INT": pa.int32(),
    "LONG": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(),
    "STRING": pa.string(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class UnityTable:
    """A table as Unity Catalog describes it.

    Attributes:
        location: The URI of its folder.
        format: "delta", "parquet", or "hive" for Parquet files in partition folders.
        partition_schema: The types of a Hive table's partition columns.
        options: Storage options that reach it: the caller's, else credentials from the catalog,
            which expire after a time that the catalog sets, usually an hour.
    """

    location: str
    format: str
    partition_schema: dict[str, pa.DataType] | None
    options: dict[str, str] = field(repr=False)


def table_in_unity(uri: str, storage_options: Mapping[str, str] | None = None) -> UnityTable:
    """Return the location of a table of Unity Catalog, and how to reach it.

    Args:
        uri: `uc://catalog.schema.table`.
        storage_options: The catalog's `databricks_host` and `databricks_token`, which environment
            variables of these names in capitals can also give, and options of the table's storage.
            If these hold credentials, none are requested from the catalog.

    Raises:
        SourceError: the name is malformed, no catalog is named, it cannot be reached or refuses the
            request, or it describes no table of Delta or Parquet files.
    """
    name = _name_in(uri)
    given = options_of(storage_options)
    own = {k.lower(): v for k, v in given.items() if k.lower() in OWN}
    catalog = UnityCatalog.of(own, name)
    options = {k: v for k, v in given.items() if k.lower() not in OWN}
    info = catalog.ask("GET", f"tables/{quote(name, safe='.')}")
    format_, location = _format(info, name), _text(info, "storage_location", name)
    if is_unity(location):
        raise SourceError(
            f"uc://{name}: the catalog gives {shown(location)} as its folder; expected a folder in "
            "its storage, such as s3://bucket/table"
        )
    if scheme_of(location) not in (None, "file") and not _has_identity(location, options):
        asked = {"table_id": _text(info, "table_id", name), "operation": "READ"}
        vended = catalog.ask("POST", "temporary-table-credentials", asked)
        options = {**_options_of(vended, name), **options}
    if format_ == "delta":
        return UnityTable(location, format_, None, options)
    partitions = _partitions(info, name)
    return UnityTable(location, "hive" if partitions else format_, partitions or None, options)


def delta_in_unity(
    uri: str, storage_options: Mapping[str, str] | None
) -> tuple[str, dict[str, str]]:
    """Return the folder of a Delta table of Unity Catalog, and the storage options that reach it.

    Raises:
        SourceError: as `table_in_unity`, or the table is of another format.
    """
    table = table_in_unity(uri, storage_options)
    if table.format != "delta":
        raise SourceError(f"{shown(uri)} is a table of Parquet files; open it with scan")
    return table.location, table.options


def _name_in(uri: str) -> str:
    """Return the name `catalog.schema.table` of a URI."""
    name = unquote(uri.partition("://")[2]).rstrip("/")
    if name.count(".") != 2 or not all(name.split(".")) or "/" in name:
        raise SourceError(f"{shown(uri)}: expected a URI uc://catalog.schema.table")
    return name


def _text(info: Mapping[str, Any], field: str, name: str) -> str:
    found = info.get(field)
    if not isinstance(found, str) or not found:
        raise SourceError(
            f"uc://{name}: the catalog names no {field} of the table; expected a text"
        )
    return found


def _format(info: Mapping[str, Any], name: str) -> str:
    """Return the format of a table's files.

    Raises:
        SourceError: it is not a table of files, its rows or columns are hidden from some users, or
            the format is not supported here.
    """
    if info.get("table_type") not in TABLES:
        kind = clip(str(info.get("table_type")))
        raise SourceError(f"uc://{name} is a {kind}; expected a table of type MANAGED or EXTERNAL")
    masked = any(c.get("mask") for c in _columns(info))
    if info.get("row_filter") or masked:
        raise SourceError(
            f"uc://{name} has a row filter or column masks, which no reader of its files applies; "
            "query it with an engine that the catalog trusts"
        )
    files = str(info.get("data_source_format"))
    if files not in FORMATS:
        raise SourceError(
            f"uc://{name} is a table of {clip(files)} files; expected DELTA or PARQUET (open "
            "Iceberg tables with scan_iceberg(name, catalog=...) and Unity Catalog's REST endpoint)"
        )
    return FORMATS[files]


def _columns(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = info.get("columns")
    return [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []


def _partitions(info: Mapping[str, Any], name: str) -> dict[str, pa.DataType]:
    """Return the types of the partition columns of Parquet files.

    Raises:
        SourceError: a partition column has a type that is not known here, or a column is CHAR.
    """
    out: dict[str, pa.DataType] = {}
    for column in _columns(info):
        if "CHAR(" in str(column.get("type_text")).upper().replace("VARCHAR(", ""):
            raise SourceError(
                f"uc://{name}: the column {clip(str(column.get('name')))!r} is of type CHAR, and "
                "files may hold its values without the spaces that Spark adds; open the table's "
                "folder with scan_parquet to see them as they are"
            )
        if column.get("partition_index") is None:
            continue
        kind = column.get("type_name")
        if kind not in PARTITION_TYPES:
            raise SourceError(
                f"uc://{name}: the partition column {clip(str(column.get('name')))!r} is of type "
                f"{clip(str(kind))}; open the table's folder with scan_hive and partition_schema="
            )
        out[str(column.get("name"))] = PARTITION_TYPES[kind]
    return out


def _has_identity(location: str, options: Mapping[str, str]) -> bool:
    """Return True if storage options say who the caller is."""
    scheme = scheme_of(location) or ""
    table = STORES.get(SCHEME_ALIASES.get(scheme, scheme), ())
    names = {name for option in table if option.arrow in IDENTITY for name in option.names}
    return any(option.lower() in names for option in options)


def _options_of(vended: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the storage options of temporary credentials.

    Raises:
        SourceError: they are of a kind that is not known here.
    """
    for part, fields in VENDED.items():
        found = vended.get(part)
        if isinstance(found, dict):
            options = {
                option: str(found[field])
                for field, option in fields.items()
                if isinstance(found.get(field), str) and found[field]
            }
            until = vended.get("expiration_time")
            if part == GOOGLE and isinstance(until, int):
                options["gcs.oauth2.token-expires-at"] = str(until)
            return options
    raise SourceError(
        f"uc://{name}: the catalog gave no credentials of AWS, Azure or Google for the table's "
        "files; pass those of its storage as storage_options="
    )
