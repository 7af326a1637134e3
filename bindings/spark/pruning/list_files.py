"""List the files of a scan: of Spark's own indexes, or those that Delta or Iceberg selected."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.listing import Listing
from skipstone.bindings.spark.pruning.registered_listing import RegisteredListing
from skipstone.bindings.spark.pruning.scan_files import ScanFiles
from skipstone.bindings.spark.registered.registry import REGISTRY, RegisteredStatistics
from skipstone.bindings.spark.session.jvm import text_of
from skipstone.bindings.spark.session.types import arrow_schema
from skipstone.ir.errors import SkipstoneError

PARQUET: Final = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
PRUNED: Final = "skipstone.PrunedFiles"
FILE_INDEXES: Final = (
    "org.apache.spark.sql.execution.datasources.InMemoryFileIndex",
    "org.apache.spark.sql.execution.datasources.CatalogFileIndex",
    PRUNED,
)
DELTA: Final = "org.apache.spark.sql.delta.DeltaParquetFileFormat"
PREPARED: Final = "org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex"
DELTA_INDEXES: Final = "org.apache.spark.sql.delta."
ICEBERG: Final = "iceberg"
NARROWED: Final = (PRUNED, "skipstone.PrunedDeltaFiles", "skipstone.PrunedIcebergScan")


class NotPruned(SkipstoneError):
    """A scan cannot be pruned; the message says why."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The files that a scan reads.

    Attributes:
        jvm: Spark's file index, or Iceberg's scan.
        index: Its class.
        format: The class of the file format; or "iceberg".
        planned_by_layout: True if Spark has planned by the partitions or the order of all files.
        roots: The paths that it reads.
        schema: The columns that statistics can judge.
        partitions: The partition columns, a struct in Spark's JSON form.
        number: The number of its list of files in the plan.
        lists: The lists of the plan so far by number, as objects of Spark's JVM. A plan may read a
            table in many places, and listing takes 1 ms per 1,000 files.
    """

    jvm: Any
    index: str
    format: str
    planned_by_layout: bool
    roots: list[str]
    schema: pa.Schema
    partitions: Mapping[str, Any]
    number: int
    lists: dict[int, Any]

    def listed(self, make: Callable[[Any], Any]) -> Any:
        """Return the list of files as an object of Spark's JVM; make it at first use."""
        if self.number not in self.lists:
            self.lists[self.number] = make(self.jvm)
        return self.lists[self.number]


def check_kind(relation: Relation, context: Context) -> None:
    """Check that the files of a relation can be listed and judged.

    Raises:
        NotPruned: they cannot.
    """
    if relation.format == PARQUET and relation.index in FILE_INDEXES:
        return
    if relation.format == ICEBERG or relation.index.startswith(DELTA_INDEXES):
        # Delta and Iceberg resolve the newest version on every run, so a plan that runs later must
        # not get the files that are listed now.
        if not context.runs_now:
            lake = "Iceberg" if relation.format == ICEBERG else "Delta"
            raise NotPruned(f"{lake} lists its files; enable(spark) prunes it, and so does read()")
        if relation.planned_by_layout:
            raise NotPruned("Spark's plan relies on the partitions or the order of all its files")
        if relation.format == ICEBERG or (relation.format == DELTA and relation.index == PREPARED):
            return
    raise NotPruned(
        f"its files are listed by {relation.index.split('.')[-1]} and read as "
        f"{relation.format.split('.')[-1]}; only Parquet, Delta and Iceberg tables are pruned"
    )


def list_files(relation: Relation, context: Context) -> tuple[ScanFiles, Any]:
    """Return the files of a relation, and the same list as an object of Spark's JVM.

    Raises:
        NotPruned: a partition column's type is not understood, or Delta's classes are not the
            expected ones.
        SourceError: the files cannot be judged.
    """
    partitioned = arrow_schema(relation.partitions)
    if len(partitioned) != len(relation.partitions["fields"]) or not set(partitioned.names) <= set(
        relation.schema.names
    ):
        raise NotPruned("it has a partition column of a type that is not understood")
    if relation.format in (DELTA, ICEBERG):
        return _lake_files(relation, partitioned, context)
    data = pa.schema([f for f in relation.schema if f.name not in partitioned.names])
    listed = relation.listed(context.gateway.listing)
    key = (
        listed.digest(),
        tuple(relation.roots),
        data.serialize().to_pybytes(),
        partitioned.serialize().to_pybytes(),
        id(context.filesystem),
    )

    @cache
    def parts() -> tuple[str, str, pa.Schema, pa.Schema]:
        return text_of(listed.text()), text_of(listed.partitions()), data, partitioned

    def footers() -> Listing:
        return context.listings.get(
            key, lambda: Listing(*parts(), relation.roots, context.filesystem)
        )

    registered = REGISTRY.over(relation.roots)
    if not registered:
        return footers(), listed
    return registered_listing(registered, key, parts, footers, context), listed


def registered_listing(
    registered: Sequence[RegisteredStatistics],
    key: tuple[Hashable, ...],
    parts: Callable[[], tuple[str, str, pa.Schema, pa.Schema]],
    footers: Callable[[], Listing],
    context: Context,
) -> RegisteredListing:
    """Return a list of files that registered statistics judge.

    Args:
        registered: The statistics.
        key: What identifies the list with footers.
        parts: Returns the list, as `ListedFiles` takes it.
        footers: Makes the list with footers.
        context: What the scans of the plan share.
    """
    case_sensitive = context.settings["case_sensitive"]
    return context.listings.get(
        (*key, case_sensitive, *(one.token for one in registered)),
        lambda: RegisteredListing(*parts(), registered, case_sensitive, footers),
    )


def _lake_files(
    relation: Relation, partitioned: pa.Schema, context: Context
) -> tuple[ScanFiles, Any]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from skipstone.bindings.spark.pruning.lake_listing import delta_listing, iceberg_listing

    iceberg = relation.format == ICEBERG
    name = "IcebergFiles" if iceberg else "DeltaFiles"
    try:
        listed = relation.listed(partial(context.gateway.lakeFiles, name))
    except PySparkException as e:  # what `IcebergFiles.java` throws
        raise NotPruned(str(e).partition("\n")[0]) from e
    except Py4JError as e:
        why = str(getattr(e, "java_exception", e)).partition("\n")[0]
        raise NotPruned(f"{name.removesuffix('Files')}'s classes are not known ({why})") from e
    text = listed.text()
    return context.listings.get(
        (name, listed.digest(), partitioned.serialize().to_pybytes()),
        lambda: (
            iceberg_listing(text_of(text)) if iceberg else delta_listing(text_of(text), partitioned)
        ),
    ), listed
