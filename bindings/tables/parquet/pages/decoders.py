"""Decode Parquet files in memory: by Arrow, or by Polars, which is faster on many pages.

Both give the same values for the types that pages are read of (leaf_types.py).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.plans.readers import ReaderName, has_polars

Mask = npt.NDArray[np.bool_]
# Bytes from which Polars is faster than Arrow: it takes 0.3 ms to begin, and less for each value.
POLARS_FROM: Final = 1 << 18
# Bytes from which Polars is worth its import, which takes some 60 ms.
IMPORT_FROM: Final = 1 << 25


class Decoded(Protocol):
    """Columns of a file in memory."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    def select(self, names: Sequence[str], keep: Mask | None) -> pa.Table:
        """Return columns, or the rows of them that the mask keeps."""
        ...


class ArrowColumns:
    """Columns that Arrow decoded."""

    def __init__(self, data: bytes, dictionaries: Collection[str] = ()) -> None:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(dictionaries))
        self._table = file.read(use_threads=False)
        self.rows = int(self._table.num_rows)

    def select(self, names: Sequence[str], keep: Mask | None) -> pa.Table:
        """Return columns, or the rows of them that the mask keeps."""
        columns = self._table.select(list(names))
        return columns if keep is None else columns.filter(pa.array(keep))


class PolarsColumns:
    """Columns that Polars decoded."""

    def __init__(self, data: bytes) -> None:
        import polars as pl

        self._frame = pl.read_parquet(data, use_statistics=False)
        self.rows = int(self._frame.height)

    def select(self, names: Sequence[str], keep: Mask | None) -> pa.Table:
        """Return columns, or the rows of them that the mask keeps."""
        import polars as pl

        columns = self._frame.select(names)
        return (columns if keep is None else columns.filter(pl.Series(keep))).to_arrow()


def decode(
    data: bytes, size: int, reader: ReaderName, dictionaries: Collection[str] = ()
) -> Decoded:
    """Decode a file in memory.

    Args:
        data: The file.
        size: The approximate size of its columns and dictionaries once decoded, in bytes.
        reader: "polars" and "arrow" choose a decoder; "auto" chooses by size.
        dictionaries: Text columns to return as dictionaries, if Arrow decodes them.

    Raises:
        BackendMissing: Polars was asked for and is not installed.
    """
    if dictionaries or not _uses_polars(size, reader):
        return ArrowColumns(data, dictionaries)
    try:
        return PolarsColumns(data)
    except (ImportError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # its panics are no Exception
        return ArrowColumns(data)  # Arrow decides what is damaged


def _uses_polars(size: int, reader: ReaderName) -> bool:
    if reader != "auto":
        return reader == "polars"
    if size < POLARS_FROM:
        return False
    return "polars" in sys.modules or (size >= IMPORT_FROM and has_polars())
