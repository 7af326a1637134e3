"""Collect the keys of a join's build side, and check that its rows are repeatable."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.filters.collector import DynamicFilterCollector
from skipstone.bindings.filters.kinds import Needs, Side, needs_of
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.spark.pruning import catalyst, catalyst_calls
from skipstone.bindings.spark.session.frame import to_arrow
from skipstone.bindings.spark.session.jvm import plan_gateway
from skipstone.bindings.spark.session.session import is_connect, quiet
from skipstone.ir.session import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipstone.bindings.filters.data import DynamicFilterData
    from skipstone.bindings.predicates.predicate import PruningPredicate

MAX_RAW_BYTES: Final = 32 << 20  # keys that come to the driver without DISTINCT
# These plans and expressions give the same rows each time, over files that are listed already.
# Everything else counts as not repeatable: LIMIT, samples, aggregate functions and windows (their
# input has no fixed order), Python and Java functions, random functions, clocks, subqueries,
# caches, tables whose partitions are listed when a query runs, and sources other than files.
REPEATABLE_PLANS: Final = (
    "Aggregate", "Project", "Filter", "Join", "Union", "SubqueryAlias", "View", "Distinct", "Sort",
    "ResolvedHint", "LocalRelation", "Range", "OneRowRelation",
)  # fmt: skip
REPEATABLE_EXPRESSIONS: Final = (
    *catalyst.PLAIN, *catalyst.TRIMS, *catalyst.THROUGH, *catalyst_calls.CALLS,
    *catalyst_calls.UNFLAGGED, *catalyst_calls.VARIADIC, *catalyst_calls.PATTERNS,
    "AttributeReference", "Alias", "Literal", "IsNotNull", "In", "InSet", "Like", "Cast",
    "CaseWhen", "If", "GetStructField", "Floor", "Ceil", "TimestampAdd", "TimestampDiff",
    "SortOrder", "Between", "With", "CommonExpressionDef", "CommonExpressionRef",
)  # fmt: skip


def watches(spark: Any, plan: Any, analysed: Any) -> list[Any] | None:
    """Return the file lists that must stay unchanged for a plan to repeat its rows.

    Args:
        spark: A classic session.
        plan: A part of `analysed`, or the plan that Spark made from it.
        analysed: The analysed plan, which the lists belong to.

    Returns:
        File lists, as objects of Spark's JVM. None if the rows may differ between runs anyway.
    """
    watched = plan_gateway(spark).watches(
        plan, analysed, " ".join(REPEATABLE_EXPRESSIONS), " ".join(REPEATABLE_PLANS)
    )
    # py4j's iterator ends by an error of Java's, which takes 15 ms.
    return None if watched is None else [watched.get(i) for i in range(watched.size())]


def watches_of(df: Any) -> list[Any] | None:
    """Return the `watches` of a whole DataFrame; None in Spark Connect, which shows no plan."""
    if is_connect(df):
        return None
    execution = df._jdf.queryExecution()
    return watches(df.sparkSession, execution.withCachedData(), execution.analyzed())


def why_not_prunable(build: Any, kind: str, side: Side) -> str:
    """Return why the build side's keys cannot prune the other side of a join; "" if they can.

    Args:
        build: The build side, a DataFrame.
        kind: The kind of the join, as `kind_of` names it.
        side: The side of the join that would be pruned.
    """
    if needs_of(kind, side) is Needs.ALL:
        return f"a {kind} join needs all rows of its {side} side"
    if not enabled():
        return "dynamic filtering is off (SKIPSTONE_DYNAMIC_FILTERING)"
    return (
        "the build side is streaming, so its keys are never complete" if build.isStreaming else ""
    )


def job_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a Spark job may raise.

    If the build side cannot be computed, the join runs as usual: it may not need these rows.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, pa.ArrowException


def is_collated(field: Any) -> bool:
    """Return True if a column has strings that a collation compares, rather than their bytes."""
    return "collate" in field.dataType.simpleString()


def fixes_columns(condition: PruningPredicate, columns: Collection[str]) -> bool:
    """Return True if a condition leaves one value of each of these columns.

    Keys would hardly prune more then.

    Source: Spark, `PartitionPruning`, which adds no filter beside an equality with a literal.
    """
    single = {g.path for g in condition.literal_guarantees if g.kind == "in" and len(g.values) == 1}
    return all((name,) in single for name in columns)


def repeatable(df: DataFrame) -> tuple[DataFrame, list[Any]]:
    """Return a DataFrame that gives the same rows in every run, and the file lists it depends on.

    It is the same DataFrame if it is repeatable while these lists are unchanged. Otherwise it is a
    local checkpoint of its rows on the executors.
    """
    watched = watches_of(df)
    return (df.localCheckpoint(), []) if watched is None else (df, watched)


def collect_keys(
    keys: DataFrame | pa.Table,
    targets: pa.Schema,
    null_safe: Collection[str],
    threshold: str | int | None,
    max_rows: int,
    settings: Settings,
) -> DynamicFilterData:
    """Collect the keys of the build side: in a Spark job, unless they are already in memory.

    If there are at most `max_rows` distinct rows, the driver collects them, without a shuffle if
    Spark estimates the whole side to be small. Otherwise each task makes a filter of ranges, and
    the driver merges these.

    Args:
        keys: One column per key, as a DataFrame or an Arrow table.
        targets: The columns that they are compared with, in the same order.
        null_safe: Those of these columns that match NULL with NULL.
        threshold: Size of a filter in bytes, as for `DynamicFilterCollector`.
        max_rows: Distinct rows that are kept one by one.
        settings: The session's.
    """
    collector = DynamicFilterCollector(
        targets.names,
        targets,
        threshold,
        max_rows,
        null_safe=null_safe,
        timezone=settings["timezone"],
        ansi=settings["ansi"],
    )
    if isinstance(keys, pa.Table):
        collector.add(keys.rename_columns(targets.names))
        return collector.finish()
    with quiet():
        few = (
            to_arrow(keys.limit(max_rows + 1)) if _estimated_bytes(keys) <= MAX_RAW_BYTES else None
        )
        if few is None or few.num_rows > max_rows:
            few = to_arrow(keys.distinct().limit(max_rows + 1))
        if few.num_rows <= max_rows:
            collector.add(few.rename_columns(targets.names))
        else:
            parts = to_arrow(keys.mapInArrow(_collect_in_task(collector), "part binary"))
            collector.merge(*(pickle.loads(part) for part in parts.column("part").to_pylist()))
    return collector.finish()


def _estimated_bytes(df: Any) -> int:
    """Return Spark's estimate of a DataFrame's size; in Spark Connect, more than the limit."""
    if is_connect(df):
        return MAX_RAW_BYTES + 1
    return int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def _collect_in_task(
    empty: DynamicFilterCollector,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that turns the rows of a task into a pickled collector."""
    blank = pickle.dumps(empty)

    def collect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own: DynamicFilterCollector = pickle.loads(blank)
        for batch in batches:
            own.add(pa.Table.from_batches([batch]).rename_columns(list(own.fields)))
        yield pa.record_batch({"part": [pickle.dumps(own)]})

    return collect
