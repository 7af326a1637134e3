"""Functions that are computed value by value: more functions of text and bits.

They work on rows, and on containers in which all rows have one value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import (
    Call,
    Function,
    Signature,
    check_arity,
    with_unknown,
)
from skipstone.ir.functions import text_columns
from skipstone.ir.functions.text import MAX_LENGTH, Cut, check_text, cut, map_elements
from skipstone.ir.interval import Interval, apply, merge, unknown
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import Data, Values

S, I = ty.STRING, ty.INT32


def _typed_signature(
    types: tuple[DType, ...], returns: DType, least: int
) -> Callable[[tuple[Node, ...], Session], Signature]:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, least, len(types))
        for a, t in zip(args, types, strict=False):
            whole = a.dtype is not None and a.dtype.kind in (Kind.INT, Kind.NULL)
            if t.kind is not Kind.INT:
                check_text(a)
            elif not whole:
                raise CannotJudge(f"expected {t}, got {a.dtype}")
        return types[: len(args)], returns

    return signature


def _characters(
    change: Callable[..., str | None], *types: DType, least: int | None = None
) -> Function:
    """Return a function of characters; a result of None means that it is too long to compute."""

    def change_row(*row: Any) -> bytes | None:
        result = change(
            *(v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else v for v in row)
        )
        return None if result is None else result.encode("utf-8", "surrogateescape")

    def point(call: Call, *data: Data) -> Any:
        return with_unknown(map_elements(change_row, *data).tolist())

    return Function(
        _typed_signature(types, S, len(types) if least is None else least), point, bad="unknown"
    )


def _characters_or_bytes(change: Callable[..., Any], *types: DType, least: int) -> Function:
    """Return a function of characters, or of bytes if all of its texts are binary."""
    of_text = _characters(change, *types, least=least)

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        found, _ = of_text.signature(args, session)
        texts = [a.dtype for a, t in zip(args, types, strict=False) if t == S]
        if any(t != ty.BINARY for t in texts):
            return found, S
        return [ty.BINARY if t == S else t for t in found], ty.BINARY

    def point(call: Call, *data: Data) -> Any:
        if call.dtype != ty.BINARY:
            assert of_text.point is not None
            return of_text.point(call, *data)
        return with_unknown(map_elements(change, *data).tolist())

    return Function(signature, point, bad="unknown")


def _replace(text: str, search: str, by: str = "") -> str | None:
    if not search:
        return text
    more = text.count(search) * (len(by) - len(search))
    return (
        text.replace(search, by)
        if more <= 0 or len(text) + more <= text_columns.MAX_RESULT
        else None
    )


def _repeat(text: str, n: int) -> str | None:
    return text * max(n, 0) if len(text) * n <= text_columns.MAX_RESULT else None


def _right(text: str, n: int) -> str:
    return text[max(len(text) - n, 0) :] if n > 0 else ""


def _split_part(text: str, by: str, n: int) -> str | None:
    if n == 0:
        return None  # Spark raises an error
    parts = text.split(by) if by else [text]
    at = n - 1 if n > 0 else len(parts) + n
    return parts[at] if 0 <= at < len(parts) else ""


def _overlay(text: Cut, by: Cut, at: int, count: int = -1) -> Cut:
    """Replace characters from a position on; a negative count means as many as are put there."""
    rest = at + (count if count >= 0 else len(by))
    return cut(text, 1, at - 1) + by + cut(text, rest, MAX_LENGTH)


def _stripped(left: bool, right: bool) -> Callable[[str, str], str]:
    def strip(text: str, characters: str) -> str:
        text = text.lstrip(characters) if left and characters else text
        return text.rstrip(characters) if right and characters else text

    return strip


def _padded(left: bool) -> Callable[..., Any]:
    def pad(text: Any, size: int, by: Any = None) -> Any:
        if size > text_columns.MAX_RESULT:
            return None
        if by is None:
            by = b"\0" if isinstance(text, bytes) else " "
        missing = max(size, 0) - len(text)
        if missing <= 0 or not by:
            return text[: max(size, 0)]
        fill = (by * (missing // len(by) + 1))[:missing]
        return fill + text if left else text + fill

    return pad


def _translated(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for i, character in enumerate(old):
        table.setdefault(ord(character), new[i] if i < len(new) else None)
    return text.translate(table)


def _before(text: bytes, by: bytes, count: int) -> bytes:
    """Return the text before the n-th delimiter, or after the n-th from the end.

    Delimiters may overlap. Source: Spark, `UTF8String.subStringIndex`.
    """
    if not by or not count:
        return b""
    at = -1 if count > 0 else len(text) - len(by) + 1
    for _ in range(abs(count)):
        at = text.find(by, at + 1) if count > 0 else text.rfind(by, 0, max(at - 1 + len(by), 0))
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(by) :]


def _in_set(part: bytes, texts: bytes) -> int:
    return (
        0
        if b"," in part
        else (texts.split(b",").index(part) + 1 if part in texts.split(b",") else 0)
    )


def _number(count: Callable[..., int], types: tuple[DType, ...], returns: DType) -> Function:
    return Function(
        _typed_signature(types, returns, len(types)),
        lambda call, *data: map_elements(count, *data, to=np.int64),
    )


def _position(text: bytes, part: bytes) -> int:
    """Return the position of a part in a text from 1; 0 if it does not occur.

    Characters are counted, bytes are searched: UTF-8 never matches inside a character.
    """
    at = text.find(part)
    return 0 if at < 0 else 1 + sum(b & 0xC0 != 0x80 for b in text[:at])


def _first_code_point(text: bytes) -> int:
    return ord(text.decode("utf-8", "replace")[0]) if text else 0


def _bits(op: Any) -> Function:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 2)
        if any(a.dtype is None or a.dtype.kind is not Kind.INT for a in args):
            raise CannotJudge("bit operations expect integers")
        wide = max((a.dtype for a in args if a.dtype is not None), key=lambda t: t.bits)
        return (wide, wide), wide

    return Function(signature, lambda call, a, b: op(a, b))


def _inverted(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 1)
    if args[0].dtype is None or args[0].dtype.kind is not Kind.INT:
        raise CannotJudge("bit operations expect integers")
    return (args[0].dtype,), args[0].dtype


def _join_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2, 1000)
    for a in args:
        check_text(a)
    return (S,) * len(args), S


_NONE: Final = np.full(1, None, object)


def _join_rows(call: Call, args: tuple[Values, ...]) -> Values:
    """Join texts with the first one between them; NULLs are left out."""
    # Arrow's binary_join_element_wise with null_handling="skip" leaves out rows (26.0).
    n = max(map(len, args))
    by, *parts = (
        np.where(np.broadcast_to(a.valid, n), np.broadcast_to(a.data, n), _NONE).tolist()
        for a in args
    )
    joined = [
        b"" if sep is None else sep.join(v for v in row if v is not None)
        for sep, *row in zip(by, *parts, strict=True)
    ]
    may_raise = functools.reduce(np.logical_or, (a.may_raise for a in args))
    return Values(S, np.array(joined, object), args[0].valid, may_raise)


def _join_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Compute containers whose arguments all have a single value; others may hold any text."""
    relevant = [args[0], *(a for a in args[1:] if a.may_hold_any.any() or a.may_raise.any())]
    known = functools.reduce(np.logical_and, (a.single & ~a.may_hold_null for a in relevant))
    others = replace(
        unknown(S),
        may_hold_null=args[0].may_hold_null,
        may_raise=functools.reduce(np.logical_or, (a.may_raise for a in args)),
    )
    if not known.any():
        return others
    join = Function(
        _join_signature,
        lambda call, by, *parts: map_elements(lambda by, *p: by.join(p), by, *parts),
    )
    where = np.broadcast_to(known, max(map(len, relevant)))
    return merge(where, apply(call, join, tuple(a.take(where) for a in relevant)), others)


