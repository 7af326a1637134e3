"""Register statistics of files that live in a DataFrame or a catalog, so that scans use them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from skipstone.bindings.location import path_text
from skipstone.bindings.spark.registered.registry import (
    REGISTRY,
    SIZE,
    TIME,
    RegisteredStatistics,
    plain,
    plain_paths,
)
from skipstone.bindings.spark.session.frame import to_arrow
from skipstone.bindings.spark.session.session import (
    functions_of,
    is_connect,
    oldest_for,
    quiet,
    require_pyspark,
)
from skipstone.bindings.spark.session.types import arrow_type
from skipstone.bindings.statistics.coerce_inputs import KEYS
from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir import compute as pc
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import quoted_name, show_path
from skipstone.ir.session import check_flag
from skipstone.ir.types import COLLATIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PATH: Final = "path"
ROWS: Final = "row_count"
ABOUT: Final = (PATH, SIZE, TIME)
MS: Final = 1000
NULL: Final = -(2**63)  # no file has this size or time


def register_statistics(
    path: str | os.PathLike[str],
    stats: DataFrame | pa.Table | Statistics,
    columns: Mapping[str, Column | str] | None = None,
    *,
    about: pa.Table | None = None,
    url_encoded: bool = True,
) -> RegisteredStatistics:
    """Judge the files of a Parquet table by these statistics, in `prune` and under `enable`.

    Footers are not read then. A file is left out only if it is registered, and has the registered
    size and modification time; every other file is read. If both are missing, nothing shows that a
    file was rewritten: the caller vouches that the statistics hold as long as they are registered.

    The statistics are collected now, and kept in this process until `unregister_statistics`.
    Another call for the same path replaces them. They serve all sessions of the process, and scans
    of the folder, of folders within it, and of tables there.

    Args:
        path: The table's folder, in the form that Spark gets; or a file.
        stats: One row per file.

            - `path`: the file's path, whole or relative to the folder.
            - `size` in bytes and `modification_time`, a TIMESTAMP or ms since 1970, if known.
            - Statistics: `x.min`, `x.max`, `x.null_count`, `row_count` and so on, or a struct `x`
              of them, as `with_verdict` takes them. Their types must be able to bound the column;
              others, NULL and collated text are unknown.
        columns: For a DataFrame: where columns of other names are, as for `with_verdict`:
            `{"path": F.col("_metadata.file_path"), "x.min": "lowest_x"}`.
        about: For Statistics: a table with the columns `path`, `size`, `modification_time`.
        url_encoded: True if paths have percent escapes, as `_metadata.file_path` and Delta's log
            write them; False if a percent sign stands for itself.

    Returns:
        What was registered; prints as text.

    Raises:
        StatisticsError: there is no path or no statistic, or a column has another type.
        BackendMissing: `stats` is a DataFrame, and PySpark or pandas is not installed.

    Example:
        >>> files = pa.table({"path": ["0.parquet"], "size": [412], "x.min": [0], "x.max": [9]})
        >>> print(register_statistics("/lake/t", files))
        file:/lake/t: 2 statistics of 1 file, checked by size
        >>> unregister_statistics("/lake/t")
    """
    check_flag("url_encoded", url_encoded)
    table = _table_of(stats, columns, about)
    found = dict(_flat(table))
    for name in (PATH, SIZE, TIME):
        found.pop(name, None)
    if not found:
        raise StatisticsError(
            f"there is no statistic among {', '.join(table.column_names):.200}; expected columns "
            "such as x.min, x.max and row_count, or structs of them"
        )
    root = _qualified(path, stats)
    paths = plain_paths(_texts(table, url_encoded), root)
    # Two rows of one file: it is not known which one holds.
    counts = pc.value_counts(paths)
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    usable = pc.and_(pc.is_valid(paths), pc.invert(pc.is_in(paths, value_set=twice)))
    size, time = _whole_numbers(table, SIZE), _millis(table)
    keep = np.asarray(usable)
    one = RegisteredStatistics(
        root,
        int(keep.sum()),
        tuple(found),
        tuple(name for name, values in ((SIZE, size), (TIME, time)) if values is not None),
        paths if keep.all() else paths.filter(usable),
        None if size is None else size[keep],
        None if time is None else time[keep],
        found if keep.all() else {name: v.filter(usable) for name, v in found.items()},
    )
    REGISTRY.add(one)
    return one


def unregister_statistics(path: str | os.PathLike[str]) -> None:
    """Forget the statistics that are registered for a path; its footers are read again.

    Args:
        path: As for `register_statistics`.

    Raises:
        StatisticsError: none are registered for it.

    Example:
        >>> unregister_statistics("/lake/t")
        Traceback (most recent call last):
        ...
        skipstone.ir.errors.StatisticsError: no statistics are registered for file:/lake/t
    """
    REGISTRY.remove(_qualified(path, None))


def registered_statistics() -> tuple[RegisteredStatistics, ...]:
    """Return the statistics that are registered in this process, in the order of their paths.

    Example:
        >>> registered_statistics()
        ()
    """
    return REGISTRY.all()


def _table_of(stats: Any, columns: Mapping[str, Any] | None, about: pa.Table | None) -> pa.Table:
    if isinstance(stats, Statistics):
        if not isinstance(about, pa.Table) or about.num_rows != stats.num_containers:
            raise StatisticsError(
                f"about= is {_shown(about)}; expected a table of {stats.num_containers} rows with "
                "the column 'path', which says where each container of the statistics is"
            )
        bounds = stats.to_arrow()
        files = about.select([name for name in ABOUT if name in about.column_names])
        names = [*files.column_names, *bounds.column_names]
        return pa.table([*files.columns, *bounds.columns], names=names)
    if about is not None:
        raise StatisticsError("about= is for Statistics; put path, size and time into the table")
    if isinstance(stats, pa.Table):
        if columns is not None:
            raise StatisticsError("columns= is for DataFrames; rename the columns of the table")
        return stats
    if not hasattr(stats, "sparkSession"):
        raise StatisticsError(
            f"the statistics are {_shown(stats)}; expected a DataFrame of Spark, an Arrow table or "
            "Statistics"
        )
    return _collected(stats, columns or {})


def _shown(value: Any) -> str:
    rows = f" of {value.num_rows} rows" if isinstance(value, pa.Table) else ""
    return f"{type(value).__name__}{rows}"


def _collected(df: Any, columns: Mapping[str, Any]) -> pa.Table:
    """Collect the columns of a DataFrame that may be statistics or describe files."""
    require_pyspark(oldest_for(df))
    with quiet():
        from pyspark.sql.types import StructType

        F = functions_of(df)
        wanted = {
            field.name: F.col(quoted_name(field.name))
            for field in df.schema
            if field.name in (*ABOUT, ROWS)
            or isinstance(field.dataType, StructType)
            or field.name.rpartition(".")[2].lower() in KEYS
        }
        for name in columns:
            column = columns[name]
            wanted[name] = F.col(column) if isinstance(column, str) else column
        frame = df.select(*(column.alias(str(i)) for i, column in enumerate(wanted.values())))
        # Text bounds of another collation are in another order. Arrow lacks some types.
        usable = [
            (name, field.name)
            for name, field in zip(wanted, frame.schema, strict=True)
            if COLLATIONS not in field.json() and arrow_type(field.dataType.jsonValue()) is not None
        ]
        table: pa.Table = to_arrow(frame.select(*(number for _, number in usable)))
    return table.rename_columns([name for name, _ in usable])


def _flat(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the statistics of a table by name, those in structs too.

    Raises:
        StatisticsError: two columns have one name.
    """
    names = table.column_names
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise StatisticsError(f"the statistics have two columns {twice!r}; rename one of them")
    flat: dict[str, pa.ChunkedArray] = {}
    for name in names:
        column = table.column(name)
        if pa.types.is_struct(column.type):
            for path, values in _leaves(column, (name,)):
                flat.setdefault(f"{show_path(path[:-1])}.{path[-1]}", values)
    for name in names:  # a plain column takes precedence over a struct's field
        column, dot, key = name.rpartition(".")
        if name == ROWS or (dot and key.lower() in KEYS):
            flat[f"{column}{dot}{key.lower()}"] = table.column(name)
    yield from flat.items()


