"""Convert Iceberg expressions (`pyiceberg.expressions`) to nodes.

Expressions have Spark SQL's meaning. `NotEqualTo`, `NotIn` and `NotStartsWith` are NULL on rows
whose column is NULL, so these rows do not match, though Iceberg's own evaluators keep them: write
`Or(NotEqualTo("x", 5), IsNull("x"))` to keep them. NaN is above every number. If Iceberg would
round a literal to the column's type and Spark would not, the test is UNKNOWN and does not prune.
"""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from skipstone.ir import types as ty
from skipstone.ir.coercion.literals import literal_type, to_float, to_float32
from skipstone.ir.errors import AmbiguousColumn
from skipstone.ir.node import Name, Node, Op, Path, Reason, literal, show_path, unknown
from skipstone.ir.session import Session
from skipstone.ir.simplify import FALSE, TRUE
from skipstone.ir.text import show
from skipstone.ir.types import DType, Kind, Leaf

COMPARISONS: Final = {
    "EqualTo": Op.EQ, "NotEqualTo": Op.NE, "LessThan": Op.LT, "LessThanOrEqual": Op.LE,
    "GreaterThan": Op.GT, "GreaterThanOrEqual": Op.GE,
}  # fmt: skip
UNARY: Final[dict[str, Callable[[Node], Node]]] = {
    "IsNull": lambda c: Node(Op.IS_NULL, (c,)),
    "NotNull": lambda c: Node(Op.NOT, (Node(Op.IS_NULL, (c,)),)),
    "IsNaN": lambda c: Node(Op.CALL, (c,), "isnan"),
    "NotNaN": lambda c: Node(Op.NOT, (Node(Op.CALL, (c,), "isnan"),)),
}


def is_iceberg(value: object) -> bool:
    """Return True if a value is a pyiceberg expression; pyiceberg is not imported for the test."""
    return any(
        t.__module__.startswith("pyiceberg.expressions") and t.__name__ == "BooleanExpression"
        for t in type(value).__mro__
    )


def from_iceberg(expression: Any, leaves: Mapping[Path, Leaf], session: Session) -> Node:
    """Convert an Iceberg expression, unbound or bound, to an unbound predicate.

    Args:
        expression: A `pyiceberg.expressions.BooleanExpression`.
        leaves: The schema's columns, whose types decide what a literal such as a timestamp means.
        session: The session's settings, which decide whether names must match in case.

    Raises:
        AmbiguousColumn: a dotted name fits a column and a struct's field.

    Example:
        >>> from pyiceberg.expressions import EqualTo, In, Not, Or
        >>> from skipstone.ir.text import show
        >>> show(from_iceberg(Or(EqualTo("x", 5), Not(In("s", ["a", "b"]))), {}, Session()))
        "x = 5 OR NOT (s IN ('a', 'b'))"
    """
    return _Reader(leaves, session).node(expression)


