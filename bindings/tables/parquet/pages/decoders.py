"""Decode Parquet files in memory: by Arrow, or by Polars, which is faster on many pages.

Both give the same values for the types that are read by pages (leaf_types.py).
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.plans.readers import ReaderName, has_polars
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.pages.leaf_types import INT96
from skipstone.bindings.tables.parquet.pages.page_file import PageFile
from skipstone.bindings.tables.parquet.pages.polars_filter import is_pattern
from skipstone.bindings.tables.table_columns import is_misread
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of
from skipstone.ir.errors import describe_error
from skipstone.kernels import logs
from skipstone.kernels.decode.page_layout import are_sound
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run.forks import is_inherited
from skipstone.kernels.run.pool import ContextPool, threads

if TYPE_CHECKING:
    from polars import DataFrame, Expr

# Minimum bytes for which Polars beats Arrow: it takes 0.3 ms to start, but less for each value.
POLARS_FROM: Final = 1 << 18
# Once a process has decoded this many bytes, Polars is worth its import, which takes 60 to 190 ms.
IMPORT_FROM: Final = 1 << 28
# Rows are gathered by position if at most one in `SPARSE` is kept.
SPARSE: Final = 64
# Chunks of fewer rows than this, on average, are joined: Polars takes 20 us to hand over each, and
# joins and filters take 0.5 ms for each batch.
FEW_ROWS: Final = 1 << 14
# From this many bytes on, Arrow decodes several row groups on several threads.
PARALLEL_BYTES: Final = 1 << 22
_decoded = 0


class Decoded(Protocol):
    """Columns of a file in memory: all rows, or those that its mask keeps."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        ...

    def select(self, names: Sequence[str], keep: Mask | None) -> pa.Table:
        """Return columns, or the rows of them that the mask keeps."""
        ...


class ArrowColumns:
    """Columns that Arrow decoded."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.rows = int(table.num_rows)

    @staticmethod
    def of(file: PageFile, dictionaries: Collection[str] = ()) -> ArrowColumns:
        """Decode a file; return text columns as dictionaries where requested."""
        found = _by_arrow(file, dictionaries)
        for name in file.int96:
            at = file.names.index(name)
            found = found.set_column(at, name, _in_utc(found.column(name)))
        return ArrowColumns(found if file.keep is None else pc.filter(found, arrow_of(file.keep)))

    def select(self, names: Sequence[str], keep: Mask | None) -> pa.Table:
        """Return columns, or the rows of them that the mask keeps."""
        columns = self._table.select(list(names))
        return columns if keep is None else pc.filter(columns, arrow_of(keep))


class PolarsColumns:
    """Columns that Polars decoded.

    Args:
        frame: A `polars.DataFrame`.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self.rows = int(frame.height)

    @staticmethod
    def all_of(files: Sequence[PageFile]) -> list[PolarsColumns]:
        """Decode several files together."""
        import polars as pl

        scans = []
        for file in files:
            scan = pl.scan_parquet(file.data, use_statistics=False)
            if file.mask is not None:
                scan = scan.filter(pl.col(file.mask))  # pushed into the other columns' decoder
            scans.append(scan.select(file.names))
        frames = [scans[0].collect()] if len(scans) == 1 else pl.collect_all(scans)
        return [
            PolarsColumns(frame.rechunk() if frame.height < frame.n_chunks() * FEW_ROWS else frame)
            for frame in frames
        ]

    def select(self, names: Sequence[str], keep: Mask | None) -> pa.Table:
        """Return columns, or the rows of them that the mask keeps."""

        columns = self._frame.select(names)
        if keep is None:
            return columns.to_arrow()
        few = int(np.count_nonzero(keep)) * SPARSE < len(keep)
        return (columns[np.flatnonzero(keep)] if few else columns.filter(keep)).to_arrow()


def decode(
    files: Sequence[PageFile], reader: ReaderName, dictionaries: Collection[str] = ()
) -> list[Decoded]:
    """Decode files in memory.

    Args:
        files: The files.
        reader: "polars" and "arrow" choose a decoder; "auto" chooses by size.
        dictionaries: Text columns to return as dictionaries, which Arrow decodes.

    Raises:
        BackendMissing: Polars was asked for and is not installed.
    """
    global _decoded
    out: dict[int, Decoded] = {}
    rest = []
    for i, file in enumerate(files):
        if (own := [name for name in file.names if name in dictionaries]) or file.int96:
            out[i] = ArrowColumns.of(file, own)
        else:
            rest.append(i)
    size = sum(files[i].unpacked for i in rest)
    if rest and uses_polars(size, reader):
        out.update(zip(rest, _by_polars([files[i] for i in rest]), strict=True))
    _decoded += size
    return [out[i] if i in out else ArrowColumns.of(file) for i, file in enumerate(files)]


