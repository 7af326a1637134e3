"""The k-th best row so far as a dynamic filter: while sorted rows are read, what cannot come before it is not read any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skipstone.bindings.plans.order import first_rows, sooner, value_of
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.filters.keys import Mask
    from skipstone.bindings.plans.plan import Plan


class TopK:
    """The first k rows of what was read so far of a plan that is sorted and has a limit.

    Safe to share between threads.

    Args:
        plan: The plan.
        k: How many rows are wanted; None: all, and then nothing is left out.

    Source: DataFusion, dynamic filters of top-k; Snowflake, SIGMOD 2025, boundary values.
    """

    def __init__(self, plan: Plan, k: int | None) -> None:
        self._plan, self._k = plan, k
        self._lock = forks.lock()
        self.rows: pa.Table | None = None

    def offer(self, rows: pa.Table) -> bool:
        """Take rows that were read, with the columns that they are sorted by; whether the k-th is known and may have changed."""
        with self._lock:
            self.rows = first_rows(
                rows if self.rows is None else pa.concat_tables([self.rows, rows]),
                self._plan.order,
                self._k,
            )
            return self._k is not None and self.rows.num_rows == self._k

    def wanted(self) -> Mask:
        """Which of the plan's containers may hold a row that comes before the k-th so far, shape (n,)."""
        rows = self.rows
        if self._k == 0:
            return np.zeros(len(self._plan.verdicts), np.bool_)
        if rows is None or self._k is None or rows.num_rows < self._k:
            return np.ones(len(self._plan.verdicts), np.bool_)
        return sooner(
            self._plan, self._plan.order, value_of(rows, self._plan.order[0].path)[self._k - 1]
        )
