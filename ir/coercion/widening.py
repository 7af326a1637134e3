"""Casts that keep order and never fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import DIGITS
from skipstone.ir.node import Node, Op
from skipstone.ir.types import DType, Kind

# Casts that keep order and never fail, NULL aside: their literals become thresholds of their
# argument.
WIDENING: Final[dict[Kind, Callable[[DType, DType], bool]]] = {
    Kind.INT: lambda a, b: (
        b.kind is Kind.FLOAT
        or (b.kind is Kind.INT and b.bits >= a.bits)
        or (b.kind is Kind.DECIMAL and b.precision - b.scale >= DIGITS[a.bits])
    ),
    Kind.DECIMAL: lambda a, b: (
        b.kind is Kind.FLOAT
        or (
            b.kind is Kind.DECIMAL
            and b.scale >= a.scale
            and b.precision - b.scale >= a.precision - a.scale
        )
    ),
    Kind.FLOAT: lambda a, b: b == ty.DOUBLE,
    Kind.DATE: lambda a, b: b == ty.TIMESTAMP_NTZ,
}


def uncast(n: Node) -> Node | None:
    """Return the argument of a widening cast; None for any other node."""
    if (
        n.op is not Op.CALL
        or not isinstance(n.value, tuple)
        or n.value[0] not in ("cast", "try_cast", "widen")
    ):
        return None
    (inner,) = n.args
    assert inner.dtype and n.dtype
    if n.value[0] == "widen":
        return inner
    widens = WIDENING.get(inner.dtype.kind)
    if n.value[0] == "try_cast" and inner.dtype.kind is Kind.DATE:
        return None  # NULL for dates beyond the timestamps' years
    return inner if widens is not None and widens(inner.dtype, n.dtype) else None
