"""The part of a footer that concerns the whole file, which files of one writer share."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.parquet.calendar import is_julian
from skipstone.bindings.tables.parquet.declared_types import (
    noted_paths,
    with_lost_type,
    with_spark_times,
    with_spark_types,
)
from skipstone.bindings.tables.parquet.file_schemas import ENUM, FileSchema, width_of
from skipstone.bindings.tables.parquet.pages.leaf_types import LeafType, leaf_types
from skipstone.ir.cached import cached_property
from skipstone.kernels.run import forks
from skipstone.kernels.run.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.pages.nested.nested_types import NestedType

T = TypeVar("T")
MAGIC: Final = b"PAR1"
MAX_COMPARED: Final = 8  # heads of a table that a new one is compared with
# Keys of a footer's metadata that say how its columns are read. Others, such as pandas' number of
# rows, may differ between files that are read alike; the Arrow schema itself is compared.
MEANINGFUL: Final = b"org.apache.spark."
# Writers whose bounds pyarrow trusts in every order: these versions, and all writers with another
# name (`ApplicationVersion::HasCorrectStatistics` of Arrow, PARQUET-251).
TRUSTED_WRITERS: Final = re.compile(
    r"parquet-cpp-arrow version |parquet-cpp version 1\.([3-9]|\d\d)\.\d|"
    r"parquet-mr version 1\.\d\d\.\d|(?!.*parquet-(mr|cpp))",
    re.DOTALL,
)
# Writers that certainly begin each page with a new row. Others may cut rows of lists and maps, even
# with an offset index: Rust's before version 41, C++'s before 12, and arrow2 (arrow-rs#3680,
# arrow#34142). Delta's and DataFusion's writers give their own version in place of Rust's. Vendors'
# builds, such as 1.12.3-databricks-0002, may write with other code.
UNCUT_WRITERS: Final = re.compile(
    r"parquet-mr version \d+\.\d+\.\d+(?![-.\w])|"
    r"parquet-cpp-arrow version (1[2-9]|[2-9]\d|\d{3})\.|"
    r"parquet-rs version (4[1-9]|[5-9]\d|\d{3})\.|"
    r"datafusion version ([3-9]\d|\d{3})\.|"
    r"delta-rs version (py-)?([1-9]|0\.(1[7-9]|[2-9]\d))"
)
# Parquet's types by number.
PHYSICAL_TYPES: Final = (
    "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY",
)  # fmt: skip
VALUE_SIZES: Final = (1, 4, 8, 12, 4, 8, 0)  # bytes of a value of each type; 0 is any number


class Head:
    """The part of a footer that concerns the whole file.

    Attributes:
        metadata: pyarrow's metadata, possibly without row groups.
        schema: The columns as Arrow and Spark read them.
        orders: The number of columns whose bounds have the order of their type according to the
            footer; 0 if this was not looked up.
    """

    def __init__(self, metadata: pq.FileMetaData, orders: int = 0) -> None:
        self.metadata, self.schema, self.orders = metadata, schema_of(metadata), orders
        self._by_orders = {orders: self}

    def with_orders(self, orders: int) -> Head:
        """Return a head that equals this one except for the orders of the columns."""
        if orders not in self._by_orders:
            other = Head(self.metadata, orders)
            other._by_orders = self._by_orders
            self._by_orders.setdefault(orders, other)
        return self._by_orders[orders]

    def equals(self, other: Head) -> bool:
        """Return True if another head has the same content."""
        return bool(
            self.orders == other.orders
            and self.writer == other.writer
            and self._notes == other._notes
            and self.metadata.schema.equals(other.metadata.schema)
            and self.columns.equals(other.columns, check_metadata=True)
        )

    @cached_property
    def _notes(self) -> dict[bytes, bytes]:
        """The key-value metadata that says how columns are read."""
        given = self.metadata.metadata or {}
        return {key: value for key, value in given.items() if key.startswith(MEANINGFUL)}

    @cached_property
    def twin(self) -> str | None:
        """A name that two columns have; None if each name occurs once."""
        names: list[str] = self.schema.names
        if len(set(names)) == len(names):
            return None
        return next(name for name in names if names.count(name) > 1)

    @cached_property
    def columns(self) -> pa.Schema:
        """The schema without the file's key-value metadata."""
        return self.schema.remove_metadata()

    @cached_property
    def leaf_types(self) -> dict[str, LeafType]:
        """The columns whose pages can be read by themselves."""
        return leaf_types(self.metadata, self.columns)

    @cached_property
    def nested_types(self) -> dict[str, NestedType]:
        """The nested columns whose pages can be read by themselves."""
        from skipstone.bindings.tables.parquet.pages.nested.nested_types import nested_types

        return nested_types(self.metadata, self.columns)

    @cached_property
    def physical(self) -> tuple[tuple[str, int], ...]:
        """Parquet's type and fixed length of each Parquet column."""
        schema = self.metadata.schema
        return tuple((c.physical_type, c.length) for c in map(schema.column, range(len(schema))))

    @cached_property
    def logical(self) -> tuple[str | None, ...]:
        """The logical type of each Parquet column, as JSON; None if it is not known."""
        schema = self.metadata.schema
        each = (schema.column(i).logical_type for i in range(len(schema)))
        return tuple(None if kind is None else kind.to_json() for kind in each)

    @cached_property
    def file_schema(self) -> FileSchema:
        """The schema of the file, without an example."""
        return FileSchema(self.columns, self.physical, "")

    @cached_property
    def levels(self) -> tuple[tuple[int, int], ...]:
        """The greatest repetition and definition level of each Parquet column."""
        schema = self.metadata.schema
        return tuple(
            (c.max_repetition_level, c.max_definition_level)
            for c in map(schema.column, range(len(schema)))
        )

    @cached_property
    def writer(self) -> str | None:
        """The program that wrote the file; None if the footer does not name it."""
        try:
            return self.metadata.created_by or None
        except UnicodeDecodeError:
            return "parquet-mr"  # of unknown version, and thus not trusted

    @property
    def begins_pages_with_rows(self) -> bool:
        """True if no page of lists or maps begins within a row."""
        return UNCUT_WRITERS.match((self.writer or "").lower()) is not None

    @property
    def trusted(self) -> bool:
        """True if pyarrow trusts the bounds of all columns."""
        return self.orders == self.metadata.num_columns and self._has_trusted_writer

    @cached_property
    def _has_trusted_writer(self) -> bool:
        return TRUSTED_WRITERS.match((self.writer or "").lower()) is not None

    @cached_property
    def orders_nan(self) -> bool:
        """True if the writer's bounds follow Java's order, in which NaN comes last.

        This holds for parquet-mr, Spark's writer, from version 1.10 on.
        """
        return re.match(r"parquet-mr version 1\.[1-9]\d\.", self.writer or "") is not None

    @cached_property
    def julian(self) -> bool:
        """True if Spark wrote the file in the Julian calendar."""
        return is_julian(self.metadata.metadata or {})

    @cached_property
    def has_julian_int96(self) -> bool:
        """True if Spark wrote the file's times of type INT96 in the Julian calendar."""
        return is_julian(self.metadata.metadata or {}, int96=True)


