"""Functions of text: lengths, prefixes, case, concatenation.

Text is UTF-8 bytes; characters are code points, as in Spark. A value between two bounds that share
a prefix has that prefix as well. Most functions preserve no more than this.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.function import VALUE_UNKNOWN, Call, Function, Signature, check_arity, fixed
from skipstone.ir.functions import text_columns
from skipstone.ir.interval import Interval, apply, merge
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import Kind
from skipstone.ir.values import NO, Data, character_count

MAX_LENGTH: Final = 2**31 - 1
Cut = TypeVar("Cut", str, bytes)
PAST: Final = (
    # Above every byte of UTF-8; appended to a prefix, above all texts that start with it.
    b"\xff"
)
MAX_BOUND_TAIL: Final = 64  # bytes; a longer upper bound is cut there and ends in PAST


def map_elements(fn: Callable[..., Any], *data: Data, to: Any = object) -> Data:
    """Apply a Python function to each element; arguments of one element are repeated."""
    n = max(map(len, data))
    rows = zip(*((d.tolist() * n if len(d) == 1 else d.tolist()) for d in data), strict=True)
    out = np.empty(n, to)
    out[:] = [fn(*row) for row in rows]
    return out


def common_prefix(a: bytes, b: bytes) -> int:
    """Return the number of leading bytes that two texts, and all texts between them, share."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _length_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 1)
    check_text(args[0])
    return (ty.BINARY if args[0].dtype == ty.BINARY else ty.STRING,), ty.INT32


def _length(call: Call, a: Data) -> Any:
    count = len if call.types[0].kind is Kind.BINARY else character_count
    return map_elements(count, a, to=np.int64)


def _length_function(point: Callable[..., Data], column: Callable[..., Any]) -> Function:
    """Return a function whose results are lengths; those of single values are computed."""
    f = Function(_length_signature, point, column=column)

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        result = apply(call, f, args)
        low, high = np.maximum(result.low, 0), np.minimum(result.high, MAX_LENGTH)
        return replace(result, low=low, high=high)

    return replace(f, interval=interval)


def substring_of(raw: bytes, at: int, count: int) -> bytes:
    """Return Spark's substring: positions from 1, 0 means 1, negative ones count from the end."""
    return cut(raw.decode("utf-8", "surrogateescape"), at, count).encode("utf-8", "surrogateescape")


def cut(text: Cut, at: int, count: int) -> Cut:
    """Return a substring of characters or bytes."""
    start = at - 1 if at > 0 else len(text) + at if at < 0 else 0
    stop = start + count
    return text[max(start, 0) : max(stop, 0)]


def _substring_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2, 3)
    check_text(args[0])
    t = ty.BINARY if args[0].dtype == ty.BINARY else ty.STRING
    for a in args[1:]:
        if a.dtype is None or a.dtype.kind is not Kind.INT:
            raise CannotJudge("positions and lengths must be integers")
    return (t, *(ty.INT32,) * (len(args) - 1)), t


def _substring(call: Call, a: Data, at: Data, count: Data | None = None) -> Any:
    of = cut if call.dtype.kind is Kind.BINARY else substring_of
    return map_elements(of, a, at, np.full(1, MAX_LENGTH) if count is None else count)


