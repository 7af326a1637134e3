"""The predicates of `power`: one a form, in Spark SQL, and as each engine wants it where that text will not do.

`arrow` is a function of `pyarrow.dataset.field` and the module `pyarrow.compute`; the others are texts. None:
the engine takes the SQL text. "" says that it has no such form. Polars reads SQL through `polars.sql_expr`, or an expression
of `pl` if the text begins with it; pyiceberg reads its own grammar.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

Arrow = Callable[[Any, Any], Any]  # given pyarrow.compute.field and pyarrow.compute


@dataclass(frozen=True)
class Form:
    """One row of the report. Forms of one `rule` stand or fall together: what loses rows in one file is no reason to prune in another."""

    name: str
    sql: str
    arrow: Arrow | None = None
    duckdb: str | None = None
    polars: str | None = None
    datafusion: str | None = None
    iceberg: str | None = None
    table: str = "main"
    rule: str = ""

    def text(self, engine: str) -> str:
        """The condition as an engine's own text; "" if it has none."""
        own: str | None = getattr(self, engine)
        return self.sql if own is None else own


def _list(first: int, step: int, n: int) -> list[int]:
    return [first + step * i for i in range(n)]


def _in(column: str, values: list[int], word: str = "IN") -> str:
    return f"{column} {word} ({', '.join(map(str, values))})"


THREE, FIFTY, THOUSAND = _list(310, 700, 3), _list(305, 12, 50), _list(0, 1, 1000)
SPREAD = _list(150, 400, 10)
DAY = dt.date(2022, 3, 1)
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
    Form("NOT BETWEEN", "x NOT BETWEEN 300 AND 3100", lambda f, c: ~((f("x") >= 300) & (f("x") <= 3100)), iceberg="NOT (x >= 300 AND x <= 3100)"),
    Form("IN, 3 values", _in("x", THREE), lambda f, c: f("x").isin(THREE), polars=f"pl.col('x').is_in({THREE})"),
    Form("IN, 50 values", _in("x", FIFTY), lambda f, c: f("x").isin(FIFTY), polars=f"pl.col('x').is_in({FIFTY})"),
    Form("IN, 1,000 values", _in("x", THOUSAND), lambda f, c: f("x").isin(THOUSAND), polars=f"pl.col('x').is_in({THOUSAND})"),
    Form("IN, gaps", _in("x", SPREAD), lambda f, c: f("x").isin(SPREAD), polars=f"pl.col('x').is_in({SPREAD})"),
    Form("NOT IN", "c NOT IN (1, 3, 5, 7)", lambda f, c: ~f("c").isin([1, 3, 5, 7])),
    Form("NOT IN with NULL", "c NOT IN (1, 3, NULL)", lambda f, c: ~f("c").isin([1, 3, None]), iceberg=""),
    Form(
        "IN with NULL", "x IN (310, NULL, 1010)", lambda f, c: f("x").isin([310, None, 1010]), polars="pl.col('x').is_in([310, None, 1010])",
        iceberg="x IN (310, 1010)",
    ),
    Form("IS NULL", "x IS NULL", lambda f, c: f("x").is_null()),
    Form("IS NOT NULL", "x IS NOT NULL", lambda f, c: f("x").is_valid()),
    Form(
        "<=>", "x <=> 1234", lambda f, c: c.if_else(f("x").is_null(), False, f("x") == 1234), duckdb="x IS NOT DISTINCT FROM 1234",
        datafusion="x IS NOT DISTINCT FROM 1234", iceberg="x = 1234",
    ),
    Form(
        "<=> NULL", "x <=> NULL", lambda f, c: f("x").is_null(), duckdb="x IS NOT DISTINCT FROM NULL", datafusion="x IS NOT DISTINCT FROM NULL",
        polars="pl.col('x').eq_missing(pl.lit(None, pl.Int64))", iceberg="x IS NULL",
    ),
    Form(
        "NOT <=>", "NOT (c <=> 3)", lambda f, c: c.if_else(f("c").is_null(), True, f("c") != 3), duckdb="c IS DISTINCT FROM 3",
        datafusion="c IS DISTINCT FROM 3", polars="pl.col('c').ne_missing(3)", iceberg="c IS NULL OR c <> 3",
    ),
    Form("boolean column", "b", lambda f, c: f("b"), iceberg="b = true"),
    Form("NOT boolean column", "NOT b", lambda f, c: ~f("b"), iceberg="b = false"),
    Form("b = false", "b = false", lambda f, c: f("b") == False, iceberg="b = false"),  # noqa: E712
    Form("IS NOT TRUE", "b IS NOT TRUE", lambda f, c: c.if_else(f("b").is_null(), True, ~f("b")), iceberg="b IS NULL OR b = false"),
    Form("decimal", "m > 150.25", lambda f, c: f("m") > Decimal("150.25")),
    Form(
        "decimal of 38 digits", "w < 500000000000000000000", lambda f, c: f("w") < Decimal(5 * 10**20),
        polars="pl.col('w') < pl.lit(Decimal('500000000000000000000'))", iceberg="w < 500000000000000000000.0",
    ),
    Form("date", "d >= DATE '2022-03-01'", lambda f, c: f("d") >= DAY, iceberg="d >= '2022-03-01'"),
    Form(
        "timestamp with zone", "t >= TIMESTAMP '2022-03-01 12:00:00+02:00'", lambda f, c: f("t") >= UTC, duckdb="t >= TIMESTAMPTZ '2022-03-01 12:00:00+02:00'",
        polars="pl.col('t') >= datetime(2022, 3, 1, 10, tzinfo=UTC)", datafusion="t >= TIMESTAMP '2022-03-01T12:00:00+02:00'",
        iceberg="t >= '2022-03-01T12:00:00+02:00'",
    ),
    Form(
        "timestamp without", "n < TIMESTAMP_NTZ '2022-03-01 10:00:00'", lambda f, c: f("n") < NOON, duckdb="n < TIMESTAMP '2022-03-01 10:00:00'",
        polars="pl.col('n') < datetime(2022, 3, 1, 10)", datafusion="n < TIMESTAMP '2022-03-01 10:00:00'", iceberg="n < '2022-03-01T10:00:00'",
    ),
    Form("nested leaf", "a.b.c > 3300", lambda f, c: f("a", "b", "c") > 3300, polars="pl.col('a').struct.field('b').struct.field('c') > 3300"),
    Form("struct IS NULL", "a IS NULL", lambda f, c: f("a").is_null()),
    Form("DOUBLE BETWEEN", "v BETWEEN 5 AND 6", lambda f, c: (f("v") >= 5) & (f("v") <= 6)),
    Form("DOUBLE >, where no NaN is", "v > 700", lambda f, c: f("v") > 700, rule="float >"),
    Form("isnan, where no NaN is", "isnan(v)", lambda f, c: c.is_nan(f("v")), polars="pl.col('v').is_nan()", iceberg="v IS NAN", rule="isnan"),
    Form(
        "nested leaf IS NULL", "a.b.c IS NULL", lambda f, c: f("a", "b", "c").is_null(),
        polars="pl.col('a').struct.field('b').struct.field('c').is_null()",
    ),
)  # fmt: skip

