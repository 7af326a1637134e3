"""Random predicates over scalar expressions.

Each predicate names its form, so that pruning can be counted by form.
"""

from dataclasses import dataclass

import pyarrow as pa

from skipstone.bindings.predicates.sql import parse
from skipstone.ir.bind import bind_scalar
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.node import Op
from skipstone.ir.rows import values_of
from skipstone.ir.session import Session
from skipstone.ir.types import Kind, leaves_of
from skipstone.ir.values import numpy_type_of
from tests.support.predicates.expressions import FAMILIES, LITERALS, Scalar, Scalars, kind_of
from tests.support.predicates.predicates import own, quote
from tests.support.rows.strategies import Field

COMPARE = ("=", "=", "<>", "<", "<=", ">", ">=", "<=>")
# Forms that DuckDB spells differently, or lacks.
ONLY_SPARKS = ("==", "!=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
ORDER = ("<", "<=", ">", ">=")
TESTS = (
    "({}) IS NULL",
    "({}) IS NOT NULL",
    "({}) IS TRUE",
    "({}) IS NOT TRUE",
    "({}) IS FALSE",
    "({}) IS NOT FALSE",
    "NOT ({})",
    "({}) = TRUE",
    "({}) <=> FALSE",
)
TESTS_OF_SPARK = ("! ({})", "!({})", "NOT NOT ({})", "({}) IS UNKNOWN", "({}) IS NOT UNKNOWN")
# Combinations of tests of one scalar; {a} and {b} are values of it.
CONJUNCTS = (
    *(
        "{x} > {a} AND {x} < {b}",
        "{x} >= {a} AND {x} <= {b}",
        "{x} < {a} OR {x} >= {a}",
        "{x} = {a} AND {x} = {b}",
        "{x} > {a} AND {x} <= {a}",
    ),
    *(
        "{x} > {a} OR {x} <= {b}",
        "{x} <> {a} AND {x} <> {b}",
        "{x} <> {a} OR {x} <> {b}",
        "{x} = {a} OR {x} = {b}",
        "{x} > {a} AND {x} IN ({a}, {b})",
    ),
    *(
        "{x} IS NULL OR {x} >= {a}",
        "{x} IS NOT NULL AND {x} < {a}",
        "NOT ({x} > {a} AND {x} < {b})",
        "{x} IS NULL AND {x} = {a}",
        "{x} IN ({a}, {b}) AND {x} > {b}",
    ),
)
RLIKES = (
    "{} RLIKE {}",
    "{} REGEXP {}",
    "regexp_like({}, {})",
    "{} NOT RLIKE {}",
    "{} NOT REGEXP {}",
)
REGEX = (
    "^a",
    "^ab?",
    "^k0[a-c]",
    "b$",
    "[0-9]+",
    "^https://",
    "a|b",
    ".",
    "^Key-.",
    "^2024",
    "",
    "^a.*",
    "^(a|k)",
    "é",
)


@dataclass(frozen=True)
class Predicate:
    sql: str
    form: str


class Predicates:
    """Random predicates over rows of some columns.

    `agreed` limits them to forms on which DuckDB agrees with Spark.
    """

    def __init__(
        self,
        r,
        fields: tuple[Field, ...],
        batch: pa.RecordBatch,
        session: Session,
        *,
        agreed: bool = False,
    ):
        self.r, self.batch, self.session, self.agreed = r, batch, session, agreed
        self.scalars = Scalars(r, fields, agreed=agreed)
        self.leaves = leaves_of(batch.schema)
        self.known: dict[str, tuple | None] = {}

    def predicate(self, depth: int = 2) -> Predicate:
        """Return a predicate of any form; half of them are single tests."""
        r = self.r
        if depth < 1 or r.random() < 0.6:
            return self.atom()
        kind = r.random()
        if kind < 0.75:
            word = r.choice(("AND", "OR"))
            return Predicate(
                f" {word} ".join(
                    f"({self.predicate(depth - 1).sql})" for _ in range(r.randint(2, 3))
                ),
                word,
            )
        test = r.choice(TESTS if self.agreed else TESTS + TESTS_OF_SPARK)
        return Predicate(
            test.format(self.predicate(depth - 1).sql),
            "NOT" if test.startswith("NOT") else "test of a test",
        )

    def atom(self) -> Predicate:
        r, kind = self.r, self.r.random()
        if kind < 0.12:
            return self.columns()
        if kind < 0.2:
            return self.text()
        if kind < 0.27:
            return self.conjuncts()
        if kind < 0.3:
            a, b = self.scalar("N"), self.scalar("N")
            return Predicate(f"{a.sql} {r.choice(COMPARE)} {b.sql}", "expression ~ expression")
        if kind < 0.34:
            return self.members()
        x = self.scalar("X")
        return r.choice(
            (self.compare, self.compare, self.compare, self.within, self.members, self.test)
        )(x)

    def scalar(self, family: str) -> Scalar:
        return self.scalars.scalar(family, self.r.choice((0, 1, 1, 1, 1, 1, 2, 2)))

    # Values of a scalar, to draw literals near them.

    def values(self, sql: str) -> tuple | None:
        """Return (type, axis values that some rows have); None if the scalar is not understood."""
        if sql not in self.known:
            self.known[sql] = self._values(sql)
        return self.known[sql]

    def _values(self, sql: str) -> tuple | None:
        bound = bind_scalar(parse(sql)[0], self.leaves, self.session)
        if bound.op is Op.UNKNOWN or bound.dtype is None or not bound.dtype.ordered:
            return None
        some = self.batch.slice(self.r.randrange(max(1, self.batch.num_rows - 40)), 40)
        try:
            found = values_of(bound, some, {})
        except UnsupportedForm:  # an inner condition is not understood
            return None
        n = max(len(found.data), len(found.valid), len(found.may_raise))
        good = [
            v
            for v, valid, may_raise in zip(
                *(_spread(a, n) for a in (found.data, found.valid, found.may_raise)), strict=True
            )
            if valid and not may_raise
        ]
        assert found.data.dtype == numpy_type_of(bound.dtype), (sql, found.data.dtype)
        return bound.dtype, good

    def literal(self, x: Scalar) -> str:
        found = self.values(x.sql)
        if self.r.random() < 0.03:
            return "NULL"
        if found is None or not found[1]:
            family = next((f for f, test in FAMILIES.items() if found and test(found[0])), "N")
            return self.r.choice(
                LITERALS["N" if family == "I" else "M" if family == "A" else family]
            )
        dtype, values = found
        value = self.r.choice(values)
        if dtype.kind in (Kind.INT, Kind.DATE, Kind.DECIMAL) and self.r.random() < 0.3:
            value = min(max(int(value) + self.r.choice((-1, 1)), dtype.lowest), dtype.highest)
        try:
            return own(self.r, dtype, value)[0]
        except UnicodeDecodeError:
            return "'a'"

    # Forms.

    def compare(self, x: Scalar) -> Predicate:
        ops = COMPARE if self.agreed or self.r.random() < 0.8 else ONLY_SPARKS
        lit, op = self.literal(x), self.r.choice(ops)
        return Predicate(
            f"{x.sql} {op} {lit}" if self.r.random() < 0.85 else f"{lit} {op} {x.sql}", x.form
        )

    def within(self, x: Scalar) -> Predicate:
        a, b = self.literal(x), self.literal(x)
        return Predicate(
            f"{x.sql} {self.r.choice(('BETWEEN', 'BETWEEN', 'NOT BETWEEN'))} {a} AND {b}",
            "BETWEEN" if x.form == "column" else x.form,
        )

    def test(self, x: Scalar) -> Predicate:
        found = self.values(x.sql)
        if found and found[0].kind is Kind.BOOL:
            return Predicate(self.r.choice(TESTS).format(x.sql), "IS TRUE")
        return Predicate(f"{x.sql} IS {self.r.choice(('', 'NOT '))}NULL", "IS NULL")

    def members(self, x: Scalar | None = None) -> Predicate:
        r = self.r
        x = x or Scalar(self.scalars.column("X").name, "column")
        word, kind = r.choice(("IN", "IN", "NOT IN")), r.random()
        if kind < 0.12:
            found = self.values(x.sql)
            family = next((f for f in "INTDMBY" if found and FAMILIES[f](found[0])), "N")
            literal = self.literal(x) if r.random() < 0.8 else r.choice(LITERALS[r.choice("NITDM")])
            others = [self.scalars.column(family).name, literal, self.scalars.scalar(family).sql][
                : r.randint(1, 3)
            ]
            return Predicate(f"{x.sql} {word} ({', '.join(others)})", f"{word} of expressions")
        count = r.choice((1, 2, 3, 8)) if kind < 0.85 else 200
        found = [self.literal(x) for _ in range(count)] + (["NULL"] if r.random() < 0.15 else [])
        return Predicate(
            f"{x.sql} {word} ({', '.join(found)})", f"{word}, long" if count == 200 else word
        )

    def columns(self) -> Predicate:
        """Return a comparison of two columns, of the same or of different types."""
        r, family = self.r, self.r.choice("NNNNTDMAABX")
        a, b = self.scalars.column(family), self.scalars.column(family)
        if family == "X" and a.dtype.kind is not b.dtype.kind:
            b = self.scalars.column(next(f for f in "NTDMBY" if FAMILIES[f](a.dtype)))
        kinds = sorted({kind_of(a.dtype), kind_of(b.dtype)})
        return Predicate(
            f"{a.name} {r.choice((*COMPARE, *ORDER))} {b.name}",
            f"column ~ column: {' ~ '.join(kinds)}",
        )

    def conjuncts(self) -> Predicate:
        x = self.scalars.scalar("X", self.r.choice((0, 0, 1)))
        return Predicate(
            self.r.choice(CONJUNCTS).format(x=x.sql, a=self.literal(x), b=self.literal(x)),
            "several tests of one scalar",
        )

    def text(self) -> Predicate:
        """Return LIKE, ILIKE, RLIKE or a similar function."""
        r = self.r
        x = self.scalars.scalar("T", r.choice((0, 0, 0, 1)))
        found = self.values(x.sql)
        value = r.choice(found[1]).decode("utf-8", "replace") if found and found[1] else "a"
        start, kind = value[: r.randint(0, len(value))], r.random()
        if kind < 0.15 and not self.agreed:
            name = r.choice(("startswith", "endswith", "contains"))
            part = value[r.randint(0, len(value)) :] if name == "endswith" else start
            return Predicate(f"{name}({x.sql}, {quote(part)})", name)
        if kind < 0.3 and not self.agreed:
            return Predicate(
                r.choice(RLIKES).format(x.sql, quote(r.choice(REGEX))),
                "RLIKE",
            )
        escape = r.choice(("\\", "\\", "\\", "!"))
        quoted = "".join(escape + ch if ch in ("%", "_", escape) else ch for ch in start)
        tail = r.choice(("%", "%", "%", "_", "%b", "_%", "", "%%", "%1", "_a%"))
        pattern = r.choice(("", "", "", "%", "_")) + quoted + tail
        clause = "" if escape == "\\" else f" ESCAPE '{escape}'"
        word, no = "ILIKE" if r.random() < 0.2 else "LIKE", r.choice(("", "", "NOT "))
        if kind < 0.45 and escape == "\\" and not self.agreed:
            how = r.choice(("ANY", "SOME", "ALL"))
            others = [
                quote(r.choice(("a%", "%b%", "Ab%", "%", "", "_b"))) for _ in range(r.randint(0, 2))
            ]
            return Predicate(
                f"{x.sql} {no}{word} {how} ({', '.join([quote(pattern), *others])})",
                f"{no}{word} {how}",
            )
        form = (
            word
            if word == "ILIKE"
            else "LIKE 'p%'"
            if pattern == quoted + "%"
            else "LIKE 'p%q'"
            if quoted and pattern.startswith(quoted)
            else "LIKE"
        )
        return Predicate(f"{x.sql} {no}{word} {quote(pattern)}{clause}", f"{no}{form}")


def _spread(a, n: int) -> list:
    return a.tolist() * n if len(a) == 1 else a.tolist()
