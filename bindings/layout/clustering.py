"""`table.clustering`: how far the containers of a table overlap, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skipstone.bindings.layout.bounds import Ranges, ranges_of
from skipstone.bindings.layout.depth import histogram_of, overlaps_and_depths
from skipstone.bindings.layout.workload import workload_of
from skipstone.bindings.statistics.coerce_inputs import leaf_named
from skipstone.ir.errors import StatisticsError, UnknownColumn, clip, warn_caller
from skipstone.ir.node import show_path
from skipstone.ir.types import leaves_of

if TYPE_CHECKING:
    from skipstone.bindings.predicates.predicate import Condition
    from skipstone.bindings.tables.table import Table


@dataclass(frozen=True, slots=True)
class ColumnClustering:
    """A measure of how far the containers of a table overlap in one column.

    Attributes:
        column: The column's name, as in SQL.
        containers: The number of containers.
        unknown: Containers without a trustworthy minimum and maximum. A comparison with a literal
            reads each of them. They are in none of the figures below.
        empty: Containers that hold no value besides NULL and NaN: their depth is 0.
        constant: Containers that hold one value at most, NULL aside: no layout makes their range
            smaller.
        average_overlaps: The mean number of other containers that share a value with a container.
        average_depth: The mean depth. The depth of a container is the greatest number of
            containers, itself included, that hold one value of its range.
        depth_histogram: Bucket -> containers: 0, 1, ... 16, then 32, 64, ...; a bucket above 16
            counts the depths above the one before it.
    """

    column: str
    containers: int
    unknown: int
    empty: int
    constant: int
    average_overlaps: float
    average_depth: float
    depth_histogram: dict[int, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures under Snowflake's names, and `unknown_partition_count`."""
        return {
            "cluster_by_keys": self.column,
            "total_partition_count": self.containers,
            "total_constant_partition_count": self.constant,
            "unknown_partition_count": self.unknown,
            "average_overlaps": round(self.average_overlaps, 4),
            "average_depth": round(self.average_depth, 4),
            "partition_depth_histogram": {f"{b:05}": n for b, n in self.depth_histogram.items()},
        }


@dataclass(frozen=True, slots=True)
class Clustering:
    """Measures of how far the containers of a table overlap, by column.

    Attributes:
        unit: The kind of the containers: "row groups" or "files".
        columns: A `ColumnClustering` for each column.
    """

    unit: str
    columns: tuple[ColumnClustering, ...]

    def __getitem__(self, column: str) -> ColumnClustering:
        for one in self.columns:
            if one.column == column:
                return one
        raise UnknownColumn(
            f"clustering has no column {column!r}; it has {', '.join(c.column for c in self)}"
        )

    def __iter__(self) -> Iterator[ColumnClustering]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return each column's figures under Snowflake's names."""
        return {c.column: c.to_dict() for c in self}

    def __str__(self) -> str:
        width = max([6, *(len(c.column) for c in self)])
        lines = [
            f"{'column':<{width}}  {self.unit:>10}  {'constant':>8}  {'unknown':>7}  "
            f"{'overlaps':>10}  {'depth':>10}"
        ]
        lines += [
            f"{c.column:<{width}}  {c.containers:>10,}  {c.constant:>8,}  {c.unknown:>7,}  "
            f"{c.average_overlaps:>10,.1f}  {c.average_depth:>10,.1f}"
            for c in self
        ]
        return "\n".join(lines)


def clustering(
    table: Table,
    columns: Sequence[str] | None = None,
    workload: Sequence[Condition] | str | None = None,
) -> Clustering:
    """Return how far a table's containers overlap; `Table.clustering` documents it."""
    plan = table.plan()
    leaves = leaves_of(table.schema)
    if isinstance(columns, str):
        columns = [columns]
    if columns is not None:
        chosen = [leaf_named(name, leaves, "columns=") for name in columns]
        for leaf in chosen:
            if not leaf.dtype.ordered:
                raise StatisticsError(
                    f"clustering: {show_path(leaf.path)} is {leaf.dtype}, whose values have no "
                    "order; name columns of numbers, text, dates or timestamps"
                )
    elif workload is not None:
        read = workload_of(workload, table.schema)
        for part in read.unread:
            warn_caller(f"clustering leaves out {clip(part.text)!r} of the workload: {part.why}")
        chosen = [leaves[path] for path in read.paths if leaves[path].dtype.ordered]
    else:
        chosen = [leaf for leaf in leaves.values() if leaf.dtype.ordered]
    plan.table.load([leaf.path for leaf in chosen])
    found = [
        of_ranges(show_path(c.path), ranges_of(plan.statistics, c.path, c.dtype)) for c in chosen
    ]
    return Clustering(plan.table.unit, tuple(found))


def of_ranges(column: str, ranges: Ranges) -> ColumnClustering:
    """Return the figures of one column, from the ranges of its containers.

    Source: Snowflake, `SYSTEM$CLUSTERING_INFORMATION`. It documents the figures' names and the
    histogram's buckets. It shows depth by pictures, as the number of micro-partitions that overlap
    at a point; docs/layout.md says how that is made exact here.
    """
    n, empty = len(ranges.bounded), int(ranges.empty.sum())
    low, high = ranges.low[ranges.bounded], ranges.high[ranges.bounded]
    overlaps, held = overlaps_and_depths(low, high)
    depths = np.concatenate([np.zeros(empty, np.int64), held])
    counted = len(depths)
    return ColumnClustering(
        column,
        n,
        n - counted,
        empty,
        empty + int(np.count_nonzero(low == high)),
        float(overlaps.sum() / counted) if counted else 0.0,
        float(depths.mean()) if counted else 0.0,
        histogram_of(depths),
    )
