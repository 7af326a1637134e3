"""Compare the claims of statistics about a column with its rows, and find the wrong ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from skipstone.bindings.checks.figures import Figures
from skipstone.bindings.plans.table_protocol import Positions
from skipstone.ir import compute as pc
from skipstone.ir.arrow import booleans_of, plain, whole
from skipstone.ir.types import Leaf
from skipstone.kernels.pack.bounds import Bounds, Given, Side, bounds_of
from skipstone.kernels.pack.planes import Mask, mask_of

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

Statistic = Literal["min", "max", "null_count", "nan_count", "row_count"]
# The effects of a wrong statistic.
LOST, EXTREME, COUNT = "rows are lost", "min() or max() is wrong", "count() is wrong"
NONE = "no row is lost"


class RefutedClaim(NamedTuple):
    """A claim that the rows of a container refute.

    Attributes:
        at: The place of the container among those that were checked.
        statistic: The statistic.
        claimed, found: Its value, and what it should be.
        effect: What a query may do.
    """

    at: int
    statistic: Statistic
    claimed: Any
    found: Any
    effect: str


def refuted_rows(plan: Plan, containers: Positions, rows: Sequence[int]) -> Iterator[RefutedClaim]:
    """Yield the row counts that are wrong.

    Args:
        plan: A plan of the whole table.
        containers: The containers that were read.
        rows: The number of rows found in each.
    """
    claimed = plan.table.logical_rows()[containers]
    found = np.array(rows, np.int64)
    for i in np.flatnonzero((claimed >= 0) & (claimed != found)).tolist():
        yield RefutedClaim(i, "row_count", int(claimed[i]), int(found[i]), COUNT)


def refuted_claims(
    plan: Plan, leaf: Leaf, containers: Positions, found: Sequence[Figures]
) -> Iterator[RefutedClaim]:
    """Yield the statistics of a column that are wrong.

    Statistics that Skipstone does not use, because they are missing or contradict each other, claim
    nothing.

    Args:
        plan: A plan of the whole table.
        leaf: The column.
        containers: The containers that were read.
        found: The column's figures in each.
    """
    yield from _refuted_counts(plan, leaf, containers, found)
    if not leaf.dtype.ordered or leaf.char_length:  # Spark pads CHAR; the bounds may be unpadded
        return
    raw, column = plan.statistics.raw(leaf.path), plan.statistics.column(leaf.path, leaf.dtype)
    sides: tuple[tuple[Side, Given | None], ...] = (("min", raw.min), ("max", raw.max))
    occurring = plan.table.occurring(leaf.path)
    nans = mask_of(column.may_hold_nan, plan.statistics.num_containers)
    for high, (side, given) in enumerate(sides):
        known = column.known(high=bool(high))
        if given is None or known is None:
            continue
        ends = [f.high if high else f.low for f in found]
        at = np.flatnonzero([end is not None for end in ends] & known[containers])
        if not len(at):
            continue
        claims = plain(whole(pc.take(given, pa.array(containers[at]))))
        values = pa.concat_arrays([end for i in at.tolist() if (end := ends[i]) is not None])
        a, b = bounds_of(claims, leaf.dtype, side), bounds_of(values, leaf.dtype, side)
        if a is None or b is None:
            continue
        beyond, within = (_less(a, b), _less(b, a)) if high else (_less(b, a), _less(a, b))
        # NaN, which bounds leave out, would be the maximum.
        exact = occurring[high] & ~nans if high else occurring[high]
        inexact = within & exact[containers[at]]
        for i in np.flatnonzero(beyond | inexact).tolist():
            effect = LOST if beyond[i] else EXTREME
            yield RefutedClaim(int(at[i]), side, claims[i].as_py(), values[i].as_py(), effect)


def _refuted_counts(
    plan: Plan, leaf: Leaf, containers: Positions, found: Sequence[Figures]
) -> Iterator[RefutedClaim]:
    """Yield the counts of NULL, NaN and values that are wrong."""
    n, column = plan.statistics.num_containers, plan.statistics.column(leaf.path, leaf.dtype)
    may_hold_value, may_hold_null, may_hold_nan = (
        mask_of(plane, n)[containers]
        for plane in (column.may_hold_value, column.may_hold_null, column.may_hold_nan)
    )
    counts = plan.table.null_counts(leaf.path)[containers]
    for i, f in enumerate(found):
        if f.nulls and not may_hold_null[i]:
            yield RefutedClaim(i, "null_count", 0, f.nulls, LOST)
        elif f.values and not may_hold_value[i]:
            yield RefutedClaim(i, "null_count", f.nulls + f.values, f.nulls, LOST)
        elif counts[i] >= 0 and counts[i] != f.nulls:
            # A count that is too low may lose rows: a plan with ORDER BY and LIMIT subtracts it
            # from the number of rows, and may then think that it has enough. Any other use of a
            # count asks only whether it is 0 or all rows, which the tests above have covered.
            effect = LOST if counts[i] < f.nulls else NONE
            yield RefutedClaim(i, "null_count", int(counts[i]), f.nulls, effect)
        if f.nans and not may_hold_nan[i]:
            yield RefutedClaim(i, "nan_count", 0, f.nans, LOST)


def _less(a: Bounds, b: Bounds) -> Mask:
    """Return where one bound is less than another; False where one is unknown."""
    if isinstance(a.values, np.ndarray):
        less: Mask = a.values < b.values
    else:
        less = booleans_of(pc.less(a.values, b.values))
    for known in (a.known, b.known):
        less = less if known is None else less & known
    return less
