"""`write_shards`: a DataFrame of statistics as shards, packed by the executors and made one by the driver."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.shards.place import ShardFolder
from skipstone.bindings.shards.read import Shards
from skipstone.bindings.shards.write import ROWS, Written, check_rows, commit, forget, new_token
from skipstone.bindings.spark.session.session import fold_of, functions_of, quiet, require_pyspark
from skipstone.bindings.spark.session.types import as_arrow, spark_schema
from skipstone.bindings.spark.shards.shard_jobs import WRITTEN, Packing, plain
from skipstone.bindings.spark.statistics.carry import exact, usable
from skipstone.bindings.spark.statistics.places import located, statistics_columns
from skipstone.bindings.spark.statistics.slots import Slot, all_slots
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

    Each task packs its partition, in order, into shards of at most `rows` containers, so that a DataFrame which is sorted
    by a column settles most shards by it; small partitions make small shards, so `coalesce` them before. Tasks that
    are tried again or run twice write under names of their own, and only files of those that Spark counts are spoken of in
    the manifest, which the driver writes at last.

    Args:
        stats: One row per container, with columns such as `x.min`, `x.max`, `x.null_count`, `row_count`, `x.values` or
            `x.bloom`, or with structs of them, as `with_verdict` takes them. A statistic whose type cannot bound its
            column, and text of a collation, are left out.
        where: A folder that driver and executors share, by path or URI. Its shards are replaced.
        schema: The table's columns.
        columns: Where statistics are elsewhere, as for `with_verdict`: `{"x.min": "lowest_x", "row_count": F.col("stats.n")}`;
            or `delta_statistics` of a Delta log's add files.
        rows: Containers in a shard.
        about: The columns that say what containers are; None: all that are no statistics.
        order_by: As in `Statistics.index`, within each shard.
        filesystem: Any of pyarrow's, which must pickle.

    Returns:
        The shards. Containers stand in the order of the DataFrame's partitions, and of rows within.

    Raises:
        StatisticsError: there is no statistic of any column, `columns` or `about` name something else, or another save
            to the same folder ended meanwhile.
        BackendMissing: PySpark or pandas is not installed.

    Example:
        >>> shards = write_shards(stats_df.repartitionByRange("`day.min`"), "/lake/stats", table.schema)  # doctest: +SKIP
        >>> shards.num_containers  # doctest: +SKIP
        100000000
    """
    require_pyspark()
    check_rows(rows)
    with quiet():
        from pyspark.sql.types import StructType

        arrow = as_arrow(schema) if isinstance(schema, StructType) else schema
        frame, slots, kept = _picked(stats, arrow, columns or {}, about)
        # Names are the user's own; those of the frame are numbers.
        told = (
            pa.schema(
                [
                    f.with_name(name)
                    for f, name in zip(
                        list(as_arrow(frame.schema))[len(slots) :], kept, strict=True
                    )
                ]
            )
            if kept
            else None
        )
        place, save = ShardFolder.of(where, filesystem), new_token()
        place.make()
        by = (order_by,) if isinstance(order_by, str) else tuple(order_by or ())
        try:
            job = Packing(place, save, arrow, slots, told, rows, by)
            answer: Any = frame.mapInArrow(plain(job), spark_schema(WRITTEN))
            found = answer.toArrow().sort_by([("partition", "ascending"), ("place", "ascending")])
            written: list[Written] = [
                pickle.loads(entry) for entry in found.column("written").to_pylist()
            ]
            commit(place, save, arrow, written, told)
        except BaseException:
            forget(place, save)
            raise
    return Shards.open(where, filesystem)


def _picked(
    df: DataFrame, schema: pa.Schema, given: Mapping[str, Column | str], about: Sequence[str] | None
) -> tuple[DataFrame, tuple[Slot, ...], list[str]]:
    """Statistics and then other columns, with numbers for names; what the first ones are; names of the others."""
    found = located(df, schema, all_slots(schema), given, KEYS)
    kept = _others(df, schema) if about is None else _known(df, about)
    sure = {slot: place for slot, place in found.items() if usable(slot, place)}
    if not sure:
        types = ", ".join(f"{s.name} {place.type.simpleString()}" for s, place in found.items())
        raise StatisticsError(
            f"no statistic has a type that bounds a column: {types or 'there is none':.200}; expected columns of the table's types"
        )
    F = functions_of(df)
    columns = [
        *(exact(slot, place) for slot, place in sure.items()),
        *(F.col(quoted_name(name)) for name in kept),
    ]
    return df.select(*(c.alias(str(i)) for i, c in enumerate(columns))), tuple(sure), kept


def _others(df: DataFrame, schema: pa.Schema) -> list[str]:
    """The columns of a DataFrame that are no statistics."""
    taken = statistics_columns(df, schema, KEYS)
    return [name for name in df.columns if name not in taken]


def _known(df: DataFrame, about: Sequence[str]) -> list[str]:
    fold = fold_of(df.sparkSession)
    own = set(map(fold, df.columns))
    if unknown := next((name for name in about if fold(name) not in own), None):
        raise StatisticsError(
            f"about= names {unknown!r}; the DataFrame has {', '.join(df.columns)}"
        )
    return list(about)