TEXTS: Final = (
    Form("LIKE prefix", "s LIKE 'charlie%'", lambda f, c: c.starts_with(f("s"), "charlie")),
    Form("NOT LIKE prefix", "s NOT LIKE 'charlie%'", lambda f, c: ~c.starts_with(f("s"), "charlie")),
    Form("LIKE without wildcard", "k LIKE 'k3x3'", lambda f, c: c.match_like(f("k"), "k3x3")),
    Form(
        "LIKE with escape", "e LIKE '77!%%' ESCAPE '!'", lambda f, c: c.match_like(f("e"), "77\\%%"), polars="pl.col('e').str.starts_with('77%')",
        datafusion=r"e LIKE '77\%%'", iceberg=r"e LIKE '77\%%'",
    ),
    Form(
        "LIKE with _, single-valued", "k LIKE '_3x_'", lambda f, c: c.match_like(f("k"), "_3x_"), polars="pl.col('k').str.contains('^.3x.$')", iceberg="",
    ),
    Form(
        "LIKE '%part%', single-valued", "k LIKE '%3x%'", lambda f, c: c.match_substring(f("k"), "3x"), polars="pl.col('k').str.contains('3x', literal=True)",
        iceberg="",
    ),
    Form("LIKE prefix and more", "s LIKE 'charlie%7'", lambda f, c: c.match_like(f("s"), "charlie%7"), polars="pl.col('s').str.contains('^charlie.*7$')"),
    Form("ILIKE, single-valued", "k ILIKE 'K3%'", lambda f, c: c.match_like(f("k"), "K3%", ignore_case=True), polars="pl.col('k').str.contains('(?i)^k3')"),
    Form(
        "RLIKE anchored", "s RLIKE '^delta-'", lambda f, c: c.match_substring_regex(f("s"), "^delta-"), duckdb="regexp_matches(s, '^delta-')",
        polars="pl.col('s').str.contains('^delta-')", datafusion="s ~ '^delta-'",
    ),
    Form(
        "RLIKE, single-valued", "k RLIKE '[34]x'", lambda f, c: c.match_substring_regex(f("k"), "[34]x"), duckdb="regexp_matches(k, '[34]x')",
        polars="pl.col('k').str.contains('[34]x')", datafusion="k ~ '[34]x'",
    ),
    Form(
        "starts_with", "startswith(s, 'echo')", lambda f, c: c.starts_with(f("s"), "echo"), duckdb="starts_with(s, 'echo')",
        polars="pl.col('s').str.starts_with('echo')", datafusion="starts_with(s, 'echo')", iceberg="s LIKE 'echo%'",
    ),
    Form("length, single-valued", "length(k) = 5", lambda f, c: c.utf8_length(f("k")) == 5, polars="pl.col('k').str.len_chars() == 5"),
    Form(
        "substring from the start", "substr(s, 1, 4) = 'golf'", lambda f, c: c.utf8_slice_codeunits(f("s"), 0, 4) == "golf",
        polars="pl.col('s').str.slice(0, 4) == 'golf'",
    ),
    Form("upper", "upper(s) = 'HOTEL-500'", lambda f, c: c.utf8_upper(f("s")) == "HOTEL-500", polars="pl.col('s').str.to_uppercase() == 'HOTEL-500'"),
    Form("lower, single-valued", "lower(k) = 'k3x3'", lambda f, c: c.utf8_lower(f("k")) == "k3x3", polars="pl.col('k').str.to_lowercase() == 'k3x3'"),
    Form(
        "substring behind a shared start", "substr(s, 2, 3) = 'olf'", lambda f, c: c.utf8_slice_codeunits(f("s"), 1, 4) == "olf",
        polars="pl.col('s').str.slice(1, 3) == 'olf'",
    ),
    Form(
        "replace, single-valued", "replace(k, 'x', '-') = 'k3-3'", lambda f, c: c.replace_substring(f("k"), "x", "-") == "k3-3",
        polars="pl.col('k').str.replace_all('x', '-', literal=True) == 'k3-3'",
    ),
    Form("digest, single-valued", "md5(k) = '0123456789abcdef0123456789abcdef'"),
    Form("concat", "concat('no. ', s) < 'no. bravo'", lambda f, c: c.binary_join_element_wise(c.scalar("no. "), f("s"), c.scalar("")) < "no. bravo"),
)  # fmt: skip

