"""Polars: lazy frames that make a new plan for the columns, filters and limit of each query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.polars_expr import from_polars
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.ir.errors import BackendMissing, UnsupportedForm, describe_error
from skipstone.ir.node import Node, Op, conjuncts_of, quoted_name
from skipstone.ir.simplify import TRUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polars import DataFrame, Expr, LazyFrame

    from skipstone.bindings.plans.plan import Plan

# Columns to read, what is understood of a filter, and the number of rows that suffice.
Read: TypeAlias = "Callable[[list[str], Node | None, int | None], Iterable[pa.RecordBatch]]"
# Polars filters the rows anyway, so only comparisons, which cost little, are made before.
NOT_ON_ROWS: Final = frozenset({Op.UNKNOWN, Op.CALL, Op.CAST})


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
        condition = None if predicate is None else from_polars(predicate, schema, timezone)
        used = set(names) if predicate is None else {*names, *predicate.meta.root_names()}
        needed = [name for name in schema.names if name in used] or schema.names[:1]
        remaining = n_rows
        for batch in read(needed, condition, n_rows if predicate is None else None):
            frame = as_frame(batch)
            rows = frame if predicate is None else frame.filter(predicate)
            # `select` would take the names "*" and "^x$" for patterns.
            rows = rows[names].head(rows.height if remaining is None else remaining)
            yield rows
            remaining = None if remaining is None else remaining - rows.height
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
            yield from narrowed(plan, condition, columns, limit).to_batches()

    return lazy_frame(plan.schema, read, plan.timezone)


def narrowed(plan: Plan, condition: Node | None, columns: list[str], limit: int | None) -> Plan:
    """Narrow a plan by a further condition; the result may keep rows that do not match it.

    Args:
        plan: A plan without an order and a limit.
        condition: An unbound condition; parts of it may be UNKNOWN.
        columns: Names of the columns that reading returns.
        limit: The number of rows that are needed; only without a condition.
    """
    verdicts, predicate = plan.verdicts, plan.predicate
    if condition is not None:
        asked = PruningPredicate(
            condition,
            plan.table.schema,
            timezone=plan.timezone,
            ansi=plan.settings.ansi,
            case_sensitive=True,
        )
        verdicts = np.minimum(verdicts, asked.evaluate(plan.statistics))
        predicate = _filter_of_rows(
            asked, () if predicate is None else conjuncts_of(predicate.node)
        )
    limit = limit if plan.dynamic is None else None
    return plan._judged(predicate, verdicts, columns, plan.dynamic, limit)


def without_unjudged(plan: Plan) -> Plan:
    """Return a plan that may keep more rows, without the conjuncts that cannot filter rows."""
    if plan.predicate is None:
        return plan
    return plan._judged(_filter_of_rows(plan.predicate), plan.verdicts, plan.columns)


def _filter_of_rows(asked: PruningPredicate, own: tuple[Node, ...] = ()) -> PruningPredicate:
    """Join `own` and the conjuncts of a condition that can filter rows into one predicate."""
    plain = [c for c in conjuncts_of(asked.node) if NOT_ON_ROWS.isdisjoint(n.op for n in c.walk())]
    parts = tuple(dict.fromkeys([*own, *plain])) or (TRUE,)
    return asked.part(Node(Op.AND, parts) if len(parts) > 1 else parts[0])
