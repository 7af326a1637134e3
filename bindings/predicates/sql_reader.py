"""Read sqlglot's trees as nodes. A form that is not understood is UNKNOWN, with its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from skipstone.bindings.predicates.sql_forms import (
    DIFFERENCES,
    UNSIGNED,
    explain_form,
    grouping_differs,
    is_name,
    not_understood,
)
from skipstone.bindings.predicates.sql_values import is_pattern, literal_of, rounds_twice, type_of
from skipstone.bindings.predicates.sqlglot_modules import sqlglot, text_of
from skipstone.ir import types as ty
from skipstone.ir.coercion.char import without_padding
from skipstone.ir.errors import PredicateSyntaxError
from skipstone.ir.functions.spark_names import explain_function, explain_method, is_internal
from skipstone.ir.node import (
    FIELD,
    STRUCT,
    Name,
    Node,
    Op,
    function_call,
    literal,
    parameter,
    unknown,
)
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from sqlglot import exp as sg

# Position of each name's first mention in the text; equal nodes share one entry.
Positions = dict[Name, int]


# Comparisons.
BINARY: Final = {
    "EQ": Op.EQ, "NEQ": Op.NE, "LT": Op.LT, "LTE": Op.LE, "GT": Op.GT, "GTE": Op.GE,
    "NullSafeEQ": Op.NULL_SAFE_EQ,
}  # fmt: skip
# Functions and operators of two arguments, by the names that they have in Spark.
CALLS: Final = {
    "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^",
    "BitwiseLeftShift": "shiftleft",
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "IntDiv": "div", "Mod": "%",
    "RegexpLike": "rlike", "Transform": "transform",
}  # fmt: skip
NOT_UNDERSTOOD: Final = "the form is not understood"


def node_of(tree: sg.Expression, positions: Positions) -> Node:
    """Read one of sqlglot's trees.

    Args:
        tree: A condition or a value.
        positions: Receives the position of each name's first mention.
    """
    return _Reader(positions).node(tree)


class _Reader:
    """Reads sqlglot's trees as nodes; `as_<class>` methods read the classes that no table lists."""

    def __init__(self, positions: Positions) -> None:
        self.exp, self.positions = sqlglot(), positions
        self.parameters: tuple[Name, ...] = ()  # of the lambdas around a form

    def node(self, e: Any) -> Node:
        """Read one form; UNKNOWN if it is not understood."""
        if reason := not_understood(e):
            return self.unknown_form(e, *explain_form(e, reason))
        if why := grouping_differs(e):
            return self.unknown_form(e, why)
        kind = type(e).__name__
        if kind in BINARY:
            return Node(BINARY[kind], (self.node(e.this), self.node(e.expression)))
        if kind in CALLS:
            given = (e.this, e.expression)
            return self.call(CALLS[kind], *(a for a in given if a is not None))
        read: Callable[[Any], Node | None] = getattr(self, f"as_{kind}", literal_of)
        return read(e) or self.unknown_form(e, NOT_UNDERSTOOD)

    def as_Paren(self, e: sg.Paren) -> Node:
        return self.node(e.this)

    def as_And(self, e: sg.And) -> Node:
        return Node(Op.AND, tuple(map(self.node, operands(e))))

    def as_Or(self, e: sg.Or) -> Node:
        return Node(Op.OR, tuple(map(self.node, operands(e))))

    def as_Not(self, e: sg.Not) -> Node:
        return Node(Op.NOT, (self.node(e.this),))

    def as_NullSafeNEQ(self, e: sg.NullSafeNEQ) -> Node:
        same = Node(Op.NULL_SAFE_EQ, (self.node(e.this), self.node(e.expression)))
        return Node(Op.NOT, (same,))

    def as_Between(self, e: sg.Between) -> Node:
        parts = (e.this, e.args["low"], e.args["high"])
        x, low, high = (without_padding(self.node(part)) for part in parts)
        return Node(Op.AND, (Node(Op.GE, (x, low)), Node(Op.LE, (x, high))))

    def as_CurrentDate(self, e: sg.CurrentDate) -> Node:
        # A function, unless a column has this name.
        return Node(Op.COLUMN, value=Name(("current_date",)))

    def as_CurrentTimestamp(self, e: sg.CurrentTimestamp) -> Node:
        return Node(Op.COLUMN, value=Name(("current_timestamp",)))

    def as_Identifier(self, e: sg.Identifier) -> Node | None:
        """Read the name of a lambda's parameter."""
        known = parameter(e.name.lower()) in self.parameters
        return self.as_Column(self.exp.column(e.copy())) if known else None

    def as_Bracket(self, e: sg.Bracket) -> Node | None:
        return self.call("[]", e.this, *e.expressions) if len(e.expressions) == 1 else None

    def as_DPipe(self, e: sg.DPipe) -> Node:
        return self.call("concat", *operands(e))

    def as_BitwiseNot(self, e: sg.BitwiseNot) -> Node:
        return self.call("~", e.this)

    def as_BitwiseRightShift(self, e: sg.BitwiseRightShift) -> Node:
        name = "shiftrightunsigned" if e.meta.get(UNSIGNED) else "shiftright"
        return self.call(name, e.this, e.expression)

    def as_Substring(self, e: sg.Substring) -> Node | None:
        start, length = e.args.get("start"), e.args.get("length")
        if start is None:
            return None
        return self.call("substring", e.this, start, *([] if length is None else [length]))

    def as_StrPosition(self, e: sg.StrPosition) -> Node:
        return self.call("locate", e.args["substr"], e.this)

    def as_Trim(self, e: sg.Trim) -> Node:
        side = str(e.args.get("position") or "").upper()
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
        characters = e.args.get("expression")
        if characters is None:
            return self.call(name, e.this)
        return self.call(f"{name}_of", e.this, characters)

    def as_Overlay(self, e: sg.Overlay) -> Node:
        count = e.args.get("for_")
        more = [] if count is None else [count]
        return self.call("overlay", e.this, e.expression, e.args["from_"], *more)

    def as_Extract(self, e: sg.Extract) -> Node | None:
        if not isinstance(e.this, self.exp.Var):
            return None
        field = literal(e.this.name.encode(), ty.STRING)
        return Node(Op.CALL, (field, self.node(e.expression)), "date_part")

    def as_Tuple(self, e: sg.Tuple) -> Node | None:
        return self.call(STRUCT, *e.expressions) if len(e.expressions) > 1 else None

    def as_Interval(self, e: sg.Interval) -> Node:
        from skipstone.bindings.predicates.sql_intervals import interval_of

        return interval_of(e) or self.unknown_form(e, "the interval is not understood")

    def call(self, name: str, *args: sg.Expression) -> Node:
        """Return the call of a function."""
        return Node(Op.CALL, tuple(map(self.node, args)), name)

    def as_Lambda(self, e: sg.Lambda) -> Node:
        """Read a lambda; in its body, its parameters hide columns."""
        names = tuple(parameter(p.name.lower()) for p in e.expressions)
        before, self.parameters = self.parameters, (*self.parameters, *names)
        try:
            return Node(Op.LAMBDA, (self.node(e.this),), names)
        finally:
            self.parameters = before

    def unknown_form(self, e: sg.Expression, why: str, hint: str = "") -> Node:
        """Return UNKNOWN with the form's columns, so that a misspelt name is still an error."""
        columns = tuple(
            self.as_Column(_whole(c))
            for c in e.find_all(self.exp.Column)
            if is_name(c) and not c.find_ancestor(self.exp.Lambda, self.exp.Query)
        )
        text = unknown(text_of(e)[:300].encode(errors="replace").decode(), why, hint)
        return Node(Op.UNKNOWN, tuple(c for c in columns if c.op is Op.COLUMN), text.value)

    def as_Is(self, e: sg.Expression) -> Node:
        """Read IS NULL, IS TRUE, IS FALSE."""
        subject, what = self.node(e.this), e.expression
        if isinstance(what, self.exp.Null):
            return Node(Op.IS_NULL, (subject,))
        if isinstance(what, self.exp.Boolean):
            return Node(Op.IS_TRUE, (subject if what.this else Node(Op.NOT, (subject,)),))
        return self.unknown_form(e, NOT_UNDERSTOOD)

    def as_In(self, e: sg.Expression) -> Node:
        """Read x IN (...): literals become the node's value, members of other forms its arguments.

        They keep their order, which decides about the type in which Spark compares them.
        """
        subject = self.node(e.this)
        items = [self.node(m) for m in e.expressions]
        if not items:
            raise PredicateSyntaxError("IN has no members; expected at least one")
        if any(m.op is not Op.LITERAL for m in items):
            return Node(Op.IN, (subject, *items), ())
        return Node(Op.IN, (subject,), tuple((m.dtype, m.value) for m in items))

    def as_Escape(self, e: Any) -> Node:
        """Read LIKE and ILIKE with ESCAPE, which Spark refuses after ANY and ALL."""
        inner, given = e.this, self.node(e.expression)
        text = given.value.decode() if isinstance(given.value, bytes) else ""
        if (
            not isinstance(inner, self.exp.Like | self.exp.ILike)
            or isinstance(inner.expression, self.exp.Any | self.exp.All)
            or given.dtype != ty.STRING
            or len(text) != 1
            or not_understood(inner)
        ):
            return self.unknown_form(e, NOT_UNDERSTOOD)
        return self.as_Like(inner, text)

    def as_Like(self, e: Any, escape: str = "\\") -> Node:
        """Read [NOT] LIKE and ILIKE; with ANY, SOME or ALL, one test for each pattern.

        Each test is negated by itself, and the tests are joined by OR or AND.
        """
        exp, several = self.exp, e.expression
        inner = several.this if isinstance(several, exp.Any | exp.All) else None
        if inner is None:
            patterns = [several]
        elif isinstance(inner, exp.Tuple | exp.Paren):
            patterns = inner.expressions if isinstance(inner, exp.Tuple) else [inner.this]
        else:
            patterns = []
        read = [self.node(p) for p in patterns]
        if (inner is not None and not all(map(is_pattern, read))) or not read:
            # If Spark refuses one of several patterns, every row raises.
            return self.unknown_form(
                e, "a list of patterns that are not all literals is not understood"
            )
        subject = self.node(e.this)
        tests = [self.pattern_test(e, subject, p, escape) for p in read]
        if e.args.get("negate"):
            tests = [Node(Op.NOT, (t,)) for t in tests]
        join = Op.AND if isinstance(several, exp.All) else Op.OR
        return tests[0] if len(tests) == 1 else Node(join, tuple(tests))

    def pattern_test(self, e: sg.Expression, subject: Node, pattern: Node, escape: str) -> Node:
        """Return the test of a string by one pattern."""
        if isinstance(e, self.exp.ILike):
            args = (subject, pattern, literal(escape.encode(), ty.STRING))
            return Node(Op.CALL, args, "ilike")
        return Node(Op.LIKE, (subject, pattern), escape)

    def as_Column(self, e: Any) -> Node:
        """Read a column, or the field of a struct."""
        parts = _parts(e)
        if not all(isinstance(p, self.exp.Identifier) for p in parts):
            return unknown(text_of(e)[:300], NOT_UNDERSTOOD)
        name = Name(tuple(p.name for p in parts))
        if (hidden := parameter(name.parts[0].lower())) in self.parameters:
            return Node(Op.COLUMN, value=Name((*hidden.parts, *name.parts[1:])))
        start = parts[0].meta.get("start")
        if isinstance(start, int):
            self.positions.setdefault(name, start)
        return Node(Op.COLUMN, value=name)

    def as_Dot(self, e: Any) -> Node:
        """Read a column of many parts, or a function with a namespace."""
        first = _first(e)
        is_parameter = isinstance(first, self.exp.Identifier) and parameter(first.name.lower())
        if isinstance(first, self.exp.Column) or is_parameter in self.parameters:
            return self.as_Column(e)
        if isinstance(e.this, self.exp.Identifier) and isinstance(e.expression, self.exp.Anonymous):
            inner = self.node(e.expression)
            if inner.op is Op.CALL and all(a.op is not Op.UNKNOWN for a in inner.args):
                return Node(Op.CALL, inner.args, f"{e.this.name}.{inner.value}".lower())
        elif isinstance(e.expression, self.exp.Identifier):
            name = literal(e.expression.name.encode(), ty.STRING)
            return Node(Op.CALL, (self.node(e.this), name), FIELD)
        return self.unknown_form(e, *self.method(e))

    def method(self, e: Any) -> tuple[str, str]:
        """Return why a form with dots is not understood, and what to write instead."""
        method, found = e.expression, None
        if isinstance(method, self.exp.Anonymous):
            column, args = text_of(e.this), method.expressions
            found = explain_method(column, str(method.this), [text_of(a) for a in args])
        return found or (NOT_UNDERSTOOD, "")

    def as_Anonymous(self, e: Any) -> Node | None:
        """Read a function by its name; its first argument may be a unit."""
        if not isinstance(e.this, str):
            return None
        unit = e.expressions[0] if e.expressions else None
        if isinstance(unit, self.exp.Star) or is_internal(e.this.lower()):
            return self.unknown_form(e, *explain_function(e.this.lower()))
        if not isinstance(unit, self.exp.Column) or is_name(unit):
            return function_call(e.this.lower(), tuple(map(self.node, e.expressions)))
        name = "units_between" if e.this.lower() in DIFFERENCES else "add_units"
        word = literal(unit.name.lower().encode(), ty.STRING)
        return Node(Op.CALL, (word, *map(self.node, e.expressions[1:])), name)

    def as_Cast(self, e: Any) -> Node:
        """Read CAST, TRY_CAST, ::, typed literals, and numbers with a suffix."""
        if not isinstance(e.to, self.exp.DataType):
            return self.unknown_form(e, NOT_UNDERSTOOD)
        to = type_of(e.to)
        if to is None:
            return self.unknown_form(e, f"the type {text_of(e.to)} is not understood")
        if to == ty.FLOAT and isinstance(e.this, self.exp.Literal) and rounds_twice(e.this):
            return self.unknown_form(e, "the nearest FLOAT of the number is not that of its DOUBLE")
        return Node(Op.CAST, (self.node(e.this),), "try_cast" if e.args.get("safe") else "cast", to)

    def as_Neg(self, e: Any) -> Node:
        """Read a minus sign.

        In `-5::string` it belongs to the number, in `-CAST(5 AS STRING)` it does not. In `-(5)`,
        the number is computed, which decides its digits beside a decimal.
        """
        inner = e.this
        if isinstance(inner, self.exp.Paren):
            return function_call("negative", (self.node(inner),))
        if isinstance(inner, self.exp.Cast) and isinstance(inner.this, self.exp.Literal):
            to = type_of(inner.to) if isinstance(inner.to, self.exp.DataType) else None
            if to is None or to.kind not in (Kind.INT, Kind.FLOAT, Kind.DECIMAL):
                return self.unknown_form(e, "a number with a sign is cast; write parentheses")
        return self.call("negative", inner)

    def as_Case(self, e: Any) -> Node:
        """Read CASE and IF as a list: condition, value, ..., and the value of ELSE."""
        exp = self.exp
        arms = [e] if isinstance(e, exp.If) else e.args["ifs"]
        parts: list[Node] = []
        for arm in arms:
            condition, value = self.node(arm.this), self.node(arm.args["true"])
            if e.key == "case" and e.this is not None:
                condition = Node(Op.EQ, (self.node(e.this), condition))
            parts += [condition, value]
        last = e.args.get("false") or e.args.get("default")
        parts.append(literal(None, ty.NULL) if last is None else self.node(last))
        return Node(Op.CALL, tuple(parts), "case")

    as_ILike, as_TryCast, as_If = as_Like, as_Cast, as_Case


def operands(e: sg.Expression) -> Iterator[sg.Expression]:
    """Yield the operands of a chain of ANDs, ORs or ||s, left to right, without recursion."""
    stack: list[Any] = [e]
    while stack:
        n = stack.pop()
        if type(n) is type(e) and not not_understood(n) and not grouping_differs(n):
            stack += [n.expression, n.this]
        else:
            yield n


# sqlglot's Column has at most four parts; further parts are Dots around it.


def _first(e: sg.Expression) -> sg.Expression:
    """Return the innermost expression of nested Dots."""
    return _first(e.this) if e.key == "dot" else e


def _parts(e: sg.Expression) -> list[sg.Expression]:
    """Return the parts of a column's name."""
    if e.key == "dot":
        return [*_parts(e.this), e.expression]
    return [e] if e.key == "identifier" else list(e.parts)


def _whole(e: sg.Expression) -> sg.Expression:
    """Return the outermost Dot around a column."""
    if e.parent is not None and e.parent.key == "dot" and e.parent.this is e:
        return _whole(e.parent)
    return e
