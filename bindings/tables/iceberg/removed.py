"""Find the rows of a file that deletes remove.

Source: Iceberg's specification, "Delete Formats"; for deletion vectors Puffin's,
"deletion-vector-v1".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.tables.bitmaps import FRAME, framed, rows_of
from skipstone.bindings.tables.iceberg.deletes import Delete
from skipstone.bindings.tables.row_ranges import RowRanges
from skipstone.ir import compute as pc
from skipstone.ir.arrow import int64_of
from skipstone.ir.errors import MAX_PATH, SourceError, clip, describe_error

Mask = npt.NDArray[np.bool_]
MAX_ROW: Final = (1 << 63) - 2


def deleted_positions(paths: pa.Array, numbers: pa.Array, path: str, name: str) -> RowRanges:
    """Return the rows of one data file that a position delete file names.

    Args:
        paths: The delete file's column of data files.
        numbers: Its column of row numbers.
        path: The data file.
        name: The delete file, for errors.

    Raises:
        SourceError: a row number is missing, negative or too large.
    """
    found = pc.filter(numbers, pc.equal(paths, path))
    least, most = pc.min_max(found).values()
    if found.null_count or (len(found) and not 0 <= least.as_py() <= most.as_py() <= MAX_ROW):
        raise SourceError(f"{name}: it deletes a row of {path} whose number is missing or negative")
    return RowRanges.at(int64_of(found))


def vector_positions(storage: Any, d: Delete, rows: int) -> RowRanges:
    """Return the rows that a deletion vector names.

    Args:
        storage: pyiceberg's FileIO.
        d: The vector.
        rows: The rows of its data file; -1 is unknown.

    Raises:
        SourceError: the vector is missing or damaged, or names a row that the file does not have.
    """
    name = f"{clip(d.path, MAX_PATH)}: the deletion vector of {clip(str(d.target), MAX_PATH)}"
    try:
        with storage.new_input(d.path).open() as f:
            data = framed(f, d.offset, d.length - FRAME, name)
    except SourceError:
        raise
    except (OSError, ValueError, pa.ArrowException) as e:
        raise SourceError(f"{name} cannot be read ({describe_error(e)})") from e
    found = rows_of(data, d.rows, name)
    if 0 <= rows < found.stop:  # plans subtract the vector's cardinality from the file's rows
        raise SourceError(f"{name} names row {found.stop - 1}; the file has {rows} rows")
    return found


def equal_rows(own: Sequence[pa.Array], deleted: Sequence[pa.Array]) -> Mask:
    """Return the rows whose values equal those of some row of an equality delete.

    NULL equals NULL, and NaN equals NaN.

    Args:
        own: The compared columns of the data file, of one length.
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
        # Columns are combined one by one, so that pairs are numbered below the number of rows.
        pairs = codes * (len(both.dictionary) + 1) + int64_of(both.indices)
        codes = np.unique(pairs, return_inverse=True)[1]
    return np.isin(codes[:n], codes[n:])
