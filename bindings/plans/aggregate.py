"""MIN and MAX of the rows of a plan: from bounds that occur, and from as few containers as can hold anything beyond them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.plans.order import (
    SortKey,
    best_first,
    first_rows,
    in_python,
    packed,
    sooner,
    value_of,
)
from skipstone.bindings.plans.table_protocol import LiveFiles
from skipstone.bindings.predicates.expr import col
from skipstone.bindings.statistics.casts import attempt, type_at
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import PredicateError, UnknownColumn
from skipstone.ir.node import Op, Path
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import Session
from skipstone.ir.types import leaves_of, plain, whole
from skipstone.kernels.pack.planes import mask_of
from skipstone.kernels.run.pool import threads

if TYPE_CHECKING:
    import numpy.typing as npt

    from skipstone.bindings.plans.plan import Plan


def extreme(plan: Plan, column: str, *, descending: bool) -> Any:
    """The value of a column that comes first among the matching rows of a plan; None: all are NULL, or there is none."""
    if plan.cut is not None:
        raise PredicateError(
            f"min and max of {plan.cut.limit} rows, whichever they are, are not defined; plan without a limit"
        )
    key = SortKey(_path(column, plan.table.schema, plan.settings), descending, nulls_first=False)
    if isinstance(plan.table, LiveFiles):
        plan.table.check_unchanged(plan.kept)
    best, left = _known(plan, key)
    left = best_first(plan.statistics, key, left)
    size = 2 * threads()
    while len(left):
        if best is not None:
            left = left[sooner(plan, (key,), best)[left]]
        now, left = left[:size], left[size:]
        values = plain(whole(value_of(plan.only(now, [key.path[0]]).to_arrow(), key.path)))
        if best is not None:
            values = pa.concat_arrays([values, pa.repeat(best, 1)])
        first = first_rows(
            pa.table({"": values}), (SortKey(("",), descending, nulls_first=False),), 1
        ).column("")
        best = first[0] if len(first) and first[0].is_valid else None
        size *= 2
    return None if best is None else best if (value := in_python(best)) is None else value


def _path(column: str, schema: pa.Schema, settings: Session) -> Path:
    """The column that a name means: in its own case, or else, unless the session tells cases
    apart, in any.
    """
    leaves = leaves_of(schema)
    for case_sensitive in (True, False):
        try:
            bound = bind_scalar(col(column).node, leaves, Session(case_sensitive=case_sensitive))
        except UnknownColumn:
            if not case_sensitive or settings.case_sensitive:
                raise
            continue
        if bound.op is Op.COLUMN and bound.dtype is not None and bound.dtype.ordered:
            return bound.value  # type: ignore[return-value]
        break
    raise PredicateError(
        f"{column} has no least and greatest value; expected a column whose values have an order"
    )


def _known(plan: Plan, key: SortKey) -> tuple[pa.Scalar[Any] | None, npt.NDArray[np.int64]]:
    """The best bound that is a value of a matching row, and the containers that may still hold a better one."""
    stats, chosen = plan.statistics, plan.kept
    column = packed(stats, key.path)
    bound = column.high if key.descending else column.low
    given = stats.raw(key.path).max if key.descending else stats.raw(key.path).min
    known = column.known(high=key.descending)
    if bound is None or known is None or given is None:
        return None, chosen
    usable = (
        (plan.verdicts == Verdict.ALWAYS) & known & plan.table.occurring(key.path)[key.descending]
    )
    usable &= mask_of(column.real, len(usable))  # counts override bounds
    usable &= (plan.table.logical_rows() > 0) & np.asarray(pc.is_valid(given))
    if key.descending:  # NaN would be greater
        usable &= ~mask_of(column.nans, len(usable))
    at = chosen[usable[chosen]]
    if not len(at):
        return None, chosen
    first = int(at[np.argmax(bound[at]) if key.descending else np.argmin(bound[at])])
    # Bounds may be of a coarser unit than the table's, as a file has them.
    value = attempt(given.slice(first, 1), type_at(plan.table.schema, key.path))[0]
    return (value, chosen[~usable[chosen]]) if value.is_valid else (None, chosen)
