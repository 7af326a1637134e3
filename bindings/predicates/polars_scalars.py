"""Convert the operands of Polars' conditions: columns, literals, and functions of them.

A scalar is converted if it has the same value in Spark in every row. Integers that overflow wrap
around in Polars. In Spark they also wrap, or raise an error, and then nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from skipstone.bindings.predicates.arrow import literal_of
from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.arrow import scalar_of
from skipstone.ir.node import Name, Node, Op, function_call, literal

INTEGERS: Final = {
    "Int8": pa.int8(), "Int16": pa.int16(), "Int32": pa.int32(), "Int64": pa.int64(),
    "UInt8": pa.uint8(), "UInt16": pa.uint16(), "UInt32": pa.uint32(), "UInt64": pa.uint64(),
}  # fmt: skip
NUMBERS: Final = {**INTEGERS, "Float32": pa.float32(), "Float64": pa.float64()}
UNITS: Final = {"Milliseconds": "ms", "Microseconds": "us"}
# Polars' function of a date or a time -> ours, and the type of its result in Polars.
DATE_PARTS: Final = {
    "Year": ("year", pa.int32()), "Quarter": ("quarter", pa.int8()), "Month": ("month", pa.int8()),
    "Week": ("weekofyear", pa.int8()), "Day": ("day", pa.int8()),
    "OrdinalDay": ("dayofyear", pa.int16()),
}  # fmt: skip
CLOCK_PARTS: Final = {
    "Hour": ("hour", pa.int8()), "Minute": ("minute", pa.int8()), "Second": ("second", pa.int8()),
}  # fmt: skip
# Polars' durations -> the units of trunc and date_trunc.
TRUNCATED: Final = {"1w": "WEEK", "1mo": "MONTH", "1q": "QUARTER", "1y": "YEAR"}
CLOCK_TRUNCATED: Final = {**TRUNCATED, "1d": "DAY", "1h": "HOUR", "1m": "MINUTE", "1s": "SECOND"}
STRFTIME: Final = {"Y": "yyyy", "m": "MM", "d": "dd", "H": "HH", "M": "mm", "S": "ss"}
TEXT_FUNCTIONS: Final = {
    "Lowercase": ("lower", pa.string()), "Uppercase": ("upper", pa.string()),
    "LenChars": ("length", pa.uint32()), "LenBytes": ("octet_length", pa.uint32()),
}  # fmt: skip
# Integers whose results have the same type in Spark; smaller ones wrap in Polars, and widen here.
WRAPPING: Final = (pa.int32(), pa.int64())
ARITHMETIC: Final = {"Plus": "+", "Minus": "-", "Multiply": "*"}

Scalar = tuple[Node, pa.DataType]  # a scalar, and its type in Polars


class Columns(NamedTuple):
    """The columns that an expression may name.

    Attributes:
        schema: The columns.
        in_utc: True if instants are shown in UTC, as Polars shows those of the zone UTC.
    """

    schema: pa.Schema
    in_utc: bool


Condition = Callable[[Any, Columns], Node]


class NotKnown(Exception):
    """A part of an expression that is not known to be TRUE wherever Polars says true."""


def operand(tree: Any, columns: Columns, condition: Condition) -> Scalar:
    """Return a scalar and its type in Polars.

    Args:
        tree: The scalar, as Polars serialises it.
        columns: The columns.
        condition: Converts the condition of when/then/otherwise.

    Raises:
        NotKnown: the scalar is not understood, or may have another value in Spark.
    """
    match tree:
        case {"Column": str(name)}:
            return Node(Op.COLUMN, value=Name((name,))), type_of(columns.schema.field(name))
        case {"Literal": {"Scalar": dict(scalar)}} if len(scalar) == 1:
            ((kind, value),) = scalar.items()
            typed = _scalar(kind, value)
            return literal_of(typed), typed.type
        case {"Cast": {"expr": inner, "dtype": {"Literal": str(to)}}}:
            node, kind = operand(inner, columns, condition)
            wider = NUMBERS[to]
            if not _is_wider(kind, wider):
                raise NotKnown
            return Node(Op.CAST, (node,), "cast", ty.from_arrow(wider)), wider
        case {"BinaryExpr": {"left": left, "op": str(op), "right": right}}:
            pair = operand(left, columns, condition), operand(right, columns, condition)
            return _computed(op, *pair)
        case {"Ternary": {"predicate": test, "truthy": yes, "falsy": no}}:
            (a, kind), (b, other) = (operand(t, columns, condition) for t in (yes, no))
            if kind != other:
                raise NotKnown
            return Node(Op.CALL, (condition(test, columns), a, b), "case"), kind
        case {
            "Function": {
                "input": [{"Column": str(name)}],
                "function": {"StructExpr": {"FieldByName": str(part)}},
            }
        } if pa.types.is_struct(columns.schema.field(name).type):
            field = columns.schema.field(name).type.field(part)
            return Node(Op.COLUMN, value=Name((name, part))), type_of(field)
        case {"Function": {"input": [first, *rest], "function": function}}:
            args = [operand(first, columns, condition)]
            if function in ("FillNull", "Coalesce"):
                args += [operand(a, columns, condition) for a in rest]
                if any(kind != args[0][1] for _, kind in args):
                    raise NotKnown
                return Node(Op.CALL, tuple(node for node, _ in args), "coalesce"), args[0][1]
            return _called(function, *args[0], rest, columns.in_utc)
    raise NotKnown


def _called(function: Any, node: Node, kind: pa.DataType, rest: list[Any], in_utc: bool) -> Scalar:
    """Return a function of a scalar and of literals."""
    match function, rest:
        case "Abs", [] if kind in (*WRAPPING, pa.float64()):
            return _call("abs", node), kind
        case {"TemporalExpr": part}, _:
            return _of_time(part, node, kind, rest, in_utc)
        case {"StringExpr": str(name)}, [] if name in TEXT_FUNCTIONS and kind == pa.string():
            ours, result = TEXT_FUNCTIONS[name]
            return _call(ours, node), result
        case {"StringExpr": "Head"}, [size] if kind == pa.string():
            return _call("substring", node, _whole(1), _whole(_count(size))), kind
        case {"StringExpr": "Slice"}, [start, size] if kind == pa.string():
            first = _count(start) + 1
            return _call("substring", node, _whole(first), _whole(_count(size))), kind
    raise NotKnown


def _of_time(part: Any, node: Node, kind: pa.DataType, rest: list[Any], in_utc: bool) -> Scalar:
    """Return a function of a date, of a clock, or of an instant that is shown in UTC."""
    is_date, zoned = pa.types.is_date32(kind), getattr(kind, "tz", None) is not None
    if not (is_date or pa.types.is_timestamp(kind)) or (
        zoned and not (in_utc and kind.tz == "UTC")
    ):
        raise NotKnown
    match part, rest:
        case str(name), [] if name in DATE_PARTS or (name in CLOCK_PARTS and not is_date):
            ours, result = (DATE_PARTS | CLOCK_PARTS)[name]
            return _call(ours, node), result
        case "WeekDay", []:
            return _call("+", _call("weekday", node), _whole(1)), pa.int8()
        case "Date", [] if not is_date:
            return Node(Op.CAST, (node,), "cast", ty.DATE), pa.date32()
        case "Truncate", [{"Literal": {"Scalar": {"String": str(every)}}}]:
            unit = literal((TRUNCATED if is_date else CLOCK_TRUNCATED)[every].encode(), ty.STRING)
            if is_date:
                return _call("trunc", node, unit), kind
            return _call("date_trunc" if zoned else "wall_trunc", unit, node), kind
        case {"ToString": str(form)}, []:
            return _call("date_format", node, literal(_pattern(form).encode(), ty.STRING)), (
                pa.string()
            )
    raise NotKnown


def _pattern(form: str) -> str:
    """Return a format of strftime as a pattern of Spark.

    Example:
        >>> _pattern("%Y-%m")
        'yyyy-MM'
    """
    if re.fullmatch(r"(?:%[YmdHMS]|[-/:. ,_])+", form) is None:
        raise NotKnown
    return re.sub(r"%(.)", lambda m: STRFTIME[m[1]], form)


def _computed(op: str, left: Scalar, right: Scalar) -> Scalar:
    """Return the arithmetic of two scalars of one type."""
    (a, kind), (b, other) = left, right
    whole = kind in WRAPPING
    if kind != other or not (whole or kind == pa.float64()):
        raise NotKnown
    if op in ARITHMETIC:
        return _call(ARITHMETIC[op], a, b), kind
    positive = b.op is Op.LITERAL and isinstance(b.value, (int, float)) and b.value > 0
    if op == "FloorDivide" and whole and positive:
        if any(n.value == "div" for n in a.walk()):
            raise NotKnown  # `a` occurs twice below, so nested quotients would grow without end
        # Spark's div cuts towards zero, and returns BIGINT. No step here overflows.
        below = _call("case", Node(Op.LT, (_call("%", a, b), _whole(0))), _whole(1), _whole(0))
        floor = _call("-", _call("div", a, b), below)
        return Node(Op.CAST, (floor,), "cast", ty.from_arrow(kind)), kind
    if op == "TrueDivide" and not whole and positive:
        return _call("/", a, b), kind
    raise NotKnown


def _call(name: str, *args: Node) -> Node:
    return function_call(name, args)


def _whole(value: int) -> Node:
    return literal(value, ty.INT32)


def _count(tree: Any) -> int:
    """Return a literal number of characters."""
    match tree:
        case {"Literal": {"Dyn": {"Int": int(n)}}} | {"Literal": {"Scalar": {"Int64": int(n)}}}:
            if 0 <= n < 1 << 30:
                return n
        case {"Literal": {"Scalar": {"UInt64": int(n)}}} if n < 1 << 30:
            return n
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


def type_of(field: pa.Field, *, any_type: bool = False) -> pa.DataType:
    """Return the type of a column that is compared alike; large strings count as strings.

    Raises:
        NotKnown: Polars compares such values in another way, or does not compare them.
    """
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
