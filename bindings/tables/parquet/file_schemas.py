"""Schemas of Parquet files: their columns, column positions, and how they fit a table's schema."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from skipstone.bindings.tables.parquet.declared_types import (
    VARIANT,
    meaning_of,
    noted_paths,
    with_notes,
)
from skipstone.bindings.tables.table_columns import (
    are_lists_or_maps,
    list_of,
    parts_of,
    plain_storage,
    storage_type,
    twins_in,
)
from skipstone.ir.arrow import is_instant
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, describe_error
from skipstone.ir.node import PARTS, Path, is_part, lowered
from skipstone.ir.types import NULL, DType, from_arrow, leaves_of

# A column's type in a file, Parquet's type, and the bytes of a value of fixed length.
StoredType = tuple[DType, str, int]
ENUM: Final = b"skipstone.enum"  # a key of the Arrow fields of columns that are ENUM in their file
DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}  # bits -> decimal digits of the largest number


class BloomLocation(NamedTuple):
    """The place of a bloom filter in its file, and the type of the values that it hashes.

    Attributes:
        offset: Its first byte.
        length: Bytes of its header and bits; None if the footer does not say.
        stored: The stored type of the column.
    """

    offset: int
    length: int | None
    stored: StoredType


class FileSchema:
    """A schema, and how each Parquet column is stored; many files may share one.

    Two are equal if their schemas and physical types are equal.

    Attributes:
        schema: The schema as Arrow reads the file, without metadata.
        physical: Parquet's type and fixed length of each Parquet column.
        example: The path of a file with this schema.
    """

    def __init__(
        self, schema: pa.Schema, physical: tuple[tuple[str, int], ...], example: str
    ) -> None:
        self.schema, self.physical, self.example = schema, physical, example
        self._key = schema.serialize().to_pybytes(), physical

    def of_file(self, example: str) -> FileSchema:
        """Return this schema with another example."""
        _ = self._leaves  # shared with the copy
        other = copy.copy(self)
        other.example = example
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileSchema) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _leaves(self) -> dict[Path, tuple[int, pa.DataType]]:
        # If a type takes another number of Parquet columns than expected, the positions of all
        # columns after it are wrong.
        width = sum(width for field in self.schema for _, _, width in _field_leaves(field, ()))
        return dict(_numbered_leaves(self.schema)) if width == len(self.physical) else {}

    def own(self, path: Path) -> Path | None:
        """Return a column's path as this file spells it; None if the file lacks the column.

        The spelling may differ in case if exactly one column matches, as in Spark.
        """
        if path in self._leaves:
            return path
        wanted = lowered(path)
        matches = [p for p in self._leaves if lowered(p) == wanted]
        return matches[0] if len(matches) == 1 else None

    def position(self, path: Path) -> int | None:
        """Return a column's position among the Parquet columns; None if it is absent or unknown."""
        own = self.own(path)
        return None if own is None else self._leaves[own][0]

    def lacks(self, path: Path) -> bool:
        """Return True if the file certainly lacks a column, so that its rows read as NULL."""
        if path in self._leaves:
            return False
        fields: Iterable[pa.Field] = self.schema
        for name in path:
            if name in PARTS:
                return False
            matches = [f for f in fields if f.name.lower() == name.lower()]
            if not matches:
                return True
            if len(matches) > 1 or not pa.types.is_struct(matches[0].type):
                return False
            fields = [matches[0].type.field(i) for i in range(matches[0].type.num_fields)]
        return False

    def may_hold_values(self, path: Path) -> bool:
        """Return True unless the file certainly lacks a column or gives it the type NULL."""
        own = self.own(path)
        leaf = None if own is None else leaves_of(self.schema).get(own)
        return not self.lacks(path) if leaf is None else leaf.dtype != NULL

    def respelled(self, path: Path) -> Path | None:
        """Return a path up to the first name that the file spells differently, as the file does.

        None means that the file has the path as it is, or lacks it in any spelling.
        """
        fields: Iterable[pa.Field] = self.schema
        for n, name in enumerate(path):
            matches = [f for f in fields if f.name.lower() == name.lower()]
            exact = [f for f in matches if f.name == name]
            if not exact:
                return (*path[:n], matches[0].name) if matches else None
            fields = parts_of(exact[0].type)
        return None

    @cached_property
    def twins(self) -> tuple[tuple[Path, Path], ...]:
        """Pairs of columns, or of fields of one struct, whose names differ in case alone."""
        return tuple(twins_in(self.schema, ()))

    def widens(self, path: Path, arrow_type: pa.DataType) -> bool:
        """Return True if every value of a column is also a value of `arrow_type`, the table's."""
        own = self.own(path)
        return (
            own is not None and not self.is_noted(own) and widens(self._leaves[own][1], arrow_type)
        )

    def is_noted(self, own: Path) -> bool:
        """Return True if a column, or a struct around it, has a note of its meaning in Spark."""
        return any(own[: len(path)] == path for path in self._noted)

    @cached_property
    def _noted(self) -> dict[Path, pa.Field]:
        return noted_paths(self.schema)

    def stored_type(self, path: Path) -> StoredType | None:
        """Return how a column is stored; None if it is absent or unknown."""
        own = self.own(path)
        if own is None:
            return None
        position, arrow_type = self._leaves[own]
        leaf = leaves_of(self.schema).get(own)
        return from_arrow(arrow_type) if leaf is None else leaf.dtype, *self.physical[position]


