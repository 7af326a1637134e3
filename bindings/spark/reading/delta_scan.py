"""Delta's reader API in Spark: a table's files with statistics, and the files of a scan.

The files with statistics are a cached view under Delta's name.

Source: Delta Lake, `DataSkippingReaderBase`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.plans.plan import Plan
from skipstone.bindings.plans.table_protocol import DataSize
from skipstone.bindings.predicates.predicate import Condition, PruningPredicate
from skipstone.bindings.spark.reading.tables import table_of
from skipstone.bindings.spark.session.frame import from_arrow, stats_frame
from skipstone.bindings.spark.session.session import (
    quiet,
    require_pyspark,
    settings_of,
)
from skipstone.bindings.spark.session.text_meaning import require_usual_meaning
from skipstone.bindings.tables.delta.table import DeltaTable
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Node, Op, conjuncts_of, quoted_name
from skipstone.ir.session import Settings, check_flag
from skipstone.ir.simplify import TRUE
from skipstone.ir.text import show

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipstone.bindings.predicates.predicate import PredicateSource

FILE_COLUMNS: Final = ("path", "size", "modificationTime", "deletionVector", "partition")
# Session -> name of a view -> the version of the table in it.
_CACHED_VERSIONS: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def with_stats(spark: Any, table: Any, version: int | str | None = None) -> DataFrame:
    """Return the files of a Delta table with their statistics, as a cached temporary view.

    The view's name is "Delta Table State with Stats #VERSION - PATH", which Spark's storage page
    and query plans show. Another call for the same version returns the cached view; another version
    is another view. `spark.catalog.dropTempView` frees it.

    Args:
        spark: The session, classic or of Spark Connect.
        table: A `DeltaTable`, or the path of one.
        version: The version of the table at a path; None is the newest.

    Returns:
        A row for each file: `path`, `size`, `modificationTime`, `deletionVector`, `partition`,
            `num_records`, `num_logical_records`, `tight_bounds`, and the statistics that
            `with_verdict` takes: `x.min`, `x.max`, `x.null_count` of each column, `row_count`.

    Raises:
        SourceError: there is no such Delta table.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> files = with_stats(spark, "/lake/t")  # doctest: +SKIP
        >>> files.where("`x.max` > 5").select("path").show()  # doctest: +SKIP

    Source: Delta Lake, `withStats`, `withStatsCache`.
    """
    require_pyspark()
    found = _delta(table, version)
    with quiet():
        versions, name = _CACHED_VERSIONS.setdefault(spark, {}), quoted_name(found.name)
        if (
            versions.get(name) == found.request
            and spark.catalog.tableExists(name)
            and spark.catalog.isCached(name)
        ):
            cached: DataFrame = spark.table(name)
            return cached
        if spark.catalog.tableExists(name):
            spark.catalog.uncacheTable(name)
        counts = found.with_stats.select(["num_records", "num_logical_records", "tight_bounds"])
        about = found.files.select(list(FILE_COLUMNS))
        for column in counts.column_names:
            about = about.append_column(column, counts.column(column))
        stats_frame(spark, found.statistics, about).createOrReplaceTempView(name)
        spark.catalog.cacheTable(name)
        versions[name] = found.request
        view: DataFrame = spark.table(name)
        return view


@dataclass(frozen=True, slots=True)
class DeltaScan:
    """The files of a scan, and how they were found.

    Attributes:
        version: The version of the table.
        files: A row for each file: `path`, `size`, `modificationTime`, `deletionVector`,
            `partition`; `stats`, which is NULL, or with `keep_num_records` the JSON of `numRecords`
            alone. Host memory.
        frame: The same as a DataFrame.
        total, partition, scanned: Sizes of the table, of the files that pass the partition filters,
            and of the files that also pass the statistics: files, bytes, physical rows, logical
            rows. A number is None if it is unknown for any file.
        skipping: In Delta's words: "noSkippingV1", "partitionFilteringOnlyV1",
            "dataSkippingOnlyV1", "dataSkippingAndPartitionFilteringV1", "limit", "filteredLimit".
        partition_filters: The conjuncts over partition columns only, as SQL text.
        data_filters: The other conjuncts.
        unused_filters: The conjuncts that cannot prune.
        plan: The plan.

    Source: Delta Lake, `DeltaScan`.
    """

    version: int
    files: pa.Table
    frame: DataFrame
    total: DataSize
    partition: DataSize
    scanned: DataSize
    skipping: str
    partition_filters: tuple[str, ...]
    data_filters: tuple[str, ...]
    unused_filters: tuple[str, ...]
    plan: Plan


def files_for_scan(
    spark: Any,
    table: Any,
    filters: Condition | Sequence[PredicateSource] | None = None,
    *,
    limit: int | None = None,
    keep_num_records: bool = False,
    version: int | str | None = None,
) -> DeltaScan:
    """Return the files of a Delta table that a scan has to read.

    Args:
        spark: The session, whose settings apply to the filters.
        table: A `DeltaTable`, or the path of one.
        filters: One condition, or a list of conditions that must all hold: SQL text or Columns.
        limit: The number of rows that are needed.
        keep_num_records: True if `files` contains the number of records of each file.
        version: The version of the table at a path; None is the newest.

    Returns:
        The files to read, with their sizes and the filters that were used.

    Raises:
        PredicateError: a filter is malformed or names an unknown column.
        UnsupportedForm: the session parses SQL text differently from Skipstone.
        SourceError: there is no such Delta table.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> filters = ["day = DATE '2024-01-01'", "x > 5"]
        >>> scan = files_for_scan(spark, "/lake/t", filters)  # doctest: +SKIP
        >>> scan.scanned.files, scan.total.files, scan.skipping  # doctest: +SKIP
        (1, 400, 'dataSkippingAndPartitionFilteringV1')

    Source: Delta Lake, `filesForScan`, `getDataSkippedFiles`, `pruneFilesByLimit`.
    """
    require_pyspark()
    check_flag("keep_num_records", keep_num_records)
    if filters is not None:
        require_usual_meaning(spark, filters)
    found, settings = _delta(table, version), settings_of(spark)
    plan = found.plan(_combined_predicate(filters, found.schema, settings), limit=limit, **settings)
    files = found.files.select(list(FILE_COLUMNS)).take(pa.array(plan.kept))
    numbers = [None] * len(files)
    if keep_num_records:
        records = found.files_and_num_records.column("num_physical_records")
        numbers = records.take(pa.array(plan.kept)).to_pylist()
    files = files.append_column(
        "stats",
        pa.array([None if n is None else f'{{"numRecords":{n}}}' for n in numbers], pa.string()),
    )
    conjuncts = (
        ()
        if plan.predicate is None or plan.predicate.node == TRUE
        else conjuncts_of(plan.predicate.node)
    )
    by_partition = [plan.is_of_partitions(c) for c in conjuncts]
    frame = from_arrow(spark, _without_empty_structs(files))
    return DeltaScan(
        version=found.version,
        files=files,
        frame=frame,
        total=plan.sizes.total,
        partition=plan.sizes.partition,
        scanned=plan.sizes.scan,
        skipping=plan.kind,
        partition_filters=tuple(
            show(c) for c, own in zip(conjuncts, by_partition, strict=True) if own
        ),
        data_filters=tuple(
            show(c) for c, own in zip(conjuncts, by_partition, strict=True) if not own
        ),
        unused_filters=plan.unused,
        plan=plan,
    )


def _delta(table: Any, version: int | str | None) -> DeltaTable:
    found = table_of(table, None if isinstance(table, DeltaTable) else "delta", version)
    if not isinstance(found, DeltaTable):
        raise SourceError(
            f"{found!r} is not a Delta table; expected a DeltaTable, or the path of one"
        )
    return found


def _combined_predicate(
    filters: Any, schema: pa.Schema, settings: Settings
) -> PruningPredicate | None:
    """Return one predicate for all conditions."""
    if filters is None or isinstance(filters, PruningPredicate):
        return filters
    # A list of lists or tuples is one condition, such as [("x", "=", 5)].
    several = isinstance(filters, list | tuple) and not any(
        isinstance(f, list | tuple) for f in filters
    )
    each = [PruningPredicate(f, schema, **settings) for f in (filters if several else [filters])]
    if len(each) < 2:
        return each[0] if each else None
    return each[0].part(Node(Op.AND, tuple(c for p in each for c in conjuncts_of(p.node))))


def _without_empty_structs(files: pa.Table) -> pa.Table:
    """Return a table without its struct columns that have no fields, which Spark does not accept.

    The partition struct of a table without partitions is one.
    """
    kept = [
        f.name for f in files.schema if not (pa.types.is_struct(f.type) and f.type.num_fields == 0)
    ]
    return files.select(kept)
