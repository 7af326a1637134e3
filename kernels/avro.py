"""Avro files in columns: blocks are unpacked, and their records read by a compiled loop without the GIL.

Source: Avro's specification, "Object Container Files".
"""

from __future__ import annotations

import inspect
import json
import sys
import zlib
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.errors import SourceError
from skipstone.kernels import avro_loops, cache
from skipstone.kernels.avro_loops import BRANCH, COUNT, DEPTH, LENGTH, NUMBER, REST, SYNC, items, varint
from skipstone.kernels.avro_program import WIDTHS, Program, Slot, Unsupported, program_of

if TYPE_CHECKING:
    import types

MAGIC: Final = b"Obj\x01"
MARKER: Final = 16  # bytes of the marker after each block
MOST: Final = 1 << 30  # bytes of a file's blocks, unpacked: positions in Arrow's arrays have 31 bits
WRONG: Final = {
    NUMBER: "a number is cut off or has more than 64 bits",
    LENGTH: "a length is negative or passes the end of its block",
    BRANCH: "a value is of a branch that its type lacks",
    COUNT: "a count is not possible",
    REST: "a block is longer than its records",
    SYNC: "the marker after a block is missing",
}
Codec = Callable[[bytes], bytes]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
SIGNATURES: Final = {
    "blocks": "i8(readonly, i8, i8, matrix, array)",
    "records": "i8(readonly, matrix, matrix, array, matrix, array)",
    "entries": "i8(readonly, array, i8, nb.boolean, array, array)",
    "gather": "i8(readonly, array, array, nb.types.Array(nb.uint8, 1, 'C'))",
}
HEADER: Final = """
import numba as nb

i8 = nb.int64
array, matrix = nb.types.Array(i8, 1, "C"), nb.types.Array(i8, 2, "C")
readonly = nb.types.Array(nb.uint8, 1, "C", readonly=True)
JIT = dict(_nrt=False, nogil=True, boundscheck=False, error_model="numpy")
varint, items = (nb.njit(f, forceinline=True, **JIT) for f in (varint, items))
"""


def _source(name: str) -> str:
    return f"{inspect.getsource(avro_loops)}{HEADER}SIGNATURE = {SIGNATURES[name]}\nkernel = {name}\n"


def _load(module: types.ModuleType) -> Callable[..., int]:
    import numba

    sys.modules[module.__name__] = module  # machine code that comes from disk asks for its module by name
    compiled: Callable[..., int] = numba.njit(module.SIGNATURE, cache=True, **module.JIT)(module.kernel)
    return compiled


def loop(name: str) -> Callable[..., int]:
    """A loop of `avro_loops`, compiled: from memory, from disk, or now."""
    return cache.kernel(name, _source, _load)


