"""The true statistics of containers, computed from their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.rows import column_at
from skipstone.ir.types import Kind, Leaf


@dataclass(slots=True)
class Figures:
    """The figures of one column in one container.

    Attributes:
        nulls, nans, values: The numbers of NULL, of NaN, and of other values.
        low, high: The least and the greatest of the other values, as arrays of length 1; None if
            there is none, or if values of the type have no order.
    """

    nulls: int = 0
    nans: int = 0
    values: int = 0
    low: pa.Array | None = None
    high: pa.Array | None = None

    def add(self, values: pa.Array, leaf: Leaf) -> None:
        """Count more values of the column."""
        self.nulls += values.null_count
        if values.null_count == len(values):
            return
        if leaf.dtype.kind is Kind.FLOAT:
            is_nan = pc.is_nan(values)
            nans = int(pc.sum(is_nan).as_py() or 0)
            self.nans += nans
            if nans:
                values = pc.filter(values, pc.invert(is_nan))
        count = len(values) - values.null_count
        self.values += count
        if count and leaf.dtype.ordered:
            ends = pc.min_max(values)
            self.low = _merged("min", self.low, pa.repeat(ends["min"], 1))
            self.high = _merged("max", self.high, pa.repeat(ends["max"], 1))


@dataclass(slots=True)
class RowFigures:
    """The figures of one container.

    Attributes:
        rows: The number of rows.
        columns: The figures of each column, in the requested order.
    """

    rows: int = 0
    columns: list[Figures] = field(default_factory=list)


def figures_of(batches: Iterable[pa.RecordBatch], leaves: Sequence[Leaf]) -> RowFigures:
    """Return the figures of rows.

    Args:
        batches: The rows of one container.
        leaves: The columns, and fields of structs, to count.
    """
    found = RowFigures(columns=[Figures() for _ in leaves])
    for batch in batches:
        found.rows += batch.num_rows
        for figures, leaf in zip(found.columns, leaves, strict=True):
            figures.add(column_at(batch, leaf.path), leaf)
    return found


def _merged(which: str, known: pa.Array | None, other: pa.Array) -> pa.Array:
    """Return the least or the greatest value of two arrays of length 1, also of length 1."""
    if known is None:
        return other
    return pa.repeat(pc.min_max(pa.concat_arrays([known, other]))[which], 1)
