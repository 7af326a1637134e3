"""Rows that represent a table: a sample of its rows, or rows drawn from the containers' bounds.

A column is kept as codes of its distinct values, ascending, so that every layout is an order of
integers. NULL has the code -1, NaN one past all values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.layout.bounds import Ranges, ranges_of
from skipstone.bindings.plans.order import value_of
from skipstone.ir import compute as pc
from skipstone.ir.arrow import int64_of, numbers_of, plain, whole
from skipstone.ir.node import Path
from skipstone.ir.types import Kind, Leaf, leaves_of
from skipstone.ir.values import NO, YES, Values, column_of, to_array
from skipstone.kernels.pack.codes import value_of_key
from skipstone.kernels.pack.planes import mask_of
from skipstone.kernels.run.pool import map_requests

if TYPE_CHECKING:
    from skipstone.bindings.plans.plan import Plan

Codes = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]
SEED: Final = 2013
DRAWN: Final = "statistics"  # the source of rows that were drawn from bounds
MAX_CONTAINERS: Final = 256  # the containers that a sample reads from
ROWS: Final = 100_000  # rows that layouts are tried on
# Unless a sample is asked for, one is read only if it reads at most this much.
MAX_SAMPLE_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class RowColumn:
    """One column of some rows.

    Attributes:
        values: The distinct values, ascending, in the column's own type.
        codes: For each row the index of its value; -1 is NULL, `len(values)` is NaN. Shape (rows,).
    """

    values: pa.Array
    codes: Codes

    @property
    def keys(self) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Numbers that ascend with the values; NULL is the greatest, as most writers sort."""
        last = len(self.values) + 1
        keys = np.where(self.codes < 0, last, self.codes)
        return keys.astype(np.min_scalar_type(last))  # narrow numbers sort faster


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows that represent all rows of a table.

    Attributes:
        columns: By path, the columns for which rows could be read or drawn.
        count: The number of rows.
        fraction: The share of the table's rows that these are, from 0 to 1.
        complete: True if these are all rows of the table.
        source: Where the rows come from, for display.
    """

    columns: Mapping[Path, RowColumn]
    count: int
    fraction: float
    complete: bool
    source: str

    @property
    def drawn(self) -> bool:
        """True if the rows were drawn from statistics: they know nothing of repeated values."""
        return self.source == DRAWN


def sample_bytes(plan: Plan, leaves: Sequence[Leaf]) -> int | None:
    """Return about how many bytes `sample_rows` would read; None if sizes are unknown.

    Args:
        plan: A plan of the whole table.
        leaves: The columns to read. All columns are assumed to have the same size.
    """
    whole = plan.only(_sampled_containers(plan), []).sizes.scan.bytes
    if whole is None:
        return None
    return whole * len(leaves) // max(len(leaves_of(plan.table.schema)), 1)


def _sampled_containers(plan: Plan) -> Counts:
    """Return the positions of the containers to sample, spread evenly over the table."""
    n = len(plan.verdicts)
    return np.unique(np.linspace(0, n - 1, min(n, MAX_CONTAINERS)).round().astype(np.int64))


def sample_rows(plan: Plan, leaves: Sequence[Leaf], wanted: int) -> Rows:
    """Read a sample of a table's rows.

    Containers are spread evenly over the table; each gives the same share of its rows.

    Args:
        plan: A plan of the whole table.
        leaves: The columns to read.
        wanted: The number of rows.

    Raises:
        SourceError: a file can no longer be read.
    """
    n, chosen = len(plan.verdicts), _sampled_containers(plan)
    names = list(dict.fromkeys(leaf.path[0] for leaf in leaves))
    rows = plan.table.logical_rows()
    known = rows[rows >= 0]
    total = int(rows.sum()) if len(known) == n else None
    in_chosen = int(rows[chosen].sum()) if total is not None else wanted
    share = min(1.0, wanted / max(in_chosen, 1))

    def read(container: int) -> pa.Table:
        """Return the sampled rows of a container."""
        found = plan.only(np.array([container]), names).to_arrow()
        take = found.num_rows if total is not None else min(found.num_rows, per_container)
        kept = take if share == 1 and total is not None else round(take * share)
        if kept >= found.num_rows:
            return found
        r = np.random.default_rng((SEED, container))
        at = r.choice(found.num_rows, max(min(kept, found.num_rows), 1), replace=False)
        return found.take(pa.array(np.sort(at)))

    per_container = wanted // len(chosen) + 1
    size = sample_bytes(plan, leaves)
    # Together only if they fit into memory: on object stores, each waits for several requests.
    together = size is not None and size <= MAX_SAMPLE_BYTES
    parts = list((map_requests if together else map)(read, chosen.tolist()))
    table = pa.concat_tables(parts)
    columns = {
        leaf.path: column
        for leaf in leaves
        if (column := _encoded(whole(value_of(table, leaf.path)))) is not None
    }
    count = table.num_rows
    complete = total is not None and count == total
    fraction = 1.0 if complete else min(1.0, count / total) if total else 0.0
    unit = plan.table.unit
    source = f"{count:,} rows in {len(chosen):,} of {n:,} {unit}"
    return Rows(columns, count, fraction, complete, "all rows" if complete else source)


def _encoded(array: pa.Array) -> RowColumn | None:
    """Return an Arrow array as codes; None if its values have no order."""
    array = plain(array)
    if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        text = pa.types.is_string_view(array.type)
        array = array.cast(pa.large_string() if text else pa.large_binary())
    nan = None
    if pa.types.is_floating(array.type):
        nan = pc.is_nan(array).fill_null(False)
        array = pc.if_else(nan, pa.nulls(len(array), array.type), array)
    found = array.dictionary_encode()
    order = pc.sort_indices(found.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[numbers_of(order)] = np.arange(len(order))
    indices = int64_of(found.indices, -1)
    codes = np.where(indices < 0, -1, rank[indices] if len(rank) else -1)
    if nan is not None:
        codes = np.where(nan.to_numpy(zero_copy_only=False), len(rank), codes)
    return RowColumn(found.dictionary.take(order), codes)


def draw_rows(plan: Plan, leaves: Sequence[Leaf], wanted: int) -> Rows:
    """Draw rows from the statistics: even and independent within each container's bounds.

    A container gives rows in proportion to its number of rows. If it has no known bounds for a
    column, values are drawn from all known bounds of that column. Text is drawn from other
    containers' bounds that lie between those of its container, because text between two bounds
    cannot be made up.

    Args:
        plan: A plan of the whole table.
        leaves: The columns to draw.
        wanted: The number of rows.
    """
    n = len(plan.verdicts)
    rows = plan.table.logical_rows().astype(np.float64)
    usual = rows[rows >= 0].mean() if (rows >= 0).any() else 1.0
    rows = np.where(rows < 0, usual, rows)
    total = rows.sum()
    # The k-th row belongs to the container that holds this place of all rows in table order.
    positions = (np.arange(wanted) + 0.5) / wanted * total
    container = np.minimum(np.searchsorted(np.cumsum(rows), positions, "right"), n - 1)
    r = np.random.default_rng(SEED)
    plan.table.load([leaf.path for leaf in leaves])
    columns = {}
    for leaf in leaves:
        ranges = ranges_of(plan.statistics, leaf.path, leaf.dtype)
        made = _drawn_column(ranges, container, r)
        if made is None:
            continue
        nulls = plan.table.null_counts(leaf.path)
        packed = plan.statistics.column(leaf.path, leaf.dtype)
        maybe = mask_of(packed.may_hold_null, n)
        share = np.where(nulls < 0, 0.0, nulls / np.maximum(rows, 1)) * maybe
        is_null = r.random(wanted) < np.where(ranges.empty, 1.0, share)[container]
        columns[leaf.path] = RowColumn(made.values, np.where(is_null, -1, made.codes))
    return Rows(columns, wanted, min(1.0, wanted / max(total, 1)), False, DRAWN)


def _drawn_column(ranges: Ranges, container: Counts, r: Any) -> RowColumn | None:
    """Draw a value for each row from its container's range; None if no bounds are known."""
    some = ranges.bounded
    if not some.any():
        return None
    low = np.where(some, ranges.low, ranges.low[some].min())[container]
    high = np.where(some, ranges.high, ranges.high[some].max())[container]
    part = r.random(len(container))
    dtype = ranges.dtype
    if dtype.kind is Kind.FLOAT and ranges.codes is None:
        with np.errstate(over="ignore", invalid="ignore"):
            values = low.astype(np.float64) * (1 - part) + high.astype(np.float64) * part
        values = np.where(np.isfinite(values), values, np.where(np.isfinite(low), low, 0.0))
    else:
        wide = high.astype(np.float64) - low.astype(np.float64) + 1
        step = np.floor(part * wide)
        values = np.minimum(low + step.astype(low.dtype if dtype.kind is Kind.UINT else np.int64),
                            high)  # fmt: skip
    # The least and the greatest value of the column are known to be there.
    for end, at in ((low, int(np.argmin(low))), (high, int(np.argmax(high)))):
        if np.isfinite(end[at]):
            values[at] = end[at]
    distinct, codes = np.unique(values, return_inverse=True)
    return RowColumn(_as_arrow(distinct, ranges), codes.astype(np.int64))


def _as_arrow(values: npt.NDArray[Any], ranges: Ranges) -> pa.Array:
    """Return ascending axis values, or codes, as an Arrow array of the column's type."""
    dtype = ranges.dtype
    if ranges.codes is None:
        return to_array(Values(dtype, values, YES, NO), len(values))
    keys = ranges.codes.keys.take(pa.array(values)).to_pylist()
    return column_of([value_of_key(k, dtype) for k in keys], dtype)
