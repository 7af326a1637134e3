"""The loops that read Avro, as plain functions: Numba compiles this very text (kernels/run/loops.py).

A schema is a program of rows (operation, slot, value, target), run once for each record. Results go to
`out[slot, record]`: a number, or where bytes start, in the slot after it how many they are. Every
position and length is compared with the end of its block before it is used; a loop takes a byte of
input at least for each of its turns, so that no input makes it long.

Source: Avro's specification, "Binary encoding".
"""

from __future__ import annotations

from typing import Any

import numpy as np

LONG, FIXED, BYTES, UNION, ARRAY, END = range(6)
DEPTH = 8  # arrays within arrays
# What is wrong with the input; where it is follows in `error`.
NUMBER, LENGTH, BRANCH, COUNT, REST, SYNC = range(1, 7)


def varint(data: Any, pos: int, end: int) -> tuple[Any, int]:
    """A zigzag number and where it ends; -1 where none of 64 bits is."""
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


def items(data: Any, pos: int, end: int) -> tuple[Any, int]:
    """How many items the next part of an array has, 0 after the last, and where they start; -1 where that is damaged."""
    count, pos = varint(data, pos, end)
    if pos >= 0 and count < 0:  # its size in bytes follows
        size, pos = varint(data, pos, end)
        count = -count
        if pos < 0 or size < 0 or size > end - pos or count < 0:
            return np.int64(0), -1
    if pos < 0 or count > end - pos:
        return np.int64(0), -1
    return count, pos


def blocks(data: Any, pos: int, sync: int, found: Any, error: Any) -> int:
    """The blocks from `pos` on: how many there are; as many as there is room for are told as (records, first byte, byte after the last).

    The marker of 16 bytes at `sync` ends each of them.
    """
    end, number = len(data), 0
    while pos < end:
        at = pos
        count, pos = varint(data, pos, end)
        if pos < 0 or count < 1:
            error[0], error[1] = COUNT, at
            return -1
        size, pos = varint(data, pos, end)
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


def records(data: Any, places: Any, program: Any, stack: Any, out: Any, error: Any) -> int:
    """Read the records of all blocks; how many they are, or -1. There is room for as many as the blocks say."""
    row, last = 0, len(program)
    for b in range(len(places)):
        pos, end = places[b, 1], places[b, 2]
        for _ in range(places[b, 0]):
            pc, depth = 0, -1
            while pc < last:
                op, slot, value, at = program[pc, 0], program[pc, 1], program[pc, 2], pos
                pc += 1
                if op == LONG:
                    number, pos = varint(data, pos, end)
                    if pos < 0:
                        error[0], error[1] = NUMBER, at
                        return -1
                    if slot >= 0:
                        out[slot, row] = number
                elif op == UNION:
                    branch, pos = varint(data, pos, end)
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
                        size, pos = varint(data, pos, end)
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
                        pc = program[pc - 1, 3] + 1  # past its END, which follows here
                    if stack[depth] > 1:
                        stack[depth] -= 1
                        pc = program[pc - 1, 3] + 1
                    else:
                        count, pos = items(data, pos, end)
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


def entries(data: Any, starts: Any, key: int, texts: bool, first: Any, second: Any) -> int:
    """The value of a key in maps of integers, which are arrays of (key, value); where it is missing nothing is written.

    Args:
        data: What `records` has read without an error.
        starts: Where each map starts; negative: there is none.
        key: Of several of them the last one counts.
        texts: Whether values are bytes; else they are numbers.
        first: The number, or where the bytes start.
        second: 1, or how many bytes there are.
    """
    end, found = len(data), 0
    for row in range(len(starts)):
        pos = starts[row]
        if pos < 0:
            continue
        count, pos = items(data, pos, end)
        while pos >= 0 and count > 0:
            name, pos = varint(data, pos, end)
            value, pos = varint(data, pos, end) if pos >= 0 else (np.int64(0), -1)
            if pos < 0 or (texts and (value < 0 or value > end - pos)):
                return -1
            if name == key:
                first[row], second[row] = (pos, value) if texts else (value, np.int64(1))
                found += 1
            if texts:
                pos += value
            count -= 1
            if count == 0:
                count, pos = items(data, pos, end)
        if pos < 0:
            return -1
    return found
