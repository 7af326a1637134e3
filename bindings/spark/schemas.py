"""Spark's schemas, as JSON, in Arrow's types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

PLAIN: Final = {
    "boolean": pa.bool_(), "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
# What Spark notes of a column whose values are not, or not only, those that the files hold: texts that compare otherwise than
# by bytes, and columns that read as a default where a file lacks them.
STRANGE: Final = ("__COLLATIONS", "EXISTS_DEFAULT")


def arrow_schema(struct: Mapping[str, Any]) -> pa.Schema:
    """The columns that statistics can tell of; others are left out, so that a predicate about them is not understood.

    Example:
        >>> arrow_schema({"type": "struct", "fields": [{"name": "x", "type": "long"}, {"name": "l", "type": {"type": "array"}}]})
        x: int64
    """
    return pa.schema(_fields(struct))


def _fields(struct: Mapping[str, Any]) -> list[pa.Field]:
    known = ((f["name"], _arrow(f["type"])) for f in struct["fields"] if not any(key in (f.get("metadata") or {}) for key in STRANGE))
    return [pa.field(name, kind) for name, kind in known if kind is not None]


def _arrow(kind: Any) -> pa.DataType | None:
    if isinstance(kind, str):
        sized = re.fullmatch(r"decimal\((\d+),(-?\d+)\)", kind)
        if sized:
            precision, scale = int(sized[1]), int(sized[2])
            return pa.decimal128(precision, scale) if 0 <= scale <= precision else None
        return PLAIN.get(kind)
    return pa.struct(_fields(kind)) if kind.get("type") == "struct" else None
