"""Find the statistics that a predicate can use in a DataFrame.

They are columns such as `x.min`, structs of them, or the columns that the caller names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skipstone.bindings.spark.pruning.column import field_of, name_of
from skipstone.bindings.spark.session.session import fold_of, functions_of
from skipstone.bindings.spark.statistics.needed import (
    MEMBERS,
    ROW_COUNT,
    Statistic,
    needed_statistics,
    spellings,
)
from skipstone.bindings.statistics.coerce_inputs import KEYS, PACKED, split_name
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path, quoted_name, quoted_path
from skipstone.ir.types import Kind, leaves_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from skipstone.bindings.predicates.predicate import PruningPredicate

STATISTICS = (*PACKED, *MEMBERS)
Key = tuple[Path, str]  # a column's path, () for the container; and the statistic's name


@dataclass(frozen=True, slots=True)
class StatisticColumn:
    """A column of a DataFrame that holds one statistic.

    Attributes:
        name: SQL text that names it; empty for a Column that is not a plain name.
        type: Its type in Spark.
        column: The Column, if it is not a column of the DataFrame.
        struct: For a struct's field: the struct.
        field: The field's name.
    """

    name: str
    type: DataType
    column: Column | None = None
    struct: StatisticColumn | None = None
    field: str = ""

    def of(self, F: Any) -> Column:
        """Return the statistic as a Column; F is PySpark's module of functions, of either kind."""
        if self.struct is not None:
            return self.struct.of(F).getField(self.field)
        column: Column = F.col(self.name) if self.column is None else self.column
        return column


def locate(
    df: DataFrame,
    schema: pa.Schema,
    needed: Iterable[Statistic],
    columns: Mapping[str, Column | str],
    statistics: Container[str] = STATISTICS,
) -> dict[Statistic, StatisticColumn]:
    """Return where a DataFrame holds statistics.

    A name in `columns` takes precedence over one of the DataFrame, and `x.min` over the field `min`
    of a struct `x`.

    Args:
        df: One row per container.
        schema: The table's columns.
        needed: The statistics to find.
        columns: Where to find the statistics that have other names in the DataFrame.
        statistics: The names of statistics; a field of another name belongs to a column.

    Raises:
        StatisticsError: The DataFrame has no statistic of any column of the table; or `columns`
            names something else.
    """
    names, needed = _Names(schema, fold_of(df.sparkSession), statistics), list(needed)
    found: dict[Key, StatisticColumn] = {}
    for name, column in _named(df):
        names.add(found, name, column)
    wanted = {(s.path, s.kind) for s in needed}
    # `columns` may be a large mapping that makes Columns when they are looked up.
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
            f"the DataFrame has columns {', '.join(df.columns)}; expected names such as "
            f"{names.shown}, or columns= with their names"
        )
    return {s: found[s.path, s.kind] for s in needed if (s.path, s.kind) in found}


def statistics_columns(
    df: DataFrame, schema: pa.Schema, statistics: Container[str] = STATISTICS
) -> set[str]:
    """Return the columns of a DataFrame that are statistics by name, alone or in structs."""
    names = _Names(schema, fold_of(df.sparkSession), statistics)
    return {name for name, column in _named(df) if names.add({}, name, column)}


def _named(df: DataFrame) -> Iterator[tuple[str, StatisticColumn]]:
    """Yield the columns of a DataFrame: structs first, so that a plain column replaces a field."""
    for field in sorted(df.schema, key=lambda f: f.dataType.typeName() != "struct"):
        yield field.name, StatisticColumn(quoted_name(field.name), field.dataType)


