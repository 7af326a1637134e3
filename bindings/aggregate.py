"""MIN and MAX of the rows of a plan: from bounds that occur, and from as few containers as can hold anything beyond them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.order import SortKey, best_first, first_rows, mask, packed, sooner, sort_keys, value_of
from skipstone.ir.errors import PredicateError
from skipstone.ir.outcome import Verdict
from skipstone.ir.session import Session
from skipstone.ir.types import whole
from skipstone.kernels.pool import threads

if TYPE_CHECKING:
    import numpy.typing as npt

    from skipstone.bindings.plan import Plan


def extreme(plan: Plan, column: str, *, descending: bool) -> Any:
    """The value of a column that comes first among the matching rows of a plan; None: all are NULL, or there is none."""
    if plan.cut is not None:
        raise PredicateError(f"min and max of {plan.cut.limit} rows, whichever they are, are not defined; plan without a limit")
    (found,) = sort_keys([column], plan.table.schema, Session(case_sensitive=False))
    key = SortKey(found.path, descending, nulls_first=False)
    best, left = _known(plan, key)
    left = best_first(plan.statistics, key, left)
    size = 2 * threads()
    while len(left):
        if best is not None:
            left = left[sooner(plan, (key,), best)[left]]
        now, left = left[:size], left[size:]
        values = value_of(plan.only(now, [key.path[0]]).to_arrow(), key.path)
        if best is not None:
            values = pa.chunked_array([*values.chunks, pa.array([best], values.type)])
        first = first_rows(pa.table({"": values}), (SortKey(("",), descending, nulls_first=False),), 1).column("")
        best = first[0] if len(first) and first[0].is_valid else None
        size *= 2
    return None if best is None else best.as_py()


def _known(plan: Plan, key: SortKey) -> tuple[pa.Scalar[Any] | None, npt.NDArray[np.int64]]:
    """The best bound that is a value of a matching row, and the containers that may still hold a better one."""
    stats, chosen = plan.statistics, plan.kept
    column = packed(stats, key.path)
    bound = column.high if key.descending else column.low
    given = stats.raw(key.path).max if key.descending else stats.raw(key.path).min
    if bound is None or given is None:
        return None, chosen
    # An unknown bound is an end of its type.
    usable = (plan.verdicts == Verdict.ALWAYS) & (bound != column.end(high=key.descending)) & plan.table.occurring(key.path)[key.descending]
    usable &= (plan.table.logical_rows() > 0) & np.asarray(pc.is_valid(given))
    if key.descending:  # NaN would be greater
        usable &= ~mask(column.nans, len(usable))
    at = chosen[usable[chosen]]
    if not len(at):
        return None, chosen
    first = int(at[np.argmax(bound[at]) if key.descending else np.argmin(bound[at])])
    return whole(given.slice(first, 1))[0], chosen[~usable[chosen]]
