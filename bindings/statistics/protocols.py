"""Protocols of objects that answer questions about containers: statistics providers, membership."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa

from skipstone.ir.node import Path
from skipstone.ir.types import DType


@runtime_checkable
class PruningStatistics(Protocol):
    """A provider of statistics: an object that returns the statistics of n containers on request.

    Each method returns an Arrow array of length n, in which null means unknown, or None if the
    provider knows nothing about the column. Columns are named as in SQL: `a.b` is the field `b` of
    the struct `a`.

    Attributes:
        num_containers: The number of containers, n.

    Source: DataFusion, `PruningStatistics`.
    """

    num_containers: int

    def min_values(self, column: str) -> pa.Array | None:
        """Return lower bounds: no value except NULL and NaN lies below its container's bound."""

    def max_values(self, column: str) -> pa.Array | None:
        """Return upper bounds: no value except NULL and NaN lies above its container's bound."""

    def null_counts(self, column: str) -> pa.Array | None:
        """Return the number of NULLs of each container."""

    def row_counts(self, column: str) -> pa.Array | None:
        """Return the number of values of each container, including NULL and NaN."""

    def contained(self, column: str, values: frozenset[object]) -> pa.BooleanArray | None:
        """Return for each container how its values relate to a set of values.

        true: the column holds only these values (or NULL). false: it holds none of them. null:
        unknown.
        """


class MembershipSource(Protocol):
    """Value lists and bloom filters, through the one method that `Statistics` calls."""

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Answer as `PruningStatistics.contained` does, for axis values of `dtype`."""
