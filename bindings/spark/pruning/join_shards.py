"""Pruned joins of tables whose statistics are shards: executors judge them by the keys, and what survives is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skipstone.bindings.filters.kinds import Needs
from skipstone.bindings.predicates.predicate import PruningPredicate
from skipstone.bindings.spark.pruning.condition import condition_of
from skipstone.bindings.spark.pruning.join_table import known_of, report_of
from skipstone.bindings.spark.pruning.prune import remembered
from skipstone.bindings.spark.pruning.scans import Pruned
from skipstone.bindings.spark.reading.native_read import named, unlisted
from skipstone.bindings.spark.session.session import quiet, require_usual_text, settings_of
from skipstone.bindings.spark.session.types import carried, spark_schema
from skipstone.bindings.spark.shards.prune_shards import prune_shards
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Node, Op, quoted_name
from skipstone.ir.simplify import TRUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skipstone.bindings.filters.filter import DynamicFilter
    from skipstone.bindings.shards.read import Shards
    from skipstone.bindings.spark.pruning.join_table import Join, JoinFilters

Read = Callable[[list[str]], "DataFrame"]
PATH: Final = "path"  # the column of shards that says which file a container is, or is a part of


def join_shards(shards: Shards, dim: DataFrame, asked: Join, read: Read | None) -> DataFrame:
    """`prune_join` of a table by its shards; `read` reads files by their paths."""
    if shards.about_schema is None or PATH not in shards.about_schema.names:
        raise SourceError(
            f"{shards!r} do not say where their files are; save them with a column {PATH!r} among about="
        )
    spark = dim.sparkSession
    if asked.where is not None:
        require_usual_text(spark)
    known = known_of(asked, dim, shards.schema, ())
    condition = _condition(known, shards.schema, **settings_of(spark))
    with quiet():
        found = (
            prune_shards(spark, shards, condition, returns="frame")
            .select(PATH, "unreadable")
            .toArrow()
        )
        paths = _paths(found.column(PATH))
        rows = _rows(spark, shards, paths, read)
        if known.where is not None and known.where.node != TRUE:
            rows = rows.where(condition_of(spark, known.where))
    # Where some files are several containers, as row groups are, it is not known how many files there are.
    report = report_of(
        repr(shards), known, len(shards) if len(paths) == found.num_rows else None, len(paths)
    )
    return remembered(asked.join(rows, known.dim), Pruned((report,)))


def _condition(known: JoinFilters, schema: pa.Schema, **settings: Any) -> PruningPredicate:
    """What a row that the join needs fulfils."""
    parts = [] if known.where is None else [known.where.node]
    for f in known.filters:
        parts += [one.node for one in _of_filter(f, schema, **settings)]
    whole = PruningPredicate("true", schema, **settings)
    return (
        whole.part(parts[0] if len(parts) == 1 else Node(Op.AND, tuple(parts))) if parts else whole
    )


def _of_filter(f: DynamicFilter, schema: pa.Schema, **settings: Any) -> list[PruningPredicate]:
    """The same of one filter, column by column; nothing, where no condition of columns says it."""
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
            f"{column.null_count} containers that may hold a matching row have no {PATH}, so their rows would be lost; save the shards again"
        )
    return sorted(
        {named(path): path for path in column.unique().to_pylist()}.values()
    )  # a file that is spelled in two ways is read once


def _rows(spark: Any, shards: Shards, paths: list[str], read: Read | None) -> DataFrame:
    """The rows of some files."""
    if paths:
        return _parquet(spark, shards, paths) if read is None else read(paths)
    some = (
        None
        if read is None
        else next(
            (
                table.column(PATH)[0].as_py()
                for table in map(shards.about, range(shards.num_shards))
                if len(table)
            ),
            None,
        )
    )
    # Where nothing is left, one file tells which columns there would be.
    return (
        spark.createDataFrame([], spark_schema(carried(shards.schema)))
        if read is None or some is None
        else read([some]).where("false")
    )


def _parquet(spark: Any, shards: Shards, paths: Sequence[str]) -> DataFrame:
    """Plain Parquet files, by the shards' columns.

    Raises:
        SourceError: they are not plain: Spark would not find one, or a folder tells a column.
    """
    columns = {name.lower() for name in shards.schema.names}
    for path in paths:
        folders = {part.partition("=")[0].lower() for part in path.split("/")[:-1] if "=" in part}
        local = not path.startswith("/") and "://" not in path and not path.startswith("file:")
        if (
            odd := unlisted(path)
            or ("a path that is not whole" if local else "")
            or ("partition folders" if folders & columns else "")
        ):
            raise SourceError(
                f"{path}: {odd}; expected plain Parquet files. Say how they are read: read=lambda paths: ..."
            )
    found: DataFrame = spark.read.schema(spark_schema(carried(shards.schema))).parquet(
        *map(named, paths)
    )
    return found
