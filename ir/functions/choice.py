"""Functions that choose among their arguments, and comparison as a function.

They are coalesce, if, case, greatest and least.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import common_type, in_spark
from skipstone.ir.function import Call, Function, Signature, check_arity
from skipstone.ir.interval import Interval, anything, hull, less
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import DType, Kind
from skipstone.ir.values import NO, YES, Mask, Values, constant


def common(args: tuple[Node, ...], session: Session) -> DType:
    """Return the type to which Spark casts all arguments."""
    dtype = ty.NULL
    for a in args:
        assert a.dtype is not None
        t = in_spark(a.dtype)
        if t.kind is Kind.OTHER and t.element is None:
            raise CannotJudge(f"{t} allows null tests only")
        if t.kind is Kind.NULL or t == dtype:
            continue
        if dtype.kind is not Kind.NULL and Kind.STRING in (t.kind, dtype.kind):
            raise CannotJudge(f"the choice between {dtype} and {t} depends on the version of Spark")
        dtype = t if dtype.kind is Kind.NULL else common_type(dtype, t, session)
    return dtype


def _alike(least: int, most: int) -> Any:
    def signature(args: tuple[Node, ...], session: Session) -> Signature:
        check_arity(args, least, most)
        to = common(args, session)
        return (to,) * len(args), to

    return signature


def _case_signature(args: tuple[Node, ...], session: Session) -> Signature:
    """Return the types of condition, value, condition, value, ..., and the value of ELSE."""
    values = (*args[1::2], *args[-1:])
    to = common(values, session)
    for condition in args[:-1:2]:
        if condition.dtype != ty.BOOL:
            raise CannotJudge(f"expected a BOOLEAN condition, got {condition.dtype}")
    types = [ty.BOOL if i % 2 == 0 and i < len(args) - 1 else to for i in range(len(args))]
    return types, to


def _case_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the hull of the values that CASE may give: no earlier condition is always TRUE."""
    if call.dtype.element is not None:
        return anything(call.dtype)
    undecided, may_raise, parts = YES, NO, []
    for condition, value in zip(args[:-1:2], args[1::2], strict=False):
        may_hold = condition.may_hold_value & (condition.high != 0)
        may_raise = may_raise | (undecided & condition.may_raise)
        parts.append((value, undecided & may_hold))
        undecided = undecided & (
            condition.may_hold_null | (condition.may_hold_value & (condition.low == 0))
        )
    parts.append((args[-1], undecided))
    interval = hull(call.dtype, parts)
    return replace(interval, may_raise=interval.may_raise | may_raise)


def _case_rows(call: Call, args: tuple[Values, ...]) -> Values:
    picks, undecided, may_raise = [], YES, NO
    for condition, value in zip(args[:-1:2], args[1::2], strict=False):
        may_raise = may_raise | (undecided & condition.may_raise)
        holds = undecided & condition.valid & (condition.points != 0)
        picks.append((value, holds))
        undecided = undecided & ~holds
    picks.append((args[-1], undecided))
    return _pick(call.dtype, picks, may_raise)


def _pick(dtype: DType, picks: list[tuple[Values, Mask]], may_raise: Mask) -> Values:
    """Take each row from the one value whose mask is set."""
    data, valid, lost_rows = _stored(dtype, [v for v, _ in picks]), NO, may_raise
    array = constant(None, dtype).array
    for stored, (v, mask) in zip(data, picks, strict=True):
        array = _where(mask, stored, array)
        valid = valid | (mask & v.valid)
        lost_rows = lost_rows | (mask & v.may_raise)
    return Values(dtype, array, valid, lost_rows)


def _stored(dtype: DType, values: list[Values]) -> list[Any]:
    """Return the rows of several values, all as Arrow text or all as NumPy arrays."""
    if not any(isinstance(v.array, pa.Array) for v in values):
        return [v.array for v in values]
    to = pa.large_string() if dtype.kind is Kind.STRING else pa.large_binary()
    return [
        v.array if isinstance(v.array, pa.Array) else pa.array(v.array, pa.large_binary()).cast(to)
        for v in values
    ]


def _where(mask: Mask, chosen: Any, other: Any) -> Any:
    """Take rows of `chosen` where the mask is set; `other` may still be one value."""
    if not isinstance(chosen, pa.Array):
        return np.where(mask, chosen, other)
    if not isinstance(other, pa.Array):
        other = pa.array(other, pa.large_binary()).cast(chosen.type)
    n = max(len(mask), len(chosen), len(other))
    chosen, other = (a if len(a) == n else a[0] for a in (chosen, other))
    return pc.if_else(pa.array(np.broadcast_to(mask, n)), chosen, other)


def _coalesce_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    if call.dtype.element is not None:
        return anything(call.dtype)
    reach, parts = YES, []
    for a in args:
        parts.append((a, reach))
        reach = reach & a.may_hold_null
    interval = hull(call.dtype, parts)
    return replace(interval, may_hold_null=reach)


def _coalesce_rows(call: Call, args: tuple[Values, ...]) -> Values:
    undecided, picks = YES, []
    for a in args:
        picks.append((a, undecided & (a.valid | a.may_raise)))
        undecided = undecided & ~a.valid & ~a.may_raise
    return _pick(call.dtype, [*picks, (args[-1], undecided)], NO)


