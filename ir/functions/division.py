"""Division: / div % pmod, with Spark's result types. Division by zero raises or gives NULL.

Source: Spark 4, `arithmetic.scala`, `DecimalPrecision`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from skipstone.ir import types as ty
from skipstone.ir.function import Call, Function, Policy, Signature
from skipstone.ir.functions.arithmetic import (
    decimal_result,
    exact,
    operands,
    reach,
    rescale,
    wrap,
)
from skipstone.ir.interval import Interval, corners_where
from skipstone.ir.node import Node
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import Kind
from skipstone.ir.values import Data

# Up to this many steps, a long division is faster than Python's integers.
MAX_STEPS: Final = 4


def _quotient(args: tuple[Node, ...], session: Session) -> Signature:
    a, b = operands(args, session)
    if a.kind is not Kind.DECIMAL:
        return (ty.DOUBLE, ty.DOUBLE), ty.DOUBLE
    scale = max(6, a.scale + b.precision + 1)
    return (a, b), decimal_result(a.precision - a.scale + b.scale + scale, scale)


def _whole_quotient(args: tuple[Node, ...], session: Session) -> Signature:
    a, b = operands(args, session)
    if a.kind is Kind.FLOAT:
        raise CannotJudge("div expects integers or decimals")
    return ((ty.INT64, ty.INT64) if a.kind is Kind.INT else (a, b)), ty.INT64


def _remainder_signature(args: tuple[Node, ...], session: Session) -> Signature:
    a, b = operands(args, session)
    if a.kind is not Kind.DECIMAL:
        return (a, b), a
    scale = max(a.scale, b.scale)
    return (a, b), decimal_result(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def by_zero(call: Call) -> Policy:
    """Return the policy on division by zero: it raises in ANSI mode, otherwise it gives NULL."""
    return "raise" if call.session.ansi else "null"


def divide(a: Data, b: Data) -> Data:
    """Divide integers, truncating towards zero as Java does; b is not 0.

    The result is int64 if the operands are, otherwise an array of Python integers.
    """
    if object in (a.dtype, b.dtype) or max(reach(a), reach(b)) >= 2**63:
        a, b = a.astype(object), b.astype(object)
    q = np.abs(a) // np.abs(b)
    return np.asarray(np.where(np.asarray((a < 0) != (b < 0), np.bool_), -q, q))


def _divide(call: Call, a: Data, b: Data) -> Any:
    zero = np.asarray(b == 0, np.bool_)
    b = np.where(zero, np.ones_like(b), b) if zero.any() else b
    if call.dtype.kind is Kind.FLOAT:
        return a / b, np.broadcast_to(zero, np.broadcast(a, b).shape)
    shift = call.dtype.scale - call.types[0].scale + call.types[1].scale
    size = _rounded_quotient(np.abs(a), np.abs(b), shift)
    negative = np.asarray((a < 0) != (b < 0), np.bool_)
    signed = np.where(negative, -size, size) if negative.any() else size
    return signed, np.broadcast_to(zero, size.shape)


def _rounded_quotient(n: Data, d: Data, digits: int) -> Data:
    """Return n * 10^digits / d, rounded half up; n >= 0 and d > 0.

    Machine words hold the steps of a long division, some digits each, if the divisor is small
    enough; only the quotient may need Python's integers.
    """
    step = len(str((2**63 - 1) // max(reach(d), 1))) - 1  # d * 10^step fits
    if object in (n.dtype, d.dtype) or step < max(digits, 1) / MAX_STEPS:
        n, d = rescale(n, digits).astype(object), d.astype(object)
        q = n // d
        return np.asarray(q + np.asarray(2 * (n - q * d) >= d, np.bool_))
    n, d = np.broadcast_arrays(n.astype(np.uint64), d.astype(np.uint64))
    q, remaining = n // d, digits
    rest = n - q * d
    total: Data = q.astype(np.int64)
    while remaining:
        step = min(step, remaining)
        rest = rest * np.uint64(10**step)
        q = rest // d
        rest = rest - q * d
        remaining -= step
        q += 0 if remaining else rest >= d - rest
        total = exact(np.add, rescale(total, step), q.astype(np.int64), 64)
    return total if digits else total + np.asarray(rest >= d - rest, np.int64)


def _div(call: Call, a: Data, b: Data) -> Any:
    zero = np.asarray(b == 0, np.bool_)
    b = np.where(zero, np.ones_like(b), b)
    if call.types[0].kind is Kind.DECIMAL:
        scale = max(t.scale for t in call.types)
        a, b = (rescale(x, scale - t.scale) for x, t in zip((a, b), call.types, strict=True))
    quotient = divide(a, b)
    out, bad = wrap(quotient, ty.INT64)
    if quotient.dtype == object:  # Spark has it as a decimal first, which is NULL beyond 38 digits
        zero = zero | np.asarray(np.abs(quotient) >= 10**38, np.bool_)
    return out, zero | (bad & call.session.ansi)


def _mod(call: Call, a: Data, b: Data) -> Any:
    zero = np.asarray(b == 0, np.bool_)
    b = np.where(zero, np.ones_like(b), b)
    bad = np.broadcast_to(zero, np.broadcast(a, b).shape)
    if call.dtype.kind is Kind.FLOAT:
        return np.fmod(a, b), bad
    if call.dtype.kind is Kind.DECIMAL:
        a, b = (
            rescale(x, call.dtype.scale - t.scale) for x, t in zip((a, b), call.types, strict=True)
        )
    if object in (a.dtype, b.dtype):
        return a - divide(a, b) * b, bad
    return np.fmod(a, b), bad


def _pmod(call: Call, a: Data, b: Data) -> Any:
    r, bad = _mod(call, a, b)
    if call.dtype.kind is Kind.DECIMAL:
        b = rescale(b, call.dtype.scale - call.types[1].scale)
    d = np.where(np.asarray(b == 0, np.bool_), np.ones_like(b), b)
    if call.dtype.kind is Kind.INT:  # the sum wraps in the type's own width, as Java's does
        again = np.fmod(wrap(exact(np.add, r, d, 64), call.dtype)[0], d)
    elif r.dtype == object:
        again = (r + d) - divide(r + d, d) * d
    else:
        again = np.fmod(r + d, d)
    out = np.where(np.asarray(r < 0, np.bool_), again, r)
    if call.dtype.kind is Kind.DECIMAL:
        # For a negative dividend the result may have as many digits as the divisor.
        beyond = np.asarray(np.abs(out) > call.dtype.highest, np.bool_)
        out, bad = np.where(beyond, np.zeros(1, out.dtype), out), bad | beyond
    return out, bad


def _clear_of_zero(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the corners of a division where the divisor keeps its sign.

    Division is monotone in each argument on either side of a divisor of zero.
    """
    b = args[1]
    a = args[0]
    clear = np.asarray((b.low > 0) | (b.high < 0), np.bool_) | ~b.may_hold_value
    if call.dtype.kind is Kind.INT:  # the least BIGINT divided by -1 wraps or raises
        clear = clear & ~np.asarray(
            (a.low == np.iinfo(np.int64).min) & (b.low <= -1) & (b.high >= -1), np.bool_
        )
    if call.name == "div" and call.types[0].kind is Kind.DECIMAL and not call.session.ansi:
        # A quotient beyond BIGINT wraps.
        unit = 10 ** (max(t.scale for t in call.types) - call.types[0].scale)
        reach = np.maximum(np.abs(a.low.astype(object)), np.abs(a.high.astype(object))) * unit
        clear = clear & np.asarray(reach < 2**63, np.bool_)
    # If the divisor is always 0, the result does not depend on the dividend; one of its values
    # suffices.
    zero = b.may_hold_value & np.asarray((b.low == 0) & (b.high == 0), np.bool_)
    a = replace(a, high=np.where(zero, a.low, a.high)) if zero.any() else a
    return corners_where(clear | zero | (a.single & b.single), call, _BY_CORNERS[call.name], (a, b))


