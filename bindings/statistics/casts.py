"""Cast Arrow values to a column's type, value by value if the whole array cannot be cast."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import type_at
from skipstone.ir.node import Path
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import from_arrow
from skipstone.ir.values import constant, to_array
from skipstone.kernels.pack.bounds import Given


def cast_or_null(values: Given, arrow_type: pa.DataType) -> pa.ChunkedArray:
    """Cast values to another type; a value that cannot be cast becomes null."""
    return pa.chunked_array(
        [part for chunk in chunks_of(values) for part in _cast_parts(chunk, arrow_type)], arrow_type
    )


def _cast_parts(values: pa.Array, arrow_type: pa.DataType) -> Iterator[pa.Array]:
    if values.type == arrow_type:
        yield values
        return
    try:
        yield pc.cast(values, arrow_type)
    except pa.ArrowNotImplementedError:
        yield pa.nulls(len(values), arrow_type)
    except pa.ArrowInvalid:
        if len(values) == 1:
            yield (
                as_spark(values[0].as_py(), arrow_type)
                if pa.types.is_string(values.type)
                else pa.nulls(1, arrow_type)
            )
            return
        step = -(-len(values) // 16)
        for start in range(0, len(values), step):
            yield from _cast_parts(values.slice(start, step), arrow_type)


def as_spark(text: str, arrow_type: pa.DataType) -> pa.Array:
    """Parse one value that Arrow does not read: a far year, or a form that only Spark accepts.

    Returns:
        An array of one value; null if the text is not such a value. A timestamp with a time zone is
        read only if its text ends in UTC's zone, `Z` or `+00:00`.
    """
    if (
        pa.types.is_timestamp(arrow_type)
        and arrow_type.tz is not None
        and not text.endswith(("Z", "+00:00"))
    ):
        return pa.nulls(1, arrow_type)
    from skipstone.ir.coercion.texts import from_text  # at first use: see there

    dtype = from_arrow(arrow_type)
    try:
        return pc.cast(to_array(constant(from_text(text, dtype, Session()), dtype), 1), arrow_type)
    except CannotJudge:
        return pa.nulls(1, arrow_type)


def value_type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    """Return the Arrow type of a column's values; of a dictionary, that of its values."""
    t = type_at(schema, path)
    while pa.types.is_dictionary(t):
        t = t.value_type
    return t


def chunks_of(values: Given) -> list[pa.Array]:
    """Return the chunks of `values`; an array is one chunk."""
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]
