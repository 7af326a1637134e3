"""Convert the columns of a data file to the table's schema, by the ids of fields."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from skipstone.bindings.tables.iceberg.fields import arrow_of
from skipstone.bindings.tables.parquet.pages.file_read import MatchedColumns
from skipstone.bindings.tables.table_columns import (
    FIELD_ID,
    PARTS,
    are_lists_or_maps,
    variants,
    with_parts,
)
from skipstone.ir import compute as pc
from skipstone.ir.arrow import repeated


def conform(
    values: pa.Array, own: pa.DataType, kind: Any, mapping: Sequence[Any] | None
) -> pa.Array:
    """Convert a file's values to the table's type.

    Struct fields are found by their ids, fields that the file lacks get their defaults, and types
    are promoted.

    Args:
        values: The values from the file.
        own: Their type, whose fields have the file's ids.
        kind: The table's type, pyiceberg's.
        mapping: The name mapping of the fields below, for a file without ids.
    """
    to, t = arrow_of(kind), pa.types
    if type(kind).__name__ == "VariantType":
        return variants(values, to)
    if t.is_struct(to) and t.is_struct(own):
        here = columns_by_id([own.field(i) for i in range(own.num_fields)], mapping)
        children = []
        for f in kind.fields:
            if f.field_id in here:
                at, below = here[f.field_id]
                children.append(conform(values.field(at), own.field(at).type, f.field_type, below))
            else:
                children.append(repeated(default_of(f), len(values)))
        mask = pc.is_null(values) if values.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(to), mask=mask)
    if are_lists_or_maps(own, to):
        return with_parts(
            values,
            to,
            lambda part, name: conform(
                part,
                getattr(own, PARTS[name]),
                getattr(kind, f"{name}_type"),
                _mapping_below(mapping, name),
            ),
        )
    if type(kind).__name__ == "UUIDType":
        raw = values.storage if isinstance(values, pa.ExtensionArray) else values
        return pa.array(
            [None if v is None else str(uuid.UUID(bytes=v)) for v in raw.to_pylist()], to
        )
    if t.is_timestamp(to) and t.is_timestamp(own) and own.tz != to.tz:
        values = pc.cast(pc.cast(values, pa.int64()), pa.timestamp(own.unit, to.tz))
    return values if values.type == to else pc.cast(values, to)


def columns_of(
    file: pa.Schema, fields: Sequence[Any], mapping: Sequence[Any] | None
) -> MatchedColumns:
    """Match the columns of a table with those of a file.

    Args:
        file: The file's columns.
        fields: The table's columns, as pyiceberg's top-level fields.
        mapping: The table's name mapping, for files without ids; None if it has none.

    Raises:
        ValueError: the file has no ids, and the table no name mapping.
    """
    without_ids = not has_ids(file)
    if without_ids and mapping is None:
        raise ValueError("columns have neither ids nor a name mapping")
    by_id = columns_by_id(file, mapping if without_ids else None)
    found = {f.name: (f, *by_id[f.field_id]) for f in fields if f.field_id in by_id}
    names = file.names

    def convert(name: str, values: pa.Array) -> pa.Array:
        f, at, below = found[name]
        return conform(values, file.field(at).type, f.field_type, below)

    return MatchedColumns(
        {name: names[at] for name, (_, at, _) in found.items()},
        [f.name for f in fields if f.name not in found],
        convert,
        not without_ids
        and all(_keeps_names(file.field(at).type, f.field_type) for f, at, _ in found.values()),
    )


def _keeps_names(own: pa.DataType, kind: Any) -> bool:
    """Return True if each field of structs has the id that its name has in the table.

    Args:
        own: The type in the file, whose fields have ids.
        kind: The table's type, pyiceberg's.
    """
    if pa.types.is_struct(own):
        known = {f.name: f for f in getattr(kind, "fields", ())}
        for f in own:
            same, text = known.get(f.name), (f.metadata or {}).get(FIELD_ID)
            if same is None:  # the table's own fields have other names
                continue
            if text is None or int(text) != same.field_id:
                return False
            if not _keeps_names(f.type, same.field_type):
                return False
        return True
    parts = [name for name in PARTS if hasattr(kind, f"{name}_type")]
    return not pa.types.is_nested(own) or all(
        _keeps_names(getattr(own, PARTS[name]), getattr(kind, f"{name}_type")) for name in parts
    )


def has_ids(fields: Iterable[pa.Field]) -> bool:
    """Return True if a file's columns have ids."""
    return any(f.metadata and FIELD_ID in f.metadata for f in fields)


def columns_by_id(
    fields: Iterable[pa.Field], mapping: Sequence[Any] | None
) -> dict[int, tuple[int, Sequence[Any] | None]]:
    """Return id -> (position, name mapping below) of a file's columns or a struct's fields.

    Args:
        fields: The columns or fields.
        mapping: The name mapping for a file without ids; None if the file's own ids are used.
    """
    out: dict[int, tuple[int, Sequence[Any] | None]] = {}
    named: dict[str, Any] = {}
    for entry in mapping or ():
        for name in entry.names:
            named.setdefault(name, entry)
    for i, f in enumerate(fields):
        if mapping is None:
            text = (f.metadata or {}).get(FIELD_ID)
            if text is not None:
                out[int(text)] = (i, None)
            continue
        found = named.get(f.name)
        if found is not None and found.field_id is not None:
            out[found.field_id] = (i, found.fields)
    return out


def _mapping_below(mapping: Sequence[Any] | None, name: str) -> Sequence[Any] | None:
    return None if mapping is None else next((m.fields for m in mapping if name in m.names), ())


def within(values: pa.Array, names: Sequence[str]) -> pa.Array:
    """Return a field of structs, by the names that lead to it."""
    for name in names:
        values = pc.struct_field(values, name)
    return values


def default_of(f: Any) -> pa.Scalar:
    """Return the value of a column in rows that were written before the column was added."""
    to, value = arrow_of(f.field_type), f.initial_default
    if value is None:
        return pa.scalar(None, to)
    if isinstance(value, uuid.UUID):
        return pa.scalar(str(value), to)
    if isinstance(value, int) and pa.types.is_temporal(to):
        return pa.scalar(value, pa.int32() if to.bit_width == 32 else pa.int64()).cast(to)
    return pa.scalar(value, to)
