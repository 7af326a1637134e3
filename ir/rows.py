"""The row evaluator: judge Arrow rows by a bound predicate, with Spark's semantics.

NaN is greater than every number and equal to itself, -0.0 equals 0.0, strings compare by bytes.
Literals already lie on their columns' axes, so no data is cast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.arrow import arrow_of, booleans_of, plain
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.evaluation.leaves import fits_array, fits_data
from skipstone.ir.evaluation.parts import Truth as Truth
from skipstone.ir.evaluation.parts import by_values, in_parts
from skipstone.ir.functions.build import TRUTH, call_of, evaluate
from skipstone.ir.like import pattern_of
from skipstone.ir.node import TERMS, Node, Op, Path, Reason, columns_of, show_path
from skipstone.ir.types import TEXT, DType, Kind, from_arrow
from skipstone.ir.values import (
    NO,
    Mask,
    Values,
    constant,
    from_array,
    from_lists,
    malformed,
    to_array,
)

FILTER_ELSEWHERE: Final = (
    "Filter the rows elsewhere: plan.to_spark(spark) does, if the plan was made with the session's "
    "time zone; to_arrow, to_polars and to_duckdb return them unfiltered with filter=False"
)


def evaluate_rows(predicate: Node, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Judge each row of a batch.

    Args:
        predicate: A bound predicate. The batch has its columns, with the types it was bound to.
        batch: n rows, host memory.

    Returns:
        Boolean array of length n: true, false or null, as in Spark SQL.

    Raises:
        UnsupportedForm: only planning supports a form of the predicate, or Spark raises an error
            for a row.
    """
    if not batch.num_rows:
        return pa.nulls(0, pa.bool_())
    truth = judge(predicate, batch, {})
    _raise_if_unjudged(predicate, truth, batch)
    return arrow_of(truth.true, truth.true | truth.false)


