"""ORDER BY ... LIMIT: find the containers that cannot hold one of the first rows, and sort rows.

Rows come in Spark's order: NaN is above every number, NULL is first or last. The bounds of fully
matched containers give a value that enough rows come before. Containers beyond it are not read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.expr import Expr, col, lit
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.ir import compute as pc
from skipstone.ir.arrow import fill, plain, whole
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import PredicateError
from skipstone.ir.node import Op, Path, show_path, sql_path
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.planes import mask_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.plans.table_protocol import PlannedTable
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.ir.session import Session
    from skipstone.kernels.pack.bounds import BoundArray
    from skipstone.kernels.pack.columns import Column
    from skipstone.kernels.pack.planes import Mask

    Positions = npt.NDArray[np.int64]

# If there are at least this many rows for each requested one, it pays to drop most before sorting.
MIN_ROWS_PER_WANTED: Final = 16


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column to sort by.

    Attributes:
        path: The column.
        descending: Whether the greatest value comes first.
        nulls_first: Whether NULL comes first.
    """

    path: Path
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"{sql_path(self.path)} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


def sort_keys(
    order_by: str | Sequence[str], schema: pa.Schema, session: Session
) -> tuple[SortKey, ...]:
    """Parse an ORDER BY clause.

    Args:
        order_by: Spark SQL, or a list of it: columns, each with optional ASC or DESC, and NULLS
            FIRST or NULLS LAST. The default is ascending. NULL comes first in ascending order, last
            in descending order.
        schema: The table's columns.
        session: Spark's settings.

    Raises:
        PredicateError: the text is malformed, or a name is not a column whose values have an order.
    """
    from skipstone.bindings.predicates.sql import parse_order

    leaves = leaves_of(schema)
    keys = []
    texts = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise PredicateError(
            f"order_by is {order_by!r}; expected Spark SQL such as 'x DESC, y', or a list of it"
        )
    for text in texts:
        for node, descending, nulls_first in parse_order(text):
            bound = bind_scalar(node, leaves, session, "order_by")
            if bound.op is not Op.COLUMN or bound.dtype is None or not bound.dtype.ordered:
                raise PredicateError(
                    f"order_by has {text!r}; expected columns of the table whose values have an "
                    "order, such as 'x DESC NULLS LAST'"
                )
            keys.append(SortKey(bound.value, descending, nulls_first))  # type: ignore[arg-type]
    if not keys:
        raise PredicateError("order_by names no column; expected one, such as 'x DESC', or None")
    return tuple(keys)


def first_rows(rows: pa.Table, keys: Sequence[SortKey], k: int | None) -> pa.Table:
    """Sort rows and return the first k; None returns all."""
    if k is not None and rows.num_rows >= MIN_ROWS_PER_WANTED * max(k, 1):
        rows = _contenders(rows, keys[0], k)
    by: dict[str, pa.Array] = {}
    order: list[tuple[str, str]] = []
    for i, key in enumerate(keys):
        values = _sortable(rows, key.path)
        direction = "descending" if key.descending else "ascending"
        by[f"{i} null"], by[f"{i}"] = pc.is_null(values), values
        order.append((f"{i} null", "descending" if key.nulls_first else "ascending"))
        if pa.types.is_floating(values.type):  # Arrow puts NaN last in both directions
            by[f"{i} nan"] = fill(pc.is_nan(values), False)
            order.append((f"{i} nan", direction))
        order.append((f"{i}", direction))
    return pc.take(rows, pc.sort_indices(pa.table(by), sort_keys=order)[:k])


