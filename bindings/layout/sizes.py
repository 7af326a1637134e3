"""Predict how well rows compress in an order: values that repeat from row to row take no room.

If a table is sorted by the number of an order, the rows of one order are neighbours, so its
customer, address and time repeat. A sample has few neighbours, but it has pairs of rows with equal
keys, which show which columns depend on the keys.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.layout.filters import distinct_of
from skipstone.bindings.layout.rows import Rows
from skipstone.ir.node import Path

MIN_PAIRS: Final = 30  # pairs of rows with equal keys that tell how often a column repeats


def relative_size(
    rows: Rows, order: npt.NDArray[np.int64], keys: tuple[Path, ...], columns: int
) -> float:
    """Return the predicted size of a table in an order, relative to that without any repetition.

    Args:
        rows: A sample of the table's rows.
        order: The order of the rows, in which rows with equal keys are neighbours.
        keys: The columns that the order is by.
        columns: The number of the table's columns. Those that the sample lacks are assumed to
            compress equally in any order.
    """
    if rows.count < 2 or not keys:
        return 1.0
    equal = np.ones(rows.count - 1, np.bool_)
    for path in keys:
        equal &= _repeats(rows, path, order)
    total = rows.count / max(rows.fraction, 1e-12)
    lengths = np.diff(np.r_[0, np.flatnonzero(~equal) + 1, rows.count])
    distinct = min(distinct_of(lengths, rows.fraction), total)
    same = 1.0 - distinct / total  # how often a row of the table has the key of the one before it
    bits, left = [], []
    for path, column in rows.columns.items():
        repeats = _repeats(rows, path, order)
        apart = float(repeats[~equal].mean()) if not equal.all() else 0.0
        together = float(repeats[equal].mean()) if equal.sum() >= MIN_PAIRS else apart
        bits.append(float(np.log2(len(column.values) + 2)))
        left.append(bits[-1] * (1.0 - same * together - (1.0 - same) * apart))
    others = max(columns - len(bits), 0) * sum(bits) / len(bits)
    return (sum(left) + others) / (sum(bits) + others)


def _repeats(rows: Rows, path: Path, order: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    codes = rows.columns[path].codes[order]
    return np.asarray(codes[1:] == codes[:-1], np.bool_)
