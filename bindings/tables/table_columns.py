"""Turn the columns of a file into those of its table: names, types, constants, absent columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.char_columns import padded
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, int64_of, plain
from skipstone.ir.errors import SourceError, clip, describe_error
from skipstone.ir.node import ELEMENT, KEY, VALUE, Path

# What Delta and Iceberg call the parts of lists and maps -> Arrow's attribute with their type.
PARTS: Final = {"element": "value_type", "key": "key_type", "value": "item_type"}
FIELD_ID: Final = b"PARQUET:field_id"  # pyarrow's key of a Parquet column's id
# Arrow casts no other layouts of lists (pyarrow 26).
LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
# The first Julian day, in microseconds since 1970. Spark writes earlier days as negative numbers,
# and so do late days whose number overflows. Arrow misreads both; it always reads the late ones as
# days before the first.
FIRST_JULIAN_DAY: Final = -210_866_803_200_000_000


def is_misread(times: pa.Array | pa.ChunkedArray) -> bool:
    """Return True if Arrow misread a time of type INT96: it lies before the first Julian day."""
    least = pc.min(pc.cast(times, pa.int64())).as_py()
    return least is not None and least < FIRST_JULIAN_DAY


def file_names(schema: pa.Schema, fields: list[pa.Field], path: str) -> dict[str, str]:
    """Return the file's names of the table's columns.

    Names match exactly or else without regard to case, as in Spark. A column that the file lacks
    has no entry.
    """
    out, exact = {}, set(schema.names)
    in_any_case: dict[str, list[str]] = {}
    for name in schema.names:
        in_any_case.setdefault(name.lower(), []).append(name)
    for f in fields:
        matches = [f.name] if f.name in exact else in_any_case.get(f.name.lower(), [])
        if len(matches) > 1:
            raise SourceError(
                f"{path}: the file has the columns {', '.join(matches)}; expected one for "
                f"{f.name!r}"
            )
        if matches:
            out[f.name] = matches[0]
    return out


def to_table_columns(
    batch: pa.RecordBatch,
    fields: list[pa.Field],
    own_names: dict[str, str],
    constants: dict[str, pa.Scalar],
    path: str,
) -> pa.RecordBatch:
    """Return a batch of the file at `path` with the table's columns.

    Partition values are repeated, absent columns are NULL, types are widened, and CHAR is padded.

    Raises:
        SourceError: a value does not fit the table's type.
    """
    n = batch.num_rows
    columns = []
    for f in fields:
        if f.name in constants:
            columns.append(pa.repeat(constants[f.name], n))
        elif f.name in own_names:
            values = batch.column(own_names[f.name])
            try:
                columns.append(padded(to_table_type(values, f.type), f))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
                raise SourceError(
                    f"{path}: its column {f.name!r} of type {values.type} does not fit the table's "
                    f"type {f.type} ({describe_error(e)}); leave the column out (columns=), or "
                    "give a type that fits by scan_hive(..., schema=)"
                ) from e
        else:
            columns.append(pa.nulls(n, f.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def to_table_type(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Cast values to another type.

    Fields of structs, also those in lists and maps, are matched by name as columns are. Arrow's
    cast would make a field NULL if its name differs in case.
    """
    if values.type == arrow_type:
        return values
    if (
        pa.types.is_timestamp(arrow_type)
        and pa.types.is_timestamp(values.type)
        and arrow_type.tz is not None
        and values.type.tz is None
    ):  # INT96
        return pc.cast(
            pc.cast(pc.cast(values, pa.timestamp(arrow_type.unit)), pa.int64()), arrow_type
        )
    if are_lists_or_maps(values.type, arrow_type):
        return with_parts(
            values,
            arrow_type,
            lambda part, name: to_table_type(part, getattr(arrow_type, PARTS[name])),
        )
    if not (pa.types.is_struct(arrow_type) and pa.types.is_struct(values.type)):
        # Integers that become floats are rounded to the nearest, as Spark's casts do.
        return pc.cast(values, arrow_type, safe=not pa.types.is_floating(arrow_type))
    wanted = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
    names = file_names(pa.schema(list(values.type)), wanted, "a file")
    # A required field is not NULL where its struct is, unlike in `values.flatten()`.
    children = {f.name: values.field(i) for i, f in enumerate(values.type)}
    fields = [
        to_table_type(children[names[f.name]], f.type)
        if f.name in names
        else pa.nulls(len(values), f.type)
        for f in wanted
    ]
    mask = pc.is_null(values) if values.null_count else None
    return pa.StructArray.from_arrays(fields, fields=wanted, mask=mask)


