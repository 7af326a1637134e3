"""Decode the deletion vectors that Delta and Iceberg share: framed Roaring bitmaps of row numbers.

A vector is decoded to ranges of rows, because 56 KB may name 262 million rows and pyroaring would
return these one by one.

Source: Delta's PROTOCOL.md, "Deletion Vector Format"; Puffin's specification, "deletion-vector-v1";
RoaringFormatSpec, "64-bit extension".
"""

from __future__ import annotations

import contextlib
import struct
import threading
import zlib
from collections.abc import Callable, Hashable
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.row_ranges import Longs, RowRanges
from skipstone.ir.errors import SourceError, describe_error
from skipstone.kernels.run import forks

MAGIC: Final = 1681511377
FRAME: Final = 8  # bytes around a vector: its length before, a checksum after
COOKIE_RUNS, COOKIE_NO_RUNS = 12347, 12346  # of 32-bit bitmaps
MIN_OFFSETS: Final = 4  # containers; a bitmap with runs stores offsets if it has as many or more
MAX_LISTED: Final = 4096  # values that a container stores as a list; more are stored as bits
CONTAINER_VALUES: Final = 1 << 16
BITSET_BYTES: Final = CONTAINER_VALUES // 8
MAX_KEY: Final = (1 << 31) - 1  # exclusive limit of a row number's upper half, as in Delta Lake


def unframed(whole: bytes, size: int, name: str) -> bytes:
    """Return the vector inside a frame.

    Args:
        whole: The frame; it has `size` + FRAME bytes unless it is truncated.
        size: The vector's length in bytes, from the table's metadata.
        name: A name of the vector for error messages.

    Raises:
        SourceError: the frame's length or checksum does not match the vector.
    """
    data = whole[4 : 4 + size]
    if (
        size < 4
        or len(whole) != size + FRAME
        or struct.unpack_from(">i", whole)[0] != size
        or struct.unpack_from(">I", whole, 4 + size)[0] != zlib.crc32(data)
    ):
        raise SourceError(
            f"{name} is damaged: its length or checksum differs from the table's metadata"
        )
    return data


class VectorFiles:
    """Files that hold deletion vectors; each stays open until the `with` block ends.

    One file holds the vectors of many data files. Threads may share an object of this class.
    """

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._opened: dict[Hashable, Ranges] = {}
        self._lock, self._locks = forks.lock(), dict[Hashable, threading.Lock]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def framed(
        self,
        key: Hashable,
        open_file: Callable[[], Any],
        offset: Any,
        size: Any,
        name: str,
        *,
        local: bool,
    ) -> bytes:
        """Read a framed vector.

        Args:
            key: What tells its file from files of all file systems.
            open_file: Opens the file, which must be seekable.
            offset: The position of the frame in bytes.
            size: The vector's length in bytes, from the table's metadata.
            name: A name of the vector for error messages.
            local: True if the file is a local one.

        Raises:
            SourceError: the file is too short, or the frame does not match the vector.
            OSError: the file cannot be read.
        """
        with self._lock:
            lock = self._locks.setdefault(key, forks.lock())
        with lock:  # other files are read meanwhile
            ranges = self._opened.get(key)
            if ranges is None:
                source = self._stack.enter_context(open_file())
                native = source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, "r")
                ranges = self._opened[key] = Ranges(native, local)
            if not 0 <= offset <= ranges.size or not 4 <= size <= ranges.size - offset - FRAME:
                raise SourceError(
                    f"{name} is damaged: the table says that {size} bytes lie at {offset}; "
                    f"the file has {ranges.size} bytes"
                )
            return unframed(ranges.read_at(size + FRAME, offset), size, name)


def rows_of(data: bytes, count: int, name: str) -> RowRanges:
    """Decode a vector; time and memory follow the number of bytes, not of rows.

    Args:
        data: The vector.
        count: The number of rows in the vector, from the table's metadata.
        name: A name of the vector for error messages.

    Raises:
        SourceError: the data is not a vector, or has another number of rows.

    Example:
        >>> one = struct.pack("<iQIIIHHIH", MAGIC, 1, 0, COOKIE_NO_RUNS, 1, 0, 0, 16, 7)
        >>> rows_of(one, 1, "an example").starts
        array([7])
    """
    if len(data) < 4 or struct.unpack_from("<i", data)[0] != MAGIC:
        raise SourceError(
            f"{name} does not begin with {MAGIC}; expected a serialised RoaringBitmapArray"
        )
    try:
        rows = _BitmapReader(data).bitmaps()
    except (ValueError, struct.error) as e:
        raise SourceError(f"{name} is not a Roaring bitmap ({describe_error(e)})") from e
    if rows.count != count:
        raise SourceError(f"{name} names {rows.count} rows; the table says {count}")
    return rows


