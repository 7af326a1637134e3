"""Functions of arrays. Rows are computed one by one; the bounds of elements bound some results.

`ir/evaluation/list_calls.py` computes the usual ones for all rows at once.

An array is a tuple of axis values and None, which is NULL, in an object array.

Source: Spark 4, `collectionOperations.scala`, `higherOrderFunctions.scala`; seen in 4.3.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import common_type
from skipstone.ir.evaluation.row_by_row import RAISES, nested_function, unknown_rows
from skipstone.ir.function import (
    Call,
    Function,
    Signature,
    check_arity,
    element,
    has_items,
    item,
    readable,
    text_literal,
)
from skipstone.ir.functions.choice import common
from skipstone.ir.interval import (
    Interval,
    any_result,
    anything,
    end,
    hull_of,
    may_be_true,
    may_share,
)
from skipstone.ir.node import FIELDS, Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind, list_type
from skipstone.ir.values import YES

Array = tuple[Any, ...]


def _of_array(
    returns: Callable[[DType], DType], *more: DType, least: int | None = None
) -> Callable[[tuple[Node, ...], Session], Signature]:
    """Return a signature of an array and integers."""

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1 + (len(more) if least is None else least), 1 + len(more))
        found, own = item(args[0]), args[0].dtype
        assert own is not None
        for a in args[1:]:
            if a.dtype is None or a.dtype.kind not in (Kind.INT, Kind.BOOL, Kind.NULL):
                raise CannotJudge(f"expected an integer, got {a.dtype}")
        array = own if own.record else list_type(found)
        result = array if returns is _same else returns(found)
        return [array, *more[: len(args) - 1]], result

    return signature


def _ordered(found: DType) -> DType:
    """Return the type of elements, if they have an order.

    Raises:
        CannotJudge: they have none here.
    """
    if not found.ordered and found != ty.NULL:
        raise CannotJudge(f"values of {found} are not compared")
    return readable(found)


def _flat(found: DType) -> DType:
    """Return the type of the items of an array's arrays."""
    if not has_items(found) or found.entries is not None:
        raise CannotJudge(f"expected an array of arrays, got items of {found}")
    return found


def _same(found: DType) -> DType:
    return list_type(found)


def _sortable(found: DType) -> DType:
    return list_type(_ordered(found))


def _with_value(returns: DType | None) -> Callable[[tuple[Node, ...], Session], Signature]:
    """Return a signature of an array and a value that may be an element."""

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 2)
        given, array = args[1].dtype, args[0].dtype
        assert given is not None and array is not None
        if given == ty.NULL and returns == ty.BOOL:
            raise CannotJudge("Spark refuses a NULL without a type here")
        if array.record and has_items(array):
            if given != (found := _ordered(item(args[0]))):
                raise CannotJudge(f"elements of {found} together with {given} are not understood")
            return (array, given), array if returns is None else returns
        own = element(args[0])
        to = wider(own, given, session)
        return (list_type(to), to), list_type(to) if returns is None else returns

    return signature


def wider(a: DType, b: DType, session: Session) -> DType:
    """Return the common type of elements: only integers and NULL change theirs here."""
    if ty.NULL in (a, b):
        return b if a == ty.NULL else a
    if a != b and {a.kind, b.kind} != {Kind.INT}:
        raise CannotJudge(f"elements of {a} together with {b} are not understood")
    return common_type(a, b, session)


def _two_arrays(returns: DType | None) -> Callable[[tuple[Node, ...], Session], Signature]:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1 if returns is None else 2, 1000 if returns is None else 2)
        to = ty.NULL
        for a in args:
            to = wider(to, element(a), session)
        return (list_type(to),) * len(args), list_type(to) if returns is None else returns

    return signature


def _array_signature(args: tuple[Node, ...], session: Session) -> Signature:
    to = common(args, session)
    if to.kind not in (*ty.ELEMENTS, Kind.NULL):
        raise CannotJudge(f"an array of {to} is not understood")
    return (to,) * len(args), list_type(to)


def _key(v: Any) -> tuple[bool, Any]:
    return v is not None, v


def compare_arrays(a: Array, b: Array) -> int:
    """Return the sign of two arrays' order: NULL is the least element, and equal to itself."""
    x, y = (tuple(map(_key, v)) for v in (a, b))
    return (x > y) - (x < y)