def _contenders(rows: pa.Table, key: SortKey, k: int) -> pa.Table:
    """Drop rows that certainly come after k others by the first key; keep the others' order."""
    values = _sortable(rows, key.path)
    if k == 0 or values.null_count > len(values) - k:
        return rows
    direction = "descending" if key.descending else "ascending"
    best = pc.take(values, pc.select_k_unstable(values, k=k, sort_keys=[("", direction)]))
    last = (pc.min if key.descending else pc.max)(best)  # Arrow puts NaN last, and ignores it here
    if best.null_count or not last.is_valid:
        return rows
    floating = pa.types.is_floating(values.type)
    if floating and pc.any(pc.is_nan(best)).as_py():
        return rows
    contend = (pc.greater_equal if key.descending else pc.less_equal)(values, last)
    if floating and key.descending:
        contend = pc.or_kleene(contend, pc.is_nan(values))
    if key.nulls_first:
        contend = pc.or_kleene(contend, pc.is_null(values))
    return pc.filter(rows, contend)  # without those of NULL


def _sortable(rows: pa.Table, path: Path) -> pa.Array:
    """Return the values of a column, or of a struct's field, in a type that Arrow sorts.

    Arrow sorts decimals of 32 and 64 bits by their bytes, or refuses them (pyarrow 26).
    """
    values = plain(whole(value_of(rows, path)))
    t = values.type
    is_short = pa.types.is_decimal(t) and t.bit_width < 128
    return pc.cast(values, pa.decimal128(t.precision, t.scale)) if is_short else values


def value_of(rows: pa.Table, path: Path) -> pa.ChunkedArray:
    """Return the values of a column, or of a struct's field."""
    values = rows.column(path[0])
    return values if len(path) == 1 else pc.struct_field(values, list(path[1:]))


@dataclass(frozen=True, slots=True)
class LimitCutoff:
    """The containers that a limit needs, known from bounds alone.

    Attributes:
        rows: Rows of fully matched containers that come before, or tie with, every row of the other
            containers.
        candidates: bool, shape (containers,): the containers that hold these rows, and those whose
            rows may come before them.
    """

    rows: int
    candidates: Mask


def limit_cutoff(
    table: PlannedTable,
    statistics: Statistics,
    verdicts: npt.NDArray[np.uint8],
    keys: Sequence[SortKey],
    limit: int,
) -> LimitCutoff | None:
    """Return the containers that a limit needs, known from bounds alone.

    Returns:
        None if no bound is known to have enough matching rows before it.
    """
    key, n = keys[0], len(verdicts)
    column = packed(statistics, key.path)
    bound = column.low if key.descending else column.high
    if not limit:
        return LimitCutoff(0, np.zeros(n, np.bool_))
    known = column.known(high=not key.descending)
    if bound is None or known is None:
        return None
    counts = table.logical_rows()
    if not key.nulls_first:  # NULL comes after every bound
        nulls = mask_of(column.may_hold_null, n)
        null_count = np.where(nulls, table.null_counts(key.path), 0)
        counts = np.where(null_count >= 0, counts - null_count, 0)
    usable = (verdicts == Verdict.ALWAYS) & (counts > 0) & known
    if not key.descending:
        usable &= ~mask_of(column.may_hold_nan, n)  # NaN comes after every bound
    best = _first_containers(bound, np.flatnonzero(usable), key, limit)
    rows = np.cumsum(counts[best])
    enough = int(np.searchsorted(rows, limit))
    if enough >= len(best):
        return None
    # With a single key, the rows that were found are as good as others of the same value.
    threshold, with_ties = bound[best[enough]], len(keys) > 1
    candidates = _not_after(column, key, threshold, n, with_ties=with_ties)
    candidates[best[: enough + 1]] = True
    return LimitCutoff(int(rows[enough]), candidates)


def _first_containers(bound: BoundArray, at: Positions, key: SortKey, limit: int) -> Positions:
    """Return the first containers by their bounds, in order, as many as may be needed.

    Args:
        bound: The bounds of all containers that come after all of their values.
        at: The containers to choose from, each of which has a row.
        key: The column to sort by.
        limit: The number of rows to find.
    """
    if limit < len(at):
        order = np.argpartition(bound[at], len(at) - limit if key.descending else limit - 1)
        at = at[order[-limit:] if key.descending else order[:limit]]
    best = at[np.argsort(bound[at], kind="stable")]
    return best[::-1] if key.descending else best


