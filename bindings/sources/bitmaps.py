"""Deletion vectors as Delta and Iceberg store them alike: numbers of rows, as Roaring bitmaps, in a frame of length and checksum.

Source: Delta's PROTOCOL.md, "Deletion Vector Format"; Puffin's specification, "deletion-vector-v1".
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import SourceError

MAGIC: Final = 1681511377
FRAME: Final = 8  # bytes around a vector: its length before, a checksum after


def unframed(whole: bytes, size: int, name: str) -> bytes:
    """The vector in a frame.

    Args:
        whole: Of `size` + FRAME bytes, if nothing is missing.
        size: The vector's bytes, as the table says.
        name: The vector, for errors.

    Raises:
        SourceError: the frame is not one of this vector.
    """
    data = whole[4 : 4 + size]
    if (
        size < 4
        or len(whole) != size + FRAME
        or struct.unpack_from(">i", whole)[0] != size
        or struct.unpack_from(">I", whole, 4 + size)[0] != zlib.crc32(data)
    ):
        raise SourceError(f"{name} is damaged: its length or checksum is not what the table says")
    return data


def rows_of(data: bytes, count: int, name: str) -> npt.NDArray[np.int64]:
    """Numbers of rows, int64, ascending.

    Args:
        data: The vector.
        count: How many there are, as the table says.
        name: The vector, for errors.

    Raises:
        SourceError: it is no vector, or names another number of rows; the package pyroaring is not there.
    """
    try:
        from pyroaring import BitMap64
    except ModuleNotFoundError as e:
        raise SourceError(
            "reading files with deletion vectors needs the package pyroaring; pip install 'skipstone[delta]'"
        ) from e
    if len(data) < 4 or struct.unpack_from("<i", data)[0] != MAGIC:
        raise SourceError(
            f"{name} does not begin with {MAGIC}; expected a serialised RoaringBitmapArray"
        )
    try:
        found = BitMap64.deserialize(data[4:])
    except ValueError as e:
        raise SourceError(f"{name} is no Roaring bitmap ({e})") from e
    if len(found) != count:
        raise SourceError(f"{name} names {len(found)} rows; the table says {count}")
    return np.fromiter(found, np.int64, len(found))