class _Reader:
    """Converts expressions over the columns of one schema."""

    def __init__(self, leaves: Mapping[Path, Leaf], session: Session) -> None:
        self.leaves = leaves
        self.fold: Callable[[str], str] = (lambda s: s) if session.case_sensitive else str.lower
        self.by_name: dict[str, list[Path]] = {}
        for path in leaves:
            self.by_name.setdefault(self.fold(".".join(path)), []).append(path)

    def node(self, e: Any) -> Node:
        """Convert one expression; UNKNOWN if it is not understood."""
        kind = type(e).__name__
        match kind:
            case "AlwaysTrue" | "AlwaysFalse":
                return TRUE if kind == "AlwaysTrue" else FALSE
            case "And" | "Or":
                return Node(Op.AND if kind == "And" else Op.OR, tuple(map(self.node, _chain(e))))
            case "Not":
                return Node(Op.NOT, (self.node(e.child),))
        column, kind = self.column(e), kind.removeprefix("Bound")
        if column.op is not Op.COLUMN:
            return column
        if kind in UNARY:
            return UNARY[kind](column)
        if kind in COMPARISONS:
            return self.comparison(e, column, lambda v: Node(COMPARISONS[kind], (column, v)))
        if kind in ("StartsWith", "NotStartsWith"):
            test = self.comparison(e, column, lambda v: Node(Op.CALL, (column, v), "startswith"))
            return test if kind == "StartsWith" else Node(Op.NOT, (test,))
        if kind in ("In", "NotIn"):
            values = [self.value(column, v) for v in e.literals]
            literals = tuple(
                sorted(((v.dtype, v.value) for v in values if v.op is Op.LITERAL), key=repr)
            )
            test = Node(Op.IN, (column, *(v for v in values if v.op is not Op.LITERAL)), literals)
            return test if kind == "In" else Node(Op.NOT, (test,))
        return Node(Op.UNKNOWN, (column,), unknown(kind, "the expression is not understood").value)

    def comparison(self, e: Any, column: Node, make: Callable[[Node], Node]) -> Node:
        """Return `make` of an expression's literal; UNKNOWN if the literal would be rounded."""
        v = self.value(column, e.literal)
        if v.op is Op.LITERAL:
            return make(v)
        assert isinstance(v.value, Reason)
        return Node(
            Op.UNKNOWN,
            (column,),
            Reason(f"{type(e).__name__}({show(column)}, {v.value.what})", v.value.why),
        )

    def column(self, e: Any) -> Node:
        """Return the column that an expression tests; UNKNOWN if it is not understood."""
        term: Any = getattr(e, "term", None)
        if type(term).__name__ == "BoundReference":
            # The reference holds the field's own name, without the names of the structs around it.
            if getattr(term.accessor, "inner", None) is not None:
                return unknown(
                    str(term.field.name),
                    "a bound reference does not hold the path to a struct's field; "
                    "give the expression unbound",
                )
            return Node(Op.COLUMN, value=Name((str(term.field.name),)))
        if type(term).__name__ != "Reference":
            return unknown(type(e).__name__, f"the term {type(term).__name__} is not understood")
        name = str(term.name)
        match self.by_name.get(self.fold(name), []):
            case []:
                return Node(Op.COLUMN, value=Name(tuple(name.split("."))))
            case [*paths] if len({tuple(map(self.fold, p)) for p in paths}) > 1:
                shown = ", ".join(map(show_path, paths))
                raise AmbiguousColumn(
                    f"predicate names {name!r}; the schema has {shown}, which Iceberg writes "
                    "alike. Use SQL text to tell them apart."
                )
            case [path, *_]:
                return Node(Op.COLUMN, value=Name(path))
        raise AssertionError(name)

    def dtype(self, column: Node) -> DType | None:
        """Return the type of a column; None if the schema lacks it."""
        assert isinstance(column.value, Name)
        key = self.fold(".".join(column.value.parts))
        return next((self.leaves[p].dtype for p in self.by_name.get(key, [])), None)

    def value(self, column: Node, lit: Any) -> Node:
        """Return a literal as a node; UNKNOWN if Iceberg and Spark make different values of it."""
        kind, value, to = type(lit).__name__, lit.value, self.dtype(column)
        rounded = unknown(
            f"{value!r:.80}",
            f"Iceberg makes another value of this {kind} for a column of type {to}",
        )
        match kind:
            case "DateLiteral":
                return literal(value, ty.DATE)
            case "TimeLiteral" if to is None or to.kind is Kind.TIME:
                return literal(value, ty.TIME)
            case "TimestampLiteral":
                if to is not None and to.kind is not Kind.TIMESTAMP:
                    return rounded
                return literal(
                    value, ty.TIMESTAMP if to is not None and to.zoned else ty.TIMESTAMP_NTZ
                )
            case "LongLiteral" | "FloatLiteral" | "DoubleLiteral" | "DecimalLiteral":
                if to is not None and not _exact(value, to):
                    return rounded
            case "StringLiteral":
                if to is not None and (to == ty.FLOAT or to.kind is Kind.DECIMAL):
                    return rounded
            case "UUIDLiteral":
                value = str(uuid.UUID(bytes=bytes(value)))
            case "BooleanLiteral" | "BinaryLiteral" | "FixedLiteral":
                pass
            case _:  # a literal beyond the range of a bound column's type
                return rounded
        try:
            dtype, axis = literal_type(value)
        except TypeError:
            return rounded
        return literal(axis, dtype)


def _chain(e: Any) -> list[Any]:
    """Return the inputs of nested ANDs, or of nested ORs, left to right."""
    out: list[Any] = []
    stack = [e]
    while stack:
        at = stack.pop()
        if type(at) is type(e):
            stack += [at.right, at.left]
        else:
            out.append(at)
    return out


def _exact(value: int | float | decimal.Decimal, to: DType) -> bool:
    """Return True if Iceberg converts a number to a column's type without changing it.

    It must also compare as Spark compares the unconverted number.
    """
    match to.kind:
        case Kind.INT | Kind.UINT:
            return not isinstance(value, decimal.Decimal) or value == value.to_integral_value()
        case Kind.FLOAT if isinstance(value, float):
            return to.bits == 64 or to_float32(value) == value
        case Kind.FLOAT:
            return to_float(*value.as_integer_ratio(), to) == value
        case Kind.DECIMAL if isinstance(value, float):
            # Spark compares them as DOUBLE, which distinguishes decimals of up to 15 digits.
            try:
                ty.to_axis(decimal.Decimal(repr(value)), to)
            except (ValueError, decimal.InvalidOperation):
                return False
            return to.precision <= 15
    return to.kind not in (Kind.DATE, Kind.TIMESTAMP)
