"""Where a DataFrame keeps the statistics that a predicate can use: columns such as `x.min`, structs of them, or whatever it is told."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from skipstone.bindings.spark.pruning.column import name_of
from skipstone.bindings.spark.session.session import fold_of, functions_of
from skipstone.bindings.spark.statistics.slots import MEMBERS, ROW_COUNT, Slot, slots_of, spellings
from skipstone.bindings.statistics.coerce_inputs import KEYS, PACKED, split_name
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path, quoted_name, quoted_path
from skipstone.ir.types import Kind, leaves_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from skipstone.bindings.predicates.predicate import PruningPredicate

STATISTICS = (*PACKED, *MEMBERS)
Key = tuple[Path, str]  # a column's path, () for the container, and a statistic


@dataclass(frozen=True, slots=True)
class StatisticColumn:
    """Where one statistic is.

    Attributes:
        name: SQL text that names it; empty for a Column that is more than a name.
        type: Its type in Spark.
        column: The same as a Column; None where no DataFrame is known.
    """

    name: str
    type: DataType
    column: Column | None = None


def located(
    df: DataFrame,
    schema: pa.Schema,
    slots: Iterable[Slot],
    columns: Mapping[str, Column | str],
    statistics: Container[str] = STATISTICS,
) -> dict[Slot, StatisticColumn]:
    """Those of some statistics that a DataFrame has.

    A name of `columns` counts before one of the DataFrame, and `x.min` before the field `min` of a struct `x`.

    Args:
        df: One row per container.
        schema: The table's columns.
        slots: What is wanted.
        columns: Where statistics are that the DataFrame's names do not tell of.
        statistics: The names that are statistics; a field of another name is a column's own.

    Raises:
        StatisticsError: there is none of any column of the table; or `columns` names something else.
    """
    names, slots = _Names(schema, fold_of(df.sparkSession), statistics), list(slots)
    found: dict[Key, StatisticColumn] = {}
    for name, place in _named(df):
        names.add(found, name, place)
    wanted = {(s.path, s.statistic) for s in slots}
    # What is not wanted is not looked up: columns may be many, and made when they are.
    given = {
        name: functions_of(df).col(c) if isinstance(c, str) else c
        for name in columns
        if names.fits(name, wanted)
        for c in [columns[name]]
    }
    types = (
        df.select(*(c.alias(str(i)) for i, c in enumerate(given.values()))).schema if given else []
    )
    for (name, column), field in zip(given.items(), types, strict=True):
        names.add(found, name, StatisticColumn(name_of(column) or "", field.dataType, column))
    if not found and not columns:
        raise StatisticsError(
            f"the DataFrame has columns {', '.join(df.columns)}; expected names such as {names.shown}, or columns= that says where they are"
        )
    return {s: found[s.path, s.statistic] for s in slots if (s.path, s.statistic) in found}


def statistics_columns(
    df: DataFrame, schema: pa.Schema, statistics: Container[str] = STATISTICS
) -> set[str]:
    """The columns of a DataFrame that hold statistics by their names, alone or in structs."""
    names = _Names(schema, fold_of(df.sparkSession), statistics)
    return {name for name, place in _named(df) if names.add({}, name, place)}


def _named(df: DataFrame) -> Iterator[tuple[str, StatisticColumn]]:
    """The columns of a DataFrame: structs first, so that a column of its own wins over a field."""
    F, fields = functions_of(df), list(df.schema)
    for field in sorted(fields, key=lambda f: f.dataType.typeName() != "struct"):
        name = quoted_name(field.name)
        yield field.name, StatisticColumn(name, field.dataType, F.col(name))


class _Names:
    """What the names of a table's statistics and columns stand for."""

    def __init__(
        self, schema: pa.Schema, fold: Callable[[str], str], known: Container[str] = STATISTICS
    ) -> None:
        self.fold, self.known = fold, known
        self.statistics: dict[str, Key] = {fold(ROW_COUNT): ((), ROW_COUNT)}
        self.columns: dict[str, Path] = {}
        # Where a name fits two columns, it means the top one.
        for path in sorted(leaves_of(schema), key=len):
            for name in spellings(path):
                self.columns.setdefault(fold(name), path)
                for statistic in filter(known.__contains__, KEYS):
                    self.statistics.setdefault(fold(f"{name}.{statistic}"), (path, statistic))

    @property
    def shown(self) -> str:
        """A few of the statistics' names, as an example."""
        return ", ".join(list(self.statistics)[1:4])

    def fits(self, name: str, wanted: Container[Key]) -> bool:
        """Whether a name is that of a statistic that is wanted, or of a whole column.

        Raises:
            StatisticsError: it is neither.
        """
        folded = self.fold(name)
        if folded not in self.statistics and folded not in self.columns:
            raise StatisticsError(
                f"columns= names {name!r}, which is no statistic of a column of the schema; expected names such as {self.shown}"
            )
        return folded in self.columns or self.statistics[folded] in wanted

    def add(self, found: dict[Key, StatisticColumn], name: str, place: StatisticColumn) -> bool:
        """What a column of a DataFrame holds, if its name is that of a statistic, or of a column whose statistics are its fields; whether it holds any."""
        key = self.statistics.get(self.fold(name))
        if key is not None:
            found[key] = place
        elif (path := self.columns.get(self.fold(name))) is not None:
            return self.add_fields(found, path, place)
        return key is not None

    def add_fields(
        self, found: dict[Key, StatisticColumn], path: Path, place: StatisticColumn
    ) -> bool:
        """The statistics that a struct's fields are: of the column itself, and in structs, of its own fields; whether there are any."""
        from pyspark.sql.types import StructType

        if not isinstance(place.type, StructType):
            return False
        told = False
        below = {self.fold(p[-1]): p for p in self.columns.values() if p[:-1] == path}
        names = [self.fold(f.name) for f in place.type]
        for f in place.type:
            folded = self.fold(f.name)
            if names.count(folded) > 1:
                continue  # no one can say which is meant
            assert place.column is not None
            inner = StatisticColumn(
                place.name and f"{place.name}.{quoted_name(f.name)}",
                f.dataType,
                place.column.getField(f.name),
            )
            if folded in self.known and not isinstance(f.dataType, StructType):
                found[path, folded] = inner
                told = True
            elif folded in below:
                told |= self.add_fields(found, below[folded], inner)
        return told


