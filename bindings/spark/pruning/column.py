"""PySpark Columns as predicates, from classic Spark's trees in Java or Spark Connect's in Python.

Neither tree is resolved. The schema finds the names, and Spark's coercion finds the types, as in
SQL text. The printed form of a Column is not SQL (dates and strings lose their quotes), so the
trees are walked. The attributes read here are private to PySpark; tests pin them.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from skipstone.bindings.spark.session.session import is_connect
from skipstone.ir import types as ty
from skipstone.ir.coercion.literals import literal_type
from skipstone.ir.errors import PredicateError, PredicateSyntaxError
from skipstone.ir.node import Name, Node, Op, function_call, literal, quoted_path, unknown
from skipstone.ir.types import DType, Kind
from skipstone.ir.zones import SETTLED

BINARY: Final = {
    "=": Op.EQ, "==": Op.EQ, "!=": Op.NE, "<>": Op.NE, "<=>": Op.NULL_SAFE_EQ,
    "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE,
}  # fmt: skip
UNARY: Final[dict[str, Callable[[Node], Node]]] = {
    "not": lambda x: Node(Op.NOT, (x,)),
    "!": lambda x: Node(Op.NOT, (x,)),
}
TYPES: Final = {
    "boolean": ty.BOOL, "tinyint": ty.INT8, "byte": ty.INT8, "smallint": ty.INT16,
    "short": ty.INT16, "int": ty.INT32, "integer": ty.INT32, "bigint": ty.INT64, "long": ty.INT64,
    "float": ty.FLOAT, "real": ty.FLOAT, "double": ty.DOUBLE, "date": ty.DATE,
    "string": ty.STRING, "binary": ty.BINARY, "timestamp": ty.TIMESTAMP,
    "timestamp_ltz": ty.TIMESTAMP, "timestamp_ntz": ty.TIMESTAMP_NTZ, "void": ty.NULL,
    "decimal": ty.decimal_type(10, 0),
}  # fmt: skip


def from_column(column: Any) -> Node:
    """Return a Column as an unbound predicate.

    Comparisons, AND, OR, NOT, `isin`, `between`, `eqNullSafe`, casts, functions by name, `when`,
    struct fields, `df["x"]` and `expr(...)` are understood; other forms become UNKNOWN. An IN list
    of a classic Column costs two calls into Java per value.

    Raises:
        PredicateError: PySpark keeps Columns in an unknown form.

    Example:
        >>> from pyspark.sql import functions as F
        >>> from_column(F.col("x") == 5)  # doctest: +SKIP
    """
    from py4j.protocol import Py4JError

    try:
        if is_connect(column):
            return _Connect().node(column._expr)
        return _Classic().node(column._jc.node())
    except (AttributeError, TypeError, Py4JError) as e:
        raise PredicateError(
            f"a PySpark Column cannot be read ({e!r:.200}); "
            "write it as SQL text or with skipstone.col()"
        ) from e


class _Walker(ABC):
    """The shared part of both tree walkers: functions by name, and chains of AND and OR."""

    @abstractmethod
    def node(self, n: Any) -> Node:
        """Convert one node of the tree and all nodes below it."""

    @abstractmethod
    def call(self, n: Any) -> tuple[str, Iterator[Any]] | None:
        """Return a function's name and inputs, or None for other nodes."""

    def function(self, name: str, inputs: Iterator[Any]) -> Node:
        if name in ("and", "or"):
            return Node(
                Op.AND if name == "and" else Op.OR, tuple(map(self.node, self.chain(name, inputs)))
            )
        args = tuple(map(self.node, inputs))
        match name, len(args):
            case _, 2 if name in BINARY:
                return Node(BINARY[name], args)
            case _, 1 if name in UNARY:
                return UNARY[name](args[0])
            case "between", 3:
                return Node(Op.AND, (Node(Op.GE, args[:2]), Node(Op.LE, (args[0], args[2]))))
            case "in", _ if args:
                return member(args[0], args[1:])
        return function_call(name, args)

    def chain(self, name: str, inputs: Iterator[Any]) -> Iterator[Any]:
        """Yield the inputs of nested ANDs, or of nested ORs, from left to right."""
        stack = list(inputs)[::-1]
        while stack:
            n = stack.pop()
            found = self.call(n)
            if found is not None and found[0] == name:
                stack += list(found[1])[::-1]
            else:
                yield n


