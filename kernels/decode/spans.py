"""Copy spans of bytes into Arrow arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.arrow import bitmap
from skipstone.ir.errors import SourceError
from skipstone.kernels.decode import span_loops
from skipstone.kernels.run.loops import Loop, compiled_or_plain

GATHER: Final = Loop(span_loops, "gather", "i8(readonly, array, array, writable)")
Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]


def gathered(
    data: Bytes, starts: Longs, sizes: Longs, known: npt.NDArray[np.bool_] | None
) -> pa.BinaryArray:
    """Return spans of bytes as an Arrow array.

    Args:
        data: All bytes.
        starts: The first byte of each value, shape (n,); arbitrary if there is no value.
        sizes: The number of bytes of each value, shape (n,); arbitrary if there is no value.
        known: Mask of values; None means all.

    Raises:
        SourceError: the values take 2 GiB or more, or lie outside the data.
    """
    ends = np.cumsum(sizes if known is None else np.where(known, sizes, 0))
    total = int(ends[-1]) if len(ends) else 0
    if total >= 2**31:
        raise SourceError(f"its values take {total} bytes; expected less than 2 GiB")
    out = np.empty(total, np.uint8)
    gather = compiled_or_plain(GATHER, total + len(ends))
    if gather(data, np.ascontiguousarray(starts), ends, out) < 0:
        raise SourceError("a value lies outside its data")
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    buffers = [bitmap(known), pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers)
