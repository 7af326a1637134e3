"""The end of a Parquet file: fetched once, and read as far as somebody asks.

What a footer says of the whole file is its *head*: columns, writer, notes. Files of one writer often say the same to the byte,
and then share it. What it says of row groups is laid out by a compiled loop where that is there (kernels/decode/footer_layout.py);
where that is not, pyarrow is asked, of what Python has looked at first (bindings/tables/parquet/thrift.py).
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.files import UNKNOWN, Ints
from skipstone.bindings.tables.parquet import thrift
from skipstone.bindings.tables.parquet.calendar import is_julian
from skipstone.bindings.tables.parquet.declared_types import declared
from skipstone.bindings.tables.parquet.thrift import Said, ThriftError, column_chunks
from skipstone.ir.cached import cached_property
from skipstone.kernels.decode.footer_layout import Layout, is_there, layout_of
from skipstone.kernels.decode.footer_loops import DEFINED, LARGEST, REPEATED, TOLD, UNENCODED
from skipstone.kernels.decode.spans import Bytes

FETCHED: Final = 1 << 16  # bytes from a file's end that are asked for at first
MAGIC: Final = b"PAR1"
LONGEST: Final = 1 << 26  # bytes of a footer, from which on it is left to pyarrow
REFUSED: Final = (OSError, pa.ArrowException, ValueError)  # how pyarrow refuses a footer
PHYSICAL: Final = (
    "BOOLEAN",
    "INT32",
    "INT64",
    "INT96",
    "FLOAT",
    "DOUBLE",
    "BYTE_ARRAY",
    "FIXED_LEN_BYTE_ARRAY",
)  # by Parquet's number
SIZES: Final = (1, 4, 8, 12, 4, 8, 0)  # of a value; 0: any
# Writers whose bounds pyarrow trusts in all orders (`ApplicationVersion::HasCorrectStatistics` of Arrow, PARQUET-251): these
# versions, and all that have another name.
TRUSTED: Final = re.compile(
    r"parquet-cpp-arrow version |parquet-cpp version 1\.([3-9]|\d\d)\.\d|parquet-mr version 1\.\d\d\.\d|(?!.*parquet-(mr|cpp))",
    re.DOTALL,
)


class Head:
    """What a footer says of the whole file.

    Attributes:
        metadata: pyarrow's, perhaps without row groups.
        schema: The columns, as Arrow and Spark read them.
        orders: Of how many columns it says that bounds have the order of their type; 0 where nobody has looked.
    """

    def __init__(self, metadata: pq.FileMetaData, orders: int = 0) -> None:
        self.metadata, self.schema, self.orders = metadata, schema_of(metadata), orders

    @cached_property
    def columns(self) -> pa.Schema:
        """The schema without what the file says of itself."""
        return self.schema.remove_metadata()

    @cached_property
    def physical(self) -> tuple[tuple[str, int], ...]:
        """Parquet's type and fixed length of each Parquet column."""
        found = self.metadata.schema
        return tuple((c.physical_type, c.length) for c in map(found.column, range(len(found))))

    @cached_property
    def levels(self) -> tuple[tuple[int, int], ...]:
        """The greatest repetition and definition level of each Parquet column."""
        found = self.metadata.schema
        return tuple(
            (c.max_repetition_level, c.max_definition_level)
            for c in map(found.column, range(len(found)))
        )

    @cached_property
    def writer(self) -> str | None:
        """Who wrote the file; None: it is no text, or not said."""
        try:
            return self.metadata.created_by or None
        except UnicodeDecodeError:
            return "parquet-mr"  # of any version

    @property
    def trusted(self) -> bool:
        """Whether pyarrow trusts the bounds of all columns."""
        return self.orders == self.metadata.num_columns and self._modern

    @cached_property
    def _modern(self) -> bool:
        return TRUSTED.match((self.writer or "").lower()) is not None

    @cached_property
    def orders_nan(self) -> bool:
        """Whether the writer's minimum and maximum follow Java's order, in which NaN is last: parquet-mr, Spark's, from 1.10 on."""
        return re.match(r"parquet-mr version 1\.[1-9]\d\.", self.writer or "") is not None

    @cached_property
    def julian(self) -> bool:
        """Whether Spark wrote the file in the Julian calendar."""
        return is_julian(self.metadata.metadata or {})


