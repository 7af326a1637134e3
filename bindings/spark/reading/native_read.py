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
from skipstone.ir.arrow import is_instant, type_at
from skipstone.ir.node import Node, Op, Path, columns_of, quoted_name, quoted_path
from skipstone.ir.types import PER_SECOND, DType, Kind, leaves_of
from skipstone.ir.zones import GREGORIAN

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
    guarded = _misjudged(plan, columns)
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
                path[0]: _guard(F, path, guarded, plan.table.schema).alias(path[0])
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
    """Make the driver look up the named files, for any number of files.

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


def _misjudged(plan: Plan, columns: Sequence[str]) -> list[Path]:
    """Return the columns of the condition on which Spark's own reader would lose rows.

    - Floats: footers of most writers leave NaN out of bounds, and the reader trusts them, although
      NaN is above every number in Spark.
    - Dates and timestamps beside a literal of October 5 to 14, 1582, which the calendar of
      `java.sql.Date` skips: Spark hands the literal to the reader as October 15 (seen in 4.3). A
      part of the condition that is not understood may hold such a literal.

    Spark does not hand a condition on a function's result to that reader.
    """
    if plan.predicate is None:
        return []
    node = plan.predicate.node
    has_unknown = any(n.op is Op.UNKNOWN for n in node.walk())
    if has_unknown:  # it may name any column
        paths = [p for p in leaves_of(plan.table.schema) if p[0] in columns]
    else:
        paths = list(columns_of(node))
    skipped = has_unknown or any(map(_is_skipped_day, node.walk()))
    return [
        p
        for p in paths
        if p[0] not in plan.table.partition_columns
        and (kind := carried_type(type_at(plan.table.schema, p))) is not None
        and (
            pa.types.is_floating(kind) or (skipped and (pa.types.is_date(kind) or is_instant(kind)))
        )
    ]


def _is_skipped_day(n: Node) -> bool:
    """Return True if a node has a literal between 1582-10-05 and 1582-10-14, in some zone."""
    days: list[float] = []
    for value in n.value if n.op is Op.IN and isinstance(n.value, tuple) else (n.value,):
        dtype, axis = value if isinstance(value, tuple) and len(value) == 2 else (n.dtype, value)
        if isinstance(axis, int) and isinstance(dtype, DType):
            if dtype.kind is Kind.DATE:
                days.append(axis)
            elif dtype.kind is Kind.TIMESTAMP:
                days.append(axis / (86_400 * PER_SECOND[dtype.unit]))
    return any(GREGORIAN - 11 <= day <= GREGORIAN + 1 for day in days)


def _guard(F: Any, path: Path, guarded: Sequence[Path], schema: pa.Schema) -> Column:
    """Return a column, some of whose values are wrapped in functions that do not change them."""
    out: Column = F.col(quoted_name(path[0]))
    for p in guarded:
        if p[0] != path[0]:
            continue
        value, kind = F.col(quoted_path(p)), carried_type(type_at(schema, p))
        if pa.types.is_floating(kind):
            unchanged = F.nanvl(value, value)
        elif pa.types.is_date(kind):
            unchanged = F.date_add(value, 0)
        else:
            unchanged = F.timestamp_micros(F.unix_micros(value))
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
