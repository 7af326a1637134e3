"""The layouts that are tried for a workload, and what each is predicted to read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.layout.rows import Rows
from skipstone.bindings.layout.simulate import Kind, Layout, simulate
from skipstone.bindings.layout.workload import Workload
from skipstone.ir.node import Path

PAIRED: Final = 3  # columns that are combined with each other
CLOSE: Final = 0.02  # a simpler layout is preferred if it reads this much more at most
MAX_PARTITIONS: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A layout, and what a workload is predicted to read in it.

    Attributes:
        layout: The layout.
        shares: By query, the share of the rows in the containers that it reads, shape (queries,).
        file_shares: By query, the share of the files.
        containers: The number of containers that were simulated.
        mean: The mean of `shares` over the workload, by weight.
    """

    layout: Layout
    shares: npt.NDArray[np.float64]
    file_shares: npt.NDArray[np.float64]
    containers: int
    mean: float


def judge(
    rows: Rows,
    workload: Workload,
    schema: pa.Schema,
    *,
    containers: int,
    files: int,
    partition_by: Sequence[Path] = (),
) -> list[Judged]:
    """Predict what a workload reads in each layout; the layouts that read least come first.

    Args:
        rows: Rows that stand for the table.
        workload: The conditions.
        schema: The table's columns.
        containers: The number of containers that the table has.
        files: The number of files that it has.
        partition_by: The columns that it is partitioned by. Layouts order rows within partitions;
            a layout of kind "partition" replaces them.
    """
    if not workload.queries or not rows.count:
        return []
    weights = np.array([q.weight for q in workload.queries], np.float64)

    def judged(layout: Layout) -> Judged:
        found = simulate(rows, layout, workload, containers, schema)
        mean = float(np.average(found.shares, weights=weights))
        return Judged(
            layout, found.shares, found.file_shares(files), found.containers, mean
        )  # fmt: skip

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
        if len(rows.columns[path].values) <= most:
            layouts.append(Layout("partition", (), (path,)))
            layouts += [Layout("partition", (key,), (path,)) for key in best if key != path]
    return ranked([*single, *map(judged, layouts)])


def complementary(single: Sequence[Judged], weights: npt.NDArray[np.float64]) -> list[Path]:
    """Return columns that prune different queries, the one that prunes most alone first.

    Each next one leaves least to read if every query could use the best of the columns so far.
    Columns that go together, such as the dates of an order, add nothing to each other.

    Args:
        single: Layouts by one column each.
        weights: The weights of the queries, shape (queries,).
    """
    out: list[Judged] = []
    while len(out) < min(PAIRED, len(single)):
        so_far = np.min([j.shares for j in out], axis=0) if out else np.ones(len(weights))
        out.append(
            min(
                (j for j in single if j not in out),
                key=lambda j: (float(weights @ np.minimum(so_far, j.shares)), j.mean),
            )
        )
    return [j.layout.keys[0] for j in out]


def ranked(found: Sequence[Judged]) -> list[Judged]:
    """Return layouts by what they read, least first; of similar ones only the simplest.

    A layout by one column is simpler than one by two, and a sort is simpler than a curve or
    partitions.
    """
    remaining = sorted(found, key=lambda j: (j.mean, _complexity(j.layout)))
    out: list[Judged] = []
    while remaining:
        limit = remaining[0].mean * (1 + CLOSE)
        first = min(
            (j for j in remaining if j.mean <= limit), key=lambda j: (_complexity(j.layout), j.mean)
        )
        out.append(first)
        remaining.remove(first)
    return out


def _complexity(layout: Layout) -> tuple[int, int]:
    kinds = ("sort", "zorder", "hilbert", "partition")
    partitions = len(layout.partition_by) if layout.kind == "partition" else 0
    return len(layout.keys) + partitions, kinds.index(layout.kind)
