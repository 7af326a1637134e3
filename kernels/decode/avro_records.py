"""The records of an Avro file in columns, which are made when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.kernels.decode import avro_loops
from skipstone.kernels.decode.avro_loops import items, varint
from skipstone.kernels.decode.avro_program import WIDTHS, Program, Slot, Unsupported
from skipstone.kernels.decode.spans import Bytes, Longs, gathered
from skipstone.kernels.run.loops import Loop, compiled

ENTRIES: Final = Loop(
    avro_loops, "entries", "i8(readonly, array, i8, nb.boolean, array, array)", ("varint", "items")
)


@dataclass(eq=False)
class Records:
    """The records of a file. Host memory.

    Attributes:
        data: Bytes of all blocks, unpacked, between which other bytes may lie.
        program: How they are read.
        slots: Of shape (slots, records): what the program found.
        header: What the file says of itself, beside the schema and the codec.
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
        """Where a field is; None: the schema lacks it.

        Raises:
            Unsupported: it is of another type than these.
        """
        found = self.program.fields.get(number)
        if found is not None and found.kind not in kinds:
            raise Unsupported(
                f"the field {number} is of type {found.kind}; expected {' or '.join(kinds)}"
            )
        return found

    def known(self, slot: Slot) -> npt.NDArray[np.bool_] | None:
        """Which records have a value; None: all."""
        return None if slot.present is None else self.slots[slot.present] != 0

    def numbers(self, slot: Slot) -> pa.Array:
        """Numbers, int64, null where there is none."""
        known = self.known(slot)
        return pa.array(self.slots[slot.at], mask=None if known is None else ~known)

    def fixed(self, slot: Slot, dtype: str) -> npt.NDArray[Any]:
        """Values of a fixed width as a NumPy type of that width; arbitrary where there is none."""
        return fixed(self.data, self.slots[slot.at], self.known(slot), dtype)

    def texts(self, slot: Slot, rows: npt.NDArray[np.int64] | None = None) -> pa.BinaryArray:
        """Bytes of strings, of bytes and of a fixed number of them, of some records or all; null where there are none."""
        chosen = self.slots if rows is None else self.slots[:, rows]
        sizes = (
            chosen[slot.at + 1]
            if slot.kind in ("string", "bytes")
            else np.full(chosen.shape[1], slot.width)
        )
        return gathered(
            self.data,
            chosen[slot.at],
            sizes,
            None if slot.present is None else chosen[slot.present] != 0,
        )

    def items(self, slot: Slot, row: int) -> list[Any]:
        """The items of an array in one record: numbers, bytes, lists, and dictionaries of records by field ids."""
        with np.errstate(over="ignore"):
            return _array(self.data, int(self.slots[slot.at, row]), slot.described)[0]

    def entry(self, slot: Slot, key: int) -> Entry:
        """The values of a key in maps."""
        if slot.texts is None:
            raise Unsupported("the field is no map of numbers or bytes")
        known, starts = self.known(slot), self.slots[slot.at]
        first, second = (
            np.zeros(len(self), np.int64),
            np.full(len(self), -1 if slot.texts else 0, np.int64),
        )
        compiled(ENTRIES)(
            self.data,
            starts if known is None else np.where(known, starts, -1),
            key,
            slot.texts,
            first,
            second,
        )
        return Entry(self.data, first, second)


@dataclass(slots=True, eq=False)
class Entry:
    """The values of one key in the maps of n records.

    Attributes:
        data: Bytes that positions are of.
        first: Numbers, or where bytes start; int64 of shape (n,).
        second: Whether there is a number, 1 or 0; or how many bytes there are, -1: no value.
    """

    data: Bytes
    first: Longs
    second: Longs

    def numbers(self) -> pa.Array:
        """Numbers, int64, null where there is none."""
        return pa.array(self.first, mask=self.second == 0)

    def texts(self) -> pa.BinaryArray:
        """Bytes; null where there are none."""
        return gathered(self.data, self.first, self.second, self.second >= 0)

    def of_width(self, dtype: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Values that have the width of a NumPy type, and which they are; the others are arbitrary."""
        known = self.second == np.dtype(dtype).itemsize
        return fixed(self.data, self.first, known, dtype), known


def fixed(
    data: Bytes, starts: Longs, known: npt.NDArray[np.bool_] | None, dtype: str
) -> npt.NDArray[Any]:
    """Values that start at some bytes; arbitrary where they are not known."""
    width = np.dtype(dtype).itemsize
    places = starts if known is None else np.where(known, starts, 0)
    if len(data) < width:  # none is known then
        return np.zeros(len(starts), dtype)
    # Every position as a value that starts there, without a copy; only those that are asked for are read.
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return np.ascontiguousarray(windows[places]).view(dtype).reshape(-1)


def _array(data: Bytes, pos: int, described: Any) -> tuple[list[Any], int]:
    """An array that `records` has read without an error, and where it ends."""
    out: list[Any] = []
    while True:
        count, pos = (int(v) for v in items(data, pos, len(data)))
        if not count:
            return out, pos
        for _ in range(count):
            value, pos = _value(data, pos, described["items"])
            out.append(value)


def _value(data: Bytes, pos: int, described: Any) -> tuple[Any, int]:
    if isinstance(described, list):
        branch, pos = (int(v) for v in varint(data, pos, len(data)))
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
        size, pos = (int(v) for v in varint(data, pos, len(data)))
        if kind in ("int", "long"):
            return size, pos
    return data[pos : pos + size].tobytes(), pos + size
