"""Read Avro files: decompress blocks and read their records with a compiled loop (avro_loops.py).

Source: Avro's specification, "Object Container Files".
"""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Final

import numpy as np

from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, describe_error
from skipstone.kernels.decode import avro_loops
from skipstone.kernels.decode.avro_loops import (
    BRANCH,
    COUNT,
    DEPTH,
    LENGTH,
    NUMBER,
    REST,
    SYNC,
    read_block_head,
    read_varint,
)
from skipstone.kernels.decode.avro_program import Program, Unsupported, program_of
from skipstone.kernels.decode.avro_records import Records
from skipstone.kernels.decode.spans import Bytes, Longs
from skipstone.kernels.decode.unpack import CODECS, unpacked
from skipstone.kernels.run.loops import Loop, compiled_or_plain

MAGIC: Final = b"Obj\x01"
MARKER: Final = 16  # bytes of the sync marker after each block
# Most bytes of unpacked blocks: positions in Arrow's arrays have 31 bits.
MAX_UNPACKED: Final = 1 << 30
# Limits on the bytes of unpacked blocks and of slots: a base, and a number of bytes for each byte
# of the file. Real manifests need some 10 for each byte; one byte of a zstandard block
# could expand to 30,000.
BASE_LIMIT, LIMIT_RATIO = 1 << 26, 200
MESSAGES: Final = {
    NUMBER: "a number is cut off or has more than 64 bits",
    LENGTH: "a length is negative or passes the end of its block",
    BRANCH: "a value has a branch that its type lacks",
    COUNT: "a count is not possible",
    REST: "a block is longer than its records",
    SYNC: "the marker after a block is missing",
}
INNER: Final = ("read_varint", "read_block_head")
BLOCKS: Final = Loop(avro_loops, "find_blocks", "i8(readonly, i8, i8, matrix, array)", INNER)
RECORDS: Final = Loop(
    avro_loops, "read_records", "i8(readonly, matrix, matrix, array, matrix, array)", INNER
)


class Container:
    """An Avro file whose header has been read.

    Args:
        data: The bytes of the file.
        unused: Ids of fields whose values are not stored.

    Raises:
        SourceError: it is not an Avro file, or it is cut off.
    """

    def __init__(self, data: bytes, unused: Set[int] = frozenset()) -> None:
        self.unused = unused
        self.data: Bytes = np.frombuffer(data, np.uint8)
        if data[:4] != MAGIC:
            raise SourceError(f"not an Avro file: it begins with {data[:4]!r}; expected {MAGIC!r}")
        self.header, self.sync = _header(data)
        if self.sync + MARKER > len(data):
            raise SourceError("its header is cut off")

    @property
    def codec(self) -> str:
        """The compression codec of its blocks."""
        return self.header.get("avro.codec", "null")

    @cached_property
    def program(self) -> Program:
        """The program that reads its records.

        Raises:
            Unsupported: the schema has a shape that is not supported here.
            SourceError: there is no valid schema.
        """
        try:
            schema = json.loads(self.header.get("avro.schema", ""))
        except (ValueError, RecursionError) as e:
            raise SourceError(f"its schema is not JSON ({describe_error(e)})") from None
        return program_of(schema, self.unused)

    def records(self) -> Records:
        """Read its records.

        Raises:
            SourceError: the file is damaged.
            Unsupported: its schema, codec or size is not supported here.
        """
        program, error = self.program, np.zeros(2, np.int64)
        start = self.sync + MARKER
        blocks = np.empty((max((len(self.data) - start) // 64, 16), 3), np.int64)
        find_blocks = compiled_or_plain(BLOCKS, len(blocks))
        number = find_blocks(self.data, start, self.sync, blocks, error)
        if number > len(blocks):
            blocks = np.empty((number, 3), np.int64)
            number = find_blocks(self.data, start, self.sync, blocks, error)
        if number < 0:
            raise damaged(error)
        data, blocks = self._unpacked(blocks[:number])
        if (blocks[:, 0] > (blocks[:, 2] - blocks[:, 1]) // program.width).any():
            raise SourceError("a block is too short for its records")
        n = int(blocks[:, 0].sum())
        if n * program.slots * 8 > max_unpacked_bytes(len(self.data)):
            raise SourceError(f"it claims {n} records, too many for its {len(self.data)} bytes")
        slots = np.zeros((program.slots, n), np.int64)
        read_records = compiled_or_plain(RECORDS, len(data))
        if (
            read_records(data, blocks, program.rows, np.zeros(DEPTH + 1, np.int64), slots, error)
            < 0
        ):
            raise damaged(error)
        return Records(data, program, slots, self.header)

    def _unpacked(self, blocks: Longs) -> tuple[Bytes, Longs]:
        """Return the unpacked bytes of the blocks, and the position of each block in them."""
        if self.codec == "null":
            return self.data, blocks
        if self.codec not in CODECS:
            raise Unsupported(f"its codec is {self.codec!r}")
        parts, limit, total = [], min(MAX_UNPACKED, max_unpacked_bytes(len(self.data))), 0
        out = blocks.copy()
        for i, (_, first, stop) in enumerate(blocks.tolist()):
            part = unpacked(self.codec, self.data[first:stop].tobytes(), limit - total)
            out[i, 1:] = total, total + len(part)
            total += len(part)
            parts.append(part)
        return np.frombuffer(b"".join(parts), np.uint8), out


def max_unpacked_bytes(size: int) -> int:
    """Return the most bytes that a file of `size` bytes may unpack to."""
    return BASE_LIMIT + LIMIT_RATIO * size


def _header(data: bytes) -> tuple[dict[str, str], int]:
    """Read the header: its entries by key, and the position of the sync marker."""
    pos, end = 4, len(data)
    found: dict[str, str] = {}

    def text() -> bytes:
        nonlocal pos
        size, pos = (int(v) for v in read_varint(data, pos, end))
        if pos < 0 or not 0 <= size <= end - pos:
            raise SourceError("its header is damaged")
        pos += size
        return data[pos - size : pos]

    while True:
        with np.errstate(over="ignore"):
            count, pos = (int(v) for v in read_block_head(data, pos, end))
        if pos < 0:
            raise SourceError("its header is damaged")
        if not count:
            return found, pos
        for _ in range(count):
            key, value = text(), text()
            try:
                found[key.decode()] = value.decode()
            except UnicodeDecodeError:
                raise SourceError("its header is damaged: a text in it is not UTF-8") from None


def damaged(error: Longs) -> SourceError:
    """Return the error for a loop's error code and position."""
    return SourceError(f"{MESSAGES[int(error[0])]} (at byte {int(error[1])})")