def matching_rows(predicate: Node, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows for which the predicate is TRUE. Raises as `evaluate_rows` does."""
    if not batch.num_rows:
        return batch
    truth = judge(predicate, batch, {})
    _raise_if_unjudged(predicate, truth, batch)
    return pc.filter(batch, arrow_of(truth.true))


def _raise_if_unjudged(predicate: Node, truth: Truth, batch: pa.RecordBatch) -> None:
    if truth.may_raise.any():
        from skipstone.ir.evaluation.unjudged import unjudged

        first = int(truth.may_raise.argmax())
        raise unjudged(predicate, int(truth.may_raise.sum()), batch.slice(first, 1))


Cache: TypeAlias = dict[Path | Node, pa.Array]


def judge(n: Node, batch: pa.RecordBatch, cache: Cache) -> Truth:
    """Judge each row. Rows that cannot be judged are marked and raise no error.

    `cache` stores the columns that are read from the batch.

    Raises:
        UnsupportedForm: the predicate holds a form that cannot filter rows.
    """
    size = batch.num_rows
    none = np.zeros(size, np.bool_)
    match n.op:
        case Op.LITERAL:
            return Truth(np.full(size, n.value == 1), np.full(size, n.value == 0), none)
        case Op.UNKNOWN:
            assert isinstance(n.value, Reason)
            hint = f"; {n.value.hint}" if n.value.hint else ""
            raise UnsupportedForm(
                f"cannot filter rows by {n.value.what!r}: {n.value.why}{hint}. "
                f"{FILTER_ELSEWHERE}, or leave this condition out."
            )
        case Op.NOT:
            p = judge(n.args[0], batch, cache)
            return Truth(p.false, p.true, p.may_raise)
        case Op.AND | Op.OR:
            parts = [judge(a, batch, cache) for a in n.args]
            trues, falses = [p.true for p in parts], [p.false for p in parts]
            every, some = np.logical_and.reduce, np.logical_or.reduce
            true, false = (
                (every(trues), some(falses)) if n.op is Op.AND else (some(trues), every(falses))
            )
            # A row that another input decides is known, so the order of inputs does not matter.
            may_raise = some([p.may_raise for p in parts]) & ~(false if n.op is Op.AND else true)
            return Truth(true & ~may_raise, false & ~may_raise, may_raise)
        case Op.IS_TRUE:
            p = judge(n.args[0], batch, cache)
            return Truth(p.true, ~p.true & ~p.may_raise, p.may_raise)
        case Op.IS_NULL if n.args[0].op not in TERMS:
            p = judge(n.args[0], batch, cache)
            return Truth(~(p.true | p.false | p.may_raise), p.true | p.false, p.may_raise)
    if n.args[0].op is Op.COLUMN:
        return _judge_column(n, batch, cache)
    return in_parts(n, batch, functools.partial(_judge_call, n))


def _judge_column(n: Node, batch: pa.RecordBatch, cache: Cache) -> Truth:
    """Judge each row by a test of a column; if a dictionary is small, judge its values."""
    path = n.args[0].value
    assert isinstance(path, tuple)
    if len(path) == 1 and path not in cache and path[0] in batch.schema.names:
        if pa.types.is_dictionary(batch.schema.field(path[0]).type):
            found = by_values(path, batch, lambda values: _judge_column(n, values, {}))
            if found is not None:
                return found
    array = _column(n.args[0], batch, cache)
    return _judge_array(n, array, pc.is_valid(array), np.zeros(batch.num_rows, np.bool_))


def _judge_array(n: Node, array: pa.Array, valid: Mask | pa.Array, may_raise: Mask) -> Truth:
    if n.op is Op.LIKE and not pattern_of(n).by_bytes:
        may_raise = may_raise | malformed(array)
    valid = (valid if isinstance(valid, np.ndarray) else booleans_of(valid)) & ~may_raise
    if n.op is Op.IS_NULL:
        return Truth(~valid & ~may_raise, valid, may_raise)
    true = valid & fits_array(n, array)
    return Truth(true, valid & ~true, may_raise)


def _judge_call(n: Node, batch: pa.RecordBatch) -> Truth:
    """Judge each row by a test of a call: by its values, and by their bounds.

    Bounds come first if a function's last digits are not known; they decide nearly all rows.
    """
    from skipstone.ir.evaluation.bounded import is_bounded

    ways: list[Callable[[Node, pa.RecordBatch], Truth]] = [_judge_values, _judge_bounds]
    if is_bounded(n):
        ways.reverse()
    truth = ways[0](n, batch)
    where = truth.may_raise
    if not where.any():
        return truth
    if not where.all():
        batch = batch.select(list({path[0]: None for path in columns_of(n)}))
        try:
            batch = pc.filter(batch, arrow_of(where))
        except pa.ArrowNotImplementedError:  # views of text (pyarrow 26)
            return truth
    again = ways[1](n, batch)
    for mask, outcome in zip(
        (truth.true, truth.false, truth.may_raise),
        (again.true, again.false, again.may_raise),
        strict=True,
    ):
        mask[where] = outcome
    return truth


def _judge_bounds(n: Node, batch: pa.RecordBatch) -> Truth:
    """Judge each row by a test of a call's values, as far as these are bounded."""
    from skipstone.ir.evaluation.bounded import judge_bounded

    return judge_bounded(n, batch.num_rows, lambda a: values_of(a, batch, {}))


def _judge_values(n: Node, batch: pa.RecordBatch) -> Truth:
    """Judge each row by a test of a call's values, as far as these are known."""
    size = batch.num_rows
    values = values_of(n.args[0], batch, {})
    valid, may_raise = (
        np.array(np.broadcast_to(m, size)) for m in (values.valid, values.may_raise)
    )
    if values.dtype.kind in TEXT:
        return _judge_array(n, to_array(values, size), valid, may_raise)
    valid &= ~may_raise
    if n.op is Op.IS_NULL:
        return Truth(~valid & ~may_raise, valid, may_raise)
    true = valid & fits_data(n, values.points)
    return Truth(true, valid & ~true, may_raise)


def _column(n: Node, batch: pa.RecordBatch, cache: Cache) -> pa.Array:
    path = n.value
    assert isinstance(path, tuple)
    if path not in cache:
        cache[path] = column_at(batch, path)
    return cache[path]


def values_of(n: Node, batch: pa.RecordBatch, cache: Cache) -> Values:
    """Evaluate a bound scalar on rows."""
    match n.op:
        case Op.LITERAL:
            assert n.dtype is not None
            return constant(n.value, n.dtype)
        case Op.COLUMN:
            array = _column(n, batch, cache)
            if n.dtype is not None and n.dtype.nested:
                return from_lists(array)
            if n.dtype is None or not n.dtype.ordered:
                return Values(ty.NULL, np.zeros(1, np.int64), booleans_of(pc.is_valid(array)), NO)
            return from_array(array)
    call = call_of(n)
    if call.name == TRUTH:
        truth = judge(n.args[0], batch, cache)
        return Values(
            ty.BOOL, truth.true.astype(np.int64), truth.true | truth.false, truth.may_raise
        )
    first = n.args[0].dtype if n.args else None
    if first is not None and (first.nested or first.record):
        from skipstone.ir.evaluation import list_calls

        found = list_calls.of_call(n, batch)
        if found is not None:
            return found
    return evaluate(n, tuple(values_of(a, batch, cache) for a in n.args))


def column_at(batch: pa.RecordBatch, path: Path) -> pa.Array:
    """Return a column or struct field of a batch, in a plain layout.

    A field of a NULL struct is NULL.

    Raises:
        KeyError: the batch lacks the column.
    """
    try:
        values = batch.column(path[0])
        for name in path[1:]:
            values = pc.struct_field(values, name)
    except (KeyError, pa.ArrowInvalid) as e:
        raise KeyError(
            f"the rows lack the column {show_path(path)}; they have {', '.join(batch.schema.names)}"
        ) from e
    values = plain(values)
    # Arrow has no LIKE or IN for views, no `<` for binary of a fixed size and no IN for short
    # decimals (pyarrow 26).
    match from_arrow(values.type):
        case DType(Kind.DATE):
            return pc.cast(values, pa.date32())
        case DType(Kind.STRING):
            return pc.cast(values, pa.large_string())
        case DType(Kind.BINARY):
            return pc.cast(values, pa.large_binary())
        case DType(Kind.DECIMAL, precision=p, scale=s):
            return pc.cast(values, pa.decimal128(p, s))
    return values