def _leaves(
    column: pa.ChunkedArray, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.ChunkedArray]]:
    names = [f.name.lower() for f in column.type]
    for i, f in enumerate(column.type):
        if names.count(f.name.lower()) > 1:
            continue  # the name is ambiguous
        values = pc.struct_field(column, [i])
        if pa.types.is_struct(f.type):
            yield from _leaves(values, (*path, f.name))
        elif f.name.lower() in KEYS:
            yield (*path, f.name.lower()), values


def _texts(table: pa.Table, url_encoded: bool) -> pa.Array:
    """Return the paths without escapes; null is unknown.

    Raises:
        StatisticsError: there are no paths.
    """
    values = table.column(PATH) if PATH in table.column_names else None
    kind = None if values is None else values.type
    if kind is None or not (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    ):
        raise StatisticsError(
            f"the statistics have {'no column' if kind is None else f'a column {kind}'} 'path' "
            f"(of {', '.join(table.column_names):.200}); expected text that says where each file is"
        )
    assert values is not None
    whole = values.cast(pa.large_string()).combine_chunks()
    if not url_encoded:
        return whole
    escaped = pc.match_substring(whole, "%").fill_null(False)
    if not pc.any(escaped).as_py():
        return whole
    decoded = pa.array([unquote(p) for p in whole.filter(escaped).to_pylist()], pa.large_string())
    return pc.replace_with_mask(whole, escaped, decoded)


