"""Open tables with VARIANT columns, whose type pyiceberg does not know.

Source: Iceberg's specification, version 3, "Semi-structured Types"; seen in Iceberg 1.12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.serializers import Compressor, FromInputFile
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.types import BinaryType

from skipstone.bindings.tables.iceberg.file_io import FileIO, LazyTable

UNKNOWN_TYPE: Final = "Unsupported field type: 'variant'"  # what pyiceberg 0.12 says
TYPES: Final = ("type", "element", "value")  # where the JSON of a schema names types


class VariantType(BinaryType):  # type: ignore[misc]
    """The type of a VARIANT column; to pyiceberg it is binary."""


def open_metadata(where: str, options: Mapping[str, str]) -> LazyTable:
    """Read a metadata file, whose columns may be VARIANT.

    Args:
        where: The metadata file.
        options: The options that pyiceberg's FileIO needs to reach the storage.
    """
    source = FileIO(options, location=where).new_input(where)
    try:
        metadata = FromInputFile.table_metadata(source)
    except ValidationError as e:
        if UNKNOWN_TYPE not in str(e):
            raise
        with source.open() as f:
            found = json.loads(Compressor.get_compressor(where).stream_decompressor(f).read())
        for key in ("schema", "schemas"):
            if key in found:
                found[key] = _with_variants(found[key])
        metadata = TableMetadataUtil.parse_obj(found)
    files = FileIO({**options, **metadata.properties}, location=where)
    return LazyTable(("static-table", where), metadata, where, files, NoopCatalog("static-table"))


def _with_variants(schema: Any) -> Any:
    """Return the JSON of schemas with an object in place of the name of the type."""
    if isinstance(schema, list):
        return [_with_variants(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: VariantType() if key in TYPES and part == "variant" else _with_variants(part)
        for key, part in schema.items()
    }