def _substring_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a substring.

    After characters that all texts share, order is kept, so both ends are cut. A substring from the
    start always keeps order.
    """
    text, at, *count = args
    literals = all(
        len(a.low) == 1 and a.low is a.high and not a.may_hold_null.any() for a in (at, *count)
    )
    plain = Function(_substring_signature, _substring)
    if not literals or at.low[0] < 0 or call.dtype.kind is Kind.BINARY:
        return apply(call, plain, args)
    low, high = (
        _substring(call, d, at.low, *(c.low for c in count)) for d in (text.low, text.high)
    )
    cut = text.with_bounds(ty.STRING, low, high, text.unbounded_above)
    if at.low[0] < 2:
        return cut
    before = (
        np.broadcast_to(
            map_elements(_common_characters, text.low, text.high, to=np.int64) >= at.low[0] - 1,
            len(text),
        )
        & ~text.unbounded_above
    )
    if before.any():
        return merge(before, cut.take(before), apply(call, plain, args))
    return apply(call, plain, args)


def _common_characters(a: bytes, b: bytes) -> int:
    """Return the number of leading whole characters that two texts, and all between them, share."""
    end = common_prefix(a, b)
    while end > 0 and any(end < len(t) and t[end] & 0xC0 == 0x80 for t in (a, b)):
        end -= 1
    return character_count(a[:end])


# ASCII, Latin, Greek and Cyrillic without letters that have several or contextual forms; scripts
# without case.
_STEADY_CASE: Final = re.compile(
    "[\0-\xb4\xb6-\xde\xe0-\u012f\u0132-\u0148\u014a-\u017e\u0180-\u0188"
    "\u0391-\u03a1\u03a4-\u03a9\u03b1-\u03c1\u03c4-\u03c9\u0400-\u0481"
    "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3"
    "\u05d0-\u05ea\u0621-\u064a\u2010-\u205e\u20a0-\u20bf"
    "\ue000-\uf8ff\U0001f300-\U0001f64f\U000f0000-\U0010ffff]*"
)
_STEADY_LOWER: Final = re.compile(_STEADY_CASE.pattern.replace("\xe0-", "\xdf-"))  # ß is lower case


class _CaseChange:
    """The function upper or lower.

    It handles characters whose other case is one character in every version of Unicode. The result
    for other characters is unknown.
    """

    def __init__(
        self, turn: Callable[[str], str], steady: re.Pattern[str], column: Callable[..., Any]
    ) -> None:
        self.turn = turn
        self.steady = steady
        self.of_values = Function(fixed(ty.STRING, returns=ty.STRING), self.point, bad="unknown")
        self.function = replace(self.of_values, interval=self.interval, column=column)

    def change(self, raw: bytes) -> bytes:
        return self.turn(raw.decode("utf-8", "replace")).encode()

    def flag(self, raw: bytes) -> int:
        return 0 if self.steady.fullmatch(raw.decode("utf-8", "replace")) else VALUE_UNKNOWN

    def point(self, call: Call, a: Data) -> Any:
        return map_elements(self.change, a), map_elements(self.flag, a, to=np.uint8)

    def interval(self, call: Call, args: tuple[Interval, ...]) -> Interval:
        (a,) = args
        exact = a.single & ~a.unbounded_above
        n = len(a)
        rows = [
            self.bounds(*row)
            for row in zip(
                *(np.broadcast_to(x, n).tolist() for x in (a.low, a.high, a.unbounded_above)),
                strict=True,
            )
        ]
        low, high = np.empty(n, object), np.empty(n, object)
        low[:], high[:] = [r[0] for r in rows], [r[1] for r in rows]
        near = a.with_bounds(ty.STRING, low, high, np.array([r[2] for r in rows]))
        where = np.broadcast_to(exact, n)
        if not where.any():
            return near
        value = apply(call, self.of_values, (a.take(where),))
        known = where.copy()
        known[where] = ~value.may_raise  # where the value is unknown, its bounds still hold
        return merge(known, value.take(~value.may_raise), near)

    def bounds(self, low: bytes, high: bytes, above: bool) -> tuple[bytes, bytes, bool]:
        """Return bounds of the results for texts between two, and whether there is no upper one."""
        common = b"" if above else low[: common_prefix(low, high)]
        plain = re.match(rb"[\x00-\x7f]*", common)[0]  # type: ignore[index]
        start, last = self.change(plain), high[len(common) : len(common) + 1]
        if above or len(plain) < len(common) or not last.isascii() or not last:
            return start, start + PAST, not start
        # The next character, if any, lies between those of the bounds, and all of these are ASCII.
        first = low[len(common) : len(common) + 1]
        least, most = _images(self.turn, first or b"\0", last)
        return start + (least if first else b""), start + most + PAST, False


@functools.lru_cache(maxsize=1 << 14)
def _images(turn: Callable[[str], str], first: bytes, last: bytes) -> tuple[bytes, bytes]:
    """Return the least and the greatest result for ASCII characters between two."""
    results = [turn(chr(c)).encode() for c in range(first[0], last[0] + 1)]
    return min(results), max(results)


def _texts(args: tuple[Node, ...], session: Session) -> Signature:
    if not args:
        raise CannotJudge("expected at least one argument")
    for a in args:
        check_text(a)
    return (ty.STRING,) * len(args), ty.STRING


def check_text(a: Node) -> None:
    """Raise CannotJudge unless Spark casts an argument to text: all types but nested ones."""
    if a.dtype is None or a.dtype.kind in (Kind.OTHER, Kind.INTERVAL):
        raise CannotJudge(f"expected STRING, got {a.dtype}")


def _texts_or_binary(args: tuple[Node, ...], session: Session) -> Signature:
    if args and all(a.dtype == ty.BINARY for a in args):
        return (ty.BINARY,) * len(args), ty.BINARY
    return _texts(args, session)


def _concat(call: Call, *data: Data) -> Any:
    return map_elements(lambda *parts: b"".join(parts), *data)


def _concat_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a concatenation.

    Leading parts that have a single value form a prefix. The first other part ends it with its own
    bounds.
    """
    nulls, may_raise, has_value = NO, NO, np.ones(1, np.bool_)
    for a in args:
        nulls = nulls | a.may_hold_null
        may_raise = may_raise | a.may_raise
        has_value = has_value & a.may_hold_value
    n = max(map(len, args))
    columns = [
        [np.broadcast_to(x, n).tolist() for x in (a.low, a.high, a.unbounded_above)] for a in args
    ]
    rows = [
        _concat_bounds([(lows[i], highs[i], aboves[i]) for lows, highs, aboves in columns])
        for i in range(n)
    ]
    low, high = np.empty(n, object), np.empty(n, object)
    low[:], high[:] = [r[0] for r in rows], [r[1] or b"" for r in rows]
    return Interval(
        call.dtype,
        low,
        high,
        np.array([r[1] is None for r in rows]),
        has_value,
        nulls,
        NO,
        may_raise,
    )


