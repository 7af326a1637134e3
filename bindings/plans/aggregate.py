"""MIN and MAX of a plan's rows, from exact bounds and from as few containers as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.order import (
    SortKey,
    best_first,
    first_rows,
    may_come_before,
    packed,
    python_value,
    value_of,
)
from skipstone.bindings.predicates.expr import col
from skipstone.bindings.statistics.casts import cast_or_null, value_type_at
from skipstone.ir import compute as pc
from skipstone.ir.arrow import booleans_of, plain, whole
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import PredicateError, UnknownColumn
from skipstone.ir.node import Op, Path
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of
from skipstone.kernels.pack.planes import mask_of
from skipstone.kernels.run.pool import threads

if TYPE_CHECKING:
    import numpy.typing as npt

    from skipstone.bindings.plans.plan import Plan


def extreme(plan: Plan, column: str, *, descending: bool) -> Any:
    """Return the first value of a column in an order; None if there is no value except NULL.

    Args:
        plan: The plan.
        column: The column's name.
        descending: Whether the greatest value comes first.

    Raises:
        UnknownColumn: the table lacks the column.
        PredicateError: the plan has a limit, or the column has no order.
        StaleFile: a file was replaced after it was planned.
    """
    if plan.cut is not None:
        raise PredicateError(
            f"the plan has a limit of {plan.cut.limit} rows, and min and max depend on which rows "
            "these are; plan without a limit"
        )
    path = _ordered_column(
        column, plan.table.schema, plan.settings, "max()" if descending else "min()"
    )
    key = SortKey(path, descending, nulls_first=False)
    plan.table.check_unchanged(plan.kept)
    best, unread = _best_exact_bound(plan, key)
    unread = best_first(plan._pruned_by, key, unread)
    size = 2 * threads()
    while len(unread):
        if best is not None:
            unread = unread[may_come_before(plan, (key,), best)[unread]]
        part, unread = unread[:size], unread[size:]
        values = plain(whole(value_of(plan.only(part, [key.path[0]]).to_arrow(), key.path)))
        if best is not None:
            values = pa.concat_arrays([values, pa.repeat(best, 1)])
        first = first_rows(
            pa.table({"": values}), (SortKey(("",), descending, nulls_first=False),), 1
        ).column("")
        best = first[0] if len(first) and first[0].is_valid else None
        size *= 2
    if best is None:
        return None
    value = python_value(best)
    return best if value is None else value


def _ordered_column(column: str, schema: pa.Schema, settings: Session, by: str) -> Path:
    """Return the column that a name means.

    A column of exactly this name is preferred. Otherwise case is ignored, unless the session is
    case-sensitive.
    """
    if not isinstance(column, str) or not column:
        raise PredicateError(f"{by} got {column!r:.60}; expected a column's name")
    leaves = leaves_of(schema)
    for case_sensitive in (True, False):
        try:
            session = Session(case_sensitive=case_sensitive)
            bound = bind_scalar(col(column).node, leaves, session, by)
        except UnknownColumn:
            if not case_sensitive or settings.case_sensitive:
                raise
            continue
        if bound.op is Op.COLUMN and bound.dtype is not None and bound.dtype.ordered:
            return bound.value  # type: ignore[return-value]
        break
    raise PredicateError(
        f"{column} has no minimum and maximum; expected a column whose values have an order"
    )


def _best_exact_bound(
    plan: Plan, key: SortKey
) -> tuple[pa.Scalar[Any] | None, npt.NDArray[np.int64]]:
    """Return the best bound that is a value of a matching row, and the containers still to be read.

    Those are the containers whose bounds do not say what their best value is.
    """
    stats, chosen = plan._pruned_by, plan.kept
    column = packed(stats, key.path)
    bound = column.high if key.descending else column.low
    given = stats.raw(key.path).max if key.descending else stats.raw(key.path).min
    known = column.known(high=key.descending)
    if bound is None or known is None or given is None:
        return None, chosen
    usable = (
        (plan.verdicts == Verdict.ALWAYS) & known & plan.table.occurring(key.path)[key.descending]
    )
    # A container whose counts say that all values are NULL has no value, whatever its bounds.
    usable &= mask_of(column.may_hold_value, len(usable))
    usable &= (plan.table.logical_rows() > 0) & booleans_of(pc.is_valid(given))
    if key.descending:  # NaN would be the maximum, and bounds leave it out
        usable &= ~mask_of(column.may_hold_nan, len(usable))
    at = chosen[usable[chosen]]
    if not len(at):
        return None, chosen
    first = int(at[np.argmax(bound[at]) if key.descending else np.argmin(bound[at])])
    # A file's bounds may have a coarser unit than the table's column.
    value = cast_or_null(given.slice(first, 1), value_type_at(plan.table.schema, key.path))[0]
    return (value, chosen[~usable[chosen]]) if value.is_valid else (None, chosen)