def _contains(a: Array, v: Any) -> int | None:
    return 1 if v in a else None if None in a else 0


def _overlap(a: Array, b: Array) -> int | None:
    if any(v is not None and v in b for v in a):
        return 1
    return None if a and b and (None in a or None in b) else 0


def _at(call: Call) -> Callable[[Array, int], Any]:
    """Return element_at, try_element_at, get or [], which count positions from 1 or from 0."""
    beyond = RAISES if call.session.ansi and call.name in ("element_at", "[]") else None
    from_one = call.name.endswith("element_at")

    def at(a: Array, index: int) -> Any:
        if from_one and index == 0:
            return RAISES
        if from_one:
            index = index - 1 if index > 0 else len(a) + index
        return a[index] if 0 <= index < len(a) else beyond

    return at


def length(call: Call) -> Callable[[Array | None], int | None]:
    """Return size, which without ANSI mode is -1 for NULL."""
    missing = None if call.session.ansi else -1
    return lambda a: missing if a is None else len(a)


def _slice(a: Array, start: int, length: int) -> Any:
    if start == 0 or length < 0:
        return RAISES
    first = start - 1 if start > 0 else len(a) + start
    return a[first : first + length] if first >= 0 else ()


def _sorted(a: Array, ascending: int = 1) -> Array:
    return tuple(sorted(a, key=_key, reverse=not ascending))


def _extreme(choose: Any) -> Callable[[Array], Any]:
    return lambda a: choose((v for v in a if v is not None), default=None)


def _joined_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2, 3)
    if element(args[0]) not in (ty.STRING, ty.NULL):
        raise CannotJudge("array_join expects an array of STRING")
    return (list_type(ty.STRING), *(ty.STRING,) * (len(args) - 1)), ty.STRING


def _joined(a: Array, by: bytes, missing: bytes | None = None) -> bytes:
    parts = a if missing is None else [missing if v is None else v for v in a]
    return by.join(v for v in parts if v is not None)


def _split_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    _separator(text_literal(args[1]))
    if args[0].dtype != ty.STRING:
        raise CannotJudge(f"split expects STRING, got {args[0].dtype}")
    return (ty.STRING, ty.STRING), list_type(ty.STRING)


@functools.lru_cache(maxsize=64)
def _separator(pattern: str) -> str:
    """Return the text that a regular expression without operators matches.

    Raises:
        CannotJudge: the expression has operators.

    Example:
        >>> _separator("@"), _separator("[|]"), _separator("a\\\\.b")
        ('@', '|', 'a.b')
    """
    plain = re.sub(r"\\([^A-Za-z0-9\s])|\[([^\\^\[\]&])\]", r"\1\2", pattern)
    rest = re.sub(r"\\[^A-Za-z0-9\s]|\[[^\\^\[\]&]\]", "", pattern)
    if set(rest) & set("\\^$.|?*+()[]{}"):
        raise CannotJudge("split expects a text without operators of regular expressions")
    return plain


def _split(text: bytes, pattern: bytes) -> Array:
    by = _separator(pattern.decode()).encode()
    if by:
        return tuple(text.split(by))
    return tuple(c.encode() for c in text.decode()) or (b"",)


# Intervals. An array whose elements nothing bounds has no parts.


def _array_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of an array of given elements."""
    assert call.dtype.element is not None
    return replace(
        may_be_true(YES, args), dtype=call.dtype, parts=(hull_of(call.dtype.element, args),)
    )


def _contains_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    array, value = args
    return may_be_true(may_share(array.parts[0], value) if array.parts else YES, args)


def _overlap_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    a, b = args
    return may_be_true(may_share(a.parts[0], b.parts[0]) if a.parts and b.parts else YES, args)


def _position_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    found = _contains_interval(call, args)
    return replace(
        found, dtype=call.dtype, high=np.where(found.high > 0, end(ty.INT64, high=True), 0)
    )


def _at_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of one element, or of the least or greatest one."""
    if not args[0].parts:
        return anything(call.dtype)
    may_raise = args[0].may_raise
    for index in args[1:]:
        zero = (index.low <= 0) & (index.high >= 0) & call.name.endswith("element_at")
        may_raise = may_raise | index.may_raise | zero
    if call.session.ansi and call.name in ("element_at", "[]"):
        may_raise = YES  # the lengths of the arrays are not known
    return replace(args[0].parts[0], may_hold_null=YES, may_raise=may_raise)


