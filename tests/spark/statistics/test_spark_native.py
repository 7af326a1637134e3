"""Predicates as native Spark expressions equal `evaluate` bit for bit, for all odd statistics."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.spark.statistics.native_expression import obstacle
from skipstone.spark import keep_udf, to_column, with_verdict
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate as random_predicate
from tests.support.rows.strategies import Field
from tests.support.spark.session import QUIET
from tests.support.spark.statistics import (
    ODD,
    PREDICATES,
    SCHEMA,
    STRATEGIES,
    TYPES,
    frame,
    random_statistics,
)

pytestmark = pytest.mark.filterwarnings(QUIET)

FIELDS = tuple(Field((name,), t) for name, (_, t, _) in TYPES.items())
# The forms of a long list, a range and a mixture of both.
LISTS = [
    f"l IN ({', '.join(map(str, range(-40, 400, 3)))}, 9007199254740993)",
    f"i NOT IN ({', '.join(map(str, range(-5, 6)))})",
    f"i8 IN ({', '.join(map(str, range(-128, 128)))})",
    f"NOT (i8 IN ({', '.join(map(str, range(-128, 128)))}))",
    "b IN (true, false)", "b NOT IN (true, false)", "f IN (0.0, 5.5, DOUBLE('Infinity'))",
    "g NOT IN (-0.0, 5.5)",
    "s IN ('', 'a', 'ab', 'abc', 'é')", "s NOT IN ('ab', '')", "y IN (X'', X'61', X'ff')",
    "m IN (0, 5.5, 5.49)", "m NOT IN (0, 0.01, 0.02)",
    "w IN (5.0000000001, 0)", "d IN (DATE'2024-02-29', DATE'1970-01-01')",
    "d NOT IN (DATE'2024-02-29')",
    "t IN (TIMESTAMP'2024-10-27 00:30:00Z', TIMESTAMP'2024-10-27 01:30:00Z')",
    "n NOT IN (TIMESTAMP_NTZ'2024-10-27 00:30:00')",
    "l IN (5) OR (g IN (5.5) AND s <> 'a')",
]  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return random_statistics(4000 if LONG else 300, seed=11)


@pytest.fixture(scope="module")
def stats(table: pa.Table) -> ss.Statistics:
    return ss.Statistics.from_arrow(table, SCHEMA)


def natively(
    df: Any, predicates: list[ss.PruningPredicate], *, known: bool = True, answer: str = "verdict"
) -> list[list[Any]]:
    """Return the results of native expressions, one list per predicate."""
    columns = [to_column(p, df=df if known else None, answer=answer) for p in predicates]
    found = (
        df.select("at", *(c.alias(f"p{i}") for i, c in enumerate(columns))).toArrow().sort_by("at")
    )
    return [found.column(i).to_pylist() for i in range(1, len(columns) + 1)]


def bound(texts: list[str]) -> list[ss.PruningPredicate]:
    """Return the predicates that have a native form."""
    predicates = [ss.PruningPredicate(text, SCHEMA) for text in texts]
    return [p for p in predicates if obstacle(p.program, {}) is None]


@pytest.mark.parametrize("session", ["spark", "connect"])
@pytest.mark.parametrize("answer", ["verdict", "keep"])
def test_it_equals_evaluate(
    request: Any, table: pa.Table, stats: ss.Statistics, session: str, answer: str
) -> None:
    texts = PREDICATES + LISTS if session == "spark" else (PREDICATES + LISTS)[::3]
    predicates = bound(texts if answer == "verdict" else texts[::4])
    for p, found in zip(
        predicates,
        natively(frame(request.getfixturevalue(session), table), predicates, answer=answer),
        strict=True,
    ):
        assert found == (p.prune(stats) if answer == "keep" else p.evaluate(stats)).tolist(), p


def test_it_equals_evaluate_where_types_are_only_assumed_in_any_session(
    spark: Any, table: pa.Table, stats: ss.Statistics
) -> None:
    odd = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.parser.escapedStringLiterals": "true",
    }
    predicates = bound((PREDICATES + LISTS)[1::3])
    lacking = {c for p in predicates for c in keep_udf(p).columns} - set(table.column_names)
    df = frame(spark, table).selectExpr(
        "*", *(f"CAST(NULL AS BIGINT) AS `{c}`" for c in sorted(lacking))
    )
    for key, value in odd.items():
        spark.conf.set(key, value)
    try:
        answered = natively(df, predicates, known=False)
    finally:
        for key in odd:
            spark.conf.unset(key)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for p, found in zip(predicates, answered, strict=True):
        assert found == p.evaluate(stats).tolist(), p


@pytest.mark.parametrize("seed", range(40 if LONG else 1))
def test_random_predicates(spark: Any, table: pa.Table, stats: ss.Statistics, seed: int) -> None:
    r = random.Random(seed)
    predicates = bound(
        [
            random_predicate(r, FIELDS, depth=r.choice((0, 1, 2, 2, 3))).sql
            for _ in range(40 if LONG else 24)
        ]
    )
    assert len(predicates) > (20 if LONG else 12)
    for p, found in zip(predicates, natively(frame(spark, table), predicates), strict=True):
        assert found == p.evaluate(stats).tolist(), p


COUNTS = [None, -(2**63), -1, 0, 9, 10, 2**63 - 1]
INTEGERS, FLOATS = [None, 5, 7], [None, 5.5, 7.5, float("nan")]
CONTRADICTED = [
    "{c} = 5.5", "{c} <> 6", "{c} < 6", "{c} >= 7", "{c} <=> 6", "{c} IS NULL",
    "{c} IS NOT NULL", "NOT ({c} < 6)", "{c} IN (4, 5, 7)", "{c} NOT IN (4, 6)",
    "{c} > 6 OR {c} IS NULL", "{c} < 6 AND {c} IS NOT NULL",
]  # fmt: skip


@pytest.mark.parametrize("column", ["l", "g"])
def test_it_equals_evaluate_for_all_counts_and_bounds_that_contradict(
    spark: Any, column: str
) -> None:
    floating = column == "g"
    bounds = FLOATS if floating else INTEGERS
    statistics = {
        "min": bounds, "max": bounds, "null_count": COUNTS,
        **({"nan_count": COUNTS} if floating else {}), "row_count": COUNTS,
    }  # fmt: skip
    rows = list(itertools.product(*statistics.values()))
    table = pa.table({
        "row_count" if name == "row_count" else f"{column}.{name}": pa.array(
            [row[i] for row in rows], pa.float64() if floating and i < 2 else pa.int64()
        )
        for i, name in enumerate(statistics)
    })  # fmt: skip
    predicates = bound([text.format(c=column) for text in CONTRADICTED])
    stats = ss.Statistics.from_arrow(table, SCHEMA)
    df = frame(spark, table)
    kept = natively(df, predicates, answer="keep")
    assert kept == [p.prune(stats).tolist() for p in predicates]
    for p, found in zip(predicates, natively(df, predicates), strict=True):
        expected = p.evaluate(stats).tolist()
        assert [(r, a, b) for r, a, b in zip(rows, found, expected, strict=True) if a != b] == [], p


def test_every_strategy_agrees_on_odd_types(spark: Any) -> None:
    """Statistics have other types than their columns; each strategy judges all cases in one row."""
    split = [
        (sql.rsplit(" AS ", 1), text, verdict)
        for sql, text, verdict in ODD + MORE
        if ", " not in sql
    ]
    df = spark.sql(
        "SELECT 0 AS at, " + ", ".join(f"{sql} AS c{i}" for i, ((sql, _), _, _) in enumerate(split))
    )
    cases = [
        (ss.PruningPredicate(text, WIDE), {name.strip("`"): f"c{i}"})
        for i, ((_, name), text, _) in enumerate(split)
    ]
    natively = (
        df.select(
            *(to_column(p, where, df=df).alias(f"v{i}") for i, (p, where) in enumerate(cases))
        )
        .collect()[0]
        .asDict()
    )
    for start, strategy in enumerate(STRATEGIES[1:]):
        judged = df
        for i, (p, where) in list(enumerate(cases))[:: 1 if LONG else 9][start:]:
            judged = with_verdict(judged, p, where, strategy=strategy).withColumnRenamed(
                "verdict", f"v{i}"
            )
        found = (
            judged.select(*(c for c in judged.columns if c.startswith("v"))).collect()[0].asDict()
        )
        assert {k: natively[k] for k in found} == found, strategy
    assert [
        (sql, name, text, natively[f"v{i}"])
        for i, ((sql, name), text, verdict) in enumerate(split)
        if natively[f"v{i}"] != verdict
    ] == []


WIDE = pa.schema([
    *SCHEMA, ("u8", pa.uint8()), ("u64", pa.uint64()), ("ts", pa.timestamp("s", "UTC")),
    ("tms", pa.timestamp("ms")), ("tns", pa.timestamp("ns", "UTC")),
    pa.field("must", pa.int32(), False), ("st", pa.struct([("v", pa.int32())])),
    ("p", pa.decimal128(5, 1)),
])  # fmt: skip
MORE = [
    ("300 AS `u8.max`",                               "u8 > 250",                               1),
    ("-1 AS `u8.min`",                                "u8 < 1",                                 1),
    ("7 AS `u64.min`",                                "u64 < 7",                                0),
    ("7 AS `u64.min`",                                "u64 <= 18446744073709551614",            1),
    ("9223372036854775807L AS `u64.max`",             "u64 >= 18446744073709551615",            0),
    ("TIMESTAMP'1969-12-31 23:59:59.5Z' AS `ts.min`", "ts < TIMESTAMP'1969-12-31 23:59:59Z'",   0),
    ("TIMESTAMP'1969-12-31 23:59:59.5Z' AS `ts.min`", "ts <= TIMESTAMP'1969-12-31 23:59:59Z'",  1),
    ("TIMESTAMP'1969-12-31 23:59:58.5Z' AS `ts.max`", "ts >= TIMESTAMP'1969-12-31 23:59:59Z'",  1),
    ("TIMESTAMP'1969-12-31 23:59:58.5Z' AS `ts.max`", "ts > TIMESTAMP'1969-12-31 23:59:59Z'",   0),
    ("TIMESTAMP_NTZ'2024-01-01 00:00:00.0001' AS `tms.max`",
     "tms > TIMESTAMP_NTZ'2024-01-01 00:00:00'", 1),
    ("TIMESTAMP'2024-01-01 00:00:00Z' AS `tns.max`",  "tns > TIMESTAMP'2024-01-01 00:00:00Z'",  0),
    ("TIMESTAMP'9999-12-31 00:00:00Z' AS `tns.max`",  "tns > TIMESTAMP'2024-01-01 00:00:00Z'",  1),
    ("timestamp_micros(9223372036854775807L) AS `t.max`", "t > TIMESTAMP'9999-01-01 00:00:00Z'", 1),
    ("timestamp_micros(-9223372036854775807L - 1) AS `t.min`",
     "t < TIMESTAMP'0001-01-01 00:00:00Z'", 1),
    ("date_add(DATE'9999-12-31', 1000) AS `d.min`",   "d <= DATE'9999-12-31'",                  0),
    # with too many digits it bounds nothing
    ("1.25 AS `p.max`",                               "p > 1.2",                                1),
    ("1.20 AS `p.max`",                               "p > 1.2",                                0),
    ("12345678901234567890123456789012345678BD AS `p.max`", "p > 1.2", 1),
    ("cast(1 AS decimal(38,37)) AS `w.max`",          "w > 1",                                  0),
    ("9007199254740993L AS `g.max`",                  "g > 9007199254740992",                   1),
    # may hold NaN
    ("1.00000001D AS `f.max`",                        "f > 1",                                  1),
    ("true AS `i.max`",                               "i > 5",                                  1),
    ("'5' AS `i.max`",                                "i > 5",                                  1),
    ("5 AS `s.max`",                                  "s > 'a'",                                1),
    ("X'41' AS `s.max`",                              "s > 'a'",                                1),
    ("'A' AS `y.max`",                                "y > X'61'",                              1),
    ("DATE'2024-01-01' AS `n.max`",                   "n > TIMESTAMP_NTZ'2024-01-02 00:00:00'", 1),
    ("map(1, 2) AS `l.max`",                          "l > 5",                                  1),
    ("INTERVAL '1' DAY AS `l.max`",                   "l > 5",                                  1),
    ("NULL AS `l.max`",                               "l > 5",                                  1),
    ("5L AS `must.null_count`",                       "must IS NULL",                           1),
    ("NULL AS `must.null_count`",                     "must IS NULL",                           0),
    # the struct may be NULL
    ("0L AS `st.v.null_count`",                       "st.v IS NULL",                           1),
    ("array(1L, 2L) AS `l.values`",                   "l IN (3, 4)",                            0),
    ("array(1L, 2L) AS `l.values`",                   "l = 1",                                  1),
    ("array(1L, NULL) AS `l.values`",                 "l IN (3, 4)",                            1),
    ("array('a', 'b') AS `s.values`",                 "s IN ('c')",                             0),
    ("array('a' COLLATE UTF8_LCASE) AS `s.values`",   "s IN ('A')",                             1),
    ("array(-0.0D, 1D) AS `g.values`",                "g IN (0.0, 3.0)",                        1),
    ("array(DOUBLE('NaN')) AS `g.values`",            "g IN (0.0, 3.0)",                        0),
    ("array(DATE'9999-12-31') AS `d.values`",         "d = DATE'2024-01-01'",                   0),
    ("array(TIMESTAMP'9999-12-31 00:00:00Z') AS `t.values`", "t = TIMESTAMP'2024-01-01 00:00:00Z'",
     0),
    ("array(TIMESTAMP_NTZ'9999-12-31 00:00:00') AS `n.values`",
     "n = TIMESTAMP_NTZ'2024-01-01 00:00:00'", 0),
    ("array(1.5BD) AS `m.values`",                    "m IN (1, 2)",                            0),
    ("cast(array() AS array<bigint>) AS `l.values`",  "l = 1",                                  0),
    ("cast(array() AS array<bigint>) AS `l.values`, 0L AS `l.null_count`, 9L AS `l.row_count`",
     "l = 1 AND l IS NOT NULL", 1),  # contradictions
    ("array(7L) AS `l.values`, 9L AS `l.null_count`, 9L AS `l.row_count`",
     "l = 1 AND l IS NOT NULL", 1),
    ("cast(array() AS array<bigint>) AS `l.values`, 5L AS `l.min`", "l = 9 AND l > 4", 1),
    ("array(7L) AS `l.values`, 8L AS `l.null_count`, 9L AS `l.row_count`",
     "l = 1 AND l IS NOT NULL", 0),
    ("7 AS `l.values`",                               "l = 1",                                  1),
]  # fmt: skip
