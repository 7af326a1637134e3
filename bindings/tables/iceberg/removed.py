"""Find the rows of a file that deletes remove.

Source: Iceberg's specification, "Delete Formats"; Puffin's specification, "deletion-vector-v1".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.bitmaps import FRAME, VectorFiles, rows_of
from skipstone.bindings.tables.iceberg.deletes import Delete
from skipstone.bindings.tables.iceberg.file_task import is_local_path
from skipstone.bindings.tables.row_ranges import RowRanges
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, int64_of
from skipstone.ir.errors import MAX_PATH, SourceError, clip, describe_error
from skipstone.kernels.pack.planes import Mask

MAX_ROW: Final = (1 << 63) - 2


def numbers_by_path(paths: pa.Array, numbers: pa.Array) -> dict[str, pa.Array]:
    """Return the row numbers of a position delete file, by the data file that they belong to.

    Args:
        paths: The delete file's column of data files.
        numbers: Its column of row numbers.

    Example:
        >>> found = numbers_by_path(pa.array(["b", "a", "b"]), pa.array([5, 0, 2]))
        >>> {path: rows.to_pylist() for path, rows in found.items()}
        {'b': [5, 2], 'a': [0]}
    """
    encoded = paths.dictionary_encode()
    known = encoded.dictionary.to_pylist()
    codes = int64_of(pc.fill_null(encoded.indices, len(known)))
    if (np.diff(codes) < 0).any():  # the specification says that they are sorted by path
        order = np.argsort(codes, kind="stable")
        codes, numbers = codes[order], pc.take(numbers, arrow_of(order))
    starts = np.searchsorted(codes, np.arange(len(known) + 1)).tolist()
    return {
        path: numbers.slice(start, stop - start)
        for path, start, stop in zip(known, starts[:-1], starts[1:], strict=True)
    }


def deleted_positions(found: pa.Array, path: str, name: str) -> RowRanges:
    """Return the rows of one data file that a position delete file names.

    Args:
        found: The row numbers.
        path: The data file.
        name: The delete file, for errors.

    Raises:
        SourceError: a row number is missing, negative or too large.
    """
    least, most = pc.min_max(found).values()
    if found.null_count or (len(found) and not 0 <= least.as_py() <= most.as_py() <= MAX_ROW):
        raise SourceError(f"{name}: it deletes a row of {path} whose number is missing or negative")
    return RowRanges.at(int64_of(found))


def vector_positions(storage: Any, vector: Delete, files: VectorFiles, rows: int) -> RowRanges:
    """Return the rows that a deletion vector names.

    Args:
        storage: pyiceberg's FileIO.
        vector: The vector.
        files: The open files of vectors.
        rows: The rows of its data file; -1 is unknown.

    Raises:
        SourceError: the vector is missing or damaged, or names a row that the file does not have.
    """
    target = clip(str(vector.target), MAX_PATH)
    name = f"{clip(vector.path, MAX_PATH)}: the deletion vector of {target}"
    try:
        open_file = storage.new_input(vector.path).open
        size, local = vector.length - FRAME, is_local_path(vector.path)
        data = files.framed(vector.path, open_file, vector.offset, size, name, local=local)
    except SourceError:
        raise
    except (OSError, ValueError, pa.ArrowException) as e:
        raise SourceError(f"{name} cannot be read ({describe_error(e)})") from e
    found = rows_of(data, vector.rows, name)
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
