"""Comparisons of bound scalars: common types, literals as thresholds, IN lists, NULL and NaN."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from skipstone.ir import types as ty
from skipstone.ir.coercion.char import same_length, stored
from skipstone.ir.coercion.coerce import INTEGER, cast_literal, common_type, in_spark
from skipstone.ir.coercion.literals import UncertainInstant
from skipstone.ir.coercion.pullback import Span, pullback
from skipstone.ir.coercion.thresholds import against_nan, against_span, never
from skipstone.ir.coercion.widening import uncast
from skipstone.ir.functions.build import TRUTH, build, cast
from skipstone.ir.node import TERMS, Node, Op, Reason, literal, unknown
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.simplify import FALSE, NULL, TRUE, is_in
from skipstone.ir.text import show
from skipstone.ir.types import TEXT, DType, Kind

FLIP: Final = {
    Op.LT: Op.GT,
    Op.LE: Op.GE,
    Op.GT: Op.LT,
    Op.GE: Op.LE,
    Op.EQ: Op.EQ,
    Op.NE: Op.NE,
    Op.NULL_SAFE_EQ: Op.NULL_SAFE_EQ,
}
COMPARE: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
    Op.EQ: operator.eq,
}


def is_null(scalar: Node) -> Node:
    """Return the condition that a bound scalar is NULL."""
    if scalar.op is Op.UNKNOWN:
        return scalar
    if scalar.op is Op.CALL and isinstance(scalar.value, tuple) and scalar.value[0] == TRUTH:
        return Node(Op.IS_NULL, scalar.args)
    scalar = stored(scalar)
    while (inner := uncast(scalar)) is not None:
        scalar = inner
    if scalar.dtype == ty.NULL:
        return TRUE
    if scalar.op is Op.LITERAL:
        return TRUE if scalar.value is None else FALSE
    return Node(Op.IS_NULL, (scalar,))


def compare(op: Op, a: Node, b: Node, session: Session, *, has_literal: bool = True) -> Node:
    """Compare two bound scalars.

    Args:
        op: A comparison other than NE.
        a, b: Columns, calls, literals, or UNKNOWN.
        session: The Spark settings.
        has_literal: One side is a literal as written, not a folded expression.

    Returns:
        A bound predicate, not yet simplified.
    """
    a, b = (_days_as_date(x, y, session) for x, y in ((a, b), (b, a)))
    a, b = same_length(a, b, session)
    for side in (a, b):
        if side.op is Op.UNKNOWN:
            assert isinstance(side.value, Reason)
            return unknown(show(Node(op, (a, b))), side.value.why, side.value.hint)
    if a.op is Op.LITERAL and b.op in TERMS:
        a, b, op = b, a, FLIP[op]
    b = _null_if_malformed(b, a, session)
    if a.dtype == ty.NULL or b.dtype == ty.NULL or (b.op is Op.LITERAL and b.value is None):
        other, null = (b, a) if a.dtype == ty.NULL else (a, b)
        return _same_as_null(other, null, session) if op is Op.NULL_SAFE_EQ else NULL
    if a.op in TERMS and a == b:
        return _compare_with_itself(op, a)
    if b.op in TERMS or (a.dtype and b.dtype and a.dtype.element and b.dtype.element):
        return _compare_terms(op, a, b, session)
    if a.op in TERMS and op in (Op.LT, Op.LE, Op.GT, Op.GE) and (beyond := _beyond_bigint(a, b)):
        # Spark answers for every row, NULL or not, but only if the literal stands by itself.
        # Source: Spark, `DecimalPrecision`, integralAndDecimalLiteral; seen in 4.3.
        if not has_literal:
            return unknown(
                show(Node(op, (a, b))),
                "the decimal lies beyond BIGINT, and Spark's result for NULL depends on its form",
            )
        return TRUE if (op in (Op.LT, Op.LE)) == (beyond > 0) else FALSE
    test = _compare_literal if a.op in TERMS else _compare_literals
    if op is Op.NULL_SAFE_EQ:
        return Node(Op.IS_TRUE, (test(Op.EQ, a, b, session),))
    return test(op, a, b, session)


def _days_as_date(n: Node, other: Node, session: Session) -> Node:
    """Cast system.days(...) beside a DATE to a date.

    Iceberg's days are numbers in its tests and metadata, and dates in Spark.
    """
    days = (
        n.op is Op.CALL
        and isinstance(n.value, tuple)
        and n.value[0] == "system.days"
        and other.dtype == ty.DATE
    )
    return build("date_from_unix_date", (n,), session) if days else n


def _null_if_malformed(lit: Node, beside: Node, session: Session) -> Node:
    """Return NULL for text that is not a value of the other side's type, without ANSI mode."""
    if session.ansi or lit.op is not Op.LITERAL or lit.dtype != ty.STRING or not beside.dtype:
        return lit
    try:
        to = common_type(beside.dtype, ty.STRING, session)
    except CannotJudge:
        return lit
    found = cast(lit, to, session)
    return found if found.op is Op.LITERAL and found.value is None else lit


