"""Arrange rows in a layout, cut them into containers, and judge these by a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.layout.curves import order_by
from skipstone.bindings.layout.filters import SearchedValues, values_lists
from skipstone.bindings.layout.rows import Codes, Rows
from skipstone.bindings.layout.sizes import relative_size
from skipstone.bindings.layout.workload import Workload
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir import compute as pc
from skipstone.ir.node import Path, show_path, sql_path
from skipstone.ir.outcome import Verdict

Kind = Literal["sort", "zorder", "hilbert", "partition"]
Starts = npt.NDArray[np.int64]
ROWS_PER_CONTAINER: Final = 32  # fewer say too little about a container's bounds
VERBS: Final = {
    "sort": "sort by {}", "zorder": "Z-order by {}", "hilbert": "Hilbert order by {}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """A way to lay out a table's rows.

    Attributes:
        kind: How rows are ordered; "partition": by the values of `partition_by` first.
        keys: The columns that rows are ordered by, within partitions if there are any.
        partition_by: The columns whose values are kept apart. For other kinds than "partition",
            these are the columns that the table is partitioned by already.
    """

    kind: Kind
    keys: tuple[Path, ...]
    partition_by: tuple[Path, ...] = ()

    @property
    def label(self) -> str:
        """The layout in words.

        Example:
            >>> Layout("zorder", (("a",), ("b", "c"))).label
            'Z-order by a, b.c'
        """
        names = ", ".join(map(show_path, self.keys))
        if self.kind != "partition":
            return VERBS[self.kind].format(names)
        by = "partition by " + ", ".join(map(show_path, self.partition_by))
        return f"{by}, sort by {names}" if names else by


@dataclass(frozen=True, slots=True)
class WriterStatistics:
    """The statistics that an engine writes, besides bounds and null counts.

    Attributes:
        filters: By column, the values that its bloom filters will be asked for.
        text_length: The characters after which it cuts bounds of text; None if it keeps them whole.
        nan_counts: True if its statistics tell how many NaNs there are.
    """

    filters: Mapping[Path, SearchedValues] = field(default_factory=dict)
    text_length: int | None = None
    nan_counts: bool = True


PLAIN: Final = WriterStatistics()


@dataclass(frozen=True, slots=True)
class SimulatedLayout:
    """The share of rows that a workload's queries would read in one layout.

    Attributes:
        containers: The number of containers.
        kept: By query, which containers it reads; shape (queries, containers).
        rows: The rows of each container, shape (containers,).
        size: The predicted size of the table, relative to that without repeated values.
    """

    containers: int
    kept: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.int64]
    size: float

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """By query, the share of the rows in the containers that it reads."""
        return np.asarray(self.kept @ self.rows / max(int(self.rows.sum()), 1), np.float64)

    def file_shares(self, files: int) -> npt.NDArray[np.float64]:
        """Return by query the share of files that it reads, if neighbours share files."""
        file = np.arange(self.containers) * min(files, self.containers) // max(self.containers, 1)
        starts = np.flatnonzero(np.diff(file, prepend=-1))
        touched = np.logical_or.reduceat(self.kept, starts, axis=1)
        return np.asarray(touched.mean(axis=1), np.float64)


def simulate(
    rows: Rows,
    layout: Layout,
    workload: Workload,
    containers: int,
    schema: pa.Schema,
    writes: WriterStatistics = PLAIN,
) -> SimulatedLayout:
    """Judge what a workload would read in this layout.

    Args:
        rows: The rows.
        layout: The layout; the rows have all of its columns.
        workload: The conditions.
        containers: The number of containers that the table has. Fewer are made if each would have
            less than 32 of the rows; queries then seem to read more than they would.
        schema: The table's columns.
        writes: The statistics that the engine which rewrites the table will write.
    """
    order, groups = ordered(rows, layout)
    limit = rows.count if rows.complete else max(rows.count // ROWS_PER_CONTAINER, 1)
    starts = cut(groups, min(containers, limit))
    statistics = statistics_of(rows, order, starts, layout, schema, writes)
    kept = np.array(
        [q.predicate.evaluate(statistics, "numpy") != Verdict.NEVER for q in workload.queries]
    ).reshape(len(workload.queries), len(starts))
    size = 1.0
    if not rows.drawn:
        size = relative_size(rows, order, (*layout.partition_by, *layout.keys), len(schema))
    return SimulatedLayout(len(starts), kept, np.diff(np.r_[starts, rows.count]), size)


def ordered(rows: Rows, layout: Layout) -> tuple[npt.NDArray[np.int64], Codes]:
    """Return the rows' order, and in that order the number of each row's partition."""
    group = np.zeros(rows.count, np.int64)
    for path in layout.partition_by:
        keys = rows.columns[path].keys
        both = group * (int(keys.max(initial=0)) + 1) + keys
        group = np.unique(both, return_inverse=True)[1].astype(np.int64)
    order = np.arange(rows.count)
    if layout.keys:
        curve = "sort" if layout.kind == "partition" else layout.kind
        order = order_by([rows.columns[path].keys for path in layout.keys], curve)
    if layout.partition_by:
        group = group.astype(np.min_scalar_type(int(group.max(initial=0))))
        order = order[np.argsort(group[order], kind="stable")]
    return order, group[order].astype(np.int64)


def cut(groups: Codes, containers: int) -> Starts:
    """Return where containers start, if ordered rows are cut evenly within each partition.

    Args:
        groups: The partition of each row, ascending, shape (rows,).
        containers: Number of containers; each partition has at least one.
    """
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(np.r_[first, len(groups)])
    parts = np.maximum(np.round(containers * sizes / max(len(groups), 1)).astype(np.int64), 1)
    parts = np.minimum(parts, sizes)
    number = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    of = np.repeat(np.arange(len(parts)), parts)
    return np.asarray(first[of] + number * sizes[of] // parts[of], np.int64)


def statistics_of(
    rows: Rows,
    order: npt.NDArray[np.int64],
    starts: Starts,
    layout: Layout,
    schema: pa.Schema,
    writes: WriterStatistics = PLAIN,
) -> Statistics:
    """Return the statistics that the containers of ordered rows would have.

    A container has more rows than the sample contains. Its bounds are therefore moved outwards by
    the mean distance, in ranks, of its sampled rows: the estimator of the German tank problem.
    The leading sort key and partition values are not moved, as they decide where containers begin.
    """
    exact = {*layout.partition_by}
    if layout.kind in ("sort", "partition") or len(layout.keys) == 1:
        exact |= {*layout.keys[:1]}
    count = np.diff(np.r_[starts, rows.count])
    columns: dict[str, Mapping[str, pa.Array]] = {}
    for path in rows.columns:
        sure = rows.complete or path in exact
        columns[sql_path(path)] = _column(rows, path, order, starts, count, writes, sure=sure)
    return Statistics.from_dict(columns, schema, row_count=count)


def _column(
    rows: Rows,
    path: Path,
    order: npt.NDArray[np.int64],
    starts: Starts,
    count: Starts,
    writes: WriterStatistics,
    *,
    sure: bool,
) -> dict[str, pa.Array]:
    """Return the statistics of one column; bounds are not moved outwards if they are sure."""
    column = rows.columns[path]
    codes = column.codes[order]
    nulls = np.add.reduceat((codes < 0).astype(np.int64), starts)
    nans = np.add.reduceat((codes == len(column.values)).astype(np.int64), starts)
    held = (codes >= 0) & (codes < len(column.values))
    widen = 0.0 if sure else 1.0 - rows.fraction
    low, high = _ends(codes, held, starts, count - nulls - nans, widen)
    empty = high < 0
    bounds = [column.values.take(pa.array(end, pa.int64(), mask=empty)) for end in (low, high)]
    text = column.values.type in (pa.string(), pa.large_string())
    if writes.text_length is not None and text:
        bounds = cut_text(bounds[0], bounds[1], writes.text_length)
    some_nulls = not sure and bool(nulls.any())
    out = {
        "min": bounds[0],
        "max": bounds[1],
        # If a column has NULLs, a container may hold some even if the sample shows none there.
        "null_count": pa.array(nulls, mask=(nulls == 0) if some_nulls else None),
    }
    if writes.nan_counts and pa.types.is_floating(column.values.type):
        out["nan_count"] = pa.array(nans)
    if (searched := writes.filters.get(path)) is not None:
        out["values"] = values_lists(searched, column, codes, starts, low, high, rows)
    return out


def cut_text(low: pa.Array, high: pa.Array, length: int) -> list[pa.Array]:
    """Return bounds of text cut to a number of characters; upper bounds then grow.

    Example:
        >>> text = pa.array(["abcdef", "xy", None])
        >>> [bound.to_pylist()[:2] for bound in cut_text(text, text, 3)]
        [['abc', 'xy'], ['abc\U0010ffff', 'xy']]
    """
    cut = pc.utf8_slice_codeunits(high, 0, length)
    above = pc.binary_join_element_wise(
        cut, pa.scalar(chr(0x10FFFF), cut.type), pa.scalar("", cut.type)
    )
    longer = pc.greater(pc.utf8_length(high), length)
    return [pc.utf8_slice_codeunits(low, 0, length), pc.if_else(longer, above, high)]


def _ends(
    codes: Codes, held: npt.NDArray[np.bool_], starts: Starts, values: Starts, widen: float
) -> tuple[Codes, Codes]:
    """Return the least and the greatest code of each container; -1 where it holds no value."""
    if not widen:
        top = np.iinfo(np.int64).max
        low = np.minimum.reduceat(np.where(held, codes, top), starts)
        high = np.maximum.reduceat(np.where(held, codes, -1), starts)
        return np.where(high < 0, 0, low), high
    at = np.flatnonzero(held)
    present = codes[at]
    # NumPy sorts numbers of 16 bits several times faster.
    narrow = present.astype(np.min_scalar_type(int(present.max(initial=0))))
    by_value = np.argsort(narrow, kind="stable")
    ascending = present[by_value]
    rank = np.empty(len(codes), np.int64)
    rank[at[by_value]] = np.arange(len(at))
    top = len(codes)
    first = np.minimum.reduceat(np.where(held, rank, top), starts)
    last = np.maximum.reduceat(np.where(held, rank, -1), starts)
    gap = np.where(values > 1, (last - first) / np.maximum(values - 1, 1), len(at)) * widen
    if not len(at):
        return np.zeros(len(starts), np.int64), np.full(len(starts), -1)
    low = ascending[np.clip(np.floor(first - gap), 0, len(at) - 1).astype(np.int64)]
    high = ascending[np.clip(np.ceil(last + gap), 0, len(at) - 1).astype(np.int64)]
    none = last < 0
    return np.where(none, 0, low), np.where(none, -1, high)
