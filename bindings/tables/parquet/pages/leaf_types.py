"""Find the flat columns that can be read by pages: those of types on which decoders agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.parquet import thrift_writer as t
from skipstone.ir.node import Path

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.heads import Head

REQUIRED, OPTIONAL, REPEATED = range(3)
# Parquet's types by name, with their numbers.
PHYSICAL: Final = {
    "BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5,
    "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7,
}  # fmt: skip
UNITS: Final = {"milliseconds": ("ms", 1), "microseconds": ("us", 2), "nanoseconds": ("ns", 3)}
# Fields of a SchemaElement.
TYPE, LENGTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, _, LOGICAL = range(1, 11)
UTF8, DECIMAL, DATE = 0, 5, 6  # converted types
INNER: Final = "inner"  # the name of each level within a column
BETWEEN: Final = "\1"  # between the names of a path that is a key
CLOCK, STAMP = 7, 8  # logical types: TIME, TIMESTAMP
# Integers: (signed, bits) -> type, converted type.
INTEGERS: Final = {
    (False, 8): (pa.uint8(), 11), (False, 16): (pa.uint16(), 12),
    (False, 32): (pa.uint32(), 13), (False, 64): (pa.uint64(), 14),
    (True, 8): (pa.int8(), 15), (True, 16): (pa.int16(), 16),
    (True, 32): (pa.int32(), 17), (True, 64): (pa.int64(), 18),
}  # fmt: skip
TEXTS: Final = pa.dictionary(pa.int32(), pa.string())
INT96: Final = pa.timestamp("us", "UTC")  # as Spark reads it
# Types of columns without a logical type.
PLAIN: Final = {
    "BOOLEAN": pa.bool_(), "INT32": pa.int32(), "INT64": pa.int64(), "INT96": INT96,
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "BYTE_ARRAY": pa.binary(),
}  # fmt: skip


class LeafType(NamedTuple):
    """The type of a Parquet column, as a file in memory declares it.

    Attributes:
        position: Its position among the Parquet columns of the file.
        element: The fields of its SchemaElement, without its name, in the compact protocol.
        arrow: The Arrow type that it is decoded to, without the levels above it.
        physical: Parquet's number of its type.
        above: The same fields of the structs, lists and maps around it, outermost first. Each has
            one child.
        repeated: How many of them are lists or maps.
    """

    position: int
    element: t.Fields
    arrow: pa.DataType
    physical: int
    above: tuple[t.Fields, ...] = ()
    repeated: int = 0

    @property
    def inner(self) -> tuple[str, ...]:
        """The names of the levels below the outermost one."""
        return (INNER,) * len(self.above)

    def elements(self, name: str) -> Iterator[t.Fields]:
        """Yield the SchemaElements of a column of a name, outermost first."""
        for fields in (*self.above, self.element):
            yield {**fields, NAME: t.binary(name.encode())}
            name = INNER

    @property
    def is_int96(self) -> bool:
        """True if it holds timestamps of type INT96, which only Arrow decodes correctly.

        Polars reads them in nanoseconds, in which the year 3000 overflows to 1830.
        """
        return self.physical == PHYSICAL["INT96"]


def key_of(path: Path) -> str:
    """Return the key of a Parquet column among those of a row group; a flat one's is its name."""
    return BETWEEN.join(path)


def path_of(key: str) -> Path:
    """Return the path of a Parquet column from its key."""
    return tuple(key.split(BETWEEN))


def leaf_types(metadata: pq.FileMetaData, columns: pa.Schema) -> dict[str, LeafType]:
    """Return the columns of a file whose pages can be read by themselves.

    Columns that are nested, that only Arrow's own schema describes, or that have rare types, are
    left out.

    Args:
        metadata: The file's metadata.
        columns: The columns as Arrow and Spark read them.

    Returns:
        Name -> type.
    """
    schema = metadata.schema
    leaves = [schema.column(i) for i in range(len(schema))]
    counts = Counter(columns.names)
    by_path: dict[str, list[int]] = {}
    for i, leaf in enumerate(leaves):
        by_path.setdefault(leaf.path, []).append(i)
    out = {}
    for field in columns:
        at = by_path.get(field.name, [])
        is_nested = pa.types.is_nested(field.type)
        if len(at) != 1 or counts[field.name] > 1 or is_nested or BETWEEN in field.name:
            continue
        leaf = leaves[at[0]]
        if leaf.max_repetition_level or leaf.max_definition_level > 1:
            continue
        known = leaf_type(leaf, at[0], field.type, nullable=bool(leaf.max_definition_level))
        if known is not None:
            out[field.name] = known
    return out


