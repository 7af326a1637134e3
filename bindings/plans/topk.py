"""The k-th best row so far as a dynamic filter.

While sorted rows are read, containers that cannot hold a better row are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.order import first_rows, may_come_before, value_of
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan
    from skipstone.kernels.pack.planes import Mask


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
        rows = self.rows
        if self._k == 0:
            return np.zeros(len(self._plan.verdicts), np.bool_)
        if rows is None or self._k is None or rows.num_rows < self._k:
            return np.ones(len(self._plan.verdicts), np.bool_)
        return may_come_before(
            self._plan, self._plan.order, value_of(rows, self._plan.order[0].path)[self._k - 1]
        )
