"""Keys of a join's dimension, collected by Spark, and whether Spark would find the same ones again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.filters.collector import DynamicFilterCollector
from skipstone.bindings.filters.kinds import Needs, Side, needs_of
from skipstone.bindings.filters.option import enabled
from skipstone.bindings.spark.session import catalyst
from skipstone.bindings.spark.session.jvm import joins_of
from skipstone.bindings.spark.session.session import is_connect, quiet
from skipstone.ir.session import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipstone.bindings.filters.data import DynamicFilterData
    from skipstone.bindings.predicates.predicate import PruningPredicate

SMALL: Final = 32 << 20  # bytes of keys that come to the driver with all their repetitions
# What gives the same rows each time, over files that are listed already. All else is taken for not repeatable: LIMIT, samples,
# aggregate functions and windows (their order may be any), functions of Python and Java, random ones, clocks, subqueries, caches, tables
# whose partitions are listed when a query runs, and other sources than files.
PLANS: Final = (
    "Aggregate", "Project", "Filter", "Join", "Union", "SubqueryAlias", "View", "Distinct", "Sort", "ResolvedHint", "LocalRelation", "Range", "OneRowRelation",
)  # fmt: skip
EXPRESSIONS: Final = (
    *catalyst.PLAIN, *catalyst.CALLS, *catalyst.MANY, *catalyst.TRIMS, *catalyst.THROUGH, "AttributeReference", "Alias", "Literal", "IsNotNull", "In",
    "InSet", "Like", "Cast", "CaseWhen", "If", "GetStructField", "Floor", "Ceil", "SortOrder", "Between", "With", "CommonExpressionDef", "CommonExpressionRef",
)  # fmt: skip


def watches(spark: Any, plan: Any, analysed: Any) -> list[Any] | None:
    """What has to stay as it is for a plan to have the same rows whenever it runs: lists of files, as Spark's JVM has them; None: that is not known.

    Args:
        spark: A classic session.
        plan: What becomes of a part of `analysed`, or that itself.
        analysed: The analysed plan, to which the lists belong.
    """
    found = joins_of(spark).watches(plan, analysed, " ".join(EXPRESSIONS), " ".join(PLANS))
    return None if found is None else list(found)


def watches_of(df: Any) -> list[Any] | None:
    """The `watches` of a whole DataFrame; a client of Spark Connect knows none."""
    if is_connect(df):
        return None
    execution = df._jdf.queryExecution()
    return watches(df.sparkSession, execution.withCachedData(), execution.analyzed())


def useless(dim: Any, kind: str, side: Side) -> str:
    """Why the keys of a dimension cannot prune that side of a join; "": they may."""
    if needs_of(kind, side) is Needs.ALL:
        return f"a {kind} join needs all rows of its {side} side"
    if not enabled():
        return "dynamic filtering is off (SKIPSTONE_DYNAMIC_FILTERING)"
    return "the other side is streaming, so its keys are never all there" if dim.isStreaming else ""


def failures() -> tuple[type[Exception], ...]:
    """What a job of Spark's may raise: a dimension that cannot be computed is left to the join itself, which may not need to."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, pa.ArrowException


def collated(field: Any) -> bool:
    """Whether a column has strings that a collation compares, and not their bytes."""
    return "collate" in field.dataType.simpleString()


def fixed(condition: PruningPredicate, columns: Collection[str]) -> bool:
    """Whether a condition leaves one value of each of some columns, of which keys would hardly tell more.

    Source: Spark, `PartitionPruning`, which adds no filter beside an equality with a literal.
    """
    single = {g.path for g in condition.literal_guarantees if g.kind == "in" and len(g.values) == 1}
    return all((name,) in single for name in columns)


def once(df: DataFrame) -> tuple[DataFrame, list[Any]]:
    """A DataFrame of the same rows that are not others when it runs again: itself, while its watches hold, or its rows as the executors keep them."""
    found = watches_of(df)
    return (df.localCheckpoint(), []) if found is None else (df, found)


def collected(
    keys: DataFrame,
    of: pa.Schema,
    null_safe: Collection[str],
    threshold: str | int | None,
    most: int,
    settings: Settings,
) -> DynamicFilterData:
    """The keys of a dimension.

    Up to `most` distinct rows come to the driver as they are, without a shuffle where all rows are about as few; of more, each task makes a
    filter of its own, of ranges, and the driver merges these.

    Args:
        keys: One column for each key.
        of: The columns that they are compared with, in the same order.
        null_safe: Of which of these NULL is a value like others.
        threshold: Bytes of a filter, as for `DynamicFilterCollector`.
        most: Distinct rows that are kept one by one.
        settings: The session's.
    """
    collector = DynamicFilterCollector(
        of.names, of, threshold, most, null_safe=null_safe, timezone=settings["timezone"], ansi=settings["ansi"],
    )  # fmt: skip
    with quiet():
        few = keys.limit(most + 1).toArrow() if _size(keys) <= SMALL else None
        if few is None or few.num_rows > most:
            few = keys.distinct().limit(most + 1).toArrow()
        if few.num_rows <= most:
            collector.add(few.rename_columns(of.names))
        else:
            parts = keys.mapInArrow(_partial(collector), "part binary").toArrow()
            collector.merge(*(pickle.loads(part) for part in parts.column("part").to_pylist()))
    return collector.finish()


def _size(df: Any) -> int:
    """Bytes of a DataFrame as Spark takes them to be; a client of Spark Connect is not told."""
    return (
        SMALL + 1
        if is_connect(df)
        else int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    )


def _partial(
    empty: DynamicFilterCollector,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What each task does with its rows."""
    blank = pickle.dumps(empty)

    def collect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own: DynamicFilterCollector = pickle.loads(blank)
        for batch in batches:
            own.add(pa.Table.from_batches([batch]).rename_columns(list(own.fields)))
        yield pa.record_batch({"part": [pickle.dumps(own)]})

    return collect
