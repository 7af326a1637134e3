"""Summarise the containers of a shard as one container, for the level above the shards.

An index level above the containers (kernels/index/levels.py) computes the statistics of all of them
together. The summary stores these. When kernels pack them again, bounds stay or become wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import PACKED
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir import types as ty
from skipstone.ir.node import Path
from skipstone.ir.types import DType, Kind, Leaf
from skipstone.ir.values import column_of
from skipstone.kernels.index.blocks import Blocks
from skipstone.kernels.index.levels import Level
from skipstone.kernels.pack.codes import Dictionary, value_of_key
from skipstone.kernels.pack.columns import Column, ColumnStatistics


def summary_of(stats: Statistics) -> pa.Table:
    """Return the statistics of all containers together.

    Returns:
        A table of one row: for each column that has statistics, in their order, the five statistics
        of PACKED; at the end `row_count`, which is 0 if all containers are known to be empty and
        unknown otherwise.
    """
    n = stats.num_containers
    block = Level(stats, Blocks(n, starts=np.array([0, n], np.int64)))
    arrays: list[pa.Array] = []
    for path in stats.leaf_paths():
        leaf = stats.leaf(path)
        arrays += _unknown() if leaf is None else _column(block.column(path, leaf.dtype), leaf)
    rows = block.rows_plane()
    arrays.append(pa.array([0 if rows is False else None], pa.int64()))
    return pa.table(arrays, names=[str(i) for i in range(len(arrays))])


def stack_summaries(
    schema: pa.Schema, paths: Sequence[Path], summaries: Sequence[pa.Table]
) -> Statistics:
    """Return statistics with one container for each summary."""
    table = pa.concat_tables(summaries)
    columns = iter(table.columns)
    raws = {path: ColumnStatistics(**{key: next(columns) for key in PACKED}) for path in paths}
    # In the level, a field may already hold NULL if its struct may be NULL.
    return Statistics(schema, len(summaries), raws, row_count=next(columns), counts_parents=True)


def _unknown() -> list[pa.Array]:
    """Return nulls, the statistics of an unknown column."""
    return [pa.nulls(1, pa.int64()) for _ in PACKED]


def _column(c: Column, leaf: Leaf) -> list[pa.Array]:
    """Return the statistics, in the order of PACKED, of a packed column of one container."""
    may_hold_value, nulls, nans = (
        p if isinstance(p, bool) else bool(p[0] & np.uint64(1))
        for p in (c.may_hold_value, c.may_hold_null, c.may_hold_nan)
    )
    counts: tuple[int | None, ...]
    if may_hold_value:
        counts = (None if leaf.nullable else 1) if nulls else 0, None, None if nans else 0
    else:
        counts = int(nulls), int(nulls) + int(nans), int(nans)
    bounds = [
        _bound(c, bound, high) if may_hold_value else _array(None, c.dtype)
        for high, bound in enumerate((c.low, c.high))
    ]
    return [*bounds, *(pa.array([count], pa.int64()) for count in counts)]


def _bound(c: Column, bounds: Any, high: int) -> pa.Array:
    """Return a bound as an array of one value; null if it is unknown."""
    if bounds is None or bounds[0] == c.end(bool(high)):
        return _array(None, c.dtype)
    if not isinstance(c.codes, Dictionary):
        return _array(bounds[0].item(), c.dtype)
    return _array(value_of_key(c.codes[int(bounds[0])], c.dtype), c.dtype)


def _array(axis: Any, dtype: DType) -> pa.Array:
    """Return an axis value, or None, as an array of a type that can bound such a column."""
    wide = {Kind.INT: ty.INT64, Kind.UINT: DType(Kind.UINT, bits=64)}
    return column_of([axis], wide.get(dtype.kind, dtype))