class _BitmapReader:
    """Parser of a vector; raises ValueError or struct.error for malformed bytes.

    It locates the containers one by one, then decodes all lists together and all runs together.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 4  # after MAGIC
        # Per container: the first row of its range, its position in the data, and the number of
        # values or runs.
        self.lists: list[tuple[int, int, int]] = []
        self.runs: list[tuple[int, int, int]] = []
        self.bits: list[tuple[int, int, int]] = []

    def bitmaps(self) -> RowRanges:
        """Read one bitmap for each value of the upper 32 bits."""
        last = -1
        for _ in range(self._number("<Q", 8)):
            key = self._number("<I", 4)
            if not last < key < MAX_KEY:
                raise ValueError("its keys do not ascend, or a row number is beyond 2^63")
            self._bitmap(key << 32)
            last = key
        parts = [self._lists(), self._runs(), *(self._bits(*one) for one in self.bits)]
        starts, stops = zip(*parts, strict=True)
        return RowRanges.of(np.concatenate(starts), np.concatenate(stops))

    def _bitmap(self, base: int) -> None:
        cookie, flags = self._number("<I", 4), b""
        if cookie & 0xFFFF == COOKIE_RUNS:
            n = (cookie >> 16) + 1
            flags = self.data[self._skip((n + 7) // 8) : self.at]
        elif cookie == COOKIE_NO_RUNS:
            n = self._number("<I", 4)
        else:
            raise ValueError(f"its cookie is {cookie}; expected {COOKIE_RUNS} or {COOKIE_NO_RUNS}")
        head = struct.iter_unpack("<HH", self.data[self._skip(4 * n) : self.at])
        if not flags or n >= MIN_OFFSETS:
            self._skip(4 * n)  # offsets are not needed: containers follow one another
        last = -1
        for i, (key, fewer) in enumerate(head):
            if key <= last:
                raise ValueError("its containers do not ascend")
            first, last = base + key * CONTAINER_VALUES, key
            if flags and flags[i >> 3] >> (i & 7) & 1:
                runs = self._number("<H", 2)
                self.runs.append((first, self._skip(4 * runs), runs))
            elif fewer < MAX_LISTED:
                self.lists.append((first, self._skip(2 * fewer + 2), fewer + 1))
            else:
                self.bits.append((first, self._skip(BITSET_BYTES), fewer + 1))

    def _lists(self) -> tuple[Longs, Longs]:
        values, bases = self._gather(self.lists, 1)
        rows = values[:, 0] + bases
        if (np.diff(rows) <= 0).any():
            raise ValueError("its values do not ascend")
        return rows, rows + 1

    def _runs(self) -> tuple[Longs, Longs]:
        pairs, bases = self._gather(self.runs, 2)
        starts, stops = pairs[:, 0] + bases, pairs.sum(1) + bases + 1
        if (starts[1:] < stops[:-1]).any() or (stops > bases + CONTAINER_VALUES).any():
            raise ValueError("its runs overlap, or pass the end of their container")
        return starts, stops

    def _bits(self, base: int, at: int, count: int) -> tuple[Longs, Longs]:
        bits = np.unpackbits(
            np.frombuffer(self.data, np.uint8, BITSET_BYTES, at), bitorder="little"
        ).astype(np.int8)
        if int(bits.sum(dtype=np.int64)) != count:
            raise ValueError("the number of bits set in a container differs from its stated count")
        edges = np.diff(bits, prepend=np.int8(0), append=np.int8(0))
        return np.flatnonzero(edges == 1) + base, np.flatnonzero(edges == -1) + base

    def _gather(self, containers: list[tuple[int, int, int]], width: int) -> tuple[Longs, Longs]:
        """Return the containers' numbers, int64, shape (n, width), and the base of each row."""
        data = b"".join(self.data[at : at + 2 * width * n] for _, at, n in containers)
        numbers = np.frombuffer(data, "<u2").astype(np.int64).reshape(-1, width)
        bases = np.array([base for base, _, _ in containers], np.int64)
        return numbers, np.repeat(bases, [n for _, _, n in containers])

    def _number(self, code: str, size: int) -> int:
        (value,) = struct.unpack_from(code, self.data, self._skip(size))
        return int(value)

    def _skip(self, size: int) -> int:
        """Move past `size` bytes and return the position where they start."""
        if size > len(self.data) - self.at:
            raise ValueError("it is cut off")
        self.at += size
        return self.at - size
