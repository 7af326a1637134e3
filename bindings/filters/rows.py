"""Convert rows from Arrow, pandas and Polars to Arrow tables of the requested columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.errors import AmbiguousColumn, DynamicFilterError, clip, unknown_column
from skipstone.ir.types import DType, from_arrow


def batches_of(rows: Any, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield rows as Arrow tables of some columns, in the requested order.

    Args:
        rows: An Arrow RecordBatch, Table or reader, a DataFrame of pandas or Polars, or anything
            with `__arrow_c_stream__`.
        names: The columns.

    Raises:
        UnknownColumn: no column has a name.
        AmbiguousColumn: several columns have it.
        DynamicFilterError: `rows` has another type.
    """
    if isinstance(rows, pa.RecordBatchReader):
        for batch in rows:
            yield select_columns(pa.Table.from_batches([batch]), names)
    else:
        yield select_columns(table_of(rows), names)


def table_of(rows: Any) -> pa.Table:
    """Return rows as an Arrow table, with views as large strings and binaries, and runs decoded.

    Arrow lacks operations on views and on run-end-encoded columns.

    Raises:
        DynamicFilterError: `rows` has no supported type: it is a path, or a streaming DataFrame.
    """
    table = _table_of(rows)
    for i, f in enumerate(table.schema):
        if pa.types.is_run_end_encoded(f.type):
            chunks = map(pc.run_end_decode, table.column(i).chunks)
            decoded = pa.chunked_array(chunks, f.type.value_type)
            table = table.set_column(i, f.with_type(decoded.type), decoded)
            continue
        if pa.types.is_string_view(f.type):
            kind = pa.large_string()
        elif pa.types.is_binary_view(f.type):
            kind = pa.large_binary()
        else:
            kind = None
        if kind is not None:
            table = table.set_column(i, f.with_type(kind), table.column(i).cast(kind))
    return table


def _table_of(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if type(rows).__module__.split(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    if hasattr(rows, "collect") and type(rows).__name__ == "LazyFrame":
        rows = rows.collect()
    if getattr(rows, "isStreaming", False) is True:
        raise DynamicFilterError(
            "rows are a streaming DataFrame, whose keys are never complete; expected a DataFrame "
            "that ends: collect batch by batch"
        )
    if hasattr(rows, "to_arrow"):  # Polars; its strings are views or large strings
        return rows.to_arrow()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, dict):
        for name, values in rows.items():
            if isinstance(values, str | bytes):  # Arrow would make a row of each character
                raise DynamicFilterError(
                    f"column {name!r} of a dict is {values!r:.60}; expected a list of values: "
                    "pyarrow.Table.from_pylist takes a list of rows"
                )
        return pa.table(rows)
    if isinstance(rows, str | bytes | os.PathLike):
        raise DynamicFilterError(
            f"rows are a path, {clip(os.fsdecode(rows))!r}; expected a table: "
            "skipstone.scan(path) opens one"
        )
    raise DynamicFilterError(
        f"rows are of the type {type(rows).__name__}; expected an Arrow RecordBatch "
        "or Table, or a DataFrame of pandas or Polars"
    )


def select_columns(
    table: pa.Table, names: Sequence[str], by: str = "a key", whose: str = "these rows have"
) -> pa.Table:
    """Return columns by name; an exact name is preferred, otherwise case is ignored.

    Args:
        table: The rows.
        names: The names.
        by, whose: As in `unknown_column`.

    Raises:
        UnknownColumn: no column has a name.
        AmbiguousColumn: several columns have it.
    """
    columns, fields = [], []
    for name in names:
        at = [i for i, n in enumerate(table.column_names) if n == name] or [
            i for i, n in enumerate(table.column_names) if n.lower() == name.lower()
        ]
        if not at:
            raise unknown_column(name, table.column_names, by, whose)
        if len(at) > 1:
            raise AmbiguousColumn(
                f"{name!r} fits {len(at)} columns: {', '.join(table.column_names[i] for i in at)}; "
                "rename all but one of them"
            )
        columns.append(table.column(at[0]))
        fields.append(table.schema.field(at[0]).with_name(name))
    return pa.table(columns, schema=pa.schema(fields)) if names else table.select([])


def special_type(field: pa.Field) -> DType | None:
    """Return the type of a field whose values are not compared as they are stored, else None.

    Collated text is an example.
    """
    dtype = from_arrow(field.type, field.metadata)
    return None if dtype == from_arrow(field.type) else dtype
