"""Read types, literals and patterns of SQL text from sqlglot's trees."""

from __future__ import annotations

import decimal
import math
from typing import TYPE_CHECKING

import numpy as np

from skipstone.bindings.predicates.sqlglot_modules import sqlglot
from skipstone.ir import types as ty
from skipstone.ir.coercion.literals import literal_type, to_float32
from skipstone.ir.like import decode
from skipstone.ir.node import Node, Op, literal

if TYPE_CHECKING:
    from sqlglot import exp as sg


def type_of(t: sg.DataType) -> ty.DType | None:
    """Return the type that a cast names; None if it is not understood."""
    name = t.this.name if hasattr(t.this, "name") else str(t.this)
    if getattr(t.this, "key", "") == "interval":
        from skipstone.bindings.predicates.sql_intervals import interval_type

        return interval_type(t)
    plain = {
        "BOOLEAN": ty.BOOL, "TINYINT": ty.INT8, "SMALLINT": ty.INT16, "INT": ty.INT32,
        "BIGINT": ty.INT64, "FLOAT": ty.FLOAT, "DOUBLE": ty.DOUBLE, "DATE": ty.DATE,
        "TIME": ty.TIME,
        "TEXT": ty.STRING, "BINARY": ty.BINARY, "VARBINARY": ty.BINARY,
        "TIMESTAMP": ty.TIMESTAMP, "TIMESTAMPTZ": ty.TIMESTAMP, "TIMESTAMPLTZ": ty.TIMESTAMP,
        "TIMESTAMPNTZ": ty.TIMESTAMP_NTZ,
    }  # fmt: skip
    if name in ("DECIMAL", "NUMERIC"):
        sizes = [p.this.this for p in t.expressions] or ["10", "0"]
        if all(isinstance(s, str) and s.isdecimal() for s in sizes):
            precision, scale = int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 0
            fits = 0 < precision <= 38 and scale <= precision
            return ty.decimal_type(precision, scale) if fits else None
        return None
    return plain.get(name) if not t.expressions else None


def literal_of(e: sg.Expression) -> Node | None:
    """Return a literal; None if `e` is another form, or has no value."""
    exp = sqlglot()
    match e:
        case exp.Null():
            return literal(None, ty.NULL)
        case exp.Boolean():
            return literal(int(e.this), ty.BOOL)
        case exp.Literal() | exp.RawString() if isinstance(e, exp.RawString) or e.is_string:
            try:
                return literal(ty.to_axis(e.this, ty.STRING), ty.STRING)
            except ValueError:
                return None
        case exp.Literal():
            return number_of(e.this)
        case exp.HexString():
            try:
                return literal(bytes.fromhex(("0" if len(e.this) % 2 else "") + e.this), ty.BINARY)
            except ValueError:
                return None
    return None


def is_pattern(n: Node) -> bool:
    """Return True if a node is NULL, or a string that Spark accepts as a pattern."""
    if n.op is not Op.LITERAL or n.dtype not in (ty.STRING, ty.NULL):
        return False
    return not isinstance(n.value, bytes) or decode(n.value.decode(), "\\") is not None


def rounds_twice(number: sg.Literal) -> bool:
    """Return True if a FLOAT literal such as `1.5e0F` may differ from its DOUBLE cast to FLOAT."""
    if number.is_string or "e" not in number.this.lower():
        return False
    try:
        double, exponent = float(number.this), int(number.this.lower().partition("e")[2])
    except ValueError:
        return True
    if abs(exponent) > 400:
        return True
    from fractions import Fraction

    with np.errstate(over="ignore", under="ignore"):
        return to_float32(Fraction(number.this)) != float(np.float32(double))


def number_of(text: str) -> Node | None:
    """Return a number with Spark's type: an exponent makes it a DOUBLE, a point a DECIMAL."""
    try:
        value: object = (
            float(text)
            if "e" in text.lower()
            else decimal.Decimal(text)
            if "." in text
            else int(text)
        )
        dtype, axis = literal_type(value)
    except (ValueError, TypeError, decimal.InvalidOperation):
        return None
    # Spark refuses 1e400.
    return None if axis in (math.inf, -math.inf) else literal(axis, dtype)
