"""Binding: names become columns of a schema, literals move onto the columns' axes, forms become few.

A bound predicate holds only: literals TRUE, FALSE, NULL; AND, OR, NOT, IS_NULL, IS_TRUE; UNKNOWN; and
leaves that test one column, or one call of a function, against axis values of its own type (LT, LE,
GT, GE, EQ, IN, LIKE, NAN, DEFINED). Whatever is not understood becomes UNKNOWN and costs its own branch.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from skipstone.ir import types as ty
from skipstone.ir.coerce import DIGITS, INTEGER, cast_literal, common_type, in_spark
from skipstone.ir.errors import AmbiguousColumn, PredicateTooDeep, unknown_column
from skipstone.ir.forms import CONDITIONS, SCALARS
from skipstone.ir.functions.build import TRUTH, build, cast, truth
from skipstone.ir.like import decode
from skipstone.ir.node import (
    TERMS,
    Name,
    Node,
    Op,
    Path,
    Reason,
    chain,
    literal,
    show_path,
    unknown,
)
from skipstone.ir.pullback import Span, pullback
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.simplify import FALSE, NULL, TRUE, is_in, simplify
from skipstone.ir.text import show
from skipstone.ir.thresholds import against_nan, against_span, never
from skipstone.ir.types import DType, Kind, Leaf

FLIP = {
    Op.LT: Op.GT,
    Op.LE: Op.GE,
    Op.GT: Op.LT,
    Op.GE: Op.LE,
    Op.EQ: Op.EQ,
    Op.NE: Op.NE,
    Op.SAME: Op.SAME,
}
COMPARE: dict[Op, Callable[[Any, Any], bool]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
}
# Names that Spark takes for functions where no column has them.
# Source: Spark, `LiteralFunctionResolution`.
LITERAL_FUNCTIONS: Final = frozenset(
    ("current_date", "current_time", "current_timestamp", "current_user", "session_user", "user")
)
LOGICAL = (*FLIP, Op.AND, Op.OR, Op.NOT, Op.IS_NULL, Op.IS_TRUE, Op.IN, Op.LIKE)


def bind(node: Node, leaves: Mapping[Path, Leaf], session: Session) -> Node:
    """Bind and simplify a predicate.

    Args:
        node: The predicate as parsed.
        leaves: The schema's columns (`types.leaves_of`).
        session: The Spark settings that matter.

    Returns:
        A bound predicate, checked by `spec.check_bound`.

    Raises:
        UnknownColumn, AmbiguousColumn: a name fits no column, or several.
        PredicateTooDeep: the nesting exceeds what Python can follow.
    """
    try:
        return simplify(_Binder(leaves, session).predicate(node))
    except RecursionError:
        raise PredicateTooDeep(
            "predicate is nested too deeply; expected at most a few hundred levels"
        ) from None


def bind_scalar(node: Node, leaves: Mapping[Path, Leaf], session: Session) -> Node:
    """Bind a scalar expression: a column, literal, call, or UNKNOWN. Raises as `bind` does."""
    return _Binder(leaves, session).scalar(node)


class _Binder:
    def __init__(self, leaves: Mapping[Path, Leaf], session: Session) -> None:
        self.leaves, self.session = leaves, session
        self.fold = (lambda s: s) if session.case_sensitive else str.lower
        self.by_name: dict[Path, list[Path]] = {}
        for path in leaves:
            self.by_name.setdefault(tuple(map(self.fold, path)), []).append(path)

    # Predicates.

    def predicate(self, n: Node) -> Node:
        match n.op:
            case Op.AND | Op.OR:
                return Node(n.op, tuple(self.predicate(a) for a in chain(n)))
            case Op.NOT | Op.IS_TRUE:
                return Node(n.op, (self.predicate(n.args[0]),))
            case Op.IS_NULL:
                return self.is_null(n.args[0])
            case Op.IN:
                return self.is_in(n)
            case Op.LIKE:
                return self.like(n)
            case Op.UNKNOWN:
                self.resolve_inside(n)
                return Node(n.op, (), n.value)
            case Op.CALL if n.value in CONDITIONS:
                return self.predicate(self.form(n))
            case _ if n.op in FLIP:
                return self.compare(n.op, *n.args)
        scalar = self.scalar(n)
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
        return unknown(show(scalar), f"a condition is BOOLEAN, and this is {scalar.dtype}")

    def form(self, n: Node) -> Node:
        """What a function in disguise is, unbound; UNKNOWN with its columns where it is not understood."""
        name = str(n.value)
        try:
            return (CONDITIONS.get(name) or SCALARS[name])(n.args)
        except Incomparable as e:
            inside = tuple(c for c in n.walk() if c.op is Op.COLUMN)
            return Node(Op.UNKNOWN, inside, unknown(show(n), str(e)).value)

    def is_null(self, arg: Node) -> Node:
        if is_condition(arg):
            return Node(Op.IS_NULL, (self.predicate(arg),))
        return self.is_null_scalar(self.scalar(arg))

    def is_null_scalar(self, scalar: Node) -> Node:
        if scalar.op is Op.UNKNOWN:
            return scalar
        if scalar.op is Op.CALL and isinstance(scalar.value, tuple) and scalar.value[0] == TRUTH:
            return Node(Op.IS_NULL, scalar.args)
        while (inner := uncast(scalar)) is not None:
            scalar = inner
        if scalar.dtype == ty.NULL:
            return TRUE
        if scalar.op is Op.LITERAL:
            return TRUE if scalar.value is None else FALSE
        return Node(Op.IS_NULL, (scalar,))

    def compare(self, op: Op, a: Node, b: Node) -> Node:
        if op is Op.NE:
            return Node(Op.NOT, (self.compare(Op.EQ, a, b),))
        if is_condition(a) or is_condition(b):
            return self.compare_truth(op, a, b)
        return self.compare_scalars(
            op, self.scalar(a), self.scalar(b), bare=Op.LITERAL in (a.op, b.op)
        )

    def compare_scalars(self, op: Op, a: Node, b: Node, *, bare: bool = True) -> Node:
        """The same for what is bound already; `bare`: a literal stands there by itself."""
        a, b = (self.day(x, y) for x, y in ((a, b), (b, a)))
        for side in (a, b):
            if side.op is Op.UNKNOWN:
                assert isinstance(side.value, Reason)
                return unknown(show(Node(op, (a, b))), side.value.why)
        if a.op is Op.LITERAL and b.op in TERMS:
            a, b, op = b, a, FLIP[op]
        if a.dtype == ty.NULL or b.dtype == ty.NULL or (b.op is Op.LITERAL and b.value is None):
            other = b if a.dtype == ty.NULL else a
            return self.is_null_scalar(other) if op is Op.SAME else NULL
        if a.op in TERMS and a == b:
            same = Node(Op.DEFINED, (a,))
            return (
                TRUE
                if op is Op.SAME
                else same
                if op in (Op.EQ, Op.LE, Op.GE)
                else Node(Op.NOT, (same,))
            )
        if b.op in TERMS:
            return self.compare_terms(op, a, b)
        if (
            a.op in TERMS
            and op in (Op.LT, Op.LE, Op.GT, Op.GE)
            and (beyond := _beyond_bigint(a, b))
        ):
            # Spark answers for every row, NULL or not, but only where the literal stands there by itself.
            # Source: Spark, `DecimalPrecision`, integralAndDecimalLiteral; seen in 4.3.
            if not bare:
                return unknown(
                    show(Node(op, (a, b))),
                    "the decimal lies beyond BIGINT, and what Spark says of NULL depends on its form",
                )
            return TRUE if (op in (Op.LT, Op.LE)) == (beyond > 0) else FALSE
        test = self.compare_literal if a.op in TERMS else self.compare_literals
        if op is Op.SAME:
            return Node(Op.IS_TRUE, (test(Op.EQ, a, b),))
        return test(op, a, b)

    def day(self, n: Node, other: Node) -> Node:
        """Iceberg's days are numbers in its tests and metadata, and dates in Spark."""
        days = (
            n.op is Op.CALL
            and isinstance(n.value, tuple)
            and n.value[0] == "system.days"
            and other.dtype == ty.DATE
        )
        return build("date_from_unix_date", (n,), self.session) if days else n

    def compare_terms(self, op: Op, a: Node, b: Node) -> Node:
        """Two columns or expressions: the sign of their difference against 0."""
        sign = build("compare", (a, b), self.session)
        if sign.op is not Op.CALL:
            return (
                sign
                if sign.op is Op.UNKNOWN
                else self.compare_scalars(op, sign, literal(0, ty.INT8))
            )
        if op is not Op.SAME:
            return against_span(op, sign, Span(0, 0))
        # What is compared may be NULL where what it was cast from is not.
        both = Node(Op.AND, tuple(map(self.is_null_scalar, sign.args)))
        return Node(Op.OR, (Node(Op.IS_TRUE, (against_span(Op.EQ, sign, Span(0, 0)),)), both))

    def compare_truth(self, op: Op, a: Node, b: Node) -> Node:
        """`(x > 3) = TRUE` and its like: a condition compared with a literal."""
        p, q = self.predicate(a), self.predicate(b)
        if p.op is Op.LITERAL:
            p, q, op = q, p, FLIP[op]
        if q.op is Op.LITERAL and op in (Op.EQ, Op.SAME):
            if q.value is None:
                return NULL if op is Op.EQ else Node(Op.IS_NULL, (p,))
            same = p if q.value else Node(Op.NOT, (p,))
            return same if op is Op.EQ else Node(Op.IS_TRUE, (same,))
        return self.compare_scalars(
            op, truth(simplify(p), self.session), truth(simplify(q), self.session)
        )

    def compare_literals(self, op: Op, a: Node, b: Node) -> Node:
        assert a.dtype and b.dtype
        swap = a.dtype.kind is Kind.STRING
        first, second = (b, a) if swap else (a, b)
        assert first.dtype and second.dtype
        try:
            to = common_type(first.dtype, second.dtype, self.session)
            u, v = (cast_literal(x.value, x.dtype, to, self.session) for x in (a, b) if x.dtype)
        except Incomparable as e:
            return unknown(show(Node(op, (a, b))), str(e))
        if u is None or v is None:
            return NULL
        return TRUE if COMPARE[op](_nan_last(u), _nan_last(v)) else FALSE

    def compare_literal(self, op: Op, column: Node, lit: Node) -> Node:
        dtype, source = column.dtype, lit.dtype
        assert dtype and source
        if not dtype.ordered:
            return unknown(
                show(Node(op, (column, lit))), f"columns of type {dtype} allow null tests only"
            )
        digits = (
            len(str(abs(lit.value)))
            if isinstance(lit.value, int) and source.kind in INTEGER
            else None
        )
        try:
            to = common_type(dtype, source, self.session, digits)
            value = cast_literal(lit.value, source, to, self.session)
            if value is None:
                return NULL
            if isinstance(value, float) and math.isnan(value):
                return against_nan(op, column)
        except Incomparable as e:
            return unknown(show(Node(op, (column, lit))), str(e))
        try:
            return self.threshold(op, column, pullback(dtype, to, value, self.session))
        except Incomparable:  # order is lost around the literal: the column is cast instead
            return self.compare_terms(op, column, lit)

    def threshold(self, op: Op, term: Node, span: Span) -> Node:
        """A comparison with what falls on `span`; a cast that keeps order and never fails moves it on to what is cast."""
        while (inner := uncast(term)) is not None:
            assert inner.dtype and term.dtype
            try:
                low = (
                    None
                    if span.low is None
                    else pullback(inner.dtype, term.dtype, span.low, self.session).low
                )
                high = (
                    None
                    if span.high is None
                    else pullback(inner.dtype, term.dtype, span.high, self.session).high
                )
            except Incomparable:
                break
            term, span = inner, Span(low, high)
        return against_span(op, term, span)

    def is_in(self, n: Node) -> Node:
        """x IN (...): NULL members make every FALSE a NULL; members that are not literals are unknown."""
        assert isinstance(n.value, tuple)
        column = self.scalar(n.args[0])
        members = list(n.value)
        rest: list[Node] = []
        for other in n.args[1:]:
            s = self.scalar(other)
            if s.op is Op.LITERAL:
                members.append((s.dtype, s.value))
            elif (
                s.op in TERMS
                and s.dtype
                and column.dtype
                and (s.dtype == column.dtype or {s.dtype.kind, column.dtype.kind} == {Kind.INT})
            ):
                rest.append(self.compare_scalars(Op.EQ, column, s))
            else:
                rest.append(
                    s if s.op is Op.UNKNOWN else unknown(show(s), "a member of IN is not a literal")
                )
        if column.op is Op.UNKNOWN:
            return column
        if rest and any(
            t.kind is not Kind.NULL and not _alike(t, column.dtype) for t, _ in members
        ):
            # Spark brings all to one type, in which expressions may be equal that are not equal in their own.
            return unknown(
                f"{show(column)} IN (...)",
                "its members are expressions, and literals of other types",
            )
        if column.dtype == ty.NULL or not (members or rest):
            # An empty list has no SQL text; expressions can build one. Nothing is a member of it.
            return NULL if column.dtype == ty.NULL else FALSE
        if any(v is None for _, v in members):
            rest.append(NULL)
            members = [(t, v) for t, v in members if v is not None]
        if not members:
            return Node(Op.OR, tuple(rest))
        if column.op is Op.LITERAL:
            found = [
                self.compare(Op.EQ, column, Node(Op.LITERAL, value=v, dtype=t)) for t, v in members
            ]
            return Node(Op.OR, (*found, *rest))
        try:
            return Node(Op.OR, (*self.members(column, members), *rest))
        except Incomparable as e:
            return unknown(f"{show(column)} IN (...)", str(e))

    def members(self, column: Node, members: list[tuple[DType, object]]) -> list[Node]:
        dtype = column.dtype
        assert dtype
        if not dtype.ordered:
            raise Incomparable(f"columns of type {dtype} allow null tests only")
        sources = dict.fromkeys(t for t, _ in members)
        to = self.list_type(dtype, sources)
        plain = dtype.kind in INTEGER and to.kind is Kind.INT
        if to == dtype or plain:
            values = (
                [v for _, v in members if not isinstance(v, float) or not math.isnan(v)]
                if all(t == dtype for t in sources)
                else None
            )
            if plain and all(t.kind in INTEGER for t in sources):
                low, high = dtype.lowest, dtype.highest
                values = [v for _, v in members if low <= v <= high]  # type: ignore[operator]
            if values is not None:
                nan = [Node(Op.NAN, (column,))] if len(values) < len(members) and not plain else []
                return [
                    *(
                        [
                            is_in(
                                column,
                                [_plus_zero(v) for v in values]
                                if dtype.kind is Kind.FLOAT
                                else values,
                            )
                        ]
                        if values
                        else []
                    ),
                    *nan,
                ] or [never(column)]
        exact: list[object] = []
        out: list[Node] = []
        for source, raw in members:
            value = cast_literal(raw, source, to, self.session)
            assert value is not None
            if isinstance(value, float) and math.isnan(value):
                out.append(against_nan(Op.EQ, column))
                continue
            span = pullback(dtype, to, value, self.session)
            if span.low is not None and span.low == span.high and uncast(column) is None:
                exact.append(_plus_zero(span.low))
            else:
                out.append(self.threshold(Op.EQ, column, span))
        return [*([is_in(column, exact)] if exact else []), *out]

    def list_type(self, column: DType, literals: Mapping[DType, None]) -> DType:
        texts = [t for t in literals if t.kind is Kind.STRING]
        if (
            texts
            and column.kind is not Kind.STRING
            and (len(literals) > 1 or not self.session.ansi)
        ):
            raise Incomparable(
                "IN mixes strings with other types, and Spark then compares as strings"
            )
        step = functools.partial(common_type, session=self.session)
        # DOUBLE first: beside it decimals are not widened to a type of their own, which may not exist.
        ordered = sorted(literals, key=lambda t: t.kind is not Kind.FLOAT)
        return functools.reduce(lambda a, b: step(a, b), ordered, in_spark(column))

    def like(self, n: Node) -> Node:
        subject, pattern = map(self.scalar, n.args)
        for side in (subject, pattern):
            if side.op is Op.UNKNOWN:
                return side
        if pattern.op is not Op.LITERAL:
            return unknown(show(n), "a pattern of LIKE must be a literal")
        if pattern.value is None or subject.dtype == ty.NULL:
            return NULL
        if pattern.dtype != ty.STRING or subject.dtype != ty.STRING:
            return unknown(show(n), f"LIKE is understood on STRING, and this is {subject.dtype}")
        assert isinstance(pattern.value, bytes) and isinstance(n.value, str)
        decoded = decode(pattern.value.decode(), n.value)
        if decoded is None:
            return unknown(
                show(n),
                "the pattern's escape stands before an ordinary character, which Spark refuses",
            )
        if subject.op is Op.LITERAL:
            return build(
                "fits", (subject, pattern, literal(n.value.encode(), ty.STRING)), self.session
            )
        if decoded.is_literal:
            text = decoded.prefix.encode()
            return against_span(Op.EQ, subject, Span(text, text))
        if decoded.is_prefix and not decoded.prefix:
            return Node(Op.DEFINED, (subject,))
        return Node(Op.LIKE, (subject, pattern), n.value)

    # Scalars.

    def scalar(self, n: Node) -> Node:
        """A bound column, call, folded literal, or UNKNOWN."""
        match n.op:
            case Op.COLUMN:
                return self.column(n)
            case Op.LITERAL:
                return n
            case Op.CALL if n.value in SCALARS:
                return self.scalar(self.form(n))
            case _ if is_condition(n):
                return truth(simplify(self.predicate(n)), self.session)
            case Op.CAST:
                assert n.dtype
                return cast(self.scalar(n.args[0]), n.dtype, self.session, str(n.value or "cast"))
            case Op.CALL:
                return build(str(n.value), tuple(map(self.scalar, n.args)), self.session)
        self.resolve_inside(n)
        if n.op is Op.UNKNOWN:
            return Node(n.op, (), n.value)
        return unknown(show(n), "the form is not understood")

    def resolve_inside(self, n: Node) -> None:
        """Even what is not understood must name columns that exist."""
        for inner in n.walk():
            if inner.op is Op.COLUMN:
                self.column(inner)

    def column(self, n: Node) -> Node:
        name = n.value
        assert isinstance(name, Name)
        key = tuple(map(self.fold, name.parts))
        match self.by_name.get(key, []):
            case [path]:
                return Node(Op.COLUMN, value=path, dtype=self.leaves[path].dtype)
            case []:
                for cut in range(min(len(key) - 1, max(map(len, self.leaves), default=0)), 0, -1):
                    for path in self.by_name.get(key[:cut], []):
                        if self.leaves[path].dtype.kind is Kind.OTHER and not self.leaves[
                            path
                        ].dtype.name.startswith("struct"):
                            return unknown(
                                show_path(name.parts),
                                f"{self.leaves[path].dtype} allows null tests only",
                            )
                if len(key) == 1 and key[0].lower() in LITERAL_FUNCTIONS:
                    return unknown(show_path(name.parts), "what it is differs between sessions")
                raise unknown_column(show_path(name.parts), map(show_path, self.leaves))
            case several:
                shown = ", ".join(map(show_path, several))
                raise AmbiguousColumn(
                    f"predicate names {show_path(name.parts)!r}; the schema has {shown}. Write case_sensitive=True to tell them apart."
                )


