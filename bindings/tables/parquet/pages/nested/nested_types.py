"""Find the nested columns whose Parquet columns can be read by pages, each by itself.

A file in memory holds one Parquet column and the structs, lists and maps around it: a chain of
levels with one child each. A chain has the same levels as the column in its file, so its pages stay
as they are; maps become lists of their keys, and lists of their values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.parquet import thrift_writer as t
from skipstone.bindings.tables.parquet.file_schemas import width_of
from skipstone.bindings.tables.parquet.pages.leaf_types import (
    BETWEEN,
    CHILDREN,
    CONVERTED,
    LOGICAL,
    OPTIONAL,
    REPEATED,
    REPETITION,
    REQUIRED,
    LeafType,
    key_of,
    leaf_type,
)
from skipstone.ir.node import ELEMENT, KEY, VALUE, Path

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.heads import Head

LIST_CONVERTED, LIST_LOGICAL = 3, 3  # Parquet's numbers of LIST
ONE_CHILD: Final[t.Fields] = {CHILDREN: t.i32(1)}
LIST: Final[t.Fields] = {
    CONVERTED: t.i32(LIST_CONVERTED),
    LOGICAL: t.structure({LIST_LOGICAL: t.structure({})}),
}


class NestedType(NamedTuple):
    """A nested column that can be read by pages.

    Attributes:
        arrow: Its type, as Arrow reads it.
        leaves: The path of each of its Parquet columns, below the column -> its type, in the order
            of the file.
    """

    arrow: pa.DataType
    leaves: Mapping[Path, LeafType]

    def within(self, name: str) -> dict[str, LeafType]:
        """Return its Parquet columns by their keys, as a column of a name."""
        return {key_of((name, *path)): leaf for path, leaf in self.leaves.items()}


class NestedColumns(NamedTuple):
    """Nested columns of a table whose Parquet columns can be read by pages.

    Attributes:
        types: Table column -> its type in the files.
        by_name: True if the fields of structs in the files have the names that they have in the
            table, so that a path of a condition is the path of a Parquet column.
    """

    types: Mapping[str, NestedType]
    by_name: bool

    @property
    def leaves(self) -> dict[str, LeafType]:
        """All their Parquet columns, by key."""
        return {k: leaf for name, own in self.types.items() for k, leaf in own.within(name).items()}

    @property
    def tested(self) -> dict[str, LeafType]:
        """The Parquet columns whose page statistics conditions can use."""
        return self.leaves if self.by_name else {}


def nested_types(metadata: pq.FileMetaData, columns: pa.Schema) -> dict[str, NestedType]:
    """Return the nested columns of a file that can be read by pages, by name.

    Args:
        metadata: The file's metadata.
        columns: The columns as Arrow and Spark read them.
    """
    schema = metadata.schema
    widths = [width_of(f.type) for f in columns]
    if sum(widths) != len(schema):
        return {}
    counts = Counter(columns.names)
    out, at = {}, 0
    for field, width in zip(columns, widths, strict=True):
        if pa.types.is_nested(field.type) and counts[field.name] == 1:
            found = dict(_leaves(field, (), (), at, schema))
            known = {path: leaf for path, leaf in found.items() if leaf is not None}
            if len(known) == width and not any(BETWEEN in name for path in known for name in path):
                out[field.name] = NestedType(field.type, known)
        at += width
    return out


def nested_among(
    fields: Iterable[pa.Field], own_names: Mapping[str, str], head: Head, *, by_name: bool
) -> NestedColumns:
    """Return those columns of a table that are nested and can be read by pages.

    Args:
        fields: The table's columns.
        own_names: Table column -> its name in the files, for those that the files have.
        head: The head of the files' footers.
        by_name: As of `NestedColumns`.
    """
    from skipstone.bindings.tables.char_columns import holds_char

    out = {}
    for f in fields:
        own = own_names.get(f.name)
        nested = None if own is None else head.nested_types.get(own)
        if nested is None or BETWEEN in f.name or holds_char(f):
            continue
        times = any(pa.types.is_temporal(leaf.arrow) for leaf in nested.leaves.values())
        lists = any(leaf.repeated for leaf in nested.leaves.values())
        if not (times and head.julian) and (head.begins_pages_with_rows or not lists):
            out[f.name] = nested
    return NestedColumns(out, by_name)


def _leaves(
    field: pa.Field, path: Path, above: tuple[t.Fields, ...], at: int, schema: pq.ParquetSchema
) -> Iterator[tuple[Path, LeafType | None]]:
    """Yield the Parquet columns of a field: path and type; None if it cannot be read by pages.

    Args:
        field: The field.
        path: Its path below the column.
        above: The levels around it.
        at: The position of its first Parquet column.
        schema: The file's Parquet columns.
    """
    kind = field.type
    own: t.Fields = {REPETITION: t.i32(OPTIONAL if field.nullable else REQUIRED)}
    if pa.types.is_struct(kind):
        parts = [(f.name, f) for f in kind]
        above = (*above, {**own, **ONE_CHILD})
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parts = [(ELEMENT, kind.value_field)]
        above = (*above, {**own, **ONE_CHILD, **LIST}, {REPETITION: t.i32(REPEATED), **ONE_CHILD})
    elif pa.types.is_map(kind):
        parts = [(KEY, kind.key_field), (VALUE, kind.item_field)]
        above = (*above, {**own, **ONE_CHILD, **LIST}, {REPETITION: t.i32(REPEATED), **ONE_CHILD})
    else:
        yield path, _leaf(field, above, at, schema)
        return
    for name, part in parts:
        yield from _leaves(part, (*path, name), above, at, schema)
        at += width_of(part.type)


def _leaf(
    field: pa.Field, above: tuple[t.Fields, ...], at: int, schema: pq.ParquetSchema
) -> LeafType | None:
    column = schema.column(at)
    found = leaf_type(column, at, field.type, nullable=field.nullable)
    levels = [fields[REPETITION] for fields in above]
    repeated = levels.count(t.i32(REPEATED))
    defined = field.nullable + levels.count(t.i32(OPTIONAL)) + repeated
    if (
        found is None
        or found.is_int96
        or pa.types.is_dictionary(field.type)
        or (column.max_definition_level, column.max_repetition_level) != (defined, repeated)
    ):
        return None
    return found._replace(above=above, repeated=repeated)
