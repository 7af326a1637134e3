"""The implementation of `spark.read.format("skipstone")`: read a planned table in Python workers.

The classes that PySpark needs derive from its own, so they are in the module `pyspark_skipstone`,
whose name lets Spark find them. This module does not import PySpark.

`pushFilters` is not implemented. Spark 4.3 keeps planned partitions on the relation and does not
plan again for a query whose filters it does not push: after `df.where("k = 5")` the same
`df.count()` lost rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.reading.python_read import group_tasks
from skipstone.bindings.spark.reading.tables import Table, table_of
from skipstone.bindings.spark.session.session import require_pyspark
from skipstone.bindings.spark.session.types import carried, fitted, spark_schema
from skipstone.ir.arrow import is_instant
from skipstone.ir.errors import PredicateError, SourceError, UnknownColumn
from skipstone.ir.session import Settings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.read import Reader

NAME: Final = "skipstone"
OPTIONS: Final = (
    "path", "paths", "format", "where", "columns", "version", "snapshot", "timezone", "ansi",
    "casesensitive",
)  # fmt: skip
# Zones in which a time without a zone is two different instants.
PROBE_ZONES: Final = ("Asia/Tokyo", "America/Los_Angeles")


def register(spark: Any) -> None:
    """Register `spark.read.format("skipstone")` in a session.

    Sessions whose workers find Skipstone installed know the format already.

    Options: `path`; `format` ("parquet", "hive", "delta", "iceberg"; by default it is detected);
    `where`, SQL text; `columns`, names separated by commas; `version` or `snapshot`; `timezone`,
    `ansi`, `caseSensitive`, because a data source does not see the session's settings. A schema, if
    given, also selects columns. Filters that are added later prune nothing more: call `load` for
    each condition.

    Args:
        spark: The session.

    Raises:
        BackendMissing: PySpark is not installed.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> reader = spark.read.format("skipstone")  # doctest: +SKIP
        >>> reader.option("where", "x = 5").load("/lake/t").show()  # doctest: +SKIP
    """
    require_pyspark()
    from pyspark.errors import AnalysisException

    from pyspark_skipstone import DefaultSource

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as e:  # Spark 4.0 rejects a name that it has found by itself
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(e):
            raise


class ReadRequest:
    """A table, a condition and columns, parsed from options.

    Args:
        options: Spark's options, with names in any case.

    Raises:
        SourceError: an option is missing, unknown or malformed, or there is no such table.
        PredicateError: the condition is malformed, or its meaning depends on a time zone that no
            option gives.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        options_given = {k.lower(): v for k, v in options.items() if not k.startswith("__")}
        if unknown_options := sorted(set(options_given) - set(OPTIONS)):
            raise SourceError(
                f"the option {unknown_options[0]!r} is not known; expected {', '.join(OPTIONS)}"
            )
        location = options_given.get("path") or json.loads(options_given.get("paths", "null"))
        if not location:
            raise SourceError(
                "no path was given; expected "
                'spark.read.format("skipstone").load(path), or .option("path", path)'
            )
        version = options_given.get("version", options_given.get("snapshot"))
        self.table: Table = table_of(
            location,
            options_given.get("format"),
            int(version) if version is not None and version.lstrip("-").isdigit() else version,
        )
        self.settings = Settings(
            timezone=options_given.get("timezone", "UTC"),
            ansi=_flag(options_given, "ansi", True),
            case_sensitive=_flag(options_given, "casesensitive", False),
        )
        if options_given.get("columns", "").strip():
            names = [name.strip() for name in options_given["columns"].split(",")]
        else:
            names = None
        self.columns: list[str] = names or list(self.table.schema.names)
        if unknown_columns := [
            name for name in self.columns if name not in self.table.schema.names
        ]:
            raise UnknownColumn(
                f"the option 'columns' names {unknown_columns[0]!r}; "
                f"the table has {', '.join(self.table.schema.names)}"
            )
        self.predicate = (
            PruningPredicate(options_given["where"], self.table.schema, **self.settings)
            if options_given.get("where", "").strip()
            else None
        )
        if "timezone" not in options_given:
            self._check_zone_independent(options_given.get("where", ""))

    def _check_zone_independent(self, where: str) -> None:
        """Raise PredicateError if the result depends on the session's time zone.

        A data source does not see this setting.
        """
        kinds = [self.table.schema.field(name).type for name in self.table.partition_columns]
        zone_dependent = any(map(is_instant, kinds))
        if self.predicate is not None:
            others = (
                PruningPredicate(
                    where, self.table.schema, **Settings({**self.settings, "timezone": zone})
                )
                for zone in PROBE_ZONES
            )
            zone_dependent |= any(other.node != self.predicate.node for other in others)
        if zone_dependent:
            raise PredicateError(
                "the result depends on a time zone, and a data source does not see the session's; "
                'add .option("timezone", "..."), or write times with a zone, '
                "such as TIMESTAMP '2024-01-01 00:00:00Z'"
            )

    def schema(self) -> StructType:
        """Return the columns as a Spark schema."""
        return spark_schema(self._carried(self.columns))

    def _carried(self, columns: Sequence[str]) -> pa.Schema:
        return carried(pa.schema([self.table.schema.field(name) for name in columns]))

    def columns_of_schema(self, schema: StructType) -> list[str]:
        """Return the table's columns that a given schema names.

        Raises:
            UnknownColumn: the table has no such column.
            SourceError: the table has it with another type.
        """
        fold = str if self.settings["case_sensitive"] else str.lower
        own = {fold(name): name for name in self.columns}
        out = []
        for f in schema.fields:
            if fold(f.name) not in own:
                raise UnknownColumn(
                    f"the schema names {f.name!r}; the table has {', '.join(self.columns)}"
                )
            name = own[fold(f.name)]
            kind = spark_schema(self._carried([name])).fields[0].dataType
            if kind.simpleString() != f.dataType.simpleString():
                raise SourceError(
                    f"the schema has {f.name!r} as {f.dataType.simpleString()}; the table has it "
                    f"as {kind.simpleString()}. Cast it afterwards."
                )
            out.append(name)
        return out

    def plan(self, columns: list[str]) -> Plan:
        """Plan the read of some columns."""
        return self.table.plan(self.predicate, columns=columns, **self.settings)


class PlanReader:
    """Plans once, and reads the planned files in groups.

    Args:
        request: The table, condition and columns.
        schema: The schema that Spark expects of the batches.
    """

    def __init__(self, request: ReadRequest, schema: StructType) -> None:
        plan = request.plan(request.columns_of_schema(schema))
        own = carried(pa.schema([plan.table.schema.field(name) for name in plan.columns]))
        self.to = pa.schema([f.with_name(s.name) for f, s in zip(own, schema.fields, strict=True)])
        tasks = plan.table.tasks(plan)
        self.reader: Reader = tasks.reader
        self.reader.require_readable(tasks.each)
        self._groups: list[list[Any]] | None = group_tasks(tasks)

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends each group to its worker separately.
        return {"to": self.to, "reader": self.reader, "_groups": None}

    @property
    def groups(self) -> list[list[Any]]:
        """The tasks that each task of Spark reads; one empty group if no file may match."""
        if self._groups is None:
            raise SourceError(
                "this copy of a reader is for a worker, which gets its group from Spark; "
                "ask the reader that planned for its partitions"
            )
        return self._groups or [[]]

    def batches(self, group: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group of tasks."""
        for task in group:
            for rows in self.reader.read(task):
                yield fitted(rows.rename_columns(self.to.names), self.to)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise SourceError(f"the option {name} is {text!r}; expected true or false")
    return text == "true"
