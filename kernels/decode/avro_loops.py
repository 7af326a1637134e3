"""Read Avro with loops that Numba compiles.

Numba compiles the text of this module (kernels/run/loops.py).

A schema is a program of rows (operation, slot, value, target), which runs once for each record.
Results go to `out[slot, record]`: a number, or the start of a value's bytes, with their number in
the next slot. Every position and length is compared with the end of its block before it is used.
Each turn of a loop consumes at least one byte of input, so no input makes it run long.

Source: Avro's specification, "Binary encoding".
"""

from __future__ import annotations

from typing import Any

import numpy as np

LONG, FIXED, BYTES, UNION, ARRAY, END = range(6)
DEPTH = 8  # nested arrays
# Error codes; `error` holds the code and its position.
NUMBER, LENGTH, BRANCH, COUNT, REST, SYNC = range(1, 7)


def read_varint(data: Any, pos: int, end: int) -> tuple[Any, int]:
    """Return a zigzag number and its end; the end is -1 if it is cut off or exceeds 64 bits."""
    value, shift = np.uint64(0), np.uint64(0)
    while pos < end:
        byte = np.uint64(data[pos])
        pos += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return np.int64(0), -1
        value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), pos
        shift += np.uint64(7)
    return np.int64(0), -1


def read_block_head(data: Any, pos: int, end: int) -> tuple[Any, int]:
    """Return the number of items of an array's next part, 0 after the last part, and their start.

    The start is -1 if the part is damaged.
    """
    count, pos = read_varint(data, pos, end)
    if pos >= 0 and count < 0:  # the size in bytes follows
        size, pos = read_varint(data, pos, end)
        count = -count
        if pos < 0 or size < 0 or size > end - pos or count < 0:
            return np.int64(0), -1
    if pos < 0 or count > end - pos:
        return np.int64(0), -1
    return count, pos


def find_blocks(data: Any, pos: int, sync: int, found: Any, error: Any) -> int:
    """Find the blocks from `pos` on; return how many there are, or -1.

    `found` gets (records, first byte, end) of as many blocks as it has room for. The sync marker,
    16 bytes at `sync`, ends each block.
    """
    end, number = len(data), 0
    while pos < end:
        at = pos
        count, pos = read_varint(data, pos, end)
        if pos < 0 or count < 0:
            error[0], error[1] = COUNT, at
            return -1
        size, pos = read_varint(data, pos, end)
        if pos < 0 or size < 0 or size > end - pos - 16:
            error[0], error[1] = LENGTH, at
            return -1
        for i in range(16):
            if data[pos + size + i] != data[sync + i]:
                error[0], error[1] = SYNC, pos + size
                return -1
        if number < len(found):
            found[number, 0], found[number, 1], found[number, 2] = count, pos, pos + size
        number += 1
        pos += size + 16
    return number


def read_records(data: Any, spans: Any, program: Any, stack: Any, out: Any, error: Any) -> int:
    """Read the records of all blocks into `out`; return how many there are, or -1.

    `out` has room for as many records as the blocks claim.
    """
    row, last = 0, len(program)
    for b in range(len(spans)):
        pos, end = spans[b, 1], spans[b, 2]
        for _ in range(spans[b, 0]):
            pc, depth = 0, -1
            while pc < last:
                op, slot, value, at = program[pc, 0], program[pc, 1], program[pc, 2], pos
                pc += 1
                if op == LONG:
                    number, pos = read_varint(data, pos, end)
                    if pos < 0:
                        error[0], error[1] = NUMBER, at
                        return -1
                    if slot >= 0:
                        out[slot, row] = number
                elif op == UNION:
                    branch, pos = read_varint(data, pos, end)
                    if pos < 0 or branch < 0 or branch > 1:
                        error[0], error[1] = BRANCH, at
                        return -1
                    if slot >= 0:
                        out[slot, row] = branch != value
                    if branch == value:
                        pc = program[pc - 1, 3]
                elif op == BYTES or op == FIXED:  # noqa: SIM109
                    size = np.int64(value)
                    if op == BYTES:
                        size, pos = read_varint(data, pos, end)
                    if pos < 0 or size < 0 or size > end - pos:
                        error[0], error[1] = LENGTH, at
                        return -1
                    if slot >= 0:
                        out[slot, row] = pos
                        if op == BYTES:
                            out[slot + 1, row] = size
                    pos += size
                else:
                    if op == ARRAY:
                        if slot >= 0:
                            out[slot, row] = pos
                        depth += 1
                        stack[depth] = 0
                        pc = program[pc - 1, 3] + 1  # after its END, which is handled here
                    if stack[depth] > 1:
                        stack[depth] -= 1
                        pc = program[pc - 1, 3] + 1
                    else:
                        count, pos = read_block_head(data, pos, end)
                        if pos < 0:
                            error[0], error[1] = COUNT, at
                            return -1
                        stack[depth] = count
                        if count:
                            pc = program[pc - 1, 3] + 1
                        else:
                            depth -= 1
            row += 1
        if pos != end:
            error[0], error[1] = REST, pos
            return -1
    return row


def find_entries(data: Any, starts: Any, key: int, texts: bool, first: Any, second: Any) -> int:
    """Find the value of a key in maps with integer keys, which are arrays of (key, value).

    Missing values are not written. Returns how many were found, or -1.

    Args:
        data: Bytes that `read_records` has read without an error.
        starts: The start of each map; negative: there is none.
        key: The key; of several equal keys the last one counts.
        texts: True if values are bytes, False if they are numbers.
        first: Receives the number, or the start of the bytes.
        second: Receives 1, or the number of bytes.
    """
    end, found = len(data), 0
    for row in range(len(starts)):
        pos = starts[row]
        if pos < 0:
            continue
        count, pos = read_block_head(data, pos, end)
        while pos >= 0 and count > 0:
            name, pos = read_varint(data, pos, end)
            value, pos = read_varint(data, pos, end) if pos >= 0 else (np.int64(0), -1)
            if pos < 0 or (texts and (value < 0 or value > end - pos)):
                return -1
            if name == key:
                first[row], second[row] = (pos, value) if texts else (value, np.int64(1))
                found += 1
            if texts:
                pos += value
            count -= 1
            if count == 0:
                count, pos = read_block_head(data, pos, end)
        if pos < 0:
            return -1
    return found
