"""Choose the layouts to try for a workload, and predict what queries read in each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.layout.filters import searched_in
from skipstone.bindings.layout.rows import Rows
from skipstone.bindings.layout.simulate import Kind, Layout, WriterStatistics, simulate
from skipstone.bindings.layout.workload import Workload
from skipstone.bindings.tables.partitions import HIVE_NULL, common_type
from skipstone.ir.node import Path

MAX_COMBINED: Final = 3  # the columns that layouts by several columns choose from
# A simpler layout is preferred if it reads more by at most this fraction. Predictions from
# statistics alone are less sure.
TOLERANCE: Final = 0.02
STATISTICS_TOLERANCE: Final = 0.05
MAX_PARTITIONS: Final = 10_000
MAX_FOLDER_BYTES: Final = 80  # of a text in a folder's name; three times as long if it is escaped
# The first statement for these formats is DuckDB's, which writes bloom filters.
REWRITTEN_BY_DUCKDB: Final = ("parquet", "hive")
# Characters that Spark's writers keep of a text's bounds.
TEXT_LENGTHS: Final = {"delta": 32, "iceberg": 16}


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLayout:
    """A layout, and what a workload is predicted to read in it.

    Attributes:
        layout: The layout.
        shares: By query, the share of the rows in the containers that it reads, shape (queries,).
        file_shares: By query, the share of the files.
        containers: The number of containers that were simulated.
        mean: The mean of `shares` over the workload, by weight.
        size: The predicted size of the table, relative to that without repeated values.
    """

    layout: Layout
    shares: npt.NDArray[np.float64]
    file_shares: npt.NDArray[np.float64]
    containers: int
    mean: float
    size: float = 1.0

    @property
    def cost(self) -> float:
        """Return `mean` times `size`, by which layouts of one table are compared."""
        return self.mean * self.size


def judge(
    rows: Rows,
    workload: Workload,
    schema: pa.Schema,
    *,
    containers: int,
    files: int,
    partition_by: Sequence[Path] = (),
    format: str = "",
) -> list[JudgedLayout]:
    """Predict what a workload reads in each layout; the layouts that read least come first.

    Args:
        rows: Rows that represent the table.
        workload: The conditions.
        schema: The table's columns.
        containers: The number of containers that the table has.
        files: The number of files that it has.
        partition_by: The columns that it is partitioned by. Layouts order rows within partitions;
            a layout of kind "partition" replaces them.
        format: The table's format, which decides what statistics the rewrite will have.
    """
    if not workload.queries or not rows.count:
        return []
    weights = np.array([q.weight for q in workload.queries], np.float64)
    by_duckdb = format in REWRITTEN_BY_DUCKDB
    writes = WriterStatistics(
        searched_in(rows, workload) if by_duckdb and not rows.drawn else {},
        TEXT_LENGTHS.get(format),
        nan_counts=not by_duckdb,
    )

    def judged(layout: Layout) -> JudgedLayout:
        found = simulate(rows, layout, workload, containers, schema, writes)
        mean = float(np.average(found.shares, weights=weights))
        return JudgedLayout(
            layout, found.shares, found.file_shares(files), found.containers, mean, found.size
        )

    fixed = tuple(p for p in partition_by if p in rows.columns)
    usable = [p for p in workload.paths if p in rows.columns and len(rows.columns[p].values) > 1]
    keys = [p for p in usable if p not in fixed]
    single = sorted((judged(Layout("sort", (p,), fixed)) for p in keys), key=lambda j: j.mean)
    best = complementary(single, weights)
    layouts: list[Layout] = [
        Layout("sort", pair, fixed) for pair in itertools.permutations(best, 2)
    ]
    curves: tuple[Kind, ...] = ("zorder", "hilbert")
    for size in (2, 3):
        layouts += [
            Layout(curve, chosen, fixed)
            for curve in curves
            for chosen in itertools.combinations(best, size)
        ]
    most = min(containers, MAX_PARTITIONS)
    for path in best:
        values = rows.columns[path].values
        if len(values) <= most and _folders_keep(values, typed=not by_duckdb):
            layouts.append(Layout("partition", (), (path,)))
            layouts += [Layout("partition", (key,), (path,)) for key in best if key != path]
    close = STATISTICS_TOLERANCE if rows.drawn else TOLERANCE
    return ranked([*single, *map(judged, layouts)], close)


def _folders_keep(values: pa.Array, typed: bool) -> bool:
    """Return True if readers get the values of a column from the names of its partition folders.

    Args:
        values: Values of the column.
        typed: True if the table's metadata has the column's type. Otherwise readers infer it from
            the names, so that the text 007 becomes the number 7.
    """
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = values.to_pylist()
        fits = max((len(text.encode()) for text in texts), default=0) <= MAX_FOLDER_BYTES
        infers = not {"", HIVE_NULL} & {*texts} and pa.types.is_string(common_type(texts))
        return fits and (typed or infers)
    return typed or pa.types.is_integer(kind) or pa.types.is_date32(kind)


def complementary(single: Sequence[JudgedLayout], weights: npt.NDArray[np.float64]) -> list[Path]:
    """Return columns that prune different queries; the first is the one that prunes most by itself.

    Each further column is the one that leaves least to read if every query uses the best of the
    columns so far. Correlated columns, such as the dates of an order, add nothing to each other.

    Args:
        single: Layouts by one column each.
        weights: The weights of the queries, shape (queries,).
    """
    out: list[JudgedLayout] = []
    while len(out) < min(MAX_COMBINED, len(single)):
        so_far = np.min([j.shares for j in out], axis=0) if out else np.ones(len(weights))
        out.append(
            min(
                (j for j in single if j not in out),
                key=lambda j: (float(weights @ np.minimum(so_far, j.shares)), j.mean),
            )
        )
    return [j.layout.keys[0] for j in out]


def ranked(found: Sequence[JudgedLayout], close: float = TOLERANCE) -> list[JudgedLayout]:
    """Return layouts by what they read, least first; of similar ones only the simplest.

    A layout by one column is simpler than one by two, and a sort is simpler than a curve or
    partitions.

    Args:
        found: The layouts.
        close: Layouts are similar if one reads more than the other by at most this fraction.
    """
    remaining = sorted(found, key=lambda j: (j.cost, _complexity(j.layout)))
    out: list[JudgedLayout] = []
    while remaining:
        limit = remaining[0].cost * (1 + close)
        first = min(
            (j for j in remaining if j.cost <= limit), key=lambda j: (_complexity(j.layout), j.cost)
        )
        out.append(first)
        remaining.remove(first)
    return out


def _complexity(layout: Layout) -> tuple[int, int]:
    kinds = ("sort", "zorder", "hilbert", "partition")
    partitions = len(layout.partition_by) if layout.kind == "partition" else 0
    return len(layout.keys) + partitions, kinds.index(layout.kind)
