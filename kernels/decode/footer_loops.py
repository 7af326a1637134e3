"""Read Parquet footers and page headers with loops that Numba compiles.

Numba compiles the text of this module (kernels/run/loops.py).

A footer consists of nested structures of Thrift's compact protocol; `grammar` describes the known
ones (kernels/decode/footer_layout.py). Every position and length is compared with the end before it
is used. A known field must have its type, and unknown fields are skipped. Each turn consumes at
least one byte of input, or ends a structure that did.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Thrift's types
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
# Kinds of structures.
ANY, FILE, GROUP, CHUNK, COLUMN, STATISTICS, PAIR, ENCODING, LEVELS, SORTING, ORDER = range(11)
# Columns of the grammar: a field's type, the type of its items, the structure of either, and the
# slot that keeps the value.
KIND, ITEM, INNER, SLOT = range(4)
# Rows of the grammar for each structure; the row of field 0 holds the fields that it must have.
FIELDS = 20
DEPTH = 16
# Slots of a column chunk: bits of the slots that are set, and of booleans; the start and the size
# of bounds; numbers.
FLAGS, TYPE, MIN, MIN_SIZE, MAX, MAX_SIZE, NULLS, BYTES, BLOOM, BLOOM_SIZE = range(10)
REPEATED, DEFINED, WIDTH = range(10, 13)  # how many counts of levels there are
# Slots of a row group, and slots that have only bits.
ROWS, TOTAL, HAS_STATISTICS, MIN_EXACT, MAX_EXACT, UNENCODED, SLOTS = range(WIDTH, WIDTH + 7)
BOOLEANS = 16  # the first bit of booleans
# Slots of a page: like those of a chunk, but TYPE is the kind of page, BYTES its compressed size.
UNPACKED, PAGE_VALUES, PAGE_ROWS = BLOOM, BLOOM_SIZE, REPEATED
PAGE_NULLS, PAGE_ENCODING = DEFINED, ROWS
DEFINED_BYTES, REPEATED_BYTES = TOTAL, UNENCODED
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
# What `read_footers` finds of each footer: whether it is one, its row groups, its columns, the
# columns whose bounds have the order of their type, the first column chunk; the start and the end
# of two fields.
FOUND, GROUPS, COLUMNS, ORDERS, FIRST_CHUNK, FROM, TO, FIRST, LAST, FINDS = range(10)
NUM_ROWS, ROW_GROUPS = 3, 4  # fields of a file
# The most items of a list, as in Arrow's reader; the most bytes of a column chunk.
MAX_ITEMS, MAX_BYTES = 1_000_000, 1 << 47


def read_varint(data: Any, pos: int, end: int) -> tuple[Any, int]:
    """Return an unsigned number and its end; the end is -1 if it is cut off or exceeds 64 bits."""
    value, shift = np.uint64(0), np.uint64(0)
    while pos < end:
        byte = np.uint64(data[pos])
        pos += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return np.uint64(0), -1
        value |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return value, pos
        shift += np.uint64(7)
    return np.uint64(0), -1


def decode_zigzag(value: Any) -> Any:
    """Return a signed number from its zigzag encoding."""
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


def read_list_head(data: Any, pos: int, end: int) -> tuple[Any, Any, int]:
    """Return the type of a list's items, their number and the start of the first one.

    The start is -1 if the list is damaged.
    """
    if pos >= end:
        return np.int64(0), np.int64(0), -1
    item, size = np.int64(data[pos]) & 15, np.uint64(data[pos]) >> np.uint64(4)
    pos += 1
    if size == np.uint64(15):
        size, pos = read_varint(data, pos, end)
    if pos < 0 or size > np.uint64(end - pos) or size > np.uint64(MAX_ITEMS) or item > STRUCT:
        return np.int64(0), np.int64(0), -1
    if size == np.uint64(0) or item in (TRUE, FALSE):  # each boolean in a list takes a byte
        item = np.int64(BYTE)
    return item, np.int64(size), pos


def store_struct(
    structure: int, fields: int, slots: Any, groups: Any, chunks: Any, totals: Any
) -> bool:
    """Store the values of a structure that has ended; return False if they are invalid.

    `fields` has a bit for each field that it had.
    """
    if structure == CHUNK:
        if slots[BYTES] < 0 or slots[BYTES] > MAX_BYTES or slots[TOTAL] > MAX_BYTES * 1024:
            return False
        slots[TOTAL] += slots[BYTES]
        if totals[1] < len(chunks):
            for i in range(WIDTH):
                chunks[totals[1], i] = slots[i]
        totals[1] += 1
    elif structure == GROUP:
        if totals[0] < len(groups):
            groups[totals[0], 0] = slots[ROWS]
            groups[totals[0], 1] = slots[TOTAL]
            groups[totals[0], 2] = totals[1]
        totals[0] += 1
        slots[TOTAL] = 0
    elif structure == ORDER:
        totals[2] += fields == 2  # the field that means TYPE_ORDER
    return True


def read_struct(
    data: Any,
    pos: int,
    end: int,
    grammar: Any,
    stack: Any,
    slots: Any,
    groups: Any,
    chunks: Any,
    spans: Any,
    totals: Any,
) -> int:
    """Read a footer, or another structure of Parquet by its own grammar.

    Args:
        data: Bytes that hold it.
        pos: Its start.
        end: The position that it must not pass.
        grammar: The table of known fields, shape (structures * FIELDS, 4).
        stack: A buffer of shape (DEPTH, 4). A list has the type of its items, their structure and
            how many are left. A structure has 0, its kind, its last field and the bits of its
            fields.
        slots: A buffer for the values of one column chunk, shape (SLOTS,).
        groups: Receives the rows and bytes of each row group, and the number of column chunks up to
            its end.
        chunks: Receives the slots of each column chunk, shape (any, WIDTH).
        spans: Receives the start, after its head, and the end of each field of the file, shape
            (FIELDS, 2). Missing fields are not written.
        totals: Zeros; receives the numbers of row groups and of column chunks, stored as far as
            there is room, and the number of columns whose bounds have the order of their type.

    Returns:
        Its end, or -1 if the bytes are not a footer, or one that is not supported.
    """
    depth = 0
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, FILE, 0, 0
    slots[TOTAL] = 0
    while depth >= 0:
        row, value, inside = 0, np.int64(0), stack[depth, 1]
        if stack[depth, 0]:  # the next item
            if stack[depth, 2] == 0:
                depth -= 1
                continue
            stack[depth, 2] -= 1
            kind, inner = stack[depth, 0], inside
        else:  # the next field
            if pos >= end:
                return -1
            head, field = np.int64(data[pos]), stack[depth, 2]
            if inside == FILE and 0 < field < FIELDS:
                spans[field, 1] = pos
            pos += 1
            if head == 0:
                needed = grammar[inside * FIELDS, KIND]
                if stack[depth, 3] & needed != needed or not store_struct(
                    inside, stack[depth, 3], slots, groups, chunks, totals
                ):
                    return -1
                depth -= 1
                continue
            kind = head & 15
            if head >> 4:
                field += head >> 4
            else:
                encoded, pos = read_varint(data, pos, end)
                field = decode_zigzag(encoded)
            if pos < 0 or field < 1 or field > 32767:
                return -1
            stack[depth, 2] = field
            if kind in (TRUE, FALSE):
                value, kind = np.int64(kind == TRUE), np.int64(TRUE)
            if field < FIELDS:
                row = inside * FIELDS + field
                if stack[depth, 3] >> field & 1 or (
                    grammar[row, KIND] and grammar[row, KIND] != kind
                ):
                    return -1
                stack[depth, 3] |= np.int64(1) << field
                if inside == FILE:
                    spans[field, 0] = pos
            inner = grammar[row, INNER]
        slot = grammar[row, SLOT]
        if kind == BYTE:
            pos += 1
        elif kind == DOUBLE:
            pos += 8
        elif I16 <= kind <= I64:
            encoded, pos = read_varint(data, pos, end)
            value = decode_zigzag(encoded)
            if kind < I64 and not -(1 << (31 if kind == I32 else 15)) <= value < 1 << (
                31 if kind == I32 else 15
            ):
                return -1
        elif kind == BINARY:
            encoded, pos = read_varint(data, pos, end)
            if pos < 0 or encoded > np.uint64(end - pos):
                return -1
            value, length = np.int64(pos), np.int64(encoded)
            if slot >= 0:
                slots[slot + 1] = length
            pos += int(length)
        elif kind in (LIST, SET, STRUCT):
            item, size = np.int64(0), np.int64(0)
            if kind != STRUCT:
                item, size, pos = read_list_head(data, pos, end)
                value = size
                if size and grammar[row, ITEM] and grammar[row, ITEM] != item:
                    return -1
            elif inner == CHUNK:
                for i in range(WIDTH):
                    slots[i] = 0
            depth += 1
            if depth == DEPTH:
                return -1
            stack[depth, 0] = item
            stack[depth, 1] = inner
            stack[depth, 2] = size
            stack[depth, 3] = 0
        elif kind != TRUE:
            return -1
        if pos < 0 or pos > end:
            return -1
        if slot >= 0:
            slots[slot] = value
            slots[FLAGS] |= np.int64(1) << slot
            if kind == TRUE:
                slots[FLAGS] |= value << (slot + BOOLEANS)
    return pos


def read_footers(
    data: Any,
    starts: Any,
    grammar: Any,
    stack: Any,
    slots: Any,
    groups: Any,
    chunks: Any,
    spans: Any,
    totals: Any,
    found: Any,
) -> int:
    """Read consecutive footers.

    Args:
        data: The bytes of all footers.
        starts: The start of each footer, then the end of the last one, shape (m + 1,).
        grammar, stack, slots, groups, chunks, spans, totals: As for `read_struct`.
        found: Receives `FOUND` to `LAST` of each footer, shape (m, FINDS).

    Returns:
        The number of footers that were understood.
    """
    understood = 0
    for i in range(len(starts) - 1):
        start, stop = starts[i], starts[i + 1]
        first_group, first_chunk, orders = totals[0], totals[1], totals[2]
        for j in range(FIELDS):
            spans[j, 0], spans[j, 1] = 0, 0
        end = read_struct(data, start, stop, grammar, stack, slots, groups, chunks, spans, totals)
        fine = end == stop
        number = totals[0] - first_group
        columns = (totals[1] - first_chunk) // number if number else 0
        if totals[0] <= len(groups):
            for j in range(number):
                fine &= groups[first_group + j, 2] == first_chunk + columns * (j + 1)
        for j in range(FINDS):
            found[i, j] = 0
        if not fine:
            totals[0], totals[1], totals[2] = first_group, first_chunk, orders
            continue
        found[i, FOUND], found[i, GROUPS], found[i, COLUMNS] = 1, number, columns
        found[i, ORDERS], found[i, FIRST_CHUNK] = totals[2] - orders, first_chunk
        for j in range(2):
            found[i, FROM + j] = spans[NUM_ROWS, j]
            found[i, FIRST + j] = spans[ROW_GROUPS, j]
        understood += 1
    return understood


def read_page_headers(
    data: Any,
    pos: int,
    values: int,
    grammar: Any,
    stack: Any,
    slots: Any,
    spans: Any,
    totals: Any,
    pages: Any,
) -> int:
    """Read the headers of the pages of one column chunk.

    Args:
        data: Bytes from the chunk; they may end within a page.
        pos: The start of the first header.
        values: The number of values after which the chunk ends.
        grammar: The fields of headers; see `read_struct`.
        stack, slots, spans, totals: Buffers of `read_struct`.
        pages: Receives the slots of each page, then the start and the end of its header, shape
            (any, WIDTH + 3).

    Returns:
        The number of pages whose headers are in the data, or -1 if one is damaged. There may be
        more than `pages` has room for.
    """
    count, end, remaining = 0, len(data), values
    while remaining > 0 and pos < end and count < len(pages):
        for i in range(SLOTS):
            slots[i] = 0
        after = read_struct(data, pos, end, grammar, stack, slots, pages, pages, spans, totals)
        if after < 0 or slots[BYTES] < 0 or slots[PAGE_VALUES] < 0:
            return -1
        for i in range(WIDTH):
            pages[count, i] = slots[i]
        pages[count, WIDTH] = slots[PAGE_ENCODING]
        pages[count, WIDTH + 1] = pos
        pages[count, WIDTH + 2] = after
        if slots[TYPE] != DICTIONARY_PAGE:
            remaining -= slots[PAGE_VALUES]
        pos = after + slots[BYTES]
        count += 1
    return count


def check_pages(
    data: Any,
    chunks: Any,
    room: int,
    grammar: Any,
    stack: Any,
    slots: Any,
    spans: Any,
    totals: Any,
) -> int:
    """Compare the headers of pages with each other and with the footer.

    Args:
        data: Bytes that hold all pages.
        chunks: Where the pages of each column chunk start and stop, and the number of their values,
            shape (any, 3). Flat columns only.
        room: The most pages to look at.
        grammar, stack, slots, spans, totals: As in `read_page_headers`.

    Returns:
        The number of pages if all are sound, 0 if one is not, -1 if there are more than `room`.
    """
    pages, count = chunks[:0], 0  # the first turn stores no page
    for c in range(len(chunks)):
        pos, stop, remaining = chunks[c, 0], chunks[c, 1], chunks[c, 2]
        first = True
        while pos < stop:
            if count == room:
                return -1
            count += 1
            for i in range(SLOTS):
                slots[i] = 0
            pos = read_struct(data, pos, stop, grammar, stack, slots, pages, pages, spans, totals)
            kind, values, size = slots[TYPE], slots[PAGE_VALUES], slots[BYTES]
            if pos < 0 or values < 0 or size < 0 or size > stop - pos or slots[UNPACKED] < 0:
                return 0
            if kind == DICTIONARY_PAGE:
                if not first or values > slots[UNPACKED]:
                    return 0
            elif kind == DATA_PAGE:
                remaining -= values
            elif kind == DATA_PAGE_V2:
                levels = slots[DEFINED_BYTES] + slots[REPEATED_BYTES]
                if (
                    slots[PAGE_ROWS] != values
                    or slots[PAGE_NULLS] < 0
                    or slots[PAGE_NULLS] > values
                    or slots[DEFINED_BYTES] < 0
                    or slots[REPEATED_BYTES] != 0
                    or levels > size
                    or levels > slots[UNPACKED]
                ):
                    return 0
                remaining -= values
            else:
                return 0
            if remaining < 0:
                return 0
            first = False
            pos += size
        if remaining != 0:
            return 0
    return count
