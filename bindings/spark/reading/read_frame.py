"""`read`: a DataFrame over the remaining files of a table.

Spark reads the files that its own reader reads correctly; Skipstone reads the others in Python
workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa

from skipstone.bindings.spark.pruning.condition import columns_in, condition_of
from skipstone.bindings.spark.pruning.context import REBASE, unusual_setting
from skipstone.bindings.spark.reading.native_read import read_natively
from skipstone.bindings.spark.reading.native_split import NativeSplit, split
from skipstone.bindings.spark.reading.python_read import read_in_workers
from skipstone.bindings.spark.reading.tables import table_of
from skipstone.bindings.spark.session.session import (
    check_session,
    functions_of,
    quiet,
    require_pyspark,
    settings_of,
)
from skipstone.bindings.spark.session.text_meaning import require_usual_meaning
from skipstone.bindings.spark.session.types import carried, is_carried, spark_schema
from skipstone.bindings.tables.char_columns import CHAR_KEY, holds_char
from skipstone.bindings.tables.delta.table import DeltaTable
from skipstone.bindings.tables.iceberg.files import IcebergFiles
from skipstone.ir.arrow import is_instant
from skipstone.ir.errors import SourceError, UnsupportedForm, describe_error
from skipstone.ir.node import quoted_name, quoted_path
from skipstone.ir.simplify import TRUE
from skipstone.ir.types import Kind, leaves_of
from skipstone.ir.zones import same_zone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skipstone.bindings.plans.order import SortKey
    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.predicates.predicate import Condition

How = Literal["auto", "native", "python"]
METHODS: Final = ("auto", "native", "python")
# The keys of a Delta column's metadata that Spark uses: it pads CHAR and shows comments.
INFERS_NTZ: Final = "spark.sql.parquet.inferTimestampNTZ.enabled"
BYTES_AS_TEXT: Final = "spark.sql.parquet.binaryAsString"
NOTED_KEYS: Final = (CHAR_KEY, "comment")
# Settings that change how Spark reads and compares CHAR, with their defaults.
CHAR_SETTINGS: Final = {
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
}


def read(
    spark: Any,
    table: Any,
    where: Condition | None = None,
    *,
    columns: list[str] | None = None,
    limit: int | None = None,
    order_by: str | Sequence[str] | None = None,
    how: How = "auto",
    format: str | None = None,
    version: int | str | None = None,
) -> DataFrame:
    """Return a DataFrame of a table's rows that satisfy a condition, from fewer files.

    Planning happens now, under the session's time zone, ANSI mode and case sensitivity; rows are
    read when the DataFrame runs. Spark also applies the condition to every row. Call `read` for
    each condition: filters that are added later prune nothing more.

    Args:
        spark: The session, classic or of Spark Connect.
        table: A Skipstone table (`scan_parquet`, `scan_hive`, `scan_delta`, `scan_iceberg`), a
            pyiceberg table, or a path.
        where: The condition, as for `plan`.
        columns: Top-level columns, in this order; None gives all.
        limit: The number of rows that are needed.
        order_by: The sort order of the rows.
        how: "native" reads with Spark's own Parquet reader, "python" with Skipstone in Python
            workers. "auto" uses Spark's reader for each file that it reads correctly: not for files
            with deletes, nor for tables with column mapping, type widening or evolved columns.
        format: The format of a path: "parquet", "hive", "delta", "iceberg"; None detects it.
        version: For a path, Delta's version or Iceberg's snapshot.

    Returns:
        The DataFrame. Every column may be NULL, as in any file source.

    Raises:
        PredicateError: the condition is malformed or names an unknown column.
        UnsupportedForm: `how="native"` and Spark would read a file incorrectly; a column has no
            type in Spark; the condition cannot be passed to Spark; or the session parses SQL text
            in another way (`spark.sql.parser.escapedStringLiterals`, for example).
        SourceError: there is no such table.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> import skipstone.spark as sks
        >>> condition = "dest = 'BOS' AND dep_delay > 60"
        >>> df = sks.read(spark, "/lake/flights", condition)  # doctest: +SKIP
        >>> df.groupBy("carrier").count().show()  # doctest: +SKIP

    Source: Delta Lake, `PrepareDeltaScan`.
    """
    require_pyspark()
    check_session(spark)
    infer_types = (
        str(spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")) == "true"
    )
    found = table_of(table, format, version, infer_types=infer_types)
    plan = found.plan(where, columns=columns, limit=limit, order_by=order_by, **settings_of(spark))
    return read_plan(spark, plan, how)


def read_plan(spark: Any, plan: Plan, how: How = "auto") -> DataFrame:
    """Return a plan's rows as a DataFrame.

    Args:
        spark: The session, classic or of Spark Connect.
        plan: What to read.
        how: As for `read`.

    Raises:
        UnsupportedForm: as for `read`.
        SourceError: the plan read partition values without a zone in another zone than the
            session's.
    """
    require_pyspark()
    check_session(spark)
    if how not in METHODS:
        raise UnsupportedForm(f"how is {how!r}; expected {', '.join(METHODS)}")
    if plan.predicate is not None:
        require_usual_meaning(spark, plan.predicate)
    settings = settings_of(spark)
    _check_zone(plan, settings["timezone"])
    needed, notes = _needed_columns(plan), _notes(plan)
    _check_times(spark, plan, _schema(plan, needed))
    _check_bytes(spark, plan, _schema(plan, needed))
    _check_char(spark, _schema(plan, needed))
    with quiet():
        rows = _rows(spark, plan, needed, notes, how, settings["case_sensitive"])
        if len(plan.kept) and plan.predicate is not None and plan.predicate.node != TRUE:
            rows = _filtered(spark, rows, plan)
        if plan.order:
            rows = rows.orderBy(*(_sort_column(functions_of(spark), key) for key in plan.order))
        if plan.cut is not None:
            rows = rows.limit(min(plan.cut.limit, 2**31 - 1))
        return rows if needed == plan.columns else rows.select(*map(quoted_name, plan.columns))


def _filtered(spark: Any, rows: DataFrame, plan: Plan) -> DataFrame:
    """Return the rows that match the plan's condition.

    Raises:
        UnsupportedForm: the condition names a column that has no type in Spark.
    """
    from pyspark.errors import AnalysisException

    assert plan.predicate is not None
    untyped = [f for f in plan.table.schema if not is_carried(f)]
    try:
        matching = rows.where(condition_of(spark, plan.predicate))
        if untyped and columns_in(plan.predicate) is None:
            matching.schema  # noqa: B018  Spark Connect resolves names now
    except AnalysisException as e:
        named = [f for f in untyped if f"`{f.name}`".casefold() in str(e).casefold()]
        if not named:
            raise
        names = ", ".join(f"{f.name!r}, {f.type}" for f in named)
        raise UnsupportedForm(
            f"Spark cannot resolve the condition {plan.predicate.expr:.200} without the columns "
            f"for which it has no type: {names} ({describe_error(e)}); leave them out of the "
            "condition, or read with Skipstone: plan.to_arrow()"
        ) from e
    return matching


def _rows(
    spark: Any,
    plan: Plan,
    needed: list[str],
    notes: dict[str, dict[str, Any]],
    how: How,
    case_sensitive: bool,
) -> DataFrame:
    """Return the rows of the plan's files as a DataFrame."""
    if not len(plan.kept):
        empty: DataFrame = spark.createDataFrame(
            [], spark_schema(carried(_schema(plan, needed), by_spark=True), notes)
        )
        return empty
    found = (
        NativeSplit([], plan.kept.tolist())
        if how == "python"
        else split(plan, needed, case_sensitive)
    )
    if how == "native" and found.rest:
        raise UnsupportedForm(
            f"Spark's own Parquet reader cannot read {len(found.rest)} of {len(plan.files)} files "
            f'correctly: {found.why}. Read with how="auto", which reads such files with '
            "Skipstone in Python workers, or with the format's own connector."
        )
    frames = []
    if found.scans:
        frames.append(read_natively(spark, plan, found.scans, needed, notes))
    if found.rest:
        frames.append(
            read_in_workers(spark, plan.only(np.array(found.rest, np.int64), needed), needed, notes)
        )
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def _needed_columns(plan: Plan) -> list[str]:
    """Return the plan's columns, followed by further ones that the condition or the order needs."""
    used = [] if plan.predicate is None else columns_in(plan.predicate)
    if used is None:  # the condition may name any column
        used = [f.name for f in plan.table.schema if is_carried(f)]
    return list(dict.fromkeys([*plan.columns, *used, *(key.path[0] for key in plan.order)]))


