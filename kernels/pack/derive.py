"""Derive statistics of calls: what a function of columns can return in each container.

They are computed once from the statistics of the columns, in NumPy, and packed like those of a
column, so kernels treat both alike. `ir/interval.py` has the rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.functions import builtin_functions
from skipstone.ir.functions.build import TRUTH, call_of, function_of
from skipstone.ir.interval import Interval, anything, apply, opaque, point, unknown
from skipstone.ir.lower import Program, Want, condition_of
from skipstone.ir.merge import merge
from skipstone.ir.node import ELEMENT, FIELDS, Node, Op, Path, columns_of, parts_of
from skipstone.ir.types import DType
from skipstone.ir.values import NO, YES, Data, Mask, numpy_type_of
from skipstone.kernels.pack.column_intervals import keys_of, mask_of_plane, packed, unpacked
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import plane_of, unpack, word_count
from skipstone.kernels.run import numpy_cpu, pool

if TYPE_CHECKING:
    from skipstone.kernels.run.launch import PackedStatistics


# Returns the interval of a leaf in containers [first, stop).
LeafReader = Callable[[int, int], Interval]
# Containers of a chunk, a multiple of 64. Their intermediate arrays stay in cache.
CHUNK: Final = 1 << 15


def derive(n: Node, source: PackedStatistics) -> Column:
    """Return the packed statistics of a call."""
    return packed(interval_of(n, source), source.num_containers)


def interval_of(n: Node, source: PackedStatistics) -> Interval:
    """Return the interval of a bound scalar in each container, computed chunk by chunk."""
    leaves = {leaf: _leaf(leaf, source) for leaf in _leaves(n)}
    count = source.num_containers
    if count <= CHUNK:
        return _evaluate(n, leaves, 0, count)
    if (
        len(leaves) == 1
        and (only := next(iter(leaves))).op is Op.COLUMN
        and only.dtype is not None
        and only.dtype.coded
    ):
        return _by_distinct(n, only, source)
    return _in_chunks(n, leaves, count)


def _by_distinct(n: Node, leaf: Node, source: PackedStatistics) -> Interval:
    """Evaluate each distinct pair of bounds of one text or long decimal column once.

    Such bounds repeat, and they take long to evaluate.
    """
    assert isinstance(leaf.value, tuple) and leaf.dtype is not None
    count, column = source.num_containers, source.column(leaf.value, leaf.dtype)
    low, high = (
        np.zeros(count, np.int64) if b is None else b.astype(np.int64)
        for b in (column.low, column.high)
    )
    flags = sum(
        np.broadcast_to(mask_of_plane(p, count), count).astype(np.int64) << i
        for i, p in enumerate((column.may_hold_value, column.may_hold_null))
    )
    _, first, inverse = np.unique(
        (low << 33) | (high << 2) | flags, return_index=True, return_inverse=True
    )
    if len(first) > count // 2:
        return _in_chunks(n, {leaf: _leaf(leaf, source)}, count)
    planes = (
        plane_of(np.broadcast_to(mask_of_plane(p, count), count)[first])
        for p in (column.may_hold_value, column.may_hold_null)
    )
    may_hold_value, nulls = planes
    bounds = (b if b is None else b[first] for b in (column.low, column.high))
    distinct = replace(
        column,
        low=next(bounds),
        high=next(bounds),
        may_hold_value=may_hold_value,
        may_hold_null=nulls,
    )
    keys = keys_of(column)
    parts = {leaf: lambda start, stop: unpacked(_slice(distinct, start, stop), stop - start, keys)}
    v = _in_chunks(n, parts, len(first))
    return Interval(v.dtype, *(np.broadcast_to(a, len(first))[inverse] for a in v.arrays))


def _in_chunks(n: Node, leaves: dict[Node, LeafReader], count: int) -> Interval:
    out: list[Data] = []

    def work(first: int, stop: int) -> None:
        v = _evaluate(n, leaves, first, stop)
        for whole, part in zip(out, v.arrays, strict=True):
            whole[first:stop] = part

    assert n.dtype is not None
    out += [np.empty(count, numpy_type_of(n.dtype)) for _ in range(2)] + [
        np.empty(count, np.bool_) for _ in range(5)
    ]
    pool.run_chunks(work, count, CHUNK if _is_builtin(n) else count)
    return Interval(n.dtype, *out)


def _leaves(n: Node) -> Iterator[Node]:
    if n.op is Op.COLUMN or _is_condition(n) or _is_fields(n) or _is_filter(n):
        yield n
    elif n.op is Op.CALL:
        for a in n.args:
            yield from _leaves(a)


def _is_condition(n: Node) -> bool:
    """Return True for a condition as a BOOLEAN, and a condition that an array's elements meet."""
    return n.op is Op.CALL and (
        call_of(n).name == TRUTH or (call_of(n).name == "exists" and n.args[0].op is Op.COLUMN)
    )


