"""`with_verdict`: a DataFrame of containers with each container's verdict beside it, exact for every type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.given import COUNTS
from skipstone.bindings.predicate import PruningPredicate
from skipstone.bindings.spark.series import Carrier
from skipstone.bindings.spark.session import quiet, require_pyspark
from skipstone.bindings.spark.slots import ROW_COUNT, Judge, Slot, slots_of, spellings
from skipstone.bindings.spark.udf import DAYS, INSTANT, WALL, days, instant, make, predicate_of, wall
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path
from skipstone.ir.types import Kind, leaves_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

VERDICT: Final = "verdict"


def with_verdict(
    df: DataFrame,
    predicate: PruningPredicate | Any,
    columns: Mapping[str, Column | str] | None = None,
    *,
    schema: pa.Schema | StructType | None = None,
) -> DataFrame:
    """Judge each row of a DataFrame as a container.

    The predicate is evaluated once per row, whatever is filtered afterwards: Spark takes the column
    for nondeterministic, so it neither repeats it nor pushes a filter through it. Filter before by what
    needs no verdict.

    Args:
        df: One row per container, with columns such as `x.min`, `x.max`, `x.null_count` and
            `row_count`. A statistic that is not there is unknown, and so is one whose type cannot
            bound the column. Other columns are kept as they are.
        predicate: A `PruningPredicate`; or what makes one, such as SQL text, together with `schema`.
        columns: Where statistics have other names: `{"x.min": "lowest_x", "row_count": F.col("stats.n")}`.
        schema: The table's columns, for a predicate that is not bound to them yet.

    Returns:
        `df` and, as the last column, `verdict`: INT, 0 NEVER, 1 MAYBE, 2 ALWAYS.

    Raises:
        StatisticsError: `df` has a column `verdict` already, or no statistic of any column; or
            `columns` names something else.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> df = spark.createDataFrame([(0, 4), (5, 9)], "`x.min` int, `x.max` int")  # doctest: +SKIP
        >>> with_verdict(df, "x = 5", schema=table.schema).where("verdict > 0").count()  # doctest: +SKIP
        1
    """
    require_pyspark()
    with quiet():
        from pyspark.sql import functions as F

        predicate = predicate_of(predicate, schema, df.sparkSession)
        case = str(df.sparkSession.conf.get("spark.sql.caseSensitive")) == "true"
        fold: Callable[[str], str] = str if case else str.lower
        if VERDICT in map(fold, df.columns):
            raise StatisticsError(f"the DataFrame has a column {VERDICT!r} already; expected none. Drop or rename it first.")
        found = _located(df, predicate, columns or {}, fold)
        types = df.select(*(column.alias(str(i)) for i, column in enumerate(found.values()))).schema if found else []
        slots, carriers, series = [], [], []
        for (slot, column), field in zip(found.items(), types, strict=True):
            if (way := _carry(slot, column, field.dataType)) is not None:
                slots.append(slot)
                carriers.append(way[0])
                series += way[1]
        judge = Judge.of(predicate, slots)
        udf = make(judge, carriers, "verdict", deterministic=False)
        # A pandas UDF takes at least one column, and learns from it how many rows there are.
        return df.withColumn(VERDICT, udf(*(series or [F.lit(0)])))


def _located(df: DataFrame, predicate: PruningPredicate, columns: Mapping[str, Column | str], fold: Callable[[str], str]) -> dict[Slot, Column]:
    """The columns that hold statistics which the predicate can use."""
    from pyspark.sql import functions as F

    places = {fold(name): place for name, place in _places(predicate.schema).items()}
    found: dict[tuple[Path, str], Column] = {}
    for name in df.columns:
        if fold(name) in places:
            found[places[fold(name)]] = F.col("`" + name.replace("`", "``") + "`")
    for name, column in columns.items():
        if fold(name) not in places:
            raise StatisticsError(
                f"columns= names {name!r}, which is no statistic of a column of the schema; expected names such as {', '.join(list(places)[:3])}"
            )
        found[places[fold(name)]] = F.col(column) if isinstance(column, str) else column
    if not found:
        raise StatisticsError(
            f"the DataFrame has columns {', '.join(df.columns)}; expected names such as {', '.join(list(places)[:3])}, or columns= that says where they are"
        )
    return {s: found[s.path, s.statistic] for s in slots_of(predicate) if (s.path, s.statistic) in found}


def _places(schema: pa.Schema) -> dict[str, tuple[Path, str]]:
    """Every statistic that a table may have, by name. Where a name fits two columns, it means the top one."""
    out: dict[str, tuple[Path, str]] = {}
    for path in sorted(leaves_of(schema), key=len):
        for name in spellings(path):
            for key in ("min", "max", *COUNTS):
                out.setdefault(f"{name}.{key}", (path, key))
    return {**out, ROW_COUNT: ((), ROW_COUNT)}


def _carry(slot: Slot, c: Column, t: DataType) -> tuple[Carrier, list[Column]] | None:
    """How a statistic of some Spark type travels, and the columns that do; None where the type says nothing."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    def split(number: Column, zero: object = 0, means: pa.DataType | None = None) -> tuple[Carrier, list[Column]]:
        return Carrier(True, means), [F.coalesce(number, F.lit(zero)), number.isNull()]

    match t:
        case T.IntegralType():
            return split(c.cast("bigint") if slot.counts else c)
        case T.DecimalType() if slot.counts:
            return split(c.try_cast("bigint")) if t.scale == 0 else None
        case _ if slot.counts:
            return None
        case T.BooleanType():
            return split(c, False)
        case T.FloatType() | T.DoubleType():
            # pandas turns a null into NaN, and a NaN bound is unknown too.
            return (Carrier(), [c]) if slot.dtype.kind is Kind.FLOAT else None
        case T.DecimalType() | T.BinaryType():
            return Carrier(), [c]
        case T.StringType() if t.isUTF8BinaryCollation():
            return Carrier(means=pa.large_string()), [c.cast("binary")]
        case T.DateType():
            return split(days(c), 0, DAYS)
        case T.TimestampType():
            return split(instant(c), 0, INSTANT)
        case T.TimestampNTZType():
            return split(wall(c), 0, WALL)
    return None