class _Classic(_Walker):
    """The walker of classic Spark's `org.apache.spark.sql.internal.ColumnNode`, through py4j."""

    def call(self, n: Any) -> tuple[str, Iterator[Any]] | None:
        if n.productPrefix() != "UnresolvedFunction" or n.isDistinct():
            return None
        return n.functionName().lower(), _items(n.arguments())

    def node(self, n: Any) -> Node:
        kind = n.productPrefix()
        match kind:
            case "UnresolvedAttribute":
                return Node(Op.COLUMN, value=Name(tuple(_items(n.nameParts()))))
            case "Literal":
                return self.literal(n)
            case "UnresolvedFunction" if (found := self.call(n)) is not None:
                return self.function(*found)
            case "Cast":
                mode = n.evalMode()
                return cast(
                    self.node(n.child()),
                    n.dataType().sql(),
                    "ansi" if mode.isEmpty() else mode.get().toString(),
                )
            case "CaseWhenOtherwise":
                arms = [(self.node(arm._1()), self.node(arm._2())) for arm in _items(n.branches())]
                return case(
                    arms, None if n.otherwise().isEmpty() else self.node(n.otherwise().get())
                )
            case "Alias":
                return self.node(n.child())
            case "UnresolvedExtractValue":
                return field(self.node(n.child()), self.node(n.extraction()))
            case "SqlExpression":
                return text(n.expression())
            case "ExpressionColumnNode":
                return self.resolved(n.expression())
        return opaque(kind, "the form is not understood", *map(self.node, _items(n.children())))

    def resolved(self, e: Any) -> Node:
        """Convert the resolved expressions that `df["x"]` and `df["a.b"]` hold."""
        match e.productPrefix():
            case "AttributeReference":
                return Node(Op.COLUMN, value=Name((e.name(),)))
            case "Alias":
                return self.resolved(e.child())
            case "GetStructField":
                return field(
                    self.resolved(e.child()), literal(e.extractFieldName().encode(), ty.STRING)
                )
        return opaque(
            e.productPrefix(),
            "the form is not understood",
            *map(self.resolved, _items(e.children())),
        )

    def literal(self, n: Any) -> Node:
        value, given = n.value(), n.dataType()
        if hasattr(value, "getClass"):  # py4j has no Python value for it
            found = _java_value(value)
        else:
            found = _python_value(value)
        if not given.isEmpty() and found.dtype != (to := type_named(given.get().sql())):
            if value is None and to is not None:
                return literal(None, to)
            return unknown(str(value)[:80], "the literal's type differs from its value's type")
        return found


class _Connect(_Walker):
    """The walker of `pyspark.sql.connect.expressions.Expression`."""

    def call(self, n: Any) -> tuple[str, Iterator[Any]] | None:
        if type(n).__name__ != "UnresolvedFunction" or n._is_distinct:
            return None
        return n._name.lower(), iter(n._args)

    def node(self, n: Any) -> Node:
        kind = type(n).__name__
        match kind:
            case "ColumnReference":
                from skipstone.bindings.statistics.coerce_inputs import split_name

                return Node(Op.COLUMN, value=Name(split_name(n._unparsed_identifier)))
            case "LiteralExpression":
                return self.literal(n)
            case "UnresolvedFunction" if (found := self.call(n)) is not None:
                return self.function(*found)
            case "CastExpression":
                to = n._data_type if isinstance(n._data_type, str) else n._data_type.simpleString()
                return cast(self.node(n._expr), to, n._eval_mode or "ansi")
            case "CaseWhen":
                arms = [
                    (self.node(condition), self.node(value)) for condition, value in n._branches
                ]
                return case(arms, None if n._else_value is None else self.node(n._else_value))
            case "ColumnAlias":
                return self.node(n._child)
            case "UnresolvedExtractValue":
                return field(self.node(n._child), self.node(n._extraction))
            case "SQLExpression":
                return text(n._expr)
        return opaque(kind, "the form is not understood", *map(self.node, n.children))

    def literal(self, n: Any) -> Node:
        value, to = n._value, type_named(n._dataType.simpleString())
        if to is None or value is None:
            if to is None:
                return unknown(str(value)[:80], f"a literal of type {n._dataType.simpleString()}")
            return literal(None, to)
        if isinstance(value, Decimal):
            # The literal's type is at least the declared one, DECIMAL(10,0) by default.
            # Source: Spark, LiteralValueProtoConverter.
            plain, _ = literal_type(value)
            scale = max(plain.scale, to.scale)
            to = ty.decimal_type(max(plain.precision, to.precision, scale), scale)
        if to.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.BOOL):
            return literal(int(value), to)  # PySpark keeps days and microseconds here
        try:
            return literal(ty.to_axis(value, to), to)
        except ValueError:
            return unknown(f"{value!r:.80}", "the value has no SQL literal")


def _items(seq: Any) -> Iterator[Any]:
    """Iterate over a Scala Seq with its own iterator, because a List is slow to index."""
    at = seq.iterator()
    for _ in range(seq.size()):
        yield at.next()


def _python_value(value: object) -> Node:
    try:
        dtype, axis = literal_type(value)
    except TypeError:
        return unknown(f"{value!r:.80}", "the value has no SQL literal")
    return literal(axis, dtype)


