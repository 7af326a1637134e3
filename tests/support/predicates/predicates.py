"""Random predicates, each as SQL text and as an equivalent expression."""

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

import skipstone as ss
from skipstone.ir.types import EXACT, PER_SECOND, DType, Kind
from tests.support.rows.strategies import FLOATS, TEXTS, Field, decimal_text, point

COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
METHOD = {
    "=": "__eq__",
    "==": "__eq__",
    "<>": "__ne__",
    "!=": "__ne__",
    "<": "__lt__",
    "<=": "__le__",
    ">": "__gt__",
    ">=": "__ge__",
    "<=>": "eq_null_safe",
}


@dataclass(frozen=True)
class Condition:
    """A condition in both forms; `expr` is None for a form that only SQL text has."""

    sql: str
    expr: ss.Expr | None


def predicate(
    r, fields: tuple[Field, ...], *, depth: int = 2, plain: bool = False, others: bool = True
) -> Condition:
    """Return a random predicate.

    Args:
        r: A `random.Random`.
        fields: The columns to name.
        depth: Most levels of AND, OR, NOT and tests of conditions.
        plain: True to use only forms that can be evaluated on rows.
        others: True to use literals of other types as well as the column's.
    """
    again = lambda: predicate(r, fields, depth=depth - 1, plain=plain, others=others)
    form = r.random() if depth else 1
    if form < 0.45:
        word, parts = r.choice(("AND", "OR")), [again() for _ in range(r.randint(2, 3))]
        return Condition(
            f" {word} ".join(f"({p.sql})" for p in parts), _join(word, [p.expr for p in parts])
        )
    if form < 0.57:
        return _wrap("NOT ({})", again(), lambda e: ~e)
    if form < 0.7:
        text, build = r.choice(TESTS)
        return _wrap(text, again(), build)
    return atom(r, r.choice(fields), fields, plain, others)


TESTS = (
    ("({}) IS NULL", lambda e: e.is_null()),
    ("({}) IS NOT NULL", lambda e: e.is_not_null()),
    ("({}) IS UNKNOWN", lambda e: e.is_null()),
    ("({}) IS NOT UNKNOWN", lambda e: e.is_not_null()),
    ("! ({})", lambda e: ~e),
    ("({}) IS TRUE", lambda e: e.is_true()),
    ("({}) IS NOT TRUE", lambda e: ~e.is_true()),
    ("({}) IS FALSE", lambda e: (~e).is_true()),
    ("({}) IS NOT FALSE", lambda e: ~(~e).is_true()),
    ("({}) = TRUE", lambda e: e == True),  # noqa: E712
    ("FALSE = ({})", lambda e: e == False),  # noqa: E712
    ("({}) <=> TRUE", lambda e: e.eq_null_safe(True)),
    ("({}) <=> NULL", lambda e: e.eq_null_safe(None)),
    ("({}) = NULL", lambda e: e == None),  # noqa: E711
)


def _wrap(text: str, c: Condition, build) -> Condition:
    return Condition(text.format(c.sql), None if c.expr is None else build(c.expr))


def _join(word: str, parts: list) -> ss.Expr | None:
    if any(p is None for p in parts):
        return None
    out = parts[0]
    for p in parts[1:]:
        out = out & p if word == "AND" else out | p
    return out


