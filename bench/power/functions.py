"""Forms of `power` with functions: of texts, numbers, dates and several columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Final

from bench.power.form import Form

DAY: Final = dt.date(2022, 3, 1)

ELEMENTS: Final = (
    Form(
        "array_contains", "array_contains(l, 700)", duckdb="list_contains(l, 700)",
        polars="pl.col('l').list.contains(700)", datafusion="array_has(l, 700)", iceberg="",
        table="elements",
    ),
    Form(
        "exists", "exists(l, v -> v BETWEEN 1210 AND 1260)",
        duckdb="len(list_filter(l, lambda v: v BETWEEN 1210 AND 1260)) > 0",
        polars="pl.col('l').list.eval(pl.element().is_between(1210, 1260)).list.any()",
        datafusion="", iceberg="", table="elements",
    ),
    Form(
        "greatest element", "array_max(l) > 1800", duckdb="list_max(l) > 1800",
        polars="pl.col('l').list.max() > 1800", datafusion="array_max(l) > 1800", iceberg="",
        table="elements",
    ),
    Form(
        "value of a key", "p['k12'] > 0", duckdb="p['k12'] > 0", polars="",
        datafusion="p['k12'] > 0", iceberg="", table="elements",
    ),
)  # fmt: skip
TEXTS: Final = (
    Form("LIKE prefix", "s LIKE 'charlie%'", lambda f, c: c.starts_with(f("s"), "charlie")),
    Form(
        "NOT LIKE prefix", "s NOT LIKE 'charlie%'", lambda f, c: ~c.starts_with(f("s"), "charlie"),
    ),
    Form("LIKE without wildcard", "k LIKE 'k3x3'", lambda f, c: c.match_like(f("k"), "k3x3")),
    Form(
        "LIKE with escape", "e LIKE '77!%%' ESCAPE '!'",
        lambda f, c: c.match_like(f("e"), "77\\%%"), polars="pl.col('e').str.starts_with('77%')",
        datafusion=r"e LIKE '77\%%'", iceberg=r"e LIKE '77\%%'",
    ),
    Form(
        "LIKE with _, single-valued", "k LIKE '_3x_'", lambda f, c: c.match_like(f("k"), "_3x_"),
        polars="pl.col('k').str.contains('^.3x.$')", iceberg="",
    ),
    Form(
        "LIKE '%part%', single-valued", "k LIKE '%3x%'",
        lambda f, c: c.match_substring(f("k"), "3x"),
        polars="pl.col('k').str.contains('3x', literal=True)", iceberg="",
    ),
    Form(
        "LIKE prefix and more", "s LIKE 'charlie%7'",
        lambda f, c: c.match_like(f("s"), "charlie%7"),
        polars="pl.col('s').str.contains('^charlie.*7$')",
    ),
    Form(
        "ILIKE, single-valued", "k ILIKE 'K3%'",
        lambda f, c: c.match_like(f("k"), "K3%", ignore_case=True),
        polars="pl.col('k').str.contains('(?i)^k3')",
    ),
    Form(
        "RLIKE anchored", "s RLIKE '^delta-'",
        lambda f, c: c.match_substring_regex(f("s"), "^delta-"),
        duckdb="regexp_matches(s, '^delta-')", polars="pl.col('s').str.contains('^delta-')",
        datafusion="s ~ '^delta-'",
    ),
    Form(
        "RLIKE, single-valued", "k RLIKE '[34]x'",
        lambda f, c: c.match_substring_regex(f("k"), "[34]x"), duckdb="regexp_matches(k, '[34]x')",
        polars="pl.col('k').str.contains('[34]x')", datafusion="k ~ '[34]x'",
    ),
    Form(
        "starts_with", "startswith(s, 'echo')", lambda f, c: c.starts_with(f("s"), "echo"),
        duckdb="starts_with(s, 'echo')", polars="pl.col('s').str.starts_with('echo')",
        datafusion="starts_with(s, 'echo')", iceberg="s LIKE 'echo%'",
    ),
    Form(
        "length, single-valued", "length(k) = 5", lambda f, c: c.utf8_length(f("k")) == 5,
        polars="pl.col('k').str.len_chars() == 5",
    ),
    Form(
        "substring from the start", "substr(s, 1, 4) = 'golf'",
        lambda f, c: c.utf8_slice_codeunits(f("s"), 0, 4) == "golf",
        polars="pl.col('s').str.slice(0, 4) == 'golf'",
    ),
    Form(
        "upper", "upper(s) = 'HOTEL-500'", lambda f, c: c.utf8_upper(f("s")) == "HOTEL-500",
        polars="pl.col('s').str.to_uppercase() == 'HOTEL-500'",
    ),
    Form(
        "lower, single-valued", "lower(k) = 'k3x3'", lambda f, c: c.utf8_lower(f("k")) == "k3x3",
        polars="pl.col('k').str.to_lowercase() == 'k3x3'",
    ),
    Form(
        "substring behind a shared start", "substr(s, 2, 3) = 'olf'",
        lambda f, c: c.utf8_slice_codeunits(f("s"), 1, 4) == "olf",
        polars="pl.col('s').str.slice(1, 3) == 'olf'",
    ),
    Form(
        "replace, single-valued", "replace(k, 'x', '-') = 'k3-3'",
        lambda f, c: c.replace_substring(f("k"), "x", "-") == "k3-3",
        polars="pl.col('k').str.replace_all('x', '-', literal=True) == 'k3-3'",
    ),
    Form("reverse, single-valued", "reverse(k) = '3x3k'"),
    Form(
        "concat", "concat('no. ', s) < 'no. bravo'",
        lambda f, c: (
            c.binary_join_element_wise(c.scalar("no. "), f("s"), c.scalar("")) < "no. bravo"
        ),
    ),
)  # fmt: skip

SCALARS: Final = (
    Form(
        "cast int to double", "CAST(i AS DOUBLE) > 1500.5",
        lambda f, c: f("i").cast("double") > 1500.5,
    ),
    Form("cast bigint to int", "CAST(x AS INT) < 500", lambda f, c: f("x").cast("int32") < 500),
    Form(
        "cast to string, single-valued", "CAST(c AS STRING) = '3'",
        lambda f, c: f("c").cast("string") == "3",
    ),
    Form(
        "cast date to timestamp", "CAST(d AS TIMESTAMP) >= TIMESTAMP '2022-03-01 00:00:00Z'",
        lambda f, c: f("d").cast("timestamp[us]") >= dt.datetime(2022, 3, 1),
        duckdb="CAST(d AS TIMESTAMP) >= TIMESTAMP '2022-03-01 00:00:00'",
        polars="pl.col('d').cast(pl.Datetime('us')) >= datetime(2022, 3, 1)",
        datafusion="CAST(d AS TIMESTAMP) >= TIMESTAMP '2022-03-01 00:00:00'",
    ),
    Form(
        "cast timestamp to date", "CAST(n AS DATE) = DATE '2022-03-01'",
        lambda f, c: f("n").cast("date32") == DAY,
    ),
    Form(
        "TRY_CAST", "TRY_CAST(x AS SMALLINT) > 3500", duckdb="TRY_CAST(x AS SMALLINT) > 3500",
        polars="pl.col('x').cast(pl.Int16, strict=False) > 3500",
    ),
    Form("x + 1", "x + 1 > 3301", lambda f, c: f("x") + 1 > 3301),
    Form("-x", "-x > -700", lambda f, c: c.negate(f("x")) > -700),
    Form("x * 2", "x * 2 <= 1400", lambda f, c: f("x") * 2 <= 1400),
    Form(
        "x / 2", "x / 2 < 350", lambda f, c: f("x").cast("double") / 2 < 350,
        datafusion="x / 2.0 < 350",
    ),
    Form(
        "bits, single-valued", "c & 1 = 1", lambda f, c: c.bit_wise_and(f("c"), 1) == 1,
        polars="(pl.col('c') & 1) == 1", datafusion="(c & 1) = 1",
    ),
    Form(
        "power, single-valued", "pow(c, 2) = 9",
        lambda f, c: c.power(f("c").cast("double"), 2.0) == 9, polars="pl.col('c').pow(2) == 9",
    ),
    Form("x + y", "x + y > 5000", lambda f, c: f("x") + f("y") > 5000),
    Form(
        "x % 7, single-valued", "c % 3 = 1", lambda f, c: f("c") - f("c") / 3 * 3 == 1,
        polars="pl.col('c') % 3 == 1",
    ),
    Form(
        "x % 7, a range", "x % 7 > 6", lambda f, c: f("x") - f("x") / 7 * 7 > 6,
        polars="pl.col('x') % 7 > 6",
    ),
    Form("x - y", "x - y > 1500", lambda f, c: f("x") - f("y") > 1500),
    Form(
        "decimal arithmetic", "m * 2 - 10 > 300",
        lambda f, c: f("m") * Decimal(2) - Decimal(10) > Decimal(300),
    ),
    Form("abs", "abs(i) > 1500", lambda f, c: c.abs(f("i")) > 1500),
    Form(
        "floor", "floor(v) < -100", lambda f, c: c.floor(f("v")) < -100,
        polars="pl.col('v').floor() < -100",
    ),
    Form(
        "year", "year(d) = 2021", lambda f, c: c.year(f("d")) == 2021,
        polars="pl.col('d').dt.year() == 2021", datafusion="date_part('year', d) = 2021",
    ),
    Form(
        "month, within one year",
        "month(d) = 2 AND d >= DATE '2021-01-01' AND d < DATE '2021-12-31'",
        lambda f, c: (
            (c.month(f("d")) == 2)
            & (f("d") >= dt.date(2021, 1, 1))
            & (f("d") < dt.date(2021, 12, 31))
        ),
        polars="(pl.col('d').dt.month() == 2) & (pl.col('d') >= date(2021, 1, 1))"
        " & (pl.col('d') < date(2021, 12, 31))",
        datafusion="date_part('month', d) = 2 AND d >= DATE '2021-01-01' AND d < DATE '2021-12-31'",
    ),
    Form(
        "month", "month(d) = 2", lambda f, c: c.month(f("d")) == 2,
        polars="pl.col('d').dt.month() == 2", datafusion="date_part('month', d) = 2",
    ),
    Form(
        "date_part", "date_part('year', d) = 2021", lambda f, c: c.year(f("d")) == 2021,
        polars="pl.col('d').dt.year() == 2021",
    ),
    Form(
        "date as text", "CAST(d AS STRING) LIKE '2022-03%'",
        lambda f, c: c.starts_with(f("d").cast("string"), "2022-03"),
    ),
    Form(
        "day, out of range", "day(d) > 31", lambda f, c: c.day(f("d")) > 31,
        polars="pl.col('d').dt.day() > 31", datafusion="date_part('day', d) > 31",
    ),
    Form(
        "date_trunc", "date_trunc('month', n) = TIMESTAMP '2022-03-01 00:00:00'",
        lambda f, c: c.floor_temporal(f("n"), 1, "month") == dt.datetime(2022, 3, 1),
        polars="pl.col('n').dt.truncate('1mo') == datetime(2022, 3, 1)",
    ),
    Form(
        "to_date", "to_date(n) < DATE '2020-06-01'",
        lambda f, c: f("n").cast("date32") < dt.date(2020, 6, 1),
        duckdb="n::DATE < DATE '2020-06-01'", polars="pl.col('n').dt.date() < date(2020, 6, 1)",
    ),
    Form(
        "date_add", "date_add(d, 7) < DATE '2020-06-01'",
        lambda f, c: f("d").cast("timestamp[us]") + dt.timedelta(7) < dt.datetime(2020, 6, 1),
        duckdb="d + 7 < DATE '2020-06-01'", datafusion="d + INTERVAL '7 days' < DATE '2020-06-01'",
        polars="pl.col('d').dt.offset_by('7d') < date(2020, 6, 1)",
    ),
    Form("coalesce", "coalesce(x, 0) > 3300", lambda f, c: c.coalesce(f("x"), 0) > 3300),
    Form(
        "CASE", "CASE WHEN x < 1000 THEN 1 WHEN x < 2000 THEN 2 ELSE 3 END = 1",
        lambda f, c: c.if_else(f("x") < 1000, 1, c.if_else(f("x") < 2000, 2, 3)) == 1,
    ),
    Form(
        "greatest", "greatest(x, y) < 1500",
        lambda f, c: c.max_element_wise(f("x"), f("y"), skip_nulls=True) < 1500,
        polars="pl.max_horizontal('x', 'y') < 1500",
    ),
    Form("column < column", "x < y", lambda f, c: f("x") < f("y")),
    Form("column = column", "x = y", lambda f, c: f("x") == f("y")),
    Form(
        "column <=> column", "x <=> y",
        lambda f, c: c.if_else(f("x").is_null(), f("y").is_null(), f("x") == f("y")),
        duckdb="x IS NOT DISTINCT FROM y", datafusion="x IS NOT DISTINCT FROM y",
        polars="pl.col('x').eq_missing(pl.col('y'))",
    ),
    Form(
        "any expression, single-valued",
        "concat(upper(k), '!', CAST(c * c + 1 AS STRING)) = 'K3X3!10'",
        lambda f, c: (
            c.binary_join_element_wise(
                c.utf8_upper(f("k")), (f("c") * f("c") + 1).cast("string"), c.scalar("!")
            )
            == "K3X3!10"
        ),
        polars="(pl.col('k').str.to_uppercase() + '!'"
        " + (pl.col('c') * pl.col('c') + 1).cast(pl.String)) == 'K3X3!10'",
    ),
)  # fmt: skip
