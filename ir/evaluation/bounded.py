"""Judge rows whose values are only bounded: a row is a container that holds one value.

For example, the last digit of `ln(x)` in Spark is not known here. It decides `ln(x) > 1` in hardly
any row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skipstone.ir.evaluation.leaves import fits_data
from skipstone.ir.evaluation.parts import Truth
from skipstone.ir.functions.build import TRUTH, call_of, function_of
from skipstone.ir.interval import Interval, apply, exactly
from skipstone.ir.node import Node, Op
from skipstone.ir.types import TEXT
from skipstone.ir.values import NO, Mask, Values, both, either

# Returns the values of a scalar on some rows.
Evaluate = Callable[[Node], Values]


def judge_bounded(n: Node, rows: int, evaluate: Evaluate) -> Truth:
    """Judge rows by a test of a call whose values are not known, but may be bounded.

    Args:
        n: The test.
        rows: The number of rows.
        evaluate: Evaluates columns and other parts of the call on these rows.
    """
    v = bounds_of(n.args[0], evaluate)
    true, false = _tested(n, v)
    null = v.may_hold_null if n.op is not Op.IS_NULL else NO
    certain = both(~v.may_raise, ~both(true, false), ~both(true, null), ~both(false, null))
    certain = both(certain, either(true, false, null))
    true, false, certain = (np.array(np.broadcast_to(m, rows)) for m in (true, false, certain))
    return Truth(true & certain, false & certain, ~certain)


def is_bounded(n: Node) -> bool:
    """Return True if the last digits of a function's results within a node are not known."""
    calls = (function_of(call_of(a).name) for a in n.walk() if a.op is Op.CALL)
    return any(function is not None and function.bounded for function in calls)


def bounds_of(n: Node, evaluate: Evaluate) -> Interval:
    """Return the intervals of a scalar in rows; rows whose value is known hold it alone."""
    nested = any(a.dtype is not None and (a.dtype.nested or a.dtype.record) for a in n.args)
    function = function_of(call_of(n).name) if n.op is Op.CALL and not nested else None
    if function is None or call_of(n).name == TRUTH:
        return exactly(evaluate(n))
    if not is_bounded(n) and not (values := evaluate(n)).may_raise.any():
        return exactly(values)
    with np.errstate(all="ignore"):
        return apply(call_of(n), function, tuple(bounds_of(a, evaluate) for a in n.args))


def _tested(n: Node, v: Interval) -> tuple[Mask, Mask]:
    """Return where a test may be TRUE and where it may be FALSE."""
    if n.op is Op.IS_NULL:
        return v.may_hold_null, v.may_hold_any
    value, nan = v.may_hold_value, v.may_hold_nan
    if v.dtype.kind in TEXT:
        return value | nan, value | nan
    low, high = fits_data(n, v.low), fits_data(n, v.high)
    some, every = low | high, low & high
    if n.op in (Op.EQ, Op.IN):
        members = n.value if n.op is Op.IN else (n.args[1].value,)
        assert isinstance(members, tuple)
        # A member between the bounds may be the value, and only a single value surely is.
        some = some.copy()
        for m in members:
            some |= np.asarray((v.low <= m) & (v.high >= m), np.bool_)
        every = every & v.single
    elif n.op is Op.WITHIN:
        _, least, most = n.args
        some = np.asarray((v.low <= most.value) & (v.high >= least.value), np.bool_)
    if not nan.any():
        return both(value, some), both(value, ~every)
    of_nan = fits_data(n, np.full(1, np.nan, v.low.dtype))
    true = either(both(value, some), both(nan, of_nan))
    return true, either(both(value, ~every), both(nan, ~of_nan))
