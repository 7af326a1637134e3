"""Read files of a plan with Spark's own Parquet reader."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from skipstone.bindings.spark.reading.native_split import NativeScan
from skipstone.bindings.spark.session.session import functions_of, is_connect, quiet
from skipstone.bindings.spark.session.types import carried, carried_type, spark_schema, spark_type
from skipstone.ir.node import Op, Path, columns_of, quoted_name, quoted_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skipstone.bindings.plans.plan import Plan

LISTING_THRESHOLD: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def read_natively(
    spark: Any,
    plan: Plan,
    scans: Sequence[NativeScan],
    columns: Sequence[str],
    notes: dict[str, dict[str, Any]],
) -> DataFrame:
    """Return all rows of some scans as a DataFrame, without a filter.

    Raises:
        UnsupportedForm: Spark has no type for a column.
    """
    F = functions_of(spark)
    schema = carried(pa.schema([plan.table.schema.field(name) for name in columns]), by_spark=True)
    guarded = _may_hide_nan(plan, columns)
    frames = []
    with quiet(), listing_on_driver(spark, max(len(scan.paths) for scan in scans)):
        for scan in scans:
            reader = spark.read.schema(
                spark_schema(pa.schema([f for f in schema if f.name not in scan.constants]), notes)
            )
            if scan.base is not None:
                reader = reader.option("basePath", scan.base)
            rows = reader.parquet(*scan.paths)
            if not scan.constants and not guarded:
                frames.append(rows.select(*(quoted_name(f.name) for f in schema)))
                continue
            constants = {
                n: literal(F, v, schema.field(n).type).alias(n, metadata=notes.get(n, {}))
                for n, v in scan.constants.items()
            }
            guards = {
                path[0]: _guard(F, path, guarded).alias(path[0])
                for path in guarded
                if path[0] not in constants
            }
            known = {**guards, **constants}
            read = (known[n] if n in known else F.col(quoted_name(n)) for n in schema.names)
            frames.append(rows.select(*read))
    out = frames[0]
    for frame in frames[1:]:
        out = out.union(frame)
    return out


@contextlib.contextmanager
def listing_on_driver(spark: Any, paths: int) -> Iterator[None]:
    """Make the driver look up the files that are named, however many there are.

    Spark starts a job for more than 32 paths, with a task for each. In Spark Connect this does
    nothing: Connect resolves a DataFrame again whenever it runs, when the setting is reset already.
    """
    limit = int(spark.conf.get(LISTING_THRESHOLD))
    if paths <= limit or is_connect(spark):
        yield
        return
    spark.conf.set(LISTING_THRESHOLD, str(paths))
    try:
        yield
    finally:
        spark.conf.set(LISTING_THRESHOLD, str(limit))


def _may_hide_nan(plan: Plan, columns: Sequence[str]) -> list[Path]:
    """Return the float columns of the condition.

    Footers of most writers leave NaN out of bounds, and Spark's reader trusts them: it drops row
    groups that hold NaN, although NaN is above every number in Spark. Spark does not hand a
    condition on a function's result to that reader.
    """
    if plan.predicate is None:
        return []
    node = plan.predicate.node
    if any(n.op is Op.UNKNOWN for n in node.walk()):  # it may name any column
        from skipstone.ir.types import leaves_of

        paths = [p for p in leaves_of(plan.table.schema) if p[0] in columns]
    else:
        paths = list(columns_of(node))
    return [
        p
        for p in paths
        if p[0] not in plan.table.partition_columns and _is_float(plan.table.schema, p)
    ]


def _is_float(schema: pa.Schema, path: Path) -> bool:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    kind = carried_type(kind)
    return kind is not None and pa.types.is_floating(kind)


def _guard(F: Any, path: Path, guarded: Sequence[Path]) -> Column:
    """Return a column with its floats wrapped in a function that returns them unchanged."""
    out: Column = F.col(quoted_name(path[0]))
    for p in guarded:
        if p[0] != path[0]:
            continue
        value = F.col(quoted_path(p))
        unchanged = F.nanvl(value, value)
        out = unchanged if len(p) == 1 else out.withField(quoted_path(p[1:]), unchanged)
    return out


def literal(F: Any, value: pa.Scalar, arrow_type: pa.DataType) -> Column:
    """Return a value as a nullable Spark column of its type in the table.

    Args:
        F: PySpark's functions.
        value: The value.
        arrow_type: Its type in the table.
    """
    to = spark_type(arrow_type)
    if not value.is_valid:
        out = F.lit(None).cast(to)
    elif pa.types.is_timestamp(arrow_type):
        micros = value.cast(arrow_type).value
        if arrow_type.tz is None:
            out = F.lit(_wall(micros)).cast("timestamp_ntz")
        else:
            out = F.timestamp_micros(F.lit(micros))
    elif pa.types.is_date32(arrow_type):
        out = F.date_from_unix_date(F.lit(value.cast(pa.int32()).as_py()))
    elif pa.types.is_decimal(arrow_type):
        out = F.lit(format(value.as_py(), "f")).cast(to)
    else:
        out = F.lit(value.as_py()).cast(to)
    return cast("Column", F.nullif(out, F.lit(None).cast(to)))


def _wall(micros: int) -> str:
    """Return a clock's time, in microseconds, as text that Spark's casts read, for any year."""
    text = str(np.datetime64(micros, "us"))
    return text if text.startswith("-") or len(text.split("-")[0]) == 4 else f"+{text}"