@cache
def widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True if the type `given` becomes `wanted` by widening."""
    given, wanted = without_views(storage_type(given)), storage_type(wanted)
    while pa.types.is_dictionary(given):
        given = without_views(given.value_type)
    if _short_offsets(given) == pa.binary() and _short_offsets(wanted) == pa.string():
        return True  # Spark reads such bytes as text, and compares them unchanged
    if is_instant(given) and is_instant(wanted):
        given = pa.timestamp(given.unit, wanted.tz)
    if _short_offsets(given) == _short_offsets(wanted):
        return True
    if given == pa.uint32() and not pa.types.is_integer(wanted):
        return False  # Spark reads it as a signed number where a column is not BIGINT
    if given == pa.uint64():
        # Spark reads it as a signed number where a column is BIGINT.
        return bool(pa.types.is_decimal(wanted) and wanted.precision - wanted.scale >= 20)
    if pa.types.is_integer(given) and pa.types.is_decimal(wanted):
        # Arrow gives a decimal too few digits, and Spark reads NULL where they do not suffice.
        return bool(wanted.precision - wanted.scale >= DIGITS[given.bit_width])
    try:
        fields = [pa.schema([("x", t)]) for t in (wanted, given)]
        return bool(pa.unify_schemas(fields, promote_options="permissive").field(0).type == wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False


def _short_offsets(t: pa.DataType) -> pa.DataType:
    """Return a type with 32-bit offsets instead of 64-bit offsets; the values are the same."""
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(t, t)


def common_schema(schemas: Iterable[FileSchema]) -> pa.Schema:
    """Unite the schemas of all files: types widen, and a column that a file lacks is nullable.

    Args:
        schemas: The distinct schemas of the files.

    Raises:
        SourceError: there is no schema, or two files have types that do not fit together.
    """
    return _common_schema(tuple(schemas))


@lru_cache(16)  # a table is often opened again
def _common_schema(schemas: tuple[FileSchema, ...]) -> pa.Schema:
    if not schemas:
        raise SourceError(
            'no file could be read, so the table\'s columns are unknown; on_error="raise" says why'
        )
    merged: pa.Schema | None = None
    for f in schemas:
        plain = plain_schema(f.schema)
        if merged is not None:
            plain = _spelled_like(plain, merged)
            plain, merged = _with_shared_types(plain, merged), _with_shared_types(merged, plain)
        try:
            if merged is None:
                merged = plain
            else:
                merged = pa.unify_schemas([merged, plain], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as e:
            raise SourceError(
                f"{f.example}: its columns do not fit those of the other files "
                f"({describe_error(e)}); scan the files of each type by themselves, or give "
                "types to read by scan_hive(..., schema=)"
            ) from e
    assert merged is not None
    counts = Counter(name.lower() for name in merged.names)
    twins = [name for name in merged.names if counts[name.lower()] > 1]
    for f in schemas:
        if lacking := sorted(set(twins).difference(f.schema.names), key=twins.index):
            raise SourceError(
                f"{f.example}: lacks the column {lacking[0]!r}, and the table has columns whose "
                "names differ in case alone; give such columns other names"
            )
    return with_notes(merged, (f.schema for f in schemas))


def _with_shared_types(fields: Iterable[pa.Field], others: Iterable[pa.Field]) -> pa.Schema:
    """Return fields with types that `others` can share; fields that `others` lack become nullable.

    Dictionaries become plain values where the other field has plain values. Extension types become
    their storage where the other field has another type: Arrow reads a UUID as one only from files
    with its own schema. Instants in several zones become instants in UTC.
    """
    same = {f.name: f for f in others}
    return pa.schema(
        [
            f.with_type(_shared_type(f, same[f.name])) if f.name in same else f.with_nullable(True)
            for f in fields
        ]
    )


def _shared_type(field: pa.Field, same: pa.Field) -> pa.DataType:
    t, other = field.type, same.type
    if t != other and VARIANT in (meaning_of(field), meaning_of(same)):
        return pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    if t != other:
        t, other = plain_storage(t), plain_storage(other)
    if pa.types.is_dictionary(t) and not pa.types.is_dictionary(other):
        t = t.value_type
    if is_instant(t) and is_instant(other) and t.tz != other.tz:
        return pa.timestamp(t.unit, "UTC")
    if pa.types.is_struct(t) and pa.types.is_struct(other):
        return pa.struct(list(_with_shared_types(t, other)))
    return t


def _spelled_like(given: Iterable[pa.Field], merged: Iterable[pa.Field]) -> pa.Schema:
    """Return fields with names in the case of `merged`, where one name matches, as in Spark.

    The same holds for the fields of structs, also in lists and maps.
    """
    given, known = list(given), {f.name: f for f in merged}
    counts = Counter(f.name.lower() for f in given)
    spellings = {name.lower(): name for name in known}
    fields = []
    for f in given:
        other = spellings.get(f.name.lower())
        if f.name not in known and other is not None and counts[f.name.lower()] == 1:
            f = f.with_name(other)
        like = known.get(f.name)
        fields.append(f if like is None else f.with_type(_type_spelled_like(f.type, like.type)))
    return pa.schema(fields)


def _type_spelled_like(t: pa.DataType, merged: pa.DataType) -> pa.DataType:
    if t == merged:
        return t
    if pa.types.is_struct(t) and pa.types.is_struct(merged):
        return pa.struct(list(_spelled_like(t, merged)))
    if not are_lists_or_maps(t, merged):
        return t
    if pa.types.is_map(t):
        key, item = (
            _part_spelled_like(getattr(t, part), getattr(merged, part))
            for part in ("key_field", "item_field")
        )
        return pa.map_(key, item, t.keys_sorted)
    return list_of(_part_spelled_like(t.value_field, merged.value_field), t)


def _part_spelled_like(field: pa.Field, merged: pa.Field) -> pa.Field:
    return field.with_type(_type_spelled_like(field.type, merged.type))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema without metadata and view types; ENUM becomes STRING, as in Spark.

    Arrow's filters and sorts do not accept views yet (pyarrow 26).
    """
    fields = map(_with_text, schema)
    return pa.schema([field.with_type(without_views(field.type)) for field in fields])