class Tail:
    """A footer.

    Attributes:
        data: Its bytes.
        layout: Where it says what of its row groups; None: nobody has looked, or it is not known.
        head: What it says of the file.
    """

    def __init__(self, data: bytes, heads: dict[bytes, Head] | None = None) -> None:
        self.data: Bytes = np.frombuffer(data, np.uint8)
        self.layout: Layout | None = None
        if is_there():
            self._look({} if heads is None else heads)
        if self.layout is None:
            self.head = Head(self.metadata)

    def _look(self, heads: dict[bytes, Head]) -> None:
        layout = layout_of(self.data) if len(self.data) <= LONGEST else None
        if layout is None:
            return
        if layout.rest not in heads:
            try:
                heads[layout.rest] = Head(parsed(layout.rest), layout.orders)
            except REFUSED:  # whatever it is, pyarrow says it of the whole
                return
        self.head = heads[layout.rest]
        self.layout = layout if layout.fits(self.head.metadata.num_columns) else None

    def lay_out(self) -> None:
        """Look where it says what, if pyarrow was asked because nobody could look then."""
        layout = layout_of(self.data) if self.layout is None and len(self.data) <= LONGEST else None
        if layout is not None and layout.fits(self.head.metadata.num_columns):
            self.layout, self.head.orders = layout, layout.orders

    def __reduce__(self) -> tuple[type[Tail], tuple[bytes]]:
        return Tail, (self.data.tobytes(),)

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """All of it, as pyarrow has it."""
        return parsed(self.data.tobytes())

    @cached_property
    def rows(self) -> Ints:
        """Rows of each row group."""
        if self.layout is not None:
            return self.layout.rows
        return np.array(
            [self.metadata.row_group(g).num_rows for g in range(self.metadata.num_row_groups)],
            np.int64,
        )

    @cached_property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group."""
        if self.layout is not None:
            return self.layout.nbytes
        sizes: list[list[Any]] = [
            [chunk.get(thrift.BYTES) for chunk in group] for group in self.chunks
        ]
        if len(sizes) != self.metadata.num_row_groups:
            return np.full(self.metadata.num_row_groups, UNKNOWN)
        return np.array(
            [
                sum(g) if all(type(n) is int and 0 <= n <= LARGEST for n in g) else UNKNOWN
                for g in sizes
            ],
            np.int64,
        )

    @cached_property
    def chunks(self) -> list[list[Said]]:
        """What it says of column chunks, of each row group, as it says it; nothing where that is not certain."""
        try:
            return column_chunks(self.data.tobytes())
        except ThriftError:
            return []

    def chunk(self, group: int, column: int) -> Said:
        """What it says of one of them."""
        found = self.chunks
        return found[group][column] if group < len(found) and column < len(found[group]) else {}

    def may_ask(self, group: int, column: int) -> bool:
        """Return True if pyarrow can be asked about a column chunk that the loop did not settle.

        Of footers that the loop has read, nobody asks about a chunk of another type, or with a
        bound of another size: here it is only compared how many counts of levels there are.
        """
        if self.layout is None:
            return self.is_sound(group, column)
        told, levels = self.layout.chunks[group, column], self.head.levels[column]
        if told[TOLD] >> UNENCODED & 1 and self.head.physical[column][0] != "BYTE_ARRAY":
            return False
        return all(
            told[slot] in (0, most + 1)
            for slot, most in zip((REPEATED, DEFINED), levels, strict=True)
        )

    def is_sound(self, group: int, column: int) -> bool:
        """Return True if pyarrow (26.0) can be asked about a column chunk.

        Some that are damaged end the process: those of another type than the schema's, with a
        bound of fewer bytes than a value has, or with more or fewer counts of levels than there are.
        """
        said = self.chunk(group, column)
        if column >= len(self.head.physical):
            return False
        number, size = stored_as(*self.head.physical[column])
        stats, sizes = said.get(thrift.STATISTICS, {}), said.get(thrift.SIZES, {})
        if (
            said.get(thrift.TYPE) != number
            or not isinstance(stats, dict)
            or (thrift.UNENCODED in sizes and PHYSICAL[number] != "BYTE_ARRAY")
        ):
            return False
        bounds = [
            stats[f] for f in (thrift.OLD_MIN, thrift.OLD_MAX, thrift.MIN, thrift.MAX) if f in stats
        ]
        counts = zip(
            (sizes.get(f, ()) for f in (thrift.REPEATED, thrift.DEFINED)),
            self.head.levels[column],
            strict=True,
        )
        return all(isinstance(b, bytes) and (not size or len(b) == size) for b in bounds) and all(
            not c or len(c) == most + 1 for c, most in counts
        )


def stored_as(physical: str, length: int) -> tuple[int, int]:
    """Parquet's number of a type, and how many bytes a value has; 0: any number."""
    number = PHYSICAL.index(physical)
    return number, length if physical == "FIXED_LEN_BYTE_ARRAY" else SIZES[number]


