"""Read the first rows of a sorted plan: the k-th best row so far is a dynamic filter.

Reading starts with the containers that may hold the first rows. What cannot come before the k-th
row so far is not read: containers, pages, and the other columns of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.narrow import narrowed
from skipstone.bindings.plans.order import (
    best_first,
    condition_before,
    first_rows,
    may_match,
    value_of,
)
from skipstone.bindings.predicates.expr import Expr, lit
from skipstone.ir.outcome import Verdict
from skipstone.kernels.run import forks
from skipstone.kernels.run.pool import threads

if TYPE_CHECKING:
    import numpy.typing as npt

    from skipstone.bindings.plans.plan import Plan
    from skipstone.kernels.pack.planes import Mask

# The columns to sort by are read first if the other columns are more than they are, and have at
# least this many values for each row that is wanted.
MIN_VALUES_PER_WANTED: Final = 1024


def read_in_order(plan: Plan) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of a plan, sorted."""
    keys, k = plan.order, None if plan.cut is None else plan.cut.limit
    sorted_by = list(dict.fromkeys(key.path[0] for key in keys))
    names = list(dict.fromkeys([*plan.columns, *sorted_by]))
    unread = best_first(plan._pruned_by, keys[0], plan.kept)
    size = len(unread) if k is None else 2 * threads()
    top, source = TopK(plan, k), plan
    others = len(names) - len(sorted_by)
    wider = others > len(sorted_by)
    if k and wider and _values_of(plan, unread[:size], others) >= k * MIN_VALUES_PER_WANTED:
        found = first_rows(plan.only(unread[:size], sorted_by).to_arrow(), keys, k)
        if found.num_rows == k:  # these rows are read again, with the other columns
            last = value_of(found, keys[0].path)[k - 1]
            source, unread = _narrow(plan, condition_before(keys[0], last, ties=True), unread)
    while len(unread) and k != 0:
        part, unread = unread[:size], unread[size:]
        if top.offer(source.only(part, names).to_arrow()) and len(unread):
            source, unread = _narrow(plan, top.improving(), unread)
        size *= 2
    if top.rows is not None:
        yield from top.rows.select(plan.columns).to_batches()


def _values_of(plan: Plan, containers: npt.NDArray[np.int64], columns: int) -> int:
    """Return the number of values that some columns have in containers of known length."""
    rows = plan.table.logical_rows()[containers]
    return int(rows[rows > 0].sum()) * columns


def _narrow(
    plan: Plan, condition: Expr | None, unread: npt.NDArray[np.int64]
) -> tuple[Plan, npt.NDArray[np.int64]]:
    """Return a plan of the rows that meet a condition, and the containers that may hold them."""
    if condition is None:
        return plan, unread
    source = narrowed(plan, condition, plan.columns)
    return source, unread[source.verdicts[unread] != Verdict.NEVER]


class TopK:
    """The first k rows among the rows read so far, for a sorted plan with a limit.

    Safe to share between threads.

    Args:
        plan: The plan.
        k: The number of rows; None keeps all rows, and no container is skipped.

    Source: DataFusion, dynamic filters of top-k; Snowflake, SIGMOD 2025, boundary values.
    """

    def __init__(self, plan: Plan, k: int | None) -> None:
        self._plan, self._k = plan, k
        self._lock = forks.lock()
        self.rows: pa.Table | None = None

    def offer(self, rows: pa.Table) -> bool:
        """Add rows that were read; return True if the k-th row is known and may have changed.

        Args:
            rows: Rows with the columns that the plan sorts by.
        """
        with self._lock:
            self.rows = first_rows(
                rows if self.rows is None else pa.concat_tables([self.rows, rows]),
                self._plan.order,
                self._k,
            )
            return self._k is not None and self.rows.num_rows == self._k

    def may_improve(self) -> Mask:
        """Return which of the plan's containers may hold a row that comes before the k-th so far.

        Returns:
            bool array, shape (containers,).
        """
        condition = self.improving()
        if condition is None:
            return np.ones(len(self._plan.verdicts), np.bool_)
        return may_match(self._plan, condition)

    def improving(self) -> Expr | None:
        """Return the condition of rows that come before the k-th so far; None if any row may."""
        if self._k == 0:
            return lit(False)
        rows, keys = self.rows, self._plan.order
        if rows is None or self._k is None or rows.num_rows < self._k:
            return None
        last = value_of(rows, keys[0].path)[self._k - 1]
        return condition_before(keys[0], last, ties=len(keys) > 1)