def _schema(plan: Plan, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([plan.table.schema.field(name) for name in columns])


def _notes(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the metadata of columns that Spark uses in addition to their types."""
    if not isinstance(plan.table, DeltaTable):
        return {}
    found = {f["name"]: f.get("metadata") or {} for f in plan.table.snapshot.fields.described}
    return {
        name: {key: metadata[key] for key in NOTED_KEYS if key in metadata}
        for name, metadata in found.items()
    }


def _sort_column(F: Any, key: SortKey) -> Column:
    column: Column = F.col(quoted_path(key.path))
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _check_times(spark: Any, plan: Plan, schema: pa.Schema) -> None:
    """Raise UnsupportedForm if Spark would read days or times differently from the plan.

    The calendar concerns days before 1582, and times before 1900, of files that do not say who
    wrote them. Delta and Iceberg say which timestamps have no zone; Parquet leaves it to a setting.
    """
    types = [leaf.dtype for leaf in leaves_of(schema).values()]
    times = [t for t in types if t.kind is Kind.TIMESTAMP]
    why = ""
    if any(t.kind is Kind.DATE for t in types) or any(t.zoned for t in times):
        why = unusual_setting(spark, REBASE)
    own_types = isinstance(plan.table, DeltaTable | IcebergFiles)
    if not why and not own_types and not all(t.zoned for t in times):
        infers = str(spark.conf.get(INFERS_NTZ, "true"))
        why = "" if infers.lower() == "true" else f"{INFERS_NTZ} is {infers}"
    if why:
        raise UnsupportedForm(
            f"{why}, so Spark may read days and times differently from Skipstone; unset it, leave "
            "out the columns of days and times (columns=), or leave the read to Spark"
        )


def _check_bytes(spark: Any, plan: Plan, schema: pa.Schema) -> None:
    """Raise UnsupportedForm if Spark would read bytes as text, and Skipstone reads them as bytes.

    Delta and Iceberg say which columns are text; Parquet leaves it to a setting.
    """
    if isinstance(plan.table, DeltaTable | IcebergFiles):
        return
    if not any(leaf.dtype.kind is Kind.BINARY for leaf in leaves_of(schema).values()):
        return
    value = str(spark.conf.get(BYTES_AS_TEXT, "false"))
    if value.lower() != "false":
        raise UnsupportedForm(
            f"{BYTES_AS_TEXT} is {value}, so Spark reads text where Skipstone reads bytes; unset "
            "it, leave out the columns of bytes (columns=), or leave the read to Spark"
        )


def _check_char(spark: Any, schema: pa.Schema) -> None:
    """Raise UnsupportedForm if Spark would not pad the values of CHAR as Skipstone does."""
    char = next(filter(holds_char, schema), None)
    for key, usual in CHAR_SETTINGS.items():
        value = str(spark.conf.get(key, usual))
        if char is not None and value.lower() != usual:
            raise UnsupportedForm(
                f"{key} is {value}, so Spark reads CHAR differently from Skipstone; unset it, "
                f"leave out the column {char.name!r} (columns=), or leave the read to Spark"
            )


def _check_zone(plan: Plan, zone: str) -> None:
    """Raise SourceError if the plan read partition values in another zone than Spark would."""
    if isinstance(plan.table, IcebergFiles):  # Iceberg's partition values are numbers
        return
    kinds = [plan.table.schema.field(name).type for name in plan.table.partition_columns]
    zoned = any(map(is_instant, kinds))
    if zoned and not same_zone(plan.timezone, zone):
        raise SourceError(
            f"the plan read partition values without a zone in {plan.timezone}, but the session's "
            f"zone is {zone}; plan with timezone={zone!r}"
        )
