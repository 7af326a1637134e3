"""The forms of Parquet files: their columns, where these stand, and how they fit a table's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from skipstone.bindings.tables.parquet.declared_types import (
    VARIANT,
    meaning_of,
    noted_paths,
    with_notes,
)
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.types import DType, leaves_of

Stored = tuple[
    DType, str, int
]  # the column's type in a file, Parquet's type, bytes of a fixed length


class Bloom(NamedTuple):
    """Where a bloom filter starts, its length with the header's where the footer tells, and what it hashes."""

    offset: int
    length: int | None
    stored: Stored


class FileSchema:
    """What files may have in common: their schema, and how each Parquet column is stored. Equal by these.

    Attributes:
        schema: As Arrow reads the file, without metadata.
        physical: Parquet's type and fixed length of each Parquet column.
        example: Path of a file of this form.
    """

    def __init__(
        self, schema: pa.Schema, physical: tuple[tuple[str, int], ...], example: str
    ) -> None:
        self.schema, self.physical, self.example = schema, physical, example
        self._key = schema.serialize().to_pybytes(), physical

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileSchema) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _leaves(self) -> dict[Path, tuple[int, pa.DataType]]:
        found = dict(_number(self.schema))
        # A type that takes another number of Parquet columns than it seems to moves all that follow.
        whole = sum(width for field in self.schema for _, _, width in _spread(field, ())) == len(
            self.physical
        )
        return found if whole else {}

    def own(self, path: Path) -> Path | None:
        """How this form spells a column: that way, or in another case if just one is meant, as Spark finds it. None: not at all."""
        if path in self._leaves:
            return path
        wanted = _lower(path)
        found = [p for p in self._leaves if _lower(p) == wanted]
        return found[0] if len(found) == 1 else None

    def position(self, path: Path) -> int | None:
        """Where a column stands among the Parquet columns; None: it is not known, or not there."""
        own = self.own(path)
        return None if own is None else self._leaves[own][0]

    def lacks(self, path: Path) -> bool:
        """Whether files certainly have no such column, so that its rows read as NULL."""
        fields: Iterable[pa.Field] = self.schema
        for name in path:
            found = [f for f in fields if f.name.lower() == name.lower()]
            if not found:
                return True
            if len(found) > 1 or not pa.types.is_struct(found[0].type):
                return False
            fields = [found[0].type.field(i) for i in range(found[0].type.num_fields)]
        return False

    def widens(self, path: Path, kind: pa.DataType) -> bool:
        """Whether all values of a column are values of the type that a table has for it."""
        own = self.own(path)
        return own is not None and not self.is_noted(own) and widens(self._leaves[own][1], kind)

    def is_noted(self, own: Path) -> bool:
        """Whether the file's writer says that a column is more than its type."""
        return any(own[: len(path)] == path for path in self._noted)

    @cached_property
    def _noted(self) -> dict[Path, pa.Field]:
        return noted_paths(self.schema)

    def stored(self, path: Path) -> Stored | None:
        """How a column is stored; None: it is not known, or not there."""
        own = self.own(path)
        leaf = None if own is None else leaves_of(self.schema).get(own)
        return (
            None
            if leaf is None or own is None
            else (leaf.dtype, *self.physical[self._leaves[own][0]])
        )


def _lower(path: Path) -> Path:
    return tuple(name.lower() for name in path)


