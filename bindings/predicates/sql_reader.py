"""Read sqlglot's trees as nodes. A form that is not understood is UNKNOWN, with its columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skipstone.bindings.predicates.sql_forms import (
    DIFFERENCES,
    explain_form,
    is_name,
    not_understood,
)
from skipstone.bindings.predicates.sql_intervals import interval_of
from skipstone.bindings.predicates.sql_values import is_pattern, literal_of, rounds_twice, type_of
from skipstone.ir import types as ty
from skipstone.ir.coercion.char import without_padding
from skipstone.ir.errors import PredicateSyntaxError
from skipstone.ir.functions.spark_names import explain_function
from skipstone.ir.node import STRUCT, Name, Node, Op, literal, parameter, unknown
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from sqlglot import exp as sg

# Position of each name's first mention in the text; equal nodes share one entry.
Positions = dict[Name, int]


class Reader:
    """Reads sqlglot's trees as nodes.

    Args:
        positions: Receives the position of each name's first mention.
    """

    def __init__(self, positions: Positions) -> None:
        from sqlglot import exp

        self.exp, self.positions = exp, positions
        self.parameters: tuple[Name, ...] = ()  # of the lambdas around a form
        self.binary = {
            exp.EQ: Op.EQ,
            exp.NEQ: Op.NE,
            exp.LT: Op.LT,
            exp.LTE: Op.LE,
            exp.GT: Op.GT,
            exp.GTE: Op.GE,
            exp.NullSafeEQ: Op.NULL_SAFE_EQ,
        }
        self.calls: dict[type[Any], str] = {
            exp.BitwiseAnd: "&",
            exp.BitwiseOr: "|",
            exp.BitwiseXor: "^",
            exp.Add: "+",
            exp.Sub: "-",
            exp.Mul: "*",
            exp.Div: "/",
            exp.IntDiv: "div",
            exp.Mod: "%",
        }
        self.bits = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
        self.shifts = (exp.BitwiseLeftShift, exp.BitwiseRightShift)
        self.compared = (*self.binary, exp.NullSafeNEQ)
        self.loose = (
            exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In, exp.Is, exp.Like, exp.ILike,
            exp.RegexpLike, exp.Escape, exp.Not,
        )  # fmt: skip

    def node(self, e: sg.Expression) -> Node:
        """Read one form; UNKNOWN if it is not understood."""
        exp = self.exp
        if reason := not_understood(e):
            return self.unknown_form(e, *explain_form(e, reason))
        if why := self.grouping_differs(e):
            return self.unknown_form(e, why)
        if type(e) in self.binary:
            return Node(self.binary[type(e)], (self.node(e.this), self.node(e.expression)))
        if type(e) in self.calls:
            return self.call(self.calls[type(e)], e.this, e.expression)
        match e:
            case exp.Paren():
                return self.node(e.this)
            case exp.And() | exp.Or():
                op = Op.AND if isinstance(e, exp.And) else Op.OR
                return Node(op, tuple(map(self.node, self.operands(e))))
            case exp.Not():
                return Node(Op.NOT, (self.node(e.this),))
            case exp.NullSafeNEQ():
                return Node(
                    Op.NOT, (Node(Op.NULL_SAFE_EQ, (self.node(e.this), self.node(e.expression))),)
                )
            case exp.Between():
                x, low, high = (
                    without_padding(self.node(part))
                    for part in (e.this, e.args["low"], e.args["high"])
                )
                return Node(Op.AND, (Node(Op.GE, (x, low)), Node(Op.LE, (x, high))))
            case exp.Is():
                return self.is_test(e)
            case exp.In():
                return self.members(e)
            case exp.Like() | exp.ILike():
                return self.like(e)
            case exp.Escape():
                return self.escaped(e)
            case exp.RegexpLike():
                return self.call("rlike", e.this, e.expression)
            case exp.Column():
                return self.column(e)
            case exp.CurrentDate():  # a function, unless a column has this name
                return Node(Op.COLUMN, value=Name(("current_date",)))
            case exp.CurrentTimestamp():
                return Node(Op.COLUMN, value=Name(("current_timestamp",)))
            case exp.Identifier() if parameter(e.name.lower()) in self.parameters:
                return self.column(exp.column(e.copy()))
            case exp.Bracket() if len(e.expressions) == 1:
                return self.call("[]", e.this, e.expressions[0])
            case exp.Transform():
                return self.call("transform", e.this, e.expression)
            case exp.Lambda():
                return self.lambda_(e)
            case exp.Dot():
                return self.dotted(e)
            case exp.Cast():
                return self.cast(e)
            case exp.DPipe():
                return self.call("concat", *self.operands(e))
            case exp.Neg():
                return self.negative(e)
            case exp.BitwiseNot():
                return self.call("~", e.this)
            case exp.Anonymous() if isinstance(e.this, str):
                return self.function(e)
            case exp.Substring() if e.args.get("start") is not None:
                length = filter(None, (e.args.get("length"),))
                return self.call("substring", e.this, e.args["start"], *length)
            case exp.StrPosition():
                return self.call("locate", e.args["substr"], e.this)
            case exp.Trim():
                side = str(e.args.get("position") or "").upper()
                name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
                characters = e.args.get("expression")
                if characters is not None:
                    return self.call(f"{name}_of", e.this, characters)
                return self.call(name, e.this)
            case exp.Overlay():
                count = filter(None, (e.args.get("for_"),))
                return self.call("overlay", e.this, e.expression, e.args["from_"], *count)
            case exp.Case() | exp.If():
                return self.choice(e)
            case exp.Extract() if isinstance(e.this, exp.Var):
                field = literal(e.this.name.encode(), ty.STRING)
                return Node(Op.CALL, (field, self.node(e.expression)), "date_part")
            case exp.Tuple() if len(e.expressions) > 1:
                return self.call(STRUCT, *e.expressions)
            case exp.Interval():
                found = interval_of(e)
                return found or self.unknown_form(e, "the interval is not understood")
        found_literal = literal_of(e)
        if found_literal is not None:
            return found_literal
        return self.unknown_form(e, "the form is not understood")

    def call(self, name: str, *args: sg.Expression) -> Node:
        """Return the call of a function."""
        return Node(Op.CALL, tuple(map(self.node, args)), name)

    def lambda_(self, e: sg.Lambda) -> Node:
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
            self.column(_whole(c))
            for c in e.find_all(self.exp.Column)
            if is_name(c) and not c.find_ancestor(self.exp.Lambda, self.exp.Query)
        )
        text = unknown(e.sql(dialect="spark")[:300].encode(errors="replace").decode(), why, hint)
        return Node(Op.UNKNOWN, tuple(c for c in columns if c.op is Op.COLUMN), text.value)

    def grouping_differs(self, e: Any) -> str | None:
        """Return why Spark groups a form differently from sqlglot; None if both agree."""
        exp = self.exp
        left, right = e.this, e.expression
        if not isinstance(e, (*self.compared, *self.bits, exp.DPipe)):
            return None
        # Spark reads `a = b IN (c)` as `(a = b) IN (c)`, and `a LIKE b = c` as `a LIKE (b = c)`.
        if isinstance(e, self.compared) and (
            isinstance(left, self.loose) or isinstance(right, (*self.loose, *self.compared))
        ):
            return "Spark groups tests next to a comparison differently; write parentheses"
        if isinstance(e, self.bits) and any(
            type(a) in self.bits and type(a) is not type(e) for a in (left, right)
        ):
            return "Spark ranks & above ^ above |; write parentheses"
        if isinstance(e, exp.DPipe) and (
            isinstance(left, (*self.bits, *self.shifts)) or isinstance(right, exp.Add | exp.Sub)
        ):
            return "Spark ranks || with + and -, above bits; write parentheses"
        return None

    def operands(self, e: sg.Expression) -> Iterator[sg.Expression]:
        """Yield the operands of a chain of ANDs, ORs or ||s, left to right, without recursion."""
        stack: list[Any] = [e]
        while stack:
            n = stack.pop()
            same = type(n) is type(e) and not not_understood(n) and not self.grouping_differs(n)
            if same:
                stack += [n.expression, n.this]
            else:
                yield n

    def is_test(self, e: sg.Expression) -> Node:
        """Read IS NULL, IS TRUE, IS FALSE."""
        subject, what = self.node(e.this), e.expression
        if isinstance(what, self.exp.Null):
            return Node(Op.IS_NULL, (subject,))
        if isinstance(what, self.exp.Boolean):
            return Node(Op.IS_TRUE, (subject if what.this else Node(Op.NOT, (subject,)),))
        return self.unknown_form(e, "the form is not understood")

    def members(self, e: sg.Expression) -> Node:
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

    def escaped(self, e: sg.Expression) -> Node:
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
            return self.unknown_form(e, "the form is not understood")
        return self.like(inner, text)

    def like(self, e: sg.Expression, escape: str = "\\") -> Node:
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

    def column(self, e: sg.Expression) -> Node:
        """Read a column, or the field of a struct."""
        parts = _parts(e)
        if not all(isinstance(p, self.exp.Identifier) for p in parts):
            return unknown(e.sql(dialect="spark")[:300], "the form is not understood")
        name = Name(tuple(p.name for p in parts))
        if (hidden := parameter(name.parts[0].lower())) in self.parameters:
            if len(parts) > 1:
                return unknown(e.sql(dialect="spark")[:300], "a field of a parameter")
            return Node(Op.COLUMN, value=hidden)
        start = parts[0].meta.get("start")
        if isinstance(start, int):
            self.positions.setdefault(name, start)
        return Node(Op.COLUMN, value=name)

    def dotted(self, e: sg.Expression) -> Node:
        """Read a column of many parts, or a function with a namespace."""
        if isinstance(_first(e), self.exp.Column):
            return self.column(e)
        if isinstance(e.this, self.exp.Identifier) and isinstance(e.expression, self.exp.Anonymous):
            inner = self.node(e.expression)
            if inner.op is Op.CALL:
                return Node(Op.CALL, inner.args, f"{e.this.name}.{inner.value}".lower())
        return self.unknown_form(e, "the form is not understood")

    def function(self, e: sg.Expression) -> Node:
        """Read a function by its name; its first argument may be a unit."""
        unit = e.expressions[0] if e.expressions else None
        if isinstance(unit, self.exp.Star):
            return self.unknown_form(e, *explain_function(e.this.lower()))
        if not isinstance(unit, self.exp.Column) or is_name(unit):
            return self.call(e.this.lower(), *e.expressions)
        name = "units_between" if e.this.lower() in DIFFERENCES else "add_units"
        word = literal(unit.name.lower().encode(), ty.STRING)
        return Node(Op.CALL, (word, *map(self.node, e.expressions[1:])), name)

    def cast(self, e: sg.Expression) -> Node:
        """Read CAST, TRY_CAST, ::, typed literals, and numbers with a suffix."""
        if not isinstance(e.to, self.exp.DataType):
            return self.unknown_form(e, "the form is not understood")
        to = type_of(e.to)
        if to is None:
            return self.unknown_form(e, f"the type {e.to.sql(dialect='spark')} is not understood")
        if to == ty.FLOAT and isinstance(e.this, self.exp.Literal) and rounds_twice(e.this):
            return self.unknown_form(e, "the nearest FLOAT of the number is not that of its DOUBLE")
        return Node(Op.CAST, (self.node(e.this),), "try_cast" if e.args.get("safe") else "cast", to)

    def negative(self, e: sg.Expression) -> Node:
        """Read a minus sign.

        In `-5::string` it belongs to the number, in `-CAST(5 AS STRING)` it does not.
        """
        inner = e.this
        if isinstance(inner, self.exp.Cast) and isinstance(inner.this, self.exp.Literal):
            to = type_of(inner.to) if isinstance(inner.to, self.exp.DataType) else None
            if to is None or to.kind not in (Kind.INT, Kind.FLOAT, Kind.DECIMAL):
                return self.unknown_form(e, "a number with a sign is cast; write parentheses")
        return self.call("negative", inner)

    def choice(self, e: sg.Expression) -> Node:
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


# sqlglot's Column has at most four parts; further parts are Dots around it.


def _first(e: sg.Expression) -> sg.Expression:
    """Return the innermost expression of nested Dots."""
    return _first(e.this) if e.key == "dot" else e


def _parts(e: sg.Expression) -> list[sg.Expression]:
    """Return the parts of a column's name."""
    return [*_parts(e.this), e.expression] if e.key == "dot" else list(e.parts)


def _whole(e: sg.Expression) -> sg.Expression:
    """Return the outermost Dot around a column."""
    if e.parent is not None and e.parent.key == "dot" and e.parent.this is e:
        return _whole(e.parent)
    return e
