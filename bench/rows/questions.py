"""The questions of `rows`: columns, and a conjunction of tests, translated for each engine."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, Final, Literal

Value = int | Decimal | dt.date | str
Op = Literal["=", "<", ">=", ">", "BETWEEN", "IN"]
COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Test:
    """A column compared with one value, with two (BETWEEN) or with several (IN)."""

    column: str
    op: Op
    values: tuple[Value, ...]

    @property
    def sql(self) -> str:
        texts = [_literal(v) for v in self.values]
        if self.op == "BETWEEN":
            return f"{self.column} BETWEEN {texts[0]} AND {texts[1]}"
        return f"{self.column} {self.op} " + (
            f"({', '.join(texts)})" if self.op == "IN" else texts[0]
        )

    def expression(self, column: Any, literal: Callable[[Value], Any]) -> Any:
        """Return the test in an engine's own expressions, unless it is IN."""
        values = [literal(v) for v in self.values]
        if self.op == "BETWEEN":
            return (column >= values[0]) & (column <= values[1])
        return COMPARE[self.op](column, values[0])


@dataclass(frozen=True)
class Question:
    """The columns to return of the rows that pass all tests."""

    name: str
    columns: tuple[str, ...]
    tests: tuple[Test, ...]

    @property
    def sql(self) -> str:
        """The condition, as Spark, DuckDB and DataFusion read it."""
        return " AND ".join(t.sql for t in self.tests)

    def select(self, source: str) -> str:
        """Return the query in SQL."""
        return f"SELECT {', '.join(self.columns)} FROM {source} WHERE {self.sql}"

    def polars(self) -> Any:
        """Return the condition as a Polars expression."""
        import polars as pl

        def literal(value: Value) -> Any:
            return pl.lit(value, pl.Decimal(15, 2)) if isinstance(value, Decimal) else pl.lit(value)

        return self._all(
            lambda t: (
                pl.col(t.column).is_in(list(t.values))
                if t.op == "IN"
                else t.expression(pl.col(t.column), literal)
            )
        )

    def arrow(self) -> Any:
        """Return the condition as a pyarrow expression."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def literal(value: Value) -> Any:
            return pa.scalar(value, pa.decimal128(15, 2) if isinstance(value, Decimal) else None)

        return self._all(
            lambda t: (
                pc.field(t.column).isin(list(t.values))
                if t.op == "IN"
                else t.expression(pc.field(t.column), literal)
            )
        )

    def iceberg(self) -> Any:
        """Return the condition as a pyiceberg expression."""
        from pyiceberg import expressions as ex

        made = {"=": ex.EqualTo, "<": ex.LessThan, ">=": ex.GreaterThanOrEqual, ">": ex.GreaterThan}

        def make(t: Test) -> Any:
            if t.op == "IN":
                return ex.In(t.column, t.values)
            if t.op == "BETWEEN":
                return ex.And(
                    ex.GreaterThanOrEqual(t.column, t.values[0]),
                    ex.LessThanOrEqual(t.column, t.values[1]),
                )
            return made[t.op](t.column, t.values[0])

        return reduce(ex.And, map(make, self.tests))

    def _all(self, make: Callable[[Test], Any]) -> Any:
        return reduce(operator.and_, map(make, self.tests))


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return f"DATE '{value}'" if isinstance(value, dt.date) else str(value)


def questions(scale: float) -> tuple[Question, ...]:
    """Return all questions about lineitem at a scale, which decides what order keys there are."""
    ship, discount, quantity = "l_shipdate", "l_discount", "l_quantity"
    middle = round(3_000_000 * scale) // 32 * 32 + 1  # keys are the first 8 of every 32 numbers
    cent = Decimal("0.01")
    return (
        Question(
            "day",
            ("l_orderkey", "l_extendedprice", "l_comment"),
            (Test(ship, "=", (dt.date(1995, 6, 17),)),),
        ),
        Question(
            "month",
            ("l_orderkey", "l_extendedprice", discount),
            (
                Test(ship, ">=", (dt.date(1995, 9, 1),)),
                Test(ship, "<", (dt.date(1995, 10, 1),)),
                Test(discount, "BETWEEN", (5 * cent, 7 * cent)),
            ),
        ),
        Question(
            "point",
            ("l_orderkey", "l_partkey", "l_comment"),
            (Test("l_orderkey", "=", (middle,)),),
        ),
        Question(
            "q6",
            ("l_extendedprice", discount),
            (
                Test(ship, ">=", (dt.date(1994, 1, 1),)),
                Test(ship, "<", (dt.date(1995, 1, 1),)),
                Test(discount, "BETWEEN", (5 * cent, 7 * cent)),
                Test(quantity, "<", (2400 * cent,)),
            ),
        ),
        Question(
            "text",
            ("l_orderkey", "l_shipmode", "l_shipinstruct"),
            (
                Test("l_shipmode", "IN", ("AIR", "REG AIR")),
                Test(ship, "<", (dt.date(1992, 2, 1),)),
            ),
        ),
        Question("none", ("l_orderkey",), (Test(quantity, ">", (10000 * cent,)),)),
        Question("all", ("l_orderkey", quantity), (Test(quantity, ">=", (100 * cent,)),)),
    )
