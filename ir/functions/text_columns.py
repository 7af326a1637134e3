"""Functions of text on whole columns: Arrow's kernels, where they agree with Spark.

They are the `column` of the functions in `ir/functions/text.py` and its neighbours. Each takes
large Arrow text, valid UTF-8, or a value that all rows share, and returns None where Arrow's kernel
cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, fill, int64_of
from skipstone.ir.function import Call
from skipstone.ir.like import decode, fits
from skipstone.ir.types import Kind
from skipstone.ir.values import Data, is_ascii

Column: TypeAlias = Callable[..., Any]
MAX_LENGTH: Final = 2**31 - 1
MAX_RESULT: Final = 1 << 16  # characters; longer results are not computed here


def numbers(found: pa.Array) -> Data:
    """Return integers or booleans as axis values; NULL is 0."""
    if pa.types.is_boolean(found.type):
        found = found.cast(pa.uint8())
    return int64_of(found, 0)


def _is_text(a: object) -> bool:
    return isinstance(a, pa.Array)


def of_one(kernel: Callable[[pa.Array], pa.Array]) -> Column:
    """Return a function of one text."""
    return lambda call, a: kernel(a) if _is_text(a) else None


def backwards(a: pa.Array) -> pa.Array:
    """Reverse the characters of text, or the bytes of binary."""
    return pc.binary_reverse(a) if pa.types.is_large_binary(a.type) else pc.utf8_reverse(a)


def count_of(kernel: Callable[[pa.Array], pa.Array]) -> Column:
    """Return a function from one text to a number."""
    return lambda call, a: numbers(kernel(a)) if _is_text(a) else None


def char_padding(call: Call, a: Any, length: Any) -> pa.Array | None:
    """Pad text with spaces to a number of characters."""
    return pc.utf8_rpad(a, int(length)) if _is_text(a) and not _is_text(length) else None


def length(call: Call, a: Any) -> Data | None:
    """Count characters, or the bytes of binary."""
    if not _is_text(a):
        return None
    binary = pa.types.is_large_binary(a.type) or is_ascii(a)
    return numbers((pc.binary_length if binary else pc.utf8_length)(a))


def change_case(turn: Callable[[Any], Any]) -> Column:
    """Return upper or lower of ASCII texts.

    Args:
        turn: Arrow's function for ASCII.
    """
    return lambda call, a: turn(a) if _is_text(a) and is_ascii(a) else None


def substring(call: Call, a: Any, at: Any, count: Any = MAX_LENGTH) -> Any:
    """Cut texts at positions that all rows share."""
    if not _is_text(a) or isinstance(at, (np.ndarray, pa.Array)) or isinstance(count, np.ndarray):
        return None
    at, count = int(at), int(count)
    if at < 0 and pa.types.is_large_binary(a.type):
        return None
    if at < 0:
        return pc.utf8_slice_codeunits(a, at) if count == MAX_LENGTH else None
    start = max(at - 1, 0)
    stop = start + max(count, 0)
    if pa.types.is_large_binary(a.type):
        return pc.binary_slice(a, start, stop)
    if is_ascii(a):
        return pc.binary_slice(a.view(pa.large_binary()), start, stop).view(pa.large_string())
    return pc.utf8_slice_codeunits(a, start, stop)


def concat(call: Call, *parts: Any) -> Any:
    """Join texts."""
    if call.dtype.kind is Kind.BINARY:
        return None
    columns = [_scalar(p) if isinstance(p, bytes) else p for p in parts]
    if any(isinstance(c, np.ndarray) or c is None for c in columns):
        return None
    return pc.binary_join_element_wise(*columns, pa.scalar("", pa.large_string()))


def _scalar(text: bytes) -> pa.Scalar | None:
    shown = _decoded(text)
    return None if shown is None else pa.scalar(shown, pa.large_string())


def _decoded(text: object) -> str | None:
    try:
        return text.decode() if isinstance(text, bytes) else None
    except UnicodeDecodeError:
        return None


def replace(call: Call, a: Any, search: Any, by: Any = b"") -> Any:
    """Replace a part by one of at most the same length."""
    old, new = _decoded(search), _decoded(by)
    if not _is_text(a) or not old or new is None or len(new) > len(old):
        return None
    return pc.replace_substring(a, pattern=old, replacement=new)


def position(call: Call, a: Any, part: Any) -> Any:
    """Return the position of a part in ASCII texts from 1; 0 if it does not occur."""
    shown = _decoded(part)
    if shown is None or not _is_text(a) or not is_ascii(a):
        return None
    return numbers(pc.find_substring(a, pattern=shown)) + 1


def repeat(call: Call, a: Any, n: Any) -> Any:
    """Repeat texts a number of times that all rows share."""
    if not _is_text(a) or isinstance(n, np.ndarray):
        return None
    n = max(int(n), 0)
    longest = pc.max(pc.binary_length(a)).as_py() or 0
    return pc.binary_repeat(a, n) if longest * n <= MAX_RESULT else None


def pad(left: bool) -> Column:
    """Return a function that pads texts with one character to a size that all rows share."""
    kernel = pc.utf8_lpad if left else pc.utf8_rpad

    def column(call: Call, a: Any, size: Any, by: Any = b" ") -> Any:
        shown = _decoded(by)
        if not _is_text(a) or call.dtype.kind is Kind.BINARY or isinstance(size, np.ndarray):
            return None
        if shown is None or len(shown) != 1 or not 0 <= int(size) <= MAX_RESULT:
            return None
        return kernel(pc.utf8_slice_codeunits(a, 0, int(size)), int(size), shown)

    return column


def split_part(call: Call, a: Any, by: Any, n: Any) -> Any:
    """Return a part of texts, counted from the start or the end; empty text if there is none."""
    shown = _decoded(by)
    if not _is_text(a) or not shown or isinstance(n, np.ndarray) or not n:
        return None
    parts, n = pc.split_pattern(a, pattern=shown), int(n)
    ends = int64_of(parts.offsets)
    starts, stops = ends[:-1], ends[1:]
    which = starts + (n - 1) if n > 0 else stops + n
    found = pc.take(parts.values, arrow_of(which, (starts <= which) & (which < stops)))
    return fill(found, "")


def translate(call: Call, a: Any, old: Any, new: Any) -> Any:
    """Replace characters of ASCII texts by others; none is removed."""
    before, after = _decoded(old), _decoded(new)
    if not _is_text(a) or before is None or after is None or len(after) < len(before):
        return None
    if not (before.isascii() and after.isascii() and is_ascii(a)) or a.null_count:
        return None
    table = np.arange(256, dtype=np.uint8)
    for character, other in reversed(list(zip(before, after, strict=False))):  # the first counts
        table[ord(character)] = ord(other)
    _, offsets, data = a.buffers()
    if data is None:
        return a
    held = [None, offsets, pa.py_buffer(table[np.frombuffer(data, np.uint8)])]
    return pa.Array.from_buffers(a.type, len(a), held, offset=a.offset)


def first_code_point(call: Call, a: Any) -> Any:
    """Return the number of the first character of ASCII texts; 0 for empty text."""
    if not _is_text(a) or not is_ascii(a) or a.buffers()[2] is None:
        return None
    _, offsets, data = a.buffers()
    ends = np.frombuffer(offsets, np.int64, len(a) + 1, a.offset * 8)
    found = np.append(np.frombuffer(data, np.uint8), 0)[ends[:-1]]
    return np.where(ends[1:] > ends[:-1], found, 0).astype(np.int64)


def tested(kernel: Column) -> Column:
    """Return a test of texts for a part that all rows share."""

    def column(call: Call, a: Any, part: Any) -> Any:
        shown = _decoded(part)
        return None if shown is None or not _is_text(a) else numbers(kernel(a, pattern=shown))

    return column


def like(call: Call, a: Any, pattern: bytes, escape: bytes) -> Any:
    """Test texts by a pattern of LIKE."""
    decoded = decode(pattern.decode(), escape.decode())
    assert decoded is not None
    return numbers(fits(decoded, a)) if _is_text(a) else None


def integer_text(call: Call, a: Any) -> Any:
    """Cast integers to text."""
    return pa.array(a).cast(pa.large_string()) if isinstance(a, np.ndarray) else None