def variants(values: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Convert a file's VARIANT values to structs of two binary fields.

    Raises:
        SourceError: the file stores parts of the values in columns of their own.
    """
    values = plain(values)
    names = values.type.names if pa.types.is_struct(values.type) else []
    if set(names) != set(arrow_type.names):
        raise SourceError(
            f"a VARIANT column is stored as {clip(str(values.type))}; expected the fields "
            f"{' and '.join(arrow_type.names)}; leave the column out (columns=), or read it by "
            "Spark"
        )
    children = [pc.cast(values.field(f.name), f.type) for f in arrow_type]
    return pa.StructArray.from_arrays(children, fields=list(arrow_type), mask=pc.is_null(values))


def are_lists_or_maps(own: pa.DataType, arrow_type: pa.DataType) -> bool:
    """Return True if two types are both lists, in any layout that Arrow casts, or both maps.

    Files of pyiceberg and Polars have large lists.
    """
    return any(is_(own) and is_(arrow_type) for is_ in (_is_list, pa.types.is_map))


def list_of(field: pa.Field, like: pa.DataType) -> pa.DataType:
    """Return a list type with the items of a field and the layout of another list type."""
    if pa.types.is_large_list(like):
        return pa.large_list(field)
    return pa.list_(field, like.list_size if pa.types.is_fixed_size_list(like) else -1)


def _is_list(t: pa.DataType) -> bool:
    return any(is_(t) for is_ in LISTS)


def with_parts(
    values: pa.Array, arrow_type: pa.DataType, convert: Callable[[pa.Array, str], pa.Array]
) -> pa.Array:
    """Return lists or maps as another type of lists or maps.

    Args:
        values: The lists or maps.
        arrow_type: The other type.
        convert: Called with the items of lists and "element", or with the keys of maps and "key",
            then their values and "value"; returns them as `arrow_type` has them.
    """
    if _is_list(arrow_type):
        lists, to = pa.list_(values.type.value_field), pa.list_(arrow_type.value_field)
        plain_lists = values if values.type == lists else pc.cast(values, lists)
        items = convert(plain_lists.flatten(), "element")
        out = pa.ListArray.from_arrays(
            _offsets_of(plain_lists), items, type=to, mask=pc.is_null(plain_lists)
        )
        return out if to == arrow_type else pc.cast(out, arrow_type)
    whole = values if not values.offset else pa.concat_arrays([values])
    keys, items = convert(whole.keys, "key"), convert(whole.items, "value")
    return pa.MapArray.from_arrays(
        whole.offsets, keys, items, type=arrow_type, mask=pc.is_null(whole)
    )


def _offsets_of(values: pa.ListArray) -> pa.Array:
    """Return the offset of each list among the items of all lists; NULL lists count as empty.

    Returns:
        int32 array, one longer than `values`.
    """
    ends = np.cumsum(int64_of(values.value_lengths()), dtype=np.int32)
    return arrow_of(np.concatenate([np.zeros(1, np.int32), ends]))


def storage_type(t: pa.DataType) -> pa.DataType:
    """Return the type that stores an extension type."""
    while isinstance(t, pa.BaseExtensionType):
        t = t.storage_type
    return t


def plain_storage(t: pa.DataType) -> pa.DataType:
    """Return a type with its extension types, also of its parts, as they are stored."""
    t = storage_type(t)
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(plain_storage(f.type)) for f in t])
    if pa.types.is_map(t):
        parts = (f.with_type(plain_storage(f.type)) for f in (t.key_field, t.item_field))
        return pa.map_(*parts, t.keys_sorted)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return list_of(t.value_field.with_type(plain_storage(t.value_type)), t)
    return t


def parts_of(t: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, or the parts of a list or map as paths name them."""
    if pa.types.is_struct(t):
        return [t.field(i) for i in range(t.num_fields)]
    if pa.types.is_map(t):
        return [t.key_field.with_name(KEY), t.item_field.with_name(VALUE)]
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [t.value_field.with_name(ELEMENT)]
    return []


def paths_in(fields: Iterable[pa.Field], above: Path) -> Iterator[Path]:
    """Yield the paths of columns, of fields of structs, and of parts of lists and maps."""
    for field in fields:
        path = (*above, field.name)
        yield path
        yield from paths_in(parts_of(field.type), path)


def twins_in(fields: Iterable[pa.Field], above: Path) -> Iterator[tuple[Path, Path]]:
    """Yield pairs of columns, or of fields of one struct, whose names differ in case alone."""
    first: dict[str, Path] = {}
    for field in fields:
        path, name = (*above, field.name), field.name.lower()
        if name in first:
            yield first[name], path
        first.setdefault(name, path)
        yield from twins_in(parts_of(field.type), path)
