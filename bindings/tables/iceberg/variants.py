"""Open tables with types that pyiceberg does not read: VARIANT, and geometries with parameters.

Source: Iceberg's specification, version 3, "Semi-structured Types" and the strings of types under
"Schemas"; seen in Iceberg 1.12.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.serializers import Compressor, FromInputFile
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import BinaryType

from skipstone.bindings.tables.iceberg.file_io import FileIO, LazyTable

# What pyiceberg 0.12 says.
UNREAD: Final = ("Unsupported field type: 'variant'", "Could not parse geo")
PLACE: Final = re.compile(r"(geometry|geography)\(([^'\"]+)\)")
TYPES: Final = ("type", "element", "value")  # where the JSON of a schema names types


class VariantType(BinaryType):  # type: ignore[misc]
    """The type of a VARIANT column; to pyiceberg it is binary."""


def is_unread(e: Exception) -> bool:
    """Return True if pyiceberg raised an error because it does not read a type."""
    return any(words in str(e) for words in UNREAD)


def open_metadata(where: str, options: Mapping[str, str]) -> LazyTable:
    """Read a metadata file, whose columns may have any type of Iceberg's version 3.

    Args:
        where: The metadata file.
        options: The options that pyiceberg's FileIO needs to reach the storage.
    """
    source = FileIO(options, location=where).new_input(where)
    try:
        metadata = FromInputFile.table_metadata(source)
    except ValidationError as e:
        if not is_unread(e):
            raise
        with source.open() as f:
            found = json.loads(Compressor.get_compressor(where).stream_decompressor(f).read())
        for key in ("schema", "schemas"):
            if key in found:
                found[key] = _readable(found[key])
        metadata = TableMetadataUtil.parse_obj(found)
    files = FileIO({**options, **metadata.properties}, location=where)
    return LazyTable(("static-table", where), metadata, where, files, NoopCatalog("static-table"))


def _readable(schema: Any) -> Any:
    """Return the JSON of schemas with types that pyiceberg reads."""
    if isinstance(schema, list):
        return [_readable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _type(part) if key in TYPES and isinstance(part, str) else _readable(part)
        for key, part in schema.items()
    }


def _type(name: str) -> Any:
    """Return an object for VARIANT; put quotes around the parameters of a geometry."""
    if name == "variant":
        return VariantType()
    if place := PLACE.fullmatch(name):
        quoted = ", ".join(f"'{part.strip()}'" for part in place[2].split(","))
        return f"{place[1]}({quoted})"
    return name
