"""Statistics of calls: what a function of columns can be in each container, derived from the columns' own.

They are computed once, in NumPy, and packed as a column's are; after that a kernel cannot tell the two
apart. `ir/interval.py` has the rules.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skipstone.ir import types as ty
from skipstone.ir.functions.build import TRUTH, call_of, function_of
from skipstone.ir.interval import Interval, apply, end, opaque, point
from skipstone.ir.lower import Program, Want, condition_of
from skipstone.ir.merge import merge
from skipstone.ir.node import Node, Op
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import NO, TEXT, Data, Mask, lane_of
from skipstone.kernels import numpy_cpu
from skipstone.kernels.bounds import Bounds
from skipstone.kernels.codes import key_of
from skipstone.kernels.columns import Column, column_of
from skipstone.kernels.narrow import is_open
from skipstone.kernels.planes import Plane, plane_of, unpack, word_count

if TYPE_CHECKING:
    from skipstone.kernels.launch import Source


def derive(n: Node, source: Source) -> Column:
    """The packed statistics of a call."""
    return packed(interval_of(n, source), source.num_containers)


def interval_of(n: Node, source: Source) -> Interval:
    """What a bound scalar can be in each container."""
    match n.op:
        case Op.LITERAL:
            assert n.dtype is not None
            return point(n.value, n.dtype)
        case Op.COLUMN:
            assert isinstance(n.value, tuple) and n.dtype is not None
            return unpacked(source.column(n.value, n.dtype), source.num_containers)
    call = call_of(n)
    if call.name == TRUTH:
        return _truth(n.args[0], source)
    args = tuple(interval_of(a, source) for a in n.args)
    found = function_of(call.name)
    if found is None:  # a user's function that is not registered here: nothing is known
        missing = opaque(call, function_of("widen"), args)  # type: ignore[arg-type]
        return Interval(missing.dtype, missing.low, missing.high, missing.above, missing.real, missing.nulls, missing.nans, np.ones(1, np.bool_))
    return apply(call, found, args)


def _truth(condition: Node, source: Source) -> Interval:
    """A condition as a BOOLEAN: its three outcomes are computed as any predicate's are."""
    from skipstone.kernels.launch import prepare

    merged = merge(condition)
    true, false, null = (_plane(Program(condition_of(merged, want)), source, prepare) for want in (Want.T, Want.F, Want.N))
    lost = functools.reduce(np.logical_or, _losses(merged, source), NO)
    return Interval(ty.BOOL, (~false).astype(np.int64), true.astype(np.int64), NO, true | false, null, NO, lost)


def _losses(condition: Node, source: Source) -> Iterator[Mask]:
    """Where the calls that a condition tests may be lost; the condition then has no outcome, and neither has what depends on it."""
    if condition.op is Op.UNKNOWN:
        yield np.ones(1, np.bool_)
    for a in condition.args:
        if a.op is Op.CALL:
            assert a.dtype is not None
            yield _mask(source.column(a, a.dtype).lost, source.num_containers)
        elif a.op is not Op.COLUMN:
            yield from _losses(a, source)


def _plane(program: Program, source: Source, prepare: Any) -> Mask:
    launch = prepare(program, source)
    root = launch.roots[0]
    if root.op is Op.LITERAL:
        return np.full(1, bool(root.value))
    out = np.empty(word_count(launch.n), np.uint64)
    numpy_cpu.run(launch, [out])
    return unpack(out, launch.n)


def _mask(plane: Plane, n: int) -> Mask:
    return np.full(1, plane) if isinstance(plane, bool) else unpack(plane, n)


def unpacked(c: Column, n: int) -> Interval:
    """A packed column as an interval: codes become the values they stand for."""
    dtype = c.dtype
    real, nulls, nans, lost = (_mask(p, n) for p in (c.real, c.nulls, c.nans, c.lost))
    if not dtype.ordered:  # null tests only
        return Interval(dtype, np.zeros(1, np.int64), np.zeros(1, np.int64), NO, real, nulls, nans, lost)
    low, high = (_values(c, high=h) for h in (False, True))
    above = NO
    if dtype.kind in TEXT:
        above = np.ones(1, np.bool_) if c.high is None else np.asarray(c.high == c.end(high=True), np.bool_)
    if not dtype.coded and dtype.kind is not Kind.FLOAT and low is not high and len(low) == len(high) > 1 and np.array_equal(low, high):
        high = low  # one value each: functions then look once
    return Interval(dtype, low, high, above, real, nulls, nans, lost)


def _values(c: Column, *, high: bool) -> Data:
    lanes = c.high if high else c.low
    if lanes is None:
        return end(c.dtype, high=high)
    if c.codes is not None:
        keys = c.codes.keys.to_numpy(zero_copy_only=False)
        if c.dtype.kind is Kind.DECIMAL:
            decoded = np.empty(len(keys), object)
            decoded[:] = [int.from_bytes(k, "big") - 2**127 for k in keys]
            keys = decoded
        filled = np.append(keys, end(c.dtype, high=high)) if c.dtype.highest is None else keys
        return np.asarray(filled[np.asarray(lanes)])
    out = np.asarray(lanes, lane_of(c.dtype))
    if c.narrowed and is_open(c.dtype, c.lane)[high]:
        out = np.where(lanes == c.end(high), end(c.dtype, high=high), out)
    return out


def packed(v: Interval, n: int) -> Column:
    """An interval as a packed column of n containers."""
    dtype = v.dtype
    real, nulls, nans, lost = (plane_of(np.broadcast_to(m, n)) for m in (v.real, v.nulls, v.nans, v.lost))
    alive = np.broadcast_to(v.real, n)
    known = alive.copy()
    low = _bounds(np.broadcast_to(v.low, n), known, dtype)
    high = _bounds(np.broadcast_to(v.high, n), known & ~np.broadcast_to(v.above, n), dtype)
    column = column_of(dtype, low, high, real, nulls, nans)
    return Column(dtype, column.lane, column.low, column.high, real, nulls, nans, column.codes, lost)


def _bounds(values: Data, known: Mask, dtype: DType) -> Bounds:
    if dtype.coded:
        keys = [key_of(int(x) if dtype.kind is Kind.DECIMAL else x, dtype) if k else None for x, k in zip(values.tolist(), known.tolist(), strict=True)]
        return Bounds(pa.array(keys, pa.large_binary()), known)
    if dtype.kind is Kind.FLOAT:
        return Bounds(np.where(known, values, 0).astype(dtype.lane), known)
    low, high = dtype.lowest, dtype.highest
    return Bounds(np.clip(np.where(known, values, 0).astype(np.int64), low, high).astype(dtype.lane), known)
