"""Pruned joins of tables whose statistics are shards: executors judge them by the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.filters.kinds import Needs
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.pruning.condition import condition_of
from skipstone.bindings.spark.pruning.join_table import filters_for, join_report
from skipstone.bindings.spark.pruning.prune import with_report
from skipstone.bindings.spark.pruning.reports import Pruned
from skipstone.bindings.spark.reading.paths import spark_path, why_unlisted
from skipstone.bindings.spark.session.session import quiet, settings_of
from skipstone.bindings.spark.session.text_meaning import require_usual_meaning
from skipstone.bindings.spark.session.types import carried, spark_schema
from skipstone.bindings.spark.shards.prune_shards import prune_shards
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Node, Op, quoted_name
from skipstone.ir.simplify import TRUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.shards.shards import Shards
    from skipstone.bindings.spark.pruning.join_table import JoinFilters, JoinRequest

ReadPaths = Callable[[list[str]], "DataFrame"]
PATH_COLUMN: Final = "path"  # the column of shards that names each container's file


def join_shards(
    shards: Shards, build: DataFrame, request: JoinRequest, read: ReadPaths | None
) -> DataFrame:
    """Run `prune_join` on a table by its shards.

    Args:
        shards: The statistics of the probe side.
        build: The build side.
        request: The join.
        read: A function from paths to a DataFrame; None reads plain Parquet files.

    Raises:
        SourceError: the shards do not name their files, or these are not plain Parquet files.
    """
    if shards.about_schema is None or PATH_COLUMN not in shards.about_schema.names:
        raise SourceError(
            f"{shards!r} do not say where their files are; "
            f"save them with a column {PATH_COLUMN!r} among about="
        )
    spark = build.sparkSession
    if request.where is not None:
        require_usual_meaning(spark, request.where)
    join_filters = filters_for(request, build, shards.schema, ())
    condition = _condition(join_filters, shards.schema, **settings_of(spark))
    with quiet():
        found = (
            prune_shards(spark, shards, condition, returns="frame")
            .select(PATH_COLUMN, "unreadable")
            .toArrow()
        )
        paths = _paths(found.column(PATH_COLUMN))
        rows = _rows(spark, shards, paths, read)
        if join_filters.where is not None and join_filters.where.node != TRUE:
            rows = rows.where(condition_of(spark, join_filters.where))
    # If files hold several containers, such as row groups, the number of files is unknown.
    report = join_report(
        repr(shards),
        join_filters,
        len(shards) if len(paths) == found.num_rows else None,
        len(paths),
    )
    return with_report(request.join(rows, join_filters.build), Pruned((report,)))


def _condition(join_filters: JoinFilters, schema: pa.Schema, **settings: Any) -> PruningPredicate:
    """Return the condition of rows that the join needs."""
    parts = [] if join_filters.where is None else [join_filters.where.node]
    for f in join_filters.filters:
        parts += [one.node for one in _conditions_of_filter(f, schema, **settings)]
    whole = PruningPredicate("true", schema, **settings)
    return (
        whole.part(parts[0] if len(parts) == 1 else Node(Op.AND, tuple(parts))) if parts else whole
    )


def _conditions_of_filter(
    f: DynamicFilter, schema: pa.Schema, **settings: Any
) -> list[PruningPredicate]:
    """Return the conditions of one filter; none if conditions on columns cannot express it."""
    data = f.data
    assert data is not None
    matched = PruningPredicate(
        data.to_predicate({key: quoted_name(str(column)) for key, column in f.columns.items()}),
        schema,
        **settings,
    )
    if f.needs is Needs.MATCHED:
        return [matched]
    if f.needs is Needs.UNMATCHED and data.spelled:
        return [matched.part(Node(Op.NOT, (Node(Op.IS_TRUE, (matched.node,)),)))]
    return []


def _paths(column: pa.ChunkedArray) -> list[str]:
    if column.null_count:
        raise SourceError(
            f"{column.null_count} containers that may hold a matching row have no {PATH_COLUMN}, "
            "so their rows would be lost; save the shards again"
        )
    # A file under two spellings of its path is read once.
    return sorted({spark_path(path): path for path in column.unique().to_pylist()}.values())


def _rows(spark: Any, shards: Shards, paths: list[str], read: ReadPaths | None) -> DataFrame:
    """Return a DataFrame over some files."""
    if paths:
        return _read_parquet(spark, shards, paths) if read is None else read(paths)
    if read is not None:  # no file is left, and reading any one file gives the columns
        for i in range(shards.num_shards):
            if len(table := shards.about(i)):
                return read([table.column(PATH_COLUMN)[0].as_py()]).where("false")
    return spark.createDataFrame([], spark_schema(carried(shards.schema)))


def _read_parquet(spark: Any, shards: Shards, paths: Sequence[str]) -> DataFrame:
    """Read plain Parquet files with the columns of the shards.

    Raises:
        SourceError: Spark would not list one of them, or a folder name holds a column.
    """
    columns = {name.lower() for name in shards.schema.names}
    for path in paths:
        folders = {part.partition("=")[0].lower() for part in path.split("/")[:-1] if "=" in part}
        local = not path.startswith("/") and "://" not in path and not path.startswith("file:")
        if (
            problem := why_unlisted(path)
            or ("the path is not absolute" if local else "")
            or ("partition folders" if folders & columns else "")
        ):
            raise SourceError(
                f"{path}: {problem}; expected plain Parquet files. "
                "Pass a function that reads them: read=lambda paths: ..."
            )
    found: DataFrame = spark.read.schema(spark_schema(carried(shards.schema))).parquet(
        *map(spark_path, paths)
    )
    return found
