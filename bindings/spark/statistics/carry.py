"""Send statistics from Spark to pandas without loss.

A nullable value travels as two Series: the value with nulls filled, and a null flag. Dates travel
as days, timestamps as microseconds, text as bytes. Otherwise, pandas would round a bigint if there
is a null in the batch, raise an error for far dates and timestamps, and turn instants into wall
clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.spark.session.types import arrow_type
from skipstone.bindings.spark.statistics.locate import StatisticColumn
from skipstone.bindings.spark.statistics.native_bounds import EPOCH, TICK, bound, count
from skipstone.bindings.spark.statistics.needed import Statistic
from skipstone.bindings.spark.statistics.series import Carrier
from skipstone.ir.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column

DAYS = pa.date32()
INSTANT = pa.timestamp("us", "UTC")
WALL = pa.timestamp("us")
TEXT = pa.large_string()
NAMES: Final = {DAYS: "date", INSTANT: "timestamp", WALL: "timestamp_ntz", TEXT: "string"}


def is_usable(statistic: Statistic, column: StatisticColumn) -> bool:
    """Return True if a statistic of this Spark type can bound or count its column."""
    from pyspark.sql import types as T

    if statistic.is_count:
        return count("", column.type) is not None
    match statistic.kind, column.type:
        case "bloom", t:
            return isinstance(t, T.BinaryType)
        case (("min_exact" | "max_exact"), t):
            return isinstance(t, T.BooleanType)
        case "values", T.ArrayType():
            return bound("", column.type.elementType, statistic.dtype, high=False) is not None
        case "values", _:
            return False
    return bound("", column.type, statistic.dtype, high=False) is not None


def exact_column(F: Any, statistic: Statistic, column: StatisticColumn) -> Column:
    """Return a usable statistic as the Column that Arrow carries.

    Counts become BIGINT, and so do decimals that bound whole numbers; others stay as they are.
    """
    as_is = column.of(F)
    whole = statistic.is_count or (
        statistic.dtype.kind in (Kind.INT, Kind.UINT) and column.type.typeName() == "decimal"
    )
    return as_is.try_cast("bigint") if whole else as_is


def split(F: Any, statistic: Statistic, column: StatisticColumn) -> tuple[Carrier, list[Column]]:
    """Return how a usable statistic travels to pandas, and the Columns that carry it."""
    from pyspark.sql import types as T

    c, t = exact_column(F, statistic, column), column.type

    def apart(
        number: Column, zero: object = 0, means: pa.DataType | None = None
    ) -> tuple[Carrier, list[Column]]:
        return Carrier(True, means), [F.coalesce(number, F.lit(zero)), number.isNull()]

    if statistic.kind == "values":
        return _list(F, c, t.elementType)
    if statistic.kind == "bloom":
        return Carrier(), [c]
    match t:
        case _ if statistic.is_count or statistic.dtype.kind in (Kind.INT, Kind.UINT):
            return apart(c)
        case T.IntegralType():
            return apart(c)
        case T.BooleanType():
            return apart(c, False)
        case T.StringType():
            return Carrier(means=TEXT), [c.cast("binary")]
    means = _means(t)
    # pandas turns a null into NaN; a NaN bound is also unknown.
    return (Carrier(), [c]) if means is None else apart(number(F, c, means), 0, means)


def _list(F: Any, lists: Column, element: Any) -> tuple[Carrier, list[Column]]:
    """Return the carrier and the Column of a value list.

    A list with a NULL is unknown anyway; it is replaced by NULL, since pandas would turn its
    integers into floats.
    """
    from pyspark.sql import types as T

    means = TEXT if isinstance(element, T.StringType) else _means(element)
    plain = lists if means is None else F.transform(lists, lambda v: number(F, v, means))
    whole = F.when(~F.exists(lists, lambda v: v.isNull()), plain)
    return Carrier(means=pa.list_(means or arrow_type(element.jsonValue()))), [whole]


def _means(t: Any) -> pa.DataType | None:
    """Return what the numbers of a date or timestamp stand for; None for other types."""
    return {"date": DAYS, "timestamp": INSTANT, "timestamp_ntz": WALL}.get(t.typeName())


def own_carrier(statistic: Statistic) -> Carrier:
    """Return how a statistic of its column's own type travels when a UDF is called on columns."""
    if statistic.is_count:
        return Carrier()
    match statistic.dtype.kind:
        case Kind.DATE:
            return Carrier(means=DAYS)
        case Kind.TIMESTAMP:
            return Carrier(means=INSTANT if statistic.dtype.zoned else WALL)
    return Carrier()


def as_carried(F: Any, statistic: Statistic, c: Column, *, arrow: bool) -> Column:
    """Return a Column in the form that its carrier needs.

    A Column of another type than the statistic's becomes NULL, unknown. So does collated text.
    """
    means = (
        TEXT
        if statistic.dtype.kind is Kind.STRING and not statistic.is_count
        else own_carrier(statistic).means
    )
    if means is None:
        return c
    cast = c.cast(NAMES[means])
    return F.when(
        F.typeof(c) == NAMES[means], cast if arrow or means == TEXT else number(F, cast, means)
    )


def number(F: Any, c: Column, means: pa.DataType) -> Column:
    """Convert a DATE to days since 1970, timestamps to microseconds, text to bytes.

    The session's time zone has no influence.
    """
    match NAMES[means]:
        case "date":
            return F.unix_date(c)
        case "timestamp":
            return F.unix_micros(c)
        case "timestamp_ntz":
            return F.call_function("div", c - F.expr(EPOCH), F.expr(TICK))
    return c.cast("binary")
