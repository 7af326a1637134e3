"""The columns of an Iceberg schema: their Arrow types, and the ids that files use for them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, describe_error
from skipstone.ir.node import Path
from skipstone.ir.types import NOTE

# Keys are names of pyiceberg's classes. A UUID is a string, as in Spark.
PLAIN: Final[Mapping[str, pa.DataType]] = {
    "BooleanType": pa.bool_(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "DateType": pa.date32(),
    "TimeType": pa.time64("us"),
    "TimestampType": pa.timestamp("us"),
    "TimestamptzType": pa.timestamp("us", "UTC"),
    "TimestampNanoType": pa.timestamp("ns"),
    "TimestamptzNanoType": pa.timestamp("ns", "UTC"),
    "StringType": pa.string(),
    "UUIDType": pa.string(),
    "BinaryType": pa.binary(),
    "FixedType": pa.binary(),
    "UnknownType": pa.null(),
    "VariantType": pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
}


def arrow_of(kind: Any) -> pa.DataType:
    """Return the Arrow type of pyiceberg's type; binary for types that Spark does not have.

    Example:
        >>> from pyiceberg.types import ListType, UUIDType
        >>> arrow_of(ListType(1, UUIDType()))
        ListType(list<element: string not null>)
    """
    match type(kind).__name__:
        case "DecimalType":
            return pa.decimal128(kind.precision, kind.scale)
        case "StructType":
            return pa.struct([field_of(f) for f in kind.fields])
        case "ListType":
            return pa.list_(field_of(kind.element_field))
        case "MapType":
            return pa.map_(field_of(kind.key_field), field_of(kind.value_field))
        case name:
            return PLAIN.get(name, pa.binary())


def is_nanoseconds(arrow_type: pa.DataType) -> bool:
    """Return True for timestamps in nanoseconds."""
    return bool(pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns")


def field_of(f: Any) -> pa.Field:
    """Return the Arrow field of pyiceberg's field."""
    # A variant allows null tests only, and its parts are not columns.
    note = {NOTE: b"variant"} if type(f.field_type).__name__ == "VariantType" else None
    return pa.field(f.name, arrow_of(f.field_type), nullable=not f.required, metadata=note)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a struct's field, that may have statistics.

    Attributes:
        path: Its names, outermost first.
        id: Its id in files and statistics.
        kind: The name of pyiceberg's class of its type.
        type: Its Arrow type.
    """

    path: Path
    id: int
    kind: str
    type: pa.DataType


class TableFields:
    """The columns of one schema of a table.

    Args:
        schema: pyiceberg's schema.
        others: All schemas of the table, by id.
        mapping: The name mapping for files without ids; None if the table has none.
    """

    def __init__(
        self, schema: Any, others: Mapping[int, Any], mapping: Sequence[Any] | None = None
    ) -> None:
        self.iceberg, self.others, self.mapping = schema, others, mapping
        self.schema: pa.Schema = pa.schema([field_of(f) for f in schema.fields])

    @cached_property
    def leaves(self) -> Mapping[Path, Leaf]:
        """All leaves, by path, in the schema's order."""
        return {leaf.path: leaf for leaf in _leaves(self.iceberg.fields, ())}

    @cached_property
    def by_id(self) -> Mapping[int, Leaf]:
        """All leaves, by id."""
        return {leaf.id: leaf for leaf in self.leaves.values()}

    @cached_property
    def remapped(self) -> frozenset[int]:
        """The ids of leaves that may be read from other columns than their statistics describe.

        Statistics of files without ids were assigned by the names of the columns at that time. If
        such a name is later given to another column, the mapping removes it from the first one.
        Readers then find the first column under another name, or not at all, but its counts and
        bounds stay.
        """
        if self.mapping is None:
            return frozenset()
        schemas = {s.schema_id: s for s in (self.iceberg, *self.others.values())}
        if any(number not in schemas for number in range(max(schemas))):  # names were forgotten
            return frozenset(self.by_id)
        used: dict[int, set[str]] = {}
        for schema in schemas.values():
            for f in _all_fields(schema.fields):
                used.setdefault(f.field_id, set()).add(f.name)
        read = {f.field_id: set(f.names) for f in _all_mapped(self.mapping)}
        lost = {number for number, names in used.items() if not names <= read.get(number, set())}
        return frozenset(_ids_below(self.iceberg.fields, lost, False))

    def changed(self, number: int) -> bool:
        """Return True if a column has different types in the table's schemas."""
        kinds = {
            str(found)
            for s in (self.iceberg, *self.others.values())
            if (found := _type_of(s, number)) is not None
        }
        return len(kinds) > 1


def name_mapping(source: Any) -> Sequence[Any] | None:
    """Return the name mapping of pyiceberg's table, for files without ids; None if it has none.

    Raises:
        SourceError: the property that holds it cannot be read; then no file can be, as in Iceberg.
    """
    try:
        mapping = source.name_mapping()
        entries = None if mapping is None else list(mapping.root)
        if not all(isinstance(m.names, list) for m in _all_mapped(entries or ())):
            raise ValueError("an entry has no names")  # pyiceberg 0.12 does not notice
    except ValueError as e:
        raise SourceError(
            f"{source.location()}: the property schema.name-mapping.default holds no name mapping "
            f"({describe_error(e)})"
        ) from e
    return entries


def _leaves(fields: Any, above: Path) -> Iterator[Leaf]:
    for f in fields:
        kind, path = type(f.field_type).__name__, (*above, f.name)
        if kind == "StructType":
            yield from _leaves(f.field_type.fields, path)
        elif kind not in ("ListType", "MapType"):
            yield Leaf(path, f.field_id, kind, arrow_of(f.field_type))


def _all_fields(fields: Any) -> Iterator[Any]:
    """Yield fields and those of structs, outside of lists and maps."""
    for f in fields:
        yield f
        yield from _all_fields(getattr(f.field_type, "fields", ()))


def _all_mapped(mapping: Sequence[Any]) -> Iterator[Any]:
    for m in mapping:
        yield m
        yield from _all_mapped(m.fields)


def _ids_below(fields: Any, lost: Container[int], inside: bool) -> Iterator[int]:
    """Yield the ids of the leaves that are lost, or lie in a lost struct."""
    for f in fields:
        own, below = inside or f.field_id in lost, getattr(f.field_type, "fields", ())
        if own and not below:
            yield f.field_id
        yield from _ids_below(below, lost, own)


def _type_of(schema: Any, number: int) -> Any:
    try:
        return schema.find_type(number)
    except ValueError:
        return None


def path_to(field: Any, number: int) -> tuple[str, ...] | None:
    """Return the names of struct fields below a field that lead to an id; None if none do."""
    if field.field_id == number:
        return ()
    for child in getattr(field.field_type, "fields", ()):
        if (below := path_to(child, number)) is not None:
            return (child.name, *below)
    return None


def ids_of(schema: str) -> dict[str, int]:
    """Return the ids of a schema's fields by their names; those of nested fields have dots.

    Args:
        schema: The schema in Iceberg's JSON form.
    """
    from pyiceberg.schema import Schema, index_by_id

    parsed = Schema.model_validate_json(schema)
    return {str(parsed.find_column_name(number)): number for number in index_by_id(parsed)}
