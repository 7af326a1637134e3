"""The records of an Avro file as columns, which are made when they are requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.arrow import arrow_of
from skipstone.kernels.decode import avro_loops
from skipstone.kernels.decode.avro_loops import read_block_head, read_varint
from skipstone.kernels.decode.avro_program import WIDTHS, Program, Slot, Unsupported
from skipstone.kernels.decode.spans import Bytes, Longs, gathered
from skipstone.kernels.run.loops import Loop, compiled_or_plain

ENTRY_SHARE: Final = 8  # reading the records takes this many times as long as finding a key
ENTRIES: Final = Loop(
    avro_loops,
    "find_entries",
    "i8(readonly, array, i8, i8, array, array)",
    ("read_varint", "read_block_head"),
)


@dataclass(eq=False)
class Records:
    """The records of a file, host memory.

    Attributes:
        data: The unpacked bytes of all blocks; other bytes may lie between them.
        program: The program that read the records.
        slots: Its results, shape (slots, records).
        header: The file's metadata, including the schema and the codec.
    """

    data: Bytes
    program: Program
    slots: Longs
    header: Mapping[str, str]

    def __len__(self) -> int:
        return int(self.slots.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the data and the slots."""
        return int(self.data.nbytes + self.slots.nbytes)

    def field(self, number: int, *kinds: str) -> Slot | None:
        """Return the slots of a field; None if the schema lacks it.

        Raises:
            Unsupported: its type is none of `kinds`.
        """
        found = self.program.fields.get(number)
        if found is not None and found.kind not in kinds:
            raise Unsupported(
                f"the field {number} has type {found.kind}; expected {' or '.join(kinds)}"
            )
        return found

    def known(self, slot: Slot) -> npt.NDArray[np.bool_] | None:
        """Return the mask of records that have a value; None means all."""
        return None if slot.present is None else self.slots[slot.present] != 0

    def numbers(self, slot: Slot) -> pa.Array:
        """Return numbers, int64, null if missing."""
        known = self.known(slot)
        return arrow_of(self.slots[slot.at].copy(), known)

    def fixed(self, slot: Slot, dtype: str) -> npt.NDArray[Any]:
        """Return values of a fixed width as a NumPy type of that width; arbitrary if missing."""
        return fixed(self.data, self.slots[slot.at], self.known(slot), dtype)

    def texts(self, slot: Slot, rows: npt.NDArray[np.int64] | None = None) -> pa.BinaryArray:
        """Return the bytes of strings, bytes or fixed fields, null if missing.

        For all records, or for the given rows.
        """
        chosen = self.slots if rows is None else self.slots[:, rows]
        if slot.kind in ("string", "bytes"):
            sizes = chosen[slot.at + 1]
        else:
            sizes = np.full(chosen.shape[1], slot.width)
        return gathered(
            self.data,
            chosen[slot.at],
            sizes,
            None if slot.present is None else chosen[slot.present] != 0,
        )

    def items(self, slot: Slot, row: int) -> list[Any]:
        """Return the items of an array in one record.

        Items are numbers, bytes, lists, and records as dictionaries by field id.
        """
        with np.errstate(over="ignore"):
            return _array(self.data, int(self.slots[slot.at, row]), slot.described)[0]

    def entry(self, slot: Slot, key: int) -> Entry:
        """Return the values of a key in maps.

        Raises:
            Unsupported: the field is not a map with integer keys and values of numbers or bytes.
        """
        if slot.texts is None:
            raise Unsupported("the field is not a map of numbers or bytes")
        known, starts = self.known(slot), self.slots[slot.at]
        first = np.zeros(len(self), np.int64)
        second = np.full(len(self), -1 if slot.texts else 0, np.int64)
        starts = starts if known is None else np.where(known, starts, -1)
        find_entries = compiled_or_plain(ENTRIES, len(self.data) // ENTRY_SHARE)
        find_entries(self.data, starts, key, slot.texts, first, second)
        return Entry(self.data, first, second)


@dataclass(slots=True, eq=False)
class Entry:
    """The values of one key in the maps of n records.

    Attributes:
        data: The bytes that positions refer to.
        first: Numbers, or the starts of values' bytes; int64 of shape (n,).
        second: For numbers, 1, or 0 if missing. For bytes, their number, or -1 if missing.
    """

    data: Bytes
    first: Longs
    second: Longs

    def numbers(self) -> pa.Array:
        """Return numbers, int64, null if missing."""
        return arrow_of(self.first, self.second != 0)

    def texts(self) -> pa.BinaryArray:
        """Return bytes, null if missing."""
        return gathered(self.data, self.first, self.second, self.second >= 0)

    def of_width(self, dtype: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the values of a NumPy type's width, and their mask; other values are arbitrary."""
        known = self.second == np.dtype(dtype).itemsize
        return fixed(self.data, self.first, known, dtype), known


def fixed(
    data: Bytes, starts: Longs, known: npt.NDArray[np.bool_] | None, dtype: str
) -> npt.NDArray[Any]:
    """Return values of a fixed width that start at some bytes; arbitrary if not known."""
    width = np.dtype(dtype).itemsize
    at_bytes = starts if known is None else np.where(known, starts, 0)
    if len(data) < width:  # then none is known
        return np.zeros(len(starts), dtype)
    # A view of the value at every position, without a copy; only the positions that are used are
    # read.
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return np.ascontiguousarray(windows[at_bytes]).view(dtype).reshape(-1)


def _array(data: Bytes, pos: int, described: Any) -> tuple[list[Any], int]:
    """Read an array that `read_records` has accepted; return its items and its end."""
    out: list[Any] = []
    while True:
        count, pos = (int(v) for v in read_block_head(data, pos, len(data)))
        if not count:
            return out, pos
        for _ in range(count):
            value, pos = _value(data, pos, described["items"])
            out.append(value)


def _value(data: Bytes, pos: int, described: Any) -> tuple[Any, int]:
    if isinstance(described, list):
        branch, pos = (int(v) for v in read_varint(data, pos, len(data)))
        return (None, pos) if described[branch] == "null" else _value(data, pos, described[branch])
    kind = described["type"] if isinstance(described, dict) else described
    if kind == "record":
        out = {}
        for f in described["fields"]:
            out[f["field-id"]], pos = _value(data, pos, f["type"])
        return out, pos
    if kind == "array":
        return _array(data, pos, described)
    size = WIDTHS.get(kind, 0) or (described["size"] if kind == "fixed" else 0)
    if not size:
        size, pos = (int(v) for v in read_varint(data, pos, len(data)))
        if kind in ("int", "long"):
            return size, pos
    return data[pos : pos + size].tobytes(), pos + size
