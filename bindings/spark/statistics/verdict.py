"""`with_verdict`: add exact verdicts to a DataFrame with one row per container."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.session.session import (
    fold_of,
    functions_of,
    is_connect,
    quiet,
    require_pyspark,
    spark_version,
)
from skipstone.bindings.spark.statistics.carry import exact_column, is_usable, split
from skipstone.bindings.spark.statistics.judge import Judge, over_batches
from skipstone.bindings.spark.statistics.locate import StatisticColumn, locate
from skipstone.bindings.spark.statistics.native_expression import obstacle, text_of, weight
from skipstone.bindings.spark.statistics.needed import Statistic, needed_statistics
from skipstone.bindings.spark.statistics.udf import make_udf, predicate_of
from skipstone.ir.errors import BackendMissing, SkipstoneError, StatisticsError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

VERDICT: Final = "verdict"
Strategy = Literal["auto", "native", "arrow_udf", "map_in_arrow", "pandas_udf"]
ARROW_UDF_SINCE: Final = (4, 1)
# The most tests, as `weight` counts them, for which a native expression was faster than a kernel.
MAX_NATIVE_WEIGHT: Final = 120


def with_verdict(
    df: DataFrame,
    predicate: PruningPredicate | Any,
    columns: Mapping[str, Column | str] | None = None,
    *,
    schema: pa.Schema | StructType | None = None,
    strategy: Strategy = "auto",
) -> DataFrame:
    """Judge each row of a DataFrame as a container.

    A kernel evaluates the predicate once per row, even if rows are filtered later: the column is
    nondeterministic, so Spark neither repeats it nor pushes a filter through it. Apply filters that
    need no verdict first. A native expression is deterministic, and Spark may move it.

    Args:
        df: One row per container, with columns such as `x.min`, `x.max`, `x.null_count` and
            `row_count`, and lists of all values `x.values` or Parquet's bloom filters `x.bloom`; or
            with structs of these that have the columns' names, `x` STRUCT<min, max, null_count,
            ...>. A missing statistic is unknown, and so is one whose type cannot bound the column.
            Other columns stay as they are.
        predicate: A `PruningPredicate`; or anything that makes one, such as SQL text, together with
            `schema`.
        columns: Where statistics with other names are: `{"x.min": "lowest_x", "row_count":
            F.col("stats.n")}`, or a struct of them: `{"x": F.col("stats")["x"]}`.
        schema: The table's columns, for a predicate that is not bound to them yet.
        strategy: How verdicts are computed; they are the same. "native": by the Spark expression of
            `to_column`. "arrow_udf" (Spark 4.1 and later), "map_in_arrow" (which carries all
            columns through Python) or "pandas_udf": by a kernel in Python workers. "auto": native
            for simple predicates; a kernel for long IN lists, for functions of columns and for
            bloom filters.

    Returns:
        `df` with a last column `verdict`: INT, 0 NEVER, 1 MAYBE, 2 ALWAYS.

    Raises:
        StatisticsError: `df` has a column `verdict` already, or no statistic of any column; or
            `columns` names something else.
        UnsupportedForm: The predicate has no native form, and `strategy` is "native".
        BackendMissing: PySpark or pandas is not installed, or has no such strategy.
        SkipstoneError: `strategy` is not one of these.

    Example:
        >>> bounds = "`x.min` int, `x.max` int"
        >>> df = spark.createDataFrame([(0, 4), (5, 9)], bounds)  # doctest: +SKIP
        >>> judged = with_verdict(df, "x = 5", schema=table.schema)  # doctest: +SKIP
        >>> judged.where("verdict > 0").count()  # doctest: +SKIP
        1
    """
    if strategy not in get_args(Strategy):
        raise SkipstoneError(
            f"strategy {strategy!r} is not known; expected one of {', '.join(get_args(Strategy))}"
        )
    require_pyspark()
    with quiet():
        predicate = predicate_of(predicate, schema, df.sparkSession)
        if VERDICT in map(fold_of(df.sparkSession), df.columns):
            raise StatisticsError(
                f"the DataFrame has a column {VERDICT!r} already; expected none. "
                "Drop or rename it first."
            )
        found = {
            s: column
            for s, column in locate(
                df, predicate.schema, needed_statistics(predicate, members=True), columns or {}
            ).items()
            if is_usable(s, column)
        }
        return JUDGES[choose_strategy(strategy, predicate, found, spark_version(df.sparkSession))](
            df, predicate, found
        )


def choose_strategy(
    strategy: Strategy,
    predicate: PruningPredicate,
    found: Mapping[Statistic, StatisticColumn],
    version: tuple[int, int],
) -> str:
    """Return the strategy to use.

    Raises:
        BackendMissing: This Spark lacks the requested strategy.
    """
    if strategy == "arrow_udf" and version < ARROW_UDF_SINCE:
        raise BackendMissing(
            f"strategy 'arrow_udf' needs Spark 4.1 or newer, and this is {version[0]}."
            f"{version[1]}; use strategy='map_in_arrow', 'pandas_udf' or 'auto'"
        )
    if strategy != "auto":
        return strategy
    by_key = {(s.path, s.kind): column for s, column in found.items()}
    native = obstacle(predicate.program, by_key) is None
    if native and weight(predicate.program) <= MAX_NATIVE_WEIGHT:
        return "native"
    return "arrow_udf" if version >= ARROW_UDF_SINCE else "pandas_udf"


Located = Mapping[Statistic, StatisticColumn]


def _native(df: DataFrame, predicate: PruningPredicate, found: Located) -> DataFrame:
    F, unnamed = functions_of(df), [s for s, column in found.items() if not column.name]
    new = _unused(df, len(unnamed))
    names = dict(zip(unnamed, new, strict=True))
    given = {
        s: StatisticColumn(names[s], column.type) if s in names else column
        for s, column in found.items()
    }
    added = [found[s].of(F).alias(name) for s, name in names.items()]
    wide = df.select("*", *added) if added else df
    return wide.withColumn(VERDICT, F.expr(text_of(predicate, given, "verdict"))).drop(*new)


def _arrow_udf(df: DataFrame, predicate: PruningPredicate, found: Located) -> DataFrame:
    F = functions_of(df)
    udf = make_udf(
        Judge.of(predicate, list(found)),
        (),
        "verdict",
        "arrow",
        deterministic=False,
        connect=is_connect(df),
    )
    # A UDF takes at least one column, which also carries the number of rows.
    return df.withColumn(
        VERDICT, udf(*([exact_column(F, s, column) for s, column in found.items()] or [F.lit(0)]))
    )


def _pandas_udf(df: DataFrame, predicate: PruningPredicate, found: Located) -> DataFrame:
    F = functions_of(df)
    ways = [split(F, s, column) for s, column in found.items()]
    udf = make_udf(
        Judge.of(predicate, list(found)),
        [carrier for carrier, _ in ways],
        "verdict",
        "pandas",
        deterministic=False,
        connect=is_connect(df),
    )
    return df.withColumn(VERDICT, udf(*([c for _, columns in ways for c in columns] or [F.lit(0)])))


def _map_in_arrow(df: DataFrame, predicate: PruningPredicate, found: Located) -> DataFrame:
    from pyspark.sql.types import IntegerType, StructField, StructType

    own = list(df.schema)
    new = _unused(df, len(own) + len(found) + 1)
    wide = df.select(
        "*",
        *(
            exact_column(functions_of(df), s, column).alias(name)
            for (s, column), name in zip(found.items(), new[len(own) :], strict=False)
        ),
    )
    function = over_batches(Judge.of(predicate, list(found)), len(own), new[-1])
    # PySpark looks up each column by its bare name, and fails on dots, backticks and duplicates.
    plain = StructType(
        [
            StructField(name, f.dataType, f.nullable, f.metadata)
            for name, f in zip(new, own, strict=False)
        ]
    )
    judged = wide.toDF(*new[:-1]).mapInArrow(function, plain.add(new[-1], IntegerType()))
    return judged.toDF(*df.columns, VERDICT)


JUDGES: Final[Mapping[str, Callable[[DataFrame, PruningPredicate, Located], DataFrame]]] = {
    "native": _native,
    "arrow_udf": _arrow_udf,
    "map_in_arrow": _map_in_arrow,
    "pandas_udf": _pandas_udf,
}


def _unused(df: DataFrame, count: int) -> list[str]:
    """Return names that no column of a DataFrame has, and that need no quotes."""
    taken, start = {name.lower() for name in df.columns}, "skipstone_"
    while any(name.startswith(start) for name in taken):
        start += "_"
    return [f"{start}{i}" for i in range(count)]