def _same_as_null(n: Node, null: Node, session: Session) -> Node:
    """Compare a scalar with NULL by <=>; a cast to the type of that NULL may make it NULL."""
    a, b = n.dtype, null.dtype
    if a and b and a != b and Kind.NULL not in (a.kind, b.kind):
        first, second = (b, a) if a.kind is Kind.STRING else (a, b)
        try:
            if {a.kind, b.kind} & {Kind.STRING, Kind.DECIMAL}:
                n = cast(n, common_type(first, second, session), session)
        except CannotJudge as e:
            return unknown(show(Node(Op.NULL_SAFE_EQ, (n, null))), str(e), e.hint)
    return n if n.op is Op.UNKNOWN else is_null(n)


def _compare_with_itself(op: Op, term: Node) -> Node:
    if op is Op.NULL_SAFE_EQ:
        return TRUE
    equal = Node(Op.DEFINED, (term,))
    return equal if op in (Op.EQ, Op.LE, Op.GE) else Node(Op.NOT, (equal,))


def _compare_terms(op: Op, a: Node, b: Node, session: Session) -> Node:
    """Compare two columns or expressions by the sign of their difference."""
    sign = build("compare", (a, b), session)
    if sign.op is Op.UNKNOWN:
        return sign
    if sign.op is not Op.CALL:
        return compare(op, sign, literal(0, ty.INT8), session)
    if op is not Op.NULL_SAFE_EQ:
        return against_span(op, sign, Span(0, 0))
    # The compared values may be NULL where the values before the casts are not.
    both = Node(Op.AND, tuple(map(is_null, sign.args)))
    return Node(Op.OR, (Node(Op.IS_TRUE, (against_span(Op.EQ, sign, Span(0, 0)),)), both))


def _compare_literals(op: Op, a: Node, b: Node, session: Session) -> Node:
    assert a.dtype and b.dtype
    first, second = (b, a) if a.dtype.kind is Kind.STRING else (a, b)
    assert first.dtype and second.dtype
    try:
        to = common_type(first.dtype, second.dtype, session)
        u, v = (cast_literal(x.value, x.dtype, to, session) for x in (a, b) if x.dtype)
    except CannotJudge as e:
        return unknown(show(Node(op, (a, b))), str(e), e.hint)
    if u is None or v is None:
        return NULL
    return TRUE if COMPARE[op](_nan_last(u), _nan_last(v)) else FALSE


def _compare_literal(op: Op, column: Node, lit: Node, session: Session) -> Node:
    dtype, source = column.dtype, lit.dtype
    assert dtype and source
    if not dtype.ordered:
        return unknown(
            show(Node(op, (column, lit))), f"columns of type {dtype} allow null tests only"
        )
    if dtype.kind is Kind.STRING and source.kind not in TEXT:
        return _compare_text(op, column, lit, session)
    digits = (
        len(str(abs(lit.value))) if isinstance(lit.value, int) and source.kind in INTEGER else None
    )
    try:
        to = common_type(dtype, source, session, digits)
        value = cast_literal(lit.value, source, to, session)
        if value is None:
            return NULL
        if isinstance(value, float) and math.isnan(value):
            return against_nan(op, column)
    except UncertainInstant as e:
        wall = literal(e.wall, ty.TIMESTAMP_NTZ)
        return _compare_terms(op, column, cast(wall, ty.TIMESTAMP, session), session)
    except CannotJudge as e:
        return unknown(show(Node(op, (column, lit))), str(e), e.hint)
    try:
        return _threshold(op, column, pullback(dtype, to, value, session), session)
    except CannotJudge:  # the cast keeps no order around the literal: cast the column instead
        return _compare_terms(op, column, lit, session)


