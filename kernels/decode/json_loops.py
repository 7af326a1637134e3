"""Read JSON texts of one template with a loop that Numba compiles.

Numba compiles the text of this module (kernels/run/loops.py).

A template is a text without its values: constant bytes, a value, constant bytes, ..., constant
bytes. A text that differs from the template is reported as odd. Every position is compared with the
end of the text before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

WHOLE, NUMBER, EXACT, TEXT, TRUTH, ANY = range(6)  # kinds of values; ANY is not stored
# Most characters of an EXACT number, with point and sign: Arrow misreads longer ones, and numbers
# with exponents.
DIGITS = 38


def skip_constant(data: Any, pos: int, end: int, template: Any, first: int, stop: int) -> int:
    """Return the end of constant bytes that must be here, or -1 if they are not."""
    if stop - first > end - pos:
        return -1
    for i in range(stop - first):
        if data[pos + i] != template[first + i]:
            return -1
    return pos + stop - first


def skip_digits(data: Any, pos: int, end: int) -> int:
    """Return the end of a run of digits."""
    while pos < end and 48 <= data[pos] <= 57:
        pos += 1
    return pos


def skip_number(data: Any, pos: int, end: int) -> int:
    """Return the end of a JSON number, or -1 if none is here."""
    if pos < end and data[pos] == 45:
        pos += 1
    first, pos = pos, skip_digits(data, pos, end)
    if pos == first or (data[first] == 48 and pos - first > 1):
        return -1
    if pos < end and data[pos] == 46:
        first, pos = pos + 1, skip_digits(data, pos + 1, end)
        if pos == first:
            return -1
    if pos < end and (data[pos] == 69 or data[pos] == 101):
        pos += 1
        if pos < end and (data[pos] == 43 or data[pos] == 45):
            pos += 1
        first, pos = pos, skip_digits(data, pos, end)
        if pos == first:
            return -1
    return pos


def has_no_exponent(data: Any, pos: int, end: int) -> bool:
    """Return True if a number has no exponent."""
    marks = 0
    for i in range(pos, end):
        marks += data[i] == 69 or data[i] == 101
    return bool(marks == 0)


def skip_text(data: Any, pos: int, end: int) -> int:
    """Return the end of a quoted text without escapes, after its quote; -1 if none is here."""
    if pos >= end or data[pos] != 34:
        return -1
    pos += 1
    while pos < end and data[pos] != 34:
        if data[pos] == 92 or data[pos] < 32:
            return -1
        pos += 1
    return pos + 1 if pos < end else -1


def skip_keyword(data: Any, pos: int, end: int) -> int:
    """Return the end of null, true or false, or -1 if none is here."""
    if (
        end - pos >= 4
        and data[pos] == 110
        and data[pos + 1] == 117
        and data[pos + 2] == 108
        and data[pos + 3] == 108
    ):
        return pos + 4
    if (
        end - pos >= 4
        and data[pos] == 116
        and data[pos + 1] == 114
        and data[pos + 2] == 117
        and data[pos + 3] == 101
    ):
        return pos + 4
    if (
        end - pos >= 5
        and data[pos] == 102
        and data[pos + 1] == 97
        and data[pos + 2] == 108
        and data[pos + 3] == 115
        and data[pos + 4] == 101
    ):
        return pos + 5
    return -1


def is_nan_or_infinity(data: Any, pos: int, end: int) -> bool:
    """Return True if a text is NaN or an infinity."""
    if end - pos == 3:
        return bool(data[pos] == 78 and data[pos + 1] == 97 and data[pos + 2] == 78)
    signed = end - pos == 9 and (data[pos] == 43 or data[pos] == 45)
    return bool(
        (signed or end - pos == 8)
        and data[end - 8] == 73
        and data[end - 7] == 110
        and data[end - 6] == 102
        and data[end - 1] == 121
    )


def read_texts(
    data: Any, offsets: Any, rows: Any, template: Any, program: Any, out: Any, odd: Any
) -> int:
    """Read texts of one template.

    Args:
        data: Bytes.
        offsets: The start of each text, and the end of the last one.
        rows: The numbers of the texts to read.
        template: Constant bytes.
        program: A row for each value: its kind, and the start and the end of the constant bytes
            before it. The last row is for the constant bytes at the end.
        out: Receives, shape (2 * values, rows): a number and 1; or the start and the number of
            bytes. The second is -1 if there is no value.
        odd: Receives the mask of rows that differ from the template; `out` is arbitrary there.

    Returns:
        The number of odd rows.
    """
    values, other = len(program) - 1, 0
    for r in range(len(rows)):
        pos, end = offsets[rows[r]], offsets[rows[r] + 1]
        for v in range(values):
            pos = skip_constant(data, pos, end, template, program[v, 1], program[v, 2])
            if pos < 0:
                break
            kind, start = program[v, 0], pos
            out[2 * v, r], out[2 * v + 1, r] = 0, -1
            if pos < end and (data[pos] == 110 or data[pos] == 116 or data[pos] == 102):
                pos = skip_keyword(data, pos, end)
                if data[start] != 110 and kind != ANY:
                    if kind != TRUTH:
                        pos = -1
                    out[2 * v, r], out[2 * v + 1, r] = np.int64(data[start] == 116), 1
            elif kind == WHOLE:
                sign = pos < end and data[pos] == 45
                if sign:
                    pos += 1
                first, value = pos, np.int64(0)
                while pos < end and pos - first < 19 and 48 <= data[pos] <= 57:
                    value = value * 10 + np.int64(data[pos] - 48)
                    pos += 1
                if pos == first or pos - first > 18 or (data[first] == 48 and pos - first > 1):
                    pos = -1
                out[2 * v, r], out[2 * v + 1, r] = -value if sign else value, 1
            elif kind in (NUMBER, EXACT) and pos < end and data[pos] == 34:
                # NaN and infinities, which JSON writes as texts.
                pos = skip_text(data, pos, end)
                if pos >= 0 and not is_nan_or_infinity(data, start + 1, pos - 1):
                    pos = -1
            elif kind in (NUMBER, EXACT) or (kind == ANY and pos < end and data[pos] != 34):
                pos = skip_number(data, pos, end)
                if kind == EXACT and (
                    pos - start > DIGITS or not has_no_exponent(data, start, pos)
                ):
                    pos = -1
                out[2 * v, r], out[2 * v + 1, r] = start, pos - start
            elif kind in (TEXT, ANY):
                pos = skip_text(data, pos, end)
                out[2 * v, r], out[2 * v + 1, r] = start + 1, pos - start - 2
            else:
                pos = -1
            if pos < 0:
                break
        if pos >= 0:
            pos = skip_constant(data, pos, end, template, program[values, 1], program[values, 2])
        odd[r] = pos != end
        other += pos != end
    return other