# Pairs of a cast that keeps order and never fails, NULL aside: its literals are thresholds of what is cast.
WIDENING: Final[dict[Kind, Callable[[DType, DType], bool]]] = {
    Kind.INT: lambda a, b: (
        b.kind is Kind.FLOAT or (b.kind is Kind.INT and b.bits >= a.bits) or (b.kind is Kind.DECIMAL and b.precision - b.scale >= DIGITS[a.bits])
    ),
    Kind.DECIMAL: lambda a, b: b.kind is Kind.FLOAT or (b.kind is Kind.DECIMAL and b.scale >= a.scale and b.precision - b.scale >= a.precision - a.scale),
    Kind.FLOAT: lambda a, b: b == ty.DOUBLE,
    Kind.DATE: lambda a, b: b == ty.TIMESTAMP_NTZ,
}  # fmt: skip


def uncast(n: Node) -> Node | None:
    """What a widening cast is of; None for anything else."""
    if (
        n.op is not Op.CALL
        or not isinstance(n.value, tuple)
        or n.value[0] not in ("cast", "try_cast", "widen")
    ):
        return None
    (inner,) = n.args
    assert inner.dtype and n.dtype
    if n.value[0] == "widen":
        return inner
    widens = WIDENING.get(inner.dtype.kind)
    if n.value[0] == "try_cast" and inner.dtype.kind is Kind.DATE:
        return None  # NULL for dates beyond the timestamps' years
    return inner if widens is not None and widens(inner.dtype, n.dtype) else None