SCALARS: Final = (
    Form("cast int to double", "CAST(i AS DOUBLE) > 1500.5", lambda f, c: f("i").cast("double") > 1500.5),
    Form("cast bigint to int", "CAST(x AS INT) < 500", lambda f, c: f("x").cast("int32") < 500),
    Form("cast to string, single-valued", "CAST(c AS STRING) = '3'", lambda f, c: f("c").cast("string") == "3"),
    Form(
        "cast date to timestamp", "CAST(d AS TIMESTAMP) >= TIMESTAMP '2022-03-01 00:00:00Z'",
        lambda f, c: f("d").cast("timestamp[us]") >= dt.datetime(2022, 3, 1),
        duckdb="CAST(d AS TIMESTAMP) >= TIMESTAMP '2022-03-01 00:00:00'", polars="pl.col('d').cast(pl.Datetime('us')) >= datetime(2022, 3, 1)",
        datafusion="CAST(d AS TIMESTAMP) >= TIMESTAMP '2022-03-01 00:00:00'",
    ),
    Form("cast timestamp to date", "CAST(n AS DATE) = DATE '2022-03-01'", lambda f, c: f("n").cast("date32") == DAY),
    Form("TRY_CAST", "TRY_CAST(x AS SMALLINT) > 3500", duckdb="TRY_CAST(x AS SMALLINT) > 3500", polars="pl.col('x').cast(pl.Int16, strict=False) > 3500"),
    Form("x + 1", "x + 1 > 3301", lambda f, c: f("x") + 1 > 3301),
    Form("-x", "-x > -700", lambda f, c: c.negate(f("x")) > -700),
    Form("x * 2", "x * 2 <= 1400", lambda f, c: f("x") * 2 <= 1400),
    Form("x / 2", "x / 2 < 350", lambda f, c: f("x").cast("double") / 2 < 350, datafusion="x / 2.0 < 350"),
    Form("bits, single-valued", "c & 1 = 1", lambda f, c: c.bit_wise_and(f("c"), 1) == 1, polars="(pl.col('c') & 1) == 1", datafusion="(c & 1) = 1"),
    Form("power, single-valued", "pow(c, 2) = 9", lambda f, c: c.power(f("c").cast("double"), 2.0) == 9, polars="pl.col('c').pow(2) == 9"),
    Form("x + y", "x + y > 5000", lambda f, c: f("x") + f("y") > 5000),
    Form("x % 7, single-valued", "c % 3 = 1", lambda f, c: f("c") - f("c") / 3 * 3 == 1, polars="pl.col('c') % 3 == 1"),
    Form("x % 7, a range", "x % 7 > 6", lambda f, c: f("x") - f("x") / 7 * 7 > 6, polars="pl.col('x') % 7 > 6"),
    Form("x - y", "x - y > 1500", lambda f, c: f("x") - f("y") > 1500),
    Form("decimal arithmetic", "m * 2 - 10 > 300", lambda f, c: f("m") * Decimal(2) - Decimal(10) > Decimal(300)),
    Form("abs", "abs(i) > 1500", lambda f, c: c.abs(f("i")) > 1500),
    Form("floor", "floor(v) < -100", lambda f, c: c.floor(f("v")) < -100, polars="pl.col('v').floor() < -100"),
    Form("year", "year(d) = 2021", lambda f, c: c.year(f("d")) == 2021, polars="pl.col('d').dt.year() == 2021", datafusion="date_part('year', d) = 2021"),
    Form(
        "month, within one year", "month(d) = 2 AND d >= DATE '2021-01-01' AND d < DATE '2021-12-31'",
        lambda f, c: (c.month(f("d")) == 2) & (f("d") >= dt.date(2021, 1, 1)) & (f("d") < dt.date(2021, 12, 31)),
        polars="(pl.col('d').dt.month() == 2) & (pl.col('d') >= date(2021, 1, 1)) & (pl.col('d') < date(2021, 12, 31))",
        datafusion="date_part('month', d) = 2 AND d >= DATE '2021-01-01' AND d < DATE '2021-12-31'",
    ),
    Form("month", "month(d) = 2", lambda f, c: c.month(f("d")) == 2, polars="pl.col('d').dt.month() == 2", datafusion="date_part('month', d) = 2"),
    Form("date_part", "date_part('year', d) = 2021", lambda f, c: c.year(f("d")) == 2021, polars="pl.col('d').dt.year() == 2021"),
    Form("date as text", "CAST(d AS STRING) LIKE '2022-03%'", lambda f, c: c.starts_with(f("d").cast("string"), "2022-03")),
    Form("day, out of range", "day(d) > 31", lambda f, c: c.day(f("d")) > 31, polars="pl.col('d').dt.day() > 31", datafusion="date_part('day', d) > 31"),
    Form(
        "date_trunc", "date_trunc('month', n) = TIMESTAMP '2022-03-01 00:00:00'",
        lambda f, c: c.floor_temporal(f("n"), 1, "month") == dt.datetime(2022, 3, 1), polars="pl.col('n').dt.truncate('1mo') == datetime(2022, 3, 1)",
    ),
    Form(
        "to_date", "to_date(n) < DATE '2020-06-01'", lambda f, c: f("n").cast("date32") < dt.date(2020, 6, 1), duckdb="n::DATE < DATE '2020-06-01'",
        polars="pl.col('n').dt.date() < date(2020, 6, 1)",
    ),
    Form(
        "date_add", "date_add(d, 7) < DATE '2020-06-01'", lambda f, c: f("d").cast("timestamp[us]") + dt.timedelta(7) < dt.datetime(2020, 6, 1),
        duckdb="d + 7 < DATE '2020-06-01'", datafusion="d + INTERVAL '7 days' < DATE '2020-06-01'",
        polars="pl.col('d').dt.offset_by('7d') < date(2020, 6, 1)",
    ),
    Form("coalesce", "coalesce(x, 0) > 3300", lambda f, c: c.coalesce(f("x"), 0) > 3300),
    Form(
        "CASE", "CASE WHEN x < 1000 THEN 1 WHEN x < 2000 THEN 2 ELSE 3 END = 1",
        lambda f, c: c.if_else(f("x") < 1000, 1, c.if_else(f("x") < 2000, 2, 3)) == 1,
    ),
    Form(
        "greatest", "greatest(x, y) < 1500", lambda f, c: c.max_element_wise(f("x"), f("y"), skip_nulls=True) < 1500,
        polars="pl.max_horizontal('x', 'y') < 1500",
    ),
    Form("column < column", "x < y", lambda f, c: f("x") < f("y")),
    Form("column = column", "x = y", lambda f, c: f("x") == f("y")),
    Form(
        "column <=> column", "x <=> y", lambda f, c: c.if_else(f("x").is_null(), f("y").is_null(), f("x") == f("y")),
        duckdb="x IS NOT DISTINCT FROM y", datafusion="x IS NOT DISTINCT FROM y", polars="pl.col('x').eq_missing(pl.col('y'))",
    ),
    Form(
        "any expression, single-valued", "concat(upper(k), '!', CAST(c * c + 1 AS STRING)) = 'K3X3!10'",
        lambda f, c: c.binary_join_element_wise(c.utf8_upper(f("k")), (f("c") * f("c") + 1).cast("string"), c.scalar("!")) == "K3X3!10",
        polars="(pl.col('k').str.to_uppercase() + '!' + (pl.col('c') * pl.col('c') + 1).cast(pl.String)) == 'K3X3!10'",
    ),
)  # fmt: skip

