"""The predicates of `power`: one for each form, in Spark SQL and in each engine's own spelling.

`arrow` is a function of `pyarrow.dataset.field` and the module `pyarrow.compute`; the others are
texts. None means that the engine takes the SQL text, "" that it has no such form. Polars reads SQL
through `polars.sql_expr`, or an expression of `pl` if the text begins with it; pyiceberg has its
own grammar.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Final

from bench.power.form import Form
from bench.power.functions import DAY, ELEMENTS, SCALARS, TEXTS


def _list(first: int, step: int, n: int) -> list[int]:
    return [first + step * i for i in range(n)]


def _in(column: str, values: list[int], word: str = "IN") -> str:
    return f"{column} {word} ({', '.join(map(str, values))})"


THREE, FIFTY, THOUSAND = _list(310, 700, 3), _list(305, 12, 50), _list(0, 1, 1000)
SPREAD = _list(150, 400, 10)
NOON = dt.datetime(2022, 3, 1, 10)
UTC = NOON.replace(tzinfo=dt.UTC)

COMPARISONS: Final = (
    Form("<", "x < 700", lambda f, c: f("x") < 700),
    Form("<=", "x <= 700", lambda f, c: f("x") <= 700),
    Form(">", "x > 3300", lambda f, c: f("x") > 3300),
    Form(">=, literal first", "3300 <= x", lambda f, c: f("x") >= 3300, iceberg="x >= 3300"),
    Form("=", "s = 'delta-500'", lambda f, c: f("s") == "delta-500"),
    Form("= out of the type", "i = 5000000000", lambda f, c: f("i") == 5000000000),
    Form("<>, single-valued groups", "c <> 3", lambda f, c: f("c") != 3),
    Form("literal of another type", "x > 3300.5", lambda f, c: f("x") > 3300.5),
    Form("BETWEEN", "x BETWEEN 1210 AND 1480", lambda f, c: (f("x") >= 1210) & (f("x") <= 1480)),
    Form(
        "NOT BETWEEN", "x NOT BETWEEN 300 AND 3100",
        lambda f, c: ~((f("x") >= 300) & (f("x") <= 3100)), iceberg="NOT (x >= 300 AND x <= 3100)",
    ),
    Form(
        "IN, 3 values", _in("x", THREE), lambda f, c: f("x").isin(THREE),
        polars=f"pl.col('x').is_in({THREE})",
    ),
    Form(
        "IN, 50 values", _in("x", FIFTY), lambda f, c: f("x").isin(FIFTY),
        polars=f"pl.col('x').is_in({FIFTY})",
    ),
    Form(
        "IN, 1,000 values", _in("x", THOUSAND), lambda f, c: f("x").isin(THOUSAND),
        polars=f"pl.col('x').is_in({THOUSAND})",
    ),
    Form(
        "IN, gaps", _in("x", SPREAD), lambda f, c: f("x").isin(SPREAD),
        polars=f"pl.col('x').is_in({SPREAD})",
    ),
    Form("NOT IN", "c NOT IN (1, 3, 5, 7)", lambda f, c: ~f("c").isin([1, 3, 5, 7])),
    Form(
        "NOT IN with NULL", "c NOT IN (1, 3, NULL)", lambda f, c: ~f("c").isin([1, 3, None]),
        iceberg="",
    ),
    Form(
        "IN with NULL", "x IN (310, NULL, 1010)", lambda f, c: f("x").isin([310, None, 1010]),
        polars="pl.col('x').is_in([310, None, 1010])", iceberg="x IN (310, 1010)",
    ),
    Form("IS NULL", "x IS NULL", lambda f, c: f("x").is_null()),
    Form("IS NOT NULL", "x IS NOT NULL", lambda f, c: f("x").is_valid()),
    Form(
        "<=>", "x <=> 1234", lambda f, c: c.if_else(f("x").is_null(), False, f("x") == 1234),
        duckdb="x IS NOT DISTINCT FROM 1234", datafusion="x IS NOT DISTINCT FROM 1234",
        iceberg="x = 1234",
    ),
    Form(
        "<=> NULL", "x <=> NULL", lambda f, c: f("x").is_null(),
        duckdb="x IS NOT DISTINCT FROM NULL", datafusion="x IS NOT DISTINCT FROM NULL",
        polars="pl.col('x').eq_missing(pl.lit(None, pl.Int64))", iceberg="x IS NULL",
    ),
    Form(
        "NOT <=>", "NOT (c <=> 3)", lambda f, c: c.if_else(f("c").is_null(), True, f("c") != 3),
        duckdb="c IS DISTINCT FROM 3", datafusion="c IS DISTINCT FROM 3",
        polars="pl.col('c').ne_missing(3)", iceberg="c IS NULL OR c <> 3",
    ),
    Form("boolean column", "b", lambda f, c: f("b"), iceberg="b = true"),
    Form("NOT boolean column", "NOT b", lambda f, c: ~f("b"), iceberg="b = false"),
    Form("b = false", "b = false", lambda f, c: f("b") == False, iceberg="b = false"),  # noqa: E712
    Form(
        "IS NOT TRUE", "b IS NOT TRUE", lambda f, c: c.if_else(f("b").is_null(), True, ~f("b")),
        iceberg="b IS NULL OR b = false",
    ),
    Form("decimal", "m > 150.25", lambda f, c: f("m") > Decimal("150.25")),
    Form(
        "decimal of 38 digits", "w < 500000000000000000000",
        lambda f, c: f("w") < Decimal(5 * 10**20),
        polars="pl.col('w') < pl.lit(Decimal('500000000000000000000'))",
        iceberg="w < 500000000000000000000.0",
    ),
    Form("date", "d >= DATE '2022-03-01'", lambda f, c: f("d") >= DAY, iceberg="d >= '2022-03-01'"),
    Form(
        "timestamp with zone", "t >= TIMESTAMP '2022-03-01 12:00:00+02:00'",
        lambda f, c: f("t") >= UTC, duckdb="t >= TIMESTAMPTZ '2022-03-01 12:00:00+02:00'",
        polars="pl.col('t') >= datetime(2022, 3, 1, 10, tzinfo=UTC)",
        datafusion="t >= TIMESTAMP '2022-03-01T12:00:00+02:00'",
        iceberg="t >= '2022-03-01T12:00:00+02:00'",
    ),
    Form(
        "timestamp without", "n < TIMESTAMP_NTZ '2022-03-01 10:00:00'", lambda f, c: f("n") < NOON,
        duckdb="n < TIMESTAMP '2022-03-01 10:00:00'",
        polars="pl.col('n') < datetime(2022, 3, 1, 10)",
        datafusion="n < TIMESTAMP '2022-03-01 10:00:00'", iceberg="n < '2022-03-01T10:00:00'",
    ),
    Form(
        "nested leaf", "a.b.c > 3300", lambda f, c: f("a", "b", "c") > 3300,
        polars="pl.col('a').struct.field('b').struct.field('c') > 3300",
    ),
    Form("struct IS NULL", "a IS NULL", lambda f, c: f("a").is_null()),
    Form("DOUBLE BETWEEN", "v BETWEEN 5 AND 6", lambda f, c: (f("v") >= 5) & (f("v") <= 6)),
    Form("DOUBLE >, where no NaN is", "v > 700", lambda f, c: f("v") > 700, rule="float >"),
    Form(
        "isnan, where no NaN is", "isnan(v)", lambda f, c: c.is_nan(f("v")),
        polars="pl.col('v').is_nan()", iceberg="v IS NAN", rule="isnan",
    ),
    Form(
        "nested leaf IS NULL", "a.b.c IS NULL", lambda f, c: f("a", "b", "c").is_null(),
        polars="pl.col('a').struct.field('b').struct.field('c').is_null()",
    ),
)  # fmt: skip

TREES: Final = (
    Form(
        "AND, several columns", "x > 1000 AND s < 'golf' AND c = 3",
        lambda f, c: (f("x") > 1000) & (f("s") < "golf") & (f("c") == 3),
    ),
    Form(
        "a range that is empty", "x > 1250 AND x < 1240",
        lambda f, c: (f("x") > 1250) & (f("x") < 1240),
    ),
    Form(
        "no integer between", "x > 1203 AND x < 1204",
        lambda f, c: (f("x") > 1203) & (f("x") < 1204),
    ),
    Form(
        "IN lists that share nothing", "x IN (110, 1210) AND x IN (2310, 3310)",
        lambda f, c: f("x").isin([110, 1210]) & f("x").isin([2310, 3310]),
        polars="pl.col('x').is_in([110, 1210]) & pl.col('x').is_in([2310, 3310])",
    ),
    Form(
        "IN and a range", "x IN (110, 1210, 3310) AND x > 1300",
        lambda f, c: f("x").isin([110, 1210, 3310]) & (f("x") > 1300),
        polars="pl.col('x').is_in([110, 1210, 3310]) & (pl.col('x') > 1300)",
    ),
    Form(
        "everything, but for NULL", "x < 2000 OR x >= 2000",
        lambda f, c: (f("x") < 2000) | (f("x") >= 2000),
    ),
    Form(
        "OR across columns", "x < 500 OR s >= 'juliet' OR c = 77",
        lambda f, c: (f("x") < 500) | (f("s") >= "juliet") | (f("c") == 77),
    ),
    Form(
        "OR on one column", "x < 500 OR x > 3500 OR x = 1250",
        lambda f, c: (f("x") < 500) | (f("x") > 3500) | (f("x") == 1250),
    ),
    Form(
        "OR of ANDs", "(x < 500 AND c = 3) OR (y < 1300 AND c = 7)",
        lambda f, c: ((f("x") < 500) & (f("c") == 3)) | ((f("y") < 1300) & (f("c") == 7)),
    ),
    Form(
        "NOT over nests", "NOT (x > 500 AND (s < 'juliet' OR NOT (c <> 7)))",
        lambda f, c: ~((f("x") > 500) & ((f("s") < "juliet") | ~(f("c") != 7))),
    ),
    Form(
        "AND of what no bound tells", "x < 500 AND u LIKE '%f%'",
        lambda f, c: (f("x") < 500) & c.match_substring(f("u"), "f"), iceberg="",
    ),
)  # fmt: skip

FILES: Final = (
    Form("hive column", "p = 3", lambda f, c: f("p") == 3, table="hive", iceberg=""),
    Form(
        "hive column and another", "p >= 2 AND q = 'a' AND x < 2500",
        lambda f, c: (f("p") >= 2) & (f("q") == "a") & (f("x") < 2500), table="hive", iceberg="",
    ),
    Form(
        "hive column or another", "q = 'c' OR x < 500",
        lambda f, c: (f("q") == "c") | (f("x") < 500), table="hive", iceberg="",
    ),
    Form(
        "hive column in an expression", "p % 2 = 1 AND upper(q) = 'B'",
        polars="(pl.col('p') % 2 == 1) & (pl.col('q').str.to_uppercase() == 'B')",
        arrow=lambda f, c: (f("p") - f("p") / 2 * 2 == 1) & (c.utf8_upper(f("q")) == "B"),
        table="hive", iceberg="",
    ),
    Form("bloom filter, integer", "h = 549755813889", lambda f, c: f("h") == 549755813889),
    Form(
        "bloom filter, text", "u IN ('0123456789abc', '0f')",
        lambda f, c: f("u").isin(["0123456789abc", "0f"]),
        polars="pl.col('u').is_in(['0123456789abc', '0f'])",
    ),
)  # fmt: skip


def _floats(table: str) -> tuple[Form, ...]:
    """Return forms over f and `one`, which hold NaN in some groups."""
    by = table.removeprefix("floats").strip().removeprefix("by ") or "pyarrow"
    isnan = {"polars": "pl.col('f').is_nan()", "iceberg": "f IS NAN"}
    return (
        Form(f"f <, NaN present ({by})", "f < 100", lambda f, c: f("f") < 100, table=table),
        Form(
            f"f >, NaN present ({by})",
            "f > 350",
            lambda f, c: f("f") > 350,
            table=table,
            rule="float >",
        ),
        Form(f"f <>, NaN present ({by})", "one <> 1", lambda f, c: f("one") != 1, table=table),
        Form(
            f"NOT <, NaN present ({by})", "NOT (f < 350)", lambda f, c: ~(f("f") < 350), table=table
        ),
        Form(
            f"isnan ({by})",
            "isnan(f)",
            lambda f, c: c.is_nan(f("f")),
            table=table,
            rule="isnan",
            **isnan,
        ),
    )


FORMS: Final = (
    *COMPARISONS,
    *TEXTS,
    *ELEMENTS,
    *SCALARS,
    *TREES,
    *FILES,
    *(
        form
        for table in ("floats", "floats by Spark", "floats by Polars", "floats by DuckDB")
        for form in _floats(table)
    ),
)
