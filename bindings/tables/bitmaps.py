"""Deletion vectors as Delta and Iceberg store them alike: Roaring bitmaps of row numbers in a frame.

They are decoded here, to ranges: pyroaring gives out rows one by one, and 56 KB may name 262 million.

Source: Delta's PROTOCOL.md, "Deletion Vector Format"; Puffin's specification, "deletion-vector-v1";
RoaringFormatSpec, "64-bit extension".
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np

from skipstone.bindings.tables.row_ranges import Longs, RowRanges
from skipstone.ir.errors import SourceError

MAGIC: Final = 1681511377
FRAME: Final = 8  # bytes around a vector: its length before, a checksum after
RUNS, NO_RUNS = 12347, 12346  # cookies of 32-bit bitmaps
OFFSETS_FROM: Final = 4  # containers, from which on a bitmap with runs has offsets
SPARSE: Final = 4096  # values that a container lists, at most; more are bits
WORD: Final = 1 << 16  # values of a container
BITS: Final = WORD // 8  # bytes of a container of bits
LAST: Final = (1 << 31) - 1  # upper half of a row number that no row has, as in Delta Lake


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


def framed(source: Any, offset: Any, size: Any, name: str) -> bytes:
    """Read a vector and its frame from a file.

    Args:
        source: The file, which can be sought.
        offset: Where the frame starts.
        size: The vector's bytes, as the table says.
        name: The vector, for errors.

    Raises:
        SourceError: the file is too short, or the frame is not one of this vector.
    """
    end = source.seek(0, 2)
    if not 0 <= offset <= end or not 4 <= size <= end - offset - FRAME:
        raise SourceError(
            f"{name} is damaged: the table says that {size} bytes lie at {offset}; the file has {end}"
        )
    source.seek(offset)
    return unframed(bytes(source.read(size + FRAME)), size, name)


def rows_of(data: bytes, count: int, name: str) -> RowRanges:
    """Decode a vector, at a cost of its bytes.

    Args:
        data: The vector.
        count: How many rows it names, as the table says.
        name: The vector, for errors.

    Raises:
        SourceError: it is no vector, or names another number of rows.

    Example:
        >>> one = struct.pack("<iQIIIHHIH", MAGIC, 1, 0, NO_RUNS, 1, 0, 0, 16, 7)
        >>> rows_of(one, 1, "an example").starts
        array([7])
    """
    if len(data) < 4 or struct.unpack_from("<i", data)[0] != MAGIC:
        raise SourceError(
            f"{name} does not begin with {MAGIC}; expected a serialised RoaringBitmapArray"
        )
    try:
        found = _Reader(data, 4).bitmaps()
    except (ValueError, struct.error) as e:
        raise SourceError(f"{name} is no Roaring bitmap ({e})") from e
    if found.count != count:
        raise SourceError(f"{name} names {found.count} rows; the table says {count}")
    return found


class _Reader:
    """Reads a serialised bitmap; raises ValueError or struct.error where it is none.

    Containers are found one by one; all lists are decoded together, and so are all runs.
    """

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        # The first row that a container may name, where it lies, and how many values or runs.
        self.lists: list[tuple[int, int, int]] = []
        self.runs: list[tuple[int, int, int]] = []
        self.bits: list[tuple[int, int, int]] = []

    def bitmaps(self) -> RowRanges:
        """Read a bitmap for each value of the upper 32 bits."""
        last = -1
        for _ in range(self._number("<Q", 8)):
            key = self._number("<I", 4)
            if not last < key < LAST:
                raise ValueError("its keys do not ascend, or a row number is beyond 2^63")
            self._bitmap(key << 32)
            last = key
        parts = [self._lists(), self._runs(), *(self._bits(*one) for one in self.bits)]
        starts, stops = zip(*parts, strict=True)
        return RowRanges.of(np.concatenate(starts), np.concatenate(stops))

    def _bitmap(self, base: int) -> None:
        cookie, flags = self._number("<I", 4), b""
        if cookie & 0xFFFF == RUNS:
            n = (cookie >> 16) + 1
            flags = self.data[self._skip((n + 7) // 8) : self.at]
        elif cookie == NO_RUNS:
            n = self._number("<I", 4)
        else:
            raise ValueError(f"its cookie is {cookie}; expected {RUNS} or {NO_RUNS}")
        head = struct.iter_unpack("<HH", self.data[self._skip(4 * n) : self.at])
        if not flags or n >= OFFSETS_FROM:
            self._skip(4 * n)  # offsets: containers lie one after the other
        last = -1
        for i, (key, fewer) in enumerate(head):
            if key <= last:
                raise ValueError("its containers do not ascend")
            first, last = base + key * WORD, key
            if flags and flags[i >> 3] >> (i & 7) & 1:
                runs = self._number("<H", 2)
                self.runs.append((first, self._skip(4 * runs), runs))
            elif fewer < SPARSE:
                self.lists.append((first, self._skip(2 * fewer + 2), fewer + 1))
            else:
                self.bits.append((first, self._skip(BITS), fewer + 1))

    def _lists(self) -> tuple[Longs, Longs]:
        values, bases = self._joined(self.lists, 1)
        rows = values[:, 0] + bases
        if (np.diff(rows) <= 0).any():
            raise ValueError("its values do not ascend")
        return rows, rows + 1

    def _runs(self) -> tuple[Longs, Longs]:
        pairs, bases = self._joined(self.runs, 2)
        starts, stops = pairs[:, 0] + bases, pairs.sum(1) + bases + 1
        if (starts[1:] < stops[:-1]).any() or (stops > bases + WORD).any():
            raise ValueError("its runs overlap, or pass the end of their container")
        return starts, stops

    def _bits(self, base: int, at: int, count: int) -> tuple[Longs, Longs]:
        bits = np.unpackbits(
            np.frombuffer(self.data, np.uint8, BITS, at), bitorder="little"
        ).astype(np.int8)
        if int(bits.sum(dtype=np.int64)) != count:
            raise ValueError("a container of bits has another number of them than it says")
        edges = np.diff(bits, prepend=np.int8(0), append=np.int8(0))
        return np.flatnonzero(edges == 1) + base, np.flatnonzero(edges == -1) + base

    def _joined(self, containers: list[tuple[int, int, int]], width: int) -> tuple[Longs, Longs]:
        """What containers hold, int64, `width` numbers in a row, and the base of each row."""
        data = b"".join(self.data[at : at + 2 * width * n] for _, at, n in containers)
        found = np.frombuffer(data, "<u2").astype(np.int64).reshape(-1, width)
        bases = np.array([base for base, _, _ in containers], np.int64)
        return found, np.repeat(bases, [n for _, _, n in containers])

    def _number(self, form: str, size: int) -> int:
        (found,) = struct.unpack_from(form, self.data, self._skip(size))
        return int(found)

    def _skip(self, size: int) -> int:
        """Where the next bytes lie."""
        if size > len(self.data) - self.at:
            raise ValueError("it is cut off")
        self.at += size
        return self.at - size
