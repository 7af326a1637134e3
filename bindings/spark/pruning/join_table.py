"""Pruned joins of tables that Skipstone plans by itself: Parquet, Hive, Delta, Iceberg, in classic and Connect sessions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.kinds import Needs, Side, needs_of
from skipstone.bindings.joins.names import resolved
from skipstone.bindings.plans.plan import predicate_over
from skipstone.bindings.spark.pruning.join_keys import (
    collated,
    collected,
    failures,
    fixed,
    once,
    useless,
)
from skipstone.bindings.spark.pruning.prune import remembered
from skipstone.bindings.spark.pruning.scans import Pruned, PrunedScan, reported
from skipstone.bindings.spark.reading.read import read_plan
from skipstone.bindings.spark.reading.tables import table_of
from skipstone.bindings.spark.session.session import settings_of
from skipstone.bindings.spark.session.types import carried_type
from skipstone.ir.coerce import in_spark
from skipstone.ir.errors import PredicateError
from skipstone.ir.node import quoted_name
from skipstone.ir.types import from_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from skipstone.bindings.predicates.predicate import PruningPredicate, Source


@dataclass(frozen=True, slots=True)
class Join:
    """What is asked of a pruned join, but for its sides.

    Attributes:
        on: Keys of the fact table -> keys of the dimension.
        kind, side: As `prune_join` has them.
        where: A condition on the fact table.
        threshold, most: How large the filter may grow.
        null_safe: Whether keys are compared by `<=>`.
        join: Makes the join of what is read of the fact table, and of the dimension.
    """

    on: Mapping[str, str]
    kind: str
    side: Side
    where: Source | None
    threshold: str | int | None
    most: int
    null_safe: bool
    join: Callable[[DataFrame, DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class JoinFilters:
    """What is known of a fact table's rows before any is read.

    Attributes:
        where: The condition on them.
        filters: What the dimension's keys say; none, where they say nothing, and `why` is why.
        dim: The dimension; where other rows might be found again, those that were found.
        why: "", where there is a filter.
    """

    where: PruningPredicate | None
    filters: tuple[DynamicFilter, ...]
    dim: DataFrame
    why: str


def join_table(fact: Any, dim: DataFrame, asked: Join) -> DataFrame:
    """`prune_join` of a table or of its path."""
    spark = dim.sparkSession
    infer = str(spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")) == "true"
    table = table_of(fact, infer_types=infer)
    known = known_of(asked, dim, table.schema, table.partition_columns)
    plan = table.plan(known.where, dynamic=known.filters or None, **settings_of(spark))
    found = asked.join(read_plan(spark, plan), known.dim)
    name = str(fact) if isinstance(fact, str) else type(table).__name__
    return remembered(
        found, Pruned((report_of(name, known, plan.sizes.total.files, len(plan.files)),))
    )


def known_of(
    asked: Join, dim: DataFrame, schema: pa.Schema, partition_columns: Collection[str]
) -> JoinFilters:
    """Collect the dimension's keys for a table with these columns."""
    settings = settings_of(dim.sparkSession)
    same = settings["case_sensitive"]
    names = {
        resolved(a, schema.names, case_sensitive=same): resolved(
            b, dim.columns, case_sensitive=same
        )
        for a, b in asked.on.items()
    }
    if len(names) < len(asked.on):
        raise PredicateError(
            f"on names {', '.join(asked.on)}; expected each column of the table once"
        )
    where = None if asked.where is None else predicate_over(schema, asked.where, **settings)
    if (
        why := _unfit(dim, asked.kind, asked.side, names)
        or _strange(schema, names)
        or _settled(asked, where, names, partition_columns)
    ):
        return JoinFilters(where, (), dim, why)
    of = pa.schema([schema.field(a).with_name(str(i)) for i, a in enumerate(names)])
    try:
        steady, watched = once(dim)
        if watched:  # what is read of the table is chosen now and for good, so files that may change are read now, too
            steady = dim.localCheckpoint()
        keys = steady.select(
            *(steady[quoted_name(b)].alias(str(i)) for i, b in enumerate(names.values()))
        )
        data = collected(
            keys, of, of.names if asked.null_safe else (), asked.threshold, asked.most, settings
        )
    except failures() as e:
        return JoinFilters(where, (), dim, f"its keys cannot be collected ({str(e)[:300]})")
    one = DynamicFilter(
        data, columns={str(i): a for i, a in enumerate(names)}, how=asked.kind, side=asked.side
    )
    return JoinFilters(where, (one,), steady, "")


def _unfit(dim: Any, kind: str, side: Side, names: Mapping[str, str]) -> str:
    """Why the keys say nothing of the table; "": they may."""
    odd = [b for b in names.values() if collated(dim.schema[b])]
    return useless(dim, kind, side) or (
        f"the key {odd[0]} is compared by a collation" if odd else ""
    )


def _strange(schema: pa.Schema, names: Mapping[str, str]) -> str:
    """Why values of a key are not in Spark what they are in the table; "": they are."""
    for a in names:
        kind = schema.field(a).type
        there = carried_type(kind)
        if there is None or in_spark(from_arrow(kind)) != from_arrow(there):
            return f"the key {a} is {kind}, which Spark has no type for"
    return ""


def _settled(
    asked: Join,
    where: PruningPredicate | None,
    names: Mapping[str, str],
    partition_columns: Collection[str],
) -> str:
    """Why the condition leaves nothing for the keys to say; "": it does not."""
    if where is None or needs_of(asked.kind, asked.side) is not Needs.MATCHED:
        return ""
    return (
        f"its partition is chosen by {where.expr}"
        if set(names) <= set(partition_columns) and fixed(where, names)
        else ""
    )


def report_of(name: str, known: JoinFilters, files: int | None, kept: int) -> PrunedScan:
    """What was found; `files` is how many there are, None where that is not known."""
    asked = "" if known.where is None else known.where.expr
    why = known.why or (
        "" if files is None or kept < files else "every file may hold a matching row"
    )
    return reported(PrunedScan(name, asked, files, kept, why), known.filters)
