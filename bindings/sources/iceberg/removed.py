"""Which rows of a file delete files take.

Source: Iceberg's specification, "Delete Formats"; of deletion vectors, Puffin's, "deletion-vector-v1".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.sources.bitmaps import FRAME, rows_of, unframed
from skipstone.bindings.sources.iceberg.deletes import Delete
from skipstone.ir.errors import SourceError

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


def deleted_positions(paths: pa.Array, places: pa.Array, path: str) -> Positions:
    """The rows of one file that a position delete file names, int64, in no order."""
    return np.asarray(places.filter(pc.equal(paths, path)), np.int64)


def vector_positions(storage: Any, d: Delete) -> Positions:
    """The rows that a deletion vector names, int64, ascending.

    Args:
        storage: pyiceberg's FileIO.
        d: Which vector.

    Raises:
        SourceError: it is missing or damaged.
    """
    name = f"{d.path}: the deletion vector of {d.target}"
    try:
        with storage.new_input(d.path).open() as f:
            f.seek(d.offset)
            whole = f.read(d.length)
    except (OSError, ValueError) as e:
        raise SourceError(f"{name} cannot be read ({e})") from e
    return rows_of(unframed(whole, d.length - FRAME, name), d.rows, name)


def equal_rows(own: Sequence[pa.Array], deleted: Sequence[pa.Array]) -> Mask:
    """Which rows have the values of some row of an equality delete; NULL equals NULL, and NaN NaN.

    Args:
        own: The compared columns of a file, of one length.
        deleted: The same columns of the delete file.
    """
    n, m = len(own[0]), len(deleted[0])
    codes = np.zeros(n + m, np.int64)
    for mine, theirs in zip(own, deleted, strict=True):
        both = (
            pa.chunked_array([mine, theirs])
            .combine_chunks()
            .dictionary_encode(null_encoding="encode")
        )
        # Columns are joined one after the other, so that numbers of pairs stay below the number of rows.
        pairs = codes * (len(both.dictionary) + 1) + np.asarray(
            both.indices.to_numpy(zero_copy_only=False), np.int64
        )
        codes = np.unique(pairs, return_inverse=True)[1]
    return np.isin(codes[:n], codes[n:])