def _with_text(field: pa.Field) -> pa.Field:
    """Return a field with STRING in place of ENUM."""
    t = field.type
    if pa.types.is_struct(t):
        return field.with_type(pa.struct([_with_text(f) for f in t]))
    if pa.types.is_list(t):
        return field.with_type(pa.list_(_with_text(t.value_field)))
    if pa.types.is_map(t):
        key, item = _with_text(t.key_field), _with_text(t.item_field)
        return field.with_type(pa.map_(key, item, t.keys_sorted))
    if ENUM not in (field.metadata or {}):
        return field
    kept = {key: value for key, value in field.metadata.items() if key != ENUM}
    return field.with_type(pa.string()).with_metadata(kept or None)


def without_views(t: pa.DataType) -> pa.DataType:
    """Return a type with view types replaced by plain types, also within structs."""
    if pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_binary_view(t):
        return pa.binary()
    if pa.types.is_struct(t):
        return pa.struct(
            [t.field(i).with_type(without_views(t.field(i).type)) for i in range(t.num_fields)]
        )
    return t


def _numbered_leaves(schema: pa.Schema) -> Iterator[tuple[Path, tuple[int, pa.DataType]]]:
    """Yield the columns that we can address: path, position among the Parquet columns, type."""
    at = 0
    for field in schema:
        for path, kind, width in _field_leaves(field, ()):
            if path is not None:
                yield path, (at, kind)
            at += width


def _field_leaves(field: pa.Field, above: Path) -> Iterator[tuple[Path | None, pa.DataType, int]]:
    """Yield the leaves of a field: path, type, and number of Parquet columns.

    The path is None for nested extension types, other lists, and noted values in lists and maps.
    """
    path, t = (*above, field.name), field.type
    nested = pa.types.is_nested(storage_type(t))
    if (nested and isinstance(t, pa.BaseExtensionType)) or (is_part(path) and meaning_of(field)):
        yield None, t, width_of(t)
    elif parts := parts_of(t):
        for part in parts:
            yield from _field_leaves(part, path)
    else:
        yield None if nested else path, t, width_of(t)


def width_of(t: pa.DataType) -> int:
    """Return the number of Parquet columns that a type takes."""
    t = storage_type(t)
    if pa.types.is_map(t):
        return width_of(t.key_type) + width_of(t.item_type)
    if pa.types.is_struct(t):
        return sum(width_of(t.field(i).type) for i in range(t.num_fields))
    return width_of(t.value_type) if pa.types.is_nested(t) else 1
