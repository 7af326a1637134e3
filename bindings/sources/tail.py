"""The end of a Parquet file: fetched once, and read as far as somebody asks.

What a footer says of the whole file is its *head*: columns, writer, notes. Files of one writer often say the same to the byte,
and then share it. What it says of row groups is laid out by a compiled loop where that is there (kernels/footer_layout.py);
pyarrow makes its own of all of it where that is not, and for whoever reads the file.
"""

from __future__ import annotations

import re
import struct
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.sources.calendar import is_julian
from skipstone.bindings.sources.files import Ints
from skipstone.kernels.footer_layout import Layout, is_there, layout_of
from skipstone.kernels.spans import Bytes

FETCHED: Final = 1 << 16  # bytes from a file's end that are asked for at first
MAGIC: Final = b"PAR1"
LONGEST: Final = 1 << 26  # bytes of a footer, from which on it is left to pyarrow
REFUSED: Final = (OSError, pa.ArrowException, ValueError)  # how pyarrow refuses a footer
# Writers whose bounds pyarrow trusts in all orders (`ApplicationVersion::HasCorrectStatistics` of Arrow, PARQUET-251): these
# versions, and all that have another name.
TRUSTED: Final = re.compile(
    r"parquet-cpp-arrow version |parquet-cpp version 1\.([3-9]|\d\d)\.\d|parquet-mr version 1\.\d\d\.\d|(?!.*parquet-(mr|cpp))", re.DOTALL
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
    def physical(self) -> tuple[tuple[str, int], ...]:
        """Parquet's type and fixed length of each Parquet column."""
        found = self.metadata.schema
        return tuple((c.physical_type, c.length) for c in map(found.column, range(len(found))))

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
        return np.array([self.metadata.row_group(g).num_rows for g in range(self.metadata.num_row_groups)], np.int64)

    @cached_property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group."""
        if self.layout is not None:
            return self.layout.nbytes
        groups = map(self.metadata.row_group, range(self.metadata.num_row_groups))
        return np.array([sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for g in groups], np.int64)


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
    footer = end[-8 - length : -8] if length + 8 <= len(end) else source.read_at(length, size - 8 - length)
    return Tail(footer, heads), max(len(end), length + 8)


def parsed(footer: bytes) -> pq.FileMetaData:
    """A footer as pyarrow has it.

    Raises:
        OSError, ArrowException: it is none.
    """
    return pq.read_metadata(pa.BufferReader(b"".join((MAGIC, footer, struct.pack("<I", len(footer)), MAGIC))))


def schema_of(metadata: pq.FileMetaData) -> pa.Schema:
    """The columns of a file. Those of type INT96 are TIMESTAMP, as Spark has it, in microseconds: as nanoseconds the year 3000 would be 1830."""
    schema = metadata.schema.to_arrow_schema()
    if not any(_has_nanoseconds(f.type) for f in schema):
        return schema
    columns = (metadata.schema.column(i) for i in range(metadata.num_columns))
    old = {c.path for c in columns if c.physical_type == "INT96"}
    return pa.schema([_modern(f, f.name, old) for f in schema], schema.metadata) if old else schema


def _has_nanoseconds(t: pa.DataType) -> bool:
    return any(_has_nanoseconds(f.type) for f in t) if pa.types.is_struct(t) else bool(t == pa.timestamp("ns"))


def _modern(f: pa.Field, path: str, old: set[str]) -> pa.Field:
    if pa.types.is_struct(f.type):
        return f.with_type(pa.struct([_modern(inner, f"{path}.{inner.name}", old) for inner in f.type]))
    return f.with_type(pa.timestamp("us", "UTC")) if path in old else f