def atom(r, field: Field, fields: tuple[Field, ...], plain: bool, others: bool) -> Condition:
    """Return a condition on one column."""
    x, c, dtype = field.name, ss.col(field.name), field.dtype
    draw = lambda: literal(r, field, others)
    form = r.random()
    if dtype.kind is Kind.BOOL and form < 0.3:
        return r.choice(
            (
                Condition(x, c),
                Condition(f"NOT {x}", ~c),
                Condition(f"{x} IS NOT TRUE", ~c.is_true()),
            )
        )
    if dtype.kind is Kind.STRING and form < 0.3:
        return like(r, x, c)
    if form < 0.04 and not plain:
        other = r.choice(fields)
        return Condition(
            r.choice(
                (
                    f"{x} = {other.name}",
                    f"{x} < {other.name}",
                    f"abs({x}) = 3",
                    f"coalesce({x}, 1) = 1",
                    f"{x} + 1 > 2",
                )
            ),
            None,
        )
    if form < 0.07:
        return (
            Condition(f"{x} = {x}", c == c) if r.random() < 0.5 else Condition(f"{x} < {x}", c < c)
        )
    if form < 0.18:
        return (
            Condition(f"{x} IS NULL", c.is_null())
            if r.random() < 0.5
            else Condition(f"{x} IS NOT NULL", c.is_not_null())
        )
    if form < 0.36:
        members = [draw() for _ in range(r.choice((1, 2, 3, 8)))]
        found = Condition(
            f"{x} IN ({', '.join(sql for sql, _ in members)})", c.isin([v for _, v in members])
        )
        return (
            found
            if r.random() < 0.6
            else Condition(found.sql.replace(" IN (", " NOT IN (", 1), ~found.expr)
        )
    if form < 0.46:
        (low, a), (high, b) = draw(), draw()
        return (
            Condition(f"{x} BETWEEN {low} AND {high}", c.between(a, b))
            if r.random() < 0.7
            else Condition(f"{x} NOT BETWEEN {low} AND {high}", ~c.between(a, b))
        )
    sql, value = draw()
    if form < 0.54:
        same = Condition(f"{x} IS NOT DISTINCT FROM {sql}", c.eq_null_safe(value))
        return (
            same
            if r.random() < 0.5
            else Condition(f"{x} IS DISTINCT FROM {sql}", ~c.eq_null_safe(value))
        )
    op = r.choice(COMPARISONS)
    if r.random() < 0.25:
        return Condition(f"{sql} {op} {x}", getattr(c, METHOD[FLIPPED.get(op, op)])(value))
    return Condition(f"{x} {op} {sql}", getattr(c, METHOD[op])(value))


def like(r, x: str, c: ss.Expr) -> Condition:
    text, escape = r.choice(TEXTS)[: r.randint(0, 4)], r.choice(("\\", "\\", "!"))
    quoted = "".join(escape + ch if ch in ("%", "_", escape) else ch for ch in text)
    pattern = quoted + r.choice(("%", "%", "%%", "%b", "_%", "", "_", "%c%", "_b"))
    clause = "" if escape == "\\" else f" ESCAPE '{escape}'"
    found = c.like(pattern, escape)
    if not clause and r.random() < 0.2:
        return several(r, x, c, pattern)
    if pattern.isascii() and r.random() < 0.15:
        no, alike = r.choice(("", "NOT ")), ss.call("ilike", c, pattern, escape)
        return Condition(
            f"{x} {no}ILIKE {quote(pattern)}{clause}",
            ~alike if no else alike,
        )
    return (
        Condition(f"{x} LIKE {quote(pattern)}{clause}", found)
        if r.random() < 0.7
        else Condition(f"{x} NOT LIKE {quote(pattern)}{clause}", ~found)
    )


def several(r, x: str, c: ss.Expr, pattern: str) -> Condition:
    """Return LIKE with a list of patterns: tests joined by OR or AND, each negated separately."""
    no, how = r.choice(("", "NOT ")), r.choice(("ANY", "SOME", "ALL"))
    patterns = [pattern, *(r.choice(("a%", "%b%", "", "%")) for _ in range(r.randint(0, 2)))]
    tests = [~c.like(p) if no else c.like(p) for p in patterns]
    return Condition(
        f"{x} {no}LIKE {how} ({', '.join(map(quote, patterns))})",
        _join("AND" if how == "ALL" else "OR", tests),
    )