def _size_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a size: 0 where no element can occur, and never below -1 or 0."""
    (array,) = args
    may_hold = YES
    if array.parts:
        may_hold = array.parts[0].may_hold_any | array.parts[0].may_hold_null
    return replace(
        may_be_true(YES, args),
        dtype=call.dtype,
        low=np.full(1, 0 if call.session.ansi else -1),
        high=np.where(may_hold, end(ty.INT32, high=True), 0),
        may_hold_null=array.may_hold_null if call.session.ansi else ~YES,
    )


def _part_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of an array that has some elements of the first argument."""
    return replace(may_be_true(YES, args), dtype=call.dtype, parts=args[0].parts)


def _concat_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    assert call.dtype.element is not None
    if not all(a.parts for a in args):
        return anything(call.dtype)
    parts = (hull_of(call.dtype.element, [a.parts[0] for a in args]),)
    return replace(may_be_true(YES, args), dtype=call.dtype, parts=parts)


def _as_array_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    assert call.dtype.element is not None
    parts = tuple(replace(p, dtype=call.dtype.element) for p in args[0].parts)
    return replace(args[0], dtype=call.dtype, parts=parts)


FUNCTIONS: Final = {
    "array": nested_function(
        _array_signature, lambda *values: values, strict=False, interval=_array_interval
    ),
    "as_array": Function(
        _two_arrays(None),
        rows=lambda call, args: replace(args[0], dtype=call.dtype),
        interval=_as_array_interval,
        nested=True,
    ),
    "size": nested_function(
        _of_array(lambda e: ty.INT32),
        length,
        by_call=True,
        strict=False,
        interval=_size_interval,
        items=True,
    ),
    FIELDS: Function(_two_arrays(None), rows=unknown_rows, interval=any_result, nested=True),
    "flatten": Function(
        _of_array(_flat), rows=unknown_rows, interval=any_result, nested=True, items=True
    ),
    "array_contains": nested_function(
        _with_value(ty.BOOL), _contains, interval=_contains_interval, items=True
    ),
    "array_position": nested_function(
        _with_value(ty.INT64),
        lambda a, v: a.index(v) + 1 if v in a else 0,
        interval=_position_interval,
        items=True,
    ),
    "array_remove": nested_function(
        _with_value(None),
        lambda a, v: tuple(x for x in a if x != v),
        interval=_part_interval,
        items=True,
    ),
    **{
        name: nested_function(
            _of_array(readable, ty.INT32), _at, by_call=True, interval=_at_interval, items=True
        )
        for name in ("element_at", "try_element_at", "get", "[]")
    },
    **{
        name: nested_function(
            _of_array(_ordered), _extreme(choose), interval=_at_interval, items=True
        )
        for name, choose in (("array_max", max), ("array_min", min))
    },
    "arrays_overlap": nested_function(_two_arrays(ty.BOOL), _overlap, interval=_overlap_interval),
    "sort_array": nested_function(
        _of_array(_sortable, ty.BOOL, least=0), _sorted, interval=_part_interval, items=True
    ),
    "array_distinct": nested_function(
        _of_array(_sortable),
        lambda a: tuple(dict.fromkeys(a)),
        interval=_part_interval,
        items=True,
    ),
    "array_compact": nested_function(
        _of_array(_same),
        lambda a: tuple(v for v in a if v is not None),
        interval=_part_interval,
        items=True,
    ),
    "reverse_array": nested_function(
        _of_array(_same), lambda a: a[::-1], interval=_part_interval, items=True
    ),
    "concat_arrays": nested_function(
        _two_arrays(None),
        lambda *a: tuple(v for x in a for v in x),
        interval=_concat_interval,
    ),
    "slice": nested_function(_of_array(_same, ty.INT32, ty.INT32), _slice, items=True),
    "array_join": nested_function(_joined_signature, _joined),
    "split": nested_function(_split_signature, _split),
}