def _by_arrow(file: PageFile, dictionaries: Collection[str]) -> pa.Table:
    """Decode a file with Arrow; times of type INT96 have no zone yet."""

    def opened(metadata: pq.FileMetaData | None) -> pq.ParquetFile:
        return pq.ParquetFile(
            pa.BufferReader(file.data),
            metadata=metadata,
            read_dictionary=list(dictionaries),
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
        )

    def read(groups: Sequence[int]) -> pa.Table:
        part = opened(whole.metadata)
        return part.read_row_groups(list(groups), list(file.names), use_threads=False)

    whole = opened(None)
    parts = min(threads(), whole.num_row_groups)
    if parts < 2 or file.unpacked < PARALLEL_BYTES:
        return whole.read(list(file.names), use_threads=False)
    edges = [whole.num_row_groups * i // parts for i in range(parts + 1)]
    with ContextPool(parts, "skipstone-decode") as pool:
        each = pool.map(read, map(range, edges[:-1], edges[1:]))
        return pa.concat_tables(list(each))


def _in_utc(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of type INT96 as TIMESTAMP.

    Raises:
        ValueError: Arrow misread one.
    """
    if is_misread(times):
        raise ValueError("a column of type INT96 holds times that Arrow misreads")
    return pc.cast(times, INT96)


def _by_polars(files: Sequence[PageFile]) -> Sequence[Decoded]:
    """Decode files with Polars; if it refuses one, let Arrow decode it or say what is damaged."""
    if not all(map(_is_sound, files)):
        return [ArrowColumns.of(file) for file in files]
    try:
        return PolarsColumns.all_of(files)
    except (ImportError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # its panics are not Exceptions
        return [ArrowColumns.of(file) for file in files]


class Matching(NamedTuple):
    """The rows of a file for which a condition is TRUE.

    Attributes:
        positions: Their numbers in the file, ascending.
        columns: Columns of these rows.
    """

    positions: Ints
    columns: PolarsColumns


def matching(file: PageFile, condition: Expr, names: Sequence[str]) -> Matching | None:
    """Decode the rows of a file, and of its mask, for which a condition is TRUE.

    Args:
        file: The file.
        condition: The condition; Polars pushes it into its decoder.
        names: The columns to return.

    Returns:
        The rows; None if Polars refuses the file, or returns impossible row numbers.
    """
    number = "row"
    while number in (*file.names, file.mask):
        number += "_"
    found = _collected(file, condition, names, number)
    if found is None:
        return None
    positions = found.get_column(number).to_numpy().astype(np.int64)
    rows = int(file.chunks[:: len(file.names), 2].sum())
    if len(positions) and (
        (np.diff(positions) <= 0).any()
        or positions[-1] >= rows
        or (file.keep is not None and not file.keep[positions].all())
    ):
        logs.fallback("rows are filtered after decoding: Polars numbered them wrongly")
        return None
    return Matching(positions, PolarsColumns(found.select(names)))


def _collected(
    file: PageFile, condition: Expr, names: Sequence[str], number: str
) -> DataFrame | None:
    """Return the rows for which a condition is TRUE, with their numbers, in one chunk.

    None means that Polars refuses the file.
    """
    import polars as pl

    if not _is_sound(file):
        return None
    if file.mask is not None:
        condition = pl.col(file.mask) & condition
    scan = pl.scan_parquet(file.data, use_statistics=False, row_index_name=number)
    try:
        return scan.filter(condition).select([number, *names]).collect().rechunk()
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # its panics are not Exceptions
        logs.fallback(f"rows are filtered after decoding: Polars refused ({describe_error(e)})")
        return None


def _is_sound(file: PageFile) -> bool:
    """Return True if Polars may see the headers of a file's pages, and the names of its columns."""
    if any(map(is_pattern, file.names)):
        return False
    return are_sound(np.frombuffer(file.data, np.uint8), file.chunks)


def uses_polars(size: int, reader: ReaderName) -> bool:
    """Return True if Polars is to decode pages.

    It never does so in a process that was forked after it was imported: it would wait forever for
    its threads, which do not exist there.

    Args:
        size: Their bytes after decompression.
        reader: The reader that was asked for.
    """
    if is_inherited("polars"):
        return False
    if reader != "auto":
        return reader == "polars"
    return size >= POLARS_FROM and (
        "polars" in sys.modules or (_decoded + size >= IMPORT_FROM and has_polars())
    )