def _java_value(value: Any) -> Node:
    name = value.getClass().getName()
    match name:
        case "java.sql.Date":
            return literal(value.toLocalDate().toEpochDay(), ty.DATE)
        case "java.time.LocalDate":
            return literal(value.toEpochDay(), ty.DATE)
        # Earlier timestamps are in the Julian calendar and in local mean times.
        case "java.sql.Timestamp" if (seconds := value.getTime() // 1000) >= SETTLED:
            return literal(seconds * 10**6 + value.getNanos() // 1000, ty.TIMESTAMP)
        case "java.time.Instant":
            return literal(value.getEpochSecond() * 10**6 + value.getNano() // 1000, ty.TIMESTAMP)
        case "java.time.LocalDateTime":
            micros = (
                value.toLocalDate().toEpochDay() * 86_400 * 10**6
                + value.toLocalTime().toNanoOfDay() // 1000
            )
            return literal(micros, ty.TIMESTAMP_NTZ)
    return unknown(str(value.toString())[:80], f"a literal of class {name} is not understood")


def name_of(column: Any) -> str | None:
    """Return the SQL text of a Column that names a column or a struct's field, else None."""
    extracted = 0
    if not is_connect(column):
        n = column._jc.node()
        while n.productPrefix() == "UnresolvedExtractValue":
            n, extracted = n.child(), extracted + 1
        walker: _Walker = _Classic()
        plain = n.productPrefix() == "UnresolvedAttribute" and n.planId().isEmpty()
        tree = column._jc.node()
    else:
        n = column._expr
        while type(n).__name__ == "UnresolvedExtractValue":
            n, extracted = n._child, extracted + 1
        walker = _Connect()
        plain, tree = type(n).__name__ == "ColumnReference" and n._plan_id is None, column._expr
    node = walker.node(tree) if plain else None
    if node is None or not isinstance(node.value, Name):
        return None
    parts = node.value.parts
    named, fields = parts[: len(parts) - extracted], parts[len(parts) - extracted :]
    text: str | None = quoted_path(named)
    for field in fields:
        text = field_of(text, field)
    return text


def field_of(text: str | None, field: str) -> str | None:
    """Return the SQL text of a struct's field; None if its name has odd characters.

    In `a.b`, Spark takes `a` for the name of a table or view first.
    """
    plain = re.fullmatch(r"\w+", field, re.ASCII)
    return f"{text}['{field}']" if text and plain else None


def opaque(what: str, why: str, *inputs: Node) -> Node:
    """Return UNKNOWN with the names of its columns, so that a misspelt name is still an error."""
    columns = tuple(c for n in inputs for c in n.walk() if c.op is Op.COLUMN)
    return Node(Op.UNKNOWN, columns, unknown(what, why).value)


def cast(inner: Node, to: str, mode: str) -> Node:
    """Return CAST or TRY_CAST to a type given by its name."""
    modes = {"ansi": "cast", "try": "try_cast"}  # in Java the mode prints as Cast$Ansi$@...
    dtype = type_named(to)
    name = next((modes[m] for m in modes if m in mode.lower().split("cast")[-1]), None)
    if dtype is None or name is None:
        return opaque(f"CAST(... AS {to})", "the cast is not understood", inner)
    return Node(Op.CAST, (inner,), name, dtype)


def member(subject: Node, members: Sequence[Node]) -> Node:
    """Return IN over a list of literals and other expressions."""
    literals = tuple((m.dtype, m.value) for m in members if m.op is Op.LITERAL)
    return Node(Op.IN, (subject, *(m for m in members if m.op is not Op.LITERAL)), literals)


def in_values(subject: Node, values: Sequence[object], dtype: DType) -> Node:
    """Return IN over values of one type; None is NULL."""
    return Node(Op.IN, (subject,), tuple(zip(itertools.repeat(dtype), values)))


def case(arms: Iterable[tuple[Node, Node]], last: Node | None) -> Node:
    """Return CASE WHEN.

    Args:
        arms: Pairs of a condition and its value, in order.
        last: The value of ELSE; None is NULL.
    """
    parts = [n for arm in arms for n in arm]
    return Node(Op.CALL, (*parts, literal(None, ty.NULL) if last is None else last), "case")


def field(child: Node, name: Node) -> Node:
    """Return a struct's field if both names are plain, else UNKNOWN."""
    if (
        child.op is Op.COLUMN
        and isinstance(child.value, Name)
        and name.dtype == ty.STRING
        and isinstance(name.value, bytes)
    ):
        return Node(Op.COLUMN, value=Name((*child.value.parts, name.value.decode())))
    return opaque("an element", "an element of a list or map is not understood", child)


def text(sql: str) -> Node:
    """Parse the text of `expr(...)`; text that does not parse is UNKNOWN."""
    from skipstone.bindings.predicates.sql import parse

    try:
        return parse(sql)[0]
    except PredicateSyntaxError as e:
        return unknown(sql[:300], e.message)


def type_named(name: str) -> DType | None:
    """Return a type by the name that Spark prints or accepts; None for types without literals."""
    name = name.strip().lower()
    sized = re.fullmatch(r"(?:decimal|dec|numeric) ?\( ?(\d+) ?(?:, ?(\d+) ?)?\)", name)
    if sized:
        precision, scale = int(sized[1]), int(sized[2] or 0)
        if 0 < precision <= 38 and scale <= precision:
            return ty.decimal_type(precision, scale)
        return None
    return TYPES.get(name)