TREES: Final = (
    Form("AND, several columns", "x > 1000 AND s < 'golf' AND c = 3", lambda f, c: (f("x") > 1000) & (f("s") < "golf") & (f("c") == 3)),
    Form("a range that is empty", "x > 1250 AND x < 1240", lambda f, c: (f("x") > 1250) & (f("x") < 1240)),
    Form("no integer between", "x > 1203 AND x < 1204", lambda f, c: (f("x") > 1203) & (f("x") < 1204)),
    Form(
        "IN lists that share nothing", "x IN (110, 1210) AND x IN (2310, 3310)", lambda f, c: f("x").isin([110, 1210]) & f("x").isin([2310, 3310]),
        polars="pl.col('x').is_in([110, 1210]) & pl.col('x').is_in([2310, 3310])",
    ),
    Form(
        "IN and a range", "x IN (110, 1210, 3310) AND x > 1300", lambda f, c: f("x").isin([110, 1210, 3310]) & (f("x") > 1300),
        polars="pl.col('x').is_in([110, 1210, 3310]) & (pl.col('x') > 1300)",
    ),
    Form("everything, but for NULL", "x < 2000 OR x >= 2000", lambda f, c: (f("x") < 2000) | (f("x") >= 2000)),
    Form("OR across columns", "x < 500 OR s >= 'juliet' OR c = 77", lambda f, c: (f("x") < 500) | (f("s") >= "juliet") | (f("c") == 77)),
    Form("OR on one column", "x < 500 OR x > 3500 OR x = 1250", lambda f, c: (f("x") < 500) | (f("x") > 3500) | (f("x") == 1250)),
    Form(
        "OR of ANDs", "(x < 500 AND c = 3) OR (y < 1300 AND c = 7)", lambda f, c: ((f("x") < 500) & (f("c") == 3)) | ((f("y") < 1300) & (f("c") == 7)),
    ),
    Form(
        "NOT over nests", "NOT (x > 500 AND (s < 'juliet' OR NOT (c <> 7)))",
        lambda f, c: ~((f("x") > 500) & ((f("s") < "juliet") | ~(f("c") != 7))),
    ),
    Form("AND of what no bound tells", "x < 500 AND u LIKE '%f%'", lambda f, c: (f("x") < 500) & c.match_substring(f("u"), "f"), iceberg=""),
)  # fmt: skip

