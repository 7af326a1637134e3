"""List the files of a scan: those of Spark's own indexes, or those that Delta selected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.spark.pruning.context import Context
from skipstone.bindings.spark.pruning.listing import Listing
from skipstone.bindings.spark.pruning.scan_files import ScanFiles
from skipstone.bindings.spark.session.jvm import text_of
from skipstone.bindings.spark.session.types import arrow_schema
from skipstone.ir.errors import SkipstoneError, describe_error

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
NARROWED: Final = (PRUNED, "skipstone.PrunedDeltaFiles")


class NotPruned(SkipstoneError):
    """A scan cannot be pruned; the message says why."""


@dataclass(frozen=True, slots=True)
class Relation:
    """The files that a scan reads.

    Attributes:
        jvm: Spark's relation.
        index: The class of its file index.
        format: The class of its file format.
        roots: The paths that it reads.
        schema: The columns that statistics can judge.
        partitions: The partition columns, a struct in Spark's JSON form.
    """

    jvm: Any
    index: str
    format: str
    roots: list[str]
    schema: pa.Schema
    partitions: Mapping[str, Any]


def check_kind(relation: Relation, context: Context) -> None:
    """Check that the files of a relation can be listed and judged.

    Raises:
        NotPruned: they cannot.
    """
    if relation.format == PARQUET and relation.index in FILE_INDEXES:
        return
    if relation.index.startswith(DELTA_INDEXES):
        # Delta gives a DataFrame the newest version each time, so a plan that runs later must not
        # get the list of today's files.
        if not context.runs_now:
            raise NotPruned("Delta lists its files; enable(spark) prunes it, and so does read()")
        if relation.format == DELTA and relation.index == PREPARED:
            return
    raise NotPruned(
        f"its files are listed by {relation.index.split('.')[-1]} and read as "
        f"{relation.format.split('.')[-1]}; only files of Parquet and Delta tables are pruned"
    )


def list_files(relation: Relation, context: Context) -> tuple[ScanFiles, Any]:
    """Return the files of a relation, and the same list as an object of Spark's JVM.

    Raises:
        NotPruned: a partition column's type is not understood, or Delta's classes are others.
        SourceError: the files cannot be judged.
    """
    partitioned = arrow_schema(relation.partitions)
    if len(partitioned) != len(relation.partitions["fields"]) or not set(partitioned.names) <= set(
        relation.schema.names
    ):
        raise NotPruned("it has a partition column of a type that is not understood")
    if relation.index == PREPARED:
        return _delta_files(relation, partitioned, context)
    data = pa.schema([f for f in relation.schema if f.name not in partitioned.names])
    listed = context.gateway.listing(relation.jvm.location())
    key = (
        listed.digest(),
        tuple(relation.roots),
        data.serialize().to_pybytes(),
        partitioned.serialize().to_pybytes(),
        id(context.filesystem),
    )

    def make() -> Listing:
        text, values = text_of(listed.text()), text_of(listed.partitions())
        return Listing(text, values, data, partitioned, relation.roots, context.filesystem)

    return context.listings.get(key, make), listed


def _delta_files(
    relation: Relation, partitioned: pa.Schema, context: Context
) -> tuple[ScanFiles, Any]:
    from py4j.protocol import Py4JError

    from skipstone.bindings.spark.pruning.delta_listing import DeltaListing

    try:
        listed = context.gateway.deltaFiles(relation.jvm.location())
    except Py4JError as e:
        raise NotPruned(f"this version of Delta has other classes ({describe_error(e)})") from e
    key = ("delta", listed.digest(), partitioned.serialize().to_pybytes())
    return context.listings.get(
        key, lambda: DeltaListing(text_of(listed.text()), partitioned)
    ), listed
