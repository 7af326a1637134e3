"""What `spark.read.format("skipstone")` does: a table planned by options, read in Python workers as Arrow batches.

The classes that PySpark asks for derive from its own, so they are in the module `pyspark_skipstone`, by whose name
Spark finds them; nothing here needs PySpark to be imported.

`pushFilters` is not implemented. Spark 4.3 keeps planned partitions on the relation and does not plan again for a
query whose filters it does not push: after `df.where("k = 5")` the same `df.count()` lost rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.reading.python_read import grouped
from skipstone.bindings.spark.reading.tables import Table, table_of
from skipstone.bindings.spark.session.session import require_pyspark
from skipstone.bindings.spark.session.types import carried, fitted, spark_schema
from skipstone.ir.errors import PredicateError, SourceError, UnknownColumn
from skipstone.ir.session import Settings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from skipstone.bindings.plans.plan import Plan
    from skipstone.bindings.tables.read import Reader

NAME: Final = "skipstone"
OPTIONS: Final = (
    "path",
    "paths",
    "format",
    "where",
    "columns",
    "version",
    "snapshot",
    "timezone",
    "ansi",
    "casesensitive",
)
# Zones in which a time without one is another instant each.
ZONES: Final = ("Asia/Tokyo", "America/Los_Angeles")


def register(spark: Any) -> None:
    """Make `spark.read.format("skipstone")` known to a session. Sessions whose workers find Skipstone installed know it already.

    Options: `path`; `format` ("parquet", "hive", "delta", "iceberg"; by default what lies there); `where`, SQL text; `columns`,
    names with commas; `version` or `snapshot`; `timezone`, `ansi`, `caseSensitive`, since a data source is not told the
    session's settings. A schema that is given narrows the columns, too. What is filtered later prunes nothing more: each
    question wants its own `load`.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.read.format("skipstone").option("where", "x = 5").load("/lake/t").show()  # doctest: +SKIP
    """
    require_pyspark()
    from pyspark.errors import AnalysisException

    from pyspark_skipstone import DefaultSource

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as e:  # Spark 4.0 refuses a name that it has found by itself
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(e):
            raise


class ReadRequest:
    """A table and a question, as options say.

    Raises:
        SourceError: an option is missing, unknown or malformed; there is no such table.
        PredicateError: the condition is malformed, or its meaning depends on a time zone that no option tells.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {k.lower(): v for k, v in options.items() if not k.startswith("__")}
        if strange := sorted(set(given) - set(OPTIONS)):
            raise SourceError(
                f"the option {strange[0]!r} is not known; expected {', '.join(OPTIONS)}"
            )
        place = given.get("path") or json.loads(given.get("paths", "null"))
        if not place:
            raise SourceError(
                'no path was given; expected spark.read.format("skipstone").load(path), or .option("path", path)'
            )
        version = given.get("version", given.get("snapshot"))
        self.table: Table = table_of(
            place,
            given.get("format"),
            int(version) if version is not None and version.lstrip("-").isdigit() else version,
        )
        self.settings = Settings(
            timezone=given.get("timezone", "UTC"),
            ansi=_flag(given, "ansi", True),
            case_sensitive=_flag(given, "casesensitive", False),
        )
        names = (
            [name.strip() for name in given["columns"].split(",")]
            if given.get("columns", "").strip()
            else None
        )
        self.columns: list[str] = names or list(self.table.schema.names)
        if unknown := [name for name in self.columns if name not in self.table.schema.names]:
            raise UnknownColumn(
                f"the option columns names {unknown[0]!r}; the table has {', '.join(self.table.schema.names)}"
            )
        self.predicate = (
            PruningPredicate(given["where"], self.table.schema, **self.settings)
            if given.get("where", "").strip()
            else None
        )
        if "timezone" not in given:
            self._same_in_all_zones(given.get("where", ""))

    def _same_in_all_zones(self, where: str) -> None:
        """Refuse a question whose answer depends on the session's time zone, which a data source is not told."""
        kinds = [self.table.schema.field(name).type for name in self.table.partition_columns]
        zoned = any(pa.types.is_timestamp(k) and k.tz is not None for k in kinds)
        if self.predicate is not None:
            others = (
                PruningPredicate(
                    where, self.table.schema, **Settings({**self.settings, "timezone": zone})
                )
                for zone in ZONES
            )
            zoned |= any(other.node != self.predicate.node for other in others)
        if zoned:
            raise PredicateError(
                'what is asked depends on a time zone, and a data source is not told the session\'s; add .option("timezone", "..."), or write '
                "times with a zone, such as TIMESTAMP '2024-01-01 00:00:00Z'"
            )

    def schema(self) -> StructType:
        """The columns, as Spark has them."""
        return spark_schema(self._carried(self.columns))

    def _carried(self, columns: Sequence[str]) -> pa.Schema:
        return carried(pa.schema([self.table.schema.field(name) for name in columns]))

    def narrowed(self, schema: StructType) -> list[str]:
        """The columns of a schema that was given.

        Raises:
            UnknownColumn: the table has no such column.
            SourceError: it has it in another type.
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
                    f"the schema has {f.name!r} as {f.dataType.simpleString()}; the table has it as {kind.simpleString()}. Cast it afterwards."
                )
            out.append(name)
        return out

    def plan(self, columns: list[str]) -> Plan:
        """What to read."""
        return self.table.plan(self.predicate, columns=columns, **self.settings)


class PlanReader:
    """Plans once, and reads what was planned, a few files at a time.

    Args:
        asked: The table and the question.
        schema: What Spark expects of the batches.
    """

    def __init__(self, asked: ReadRequest, schema: StructType) -> None:
        plan = asked.plan(asked.narrowed(schema))
        own = carried(pa.schema([plan.table.schema.field(name) for name in plan.columns]))
        self.to = pa.schema([f.with_name(s.name) for f, s in zip(own, schema.fields, strict=True)])
        tasks = plan.table.tasks(plan)
        self.reader: Reader = tasks.reader
        self._groups: list[list[Any]] | None = grouped(tasks)

    def __getstate__(self) -> dict[str, Any]:
        return {"to": self.to, "reader": self.reader, "_groups": None}  # these travel one by one

    @property
    def groups(self) -> list[list[Any]]:
        """What each task of Spark reads; one reads nothing, where nothing may match."""
        if self._groups is None:
            raise SourceError(
                "this copy of a reader was made for a worker, which is given what to read; ask the reader that planned for its partitions"
            )
        return self._groups or [[]]

    def batches(self, group: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """The rows of some tasks."""
        for task in group:
            for rows in self.reader.read(task):
                yield fitted(rows.rename_columns(self.to.names), self.to)


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise SourceError(f"the option {name} is {text!r}; expected true or false")
    return text == "true"