FUNCTIONS: Final = {
    "concat_ws": Function(_join_signature, interval=_join_interval, rows=_join_rows),
    "overlay": _characters_or_bytes(_overlay, S, S, I, I, least=3),
    "trim_of": _characters(_stripped(True, True), S, S),
    "ltrim_of": _characters(_stripped(True, False), S, S),
    "rtrim_of": _characters(_stripped(False, True), S, S),
    "lpad": replace(
        _characters_or_bytes(_padded(True), S, I, S, least=2), column=text_columns.pad(True)
    ),
    "rpad": replace(
        _characters_or_bytes(_padded(False), S, I, S, least=2), column=text_columns.pad(False)
    ),
    "translate": replace(_characters(_translated, S, S, S), column=text_columns.translate),
    "substring_index": Function(
        _typed_signature((S, S, I), S, 3), lambda call, *data: map_elements(_before, *data)
    ),
    "find_in_set": _number(_in_set, (S, S), I),
    "replace": replace(_characters(_replace, S, S, S, least=2), column=text_columns.replace),
    "repeat": replace(_characters(_repeat, S, I), column=text_columns.repeat),
    "right": _characters(_right, S, I),
    "split_part": replace(_characters(_split_part, S, S, I), column=text_columns.split_part),
    "instr": replace(_number(_position, (S, S), I), column=text_columns.position),
    "locate": replace(
        _number(lambda part, text: _position(text, part), (S, S), I),
        column=lambda call, part, text: text_columns.position(call, text, part),
    ),
    "ascii": replace(_number(_first_code_point, (S,), I), column=text_columns.first_code_point),
    "&": _bits(np.bitwise_and),
    "|": _bits(np.bitwise_or),
    "^": _bits(np.bitwise_xor),
    "~": Function(_inverted, lambda call, a: ~a, monotone=True),
}
