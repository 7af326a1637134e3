"""Find statistics in a DataFrame of a Delta log's add files, for `with_verdict`.

They come from the columns `stats`, `stats_parsed` and `partitionValues`. This module does in Spark
expressions what `bindings/tables/delta/columns.py` does in Arrow; that module documents what
writers do and why bounds are widened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.spark.session.session import functions_of, quiet, require_pyspark
from skipstone.bindings.spark.statistics.delta_types import (
    leaf_fields,
    nested,
    spark_json_type,
    spark_type_of,
)
from skipstone.bindings.spark.statistics.needed import ROW_COUNT, plain_name
from skipstone.bindings.statistics.coerce_inputs import COUNTS, MAX_ROWS
from skipstone.bindings.tables.delta.columns import EXACT, REPLACEMENT
from skipstone.bindings.tables.delta.fields import LeafField
from skipstone.bindings.tables.partition_values import ASCII_BLANKS
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import StatisticsError
from skipstone.ir.types import DType, Kind, from_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

MAPS: Final = ("minValues", "maxValues", "nullCount")
DATED: Final = r"^[+-]?[0-9]{4,6}-[0-9]"  # Spark reads a time without a date as a time of today
ZONED: Final = r":.*[A-Za-z+-]"
# By whether a timestamp has a zone: the last instant; the latest that can be raised by 60.001 s,
# and the earliest that can be lowered by 60 s, without overflow; and the instant since which all
# zones' offsets have been whole minutes.
LAST: Final = {
    True: "timestamp_micros(9223372036854775807L)",
    False: "TIMESTAMP_NTZ'+294247-01-10 04:00:54.775807'",
}
LATE: Final = {
    True: "timestamp_micros(9223372036794774807L)",
    False: "TIMESTAMP_NTZ'+294247-01-10 04:00:54.774807'",
}
EARLY: Final = {
    True: "timestamp_micros(-9223372036794775808L)",
    False: "TIMESTAMP_NTZ'-290308-12-21 20:00:05.224192'",
}
WHOLE_MINUTES: Final = {
    True: "TIMESTAMP'1972-01-08 00:00:00Z'",
    False: "TIMESTAMP_NTZ'1972-01-08 00:00:00'",
}


def delta_statistics(
    df_or_schema: DataFrame | StructType, schema: pa.Schema | StructType
) -> Mapping[str, Column]:
    """Map statistics to the columns of a DataFrame of add files, for `columns=` of `with_verdict`.

    The JSON files of a log also have files that later commits removed. `with_stats` returns the
    files of a table as it is now.

    A value that cannot be read (malformed JSON, a value of another type) is unknown, also in ANSI
    mode. Bounds are widened by what writers may have truncated: timestamps by a millisecond (early
    ones by a minute), decimals of more than 15 digits by the error of a DOUBLE. A column in
    `partitionValues` has a single value in a file.

    Args:
        df_or_schema: The DataFrame, or its schema. It has `stats`, JSON text; or `stats_parsed`, a
            struct of `minValues`, `maxValues`, `nullCount`, `numRecords`. If both exist,
            `stats_parsed` is preferred. It may have `partitionValues`, a map of text, or the struct
            that Spark's JSON reader makes of it.
        schema: The table's columns. For a table with column mapping, pass Spark's schema, whose
            metadata names the physical columns.

    Returns:
        A mapping from names such as `x.min` to Columns. A Column is made when it is looked up.

    Raises:
        StatisticsError: There is neither `stats` nor `stats_parsed` nor `partitionValues`.

    Example:
        >>> log = spark.read.parquet("t/_delta_log/*.checkpoint.parquet")  # doctest: +SKIP
        >>> adds = log.where("add IS NOT NULL").select("add.*")  # doctest: +SKIP
        >>> columns = delta_statistics(adds, schema)  # doctest: +SKIP
        >>> with_verdict(adds, "x = 5", columns, schema=schema)  # doctest: +SKIP

    Source: Delta's PROTOCOL.md, "Per-file Statistics", "Partition Value Serialization".
    """
    require_pyspark()
    with quiet():
        from pyspark.sql.types import StructType

        types = df_or_schema if isinstance(df_or_schema, StructType) else df_or_schema.schema
        return DeltaStatistics(functions_of(df_or_schema), types, schema)


class DeltaStatistics(Mapping[str, "Column"]):
    """The mapping that `delta_statistics` returns.

    Args:
        F: PySpark's functions, for classic Spark or Spark Connect.
        types: The schema of the DataFrame of add files.
        schema: The table's schema.
    """

    def __init__(self, F: Any, types: StructType, schema: pa.Schema | StructType) -> None:
        from pyspark.sql import types as T

        self._F, self._kinds = F, {f.name: f.dataType for f in types}
        names = [
            name for name in ("stats_parsed", "stats", "partitionValues") if name in self._kinds
        ]
        if not names:
            raise StatisticsError(
                f"the DataFrame has columns {', '.join(types.names)}; expected stats, "
                "stats_parsed or partitionValues of a Delta log"
            )
        self._parsed = next(
            (n for n in ("stats_parsed", "stats") if isinstance(self._kinds.get(n), T.StructType)),
            None,
        )
        self._json = isinstance(self._kinds.get("stats"), T.StringType)
        self._leaves = {leaf.path: leaf for leaf in leaf_fields(schema)}
        self._names = {
            f"{plain_name(path, self._leaves)}.{s}": (path, s)
            for path in self._leaves
            for s in ("min", "max", *COUNTS)
        }

    def __getitem__(self, name: str) -> Column:
        from pyspark.sql import types as T

        if name == ROW_COUNT:
            return self._rows
        path, statistic = self._names[name]
        leaf = self._leaves[path]
        logged = self._logged(leaf, statistic)
        F = self._F
        values = self._F.col("partitionValues")
        kind = self._kinds.get("partitionValues")
        if len(path) == 1 and isinstance(kind, T.MapType):
            key = F.lit(leaf.physical[0])
            there = F.coalesce(F.map_contains_key(values, key), F.lit(False))
            of_partition = self._of_partition(leaf, statistic, values[key])
            return F.when(there, of_partition).otherwise(logged)
        if (
            len(path) == 1
            and isinstance(kind, T.StructType)
            and leaf.physical[0] in kind.names
            and isinstance(kind[leaf.physical[0]].dataType, T.StringType)
        ):
            return self._of_partition(leaf, statistic, values.getField(leaf.physical[0]))
        return logged

    def __iter__(self) -> Iterator[str]:
        return iter((*self._names, ROW_COUNT))

    def __len__(self) -> int:
        return len(self._names) + 1

    # Statistics from `stats` and `stats_parsed`.

    @cached_property
    def _parts(self) -> list[tuple[Column, DataType]]:
        """The parsed statistics and their types: the struct column, then the parsed JSON."""
        from pyspark.sql import types as T

        F, out = self._F, []
        if self._parsed is not None:
            out.append((F.col(self._parsed), self._kinds[self._parsed]))
        if self._json:
            bounds = nested(
                {
                    leaf.physical: kind
                    for leaf in self._leaves.values()
                    if (kind := spark_json_type(leaf)) is not None
                }
            )
            counts = nested({leaf.physical: T.LongType() for leaf in self._leaves.values()})
            shape = T.StructType([T.StructField("numRecords", T.LongType())])
            for name, struct in zip(MAPS, (bounds, bounds, counts), strict=True):
                shape = shape.add(name, struct)
            out.append((F.from_json(F.col("stats"), shape), shape))
        return out

    def _fields_at(self, *path: str) -> list[tuple[Column, DataType]]:
        """Return the field at a path in each of the parsed statistics that has it."""
        from pyspark.sql import types as T

        out = []
        for column, kind in self._parts:
            for name in path:
                fields = (
                    {f.name: f.dataType for f in kind} if isinstance(kind, T.StructType) else {}
                )
                if name not in fields:
                    break
                column, kind = column.getField(name), fields[name]
            else:
                out.append((column, kind))
        return out

    def _first(self, columns: list[Column], kind: str) -> Column:
        return self._F.coalesce(*columns) if columns else self._F.lit(None).cast(kind)

    def _count(self, *path: str) -> Column:
        """Return the first non-null count at a path of the statistics."""
        from pyspark.sql import types as T

        return self._first(
            [
                c.cast("bigint")
                for c, kind in self._fields_at(*path)
                if isinstance(kind, T.IntegralType)
            ],
            "bigint",
        )

    @cached_property
    def _rows(self) -> Column:
        """The number of physical rows.

        A count above the largest possible one is unknown, and so is 0 if there are bounds or NULLs.
        """
        F, rows = self._F, self._count("numRecords")
        signs_of_rows = [
            F.to_json(c).rlike(r"[:\[]") for name in MAPS[:2] for c, _ in self._fields_at(name)
        ]
        signs_of_rows += [F.to_json(c).rlike(r": ?[1-9]") for c, _ in self._fields_at("nullCount")]
        contradicted = F.lit(False)
        for sign in signs_of_rows:
            contradicted = contradicted | F.coalesce(sign, F.lit(False))
        return F.when((rows > MAX_ROWS) | ((rows == 0) & contradicted), F.lit(None)).otherwise(rows)

    def _logged(self, leaf: LeafField, statistic: str) -> Column:
        """Return a statistic from `stats` or `stats_parsed`."""
        F = self._F
        if statistic == "null_count":
            return self._count("nullCount", *leaf.physical)
        if statistic == "row_count":
            return self._rows
        if statistic == "nan_count":
            # The add action does not name the writer, and only some include NaN in bounds.
            return F.lit(None).cast("bigint")
        high = statistic == "max"
        side = "maxValues" if high else "minValues"
        bounds = [
            self._bound(c, kind, leaf, high) for c, kind in self._fields_at(side, *leaf.physical)
        ]
        return self._first([c for c in bounds if c is not None], spark_type_of(leaf).simpleString())

    def _bound(self, c: Column, kind: DataType, leaf: LeafField, high: bool) -> Column | None:
        """Return a bound that holds for every value of the column; None for an unusable type."""
        from pyspark.sql import types as T

        F, dtype, text = self._F, from_arrow(leaf.type), isinstance(kind, T.StringType)
        match dtype.kind:
            case Kind.STRING if text:
                return F.when(~c.endswith(REPLACEMENT), c) if high else c
            case Kind.DATE if text or isinstance(kind, T.DateType):
                return F.when(c.rlike(DATED), c.try_cast("date")) if text else c
            case Kind.TIMESTAMP if text or isinstance(
                kind, T.TimestampType if dtype.zoned else T.TimestampNTZType
            ):
                zone = c.rlike(ZONED) if dtype.zoned else F.lit(True)
                return self._widened(
                    F.when(c.rlike(DATED) & zone, c.try_cast(spark_type_of(leaf))) if text else c,
                    dtype.zoned,
                    high,
                )
            case Kind.DECIMAL if isinstance(kind, T.IntegralType) or (
                isinstance(kind, T.DecimalType) and kind.scale <= dtype.scale
            ):
                return self._decimal(c.try_cast(spark_type_of(leaf)), dtype, high)
            case Kind.FLOAT if isinstance(kind, T.FloatType | T.DoubleType | T.IntegralType):
                # The short text of a former FLOAT means the nearest FLOAT, not the nearest DOUBLE.
                near = c.cast("float").cast("double")
                if "float" not in leaf.widened:
                    return c
                if high:
                    return F.greatest(c, near)
                return F.least(c, near)
            case Kind.INT if isinstance(kind, T.IntegralType):
                return c
        return None

    def _widened(self, c: Column, zoned: bool, high: bool) -> Column:
        """Widen a time that was cut to milliseconds; an early one maybe to minutes.

        Delta 3.2 and 3.3 cut the seconds of zones' offsets, which existed before 1972 (delta#5249).
        """
        F = self._F
        early = c < F.expr(WHOLE_MINUTES[zoned])
        if high:
            more = F.when(early, c + F.expr("INTERVAL '60.001' SECOND")).otherwise(
                c + F.expr("INTERVAL '0.001' SECOND")
            )
            return F.when(c > F.expr(LATE[zoned]), F.expr(LAST[zoned])).otherwise(more)
        # A bound within a minute of the first instant cannot be widened and is unknown.
        return F.when(~early, c).when(c >= F.expr(EARLY[zoned]), c - F.expr("INTERVAL '60' SECOND"))

    def _decimal(self, c: Column, dtype: DType, high: bool) -> Column:
        """Widen a bound that may have passed through a float64 or an int64.

        It moves by more than four steps of a float64. At the ends of int64 it is unknown.
        """
        F, own = self._F, f"decimal({dtype.precision},{dtype.scale})"
        if dtype.precision <= EXACT:
            return c
        if dtype.scale == 0 and dtype.precision > 18:
            c = F.when((c < 2**63 - 1) & (c > F.expr("-9223372036854775808BD")), c)
        step = F.abs(c.cast("double")) * 2.0**-50
        moved = (c.cast("double") + step if high else c.cast("double") - step).try_cast(own)
        return F.when(moved.isNotNull(), F.greatest(c, moved) if high else F.least(c, moved))

    # Statistics from `partitionValues`.

    def _of_partition(self, leaf: LeafField, statistic: str, text: Column) -> Column:
        """Return a statistic of a partition column, from the text of its single value."""
        F, value = self._F, self._value(leaf, text)
        empty, readable = text.isNull() | (text == ""), text.isNull() | value.isNotNull()
        # Other readers treat an empty text as NULL, so whether it is NULL is unknown.
        is_text = from_arrow(leaf.type).kind in (Kind.STRING, Kind.BINARY)
        unclear = F.coalesce(text == "", F.lit(False))
        readable = F.when(readable & ~unclear if is_text else empty | readable, F.lit(1))
        match statistic:
            case "null_count":
                return (readable * empty.cast("int")).cast("bigint")
            case "row_count":
                return F.lit(1).cast("bigint")
            case "nan_count":
                if from_arrow(leaf.type).kind is Kind.FLOAT:
                    nan = F.coalesce(F.isnan(value), F.lit(False))
                else:
                    nan = F.lit(False)
                return (readable * nan.cast("int")).cast("bigint")
        return value

    def _value(self, leaf: LeafField, text: Column) -> Column:
        """Return the single value of a file; NULL if it is NULL or no value of the type."""
        F, dtype, to = self._F, from_arrow(leaf.type), spark_type_of(leaf)
        if dtype.kind is Kind.STRING:
            return text
        word = F.btrim(text, F.lit(ASCII_BLANKS))
        match dtype.kind:
            case Kind.BINARY:
                return F.when(text.rlike(r"^[\x00-\x7f]*$"), text.cast("binary"))
            case Kind.INT:
                return F.when(word.rlike(r"^[+-]?[0-9]+$"), word.try_cast(to))
            case Kind.FLOAT:
                return F.when(~word.rlike(r"(?i)[+-]nan|nan\("), word.try_cast(to))
            case Kind.DATE | Kind.TIMESTAMP:
                return F.when(word.rlike(DATED), word.try_cast(to))
        return word.try_cast(to)