def _is_filter(n: Node) -> bool:
    """Return True for the elements of a column that meet a condition."""
    return n.op is Op.CALL and call_of(n).name == "filter" and n.args[0].op is Op.COLUMN


def _is_fields(n: Node) -> bool:
    """Return True for the array of a field of all structs in a column."""
    if n.op is not Op.CALL or call_of(n).name != FIELDS or n.args[0].op is not Op.COLUMN:
        return False
    return n.dtype is not None and n.dtype.entries is None


def _is_builtin(n: Node) -> bool:
    """Return True if all functions are built in.

    A user's function gets all containers at once, in the caller's thread.
    """
    return (
        n.op is not Op.CALL
        or _is_condition(n)
        or _is_fields(n)
        or _is_filter(n)
        or (call_of(n).name in builtin_functions() and all(map(_is_builtin, n.args)))
    )


def _leaf(n: Node, source: PackedStatistics) -> LeafReader:
    if _is_fields(n):
        return _fields(n, source)
    if _is_filter(n):
        return _filtered(n, source)
    if n.op is Op.CALL:
        found = _truth(n.args[0], source) if call_of(n).name == TRUTH else _exists(n, source)
        return functools.partial(_slice_interval, found)
    assert isinstance(n.value, tuple) and n.dtype is not None
    column = source.column(n.value, n.dtype)
    keys, parts = keys_of(column), _parts(n.value, n.dtype, source)

    def read(first: int, stop: int) -> Interval:
        found = unpacked(_slice(column, first, stop), stop - first, keys)
        return replace(found, parts=tuple(part(first, stop) for part in parts))

    return read


def _parts(path: Path, dtype: DType, source: PackedStatistics) -> list[LeafReader]:
    """Return the readers of an array's elements, or of a map's keys and values, if bounds exist."""
    if not source.bounds_elements:
        return []
    parts = [(part, t) for part, t in parts_of(dtype).items() if len(part) == 1]
    return [_leaf(Node(Op.COLUMN, (), (*path, *part), t), source) for part, t in parts]


def _fields(n: Node, source: PackedStatistics) -> LeafReader:
    """Return the reader of an array of a field: NULL where the array of structs is."""
    (array,), dtype = n.args, n.dtype
    assert isinstance(array.value, tuple) and array.dtype is not None and dtype is not None
    element, parts = dtype.element or dtype.record[0].dtype, []
    if source.bounds_elements and element.ordered:
        path = (*array.value, ELEMENT, *call_of(n).body)
        parts = [_leaf(Node(Op.COLUMN, (), path, element), source)]
    column = source.column(array.value, array.dtype)

    def read(first: int, stop: int) -> Interval:
        found = unpacked(_slice(column, first, stop), stop - first)
        return replace(found, dtype=dtype, parts=tuple(part(first, stop) for part in parts))

    return read


def _filtered(n: Node, source: PackedStatistics) -> LeafReader:
    """Return the reader of an array's elements that may meet a condition."""
    array, met = n.args[0], _met(n, source)
    assert array.dtype is not None and n.dtype is not None
    items = n.dtype.element or n.dtype.record[0].dtype
    read_array = _leaf(array, source)

    def read(first: int, stop: int) -> Interval:
        found, test = read_array(first, stop), _slice_interval(met, first, stop)
        true = test.may_hold_value & np.asarray(test.high > 0, np.bool_)
        item = found.parts[0] if found.parts else unknown(items)
        item = replace(
            item,
            may_hold_value=item.may_hold_value & true,
            may_hold_null=item.may_hold_null & true,
            may_hold_nan=item.may_hold_nan & true,
        )
        return replace(found, parts=(item,), may_raise=found.may_raise | test.may_raise)

    return read


