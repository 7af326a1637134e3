"""Constant expressions: casts and arithmetic of literals, folded where the result is certain."""

from __future__ import annotations

import decimal
import math
import operator

from skipstone.ir import types as ty
from skipstone.ir.coerce import cast_literal
from skipstone.ir.node import Node, Op, literal, unknown
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.text import show
from skipstone.ir.types import DType, Kind

NAMED = {"nan": math.nan, "infinity": math.inf, "+infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}


def cast_literal_node(inner: Node, to: DType, session: Session) -> Node:
    """CAST of a literal as a literal, or UNKNOWN."""
    if inner.value is None or inner.dtype is None:
        return Node(Op.LITERAL, value=None, dtype=to)
    text = inner.value.decode().strip().lower() if isinstance(inner.value, bytes) and inner.dtype == ty.STRING else ""
    if to.kind is Kind.FLOAT and text in NAMED:
        return literal(NAMED[text], to)
    try:
        return literal(_cast(inner, to, session), to)
    except Incomparable as e:
        return unknown(show(Node(Op.CAST, (inner,), None, to)), str(e))


def fold_arithmetic(n: Node) -> Node:
    """Negation of a number, and + - * of integers, as a literal; else UNKNOWN."""
    args = n.args
    plain = all(a.op is Op.LITERAL and a.dtype is not None and a.value is not None for a in args)
    numbers = plain and len({a.dtype for a in args}) <= 2 and all(a.dtype and a.dtype.kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL) for a in args)
    if numbers and n.op is Op.NEG:
        return _negate(args[0])
    if numbers and all(a.dtype and a.dtype.kind is Kind.INT for a in args):
        fn = {Op.ADD: operator.add, Op.SUB: operator.sub, Op.MUL: operator.mul}[n.op]
        to = max((a.dtype for a in args if a.dtype), key=lambda t: t.bits)
        value = fn(args[0].value, args[1].value)
        if to.lowest <= value <= to.highest:
            return literal(value, to)
    return unknown(show(n), "arithmetic is understood between integer literals")


def _negate(a: Node) -> Node:
    assert a.dtype and isinstance(a.value, int | float)
    value = -a.value
    # -9223372036854775808 is parsed as the negation of a decimal that is one too large for BIGINT.
    if a.dtype.kind is Kind.DECIMAL and a.dtype.scale == 0 and value == -(2**63):
        return literal(value, ty.INT64)
    if a.dtype == ty.INT64 and value == -(2**31):
        return literal(value, ty.INT32)
    if a.dtype.kind is Kind.INT and value > a.dtype.highest:  # type: ignore[operator]
        return unknown(f"-({a.value})", "the negation overflows")
    return literal(value, a.dtype)


def _cast(lit: Node, to: DType, session: Session) -> object:
    """CAST of a literal where it is exact or an ordinary widening; other casts of literals are declined."""
    source = lit.dtype
    assert source
    if source.kind is Kind.STRING and to.kind is Kind.DECIMAL:
        return _exact_decimal(lit, to)
    if source.kind is Kind.STRING and to == ty.FLOAT:
        wide = cast_literal(lit.value, source, ty.DOUBLE, session)
        return wide if wide == cast_literal(wide, ty.DOUBLE, ty.FLOAT, session) else _decline(lit, to)
    if source.kind is Kind.DECIMAL and to.kind is Kind.DECIMAL and to.scale < source.scale:
        return _decline(lit, to)
    if (source.kind is Kind.FLOAT and to.kind is Kind.FLOAT) or source.kind in (Kind.INT, Kind.DECIMAL, Kind.DATE, Kind.STRING, Kind.TIMESTAMP):
        value = cast_literal(lit.value, source, to, session)
        low, high = to.lowest, to.highest
        if isinstance(value, int) and not low <= value <= high:  # type: ignore[operator]
            return _decline(lit, to)
        return value
    return _decline(lit, to) if source != to else lit.value


def _exact_decimal(lit: Node, to: DType) -> object:
    assert isinstance(lit.value, bytes)
    try:
        value = ty.to_axis(decimal.Decimal(lit.value.decode().strip()), to)
    except (ValueError, decimal.InvalidOperation):
        return _decline(lit, to)
    return value if to.lowest <= value <= to.highest else _decline(lit, to)  # type: ignore[operator]


def _decline(lit: Node, to: DType) -> object:
    raise Incomparable(f"the cast of this literal to {to} may round or overflow")