FILES: Final = (
    Form("hive column", "p = 3", lambda f, c: f("p") == 3, table="hive", iceberg=""),
    Form(
        "hive column and another", "p >= 2 AND q = 'a' AND x < 2500", lambda f, c: (f("p") >= 2) & (f("q") == "a") & (f("x") < 2500), table="hive",
        iceberg="",
    ),
    Form("hive column or another", "q = 'c' OR x < 500", lambda f, c: (f("q") == "c") | (f("x") < 500), table="hive", iceberg=""),
    Form(
        "hive column in an expression", "p % 2 = 1 AND upper(q) = 'B'", polars="(pl.col('p') % 2 == 1) & (pl.col('q').str.to_uppercase() == 'B')",
        arrow=lambda f, c: (f("p") - f("p") / 2 * 2 == 1) & (c.utf8_upper(f("q")) == "B"), table="hive", iceberg="",
    ),
    Form("bloom filter, integer", "h = 549755813889", lambda f, c: f("h") == 549755813889),
    Form(
        "bloom filter, text", "u IN ('0123456789abc', '0f')", lambda f, c: f("u").isin(["0123456789abc", "0f"]),
        polars="pl.col('u').is_in(['0123456789abc', '0f'])",
    ),
)  # fmt: skip


def _floats(table: str) -> tuple[Form, ...]:
    """f and `one` hold NaN in some groups."""
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
    *COMPARISONS, *TEXTS, *SCALARS, *TREES, *FILES,
    *(form for t in ("floats", "floats by Spark", "floats by Polars", "floats by DuckDB") for form in _floats(t)),
)  # fmt: skip