def common_head(heads: Sequence[Head]) -> Head:
    """Return the head of similar files; it states the orders of columns only if all of them do."""
    first = heads[0]
    return first if all(head is first for head in heads) else first.with_orders(0)


class Heads:
    """Heads of footers, shared by files that one writer wrote alike."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._compared: list[Head] = []
        self._found: dict[tuple[int, Hashable], tuple[Head, Any]] = {}

    def of_bytes(self, data: bytes, orders: int) -> Head:
        """Return the head in a footer without row groups.

        Raises:
            OSError, ArrowException, ValueError: it cannot be parsed.
        """
        head = _latest.get(data, lambda: Head(parse_footer(data), orders))
        with self._lock:
            return self._shared(head)

    def of_metadata(self, metadata: pq.FileMetaData) -> Head:
        """Return the head of a parsed footer."""
        head = Head(metadata)
        with self._lock:
            return self._shared(head)

    def once(self, head: Head, key: Hashable, find: Callable[[pa.Schema], T]) -> T:
        """Return the result of a function of a head's columns; called once for each head and key.

        A table with 1,000 columns takes milliseconds to match with those of a file.
        """
        found = self._found.get((id(head), key))
        if found is None:  # the head is kept, so that no other one gets its `id`
            found = self._found[id(head), key] = head, find(head.columns)
        return found[1]

    def _shared(self, head: Head) -> Head:
        """Return a known head with the same content, else the head itself."""
        for known in self._compared:
            if known is head or known.equals(head):
                return known
        if len(self._compared) < MAX_COMPARED:
            self._compared.append(head)
        return head


# Heads of the latest footers of this process, by their bytes: tables are often opened again. A head
# takes some 30 KB.
_latest: Final = BoundedCache[bytes, Head](64)


def parse_footer(footer: bytes) -> pq.FileMetaData:
    """Parse a footer with pyarrow.

    Raises:
        OSError, ArrowException: the bytes are not a footer.
    """
    return pq.read_metadata(
        pa.BufferReader(b"".join((MAGIC, footer, struct.pack("<I", len(footer)), MAGIC)))
    )


def schema_of(metadata: pq.FileMetaData) -> pa.Schema:
    """Return the columns of a file, with notes on those that mean more in Spark.

    Columns of type INT96 become TIMESTAMP in microseconds, as in Spark; as nanoseconds, the year
    3000 would overflow to 1830. All times then get the kind that Spark's own schema declares. Arrow
    reads ENUM as BINARY and Spark as STRING; such columns stay BINARY here, and `plain_schema`
    makes them STRING.
    """
    arrow = metadata.schema.to_arrow_schema()
    return with_spark_times(_typed(with_spark_types(arrow), metadata), arrow)


def _typed(schema: pa.Schema, metadata: pq.FileMetaData) -> pa.Schema:
    if not any(_may_differ(f.type) for f in schema):
        return schema
    columns = map(metadata.schema.column, range(metadata.num_columns))
    stored = [(c.physical_type, c.converted_type) for c in columns]
    own = ("INT96", "FIXED_LEN_BYTE_ARRAY")
    differs = any(physical in own or kind == "ENUM" for physical, kind in stored)
    # The positions are certain only if all types take as many Parquet columns as expected.
    if not differs or sum(width_of(f.type) for f in schema) != len(stored):
        return schema
    kinds = iter(stored)
    return pa.schema([_as_in_spark(f, kinds) for f in schema], schema.metadata)


def _may_differ(t: pa.DataType) -> bool:
    if pa.types.is_struct(t):
        return any(_may_differ(f.type) for f in t)
    if pa.types.is_map(t):
        return _may_differ(t.key_type) or _may_differ(t.item_type)
    if pa.types.is_list(t):
        return _may_differ(t.value_type)
    return bool(t in (pa.timestamp("ns"), pa.binary(), pa.null()))


def _as_in_spark(field: pa.Field, stored: Iterator[tuple[str, str]]) -> pa.Field:
    """Return a field with TIMESTAMP in place of INT96, ENUM marked as text, and INTERVAL noted.

    parquet-mr annotates INTERVAL as a type without values, and Arrow believes it.

    Args:
        field: The field as Arrow reads it.
        stored: Yields the physical and the converted type of each Parquet column of the field.
    """
    t = field.type
    if pa.types.is_struct(t):
        return field.with_type(pa.struct([_as_in_spark(f, stored) for f in t]))
    if pa.types.is_list(t):
        parts = [_as_in_spark(t.value_field, stored)]
        changed = field.with_type(pa.list_(*parts))
        return with_lost_type(changed) if noted_paths(parts) else changed
    if pa.types.is_map(t):
        parts = [_as_in_spark(f, stored) for f in (t.key_field, t.item_field)]
        changed = field.with_type(pa.map_(*parts, t.keys_sorted))
        return with_lost_type(changed) if noted_paths(parts) else changed
    kinds = [next(stored) for _ in range(width_of(t))]
    if t == pa.timestamp("ns") and [physical for physical, _ in kinds] == ["INT96"]:
        return field.with_type(pa.timestamp("us", "UTC"))
    if t == pa.null() and [physical for physical, _ in kinds] == ["FIXED_LEN_BYTE_ARRAY"]:
        return with_lost_type(field)
    if t == pa.binary() and kinds == [("BYTE_ARRAY", "ENUM")]:
        return field.with_metadata({**(field.metadata or {}), ENUM: b""})
    return field


def physical_type_of(physical: str, length: int) -> tuple[int, int]:
    """Return Parquet's number of a type, and the bytes of a value; 0 is any number of bytes."""
    number = PHYSICAL_TYPES.index(physical)
    return number, length if physical == "FIXED_LEN_BYTE_ARRAY" else VALUE_SIZES[number]
