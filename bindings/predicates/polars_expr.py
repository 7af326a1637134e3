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
import re
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.predicates.arrow import literal_of
from skipstone.bindings.predicates.polars_scalars import Columns, NotKnown, operand, type_of
from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.node import Name, Node, Op, literal, unknown

LOGIC: Final = {"And": Op.AND, "LogicalAnd": Op.AND, "Or": Op.OR, "LogicalOr": Op.OR}
COMPARISONS: Final = {
    "Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE,
    "EqValidity": Op.NULL_SAFE_EQ,
}  # fmt: skip
ENDS: Final = {
    "Both": (Op.GE, Op.LE), "Left": (Op.GE, Op.LT), "Right": (Op.GT, Op.LE), "None": (Op.GT, Op.LT)
}  # fmt: skip
PLAIN_PATTERN: Final = re.compile(r"\^?[A-Za-z0-9 _/:;,@%&=~<>'\"-]+\$?")
MAX_BYTES: Final = 1 << 24  # the largest serialised expression that is read


def from_polars(expression: Any, schema: pa.Schema, timezone: str = "UTC") -> Node:
    """Convert an expression of Polars to an unbound predicate.

    Args:
        expression: The expression, as Polars hands it to a source: literals have their columns'
            types.
        schema: The columns.
        timezone: The zone in which the predicate will be bound.

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
            return _condition(json.loads(text), Columns(schema, timezone == "UTC"))
        why = "it is too long"
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # a panic of Polars is not an Exception
        why = f"its form is not known ({type(e).__name__})"
    return unknown("an expression of Polars", why)


def _condition(tree: Any, columns: Columns) -> Node:
    """Return a part that is a condition; UNKNOWN if it is not understood."""
    try:
        return _known(tree, columns)
    except (NotKnown, TypeError, ValueError, KeyError, OverflowError, pa.ArrowException):
        word = next(iter(tree), "") if isinstance(tree, dict) else tree
        return unknown(f"a {str(word)[:60]} of Polars", "it may mean something else in Spark")


def _known(tree: Any, columns: Columns) -> Node:
    """Return a part that is a condition.

    Raises:
        NotKnown: it is not understood.
    """
    match tree:
        case {"Column": str(name)} if type_of(columns.schema.field(name)) == pa.bool_():
            return Node(Op.COLUMN, value=Name((name,)))
        case {"Literal": {"Scalar": {"Boolean": bool(value)}}}:
            return literal(int(value), ty.BOOL)
        case {"BinaryExpr": {"left": left, "op": str(op), "right": right}}:
            if op in LOGIC:
                return Node(LOGIC[op], (_condition(left, columns), _condition(right, columns)))
            if op == "NotEqValidity":
                return Node(Op.NOT, (_compared(Op.NULL_SAFE_EQ, left, right, columns),))
            if op in COMPARISONS:
                return _compared(COMPARISONS[op], left, right, columns)
        case {"Function": {"input": list(inputs), "function": function}}:
            return _called(inputs, function, columns)
    raise NotKnown


def _called(inputs: list[Any], function: Any, columns: Columns) -> Node:
    """Return a function that is a condition.

    Raises:
        NotKnown: it is not understood.
    """
    match function, inputs:
        case {"Boolean": str(test)}, [{"Column": str(name)}]:
            return _column_test(test, name, columns)
        case {"Boolean": "Not"}, [inner]:
            return Node(Op.NOT, (_condition(inner, columns),))
        case {"Boolean": {"IsBetween": {"closed": str(closed)}}}, [value, low, high]:
            first, last = ENDS[closed]
            ends = _compared(first, value, low, columns), _compared(last, value, high, columns)
            return Node(Op.AND, ends)
        case (
            {"Boolean": {"IsIn": {"nulls_equal": False}}},
            [value, {"Literal": {"Scalar": {"List": list(data)}}}],
        ):
            return _member(*operand(value, columns, _condition), bytes(data))
        case {"StringExpr": test}, [value, {"Literal": {"Scalar": {"String": str(part)}}}]:
            node, kind = operand(value, columns, _condition)
            if kind == pa.string():
                name, part = _text_test(test, part)
                return Node(Op.CALL, (node, literal(part.encode(), ty.STRING)), name)
        case {"ListExpr": {"Contains": _}}, [{"Column": str(name)}, value]:
            return _contained(name, *operand(value, columns, _condition), columns)
    raise NotKnown


def _column_test(test: str, name: str, columns: Columns) -> Node:
    """Return a test of a column by itself.

    Raises:
        NotKnown: it is not understood.
    """
    column = Node(Op.COLUMN, value=Name((name,)))
    match test, type_of(columns.schema.field(name), any_type=True):
        case "IsNull", _:
            return Node(Op.IS_NULL, (column,))
        case "IsNotNull", _:
            return Node(Op.NOT, (Node(Op.IS_NULL, (column,)),))
        case "IsNan", kind if pa.types.is_float32(kind) or pa.types.is_float64(kind):
            return Node(Op.EQ, (column, literal(math.nan, ty.DOUBLE)))
        case "Not", kind if kind == pa.bool_():
            return Node(Op.NOT, (_known({"Column": name}, columns),))
    raise NotKnown


def _contained(name: str, value: Node, kind: pa.DataType, columns: Columns) -> Node:
    """Return the test whether a list holds a literal.

    For a list without the value but with NULL, Polars says false where SQL says NULL. For NULL,
    Polars looks for NULL.
    """
    array = type_of(columns.schema.field(name), any_type=True)
    is_list = pa.types.is_list(array) or pa.types.is_large_list(array)
    if not is_list or array.value_type != kind or value.op is not Op.LITERAL or value.value is None:
        raise NotKnown
    column = Node(Op.COLUMN, value=Name((name,)))
    found = Node(Op.IS_TRUE, (Node(Op.CALL, (column, value), "array_contains"),))
    return Node(Op.CALL, (Node(Op.IS_NULL, (column,)), literal(None, ty.BOOL), found), "case")


def _text_test(test: Any, part: str) -> tuple[str, str]:
    """Return a test of text and what it looks for; of patterns, only plain ones are understood."""
    match test:
        case "StartsWith":
            return "startswith", part
        case "EndsWith":
            return "endswith", part
        case {"Contains": {"literal": True}}:
            return "contains", part
        case {"Contains": {"literal": False}} if PLAIN_PATTERN.fullmatch(part):
            start, end = part.startswith("^"), part.endswith("$")
            if not (start and end):
                name = "startswith" if start else "endswith" if end else "contains"
                return name, part.removeprefix("^").removesuffix("$")
    raise NotKnown


def _compared(op: Op, left: Any, right: Any, columns: Columns) -> Node:
    """Return the comparison of two operands of one type; raises NotKnown for others."""
    (a, kind), (b, other) = (operand(t, columns, _condition) for t in (left, right))
    if kind != other or kind == pa.bool_():
        raise NotKnown
    return Node(op, (a, b))


def _member(node: Node, kind: pa.DataType, data: bytes) -> Node:
    """Return the test for membership in a list, which is stored as a stream of Arrow."""
    values = pa.ipc.open_stream(data).read_all().column(0).combine_chunks()
    if kind == pa.string():
        values = pc.cast(values, pa.string())
    if values.type != kind or kind == pa.bool_():
        raise NotKnown
    # A list with NULL: Polars says false where SQL says NULL.
    members = [literal_of(v) for v in pc.drop_null(values)]
    if any(m.op is not Op.LITERAL for m in members) or not members:
        raise NotKnown
    return Node(Op.IN, (node,), tuple((m.dtype, m.value) for m in members))
