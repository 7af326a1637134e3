"""`read`: a DataFrame over what survives of a table, read by Spark itself where it reads right, else by Skipstone in Python workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa

from skipstone.bindings.spark.pruning.condition import columns_in, condition_of
from skipstone.bindings.spark.reading.native_read import Split, by_spark, split
from skipstone.bindings.spark.reading.python_read import CHAR, by_workers
from skipstone.bindings.spark.reading.tables import table_of
from skipstone.bindings.spark.session.session import (
    functions_of,
    quiet,
    require_pyspark,
    require_usual_text,
    settings_of,
)
from skipstone.bindings.spark.session.types import carried, is_carried, spark_schema
from skipstone.bindings.tables.delta.table import DeltaTable
from skipstone.bindings.tables.iceberg.files import IcebergFiles
from skipstone.ir.errors import SourceError, UnsupportedForm
from skipstone.ir.node import quoted_name, quoted_path
from skipstone.ir.simplify import TRUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skipstone.bindings.plans.order import SortKey
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.predicates.predicate import PruningPredicate, Source

How = Literal["auto", "native", "python"]
HOWS: Final = ("auto", "native", "python")
# What of a Delta column's metadata Spark goes by: CHAR is padded, comments are shown.
NOTES: Final = (CHAR, "comment")


def read(
    spark: Any,
    table: Any,
    where: Source | PruningPredicate | None = None,
    *,
    columns: list[str] | None = None,
    limit: int | None = None,
    order_by: str | Sequence[str] | None = None,
    how: How = "auto",
    format: str | None = None,
    version: int | str | None = None,
) -> DataFrame:
    """A DataFrame over what survives of a table: its rows are those of the whole table that satisfy the condition.

    Planning happens now, under the session's time zone, ANSI mode and case sensitivity; rows are read when the DataFrame is.
    Spark filters them by the condition in any case. Each question wants its own `read`: what is filtered later prunes nothing more.

    Args:
        spark: The session, classic or of Spark Connect.
        table: A table of Skipstone's (`scan_parquet`, `scan_hive`, `scan_delta`, `scan_iceberg`), a table of pyiceberg's, or a path.
        where: The condition, as for `plan`.
        columns: Top-level columns, in this order; None gives all.
        limit: How many rows are enough.
        order_by: What rows are sorted by.
        how: "native" reads by Spark's own Parquet reader, "python" by Skipstone in Python workers; "auto" takes the first for
            each file that it reads right: not those with deletes, nor tables with column mapping, type widening or evolved columns.
        format: Of a path: "parquet", "hive", "delta", "iceberg"; None looks.
        version: Of a path: Delta's version, Iceberg's snapshot.

    Returns:
        The DataFrame. Every column may be NULL, as in any file source.

    Raises:
        PredicateError: the condition is malformed or names no column.
        UnsupportedForm: `how="native"` and Spark would read a file otherwise; a column has no type in Spark; the condition
            cannot be given to Spark, or the session reads SQL text otherwise (`spark.sql.parser.escapedStringLiterals`, say).
        SourceError: there is no such table.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> import skipstone.spark as sks
        >>> df = sks.read(spark, "/lake/flights", "dest = 'BOS' AND dep_delay > 60")  # doctest: +SKIP
        >>> df.groupBy("carrier").count().show()  # doctest: +SKIP

    Source: Delta Lake, `PrepareDeltaScan`.
    """
    require_pyspark()
    infer = str(spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")) == "true"
    found = table_of(table, format, version, infer_types=infer)
    plan = found.plan(where, columns=columns, limit=limit, order_by=order_by, **settings_of(spark))
    return read_plan(spark, plan, how)


def read_plan(spark: Any, plan: Plan, how: How = "auto") -> DataFrame:
    """A plan as a DataFrame; `read` says what `how` means.

    Raises:
        UnsupportedForm: as for `read`.
        SourceError: partition values without a zone were read in another zone than the session's.
    """
    require_pyspark()
    if how not in HOWS:
        raise UnsupportedForm(f"how is {how!r}; expected {', '.join(HOWS)}")
    if plan.predicate is not None:
        require_usual_text(spark)
    settings = settings_of(spark)
    _same_zone(plan, settings["timezone"])
    needed, notes = _needed(plan), _notes(plan)
    with quiet():
        rows = _rows(spark, plan, needed, notes, how, settings["case_sensitive"])
        if len(plan.kept) and plan.predicate is not None and plan.predicate.node != TRUE:
            rows = rows.where(condition_of(spark, plan.predicate))
        if plan.order:
            rows = rows.orderBy(*(_sorted_by(functions_of(spark), key) for key in plan.order))
        if plan.cut is not None:
            rows = rows.limit(min(plan.cut.limit, 2**31 - 1))
        return rows if needed == plan.columns else rows.select(*map(quoted_name, plan.columns))


def _rows(
    spark: Any,
    plan: Plan,
    needed: list[str],
    notes: dict[str, dict[str, Any]],
    how: How,
    case_sensitive: bool,
) -> DataFrame:
    """The rows of the files that were kept."""
    if not len(plan.kept):
        empty: DataFrame = spark.createDataFrame(
            [], spark_schema(carried(_schema(plan, needed), by_spark=True), notes)
        )
        return empty
    found = (
        Split([], plan.kept.tolist()) if how == "python" else split(plan, needed, case_sensitive)
    )
    if how == "native" and found.others:
        raise UnsupportedForm(
            f"Spark's own Parquet reader does not read {len(found.others)} of {len(plan.files)} files right: {found.why}. "
            "Read with how=\"auto\", which leaves such files to Skipstone's reader in Python workers, or with the format's own connector."
        )
    frames = []
    if found.scans:
        frames.append(by_spark(spark, plan, found.scans, needed, notes))
    if found.others:
        frames.append(
            by_workers(spark, plan.only(np.array(found.others, np.int64), needed), needed, notes)
        )
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def _needed(plan: Plan) -> list[str]:
    """The columns of the plan, and after them those that the condition or the order needs besides."""
    used = [] if plan.predicate is None else columns_in(plan.predicate)
    if used is None:  # it may name any column
        used = [f.name for f in plan.table.schema if is_carried(f)]
    return list(dict.fromkeys([*plan.columns, *used, *(key.path[0] for key in plan.order)]))


def _schema(plan: Plan, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([plan.table.schema.field(name) for name in columns])


def _notes(plan: Plan) -> dict[str, dict[str, Any]]:
    """What Spark goes by besides a column's type."""
    if not isinstance(plan.table, DeltaTable):
        return {}
    found = {f["name"]: f.get("metadata") or {} for f in plan.table.snapshot.fields.described}
    return {name: {key: own[key] for key in NOTES if key in own} for name, own in found.items()}


def _sorted_by(F: Any, key: SortKey) -> Column:
    column: Column = F.col(quoted_path(key.path))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _same_zone(plan: Plan, zone: str) -> None:
    """Refuse a plan whose partition values were read in another zone than Spark would read them in."""
    if isinstance(plan.table, IcebergFiles):  # its partition values are numbers
        return
    kinds = [plan.table.schema.field(name).type for name in plan.table.partition_columns]
    if plan.timezone != zone and any(pa.types.is_timestamp(k) and k.tz is not None for k in kinds):
        raise SourceError(
            f"the plan read partition values without a zone in {plan.timezone}, and the session's zone is {zone}; plan with timezone={zone!r}"
        )