def _not_after(column: Column, key: SortKey, threshold: Any, n: int, *, with_ties: bool) -> Mask:
    """Return the mask of containers that may hold a value before a threshold, or equal to it."""
    before = mask_of(column.may_hold_value, n)
    if key.descending and column.high is not None:
        before = before & (column.high >= threshold if with_ties else column.high > threshold)
    elif not key.descending and column.low is not None:
        before = before & (column.low <= threshold if with_ties else column.low < threshold)
    return before | _before_bounds(column, key, n)


def _before_bounds(column: Column, key: SortKey, n: int) -> Mask:
    """Return the mask of containers that may hold NULL or NaN, if these come before all numbers."""
    before = mask_of(column.may_hold_null, n) if key.nulls_first else np.zeros(n, np.bool_)
    return before | mask_of(column.may_hold_nan, n) if key.descending else before


def packed(statistics: Statistics, path: Path) -> Column:
    """Return a column's packed statistics in the column's own type."""
    leaf = statistics.leaf(path)
    assert leaf is not None
    return statistics.column(path, leaf.dtype)


def best_first(statistics: Statistics, key: SortKey, chosen: Positions) -> Positions:
    """Sort containers by where the first rows may be.

    Containers that may hold NULL or NaN come first, if these sort before all numbers.
    """
    column = packed(statistics, key.path)
    bound = column.high if key.descending else column.low
    first = _before_bounds(column, key, statistics.num_containers)
    rest = chosen[~first[chosen]]
    if bound is not None:
        order = np.argsort(bound[rest], kind="stable")
        rest = rest[order[::-1] if key.descending else order]
    return np.concatenate([chosen[first[chosen]], rest])


def may_come_before(plan: Plan, keys: Sequence[SortKey], last: pa.Scalar[Any]) -> Mask:
    """Return which containers may hold a row that comes before the last of enough rows.

    With several keys, containers that may hold a row of the same first value count, too.

    Args:
        plan: The plan.
        keys: The columns to sort by.
        last: The first key's value in the last row.
    """
    condition = condition_before(keys[0], last, ties=len(keys) > 1)
    if condition is None:
        return np.ones(len(plan.verdicts), np.bool_)
    return may_match(plan, condition)


def condition_before(key: SortKey, last: pa.Scalar[Any], *, ties: bool) -> Expr | None:
    """Return the condition that a row must meet to come before another; None if any row may.

    Args:
        key: The column to sort by.
        last: The value of the column in the other row.
        ties: True if rows of the same value may come before it, too.
    """
    column = col(show_path(key.path))
    if not last.is_valid:
        if not key.nulls_first:
            return None
        return column.is_null() if ties else lit(False)
    value = python_value(last)
    if value is None:
        return None
    condition: Expr
    if key.descending:
        condition = column >= value if ties else column > value
    else:
        condition = column <= value if ties else column < value
    return (condition | column.is_null()) if key.nulls_first else condition


def python_value(value: pa.Scalar[Any]) -> Any:
    """Return a scalar as a Python value; None if Python has no such value.

    Python lacks days beyond the year 9999, and nanoseconds of a time of day, which Arrow drops. For
    the nanosecond that pandas uses as NULL, Arrow returns a value that is not equal to itself.
    """
    try:
        found = value.as_py()
    except (ValueError, OverflowError):
        return None
    if isinstance(found, dt.time) and pa.scalar(found, value.type) != value:
        return None
    return None if found != found and not isinstance(found, float) else found


def may_match(plan: Plan, condition: Expr) -> Mask:
    """Return which of a plan's containers may hold a row that matches a condition."""
    return PruningPredicate(
        condition,
        plan.table.schema,
        case_sensitive=True,
        timezone=plan.timezone,
        ansi=plan.settings.ansi,
    ).prune(plan._pruned_by)
