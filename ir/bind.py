"""Binding: resolve names against a schema, turn literals into axis values, and reduce the forms.

A bound predicate holds only: literals TRUE, FALSE, NULL; AND, OR, NOT, IS_NULL, IS_TRUE; UNKNOWN;
and leaves that test one column, or one call of a function, against axis values of its own type (LT,
LE, GT, GE, EQ, IN, LIKE, NAN, DEFINED). Unsupported parts become UNKNOWN and do not prune; the rest
of the condition still does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skipstone.ir import types as ty
from skipstone.ir.coercion import char
from skipstone.ir.coercion.coerce import same_equality, types_differ
from skipstone.ir.coercion.pullback import Span
from skipstone.ir.coercion.thresholds import against_span
from skipstone.ir.coercion.widening import by_own_type
from skipstone.ir.comparisons import (
    FLIP,
    compare,
    distinct_types,
    in_common_type,
    in_one_type,
    is_null,
    member_conditions,
)
from skipstone.ir.errors import AmbiguousColumn, limited_nesting, unknown_column
from skipstone.ir.forms import CONDITIONS, SCALARS
from skipstone.ir.functions.build import TRUTH, as_text, build, cast, truth
from skipstone.ir.functions.spark_names import explain_function
from skipstone.ir.like import decode
from skipstone.ir.node import (
    FIELD,
    TERMS,
    Name,
    Node,
    Op,
    Path,
    Reason,
    flatten_chain,
    is_parameter,
    is_tuple,
    literal,
    paths_by_name,
    show_path,
    unknown,
)
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.simplify import FALSE, NULL, TRUE, simplify
from skipstone.ir.text import show, unchained
from skipstone.ir.types import DType, Kind, Leaf

# Names that Spark reads as functions if no column has them.
# Source: Spark, `LiteralFunctionResolution`.
LITERAL_FUNCTIONS: Final = frozenset(
    ("current_date", "current_time", "current_timestamp", "current_user", "session_user", "user")
)
NOT_BOOLEAN: Final = "expected a BOOLEAN condition"
LOGICAL: Final = (*FLIP, Op.AND, Op.OR, Op.NOT, Op.IS_NULL, Op.IS_TRUE, Op.IN, Op.LIKE)


def bind(node: Node, leaves: Mapping[Path, Leaf], session: Session) -> Node:
    """Bind and simplify a predicate.

    Args:
        node: The predicate as parsed.
        leaves: The schema's columns (`types.leaves_of`).
        session: The Spark settings.

    Returns:
        A bound predicate, as `spec.check_bound` accepts it.

    Raises:
        UnknownColumn, AmbiguousColumn: a name matches no column, or several.
        PredicateTooDeep: the nesting exceeds what Python can follow.
    """
    with limited_nesting():
        return simplify(_Binder(leaves, session).predicate(node))


def bind_scalar(
    node: Node, leaves: Mapping[Path, Leaf], session: Session, by: str = "predicate"
) -> Node:
    """Bind a scalar expression: a column, literal, call, or UNKNOWN.

    Raises as `bind` does; the errors say that `by` names a column.
    """
    return _Binder(leaves, session, by).scalar(node)


class _Binder:
    """Binds the nodes of one predicate to the columns of one schema."""

    def __init__(
        self, leaves: Mapping[Path, Leaf], session: Session, by: str = "predicate"
    ) -> None:
        self.leaves, self.session, self.by = leaves, session, by
        self.fold = (lambda s: s) if session.case_sensitive else str.lower
        self.by_name = paths_by_name(leaves, session.case_sensitive)

    # Predicates.

    def predicate(self, n: Node) -> Node:
        """Bind a condition. The result is not yet simplified."""
        match n.op:
            case Op.AND | Op.OR:
                return Node(n.op, tuple(self.predicate(a) for a in flatten_chain(n)))
            case Op.NOT | Op.IS_TRUE:
                return Node(n.op, (self.predicate(n.args[0]),))
            case Op.IS_NULL:
                return self.is_null(n.args[0])
            case Op.IN:
                return self.is_in(n)
            case Op.LIKE:
                return self.like(n)
            case Op.UNKNOWN:
                self.check_columns(n)
                return Node(n.op, (), n.value)
            case Op.CALL if n.value in CONDITIONS:
                return self.predicate(self.rewritten(n))
            case _ if n.op in FLIP:
                return self.compare(n.op, *n.args)
        return self.boolean(self.scalar(n))

    def boolean(self, scalar: Node) -> Node:
        """Return a bound scalar as a condition."""
        match scalar:
            case Node(Op.CALL, (condition,), (name, _)) if name == TRUTH:
                return condition
            case Node(Op.COLUMN | Op.CALL, dtype=DType(Kind.BOOL)):
                return Node(Op.EQ, (scalar, TRUE))
            case Node(Op.LITERAL, dtype=DType(Kind.BOOL)):
                return scalar
            case Node(Op.COLUMN | Op.LITERAL, dtype=DType(Kind.NULL)):
                return NULL
            case Node(Op.UNKNOWN):
                return scalar
        hint = "write a comparison, such as x <> 0"
        return unknown(show(scalar), f"{NOT_BOOLEAN}, got {scalar.dtype}", hint)

    def rewritten(self, n: Node) -> Node:
        """Rewrite a function into another form; UNKNOWN with its columns if it is not supported."""
        name = str(n.value)
        try:
            return (CONDITIONS.get(name) or SCALARS[name])(n.args)
        except CannotJudge as e:
            columns = tuple(c for c in n.walk() if c.op is Op.COLUMN and not is_parameter(c))
            return Node(Op.UNKNOWN, columns, unknown(show(n), str(e)).value)

    def is_null(self, arg: Node) -> Node:
        if is_condition(arg):
            return Node(Op.IS_NULL, (self.predicate(arg),))
        scalar = self.scalar(arg)
        return _naming_whole_form(is_null(scalar), Node(Op.IS_NULL, (arg,)), (scalar,))

    def compare(self, op: Op, a: Node, b: Node) -> Node:
        if op is Op.NE:
            return Node(Op.NOT, (self.compare(Op.EQ, a, b),))
        if is_tuple(a) or is_tuple(b):
            from skipstone.ir.coercion.tuples import compare_rows

            return compare_rows(op, a, b, self.leaves, self.scalar, self.compare)
        if is_condition(a) or is_condition(b):
            return self.compare_conditions(op, a, b)
        x, y = by_own_type(op, (a, b), (self.scalar(a), self.scalar(b)))
        return compare(op, x, y, self.session, has_literal=Op.LITERAL in (a.op, b.op))

    def compare_conditions(self, op: Op, a: Node, b: Node) -> Node:
        """Bind `(x > 3) = TRUE` and similar: a comparison with a condition on one side."""
        p, q = self.predicate(a), self.predicate(b)
        if isinstance(q.value, Reason) and q.value.why.startswith(NOT_BOOLEAN):
            return unknown(show(Node(op, (p, b))), q.value.why, unchained(op, a, b))
        if p.op is Op.LITERAL:
            p, q, op = q, p, FLIP[op]
        if q.op is Op.LITERAL and op in (Op.EQ, Op.NULL_SAFE_EQ):
            if q.value is None:
                return NULL if op is Op.EQ else Node(Op.IS_NULL, (p,))
            same = p if q.value else Node(Op.NOT, (p,))
            return same if op is Op.EQ else Node(Op.IS_TRUE, (same,))
        a, b = (truth(simplify(condition), self.session) for condition in (p, q))
        return compare(op, a, b, self.session)

    def is_in(self, n: Node) -> Node:
        """Bind x IN (...).

        A NULL member turns every FALSE into NULL. Members that are neither literals nor
        comparable scalars are UNKNOWN. If the types differ, all are compared in one type.
        """
        assert isinstance(n.value, tuple)
        if any(map(is_tuple, n.args)) and not n.value:
            return Node(Op.OR, tuple(self.compare(Op.EQ, n.args[0], m) for m in n.args[1:]))
        column = self.scalar(n.args[0])
        given = [self.scalar(arg) for arg in n.args[1:]]
        if column.op is Op.UNKNOWN:
            return column
        given = list(map(char.as_value, given))
        value = char.as_value(column)
        rest = [self.expression_member(value, m) for m in given if m.op is not Op.LITERAL]
        members = [*n.value, *((m.dtype, m.value) for m in given if m.op is Op.LITERAL)]
        if char.is_char(column):
            column, members = char.in_list(column, members, self.session, literals=not rest)
        types = [*distinct_types(members), *(m.dtype for m in given if m.dtype is not None)]
        if column.dtype != ty.NULL and types_differ(column, types, bool(rest)):
            # Spark casts all members to one type. Expressions that differ in their own types may be
            # equal in that type.
            every = [Node(Op.LITERAL, value=v, dtype=t) for t, v in n.value]
            return in_common_type(column, [*every, *given], self.session)
        if not members and not rest:
            # SQL text cannot express an empty list, but expressions can build one. Outside of ANSI
            # mode, NULL IN () is NULL. Source: Spark, `SQLConf.legacyNullInEmptyBehavior`.
            return FALSE if self.session.ansi else Node(Op.AND, (is_null(column), NULL))
        if column.dtype == ty.NULL:
            return NULL
        if any(v is None for _, v in members):
            rest.append(NULL)
        if all(v is None for _, v in members):
            return Node(Op.OR, tuple(rest))
        # A NULL with a type takes part in the choice of the type that all members are cast to.
        if ty.NULL in types:
            members = [m for m in members if m[0].kind is not Kind.NULL]
        try:
            return Node(Op.OR, (*self.member_tests(column, members), *rest))
        except CannotJudge as e:
            return unknown(f"{show(column)} IN (...)", str(e), e.hint)

    def member_tests(self, scalar: Node, members: list[char.Member]) -> list[Node]:
        """Return the conditions that a scalar equals one of several literals."""
        if scalar.op is not Op.LITERAL:
            return member_conditions(scalar, members, self.session)
        assert scalar.dtype is not None
        one, *others = in_one_type([(scalar.dtype, scalar.value), *members], self.session)
        return [self.compare(Op.EQ, one, o) for o in others if o.value is not None]

    def expression_member(self, column: Node, member: Node) -> Node:
        """Return the condition that a column equals a member of IN that is not a literal."""
        if member.op in TERMS and member.dtype and same_equality(member.dtype, column.dtype):
            return compare(Op.EQ, column, member, self.session)
        text, reason = f"{show(column)} = {show(member)}", member.value
        if isinstance(reason, Reason):
            return unknown(text, reason.why, reason.hint)
        return unknown(text, "a member of IN is not a literal")

    def like(self, n: Node) -> Node:
        subject, pattern = (as_text(self.scalar(a), self.session) for a in n.args)
        for side in (subject, pattern):
            if side.op is Op.UNKNOWN:
                return _naming_whole_form(side, n, (subject, pattern))
        if pattern.op is not Op.LITERAL:
            return unknown(show(n), "a pattern of LIKE must be a literal")
        if pattern.value is None or subject.dtype == ty.NULL:
            return NULL
        if pattern.dtype != ty.STRING or subject.dtype != ty.STRING:
            return unknown(show(n), f"LIKE expects STRING, got {subject.dtype}")
        assert isinstance(pattern.value, bytes) and isinstance(n.value, str)
        decoded = decode(pattern.value.decode(), n.value)
        if decoded is None:
            return unknown(
                show(n), "the pattern escapes an ordinary character, which Spark refuses"
            )
        if subject.op is Op.LITERAL:
            escape = literal(n.value.encode(), ty.STRING)
            return build("fits", (subject, pattern, escape), self.session)
        if decoded.is_literal:
            text = decoded.prefix.encode()
            return against_span(Op.EQ, subject, Span(text, text))
        if decoded.is_prefix and not decoded.prefix:
            return Node(Op.DEFINED, (subject,))
        return Node(Op.LIKE, (subject, pattern), n.value)

    # Scalars.

    def scalar(self, n: Node) -> Node:
        """Bind a scalar: a column, call, folded literal, or UNKNOWN."""
        match n.op:
            case Op.COLUMN:
                return self.column(n)
            case Op.LITERAL:
                return n
            case Op.CALL if n.value in SCALARS:
                return self.scalar(self.rewritten(n))
            case _ if is_condition(n):
                return truth(simplify(self.predicate(n)), self.session)
            case Op.CAST:
                assert n.dtype
                inner = char.as_value(self.scalar(n.args[0]))
                how = str(n.value or "cast")
                return _naming_whole_form(cast(inner, n.dtype, self.session, how), n, (inner,))
            case Op.CALL if n.value == char.PLAIN:
                return char.as_value(self.scalar(n.args[0]))
            case Op.CALL if n.args and n.args[-1].op is Op.LAMBDA:
                return self.higher(n)
            case Op.CALL:
                args = by_own_type(n.value, n.args, tuple(map(self.scalar, n.args)))
                if n.value == "string":
                    args = tuple(map(char.as_value, args))
                found = self.of_items(n, args) or build(str(n.value), args, self.session)
                return _naming_whole_form(found, n, args)
        self.check_columns(n)
        if n.op is Op.UNKNOWN:
            return Node(n.op, (), n.value)
        return unknown(show(n), "the form is not understood")

    def of_items(self, n: Node, args: tuple[Node, ...]) -> Node | None:
        """Bind fields of items, and tests of arrays of structs; None for other calls."""
        if len(args) != 2 or n.value not in (FIELD, "[]", "array_contains"):
            return None
        from skipstone.ir.coercion.fields import of_items

        return of_items(n, args, self.leaves, self.session)

    def higher(self, n: Node) -> Node:
        """Bind a function that takes a lambda."""
        lambda_ = n.args[-1]
        args = tuple(map(self.scalar, n.args[:-1]))
        self.check_columns(lambda_)
        for a in args:
            if a.op is Op.UNKNOWN:
                return a
        from skipstone.ir.functions.nested import lambda_calls

        name = lambda_calls.ALSO.get(str(n.value), str(n.value))
        try:
            leaves = lambda_calls.visible(name, lambda_, args, self.leaves)
            inner = _Binder(leaves, self.session, self.by)
            of = inner.condition if name in lambda_calls.CONDITIONS else inner.scalar
            names = lambda_calls.names_of(lambda_)
            return lambda_calls.call(name, args, of(lambda_.args[0]), names, self.session)
        except CannotJudge as e:
            return unknown(show(n), str(e))

    def condition(self, n: Node) -> Node:
        """Bind and simplify a condition."""
        return simplify(self.predicate(n))

    def check_columns(self, n: Node) -> None:
        """Check that even an unsupported form names only columns that exist."""
        for inner in n.walk():
            if inner.op is Op.COLUMN and not is_parameter(inner):
                self.column(inner)

    def column(self, n: Node) -> Node:
        """Resolve a name; UNKNOWN if it lies inside a type that allows null tests only.

        Raises:
            UnknownColumn, AmbiguousColumn: the name matches no column, or several.
        """
        name = n.value
        assert isinstance(name, Name)
        key, shown = tuple(map(self.fold, name.parts)), show_path(name.parts)
        match self.by_name.get(key, []):
            case [path]:
                leaf = self.leaves[path]
                column = Node(Op.COLUMN, value=path, dtype=leaf.dtype)
                return char.char_column(leaf, column, self.session) if leaf.char_length else column
            case []:
                if (parent := self.unordered_parent(key)) is not None:
                    column = self.column(Node(Op.COLUMN, value=Name(parent.path)))
                    from skipstone.ir.coercion.fields import fields_of

                    return fields_of(column, name.parts[len(parent.path) :], shown, self.session)
                if len(key) == 1 and key[0].lower() in LITERAL_FUNCTIONS:
                    return unknown(shown, *explain_function(key[0].lower()))
                raise unknown_column(shown, map(show_path, self.leaves), self.by)
            case several:
                raise AmbiguousColumn(
                    f"{self.by} names {shown!r}; the schema has "
                    f"{', '.join(map(show_path, several))}. "
                    "Write case_sensitive=True to tell them apart."
                )

    def unordered_parent(self, key: Path) -> Leaf | None:
        """Return the list, map or other column that a path leads into, if any."""
        deepest = min(len(key) - 1, max(map(len, self.leaves), default=0))
        for length in range(deepest, 0, -1):
            for path in self.by_name.get(key[:length], []):
                dtype = self.leaves[path].dtype
                if dtype.kind is Kind.OTHER and not dtype.name.startswith("struct"):
                    return self.leaves[path]
        return None


def _naming_whole_form(bound: Node, n: Node, args: tuple[Node, ...]) -> Node:
    """Let UNKNOWN name a whole form instead of the argument that is not understood.

    Args:
        bound: The bound form; UNKNOWN if an argument is.
        n: The form: a call, a cast or a test.
        args: Its arguments, bound.
    """
    reason = bound.value
    if not isinstance(reason, Reason) or all(a.op is not Op.UNKNOWN for a in args):
        return bound
    return unknown(show(Node(n.op, args, n.value, n.dtype)), reason.why, reason.hint)


def is_condition(n: Node) -> bool:
    """Return True if the form of an unbound node makes it a condition."""
    return n.op in LOGICAL or (n.op is Op.CALL and n.value in CONDITIONS)