_BY_CORNERS: Final = {
    "divide": Function(_quotient, _divide, bad=by_zero),
    "div": Function(_whole_quotient, _div, bad=by_zero),
    "remainder": Function(_remainder_signature, _mod, bad=by_zero),
    "pmod": Function(_remainder_signature, _pmod, bad=by_zero),
}


def _mod_interval(call: Call, args: tuple[Interval, ...]) -> Interval:
    """Return the interval of a remainder.

    It has the dividend's sign, is smaller than the divisor and no larger than the dividend. The
    result of pmod is the same, or its distance from the divisor.
    """
    a, b = args
    exact_at = a.single & b.single
    interval = corners_where(exact_at, call, _BY_CORNERS[call.name], args)
    if call.dtype.kind is not Kind.INT or exact_at.all():
        return interval
    clear = ~b.may_hold_value | np.asarray((b.low > 0) | (b.high < 0), np.bool_)
    most = np.maximum(np.abs(b.low.astype(object)), np.abs(b.high.astype(object))) - 1
    low = np.where(a.low >= 0, 0, np.maximum(-most, np.minimum(a.low, 0)))
    high = np.where(a.high <= 0, 0, np.minimum(most, np.maximum(a.high, 0)))
    if call.name == "pmod":
        # A positive divisor moves values below 0 up; a negative one may do so.
        low, high = np.where(b.low > 0, 0, low), np.where(a.low >= 0, high, most)
    # If the whole dividend lies below the divisor, the remainder is the dividend.
    small = (a.low >= 0) & (b.low > 0) & (a.high < b.low)
    low = np.where(small, a.low, low).astype(np.int64)
    high = np.where(small, a.high, high).astype(np.int64)
    use = clear & ~exact_at
    return replace(
        interval,
        low=np.where(use, low, interval.low),
        high=np.where(use, high, interval.high),
        may_hold_null=np.where(use, a.may_hold_null | b.may_hold_null, interval.may_hold_null),
        may_raise=np.where(use, a.may_raise | b.may_raise, interval.may_raise),
    )


FUNCTIONS: Final = {
    **{
        name: replace(f, interval=_clear_of_zero if name in ("divide", "div") else _mod_interval)
        for name, f in _BY_CORNERS.items()
    },
    "try_divide": Function(_quotient, _divide, bad="null"),
    "try_mod": Function(_remainder_signature, _mod, bad="null"),
}
