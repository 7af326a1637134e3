"""Read the schema of a Delta table: its Arrow types and its columns' physical names.

Files, statistics and partition values use physical names.

Source: Delta's PROTOCOL.md, "Schema Serialization Format", "Column Mapping", "Type Widening".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.tables.char_columns import CHAR_KEY, declared, with_char
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.types import COLLATIONS

_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


@dataclass(frozen=True, slots=True)
class LeafField:
    """A column that may have statistics: a field, or a struct's field, of a type without fields.

    Structs, arrays and maps are not leaves.

    Attributes:
        path: Its logical names, outermost first.
        physical: Its names in files and statistics, of the same length.
        type: Its Arrow type.
        widened: Earlier types that files may still hold, from the schema's record of type changes;
            Delta's names.
    """

    path: Path
    physical: Path
    type: pa.DataType
    widened: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFields:
    """The columns of a table, as the log describes them.

    Attributes:
        schema: The logical schema, as Spark shows it.
        leaves: The columns that may have statistics, in the schema's order.
        partitions: Logical name -> physical name of the partition columns, in their order.
        generated: Logical name -> the expression that generates the column, SQL text.
        physical: Logical name -> physical name of the top-level columns.
        described: The columns as the log describes them.
        mapped: True if column mapping is on.
    """

    schema: pa.Schema
    leaves: tuple[LeafField, ...]
    partitions: Mapping[str, str]
    generated: Mapping[str, str]
    physical: Mapping[str, str]
    described: tuple[Mapping[str, Any], ...]
    mapped: bool


def fields_of(schema: Mapping[str, Any], partition_columns: list[str], mapped: bool) -> TableFields:
    """Read a table's schema.

    Args:
        schema: The parsed `schemaString`.
        partition_columns: Logical names of the partition columns, in their order.
        mapped: True if column mapping is on, by name or by id.

    Raises:
        SourceError: two columns have one name, or a type is in no version of the protocol.
    """
    fields = schema["fields"]
    names = [f["name"] for f in fields]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SourceError(
            f"the Delta schema has two columns {twice!r:.100}; expected distinct names"
        )
    physical = {f["name"]: physical_name(f, mapped) for f in fields}
    leaves = tuple(_leaves(fields, (), (), mapped))
    arrow = pa.schema([_field(f) for f in fields])
    generated = {
        f["name"]: text
        for f in fields
        if isinstance(text := (f.get("metadata") or {}).get(GENERATED), str)
    }
    return TableFields(
        arrow,
        leaves,
        {name: physical[name] for name in partition_columns},
        generated,
        physical,
        tuple(fields),
        mapped,
    )


GENERATED: Final = "delta.generationExpression"


def physical_name(field: Mapping[str, Any], mapped: bool) -> str:
    """Return the name of a column in the table's files and statistics.

    Raises:
        SourceError: the schema gives a name that is not text.
    """
    name = (field.get("metadata") or {}).get("delta.columnMapping.physicalName") if mapped else None
    name = field["name"] if name is None else name
    if not isinstance(name, str):
        raise SourceError(
            f"the column {field['name']!r:.100} has the physical name {name!r:.100}; expected text"
        )
    return name


def _leaves(
    fields: list[Mapping[str, Any]], above: Path, physical: Path, mapped: bool
) -> Iterator[LeafField]:
    for f in fields:
        path, own, kind = (*above, f["name"]), (*physical, physical_name(f, mapped)), f["type"]
        if isinstance(kind, Mapping):
            if kind["type"] == "struct":
                yield from _leaves(kind["fields"], path, own, mapped)
            continue
        changes = (f.get("metadata") or {}).get("delta.typeChanges", ())
        yield LeafField(
            path,
            own,
            arrow_type(kind),
            tuple(str(c["fromType"]) for c in changes if "fieldPath" not in c),
        )


def _field(f: Mapping[str, Any]) -> pa.Field:
    # Collated text is not ordered by its bytes. This note on the Arrow field tells
    # `ir.types.from_arrow` about it.
    notes = f.get("metadata") or {}
    kind = str(f["type"])
    note = notes.get(COLLATIONS) or (kind if kind.startswith("string collate") else None)
    field = pa.field(
        f["name"],
        arrow_type(f["type"]),
        f.get("nullable", True),
        None if note is None else {COLLATIONS: str(note)},
    )
    char = declared(notes)
    if not char:
        return field
    try:
        return with_char(field, char)
    except ValueError as e:
        raise SourceError(
            f"the Delta column {f['name']!r:.100} has the note {CHAR_KEY}: {e}"
        ) from e


def _part(name: str, kind: Any, nullable: bool) -> pa.Field:
    """Return the field of the elements of an array, or of the keys or values of a map."""
    collated = isinstance(kind, str) and kind.startswith("string collate")
    return pa.field(name, arrow_type(kind), nullable, {COLLATIONS: kind} if collated else None)


def arrow_type(kind: Any) -> pa.DataType:
    """Return the Arrow type of a Delta type.

    Args:
        kind: The type as the schema describes it: a name, or a mapping of a nested type.

    Raises:
        SourceError: no version of the protocol has the type.

    Example:
        >>> arrow_type({"type": "array", "elementType": "decimal(5,2)", "containsNull": True})
        ListType(list<element: decimal128(5, 2)>)
    """
    if isinstance(kind, Mapping):
        match kind.get("type"):
            case "struct":
                return pa.struct([_field(f) for f in kind["fields"]])
            case "array":
                return pa.list_(
                    _part("element", kind["elementType"], kind.get("containsNull", True))
                )
            case "map":
                item = _part("value", kind["valueType"], kind.get("valueContainsNull", True))
                return pa.map_(_part("key", kind["keyType"], False), item)
    elif kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    elif m := _DECIMAL.fullmatch(str(kind)):
        return pa.decimal128(int(m[1]), int(m[2]))
    elif str(kind).startswith("string collate"):
        return pa.string()
    elif kind == "variant":
        return pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
    raise SourceError(
        f"the Delta schema has the type {kind!r}; expected one of {', '.join(_PRIMITIVES)}, "
        "decimal, struct, array, map or variant"
    )
