"""Find the rows of a table that describe listed files, if the files are still the same."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc

Rows: TypeAlias = npt.NDArray[np.int64]
NO_ROW: Final = -1


def rows_named(names: pa.Array, among: pa.Array | pa.ChunkedArray) -> Rows:
    """Return the position of each name among others; NO_ROW if it is not there."""
    return np.asarray(pc.index_in(names, value_set=among).fill_null(NO_ROW), np.int64)


def where_equal(rows: Rows, own: Rows, described: pa.ChunkedArray | Rows) -> Rows:
    """Return the rows that have the same number as their file; NO_ROW elsewhere.

    Args:
        rows: The row of each file; NO_ROW if there is none.
        own: A number of each file, such as its size.
        described: The same number of each row.
    """
    if isinstance(described, pa.ChunkedArray):
        described = np.asarray(described.fill_null(NO_ROW), np.int64)
    same = np.zeros(len(rows), np.bool_)
    known = rows != NO_ROW
    same[known] = described[rows[known]] == own[known]
    return np.where(same, rows, NO_ROW)