@cache
def widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type becomes another by widening."""
    given = without_views(given)
    while pa.types.is_dictionary(given):
        given = without_views(given.value_type)
    if _short(given) == pa.binary() and _short(wanted) == pa.string():
        return True  # Spark reads such bytes as text, and compares them as they are
    if _zoned(given) and _zoned(wanted):
        given = pa.timestamp(given.unit, wanted.tz)
    if _short(given) == _short(wanted):
        return True
    try:
        fields = [pa.schema([("x", t)]) for t in (wanted, given)]
        return bool(pa.unify_schemas(fields, promote_options="permissive").field(0).type == wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return False


def _short(t: pa.DataType) -> pa.DataType:
    """A type whose offsets are long as the one with short ones: the values are the same."""
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(t, t)


def common_schema(forms: Iterable[FileSchema]) -> pa.Schema:
    """One schema for all files: types widen, and a column that some file lacks may be NULL.

    Raises:
        SourceError: there is none, or two files have types that do not fit together.
    """
    forms = list(forms)
    if not forms:
        raise SourceError(
            'no file could be read, so the table\'s columns are not known; on_error="raise" says why'
        )
    merged: pa.Schema | None = None
    for f in forms:
        plain = plain_schema(f.schema)
        if merged is not None:
            plain = _as_spelt(plain, merged)
            plain, merged = _alike(plain, merged), _alike(merged, plain)
        try:
            merged = (
                plain
                if merged is None
                else pa.unify_schemas([merged, plain], promote_options="permissive")
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError) as e:
            raise SourceError(
                f"{f.example}: its columns do not fit those of the other files ({str(e).splitlines()[0]})"
            ) from e
    assert merged is not None
    names = [name.lower() for name in merged.names]
    twins = [name for name in merged.names if names.count(name.lower()) > 1]
    for f in forms:
        if lacking := [name for name in twins if name not in f.schema.names]:
            raise SourceError(
                f"{f.example}: lacks the column {lacking[0]!r}, and the table has others that differ in case alone; give such columns other names"
            )
    everywhere = set.intersection(*({name.lower() for name in f.schema.names} for f in forms))
    found = pa.schema(
        [
            field if field.name.lower() in everywhere else field.with_nullable(True)
            for field in merged
        ]
    )
    return with_notes(found, (f.schema for f in forms))


def _alike(fields: Iterable[pa.Field], others: Iterable[pa.Field]) -> pa.Schema:
    """Columns as other files may have them too: plain values where these are, and instants of several zones in UTC."""
    known = {f.name: f for f in others}
    return pa.schema(
        [f.with_type(_shared(f, known[f.name])) if f.name in known else f for f in fields]
    )


def _shared(field: pa.Field, same: pa.Field) -> pa.DataType:
    t, other = field.type, same.type
    if t != other and VARIANT in (meaning_of(field), meaning_of(same)):
        return pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    if pa.types.is_dictionary(t) and not pa.types.is_dictionary(other):
        t = t.value_type
    if _zoned(t) and _zoned(other) and t.tz != other.tz:
        return pa.timestamp(t.unit, "UTC")
    return (
        pa.struct(list(_alike(t, other)))
        if pa.types.is_struct(t) and pa.types.is_struct(other)
        else t
    )


def _zoned(t: pa.DataType) -> bool:
    return pa.types.is_timestamp(t) and t.tz is not None


def _as_spelt(schema: pa.Schema, merged: pa.Schema) -> pa.Schema:
    """Columns as the files before spell them, where just one is meant, as Spark finds them."""
    own = [name.lower() for name in schema.names]
    known = {name.lower(): name for name in merged.names}
    fields = []
    for f in schema:
        other = known.get(f.name.lower())
        alone = f.name not in merged.names and other is not None and own.count(f.name.lower()) == 1
        fields.append(f.with_name(other) if alone else f)
    return pa.schema(fields)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema without metadata and view types: Arrow's filters and sorts do not take views yet (pyarrow 26)."""
    return pa.schema([field.with_type(without_views(field.type)) for field in schema])


def without_views(t: pa.DataType) -> pa.DataType:
    """View types as plain ones."""
    if pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_binary_view(t):
        return pa.binary()
    if pa.types.is_struct(t):
        return pa.struct(
            [t.field(i).with_type(without_views(t.field(i).type)) for i in range(t.num_fields)]
        )
    return t


def _number(schema: pa.Schema) -> Iterator[tuple[Path, tuple[int, pa.DataType]]]:
    at = 0
    for field in schema:
        for path, kind, width in _spread(field, ()):
            if path is not None:
                yield path, (at, kind)
            at += width


def _spread(field: pa.Field, above: Path) -> Iterator[tuple[Path | None, pa.DataType, int]]:
    path = (*above, field.name)
    if isinstance(field.type, pa.BaseExtensionType) and pa.types.is_nested(_stored(field.type)):
        yield None, field.type, _width(field.type)
    elif pa.types.is_struct(field.type):
        for i in range(field.type.num_fields):
            yield from _spread(field.type.field(i), path)
    elif pa.types.is_nested(field.type):
        yield None, field.type, _width(field.type)
    else:
        yield path, field.type, 1


def _stored(t: pa.DataType) -> pa.DataType:
    """What an extension type is stored as."""
    while isinstance(t, pa.BaseExtensionType):
        t = t.storage_type
    return t


def _width(t: pa.DataType) -> int:
    t = _stored(t)
    if pa.types.is_map(t):
        return _width(t.key_type) + _width(t.item_type)
    if pa.types.is_struct(t):
        return sum(_width(t.field(i).type) for i in range(t.num_fields))
    return _width(t.value_type) if pa.types.is_nested(t) else 1
