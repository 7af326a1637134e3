"""Write a program as one native Spark expression: SQL text over statistics by name.

A table of operations gives the text. Spark parses text in a fraction of the time that it takes to
build the same Column call by call through Java. An unknown statistic is NULL, and every test
defines its own answer for NULL, so that no setting of Spark (ANSI mode, time zone, case, collation)
matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.session.session import functions_of, quiet, require_pyspark
from skipstone.bindings.spark.statistics.judge import Answer
from skipstone.bindings.spark.statistics.locate import StatisticColumn, assume, locate
from skipstone.bindings.spark.statistics.native_logic import choose
from skipstone.bindings.spark.statistics.native_writer import NO_COLUMNS, ByKey, Writer, runs
from skipstone.bindings.spark.statistics.needed import Statistic, needed_statistics
from skipstone.bindings.spark.statistics.udf import predicate_of
from skipstone.ir.errors import StatisticsError, UnsupportedForm
from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Op, show_path
from skipstone.ir.text import show
from skipstone.ir.types import leaves_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def to_column(
    predicate: PruningPredicate | Any,
    columns: Mapping[str, Column | str] | None = None,
    *,
    schema: pa.Schema | StructType | None = None,
    answer: Answer = "verdict",
    df: DataFrame | None = None,
) -> Column:
    """Write `evaluate` or `prune` as one native Spark expression over a container's statistics.

    Nothing runs in Python, so Spark compiles the expression and may push it down. `with_verdict`
    gives the same answers; it also judges with kernels where that is faster or necessary.

    Args:
        predicate: A `PruningPredicate`; or anything that makes one, such as SQL text, together with
            `schema`.
        columns: Where statistics are: `{"x.min": "lowest_x", "row_count": "stats.n"}`. By default
            they have their own names, `x.min`, `x.max`, `x.null_count`, ...: all of
            `keep_udf(predicate).columns`.
        schema: The table's columns, for a predicate that is not bound to them yet.
        answer: "verdict", INT: 0 NEVER, 1 MAYBE, 2 ALWAYS; or "keep", BOOLEAN: false if no row can
            match.
        df: The DataFrame that the expression will be used on. Then missing statistics are unknown,
            statistics of other types are used if they bound the column, and structs of statistics
            and value lists are found. Without it, bounds are assumed to have the columns' own types
            and counts to be whole numbers; all others are unknown.

    Returns:
        A Column; one of Spark Connect if `df` or a Column in `columns` is.

    Raises:
        UnsupportedForm: The predicate has functions of columns, or `df` has bloom filters; only
            kernels can judge those.
        StatisticsError: As in `with_verdict`; or `columns` has a Column that is not a plain name.

    Example:
        >>> keep = to_column("x = 5", schema=schema, answer="keep", df=df)  # doctest: +SKIP
        >>> df.where(keep)  # doctest: +SKIP
    """
    require_pyspark()
    with quiet():
        given = columns or {}
        predicate = predicate_of(predicate, schema, None if df is None else df.sparkSession)
        if df is None:
            found = assume(predicate, given)
        else:
            found = locate(df, predicate.schema, needed_statistics(predicate, members=True), given)
        for s, column in found.items():
            if not column.name:
                raise StatisticsError(
                    f"columns= has an expression for {s.name!r}; expected a column's name. Name "
                    "it first, with df.withColumn, or use with_verdict, which takes expressions."
                )
        like = next(
            (c for c in (df, *given.values()) if c is not None and not isinstance(c, str)), None
        )
        out: Column = functions_of(like).expr(text_of(predicate, found, answer))
        return out


def text_of(
    predicate: PruningPredicate, found: Mapping[Statistic, StatisticColumn], answer: Answer
) -> str:
    """Return the SQL text of `to_column`.

    Args:
        predicate: The condition.
        found: Where statistics are; all of them have names.
        answer: "verdict" or "keep".

    Raises:
        UnsupportedForm: The predicate has no native form over these statistics.
    """
    program = predicate.program
    by_key = {(s.path, s.kind): column for s, column in found.items()}
    if (why := obstacle(program, by_key)) is not None:
        raise UnsupportedForm(
            f"{predicate.expr:.200} has no native Spark form: {why}. Use with_verdict with "
            "strategy='auto', 'arrow_udf', 'map_in_arrow' or 'pandas_udf'."
        )
    leaves = leaves_of(predicate.schema)
    roots = (program.can_match,) if answer == "keep" else program.roots

    def write(writer: Writer) -> str:
        match, *miss = map(writer.text, roots)
        return choose(match, choose(miss[0], "1", "2"), "0") if miss else match

    writer = Writer(by_key, leaves)
    return writer.guarded(NO_COLUMNS.union(*map(writer.columns, roots)), write)


def obstacle(program: Program, by_key: ByKey) -> str | None:
    """Return why a program has no native form, or None if it has one."""
    for _, n, _ in program.steps():
        if isinstance(n.value, Node):
            return f"the statistics of {show(n.value)} are derived by kernels"
        if n.op in (Op.MAY_CONTAIN, Op.MAY_CONTAIN_OTHER):
            assert isinstance(n.value, tuple)
            if (n.value[0], "bloom") in by_key:
                return f"the bloom filters of {show_path(n.value[0])} are probed by kernels"
    return None


def weight(program: Program) -> int:
    """Return the number of tests in an expression; a set counts its runs."""

    def of(n: Node) -> int:
        if n.op not in (Op.ANY_IN, Op.NOT_ALL_IN) or n.dtype is None:
            return 1
        assert isinstance(n.value, tuple)
        return len(runs(n.value, n.dtype)[0])

    return sum(of(n) for _, n, _ in program.steps())
