"""`write_shards`: executors pack statistics of a DataFrame into shards; the driver commits them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.shards.folder import ShardFolder
from skipstone.bindings.shards.shards import Shards
from skipstone.bindings.shards.write import (
    ROWS,
    WrittenShard,
    check_rows,
    commit,
    forget,
    new_token,
)
from skipstone.bindings.spark.session.session import fold_of, functions_of, quiet, require_pyspark
from skipstone.bindings.spark.session.types import as_arrow, spark_schema
from skipstone.bindings.spark.shards.shard_jobs import WRITTEN, PackJob, as_function
from skipstone.bindings.spark.statistics.carry import exact_column, is_usable
from skipstone.bindings.spark.statistics.locate import locate, statistics_columns
from skipstone.bindings.spark.statistics.needed import Statistic, all_statistics
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


def write_shards(
    stats: DataFrame,
    where: str | os.PathLike[str],
    schema: pa.Schema | StructType,
    columns: Mapping[str, Column | str] | None = None,
    *,
    rows: int = ROWS,
    about: Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    filesystem: pafs.FileSystem | None = None,
) -> Shards:
    """Write a DataFrame of statistics as shards, for `prune_shards`.

    Each task packs its partition, in order, into shards of at most `rows` containers. If the
    DataFrame is sorted by a column, most shards are decided as a whole by conditions on it. Small
    partitions make small shards, so `coalesce` them first. Tasks that are retried or run twice
    write under separate file names. The driver writes the manifest last, and it lists only files of
    the tasks that Spark accepted.

    Args:
        stats: One row per container, with columns such as `x.min`, `x.max`, `x.null_count`,
            `row_count`, `x.values` or `x.bloom`, or with structs of them, as `with_verdict` takes
            them. A statistic whose type cannot bound its column, and collated text, are left out.
        where: A folder that driver and executors share, by path or URI. Its shards are replaced.
        schema: The table's columns.
        columns: Where statistics with other names are, as for `with_verdict`:
            `{"x.min": "lowest_x", "row_count": F.col("stats.n")}`; or `delta_statistics` of a Delta
            log's add files.
        rows: The number of containers in a shard.
        about: The columns that describe containers; None means all that are not statistics.
        order_by: As in `Statistics.index`, within each shard.
        filesystem: Any of pyarrow's file systems; it must pickle.

    Returns:
        The shards. Containers keep the order of the DataFrame's partitions and of their rows.

    Raises:
        StatisticsError: There is no statistic of any column, `columns` or `about` names something
            else, or another save to the same folder committed in the meantime.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> sorted_stats = stats_df.repartitionByRange("`day.min`")  # doctest: +SKIP
        >>> shards = write_shards(sorted_stats, "/lake/stats", table.schema)  # doctest: +SKIP
        >>> shards.num_containers  # doctest: +SKIP
        100000000
    """
    require_pyspark()
    check_rows(rows)
    with quiet():
        from pyspark.sql.types import StructType

        arrow = as_arrow(schema) if isinstance(schema, StructType) else schema
        frame, needed, other_names = _select(stats, arrow, columns or {}, about)
        about_schema = _about_schema(frame, len(needed), other_names)
        folder, save = ShardFolder.of(where, filesystem), new_token()
        folder.make()
        by = (order_by,) if isinstance(order_by, str) else tuple(order_by or ())
        try:
            job = PackJob(folder, save, arrow, needed, about_schema, rows, by)
            answer: Any = frame.mapInArrow(as_function(job), spark_schema(WRITTEN))
            found = answer.toArrow().sort_by([("partition", "ascending"), ("piece", "ascending")])
            written: list[WrittenShard] = [
                pickle.loads(entry) for entry in found.column("written").to_pylist()
            ]
            commit(folder, save, arrow, written, about_schema)
        except BaseException:
            forget(folder, save)
            raise
    return Shards.open(where, filesystem)


def _select(
    df: DataFrame, schema: pa.Schema, given: Mapping[str, Column | str], about: Sequence[str] | None
) -> tuple[DataFrame, tuple[Statistic, ...], list[str]]:
    """Select the usable statistics and then the other columns, under numbers as names.

    Return the DataFrame, the statistics in its first columns, and the names of the others.
    """
    found = locate(df, schema, all_statistics(schema), given, KEYS)
    other_names = _other_columns(df, schema) if about is None else _check_about(df, about)
    usable = {s: column for s, column in found.items() if is_usable(s, column)}
    if not usable:
        types = ", ".join(f"{s.name} {column.type.simpleString()}" for s, column in found.items())
        raise StatisticsError(
            f"no statistic has a type that bounds a column: {types or 'there is none':.200}; "
            "expected columns of the table's types"
        )
    F = functions_of(df)
    columns = [
        *(exact_column(F, s, column) for s, column in usable.items()),
        *(F.col(quoted_name(name)) for name in other_names),
    ]
    frame = df.select(*(c.alias(str(i)) for i, c in enumerate(columns)))
    return frame, tuple(usable), other_names


def _about_schema(frame: DataFrame, first: int, names: list[str]) -> pa.Schema | None:
    """Return the Arrow types of the columns from `first` on, under their own names.

    The frame's columns are called 0, 1, ...

    Raises:
        StatisticsError: Arrow has no such type.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    fields: list[pa.Field] = []
    for name, column in zip(names, frame.schema.fields[first:], strict=True):
        try:
            fields.append(as_arrow(StructType([column])).field(0).with_name(name))
        except PySparkException as e:
            raise StatisticsError(
                f"the column {name!r} is {column.dataType.simpleString()}, a type that Arrow lacks "
                "in Spark; leave it out: about= names the columns to keep"
            ) from e
    return pa.schema(fields) if fields else None


def _other_columns(df: DataFrame, schema: pa.Schema) -> list[str]:
    """Return the columns of a DataFrame that are not statistics."""
    taken = statistics_columns(df, schema, KEYS)
    return [name for name in df.columns if name not in taken]


def _check_about(df: DataFrame, about: Sequence[str]) -> list[str]:
    """Return the names in `about`, if the DataFrame has them all."""
    fold = fold_of(df.sparkSession)
    own = set(map(fold, df.columns))
    if unknown := next((name for name in about if fold(name) not in own), None):
        raise StatisticsError(
            f"about= names {unknown!r}; the DataFrame has {', '.join(df.columns)}"
        )
    return list(about)