def read_tail(source: pa.NativeFile, heads: dict[bytes, Head] | None = None) -> tuple[Tail, int]:
    """A file's footer, and how many bytes were asked for.

    Args:
        source: The file.
        heads: Those of other files, to be shared.

    Raises:
        OSError, ArrowException, ValueError: it cannot be read, or is none.
    """
    size = source.size()
    end = source.read_at(min(size, FETCHED), max(size - FETCHED, 0))
    length = int.from_bytes(end[-8:-4], "little")
    if end[-4:] != MAGIC or not 0 < length <= size - 8:
        pq.read_metadata(source)  # says what is wrong
        raise ValueError("it does not end as a Parquet file")
    footer = (
        end[-8 - length : -8]
        if length + 8 <= len(end)
        else source.read_at(length, size - 8 - length)
    )
    return Tail(footer, heads), max(len(end), length + 8)


def parsed(footer: bytes) -> pq.FileMetaData:
    """A footer as pyarrow has it.

    Raises:
        OSError, ArrowException: it is none.
    """
    return pq.read_metadata(
        pa.BufferReader(b"".join((MAGIC, footer, struct.pack("<I", len(footer)), MAGIC)))
    )


def schema_of(metadata: pq.FileMetaData) -> pa.Schema:
    """The columns of a file, with notes on those that are more to Spark.

    Those of type INT96 are TIMESTAMP, as Spark has it, in microseconds: as nanoseconds the year 3000 would be 1830.
    """
    schema = declared(metadata.schema.to_arrow_schema())
    if not any(_has_nanoseconds(f.type) for f in schema):
        return schema
    columns = (metadata.schema.column(i) for i in range(metadata.num_columns))
    old = {c.path for c in columns if c.physical_type == "INT96"}
    return pa.schema([_modern(f, f.name, old) for f in schema], schema.metadata) if old else schema


def _has_nanoseconds(t: pa.DataType) -> bool:
    return (
        any(_has_nanoseconds(f.type) for f in t)
        if pa.types.is_struct(t)
        else bool(t == pa.timestamp("ns"))
    )


def _modern(f: pa.Field, path: str, old: set[str]) -> pa.Field:
    if pa.types.is_struct(f.type):
        return f.with_type(
            pa.struct([_modern(inner, f"{path}.{inner.name}", old) for inner in f.type])
        )
    return f.with_type(pa.timestamp("us", "UTC")) if path in old else f
