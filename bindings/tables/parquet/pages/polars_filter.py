"""Translate conditions to Polars expressions, so that its decoder filters rows while it decodes.

Only tests on which Polars and Spark agree for every value are translated: null tests; comparisons
of booleans, integers, decimals, dates, timestamps and text with equal types on both sides;
comparisons of floats with literals; LIKE.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from skipstone.ir.like import check_length, decode
from skipstone.ir.node import Node, Op
from skipstone.ir.session import CannotJudge
from skipstone.ir.types import EXACT, DType, Kind, from_arrow

if TYPE_CHECKING:
    from polars import DataType, Expr

Expression: TypeAlias = "Expr"
COMPARE: Final[Mapping[Op, Any]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
}
KINDS: Final = (Kind.BOOL, Kind.INT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.STRING)


@functools.lru_cache(maxsize=256)
def split(node: Node, schema: pa.Schema) -> tuple[Expr | None, Node | None]:
    """Split a bound condition into a Polars expression and the conjuncts that have none.

    Args:
        node: The condition.
        schema: The columns as they are decoded; others have no expression.

    Example:
        >>> from skipstone import PruningPredicate
        >>> schema = pa.schema([("x", pa.int64()), ("s", pa.string())])
        >>> node = PruningPredicate("x > 1 AND upper(s) = 'A'", schema).node
        >>> expression, rest = split(node, schema)
        >>> print(expression)
        [(col("x")) > (1)]
        >>> rest == PruningPredicate("upper(s) = 'A'", schema).node
        True
    """
    parts = node.args if node.op is Op.AND else (node,)
    made = [_expression(part, schema) for part in parts]
    known = [e for e in made if e is not None]
    rest = tuple(part for part, e in zip(parts, made, strict=True) if e is None)
    whole = functools.reduce(operator.and_, known) if known else None
    if not rest:
        return whole, None
    return whole, rest[0] if len(rest) == 1 else Node(Op.AND, rest)


def _expression(n: Node, schema: pa.Schema) -> Expr | None:
    """Return an expression that is TRUE, FALSE and NULL for the same rows, or None."""
    if n.op in (Op.AND, Op.OR, Op.NOT, Op.IS_TRUE):
        inner = [_expression(arg, schema) for arg in n.args]
        known = [e for e in inner if e is not None]
        if len(known) < len(inner):
            return None
        if n.op is Op.NOT:
            return ~known[0]
        if n.op is Op.IS_TRUE:
            return known[0].fill_null(False)
        return functools.reduce(operator.and_ if n.op is Op.AND else operator.or_, known)
    columns = [arg for arg in n.args if arg.op is Op.COLUMN]
    kind = columns[0].dtype if columns else None
    if kind is not None and kind.kind is Kind.FLOAT and n.op is not Op.IS_NULL:
        return _float_test(n, kind, schema)
    if kind is None or kind.kind not in (*KINDS, Kind.FLOAT):
        return None
    if n.op is Op.IN and isinstance(n.value, tuple):
        return _in(columns[0], n.value, kind, schema)
    if n.op is Op.LIKE:
        return _like(n, kind, schema)
    sides = [_side(arg, kind, schema) for arg in n.args]
    known = [e for e in sides if e is not None]
    if len(known) < len(sides):
        return None
    if n.op is Op.IS_NULL:
        return known[0].is_null()
    if n.op is Op.NULL_SAFE_EQ:
        return known[0].eq_missing(known[1])
    made: Expr | None = COMPARE[n.op](*known) if n.op in COMPARE else None
    return made


def _in(column: Node, values: tuple[object, ...], kind: DType, schema: pa.Schema) -> Expr | None:
    import polars as pl

    one = _side(column, kind, schema)
    members = [_value(v, kind) for v in values]
    if one is None or None in members:
        return None
    if kind.kind in (Kind.DATE, Kind.TIMESTAMP):
        wanted = pl.Series(members, dtype=pl.Int64).cast(_polars_type(kind))
    else:
        wanted = pl.Series(members, dtype=_polars_type(kind))
    return one.is_in(pl.lit(wanted).implode())


def _float_test(n: Node, kind: DType, schema: pa.Schema) -> Expr | None:
    """Return a test of a float column and literals.

    Its results do not depend on how the decoder compares NaN, and 0.0 with -0.0: in Spark, NaN is
    greater than all numbers, and both zeros are equal.
    """
    import polars as pl

    one = _side(n.args[0], kind, schema)
    if one is None:
        return None
    if n.op is Op.IN and isinstance(n.value, tuple):
        members = [v for v in n.value if isinstance(v, float) and _is_number(v, kind)]
        if len(members) < len(n.value):
            return None
        others = pl.Series([v for v in members if v], dtype=_polars_type(kind))
        found = one.is_in(pl.lit(others).implode())
        return found if len(others) == len(members) else found | _compared(Op.EQ, one, 0.0, kind)
    if n.op not in COMPARE or n.args[1].op is not Op.LITERAL or n.args[1].dtype != kind:
        return None
    value = n.args[1].value
    if not isinstance(value, float) or not _is_number(value, kind):
        return None
    return _compared(n.op, one, value, kind)


def _is_number(value: float, kind: DType) -> bool:
    """Return True if a value is not NaN, and a column of the type can hold it."""
    with np.errstate(over="ignore"):
        return value == (float(np.float32(value)) if kind.bits == 32 else value)


def _compared(op: Op, column: Expr, value: float, kind: DType) -> Expr:
    """Return the comparison of a float column with a number."""
    import polars as pl

    # For zero: 0.0, which is greater than -0.0 where the two are told apart, and -0.0.
    above, below = (pl.lit(value or zero, dtype=_polars_type(kind)) for zero in (0.0, -0.0))
    match op:
        case Op.GT:
            return (column > above) | column.is_nan()
        case Op.GE:
            return (column >= below) | column.is_nan()
        case Op.LT:
            return (column < below) & ~column.is_nan()
        case Op.LE:
            return (column <= above) & ~column.is_nan()
        case Op.EQ:
            return (column >= below) & (column <= above) & ~column.is_nan()
        case _:
            return (column < below) | (column > above) | column.is_nan()


def _like(n: Node, kind: DType, schema: pa.Schema) -> Expr | None:
    """Return a LIKE as a prefix, suffix, substring or regular expression test."""
    one, (_, pattern) = _side(n.args[0], kind, schema), n.args
    if one is None or pattern.op is not Op.LITERAL or not isinstance(n.value, str):
        return None
    text = _value(pattern.value, kind)
    found = decode(text, n.value) if isinstance(text, str) else None
    if found is None:
        return None
    if found.is_prefix:
        return one.str.starts_with(found.prefix)
    if (inner := found.inner) is None:
        try:
            check_length(found)
        except CannotJudge:
            return None
        return one.str.contains(rf"\A{found.regex}\z")  # text is UTF-8, or Polars refuses the file
    if len(found.tokens) == 2:
        return one.str.ends_with(inner)
    return one.str.contains(inner, literal=True)


def _side(n: Node, kind: DType, schema: pa.Schema) -> Expr | None:
    """Return a column or literal of a type."""
    import polars as pl

    if n.dtype != kind:
        return None
    if n.op is Op.COLUMN:
        assert isinstance(n.value, tuple)
        name = n.value[0]
        same = len(n.value) == 1 and name in schema.names and not is_pattern(name)
        return pl.col(name) if same and from_arrow(schema.field(name).type) == kind else None
    if n.op is not Op.LITERAL:
        return None
    value = _value(n.value, kind)
    return None if value is None else pl.lit(value, dtype=_polars_type(kind))


def is_pattern(name: str) -> bool:
    """Return True if Polars takes a column's name for a pattern of names.

    Example:
        >>> [is_pattern(name) for name in ("*", "^x.*$", "^x", "a*")]
        [True, True, False, False]
    """
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def _value(value: object, kind: DType) -> int | str | Decimal | None:
    """Return a value of an axis as Polars takes it; None if the column cannot have it."""
    if kind.kind is Kind.STRING:
        try:
            return value.decode() if isinstance(value, bytes) else None
        except UnicodeDecodeError:
            return None
    if not isinstance(value, int):
        return None
    if kind.kind is Kind.BOOL:
        return bool(value) if value in (0, 1) else None
    if kind.kind is Kind.DECIMAL:
        fits = abs(value) < 10**kind.precision
        return Decimal(value).scaleb(-kind.scale, EXACT) if fits else None
    bits = {Kind.INT: kind.bits, Kind.DATE: 32}.get(kind.kind, 64)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _polars_type(kind: DType) -> DataType:
    """Return Polars' type of a column."""
    import polars as pl

    match kind.kind:
        case Kind.BOOL:
            return pl.Boolean()
        case Kind.INT:
            return pl.Int32() if kind.bits == 32 else pl.Int64()
        case Kind.DECIMAL:
            return pl.Decimal(kind.precision, kind.scale)
        case Kind.DATE:
            return pl.Date()
        case Kind.TIMESTAMP:
            unit: Any = kind.unit
            return pl.Datetime(unit, "UTC" if kind.zoned else None)
        case Kind.FLOAT:
            return pl.Float32() if kind.bits == 32 else pl.Float64()
        case _:
            return pl.String()
