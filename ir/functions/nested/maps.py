"""Functions of maps. Rows are computed one by one; bounds of keys and values bound some results.

A map is a tuple of keys and values in an object array. Spark finds the first of equal keys.

Source: Spark 4, `complexTypeExtractors.scala`, `collectionOperations.scala`; seen in 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from skipstone.ir import types as ty
from skipstone.ir.evaluation.row_by_row import nested_function, unknown_rows
from skipstone.ir.function import Call, Function, Signature, check_arity, has_items, readable
from skipstone.ir.functions.nested.arrays import length
from skipstone.ir.interval import Interval, any_result, anything, may_be_true, may_share
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind, Leaf, list_type
from skipstone.ir.values import YES

Map = tuple[tuple[Any, Any], ...]


def entries(n: Node) -> tuple[DType, DType]:
    """Return the types of a map's keys and values.

    Raises:
        CannotJudge: the scalar is not a map, or the type of its keys is not understood.
    """
    if n.dtype is None or n.dtype.entries is None:
        raise CannotJudge(f"expected a map, got {n.dtype}")
    return n.dtype.entries


def _of_map(
    returns: Callable[[DType, DType], DType],
) -> Callable[[tuple[Node, ...], Session], Signature]:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 1)
        found = returns(*entries(args[0]))
        assert args[0].dtype is not None
        return (args[0].dtype,), found

    return signature


def _of_key(
    *, returns: DType | None, cast_key: bool
) -> Callable[[tuple[Node, ...], Session], Signature]:
    """Return a signature of a map and a key.

    Args:
        returns: The type of the result; None is that of the map's values.
        cast_key: Spark casts the key to the type of the map's keys. Otherwise it widens both.
    """

    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, 2)
        key, value = entries(args[0])
        given, own = args[1].dtype, args[0].dtype
        assert given is not None and own is not None
        if given == ty.NULL and returns == ty.BOOL:
            raise CannotJudge("Spark refuses a NULL without a type here")
        if given != key and given != ty.NULL and {given.kind, key.kind} != {Kind.INT}:
            raise CannotJudge(f"a key of {given} in a map with keys of {key} is not understood")
        to = key if cast_key or given == ty.NULL else given
        return (own, to), readable(value) if returns is None else returns

    return signature


def _list_of(part: DType) -> DType:
    if has_items(part) or not part.record:
        return list_type(part)
    return list_type(replace(part, record=()), part.record)


def _entry(key: DType, value: DType) -> DType:
    """Return the type of the array of a map's entries."""
    fields = [Leaf(("key",), key, False), Leaf(("value",), value, True)]
    if not has_items(value):
        fields += [replace(f, path=("value", *f.path)) for f in value.record]
    struct = DType(Kind.OTHER, name=f"struct<key: {key}, value: {value}>")
    return list_type(struct, tuple(fields))


def _value(m: Map, key: Any) -> Any:
    return next((v for k, v in m if k == key), None)


def _value_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a key's value, which is NULL in maps without the key."""
    if not args[0].parts:
        return anything(call.dtype)
    keys, values = args[0].parts
    found = may_share(keys, args[1])
    return replace(
        values,
        may_hold_value=values.may_hold_value & found,
        may_hold_null=YES,
        may_hold_nan=values.may_hold_nan & found,
        may_raise=args[0].may_raise | args[1].may_raise,
    )


def _has_key_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    return may_be_true(may_share(args[0].parts[0], args[1]) if args[0].parts else YES, args)


def _side_interval(side: int) -> Callable[[Call, tuple[Interval, ...]], Interval]:
    """Return the interval of the array of a map's keys (0) or values (1)."""
    return lambda call, args: replace(
        may_be_true(YES, args), dtype=call.dtype, parts=args[0].parts[side : side + 1]
    )


FUNCTIONS: Final = {
    "map_value": nested_function(
        _of_key(returns=None, cast_key=True), _value, interval=_value_interval
    ),
    "map_element": nested_function(
        _of_key(returns=None, cast_key=False), _value, interval=_value_interval
    ),
    "map_size": nested_function(
        _of_map(lambda key, value: ty.INT32), length, by_call=True, strict=False
    ),
    "map_contains_key": nested_function(
        _of_key(returns=ty.BOOL, cast_key=False),
        lambda m, key: int(any(k == key for k, _ in m)),
        interval=_has_key_interval,
    ),
    "map_keys": nested_function(
        _of_map(lambda key, value: _list_of(key)),
        lambda m: tuple(k for k, _ in m),
        interval=_side_interval(0),
    ),
    "map_entries": Function(_of_map(_entry), rows=unknown_rows, interval=any_result, nested=True),
    "map_values": nested_function(
        _of_map(lambda key, value: _list_of(value)),
        lambda m: tuple(v for _, v in m),
        interval=_side_interval(1),
    ),
}
