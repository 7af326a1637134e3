"""Count the rows in pages of lists and maps.

The headers of such pages count values, and an offset index only claims where rows begin. A row
begins at each repetition level of 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import level_loops
from skipstone.kernels.decode import page_layout as layout
from skipstone.kernels.run.loops import PLAIN_SIZE, Loop, compiled_or_plain, compiled_or_start

COUNT_ZEROS: Final = Loop(level_loops, "count_zeros", "i8(readonly, i8, i8, i8, i8)")
Bytes = npt.NDArray[np.uint8]
# Compressions by Parquet's number.
CODECS: Final = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
MAX_UNPACKED: Final = 1 << 28  # bytes of a page; a larger one is not decompressed here


def can_count_rows(values: int) -> bool:
    """Return True if the rows of a chunk's pages can be counted without waiting for the compiler.

    Otherwise the loop is compiled in the background, for later reads.

    Args:
        values: The number of values in the chunk.
    """
    return values <= PLAIN_SIZE or compiled_or_start(COUNT_ZEROS)


def rows_in_page(data: Bytes, header: Ints, codec: int, repeated: int) -> int | None:
    """Return the number of rows in a page; None if that is not known.

    Args:
        data: The bytes that the header's positions count from.
        header: The slots of the page's header, shape (any,).
        codec: Parquet's number of the compression.
        repeated: The greatest repetition level of the column, at least 1.

    Returns:
        The number; None if the page is damaged, or does not begin with a new row.
    """
    kind, values, start, nbytes, unpacked = header[
        [at.TYPE, at.PAGE_VALUES, layout.STOP, at.BYTES, at.UNPACKED]
    ].tolist()
    body = data[start : start + nbytes]
    if kind == at.DATA_PAGE:
        if codec:
            if codec not in CODECS or not 0 <= unpacked <= MAX_UNPACKED:
                return None
            try:
                whole = pa.Codec(CODECS[codec]).decompress(pa.py_buffer(body), unpacked)
            except (OSError, pa.ArrowException):
                return None
            body = np.frombuffer(whole, np.uint8)
        start, stop = 4, 4 + int.from_bytes(body[:4].tobytes(), "little")
    else:
        start, stop = 0, len(body)
    count = compiled_or_plain(COUNT_ZEROS, min(values, PLAIN_SIZE))  # which never waits
    rows = count(body, start, min(stop, len(body)), repeated.bit_length(), values)
    return None if rows < 0 else rows
