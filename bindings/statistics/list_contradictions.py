"""Value lists that contradict the counts or bounds of their containers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import int64_of
from skipstone.ir.types import DType
from skipstone.kernels.pack.bounds import Given, Side, bounds_of
from skipstone.kernels.pack.columns import ColumnStatistics, known_bounds
from skipstone.kernels.pack.counts import Counts
from skipstone.kernels.pack.planes import Mask


def contradicting_lists(
    lists: pa.Array, raw: ColumnStatistics, rows: Given | None, dtype: DType, *, nullable: bool
) -> Mask | None:
    """Return which containers have a value list that their other statistics contradict.

    An empty list contradicts a bound, and rows that are not NULL. A list of values contradicts
    counts by which all rows are NULL.

    Args:
        lists: All values of each container, as for `in_lists`.
        raw: The column's bounds and counts.
        rows: Row counts of the containers, used where the column has none of its own.
        dtype: The column's type.
        nullable: True if rows may be NULL where there is no null count.

    Returns:
        bool array, length n; None if there are none.
    """
    n = len(lists)
    sizes = int64_of(pc.list_value_length(lists), -1)
    nulls, own, others = (_counts(a, n) for a in (raw.null_count, raw.row_count, rows))
    total = np.where(own >= 0, own, others)
    fewest = nulls if nullable else np.maximum(nulls, 0)
    has_values = (total >= 0) & (fewest >= 0) & (fewest < total)
    sides: tuple[tuple[Given | None, Side], ...] = ((raw.min, "min"), (raw.max, "max"))
    for given, side in sides:
        if given is not None and dtype.ordered:
            has_values |= known_bounds(bounds_of(given, dtype, side), dtype, n)
    has_none = (total == 0) | (total > 0) & (nulls >= total)
    found: Mask = ((sizes == 0) & has_values) | ((sizes > 0) & has_none)
    return found if found.any() else None


def unknown_at(raw: ColumnStatistics, where: Mask) -> ColumnStatistics:
    """Return statistics of a column that are unknown in some containers."""
    keep = pa.array(~where, pa.bool_())

    def known(a: Given | None) -> Given | None:
        return None if a is None else pc.if_else(keep, a, pa.scalar(None, a.type))

    return ColumnStatistics(
        known(raw.min), known(raw.max), known(raw.null_count), known(raw.row_count),
        known(raw.nan_count),
    )  # fmt: skip


def _counts(given: Given | None, n: int) -> Counts:
    """Return counts; -1 where one is unknown."""
    if given is None or not pa.types.is_integer(given.type):
        return np.full(n, -1)
    return int64_of(given, -1)