@dataclass(eq=False)
class Records:
    """The records of a file, in columns that are made when they are asked for. Host memory.

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
            raise Unsupported(f"the field {number} is of type {found.kind}; expected {' or '.join(kinds)}")
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
        sizes = chosen[slot.at + 1] if slot.kind in ("string", "bytes") else np.full(chosen.shape[1], slot.width)
        return gathered(self.data, chosen[slot.at], sizes, None if slot.present is None else chosen[slot.present] != 0)

    def items(self, slot: Slot, row: int) -> list[Any]:
        """The items of an array in one record: numbers, bytes, lists, and dictionaries of records by field ids."""
        with np.errstate(over="ignore"):
            return _array(self.data, int(self.slots[slot.at, row]), slot.described)[0]

    def entry(self, slot: Slot, key: int) -> Entry:
        """The values of a key in maps."""
        if slot.texts is None:
            raise Unsupported("the field is no map of numbers or bytes")
        known, starts = self.known(slot), self.slots[slot.at]
        first, second = np.zeros(len(self), np.int64), np.full(len(self), -1 if slot.texts else 0, np.int64)
        loop("entries")(self.data, starts if known is None else np.where(known, starts, -1), key, slot.texts, first, second)
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


def fixed(data: Bytes, starts: Longs, known: npt.NDArray[np.bool_] | None, dtype: str) -> npt.NDArray[Any]:
    """Values that start at some bytes; arbitrary where they are not known."""
    width = np.dtype(dtype).itemsize
    places = starts if known is None else np.where(known, starts, 0)
    if len(data) < width:  # none is known then
        return np.zeros(len(starts), dtype)
    # Every position as a value that starts there, without a copy; only those that are asked for are read.
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return np.ascontiguousarray(windows[places]).view(dtype).reshape(-1)


def gathered(data: Bytes, starts: Longs, sizes: Longs, known: npt.NDArray[np.bool_] | None) -> pa.BinaryArray:
    """Bytes that start at some places, as an Arrow array."""
    ends = np.cumsum(sizes if known is None else np.where(known, sizes, 0))
    total = int(ends[-1]) if len(ends) else 0
    if total >= 2**31:
        raise SourceError(f"its values take {total} bytes; expected less than 2 GiB")
    out = np.empty(total, np.uint8)
    if loop("gather")(data, np.ascontiguousarray(starts), ends, out) < 0:
        raise SourceError("a value lies outside its data")
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    mask = None if known is None else pa.array(known).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(ends), [mask, pa.py_buffer(offsets), pa.py_buffer(out)])


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


class Container:
    """An Avro file whose header has been read.

    Args:
        data: The file.
        unused: Ids of fields whose values are not kept.

    Raises:
        SourceError: it is not one, or cut off.
    """

    def __init__(self, data: bytes, unused: Set[int] = frozenset()) -> None:
        self.unused = unused
        self.data: Bytes = np.frombuffer(data, np.uint8)
        if data[:4] != MAGIC:
            raise SourceError(f"no Avro file: it begins with {data[:4]!r}; expected {MAGIC!r}")
        self.header, self.sync = _header(data)
        if self.sync + MARKER > len(data):
            raise SourceError("its header is cut off")

    @property
    def codec(self) -> str:
        """How its blocks are packed."""
        return self.header.get("avro.codec", "null")

    @cached_property
    def program(self) -> Program:
        """How its records are read.

        Raises:
            Unsupported: its schema has a shape that is not read here.
            SourceError: it has none.
        """
        try:
            schema = json.loads(self.header.get("avro.schema", ""))
        except (ValueError, RecursionError) as e:
            raise SourceError(f"its schema is no JSON ({e})") from None
        return program_of(schema, self.unused)

    def records(self, unpack: Codec | None = None) -> Records:
        """Its records.

        Args:
            unpack: Unpacks a block, where the codec is neither "null" nor "deflate".

        Raises:
            SourceError: it is damaged.
            Unsupported: it has a schema, a codec or a size that is not read here.
        """
        program, error = self.program, np.zeros(2, np.int64)
        start = self.sync + MARKER
        places = np.empty((max((len(self.data) - start) // 64, 16), 3), np.int64)
        number = loop("blocks")(self.data, start, self.sync, places, error)
        if number > len(places):
            places = np.empty((number, 3), np.int64)
            number = loop("blocks")(self.data, start, self.sync, places, error)
        if number < 0:
            raise damaged(error)
        data, places = self._unpacked(places[:number], unpack)
        # No block can say that it has more records than bytes: what is allocated is bounded by what was read.
        if (places[:, 0] > (places[:, 2] - places[:, 1]) // program.width).any():
            raise SourceError("a block is too short for its records")
        slots = np.zeros((program.slots, int(places[:, 0].sum())), np.int64)
        if loop("records")(data, places, program.rows, np.zeros(DEPTH + 1, np.int64), slots, error) < 0:
            raise damaged(error)
        return Records(data, program, slots, self.header)

    def _unpacked(self, places: Longs, unpack: Codec | None) -> tuple[Bytes, Longs]:
        """The blocks' bytes, and where each block is in them."""
        if self.codec == "null":
            return self.data, places
        if self.codec == "deflate":
            unpack = _inflate
        elif unpack is None:
            raise Unsupported(f"its codec is {self.codec!r}")
        parts, total = [], 0
        out = places.copy()
        for i, (_, first, stop) in enumerate(places.tolist()):
            part = unpack(self.data[first:stop].tobytes())
            out[i, 1:] = total, total + len(part)
            total += len(part)
            if total > MOST:
                raise SourceError(f"its blocks take more than {MOST} bytes; expected smaller files")
            parts.append(part)
        return np.frombuffer(b"".join(parts), np.uint8), out


def _inflate(block: bytes) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        out = stream.decompress(block, MOST)
    except zlib.error as e:
        raise SourceError(f"a block cannot be unpacked ({e})") from None
    if not stream.eof:
        raise SourceError(f"a block cannot be unpacked (it is cut off, or has more than {MOST} bytes)")
    return out


def _header(data: bytes) -> tuple[dict[str, str], int]:
    """What the header says, by key, and where the marker is."""
    pos, end = 4, len(data)
    found: dict[str, str] = {}

    def text() -> bytes:
        nonlocal pos
        size, pos = (int(v) for v in varint(data, pos, end))
        if pos < 0 or not 0 <= size <= end - pos:
            raise SourceError("its header is damaged")
        pos += size
        return data[pos - size : pos]

    while True:
        with np.errstate(over="ignore"):
            count, pos = (int(v) for v in items(data, pos, end))
        if pos < 0:
            raise SourceError("its header is damaged")
        if not count:
            return found, pos
        for _ in range(count):
            key, value = text(), text()
            try:
                found[key.decode()] = value.decode()
            except UnicodeDecodeError:
                raise SourceError("its header is damaged: a text in it is no UTF-8") from None


def damaged(error: Longs) -> SourceError:
    """The error of what a loop found."""
    return SourceError(f"{WRONG[int(error[0])]} (at byte {int(error[1])})")