def _alike(a: DType, b: DType | None) -> bool:
    """Whether a type that both are brought to tells apart what each of them does."""
    assert b is not None
    return (
        a == b
        or {a.kind, b.kind} <= {Kind.INT, Kind.DECIMAL}
        or (a.kind is b.kind and a.kind is not Kind.TIMESTAMP)
    )


def is_condition(n: Node) -> bool:
    """Whether an unbound node is a condition by its form."""
    return n.op in LOGICAL or (n.op is Op.CALL and n.value in CONDITIONS)


def _beyond_bigint(column: Node, lit: Node) -> int:
    """1: a decimal above every BIGINT, against an integer column. -1: one below. 0: neither."""
    assert column.dtype and lit.dtype
    if lit.dtype.kind is not Kind.DECIMAL or in_spark(column.dtype).kind is not Kind.INT:
        return 0
    assert isinstance(lit.value, int)
    unit: int = 10**lit.dtype.scale
    return int(lit.value > (2**63 - 1) * unit) - int(lit.value < -(2**63) * unit)


def _nan_last(v: object) -> tuple[bool, object]:
    nan = isinstance(v, float) and math.isnan(v)
    return nan, 0.0 if nan else v


def _plus_zero(v: object) -> object:
    return 0.0 if isinstance(v, float) and v == 0.0 else v
