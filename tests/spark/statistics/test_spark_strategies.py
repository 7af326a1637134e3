"""Where a DataFrame holds statistics, which strategy judges them, and what each Spark lacks."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.spark.session import session as sessions
from skipstone.bindings.spark.statistics import udf as udfs
from skipstone.bindings.spark.statistics.judge import Judge
from skipstone.bindings.spark.statistics.needed import needed_statistics
from skipstone.bindings.spark.statistics.verdict import choose_strategy
from skipstone.kernels.run import compile_cache
from skipstone.spark import keep_udf, to_column, verdict_udf, with_verdict
from tests.support.spark.session import HAS_ARROW_UDF, QUIET
from tests.support.spark.statistics import STRATEGIES, answers, plan_of
from tests.support.statistics.blooms import bloom

pytestmark = pytest.mark.filterwarnings(QUIET)

SCHEMA = pa.schema([
    ("x", pa.int64()), ("s", pa.string()),
    ("a", pa.struct([("b", pa.int32()), ("min", pa.int32())])), ("odd `name`.50%", pa.int64()),
    ("f", pa.float64()),
])  # fmt: skip


# Placement of statistics.

#     columns of the DataFrame, in SQL                           columns=  predicate        verdict
PLACES: list[tuple[str, dict[str, Any], str, int]] = [
    ("named_struct('min', 1L, 'max', 4L) AS x",                  {}, "x = 5",                  0),
    ("named_struct('MIN', 1L, 'Max', 9L, 'NULL_COUNT', 0) AS X, 3 AS row_count", {}, "x >= 1", 2),
    ("named_struct('min', 1L, 'max', 4L) AS x, 9L AS `x.max`",   {}, "x = 5",                  1),
    ("9L AS `x.max`, named_struct('min', 1L, 'max', 4L) AS x",   {}, "x = 5",                  1),
    # see below
    ("named_struct('min', 1L, 'min', 9L, 'max', 4L) AS x",       {}, "x < 1",                  0),
    ("named_struct('b', named_struct('min', 1, 'max', 4)) AS a", {}, "a.b = 5",                0),
    ("named_struct('b', named_struct('max', 4), 'min', named_struct('max', 4)) AS a", {},
     "a.min = 5", 0),
    ("named_struct('min', 7L) AS `odd ``name``.50%`",            {}, "`odd ``name``.50%` < 7", 0),
    ("7L AS `odd ``name``.50%.min`",                             {}, "`odd ``name``.50%` < 7", 0),
    ("named_struct('u', named_struct('max', 4L, 'min', 1L)) AS st", {"x": "st.u"}, "x = 5", 0),
    ("4L AS `hi.there`", {"x.max": "`hi.there`"}, "x = 5", 0),
    ("4L AS `x.max`, 9L AS other", {"x.max": "other"}, "x = 5", 1),
    ("array(1L, 2L) AS `x.values`",                              {}, "x = 5",                  0),
    ("named_struct('values', array(1L, 2L)) AS x",               {}, "x IN (5, 7)",            0),
    ("NULL AS x, 4L AS `x.max`",                                 {}, "x = 5",                  0),
    ("1 AS skipstone_0, 4L AS `x.max`, 2 AS `verdict 0`",        {}, "x = 5",                  0),
]  # fmt: skip
# A struct with two fields of one name is ambiguous, so this name has no statistics.
PLACES[4] = (*PLACES[4][:3], 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_places(spark: Any, strategy: str) -> None:
    for sql, columns, text, verdict in (
        PLACES if strategy == "native" else PLACES[STRATEGIES.index(strategy) :: 5]
    ):
        df = spark.sql(f"SELECT {sql}")
        judged = with_verdict(df, ss.PruningPredicate(text, SCHEMA), columns, strategy=strategy)
        assert (judged.columns, [f.dataType for f in judged.schema[:-1]]) == (
            [*df.columns, "verdict"],
            [f.dataType for f in df.schema],
        )
        assert answers(judged) == [verdict], sql


def test_expressions_are_places_too(spark: Any, connect: Any) -> None:
    from pyspark.sql import functions as classic
    from pyspark.sql.connect import functions as remote

    predicate = ss.PruningPredicate("x = 5", SCHEMA)
    for session, F in ((spark, classic), (connect, remote)):
        df = session.sql("SELECT 2L AS lo, named_struct('hi', 3L) AS st, 5L AS skipstone_0")
        columns = {"x.min": F.col("lo") + 1, "x.max": F.col("st.hi") + 1}
        for strategy in STRATEGIES if session is connect else STRATEGIES[:2]:
            judged = with_verdict(df, predicate, columns, strategy=strategy)
            assert (judged.columns, judged.collect()[0][-1]) == ([*df.columns, "verdict"], 0), (
                strategy
            )
        named = {"x.max": F.col("st").getField("hi")}
        assert df.select(
            to_column(predicate, named), to_column(predicate, named, df=df, answer="keep")
        ).collect()[0] == (0, False)
        udf = verdict_udf(predicate, kind="arrow" if HAS_ARROW_UDF else "pandas")
        assert df.select(udf("lo", F.col("st.hi"), *[F.lit(None)] * 3)).collect()[0] == (0,)


def test_two_columns_of_one_name(spark: Any) -> None:
    df = spark.sql("SELECT 1 AS k, 4L AS `x.max`").join(spark.sql("SELECT 2 AS k"))
    for strategy in STRATEGIES:
        assert with_verdict(df, ss.PruningPredicate("x = 5", SCHEMA), strategy=strategy).collect()[
            0
        ] == (1, 4, 2, 0)


def test_case_matters_where_the_session_says_so(spark: Any) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        df = spark.sql("SELECT 9L AS `X.MAX`, 4L AS `x.max`, 1 AS VERDICT")
        assert with_verdict(df, ss.PruningPredicate("x = 5", SCHEMA)).collect()[0][-1] == 0
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_bloom_filters_go_to_a_kernel(spark: Any) -> None:
    df = spark.createDataFrame(
        [
            (bytearray(bloom([v.to_bytes(8, "little") for v in (1, 2, 3)])),),
            (None,),
            (bytearray(b"odd"),),
        ],
        "`x.bloom` binary",
    ).coalesce(1)
    predicate = ss.PruningPredicate("x = 5000", SCHEMA)
    with pytest.raises(
        ss.UnsupportedForm, match=r"bloom filters of x are probed by kernels\. Use with_verdict"
    ):
        to_column(predicate, df=df)
    for strategy in ("auto", *STRATEGIES[1:]):
        assert [r[-1] for r in with_verdict(df, predicate, strategy=strategy).collect()] == [
            0,
            1,
            1,
        ]


# Strategies.

LONG_LIST = f"x IN ({', '.join(map(str, range(0, 20_000, 2)))})"
#   predicate          Spark   strategy         taken
CHOICES = [
    ("x = 5",          (4, 3), "auto",          "native"),
    ("x IN (1, 3, 5)", (4, 0), "auto",          "native"),
    (LONG_LIST,        (4, 1), "auto",          "arrow_udf"),
    (LONG_LIST,        (4, 0), "auto",          "pandas_udf"),
    ("abs(x) = 5",     (5, 0), "auto",          "arrow_udf"),
    ("abs(x) = 5",     (4, 0), "auto",          "pandas_udf"),
    ("x = 5",          (4, 0), "map_in_arrow",  "map_in_arrow"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "version", "strategy", "taken"), CHOICES)
def test_choices(text: str, version: tuple[int, int], strategy: Any, taken: str) -> None:
    assert choose_strategy(strategy, ss.PruningPredicate(text, SCHEMA), {}, version) == taken


def test_native_judges_where_the_plan_shows_no_python(spark: Any) -> None:
    df = spark.sql("SELECT 1L AS `x.min`, 4L AS `x.max`")
    assert "Python" not in plan_of(
        with_verdict(df, "x = 5", schema=SCHEMA)
    ) and "Python" in plan_of(with_verdict(df, LONG_LIST, schema=SCHEMA))


def expression(_: Any) -> Any:
    from pyspark.sql import functions as F

    return to_column("x = 5", {"x.max": F.col("`x.max`") + 1}, schema=SCHEMA)


#     call, error, message
ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda df: to_column("abs(x) = 5", schema=SCHEMA, df=df), ss.UnsupportedForm,
     r"statistics of abs\(x\) are derived by"),
    (lambda df: with_verdict(df, "abs(x) = 5", schema=SCHEMA, strategy="native"),
     ss.UnsupportedForm, r"strategy='auto', 'arrow_udf'"),
    (expression, ss.StatisticsError, r"an expression for 'x\.max'; expected a column"),
    (lambda df: to_column("x = 5", {"x.mean": "m"}, schema=SCHEMA), ss.StatisticsError,
     r"names 'x\.mean', which is not a statistic"),
    (lambda df: to_column("x = 5", {"x": "m"}, schema=SCHEMA), ss.StatisticsError,
     r"or df= with structs"),
    (lambda df: with_verdict(df, "x = 5", schema=SCHEMA, strategy="fast"), ss.SkipstoneError,
     r"'fast' is not known; expected one of auto"),
    (lambda df: choose_strategy("arrow_udf", P, {}, (4, 0)), ss.BackendMissing,
     r"needs Spark 4\.1 or newer, and this is 4\.0; use"),
]  # fmt: skip
P = ss.PruningPredicate("x = 5", SCHEMA)


@pytest.mark.parametrize(("act", "error", "message"), ERRORS)
def test_errors(
    spark: Any, act: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        act(spark.sql("SELECT 5L AS `x.max`"))


@pytest.mark.parametrize(
    ("version", "fails"),
    [("3.5.6", True), ("4.0.0", False), ("4.9.0.dev0", False), ("5.0.0", False)],
)
def test_an_old_pyspark_is_named(monkeypatch: Any, version: str, fails: bool) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", version)
    if fails:
        with pytest.raises(
            ss.BackendMissing,
            match=r"needs pyspark 4.0 or newer, and 3.5.6 is installed: pip install",
        ):
            sessions.require_pyspark()
    else:
        sessions.require_pyspark()


def test_a_pyspark_without_arrow_udfs_is_named(monkeypatch: Any) -> None:
    functions = pytest.importorskip("pyspark.sql.functions")
    monkeypatch.delattr(functions, "arrow_udf", raising=False)
    with pytest.raises(ss.BackendMissing, match=r"Arrow UDFs need pyspark 4\.1 or newer"):
        udfs.keep_udf(P, kind="arrow")


# Workers.


def test_a_judge_is_made_once_in_a_process() -> None:
    judge = Judge.of(P, needed_statistics(P))
    first, second = (pickle.loads(pickle.dumps(judge)) for _ in range(2))
    assert first is second and first == judge and first.predicate == P


def test_workers_make_a_predicate_once_and_share_kernels(spark: Any, tmp_path: Any) -> None:
    """Two workers judge small batches, first with NumPy, then with one kernel.

    One of them compiled this kernel, and the other loaded it.
    """
    judge = Judge.of(
        ss.PruningPredicate("x > 7 AND x < 900000 OR x = 3", SCHEMA), needed_statistics(P)[:2]
    )
    fields = "pid long, judge long, backends string, misses long, hits long, wrong long"

    def watched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from skipstone.kernels.run import compile_cache

        wrong = judged = 0
        for batch in [*batches] * 400:
            found = judge.answers([batch.column(0), batch.column(1)], len(batch), "keep")
            wrong += int((found != (batch.column(1).to_numpy() > 7)).sum())
            judged += len(batch)
            if "numba" in judge.predicate.backends_text:
                break
            time.sleep(0.02 if judged > 100_000 else 0)
        stats = [k.stats for k in compile_cache._kernels.values()]
        misses, hits = (
            sum(sum(getattr(s, w).values()) for s in stats) for w in ("cache_misses", "cache_hits")
        )
        row = {
            "pid": os.getpid(),
            "judge": id(judge),
            "backends": judge.predicate.backends_text,
            "misses": misses,
            "hits": hits,
            "wrong": wrong,
        }
        yield pa.RecordBatch.from_pylist([row])

    environment = spark.sparkContext.environment
    environment["SKIPSTONE_CACHE_DIR"] = str(tmp_path)
    try:
        # Both partitions run at once, each in its own worker; their bounds have one NumPy type, so
        # one kernel serves both.
        df = spark.range(0, 20_000, 1, 2).selectExpr("id % 10000 AS lo", "id % 10000 + 20000 AS hi")
        runs = [df.mapInArrow(watched, fields).collect() for _ in range(2)]
    finally:
        del environment["SKIPSTONE_CACHE_DIR"]
    rows = [r for rows in runs for r in rows]
    assert all("numpy" in r.backends and "numba" in r.backends and r.wrong == 0 for r in runs[0])
    by_pid = {r.pid: {other.judge for other in rows if other.pid == r.pid} for r in rows}
    assert len(by_pid) == 2 and all(len(judges) == 1 for judges in by_pid.values())
    assert sorted((r.misses, r.hits) for r in runs[0]) == [(0, 1), (1, 0)]
    assert (
        len(list(tmp_path.rglob("skipstone_kernel_*.py"))) == 1
        and compile_cache.directory() not in tmp_path.parents
    )


def test_by_name_in_sql(spark: Any) -> None:
    spark.sql(
        "SELECT 9007199254740993L AS lo, CAST(NULL AS BIGINT) AS hi UNION ALL SELECT NULL, 3L"
    ).coalesce(1).createOrReplaceTempView("files")
    for kind, expected in [("arrow", [False, True])] * HAS_ARROW_UDF + [("pandas", [False, True])]:
        spark.udf.register(
            "keep", keep_udf(ss.PruningPredicate("x <= 9007199254740991", SCHEMA), kind=kind)
        )
        assert [
            r[0] for r in spark.sql("SELECT keep(lo, hi, NULL, NULL, NULL) FROM files").collect()
        ] == expected


@pytest.mark.parametrize("strategy", dict.fromkeys(STRATEGIES))
def test_fields_of_a_struct_with_the_name_of_its_view(spark: Any, strategy: Any) -> None:
    """In `x.min`, Spark takes `x` for the view: the column `min` is not the struct's field."""
    from pyspark.sql import functions as F

    schema = pa.schema([("x", pa.int32())])
    df = spark.sql("SELECT named_struct('min', 0, 'max', 9) AS x, 100 AS `min`, 200 AS `max`")
    judged = with_verdict(df.alias("x"), "x < 50", schema=schema, strategy=strategy)
    assert judged.collect()[0]["verdict"] == 1
    inner = "named_struct('x', named_struct('min', 0))"
    df = spark.sql(f"SELECT {inner} AS a, named_struct('min', 99) AS x")
    places = {"x": F.col("a")["x"]}
    judged = with_verdict(df.alias("a"), "x < 50", places, schema=schema, strategy=strategy)
    assert judged.collect()[0]["verdict"] == 1
