"""Polars: lazy frames that make a new plan for the columns, filters and limit of each query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from skipstone.bindings.plans.narrow import first_of, narrowed
from skipstone.bindings.predicates.polars_expr import from_polars
from skipstone.ir.errors import BackendMissing, UnsupportedForm, describe_error
from skipstone.ir.node import Node, quoted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polars import DataFrame, Expr, LazyFrame

    from skipstone.bindings.plans.plan import Plan

# Columns to read; what is understood of a filter, or the number of first rows that suffice.
Read: TypeAlias = "Callable[[list[str], Node | None, int | None], Iterable[pa.RecordBatch]]"


def lazy_frame(schema: pa.Schema, read: Read, timezone: str) -> LazyFrame:
    """Return a lazy frame whose queries call `read`.

    Args:
        schema: The columns.
        read: Returns at least the rows of a query.
        timezone: The zone of the plans that `read` makes.

    Raises:
        BackendMissing: Polars is not installed, or too old.
        UnsupportedForm: Polars does not read a column's type.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as e:
        raise BackendMissing(
            "to_polars needs the package polars, version 1.20 or newer: pip install -U polars"
        ) from e

    def as_frame(rows: pa.RecordBatch | pa.Table) -> Any:
        frame: Any = pl.from_arrow(rows)
        frame.columns = rows.schema.names  # Polars renames a column that has no name
        return frame

    def source(
        columns: list[str] | None,
        predicate: Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[DataFrame]:
        names = list(schema.names) if columns is None else columns
        used = set(names) if predicate is None else {*names, *predicate.meta.root_names()}
        needed = [name for name in schema.names if name in used] or schema.names[:1]
        # If Polars hands over both, the limit comes before the filter: head(5).filter(...).
        is_filter = predicate is not None and n_rows is None
        condition = from_polars(predicate, schema, timezone) if is_filter else None
        remaining = n_rows
        for batch in read(needed, condition, n_rows):
            rows = as_frame(batch if remaining is None else batch.slice(0, remaining))
            remaining = None if remaining is None else remaining - rows.height
            found = rows if predicate is None else rows.filter(predicate)
            # `select` would take the names "*" and "^x$" for patterns, and `found[[]]` has no rows.
            yield found[names] if names else pl.DataFrame(height=found.height)
            if remaining == 0:
                return

    def frame_of(fields: Iterable[pa.Field]) -> LazyFrame:
        # `Schema.empty_table` would import pandas.
        kinds = as_frame(pa.Table.from_batches([], pa.schema(fields)))
        return register_io_source(source, schema=kinds.schema, validate_schema=True)

    try:
        return frame_of(schema)
    except pl.exceptions.PolarsError as e:
        raise unread_types_error("Polars", "to_polars", schema, lambda f: frame_of([f]), e) from e


def unread_types_error(
    engine: str, method: str, schema: pa.Schema, reads: Callable[[pa.Field], object], e: Exception
) -> UnsupportedForm:
    """Return the error that names the columns whose types an engine does not read.

    Args:
        engine: The engine's name.
        method: The plan's method.
        schema: The columns of the rows.
        reads: Raises an error of the class of `e` if the engine does not read a column.
        e: The engine's error for all columns.
    """
    unread = []
    for f in schema:
        try:
            reads(f)
        except type(e):
            unread.append(f"{quoted_name(f.name)} of type {f.type}")
    return UnsupportedForm(
        f"{method}: {engine} does not read {' and '.join(unread[:3]) or 'a plan without columns'} "
        f"({describe_error(e)}); choose other columns (columns=), or read the plan by to_arrow()"
    )


def frame_of_plan(plan: Plan) -> LazyFrame:
    """Return a lazy frame of a plan's matching rows."""

    def read(
        columns: list[str], condition: Node | None, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        if plan.order or plan.cut is not None or plan.deferred is not None:
            yield from (batch.select(columns) for batch in plan.to_batches())
        else:
            found = narrowed(plan, condition, columns)
            yield from (found if limit is None else first_of(found, limit)).to_batches()

    return lazy_frame(plan.schema, read, plan.timezone)