def _slice_interval(v: Interval, first: int, stop: int) -> Interval:
    return Interval(v.dtype, *(a if len(a) == 1 else a[first:stop] for a in v.arrays))


def _met(n: Node, source: PackedStatistics) -> Interval:
    """Return whether some element of a column may meet the condition of a lambda."""
    array, (body, parameter, *_) = n.args[0], call_of(n).body
    assert isinstance(array.value, tuple)
    if not source.bounds_elements or _is_inside_lambda(body, parameter):
        return anything(ty.BOOL)
    return _truth(_of_elements(body, parameter, array.value), source)


def _exists(n: Node, source: PackedStatistics) -> Interval:
    """Return the interval of `exists`: TRUE only where some element may meet the condition."""
    return replace(
        _met(n, source), low=np.zeros(1, np.int64), may_hold_value=YES, may_hold_null=YES
    )


def _is_inside_lambda(body: Node, parameter: str) -> bool:
    """Return True if a lambda reads a parameter of a lambda around it."""
    roots = {path[0] for path in columns_of(body)}
    return any(name.startswith("\0") for name in roots - {parameter})


def _of_elements(n: Node, parameter: str, array: Path) -> Node:
    """Return the condition of a lambda as one on the elements of an array, or on their fields.

    Other columns stay: no element meets the condition if none does beside any of their values.
    """
    if n.op is Op.COLUMN and isinstance(n.value, tuple) and n.value[0] == parameter:
        return Node(n.op, (), (*array, ELEMENT, *n.value[1:]), n.dtype)
    args = tuple(_of_elements(a, parameter, array) for a in n.args)
    return Node(n.op, args, n.value, n.dtype)


def _slice(c: Column, first: int, stop: int) -> Column:
    return c.rearranged(
        lambda b: b[first:stop],
        lambda p: p if isinstance(p, bool) else p[first // 64 : word_count(stop)],
    )


def _evaluate(n: Node, leaves: dict[Node, LeafReader], first: int, stop: int) -> Interval:
    if n in leaves:
        return leaves[n](first, stop)
    if n.op is Op.LITERAL:
        assert n.dtype is not None
        return point(n.value, n.dtype)
    call = call_of(n)
    args = tuple(_evaluate(a, leaves, first, stop) for a in n.args)
    found = function_of(call.name)
    # A user's function that is not registered here: nothing is known.
    if found is None:
        widen = builtin_functions()["widen"]
        return replace(opaque(call, widen, args), may_raise=np.ones(1, np.bool_))
    return apply(call, found, args)


def _truth(condition: Node, source: PackedStatistics) -> Interval:
    """Return a condition as a BOOLEAN interval.

    Its three outcomes are computed as for any predicate.
    """
    from skipstone.kernels.run.prepare import prepare

    merged = merge(condition)
    true, false, null = (
        _plane(Program(condition_of(merged, want)), source, prepare)
        for want in (Want.TRUE, Want.FALSE, Want.NULL)
    )
    may_raise = functools.reduce(np.logical_or, _may_raise(merged, source), NO)
    low, high = (~false).astype(np.int64), true.astype(np.int64)
    return Interval(ty.BOOL, low, high, NO, true | false, null, NO, may_raise)


def _may_raise(condition: Node, source: PackedStatistics) -> Iterator[Mask]:
    """Yield the masks of containers where calls in a condition may raise.

    In these containers, neither the condition nor anything that depends on it has an outcome.
    """
    if condition.op is Op.UNKNOWN:
        yield np.ones(1, np.bool_)
    for a in condition.args:
        if a.op is Op.CALL:
            assert a.dtype is not None
            yield mask_of_plane(source.column(a, a.dtype).may_raise, source.num_containers)
        elif a.op is not Op.COLUMN:
            yield from _may_raise(a, source)


def _plane(program: Program, source: PackedStatistics, prepare: Any) -> Mask:
    launch = prepare(program, source)
    root = launch.roots[0]
    if root.op is Op.LITERAL:
        return np.full(1, bool(root.value))
    out = np.empty(word_count(launch.n), np.uint64)
    numpy_cpu.run(launch, [out])
    return unpack(out, launch.n)
