"""Functions of arrays and maps that are computed row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import Call, Function, Signature
from skipstone.ir.interval import Interval, any_result
from skipstone.ir.node import Node
from skipstone.ir.session import Session
from skipstone.ir.values import YES, Mask, Values, filler, numpy_type_of

RAISES: Final = object()  # the result of a row for which Spark raises an error


def row_values(
    compute: Callable[..., Any], call: Call, args: tuple[Values, ...], *, strict: bool = True
) -> Values:
    """Evaluate a function row by row; it may return None, which is NULL, or RAISES."""
    n = max([1, *map(len, args)])
    valid, may_raise = YES, ~YES
    for a in args:
        valid, may_raise = valid & a.valid, may_raise | a.may_raise
    use = np.broadcast_to(~may_raise & (valid if strict else YES), n)
    columns = [_listed(a, n) for a in args]
    out = np.empty(n, numpy_type_of(call.dtype))
    out[:] = None if call.dtype.element is not None else filler(call.dtype)
    found_valid, raised = np.zeros(n, np.bool_), np.array(np.broadcast_to(may_raise, n))
    for i in np.flatnonzero(use).tolist():
        found = compute(*(c[i] for c in columns))
        if found is RAISES:
            raised[i] = True
        elif found is not None:
            out[i], found_valid[i] = found, True
    return Values(call.dtype, out, found_valid, raised)


def _listed(a: Values, n: int) -> list[Any]:
    """Return the values of rows, with None for NULL."""
    mask: Mask = np.broadcast_to(a.valid & ~a.may_raise, n)
    values = a.points.tolist()
    values = values * n if len(values) == 1 else values
    return [v if m else None for v, m in zip(values, mask.tolist(), strict=True)]


def nested_function(
    signature: Callable[[tuple[Node, ...], Session], Signature],
    compute: Callable[..., Any],
    *,
    by_call: bool = False,
    strict: bool = True,
    interval: Callable[[Call, tuple[Interval, ...]], Interval] = any_result,
    items: bool = False,
) -> Function:
    """Return a function of arrays or maps.

    Args:
        signature: As in `Function`.
        compute: The function of one row's values, or, with `by_call`, a map from a call to it.
        by_call: See `compute`.
        strict: The result is NULL if any argument is NULL.
        interval: As in `Function`.
        items: As in `Function`.
    """

    def rows(call: Call, args: tuple[Values, ...]) -> Values:
        return row_values(compute(call) if by_call else compute, call, args, strict=strict)

    return Function(signature, rows=rows, interval=interval, nested=True, items=items)


def unknown_rows(call: Call, args: tuple[Values, ...]) -> Values:
    """Return unknown values, for a function that is computed for all rows at once only."""
    return Values(ty.NULL, np.zeros(1, np.int64), ~YES, YES)