def leaf_type(
    leaf: Any, position: int, arrow_type: pa.DataType, *, nullable: bool
) -> LeafType | None:
    """Return the type of a Parquet column, without the levels above it; None if it is rare.

    Args:
        leaf: pyarrow's ColumnSchema.
        position: Its position among the Parquet columns.
        arrow_type: The type that Arrow reads it as.
        nullable: True if it is OPTIONAL.
    """
    known = _known_type(leaf)
    if known is None or not _same(known[0], arrow_type):
        return None
    arrow, fields = known
    element: t.Fields = {
        TYPE: t.i32(PHYSICAL[leaf.physical_type]),
        REPETITION: t.i32(OPTIONAL if nullable else REQUIRED),
    }
    return LeafType(position, {**element, **fields}, arrow, PHYSICAL[leaf.physical_type])


def leaves_among(
    fields: Iterable[pa.Field], own_names: Mapping[str, str], head: Head
) -> dict[str, LeafType]:
    """Return those columns of a table that can be read by pages: name -> type in the files.

    Args:
        fields: The table's columns.
        own_names: Table column -> its name in the files, for those that the files have.
        head: The head of the files' footers.
    """
    from skipstone.bindings.tables.char_columns import holds_char

    out = {}
    for f in fields:
        own = own_names.get(f.name)
        leaf = None if own is None else head.leaf_types.get(own)
        # The values of CHAR are padded; a name with `BETWEEN` would be the key of another column.
        if leaf is None or holds_char(f) or BETWEEN in f.name:
            continue
        if pa.types.is_string(f.type) and pa.types.is_fixed_size_binary(leaf.arrow):
            continue  # UUIDs of Iceberg; their bytes may be a text by chance
        if leaf.is_int96:
            is_as_stored = f.type == leaf.arrow and not head.has_julian_int96
        else:
            is_as_stored = not (head.julian and pa.types.is_temporal(f.type))
        if is_as_stored:
            out[f.name] = leaf
    return out


def _same(decoded: pa.DataType, field: pa.DataType) -> bool:
    """Return True if Arrow reads a column as the type that its pages alone are decoded to."""
    larger = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary(), TEXTS: pa.string()}
    return bool(decoded == larger.get(field, field))


def _known_type(leaf: Any) -> tuple[pa.DataType, t.Fields] | None:
    """Return a column's Arrow type and the fields that declare it."""
    logical = json.loads(leaf.logical_type.to_json()) if leaf.logical_type is not None else {}
    match leaf.physical_type, logical.get("Type", "None"):
        case physical, "None" if physical in PLAIN:
            return PLAIN[physical], {}
        case "INT32", "Date":
            return pa.date32(), {CONVERTED: t.i32(DATE), LOGICAL: _union(6)}
        case "INT64", "Timestamp" if logical.get("timeUnit") in UNITS:
            return _time(logical, STAMP)
        case "INT32" | "INT64", "Time" if logical.get("timeUnit") in UNITS:
            return _time(logical, CLOCK)
        case "INT32" | "INT64" as physical, "Int":
            key = (bool(logical.get("isSigned")), logical.get("bitWidth"))
            if key in INTEGERS and (key[1] == 64) == (physical == "INT64"):
                arrow, converted = INTEGERS[key]
                return arrow, {CONVERTED: t.i32(converted)}
        case "INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY", "Decimal":
            return _decimal(leaf, logical)
        case "BYTE_ARRAY", "String":
            return pa.string(), {CONVERTED: t.i32(UTF8), LOGICAL: _union(1)}
        case "BYTE_ARRAY", "Enum":
            return pa.binary(), {}
        case "FIXED_LEN_BYTE_ARRAY", "None" | "UUID" if leaf.length > 0:
            return pa.binary(leaf.length), {LENGTH: t.i32(leaf.length)}
    return None


def _time(logical: Mapping[str, Any], number: int) -> tuple[pa.DataType, t.Fields]:
    """Return the type of a timestamp or a time of day, by the number of its logical type."""
    unit, unit_number = UNITS[logical["timeUnit"]]
    utc = bool(logical["isAdjustedToUTC"])
    fields = {1: t.boolean(utc), 2: t.structure({unit_number: t.structure({})})}
    if number == STAMP:
        arrow = pa.timestamp(unit, "UTC" if utc else None)
    else:
        arrow = pa.time32(unit) if unit == "ms" else pa.time64(unit)
    return arrow, {LOGICAL: t.structure({number: t.structure(fields)})}


def _decimal(leaf: Any, logical: Mapping[str, Any]) -> tuple[pa.DataType, t.Fields] | None:
    precision, scale = logical["precision"], logical["scale"]
    if not 0 < precision <= 38 or not 0 <= scale <= precision:
        return None
    fields: dict[int, t.Value] = {
        CONVERTED: t.i32(DECIMAL),
        SCALE: t.i32(scale),
        PRECISION: t.i32(precision),
        LOGICAL: t.structure({5: t.structure({1: t.i32(scale), 2: t.i32(precision)})}),
    }
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        if not 0 < leaf.length <= 16:
            return None
        fields[LENGTH] = t.i32(leaf.length)
    return pa.decimal128(precision, scale), fields


def _union(field: int) -> t.Value:
    return t.structure({field: t.structure({})})