INTEGERS = ("tinyint", "smallint", "int", "bigint")


def assumed(
    predicate: PruningPredicate, columns: Mapping[str, Column | str]
) -> dict[Slot, StatisticColumn]:
    """The statistics that a predicate can use, for DataFrames that are not known yet.

    They are taken to be of the columns' own types and, when the DataFrame is there, unknown if they are not.

    Args:
        predicate: The condition.
        columns: Where they are. Empty: all of them, by their own names.

    Raises:
        StatisticsError: `columns` names something else, or has a Column that is more than a name.
    """
    names = _Names(predicate.schema, str if predicate.settings["case_sensitive"] else str.lower)
    found: dict[Key, str | None] = (
        {} if columns else {(s.path, s.statistic): quoted_name(s.name) for s in slots_of(predicate)}
    )
    for name, column in columns.items():
        key = names.statistics.get(names.fold(name))
        if key is None:
            raise StatisticsError(
                f"columns= names {name!r}, which is no statistic of a column of the schema; expected names such as {names.shown}, or df= that has structs"
            )
        found[key] = (
            name_of(column) if not isinstance(column, str) else quoted_path(split_name(column))
        )
    return {
        s: _guarded(s, found[s.path, s.statistic])
        for s in slots_of(predicate)
        if (s.path, s.statistic) in found
    }


def _guarded(slot: Slot, name: str | None) -> StatisticColumn:
    """A statistic by name that is NULL where it has another type than is assumed."""
    told, kind = own_type(slot)
    names = ", ".join(f"'{n}'" for n in told)
    return StatisticColumn(
        ""
        if name is None
        else f"if(typeof({name}) IN ({names}), try_cast({name} AS {kind.simpleString()}), NULL)",
        kind,
    )


def own_type(slot: Slot) -> tuple[tuple[str, ...], DataType]:
    """The types that a statistic may have without being looked at, by name, and one that holds all of them."""
    from pyspark.sql import types as T

    dtype = slot.dtype
    match dtype.kind:
        case _ if slot.counts:
            return INTEGERS, T.LongType()
        case Kind.INT | Kind.UINT:
            return INTEGERS, T.LongType()
        case Kind.FLOAT:
            return ("float", "double"), T.DoubleType()
        case Kind.TIMESTAMP:
            own: DataType = T.TimestampType() if dtype.zoned else T.TimestampNTZType()
        case Kind.DECIMAL:
            own = T.DecimalType(dtype.precision, dtype.scale)
        case _:
            own = {
                Kind.BOOL: T.BooleanType,
                Kind.DATE: T.DateType,
                Kind.STRING: T.StringType,
                Kind.BINARY: T.BinaryType,
            }[dtype.kind]()
    return (own.simpleString(),), own