def _concat_bounds(parts: list[tuple[bytes, bytes, bool]]) -> tuple[bytes, bytes | None]:
    """Return bounds of concatenated texts; None if there is no upper one."""
    least: bytes = b""
    most: bytes | None = b""
    for low, high, above in reversed(parts):
        # If both ends are equal, the later parts follow that one value. Otherwise `low` itself is a
        # lower bound, because the later parts only append.
        least = low + least if low == high and not above else low
        most = None if above else _upper_bound(low, high, most)
    return least, most


def _upper_bound(low: bytes, high: bytes, rest: bytes | None) -> bytes | None:
    """Return the upper bound of texts in [low, high] that are followed by at most `rest`.

    None means any text, or no bound.
    """
    # A text below `high` that is not a prefix of it stays below it, whatever follows. A prefix is
    # followed by `rest`: try all, from the shortest that is not below `low` to `high` itself.
    same = common_prefix(low, high)
    first = same + (same < len(low))
    start, tail = high[:first], high[first:]
    if rest is None:
        return start + PAST if start else None
    ends = [tail[:i] + rest for i in range(min(len(tail), MAX_BOUND_TAIL) + 1)]
    return start + max(*ends, tail[:MAX_BOUND_TAIL] + PAST if len(tail) > MAX_BOUND_TAIL else b"")


def _text_map(strip: Callable[[bytes], bytes], kernel: Callable[[Any], Any]) -> Function:
    column = text_columns.of_one(kernel)
    return Function(_of_one(_texts), lambda call, a: map_elements(strip, a), column=column)


def _of_one(signature: Callable[..., Signature]) -> Callable[..., Signature]:
    """Return a signature of any number of arguments, limited to one."""

    def limited(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1)
        return signature(args, session)

    return limited


def _reversed(call: Call, a: Data) -> Any:
    if call.dtype.kind is Kind.BINARY:
        return map_elements(lambda raw: raw[::-1], a)
    return map_elements(
        lambda raw: raw.decode("utf-8", "surrogateescape")[::-1].encode("utf-8", "surrogateescape"),
        a,
    )


def _char_signature(args: tuple[Node, ...], session: Session) -> Signature:
    return (ty.STRING, ty.INT32), ty.STRING


def _char_padding(call: Call, a: Data, length: Data) -> Any:
    """Pad CHAR with spaces to its length in characters (ir/coercion/char.py)."""
    return map_elements(lambda raw, n: raw + b" " * max(0, n - character_count(raw)), a, length)


def _char_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of padded text.

    Padding only appends, so the lower bound holds. A text below the upper bound stays below it,
    unless it is the start of the bound: then it ends in spaces, and is above it if the bound goes
    on with a character before the space.
    """
    text, length = args
    single, spaces = apply(call, Function(_char_signature, _char_padding), args), int(length.low[0])
    start = re.compile(rb"[^\x00-\x1f]*")

    def end(raw: bytes) -> bytes:
        kept = start.match(raw)
        return (kept[0] if kept else raw) + b" " * spaces

    return replace(
        single,
        low=np.where(text.single, single.low, text.low),
        high=np.where(text.single, single.high, map_elements(end, text.high)),
        unbounded_above=text.unbounded_above,
    )


_CHAR: Final = Function(
    _char_signature, _char_padding, interval=_char_interval, column=text_columns.char_padding
)
FUNCTIONS: Final = {
    "char_padding": _CHAR,
    "char_value": _CHAR,
    "length": _length_function(_length, text_columns.length),
    "octet_length": _length_function(
        lambda call, a: map_elements(len, a, to=np.int64), text_columns.count_of(pc.binary_length)
    ),
    "substring": Function(
        _substring_signature,
        _substring,
        interval=_substring_interval,
        column=text_columns.substring,
    ),
    "upper": _CaseChange(
        str.upper, _STEADY_CASE, text_columns.change_case(pc.ascii_upper)
    ).function,
    "lower": _CaseChange(
        str.lower, _STEADY_LOWER, text_columns.change_case(pc.ascii_lower)
    ).function,
    "concat": Function(
        _texts_or_binary, _concat, interval=_concat_interval, column=text_columns.concat
    ),
    "trim": _text_map(lambda raw: raw.strip(b" "), lambda a: pc.ascii_trim(a, characters=" ")),
    "ltrim": _text_map(lambda raw: raw.lstrip(b" "), lambda a: pc.ascii_ltrim(a, characters=" ")),
    "rtrim": _text_map(lambda raw: raw.rstrip(b" "), lambda a: pc.ascii_rtrim(a, characters=" ")),
    "reverse": Function(
        _of_one(_texts_or_binary), _reversed, column=text_columns.of_one(text_columns.backwards)
    ),
}
