"""Convert expressions of Polars to nodes that never miss a row.

Polars hands a scan the filters of a query, and filters the rows again. So a node need not be TRUE
for the same rows, but it is TRUE wherever Polars says true, and FALSE wherever Polars says false. A
form that is not known to have this property becomes UNKNOWN. As in Spark, NaN is above all numbers
and equals itself, strings compare by their bytes, and AND, OR and NOT have three values.

Source: Polars, `Expr.meta.serialize`, whose form may differ between versions.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.arrow import literal_of
from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.arrow import scalar_of
from skipstone.ir.node import Name, Node, Op, literal, unknown

LOGIC: Final = {"And": Op.AND, "LogicalAnd": Op.AND, "Or": Op.OR, "LogicalOr": Op.OR}
COMPARISONS: Final = {
    "Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE,
    "EqValidity": Op.NULL_SAFE_EQ,
}  # fmt: skip
ENDS: Final = {
    "Both": (Op.GE, Op.LE), "Left": (Op.GE, Op.LT), "Right": (Op.GT, Op.LE), "None": (Op.GT, Op.LT)
}  # fmt: skip
INTEGERS: Final = {
    "Int8": pa.int8(), "Int16": pa.int16(), "Int32": pa.int32(), "Int64": pa.int64(),
    "UInt8": pa.uint8(), "UInt16": pa.uint16(), "UInt32": pa.uint32(), "UInt64": pa.uint64(),
}  # fmt: skip
NUMBERS: Final = {**INTEGERS, "Float32": pa.float32(), "Float64": pa.float64()}
UNITS: Final = {"Milliseconds": "ms", "Microseconds": "us"}
MAX_BYTES: Final = 1 << 24  # the largest serialised expression that is read


class NotKnown(Exception):
    """A part of an expression that is not known to be TRUE wherever Polars says true."""


def from_polars(expression: Any, schema: pa.Schema) -> Node:
    """Convert an expression of Polars to an unbound predicate.

    Args:
        expression: The expression, as Polars hands it to a source: literals have their columns'
            types.
        schema: The columns.

    Example:
        >>> import polars as pl
        >>> from skipstone.ir.text import show
        >>> condition = (pl.col("s") == "a") & pl.col("x").is_null()
        >>> show(from_polars(condition, pa.schema([("s", pa.string()), ("x", pa.int64())])))
        "s = 'a' AND x IS NULL"
    """
    try:
        text = expression.meta.serialize(format="json")
        if len(text) <= MAX_BYTES:
            return _condition(json.loads(text), schema)
        why = "it is too long"
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # a panic of Polars is not an Exception
        why = f"its form is not known ({type(e).__name__})"
    return unknown("an expression of Polars", why)


def _condition(tree: Any, schema: pa.Schema) -> Node:
    """Return a part that is a condition; UNKNOWN if it is not understood."""
    try:
        return _known(tree, schema)
    except (NotKnown, TypeError, ValueError, KeyError, OverflowError, pa.ArrowException):
        word = next(iter(tree), "") if isinstance(tree, dict) else tree
        return unknown(f"a {str(word)[:60]} of Polars", "it may mean something else in Spark")


def _known(tree: Any, schema: pa.Schema) -> Node:
    """Return a part that is a condition.

    Raises:
        NotKnown: it is not understood.
    """
    match tree:
        case {"Column": str(name)} if _type_of(name, schema) == pa.bool_():
            return Node(Op.COLUMN, value=Name((name,)))
        case {"Literal": {"Scalar": {"Boolean": bool(value)}}}:
            return literal(int(value), ty.BOOL)
        case {"BinaryExpr": {"left": left, "op": str(op), "right": right}}:
            if op in LOGIC:
                return Node(LOGIC[op], (_condition(left, schema), _condition(right, schema)))
            if op == "NotEqValidity":
                return Node(Op.NOT, (_compared(Op.NULL_SAFE_EQ, left, right, schema),))
            if op in COMPARISONS:
                return _compared(COMPARISONS[op], left, right, schema)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": str(test)}}}:
            column = Node(Op.COLUMN, value=Name((name,)))
            match test, _type_of(name, schema, any_type=True):
                case "IsNull", _:
                    return Node(Op.IS_NULL, (column,))
                case "IsNotNull", _:
                    return Node(Op.NOT, (Node(Op.IS_NULL, (column,)),))
                case "IsNan", kind if pa.types.is_float32(kind) or pa.types.is_float64(kind):
                    return Node(Op.EQ, (column, literal(math.nan, ty.DOUBLE)))
                case "Not", kind if kind == pa.bool_():
                    return Node(Op.NOT, (_known({"Column": name}, schema),))
        case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
            return Node(Op.NOT, (_condition(inner, schema),))
        case {
            "Function": {
                "input": [value, low, high],
                "function": {"Boolean": {"IsBetween": {"closed": str(closed)}}},
            }
        }:
            first, last = ENDS[closed]
            ends = _compared(first, value, low, schema), _compared(last, value, high, schema)
            return Node(Op.AND, ends)
        case {
            "Function": {
                "input": [{"Column": str(name)}, {"Literal": {"Scalar": {"List": list(data)}}}],
                "function": {"Boolean": {"IsIn": {"nulls_equal": False}}},
            }
        }:
            return _member(name, bytes(data), schema)
        case {
            "Function": {
                "input": [{"Column": str(name)}, {"Literal": {"Scalar": {"String": str(prefix)}}}],
                "function": {"StringExpr": "StartsWith"},
            }
        } if _type_of(name, schema) == pa.string():
            column = Node(Op.COLUMN, value=Name((name,)))
            return Node(Op.CALL, (column, literal(prefix.encode(), ty.STRING)), "startswith")
    raise NotKnown


def _compared(op: Op, left: Any, right: Any, schema: pa.Schema) -> Node:
    """Return the comparison of two operands of one type; raises NotKnown for others."""
    (a, kind), (b, other) = _operand(left, schema), _operand(right, schema)
    if kind != other or kind == pa.bool_():
        raise NotKnown
    return Node(op, (a, b))


def _operand(tree: Any, schema: pa.Schema) -> tuple[Node, pa.DataType]:
    """Return a column, a widened column or a literal, and its type."""
    match tree:
        case {"Column": str(name)}:
            return Node(Op.COLUMN, value=Name((name,))), _type_of(name, schema)
        case {"Cast": {"expr": {"Column": str(name)}, "dtype": {"Literal": str(to)}}}:
            kind = _type_of(name, schema)
            wider = NUMBERS[to]
            if not _is_wider(kind, wider):
                raise NotKnown
            column = Node(Op.COLUMN, value=Name((name,)))
            return Node(Op.CAST, (column,), "cast", ty.from_arrow(wider)), wider
        case {"Literal": {"Scalar": dict(scalar)}} if len(scalar) == 1:
            ((kind, value),) = scalar.items()
            typed = _scalar(kind, value)
            return literal_of(typed), typed.type
    raise NotKnown


def _is_wider(arrow_type: pa.DataType, wider: pa.DataType) -> bool:
    """Return True if a cast of numbers keeps their order, and means the same in Spark."""
    if pa.types.is_signed_integer(arrow_type):
        return wider == pa.float64() or bool(
            pa.types.is_signed_integer(wider) and wider.bit_width >= arrow_type.bit_width
        )
    return (arrow_type, wider) == (pa.float32(), pa.float64())


def _scalar(kind: str, value: Any) -> pa.Scalar:
    """Return a literal of Polars as a scalar of Arrow."""
    match kind, value:
        case _, int() if kind in INTEGERS:
            return scalar_of(value, INTEGERS[kind])
        case "Float32", float() | int():
            return scalar_of(float(np.float32(value)), pa.float32())
        case "Float64", float() | int():
            return scalar_of(float(value), pa.float64())
        case "String", str():
            return scalar_of(value, pa.string())
        case "Date", int():
            return pc.cast(scalar_of(value, pa.int32()), pa.date32())
        case "Datetime", [int(ticks), str(unit), zone]:
            tz = None if zone is None else zone["inner"]
            return pc.cast(scalar_of(ticks, pa.int64()), pa.timestamp(UNITS[unit], tz))
    raise NotKnown


def _member(name: str, data: bytes, schema: pa.Schema) -> Node:
    """Return the test for membership in a list, which is stored as a stream of Arrow."""
    kind = _type_of(name, schema)
    values = pa.ipc.open_stream(data).read_all().column(0).combine_chunks()
    if kind == pa.string():
        values = pc.cast(values, pa.string())
    if values.type != kind or kind == pa.bool_():
        raise NotKnown
    # A list with NULL: Polars says false where SQL says NULL.
    members = [literal_of(v) for v in pc.drop_null(values)]
    if any(m.op is not Op.LITERAL for m in members) or not members:
        raise NotKnown
    typed = tuple((m.dtype, m.value) for m in members)
    return Node(Op.IN, (Node(Op.COLUMN, value=Name((name,))),), typed)


def _type_of(name: str, schema: pa.Schema, *, any_type: bool = False) -> pa.DataType:
    """Return the type of a column that is compared alike; large strings count as strings."""
    field = schema.field(name)
    if ty.NOTE in (field.metadata or {}):
        raise NotKnown  # text with a collation, for example
    t, kind = pa.types, field.type
    if t.is_large_string(kind):
        return pa.string()
    numbers = t.is_integer(kind) or t.is_float32(kind) or t.is_float64(kind)
    times = t.is_date32(kind) or (t.is_timestamp(kind) and kind.unit in UNITS.values())
    if any_type or numbers or times or t.is_boolean(kind) or t.is_string(kind):
        return kind
    raise NotKnown