def _compare_text(op: Op, column: Node, lit: Node, session: Session) -> Node:
    """Compare text with a literal of another type: Spark casts the text, which keeps no order."""
    assert column.dtype and lit.dtype
    try:
        to = common_type(lit.dtype, column.dtype, session)
        text, other = (cast(n, to, session) for n in (column, lit))
    except CannotJudge as e:
        return unknown(show(Node(op, (column, lit))), str(e), e.hint)
    return compare(op, text, other, session)


def _threshold(op: Op, term: Node, span: Span, session: Session) -> Node:
    """Compare a term with a literal that lies at `span`.

    A cast that keeps order and never fails moves the span on to its argument.
    """
    while (inner := uncast(term)) is not None:
        assert inner.dtype and term.dtype
        pull = functools.partial(pullback, inner.dtype, term.dtype, session=session)
        try:
            low = None if span.low is None else pull(span.low).low
            high = None if span.high is None else pull(span.high).high
        except CannotJudge:
            break
        term, span = inner, Span(low, high)
    return against_span(op, term, span)


def member_conditions(
    column: Node, members: list[tuple[DType, object]], session: Session
) -> list[Node]:
    """Return conditions whose OR is TRUE where a column or call equals a member.

    Args:
        column: The column or call.
        members: Literals: types and axis values. None is a NULL, which only affects the type that
            Spark compares in.
        session: The Spark settings.

    Raises:
        CannotJudge: Spark rejects the list, or its outcome is not certain here.
    """
    dtype = column.dtype
    assert dtype
    if not dtype.ordered:
        raise CannotJudge(f"columns of type {dtype} allow null tests only")
    sources = dict.fromkeys(distinct_types(members))
    to = _list_type(dtype, sources, session)
    members = [m for m in members if m[1] is not None]
    if (values := _own_values(dtype, to, members)) is not None:
        tests = [is_in(column, values)] if values else []
        if len(values) < len(members) and dtype.kind is Kind.FLOAT:
            tests.append(Node(Op.NAN, (column,)))
        return tests or [never(column)]
    exact: list[object] = []
    out: list[Node] = []
    for source, raw in members:
        try:
            value = cast_literal(raw, source, to, session)
        except UncertainInstant:
            out.append(_compare_literal(Op.EQ, column, literal(raw, source), session))
            continue
        assert value is not None
        if isinstance(value, float) and math.isnan(value):
            out.append(against_nan(Op.EQ, column))
            continue
        span = pullback(dtype, to, value, session)
        if span.low is not None and span.low == span.high and uncast(column) is None:
            exact.append(_plus_zero(span.low))
        else:
            out.append(_threshold(Op.EQ, column, span, session))
    return [*([is_in(column, exact)] if exact else []), *out]


def in_common_type(x: Node, members: list[Node], session: Session) -> Node:
    """Return the condition that a scalar equals a member after casts to the type of the list.

    The members are bound scalars, in the order in which they are written.
    """
    what = f"{show(x)} IN (...)"
    for n in members:
        if n.op is Op.UNKNOWN:
            return n
    types = [n.dtype for n in (x, *members) if n.dtype is not None and n.dtype != ty.NULL]
    try:
        to = mixed_type(types, session)
        subject, *others = (cast(n, to, session) for n in (x, *members))
        tests = [compare(Op.EQ, subject, o, session) for o in others]
    except CannotJudge as e:
        return unknown(what, str(e), e.hint)
    return next((t for t in tests if t.op is Op.UNKNOWN), Node(Op.OR, tuple(tests)))