def quote(text: str) -> str:
    """Return a string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# Literals, as (SQL text, Python value).


def literal(r, field: Field, others: bool = True) -> tuple[str, object]:
    """Return a literal to compare a column with, often near its values."""
    if r.random() < 0.05:
        return "NULL", None
    kind, near = field.dtype.kind, r.randint(-6, 6)
    if others and r.random() < 0.3:
        return r.choice(OTHERS[kind])(r, near)
    return own(r, field.dtype, point(r, field.dtype, near, field.arrow))


def own(r, dtype: DType, axis: object) -> tuple[str, object]:
    """Return an axis value as a literal of its own type; the nearest one that SQL can write."""
    match dtype.kind:
        case Kind.BOOL:
            return ("TRUE", True) if axis else ("FALSE", False)
        case Kind.INT | Kind.UINT:
            return str(axis), axis
        case Kind.FLOAT:
            return floating(axis, dtype.bits)
        case Kind.DECIMAL:
            return decimal_text(axis, dtype.scale), Decimal(axis).scaleb(-dtype.scale, EXACT)
        case Kind.DATE:
            day = dt.date.fromordinal(min(max(axis + 719163, 365), 3652059))
            return f"DATE '{day}'", day
        case Kind.TIMESTAMP:
            return instant(axis * 10**6 // PER_SECOND[dtype.unit], dtype.zoned)
        case Kind.STRING:
            return quote(axis.decode()), axis.decode()
        case Kind.BINARY:
            return f"X'{axis.hex()}'", axis
    return "NULL", None


def floating(value: float, bits: int) -> tuple[str, object]:
    name = "FLOAT" if bits == 32 else "DOUBLE"
    typed = np.float32(value) if bits == 32 else value
    if math.isnan(value) or math.isinf(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{text}' AS {name})", typed
    return f"CAST('{value!r}' AS {name})", typed


def instant(micros: int, zoned: bool) -> tuple[str, object]:
    """Return the nearest instant in the years that SQL text can write."""
    micros = min(max(micros, -62_135_596_800_000_000), 253_402_300_799_999_999)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    text = f"{moment.year:04d}" + moment.isoformat(sep=" ")[4:]
    return (
        (f"TIMESTAMP '{text}+00:00'", moment.replace(tzinfo=dt.UTC))
        if zoned
        else (f"TIMESTAMP_NTZ '{text}'", moment)
    )


def _integer(r, near):
    value = r.choice(
        (
            near,
            near,
            127,
            128,
            255,
            256,
            -129,
            2**31,
            -(2**31) - 1,
            2**53 + 1,
            2**63 - 1,
            -(2**63),
            2**64,
            10**25,
        )
    )
    return str(value), value


def _decimal(r, near):
    value = (
        Decimal(near * 100 + r.randint(-99, 99)) / r.choice((10, 100, 10**6))
        if r.random() < 0.8
        else Decimal(10**20) + Decimal("0.5")
    )
    return f"{value:f}" if "." in f"{value:f}" else f"{value:f}.0", value


def _double(r, near):
    return floating(r.choice((near + 0.5, float(near), r.choice(FLOATS))), 64)


def _single(r, near):
    with np.errstate(over="ignore"):
        return floating(
            float(np.float32(r.choice((near + 0.5, float(near), r.choice(FLOATS))))), 32
        )


def _text(r, near):
    value = r.choice(
        (
            str(near),
            f"{near}.5",
            "2024-01-02",
            "2024-01-02 03:04:05.678",
            "true",
            "f",
            "not a value",
            "",
        )
    )
    return quote(value), value


def _date(r, near):
    day = dt.date(2024, 1, 1) + dt.timedelta(days=near)
    return f"DATE '{day}'", day


def _moment(zoned):
    return lambda r, near: instant(
        1_704_067_200_000_000 + near * r.choice((1, 10**6, 86_400 * 10**6)), zoned
    )


OTHERS = {
    Kind.BOOL: (_text, _integer),
    Kind.INT: (_integer, _decimal, _double, _single, _text),
    Kind.UINT: (_integer, _decimal, _double, _single, _text),
    Kind.FLOAT: (_integer, _decimal, _double, _single, _text),
    Kind.DECIMAL: (_integer, _decimal, _double, _single, _text),
    Kind.DATE: (_moment(True), _moment(False), _text),
    Kind.TIMESTAMP: (_date, _moment(True), _moment(False), _text),
    Kind.STRING: (_integer, _date),
    Kind.BINARY: (_text, _integer),
}
