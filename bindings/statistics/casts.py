"""Cast Arrow values to a column's type, one by one where a whole array cannot be cast."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skipstone.ir.literals import from_text
from skipstone.ir.node import Path
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import from_arrow
from skipstone.ir.values import constant, to_array
from skipstone.kernels.pack.bounds import Given


def attempt(values: Given, kind: pa.DataType) -> pa.ChunkedArray:
    """Values as another type; null where one cannot be."""
    return pa.chunked_array(
        [part for chunk in chunks_of(values) for part in _attempt(chunk, kind)], kind
    )


def _attempt(values: pa.Array, kind: pa.DataType) -> Iterator[pa.Array]:
    if values.type == kind:
        yield values
        return
    try:
        yield values.cast(kind)
    except pa.ArrowNotImplementedError:
        yield pa.nulls(len(values), kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            yield (
                as_spark(values[0].as_py(), kind)
                if pa.types.is_string(values.type)
                else pa.nulls(1, kind)
            )
            return
        step = -(-len(values) // 16)
        for start in range(0, len(values), step):
            yield from _attempt(values.slice(start, step), kind)


def as_spark(text: str, kind: pa.DataType) -> pa.Array:
    """One value that Arrow does not read: of a far year, or in a spelling of Spark's; null if it is none. A time with a zone needs UTC's."""
    if pa.types.is_timestamp(kind) and kind.tz is not None and not text.endswith(("Z", "+00:00")):
        return pa.nulls(1, kind)
    dtype = from_arrow(kind)
    try:
        return to_array(constant(from_text(text, dtype, Session()), dtype), 1).cast(kind)
    except Incomparable:
        return pa.nulls(1, kind)


def type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    """The type of a column's values."""
    t = schema.field(path[0]).type
    for name in path[1:]:
        t = t.field(name).type
    while pa.types.is_dictionary(t):
        t = t.value_type
    return t


def chunks_of(values: Given) -> list[pa.Array]:
    """Return the chunks of values; an array is one chunk."""
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]
