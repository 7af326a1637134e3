"""Convert columns that were read to the table's types, make constant columns, and join batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.pages.page_choice import Window
from skipstone.bindings.tables.table_columns import to_table_type
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, repeated

# Minimum rows for which a batch is judged by itself; smaller ones are joined first.
BATCH_FROM: Final = 1 << 17


def as_type(values: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.ChunkedArray:
    """Return a column as the table has it."""
    if values.type == arrow_type:
        return values
    return pa.chunked_array(
        [to_table_type(chunk, arrow_type) for chunk in values.chunks], arrow_type
    )


def is_same(a: pa.Scalar, b: pa.Scalar) -> bool:
    """Return True if two constants are certainly the same value; Arrow takes 0.0 for -0.0."""
    if a is b:
        return True
    exact = not (pa.types.is_floating(a.type) or pa.types.is_nested(a.type))
    return exact and bool(a.equals(b))


def constant(
    windows: Sequence[Window], name: str, arrow_type: pa.DataType, rows: Ints | None
) -> pa.Array:
    """Return a column that the files of windows lack.

    Args:
        windows: The windows.
        name: The column.
        arrow_type: Its type.
        rows: The rows of the windows to return; None means all.
    """
    values = [w.group.constants[name] for w in windows]
    counts = np.array([w.rows for w in windows])
    if rows is not None:
        counts = np.diff(np.searchsorted(rows, np.cumsum([0, *counts])))
    if not values or all(is_same(v, values[0]) for v in values[1:]):
        value = values[0] if values else pa.nulls(1, arrow_type)[0]
        return repeated(value, int(counts.sum()))
    distinct = pa.concat_arrays([repeated(v, 1) for v in values])
    return pc.take(distinct, arrow_of(np.repeat(np.arange(len(values)), counts)))


def batches_of_rows(
    columns: Mapping[str, pa.Array | pa.ChunkedArray], n: int
) -> list[pa.RecordBatch]:
    """Return n rows in batches, which share memory with the columns if they are large."""
    if not columns:
        return [pa.record_batch({"": pa.nulls(n)})]
    batches = pa.table(dict(columns)).to_batches()
    if len(batches) == 1 or n >= len(batches) * BATCH_FROM:
        return list(batches)
    return [pa.record_batch({name: _one(values) for name, values in columns.items()})]


def _one(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; dictionaries of several row groups become one."""
    if isinstance(values, pa.Array):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    return values.combine_chunks()