class _Names:
    """Resolves names to the statistics and columns of a table."""

    def __init__(
        self, schema: pa.Schema, fold: Callable[[str], str], known: Container[str] = STATISTICS
    ) -> None:
        self.fold, self.known = fold, known
        self.statistics: dict[str, Key] = {fold(ROW_COUNT): ((), ROW_COUNT)}
        self.columns: dict[str, Path] = {}
        # If a name fits two columns, it means the one at the top of the schema.
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
        """Return True if a name means a wanted statistic or a whole column.

        Raises:
            StatisticsError: It means neither a statistic nor a column.
        """
        folded = self.fold(name)
        if folded not in self.statistics and folded not in self.columns:
            raise StatisticsError(
                f"columns= names {name!r}, which is not a statistic of a column of the schema; "
                f"expected names such as {self.shown}"
            )
        return folded in self.columns or self.statistics[folded] in wanted

    def add(self, found: dict[Key, StatisticColumn], name: str, column: StatisticColumn) -> bool:
        """Add a column of a DataFrame to `found` if its name means a statistic or a whole column.

        The fields of a whole column are its statistics. Return True if any statistic was added.
        """
        key = self.statistics.get(self.fold(name))
        if key is not None:
            found[key] = column
        elif (path := self.columns.get(self.fold(name))) is not None:
            return self.add_fields(found, path, column)
        return key is not None

    def add_fields(
        self, found: dict[Key, StatisticColumn], path: Path, column: StatisticColumn
    ) -> bool:
        """Add the fields of a struct that are statistics, and those of nested structs, to `found`.

        Nested structs hold the statistics of the column's own fields. Return True if any was added.
        """
        from pyspark.sql.types import StructType

        if not isinstance(column.type, StructType):
            return False
        any_added = False
        below = {self.fold(p[-1]): p for p in self.columns.values() if p[:-1] == path}
        names = [self.fold(f.name) for f in column.type]
        for f in column.type:
            folded = self.fold(f.name)
            if names.count(folded) > 1:
                continue  # the name is ambiguous
            text = field_of(column.name, f.name) or ""
            inner = StatisticColumn(text, f.dataType, struct=column, field=f.name)
            if folded in self.known and not isinstance(f.dataType, StructType):
                found[path, folded] = inner
                any_added = True
            elif folded in below:
                any_added |= self.add_fields(found, below[folded], inner)
        return any_added


INTEGERS = ("tinyint", "smallint", "int", "bigint")


def assume(
    predicate: PruningPredicate, columns: Mapping[str, Column | str]
) -> dict[Statistic, StatisticColumn]:
    """Return where the statistics of a predicate will be in a DataFrame that is not known yet.

    Each is assumed to have its column's own type; in a DataFrame where it does not, it is unknown.

    Args:
        predicate: The condition.
        columns: Where to find statistics that have other names. Empty: none has.

    Raises:
        StatisticsError: `columns` names something else, or has a Column that is not a plain name.
    """
    names = _Names(predicate.schema, str if predicate.settings["case_sensitive"] else str.lower)
    found: dict[Key, str | None] = (
        {}
        if columns
        else {(s.path, s.kind): quoted_name(s.name) for s in needed_statistics(predicate)}
    )
    for name, column in columns.items():
        key = names.statistics.get(names.fold(name))
        if key is None:
            raise StatisticsError(
                f"columns= names {name!r}, which is not a statistic of a column of the schema; "
                f"expected names such as {names.shown}, or df= with structs"
            )
        found[key] = (
            name_of(column) if not isinstance(column, str) else quoted_path(split_name(column))
        )
    return {
        s: _guarded(s, found[s.path, s.kind])
        for s in needed_statistics(predicate)
        if (s.path, s.kind) in found
    }


def _guarded(statistic: Statistic, name: str | None) -> StatisticColumn:
    """Return a statistic by name that is NULL if it has another type than the assumed one."""
    accepted, kind = own_type(statistic)
    names = ", ".join(f"'{n}'" for n in accepted)
    return StatisticColumn(
        ""
        if name is None
        else f"if(typeof({name}) IN ({names}), try_cast({name} AS {kind.simpleString()}), NULL)",
        kind,
    )


def own_type(statistic: Statistic) -> tuple[tuple[str, ...], DataType]:
    """Return the names of an unseen statistic's possible types, and a type that holds them all."""
    from pyspark.sql import types as T

    dtype = statistic.dtype
    match dtype.kind:
        case _ if statistic.is_count:
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
