"""Count the rows in pages of lists and maps.

The headers of such pages count values, and an offset index only claims where rows begin. A row
begins at each repetition level of 0.

Source: Apache Parquet, "Encodings", "Run Length Encoding / Bit-Packing Hybrid".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.kernels.decode import footer_loops as at
from skipstone.kernels.decode import page_layout as layout

Bytes = npt.NDArray[np.uint8]
# Compressions by Parquet's number.
CODECS: Final = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
MAX_UNPACKED: Final = 1 << 28  # bytes of a page; a larger one is not decompressed here


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
        size = int.from_bytes(body[:4].tobytes(), "little")
        body = body[4 : 4 + size]
    return _new_rows(body, repeated.bit_length(), values)


def _new_rows(levels: Bytes, width: int, n: int) -> int | None:
    """Return the number of levels of 0 among n; None if they are damaged, or the first is not 0.

    Args:
        levels: Encoded levels; other bytes may follow.
        width: The bits of a level.
        n: The number of levels.
    """
    pos = done = zeros = 0
    while done < n:
        head = shift = 0
        while True:
            if pos >= len(levels) or shift > 56:
                return None
            byte = int(levels[pos])
            head |= (byte & 127) << shift
            pos, shift = pos + 1, shift + 7
            if byte < 128:
                break
        if head & 1:  # groups of eight
            count, nbytes = min((head >> 1) * 8, n - done), (head >> 1) * width
            bits = np.unpackbits(
                levels[pos : pos + nbytes], count=count * width, bitorder="little"
            ).reshape(count, width)
            if len(levels) - pos < (count * width + 7) // 8:
                return None
            is_zero = np.logical_not(np.logical_or.reduce(bits, axis=1))
        else:  # a repeated level
            count, nbytes = min(head >> 1, n - done), (width + 7) // 8
            is_zero = np.full(1, not levels[pos : pos + nbytes].any())
            if len(levels) - pos < nbytes:
                return None
        if not count or not (done or is_zero[0]):
            return None
        zeros += int(np.count_nonzero(is_zero)) * (1 if head & 1 else count)
        pos, done = pos + nbytes, done + count
    return zeros
