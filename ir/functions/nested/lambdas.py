"""Functions that take a lambda: exists, forall, filter, transform and aggregate.

A lambda is a bound condition or scalar whose columns are its parameters, so the row evaluator
judges it on a batch of the elements of all rows.

Source: Spark 4, `higherOrderFunctions.scala`; seen in 4.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.ir.evaluation.row_by_row import RAISES, row_values, unknown_rows
from skipstone.ir.function import Call, Function, Signature
from skipstone.ir.interval import any_result
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.values import Values, column_of


def _signature(args: tuple[Node, ...], session: Session) -> Signature:
    # Calls with a lambda are built by ir/functions/nested/lambda_calls.py.
    raise CannotJudge("expected a lambda, such as v -> v > 1")


def _elements(call: Call, args: tuple[Values, ...], columns: dict[str, pa.Array]) -> list[Any]:
    """Evaluate the lambda on rows of its parameters; None is NULL."""
    from skipstone.ir.rows import judge, values_of

    batch = pa.record_batch(list(columns.values()), list(columns))
    n, (body, *_) = batch.num_rows, call.body
    if call.name in ("transform", "aggregate"):
        found = values_of(body, batch, {})
        points = found.points.tolist()
        flags = [np.broadcast_to(m, n).tolist() for m in (found.valid, found.may_raise)]
        points = points * n if len(points) == 1 else points
        rows = zip(points, *flags, strict=True)
        return [RAISES if lost else v if valid else None for v, valid, lost in rows]
    truth = judge(body, batch, {})
    masks = zip(*(m.tolist() for m in (truth.true, truth.false, truth.may_raise)), strict=True)
    return [RAISES if lost else 1 if true else 0 if false else None for true, false, lost in masks]


def _by_elements(conclude: Callable[[Any, list[Any]], Any]) -> Function:
    """Return a function whose result follows from an array and the lambda's values for it."""

    def rows(call: Call, args: tuple[Values, ...]) -> Values:
        if len(args) > 1:  # the lambda reads other columns
            return unknown_rows(call, args)
        arrays = [a or () for a in args[0].points.tolist()]
        inner = args[0].dtype.element
        assert inner is not None
        flat = [v for a in arrays for v in a]
        columns = {call.body[1]: column_of(flat, inner)}
        for index in call.body[2:]:
            columns[index] = pa.array([i for a in arrays for i in range(len(a))], pa.int32())
        found = _elements(call, args, columns) if flat else []
        ends = np.cumsum([0, *map(len, arrays)]).tolist()
        results = np.empty(len(arrays), object)
        for i, (first, stop) in enumerate(itertools.pairwise(ends)):
            results[i] = (arrays[i], found[first:stop])
        packed = Values(args[0].dtype, results, args[0].valid, args[0].may_raise)
        return row_values(lambda pair: conclude(*pair), call, (packed,))

    return Function(_signature, rows=rows, interval=any_result, nested=True)


def _exists(array: Any, found: list[Any]) -> Any:
    """Return TRUE if one is TRUE, else NULL if one is NULL; Spark stops at the first TRUE."""
    for v in found:
        if v is RAISES or v == 1:
            return v
    return None if None in found else 0


def _forall(array: Any, found: list[Any]) -> Any:
    for v in found:
        if v is RAISES or v == 0:
            return v
    return None if None in found else 1


def _filtered(array: Any, found: list[Any]) -> Any:
    if RAISES in found:
        return RAISES
    return tuple(v for v, keep in zip(array, found, strict=True) if keep == 1)


def _transformed(array: Any, found: list[Any]) -> Any:
    return RAISES if RAISES in found else tuple(found)


def _aggregate(call: Call, args: tuple[Values, ...]) -> Values:
    """Fold each array from left to right; the lambda has the result so far and the element."""
    if len(args) > 2:  # the lambda reads other columns
        return unknown_rows(call, args)
    n = max(map(len, args))
    arrays, starts = ([*v.points.tolist() * (n if len(v) == 1 else 1)] for v in args)
    known = np.broadcast_to(args[1].valid, n).tolist()
    sofar = [v if ok else None for v, ok in zip(starts, known, strict=True)]
    arrays = [a or () for a in arrays]
    _, left, right = call.body
    inner = args[0].dtype.element
    assert inner is not None
    for index in range(max(map(len, arrays))):
        rows = [i for i, a in enumerate(arrays) if len(a) > index and sofar[i] is not RAISES]
        if not rows:
            continue
        columns = {
            left: column_of([sofar[i] for i in rows], call.dtype),
            right: column_of([arrays[i][index] for i in rows], inner),
        }
        for i, v in zip(rows, _elements(call, args, columns), strict=True):
            sofar[i] = v
    results = np.empty(n, object)
    for i, v in enumerate(sofar):
        results[i] = (v,)
    packed = Values(args[0].dtype, results, args[0].valid, args[0].may_raise | args[1].may_raise)
    return row_values(lambda pair: pair[0], call, (packed,))


FUNCTIONS: Final = {
    "exists": _by_elements(_exists),
    "forall": _by_elements(_forall),
    "filter": _by_elements(_filtered),
    "transform": _by_elements(_transformed),
    **dict.fromkeys(
        ("map_filter", "transform_keys", "transform_values", "zip_with"),
        Function(_signature, rows=unknown_rows, interval=any_result, nested=True),
    ),
    "aggregate": Function(_signature, rows=_aggregate, interval=any_result, nested=True),
}