def _whole_numbers(table: pa.Table, name: str) -> Any:
    """Return a column of whole numbers, int64, `NULL` for null; None if there is no such column.

    Raises:
        StatisticsError: it has another type.
    """
    if name not in table.column_names or pa.types.is_struct(table.schema.field(name).type):
        return None  # a struct has the statistics of a column of this name
    values = table.column(name)
    if not (pa.types.is_integer(values.type) or pa.types.is_null(values.type)):
        raise StatisticsError(
            f"the column {name!r} is {values.type}; expected whole numbers"
            + (" (ms since 1970) or timestamps with a time zone" if name == TIME else " of bytes")
        )
    if pa.types.is_uint64(values.type):
        values = pc.if_else(pc.greater(values, 2**63 - 1), None, values)
    return np.asarray(values.cast(pa.int64()).fill_null(NULL))


def _millis(table: pa.Table) -> Any:
    """Return the modification times in ms since 1970, `NULL` for null; None without them."""
    if TIME not in table.column_names:
        return None
    values = table.column(TIME)
    if not pa.types.is_timestamp(values.type) or values.type.tz is None:
        return _whole_numbers(table, TIME)
    per = {"s": 1, "ms": MS, "us": MS**2, "ns": MS**3}[values.type.unit]
    known = np.asarray(values.is_valid())
    ticks = np.asarray(values.cast(pa.int64()).fill_null(0))
    millis = ticks * MS if per == 1 else ticks // (per // MS)
    return np.where(known, millis, NULL)


def _qualified(path: str | os.PathLike[str], stats: Any) -> str:
    """Return a path as Spark writes it; a path without a scheme is one of Spark's own store."""
    text = path_text(path)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text):
        return plain(text)
    spark = _session_of(stats)
    if spark is None:
        return plain(os.path.abspath(text))
    own = spark._jvm.org.apache.hadoop.fs.Path(text)
    system = own.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return plain(str(system.makeQualified(own).toString()))


def _session_of(stats: Any) -> Any:
    """Return the classic session that a path belongs to, or None."""
    spark = getattr(stats, "sparkSession", None)
    if spark is None and "pyspark.sql" in sys.modules:
        with quiet():
            from pyspark.sql import SparkSession

            spark = SparkSession.getActiveSession()
    return None if spark is None or is_connect(spark) else spark
