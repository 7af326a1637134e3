"""Pruned joins of tables that Skipstone plans by itself: Parquet, Hive, Delta, Iceberg, in classic and Connect sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.dynamic.filter import DynamicFilter
from skipstone.bindings.dynamic.kinds import Needs, Side, needs_of
from skipstone.bindings.dynamic.option import enabled
from skipstone.bindings.spark.join_keys import collated, collected, failures, once
from skipstone.bindings.spark.prune import remembered
from skipstone.bindings.spark.read import read_plan
from skipstone.bindings.spark.scans import Pruned, PrunedScan, reported
from skipstone.bindings.spark.session import settings_of
from skipstone.bindings.spark.tables import table_of
from skipstone.bindings.spark.types import carried_type
from skipstone.ir.coerce import in_spark
from skipstone.ir.errors import PredicateError, SourceError, unknown_column
from skipstone.ir.node import quoted_name
from skipstone.ir.session import Settings
from skipstone.ir.types import from_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from skipstone.bindings.plan import Plan
    from skipstone.bindings.predicate import Source
    from skipstone.bindings.spark.tables import Table


def join_table(
    fact: Any,
    dim: DataFrame,
    on: Mapping[str, str],
    kind: str,
    side: Side,
    where: Source | None,
    threshold: str | int | None,
    most: int,
    null_safe: bool,
    join: Callable[[DataFrame, DataFrame], DataFrame],
) -> DataFrame:
    """`prune_join` of a table or of its path; `join` makes the join of what is read of it and of the dimension."""
    spark = dim.sparkSession
    infer = str(spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")) == "true"
    table, settings = table_of(fact, infer_types=infer), settings_of(spark)
    names = {_resolved(a, table.schema.names, settings): _resolved(b, dim.columns, settings) for a, b in on.items()}
    if len(names) < len(on):
        raise PredicateError(f"on names {', '.join(on)}; expected each column of the table once")
    why = _unfit(dim, kind, side, names) or _strange(table.schema, names)
    filters: list[DynamicFilter] = []
    if not why:
        of = pa.schema([table.schema.field(a).with_name(str(i)) for i, a in enumerate(names)])
        try:
            steady, _ = once(dim)
            keys = steady.select(*(steady[quoted_name(b)].alias(str(i)) for i, b in enumerate(names.values())))
            data = collected(keys, of, of.names if null_safe else (), threshold, most, settings)
        except failures() as e:
            why = f"its keys cannot be collected ({str(e)[:300]})"
        else:
            dim, filters = steady, [DynamicFilter(data, columns={str(i): a for i, a in enumerate(names)}, how=kind, side=side)]
    plan = table.plan(where, dynamic=filters or None, **settings)
    found = join(read_plan(spark, plan), dim)
    return remembered(found, Pruned((_report(fact, table, plan, where, why, filters),)))


def _unfit(dim: Any, kind: str, side: Side, names: Mapping[str, str]) -> str:
    """Why the keys say nothing of the table; "": they may."""
    if needs_of(kind, side) is Needs.ALL:
        return f"a {kind} join needs all rows of its {side} side"
    if not enabled():
        return "dynamic filtering is off (SKIPSTONE_DYNAMIC_FILTERING)"
    if dim.isStreaming:
        return "it is streaming"
    odd = [b for b in names.values() if collated(dim.schema[b])]
    return f"the key {odd[0]} is compared by a collation" if odd else ""


def _strange(schema: pa.Schema, names: Mapping[str, str]) -> str:
    """Why values of a key are not in Spark what they are in the table; "": they are."""
    for a in names:
        kind = schema.field(a).type
        there = carried_type(kind)
        if there is None or in_spark(from_arrow(kind)) != from_arrow(there):
            return f"the key {a} is {kind}, which Spark has no type for"
    return ""


def _report(fact: Any, table: Table, plan: Plan, where: Any, why: str, filters: list[DynamicFilter]) -> PrunedScan:
    name = str(fact) if isinstance(fact, str) else type(table).__name__
    files, kept = plan.sizes.total.files, len(plan.files)
    asked = "" if where is None else str(where)
    return reported(PrunedScan(name, asked, files, kept, why or ("" if files is None or kept < files else "every file may hold a matching row")), filters)


def _resolved(name: str, names: list[str], settings: Settings) -> str:
    same = [n for n in names if n == name] or [n for n in names if not settings["case_sensitive"] and n.lower() == name.lower()]
    if not same:
        raise unknown_column(name, names)
    if len(same) > 1:
        raise SourceError(f"{name!r} fits {len(same)} columns: {', '.join(same)}")
    return same[0]
