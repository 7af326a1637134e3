"""Pruned joins of Skipstone's own tables, in classic and Connect sessions.

These are tables of Parquet files, Hive, Delta and Iceberg.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.filters.filter import DynamicFilter
from skipstone.bindings.filters.kinds import Needs, Side, needs_of
from skipstone.bindings.joins.names import resolved
from skipstone.bindings.plans.request import predicate_over
from skipstone.bindings.spark.pruning.join_keys import (
    collect_keys,
    fixes_columns,
    is_collated,
    job_errors,
    repeatable,
    why_not_prunable,
)
from skipstone.bindings.spark.pruning.prune import with_report
from skipstone.bindings.spark.pruning.reports import Pruned, PrunedScan, with_join
from skipstone.bindings.spark.reading.read_frame import read_plan
from skipstone.bindings.spark.reading.tables import table_of
from skipstone.bindings.spark.session.session import settings_of
from skipstone.bindings.spark.session.types import carried_type
from skipstone.ir.coercion.coerce import in_spark
from skipstone.ir.errors import PredicateError, describe_error
from skipstone.ir.node import quoted_name
from skipstone.ir.types import from_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from skipstone.bindings.predicates.predicate import PredicateSource, PruningPredicate


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The arguments of a pruned join, except its two sides.

    Attributes:
        on: Keys of the probe side -> keys of the build side.
        kind, side: As for `prune_join`.
        where: A condition on the probe side.
        threshold, max_rows: Limits on the filter's size.
        null_safe: True if keys are compared by `<=>`.
        join: A function that joins the rows that were read from the probe side with the build side.
    """

    on: Mapping[str, str]
    kind: str
    side: Side
    where: PredicateSource | None
    threshold: str | int | None
    max_rows: int
    null_safe: bool
    join: Callable[[DataFrame, DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class JoinFilters:
    """The filters on the probe side's rows, made before any row is read.

    Attributes:
        where: The condition on them.
        filters: The filters of the build side's keys; empty if they cannot prune.
        build: The build side; if it is not repeatable, a checkpoint of its rows.
        why: Why there is no filter; "" if there is one.
    """

    where: PruningPredicate | None
    filters: tuple[DynamicFilter, ...]
    build: DataFrame
    why: str


def join_table(probe: Any, build: DataFrame, request: JoinRequest) -> DataFrame:
    """Run `prune_join` on a table or its path."""
    spark = build.sparkSession
    infer = str(spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")) == "true"
    table = table_of(probe, infer_types=infer)
    join_filters = filters_for(request, build, table.schema, table.partition_columns)
    plan = table.plan(
        join_filters.where, dynamic=join_filters.filters or None, **settings_of(spark)
    )
    found = request.join(read_plan(spark, plan), join_filters.build)
    name = str(probe) if isinstance(probe, str) else type(table).__name__
    return with_report(
        found, Pruned((join_report(name, join_filters, plan.sizes.total.files, len(plan.files)),))
    )


def filters_for(
    request: JoinRequest, build: DataFrame, schema: pa.Schema, partition_columns: Collection[str]
) -> JoinFilters:
    """Collect the build side's keys for a table with these columns."""
    settings = settings_of(build.sparkSession)
    case_sensitive = settings["case_sensitive"]
    names = {
        resolved(a, schema.names, case_sensitive=case_sensitive): resolved(
            b, build.columns, case_sensitive=case_sensitive
        )
        for a, b in request.on.items()
    }
    if len(names) < len(request.on):
        raise PredicateError(
            f"on names {', '.join(request.on)}; expected each column of the table once"
        )
    where = None if request.where is None else predicate_over(schema, request.where, **settings)
    if (
        why := _key_problem(build, request.kind, request.side, names)
        or _type_problem(schema, names)
        or _decided_by_where(request, where, names, partition_columns)
    ):
        return JoinFilters(where, (), build, why)
    of = pa.schema([schema.field(a).with_name(str(i)) for i, a in enumerate(names)])
    try:
        steady, watched = repeatable(build)
        # The files to read of the probe side are fixed now, so the build side's rows must be, too.
        if watched:
            steady = build.localCheckpoint()
        keys = steady.select(
            *(steady[quoted_name(b)].alias(str(i)) for i, b in enumerate(names.values()))
        )
        data = collect_keys(
            keys,
            of,
            of.names if request.null_safe else (),
            request.threshold,
            request.max_rows,
            settings,
        )
    except job_errors() as e:
        return JoinFilters(where, (), build, f"its keys cannot be collected ({describe_error(e)})")
    one = DynamicFilter(
        data, columns={str(i): a for i, a in enumerate(names)}, how=request.kind, side=request.side
    )
    return JoinFilters(where, (one,), steady, "")


def _key_problem(build: Any, kind: str, side: Side, names: Mapping[str, str]) -> str:
    """Return why the keys cannot prune the table; "" if they can."""
    with_collation = [b for b in names.values() if is_collated(build.schema[b])]
    return why_not_prunable(build, kind, side) or (
        f"the key {with_collation[0]} is compared by a collation" if with_collation else ""
    )


def _type_problem(schema: pa.Schema, names: Mapping[str, str]) -> str:
    """Return why Spark would change the values of a key; "" if it keeps them."""
    for a in names:
        kind = schema.field(a).type
        carried = carried_type(kind)
        if carried is None or in_spark(from_arrow(kind)) != from_arrow(carried):
            return f"the key {a} is {kind}, which Spark has no type for"
    return ""


def _decided_by_where(
    request: JoinRequest,
    where: PruningPredicate | None,
    names: Mapping[str, str],
    partition_columns: Collection[str],
) -> str:
    """Return why the condition leaves nothing for the keys to prune; "" if they can prune."""
    if where is None or needs_of(request.kind, request.side) is not Needs.MATCHED:
        return ""
    if set(names) <= set(partition_columns) and fixes_columns(where, names):
        return f"its partition is chosen by {where.expr}"
    return ""


def join_report(name: str, join_filters: JoinFilters, files: int | None, kept: int) -> PrunedScan:
    """Return the report of one join.

    Args:
        name: The table.
        join_filters: The filters that were applied.
        files: Files of the table; None if unknown.
        kept: Files that remain.
    """
    where = "" if join_filters.where is None else join_filters.where.expr
    why = join_filters.why or (
        "" if files is None or kept < files else "every file may hold a matching row"
    )
    return with_join(PrunedScan(name, where, files, kept, why), join_filters.filters)
