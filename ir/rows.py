"""The row evaluator: a bound predicate over Arrow rows, with Spark's semantics.

NaN is greater than every number and equal to itself, -0.0 equals 0.0, strings compare by bytes.
Literals already lie on their columns' axes, so no cast of data is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.like import pattern_of
from skipstone.ir.node import Node, Op, Path, Reason, show_path
from skipstone.ir.types import DType, Kind, from_arrow, plain, to_python

WILDCARDS: Final = 2_000  # tokens of a pattern; Arrow's regular expressions fail at some ten thousand

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Truth:
    """Which rows are TRUE and which are FALSE; the rest are NULL. Two masks of shape (rows,)."""

    true: Mask
    false: Mask


def evaluate_rows(predicate: Node, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Judge each row of a batch.

    Args:
        predicate: A bound predicate whose columns the batch has, with the types it was bound to.
        batch: n rows, host memory.

    Returns:
        Boolean array of length n: true, false or null, as Spark SQL says.

    Raises:
        UnsupportedForm: the predicate holds a form that only planning understands.
    """
    truth = _judge(predicate, batch, {})
    return pa.array(truth.true, mask=~(truth.true | truth.false))


def matching_rows(predicate: Node, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a batch for which the predicate is TRUE."""
    return batch.filter(pa.array(_judge(predicate, batch, {}).true))


def _judge(n: Node, batch: pa.RecordBatch, cache: dict[Path, pa.Array]) -> Truth:
    size = batch.num_rows
    match n.op:
        case Op.LITERAL:
            return Truth(np.full(size, n.value == 1), np.full(size, n.value == 0))
        case Op.UNKNOWN:
            assert isinstance(n.value, Reason)
            raise UnsupportedForm(
                f"rows cannot be judged by {n.value.what!r}: {n.value.why}. "
                "Plan with it, and filter what is read by another engine; or leave this condition out."
            )
        case Op.NOT:
            p = _judge(n.args[0], batch, cache)
            return Truth(p.false, p.true)
        case Op.AND | Op.OR:
            parts = [_judge(a, batch, cache) for a in n.args]
            trues, falses = [p.true for p in parts], [p.false for p in parts]
            every, some = np.logical_and.reduce, np.logical_or.reduce
            return Truth(every(trues), some(falses)) if n.op is Op.AND else Truth(some(trues), every(falses))
        case Op.IS_TRUE:
            p = _judge(n.args[0], batch, cache)
            return Truth(p.true, ~p.true)
        case Op.IS_NULL if n.args[0].op is not Op.COLUMN:
            p = _judge(n.args[0], batch, cache)
            return Truth(~(p.true | p.false), p.true | p.false)
    path = n.args[0].value
    assert isinstance(path, tuple)
    if path not in cache:
        cache[path] = column_at(batch, path)
    values = cache[path]
    valid = _mask(pc.is_valid(values))
    if n.op is Op.IS_NULL:
        return Truth(~valid, valid)
    true = valid & _test(n, values)
    return Truth(true, valid & ~true)


def column_at(batch: pa.RecordBatch, path: Path) -> pa.Array:
    """A column or struct field of a batch, in a plain layout. A field of a NULL struct is NULL."""
    try:
        values = batch.column(path[0])
        for name in path[1:]:
            values = pc.struct_field(values, name)
    except (KeyError, pa.ArrowInvalid) as e:
        raise KeyError(f"the rows lack the column {show_path(path)}; they have {', '.join(batch.schema.names)}") from e
    values = plain(values)
    # Arrow has no LIKE or IN for views, no `<` for binary of a fixed size and no IN for short decimals (pyarrow 26).
    match from_arrow(values.type):
        case DType(Kind.DATE):
            return values.cast(pa.date32())
        case DType(Kind.STRING):
            return values.cast(pa.large_string())
        case DType(Kind.BINARY):
            return values.cast(pa.large_binary())
        case DType(Kind.DECIMAL, precision=p, scale=s):
            return values.cast(pa.decimal128(p, s))
    return values


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _test(n: Node, values: pa.Array) -> Mask:
    """A test on non-NULL values; what it says of NULL ones is not used."""
    if n.op in (Op.GT, Op.GE):
        # Spark's order is total, so these are the negations, and NaN passes them.
        return ~_test(Node(Op.LE if n.op is Op.GT else Op.LT, n.args), values)
    match n.op:
        case Op.DEFINED:
            return np.ones(len(values), np.bool_)
        case Op.NAN:
            return _mask(pc.is_nan(values))
        case Op.IN:
            assert isinstance(n.value, tuple)
            return _is_in(n.value, values)
        case Op.LIKE:
            pattern = pattern_of(n)
            if pattern.is_prefix:
                return _mask(pc.starts_with(values, pattern=pattern.prefix))
            if len(pattern.tokens) > WILDCARDS:
                raise UnsupportedForm(
                    f"rows cannot be judged by LIKE with {len(pattern.tokens):,} wildcards and texts between them; expected at most {WILDCARDS:,}"
                )
            return _mask(pc.match_substring_regex(values, pattern=rf"\A{pattern.regex}\z"))
    compare: Callable[..., pa.Array] = {Op.LT: pc.less, Op.LE: pc.less_equal, Op.EQ: pc.equal}[n.op]
    return _mask(compare(values, scalar_of(n.args[1].value, values.type)))


def _is_in(members: tuple[object, ...], values: pa.Array) -> Mask:
    dtype = from_arrow(values.type)
    if dtype.kind is Kind.FLOAT:
        floats = np.asarray(values.fill_null(np.nan).to_numpy(zero_copy_only=False))
        return np.isin(floats, np.asarray(members, floats.dtype))
    storage = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64(), Kind.STRING: pa.large_binary(), Kind.BINARY: pa.large_binary()}.get(dtype.kind)
    wanted = pa.array(members, storage).cast(values.type) if storage else pa.array([to_python(m, dtype) for m in members], values.type)
    return _mask(pc.is_in(values, value_set=wanted))


def scalar_of(axis: object, arrow: pa.DataType) -> pa.Scalar:
    """An axis value as an Arrow scalar of a column's type."""
    dtype = from_arrow(arrow)
    match dtype.kind:
        case Kind.DATE:
            return pa.scalar(axis, pa.int32()).cast(arrow)
        case Kind.TIMESTAMP:
            return pa.scalar(axis, pa.int64()).cast(arrow)
        case Kind.STRING | Kind.BINARY:
            return pa.scalar(axis, pa.large_binary()).cast(arrow)
    return pa.scalar(to_python(axis, dtype), arrow)