def _extreme(greatest: bool) -> Function:
    """Return greatest or least: they skip NULLs, and NaN is the greatest."""

    def interval(call: Call, args: tuple[Interval, ...]) -> Interval:
        every = hull(call.dtype, [(a, YES) for a in args])
        # A value that always exists bounds the result on one side.
        low, high, above = every.low, every.high, every.unbounded_above
        nulls, nans = YES, YES
        for a in args:
            present = ~a.may_hold_null & ~a.may_raise
            if greatest:
                better = present & ~a.may_hold_nan & a.may_hold_value & less(low, a.low)
                low = np.where(better, a.low, low)
            else:
                better = (
                    present
                    & ~a.may_hold_nan
                    & a.may_hold_value
                    & ~a.unbounded_above
                    & (above | less(a.high, high))
                )
                high, above = np.where(better, a.high, high), above & ~better
            nulls, nans = nulls & a.may_hold_null, nans & (a.may_hold_nan | a.may_hold_null)
        some_nan = every.may_hold_nan if greatest else every.may_hold_nan & nans
        return Interval(
            call.dtype, low, high, above, every.may_hold_value, nulls, some_nan, every.may_raise
        )

    def rows(call: Call, args: tuple[Values, ...]) -> Values:
        best = args[0]
        for a in args[1:]:
            wins = greater_than(a, best) if greatest else greater_than(best, a)
            best = _pick(
                call.dtype,
                [(best, best.valid & ~(a.valid & wins)), (a, a.valid & (~best.valid | wins))],
                best.may_raise | a.may_raise,
            )
        return best

    return Function(_alike(2, 100), interval=interval, rows=rows)


def greater_than(a: Values, b: Values) -> Mask:
    """Return a > b where both are valid; NaN is the greatest."""
    greater = less(b.points, a.points)
    if a.dtype.kind is Kind.FLOAT:
        greater = greater | (np.isnan(a.points) & ~np.isnan(b.points))
    return greater


def _compare_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of the possible signs -1, 0 and 1.

    NaN is the greatest, and equal to itself.
    """
    a, b = args
    if not a.dtype.ordered:
        return anything(ty.INT8)
    both = a.may_hold_value & b.may_hold_value
    lesser = (both & (b.unbounded_above | less(a.low, b.high))) | (
        a.may_hold_value & b.may_hold_nan
    )
    greater = (both & (a.unbounded_above | less(b.low, a.high))) | (
        a.may_hold_nan & b.may_hold_value
    )
    apart = (~a.unbounded_above & less(a.high, b.low)) | (~b.unbounded_above & less(b.high, a.low))
    equal = (both & ~apart) | (a.may_hold_nan & b.may_hold_nan)
    low = np.where(lesser, -1, np.where(equal, 0, 1))
    high = np.where(greater, 1, np.where(equal, 0, -1))
    nulls, may_raise = a.may_hold_null | b.may_hold_null, a.may_raise | b.may_raise
    return Interval(ty.INT8, low, high, NO, lesser | equal | greater, nulls, NO, may_raise)


def _compare_rows(call: Call, args: tuple[Values, ...]) -> Values:
    a, b = args
    if a.dtype.element is not None:
        from skipstone.ir.evaluation.row_by_row import row_values
        from skipstone.ir.functions.nested.arrays import compare_arrays

        return row_values(compare_arrays, call, args)
    data = greater_than(a, b).astype(np.int64) - greater_than(b, a).astype(np.int64)
    return Values(ty.INT8, data, a.valid & b.valid, a.may_raise | b.may_raise)


def _compare_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    a, b = (in_spark(n.dtype) for n in args if n.dtype is not None)
    if a.element is not None and b.element is not None:
        to = common_type(a, b, session)
        return (to, to), ty.INT8
    if Kind.STRING in (a.kind, b.kind) and a.kind is not b.kind:
        first, second = (b, a) if a.kind is Kind.STRING else (a, b)
        to = common_type(first, second, session)
    else:
        to = common_type(a, b, session)
    if not to.ordered:
        raise CannotJudge(f"columns of type {to} allow null tests only")
    return (to, to), ty.INT8


def _nanvl_signature(args: tuple[Node, ...], session: Session) -> Signature:
    check_arity(args, 2)
    types = [a.dtype for a in args]
    if any(t is None or t.kind not in (Kind.INT, Kind.DECIMAL, Kind.FLOAT) for t in types):
        raise CannotJudge("nanvl expects two numbers")
    to = ty.FLOAT if types == [ty.FLOAT, ty.FLOAT] else ty.DOUBLE
    return (to, to), to


def _nanvl_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    a, b = args
    return hull(call.dtype, [(replace(a, may_hold_nan=NO), YES), (b, a.may_hold_nan)])


def _nanvl_rows(call: Call, args: tuple[Values, ...]) -> Values:
    a, b = args
    nan = a.valid & ~a.may_raise & np.isnan(a.data)
    return _pick(call.dtype, [(a, ~nan), (b, nan)], NO)


FUNCTIONS: Final = {
    "nanvl": Function(_nanvl_signature, interval=_nanvl_interval, rows=_nanvl_rows),
    "coalesce": Function(
        _alike(1, 1000), interval=_coalesce_interval, rows=_coalesce_rows, nested=True
    ),
    "case": Function(_case_signature, interval=_case_interval, rows=_case_rows, nested=True),
    "greatest": _extreme(True),
    "least": _extreme(False),
    "compare": Function(
        _compare_signature, interval=_compare_interval, rows=_compare_rows, nested=True
    ),
}
