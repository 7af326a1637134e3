"""Casts that keep order and never fail, and the width of integers beside decimals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.coercion.coerce import DIGITS
from skipstone.ir.node import Node, Op, unknown
from skipstone.ir.text import show
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


# Operators for which Spark counts the digits of a literal beside a decimal.
# Source: Spark 4, `DecimalPrecisionTypeCoercion`.
OPERATORS: Final = frozenset((
    "+", "-", "*", "/", "%", "div", "mod", "pmod",
    "try_add", "try_subtract", "try_multiply", "try_divide", "try_mod",
))  # fmt: skip

SUFFIX: Final = (
    "beside a decimal, a number with a suffix has other digits than one that is cast, and both "
    "are read alike; write the number without a suffix"
)


def by_own_type(
    operator: object, args: tuple[Node, ...], bound: tuple[Node, ...]
) -> tuple[Node, ...]:
    """Return the bound inputs of an operator or comparison, with the types that Spark gives them.

    The least INT and BIGINT are read as negations of literals of the next wider type: `-2147483648`
    is an INT, and `-(2147483648)` a BIGINT.

    Beside a decimal, an integer that is written has its own digits, and one that is computed those
    of its type: `m / 3` is rounded to 6 digits, `m / (1 + 2)` to more.

    Args:
        operator: The name of the operator, or the comparison.
        args: Its inputs before binding.
        bound: The same inputs.
    """
    if operator == "negative" and [a.op for a in args] == [Op.LITERAL]:
        (b,) = bound
        narrow = {(ty.INT64, 2**31): ty.INT32, (ty.decimal_type(19, 0), 2**63): ty.INT64}
        dtype = narrow.get((b.dtype, b.value)) if b.dtype and isinstance(b.value, int) else None
        return bound if dtype is None else (Node(Op.LITERAL, value=b.value, dtype=dtype),)
    for b in bound:
        if b.dtype is not None and b.dtype.kind is Kind.DECIMAL:
            break
    else:
        return bound
    compares = isinstance(operator, Op)
    if not compares and operator not in OPERATORS:
        return bound
    return tuple(_typed(a, b, compares=compares) for a, b in zip(args, bound, strict=True))


def _typed(n: Node, bound: Node, *, compares: bool) -> Node:
    of = n.args[0] if n.op is Op.CALL and n.value == "negative" else n
    dtype = bound.dtype
    integer = bound.op is Op.LITERAL and dtype is not None and dtype.kind is Kind.INT
    if of.op is Op.LITERAL or not integer:
        return bound
    assert dtype is not None
    if of.op is Op.CAST and of.args[0].op is Op.LITERAL and dtype != ty.INT32:
        # `3L` and `CAST(3 AS BIGINT)` are one tree here. For comparisons, only the value counts.
        return bound if compares else unknown(show(n), SUFFIX)
    return Node(Op.LITERAL, value=bound.value, dtype=ty.decimal_type(DIGITS[dtype.bits], 0))