def mixed_type(types: list[DType], session: Session) -> DType:
    """Return the type to which Spark casts the values of an IN list that may mix types.

    The order of the types decides.

    Raises:
        CannotJudge: Spark rejects the list, or the type is not certain here.

    Source: Spark 4, `InConversion`, `findWiderCommonType` of `TypeCoercion` and of
    `AnsiTypeCoercion`; seen in 4.3.
    """
    texts = any(t.kind is Kind.STRING for t in types)
    if texts and any(t.kind is Kind.INTERVAL for t in types):
        raise CannotJudge("Spark does not compare intervals with STRING")
    if texts and not session.ansi:
        if any(t.kind in (Kind.BOOL, Kind.BINARY) for t in types):
            raise CannotJudge("Spark does not compare these members of IN")
        return ty.STRING
    if not texts:  # DOUBLE first: beside it, decimals are not widened to a common type
        types = types[:1] + sorted(types[1:], key=lambda t: t.kind is not Kind.FLOAT)
    return functools.reduce(lambda a, b: _wider(a, b, session), map(in_spark, types))


def _wider(a: DType, b: DType, session: Session) -> DType:
    if a == b or (a.kind is Kind.STRING) == (b.kind is Kind.STRING):
        return common_type(a, b, session)
    other = b if a.kind is Kind.STRING else a
    return {Kind.INT: ty.INT64, Kind.FLOAT: ty.DOUBLE, Kind.DECIMAL: ty.DOUBLE}.get(
        other.kind, other
    )


def in_one_type(literals: list[tuple[DType, object]], session: Session) -> list[Node]:
    """Return the first literal and the members of its list, cast to the type of the comparison.

    Raises:
        CannotJudge: Spark rejects the list, or its outcome is not certain here.
    """
    (first, _), *members = literals
    to = _list_type(first, dict.fromkeys(t for t, _ in members), session)
    return [
        Node(Op.LITERAL, value=v if v is None else cast_literal(v, t, to, session), dtype=to)
        for t, v in literals
    ]


def distinct_types(members: Iterable[tuple[DType, object]]) -> list[DType]:
    """Return the types of members in order of first mention; long lists repeat few objects."""
    types = [t for t, _ in members]
    return list(dict.fromkeys(dict(zip(map(id, types), types, strict=True)).values()))


def _own_values(dtype: DType, to: DType, members: list[tuple[DType, object]]) -> list[Any] | None:
    """Return the members that a column can equal, if none of them needs a cast; otherwise None.

    NaN is left out, and so are integers beyond the column's type.
    """
    integers = dtype.kind in INTEGER and to.kind is Kind.INT
    types = distinct_types(members)
    if integers and all(t.kind in INTEGER for t in types):
        low, high = dtype.lowest, dtype.highest
        return [v for _, v in members if low <= v <= high]  # type: ignore[operator]
    if to != dtype or any(t != dtype for t in types):
        return None
    values = [v for _, v in members if not isinstance(v, float) or not math.isnan(v)]
    return [_plus_zero(v) for v in values] if dtype.kind is Kind.FLOAT else values


def _list_type(column: DType, literals: Mapping[DType, None], session: Session) -> DType:
    """Return the type in which Spark compares a column with the members of a list.

    Raises:
        CannotJudge: Spark rejects the list, or compares its members as strings.
    """
    texts = any(t.kind is Kind.STRING for t in literals)
    if texts and column.kind is not Kind.STRING and (len(literals) > 1 or not session.ansi):
        raise CannotJudge("IN mixes strings with other types, and Spark then compares as strings")
    # DOUBLE first: beside it, decimals are not widened to a common type, which may not exist.
    ordered = sorted(literals, key=lambda t: t.kind is not Kind.FLOAT)
    return functools.reduce(lambda a, b: common_type(a, b, session), ordered, in_spark(column))


def _beyond_bigint(column: Node, lit: Node) -> int:
    """Return 1 or -1 for a decimal above or below every BIGINT beside an integer column; else 0."""
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
