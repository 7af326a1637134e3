"""`write_shards`: a DataFrame of statistics as shards, packed by the executors and made one by the driver."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.given import COUNTS, KEYS
from skipstone.bindings.shards.place import Place
from skipstone.bindings.shards.read import Shards
from skipstone.bindings.shards.write import ROWS, Written, check_rows, commit, forget, new_token
from skipstone.bindings.spark.executor import WRITTEN, Packing, plain
from skipstone.bindings.spark.session import as_arrow, quiet, require_pyspark
from skipstone.bindings.spark.slots import ROW_COUNT, quoted, spellings
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import show_path
from skipstone.ir.types import leaves_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

Named = dict[str, tuple[str, str]]  # name of a statistic -> the table's column, as SQL names it, and which it is
CONTAINER: Final = ("", ROW_COUNT)


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
            `x.bloom`. A statistic whose type cannot bound its column, and text of a collation, are left out.
        where: A folder that driver and executors share, by path or URI. Its shards are replaced.
        schema: The table's columns.
        columns: Where statistics have other names: `{"x.min": "lowest_x", "row_count": F.col("stats.n")}`.
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
        from pyspark.sql.pandas.types import from_arrow_schema
        from pyspark.sql.types import StructType

        arrow = as_arrow(schema) if isinstance(schema, StructType) else schema
        frame, slots, kept = _picked(stats, arrow, columns or {}, about)
        # Names are the user's own; those of the frame are numbers.
        told = pa.schema([f.with_name(name) for f, name in zip(list(as_arrow(frame.schema))[len(slots) :], kept, strict=True)]) if kept else None
        place, save = Place.of(where, filesystem), new_token()
        place.make()
        by = (order_by,) if isinstance(order_by, str) else tuple(order_by or ())
        try:
            job = Packing(place, save, arrow, slots, told, rows, by)
            answer: Any = frame.mapInArrow(plain(job), from_arrow_schema(WRITTEN, True))
            found = answer.toArrow().sort_by([("partition", "ascending"), ("place", "ascending")])
            written: list[Written] = [pickle.loads(entry) for entry in found.column("written").to_pylist()]
            commit(place, save, arrow, written, told)
        except BaseException:
            forget(place, save)
            raise
    return Shards.open(where, filesystem)


def _picked(
    df: DataFrame, schema: pa.Schema, given: Mapping[str, Column | str], about: Sequence[str] | None
) -> tuple[DataFrame, tuple[tuple[str, str], ...], list[str]]:
    """Statistics and then other columns, with numbers for names; what the first ones are; names of the others."""
    case = str(df.sparkSession.conf.get("spark.sql.caseSensitive")) == "true"
    fold: Callable[[str], str] = str if case else str.lower
    places = {fold(name): slot for name, slot in _places(schema).items()}
    found: dict[tuple[str, str], Any] = {places[fold(name)]: quoted(name) for name in df.columns if fold(name) in places}
    for name, column in given.items():
        if fold(name) not in places:
            raise StatisticsError(
                f"columns= names {name!r}, which is no statistic of a column of the schema; expected names such as {', '.join(list(places)[:3])}"
            )
        found[places[fold(name)]] = column
    if not found:
        raise StatisticsError(
            f"the DataFrame has columns {', '.join(df.columns)}; expected names such as {', '.join(list(places)[:3])}, or columns= that says where they are"
        )
    kept = [name for name in df.columns if fold(name) not in places] if about is None else list(about)
    own = {fold(name): name for name in df.columns}
    if unknown := next((name for name in kept if fold(name) not in own), None):
        raise StatisticsError(f"about= names {unknown!r}; the DataFrame has {', '.join(df.columns)}")
    numbered = df.select(*found.values(), *map(quoted, kept)).toDF(*(str(i) for i in range(len(found) + len(kept))))
    texts = [_carried(f"`{i}`", key, field.dataType) for i, ((_, key), field) in enumerate(zip(found, numbered.schema, strict=False))]
    slots = tuple(slot for slot, text in zip(found, texts, strict=True) if text is not None)
    if not slots:
        raise StatisticsError(f"no statistic has a type that bounds a column: {numbered.schema.simpleString():.200}; expected columns of the table's types")
    rest = [f"`{i}`" for i in range(len(found), len(found) + len(kept))]
    return numbered.selectExpr(*(t for t in texts if t is not None), *rest), slots, kept


def _places(schema: pa.Schema) -> Named:
    """Every statistic that a table may have, by name. Where a name fits two columns, it means the top one."""
    out: Named = {}
    for path in sorted(leaves_of(schema), key=len):
        for name in spellings(path):
            for key in KEYS:
                out.setdefault(f"{name}.{key}", (show_path(path), key))
    return {**out, ROW_COUNT: CONTAINER}


def _carried(column: str, key: str, t: DataType) -> str | None:
    """A statistic as SQL text of a type that Arrow carries exactly; None where its type says nothing."""
    from pyspark.sql import types as T

    match t:
        case T.IntegralType() if key in COUNTS:
            return column
        case T.DecimalType() if key in COUNTS and t.scale == 0:
            return f"try_cast({column} AS BIGINT) AS {column}"
        case _ if key in COUNTS:
            return None
        case T.ArrayType():
            return column if key == "values" and _carried(column, "min", t.elementType) else None
        case T.StringType():
            return column if t.isUTF8BinaryCollation() else None
        case T.NumericType() | T.BooleanType() | T.BinaryType() | T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return column
    return None
