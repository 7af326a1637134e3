"""The files of a scan as Spark lists them, and the values of their partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skipstone.bindings.spark.pruning.catalyst_calls import value_of
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.partition_values import constant_statistics
from skipstone.ir.cached import cached_property
from skipstone.ir.outcome import Verdict
from skipstone.ir.types import from_arrow
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.ir.node import Path


class ListedFiles:
    """n files of one scan, in m partitions.

    Args:
        text: Path, length in bytes, modification time in ms and partition number of each file, each
            followed by a zero character.
        partitions: The values of the partition columns in each partition, as JSON.
        data: The columns read from the files that statistics can judge.
        partitioned: The partition columns.

    Attributes:
        by: What judges the files, for reports; "" for their footers.
    """

    by = ""

    def __init__(self, text: str, partitions: str, data: pa.Schema, partitioned: pa.Schema) -> None:
        cells = text.split("\0")[:-1]
        self.paths = cells[0::4]
        self.sizes, self.times, self.partition = (
            np.array(cells[i::4], np.int64) for i in (1, 2, 3)
        )
        self.data, self.partitioned = data, partitioned
        rows = json.loads(partitions)
        self.values = {
            f.name: _array([row[i] for row in rows], f.type) for i, f in enumerate(partitioned)
        }
        self.partitions = len(rows)

    def __len__(self) -> int:
        return len(self.paths)

    @cached_property
    def first(self) -> Ints | None:
        """The first position of each file's path, shape (n,); None if no path occurs twice.

        Partitions of a table may share a folder; Spark then reads its files once for each.
        """
        positions: dict[str, int] = {}
        first = [positions.setdefault(path, i) for i, path in enumerate(self.paths)]
        return None if len(positions) == len(first) else np.array(first, np.int64)

    @property
    def _constants(self) -> dict[Path, ColumnStatistics]:
        return {(name,): constant_statistics(values) for name, values in self.values.items()}

    def partition_mask(self, predicate: PruningPredicate) -> Mask:
        """Return the files whose partition may hold a matching row, bool, shape (n,).

        Spark's own partition pruning opens the same files.
        """
        if not len(self.partitioned):
            return np.ones(len(self), np.bool_)
        partitions = predicate.prune(Statistics(predicate.schema, self.partitions, self._constants))
        return partitions[self.partition]

    def filtered_partitions(self, filters: DynamicFilters) -> Mask:
        """Return the files whose partition may hold a row that joins need, bool, shape (n,)."""
        if not len(self.partitioned):
            return np.ones(len(self), np.bool_)
        found = filters.judged(
            Statistics(filters.schema, self.partitions, self._constants),
            np.full(self.partitions, Verdict.MAYBE, np.uint8),
        )
        partitions: Mask = found != Verdict.NEVER
        return partitions[self.partition]


def _array(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Convert partition values from Spark's internal form to an Arrow array."""
    dtype = from_arrow(arrow_type)
    nodes = [value_of(v, dtype) for v in values]
    if any(node is None for node in nodes):
        raise ValueError(f"a partition value of type {arrow_type} is not understood")
    axis = [None if node is None else node.value for node in nodes]
    if pa.types.is_decimal(arrow_type):
        from decimal import Decimal

        return pa.array([None if v is None else Decimal(v["decimal"]) for v in values], arrow_type)
    if pa.types.is_string(arrow_type):
        return pa.array(axis, pa.binary()).cast(arrow_type)
    if pa.types.is_date32(arrow_type):
        return pa.array(axis, pa.int32()).cast(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return pa.array(axis, pa.int64()).cast(arrow_type)
    return pa.array(
        [None if v is None else bool(v) for v in axis] if pa.types.is_boolean(arrow_type) else axis,
        arrow_type,
    )
