"""Turn dictionaries, Arrow tables and providers into bounds, counts and extras by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import KEYS, PACKED, array_of, leaf_named
from skipstone.bindings.statistics.protocols import PruningStatistics
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path
from skipstone.ir.types import Leaf, leaves_of
from skipstone.kernels.pack.columns import ColumnStatistics

Extras = dict[Path, dict[str, pa.Array]]


def read_dict(
    columns: Mapping[str, Mapping[str, Any]],
    schema: pa.Schema,
    leaves: Mapping[Path, Leaf],
    lengths: dict[str, int],
) -> tuple[dict[Path, ColumnStatistics], Extras]:
    """Read statistics by column name, as `Statistics.from_dict` takes them.

    Args:
        columns: By column name, statistics by key.
        schema: The table's columns.
        leaves: The same by path.
        lengths: Receives the length of each statistic, by its name.

    Returns:
        Bounds and counts by column; exactness of bounds, value lists and bloom filters by column.

    Raises:
        UnknownColumn: the schema lacks a column.
        StatisticsError: a key is unknown, or an array cannot be read.
    """
    raws: dict[Path, ColumnStatistics] = {}
    extras: Extras = {}
    if not isinstance(columns, Mapping):
        raise StatisticsError(f"columns are of the type {type(columns).__name__}; {AS_DICT}")
    for name, given in columns.items():
        leaf = leaf_named(name, leaves)
        if not isinstance(given, Mapping):
            raise StatisticsError(
                f"the statistics of {name!r} are of the type {type(given).__name__}; {AS_DICT}"
            )
        if unknown := set(given) - set(KEYS):
            raise StatisticsError(
                f"column {name!r} has a statistic {min(unknown, key=str)!r}; "
                f"expected some of {', '.join(KEYS)}"
            )
        arrays = {
            key: array_of(key, value, schema, leaf)
            for key, value in given.items()
            if value is not None
        }
        lengths.update({f"{name}.{key}": len(a) for key, a in arrays.items()})
        raws[leaf.path] = ColumnStatistics(*(arrays.get(k) for k in PACKED))
        extras[leaf.path] = {k: a for k, a in arrays.items() if k not in PACKED}
    return raws, extras


def checked_leaves(schema: pa.Schema) -> Mapping[Path, Leaf]:
    """Return the columns of a schema.

    Raises:
        StatisticsError: the schema is not a pyarrow.Schema.
    """
    if not isinstance(schema, pa.Schema):
        way_out = ": give its .schema" if hasattr(schema, "schema") else ""
        raise StatisticsError(
            f"schema is {type(schema).__name__}; expected a pyarrow.Schema{way_out}"
        )
    return leaves_of(schema)


def split_table(table: pa.Table | pa.RecordBatch) -> tuple[dict[str, dict[str, Any]], Any]:
    """Split a table with columns such as `x.min` into statistics by column, and the row counts.

    Raises:
        StatisticsError: the table has no statistics, or two columns of one name.
    """
    if not hasattr(table, "column_names"):
        way_out = ": pyarrow.table(frame) makes one" if hasattr(table, "columns") else ""
        raise StatisticsError(
            f"statistics are of the type {type(table).__name__}; expected an Arrow table{way_out}"
        )
    columns: dict[str, dict[str, Any]] = {}
    row_count = None
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise StatisticsError(f"the table has several columns {name!r}; name each one once")
        column, dot, key = name.rpartition(".")
        if name == "row_count":
            row_count = table.column(name)
        elif dot and key in KEYS:
            columns.setdefault(column, {})[key] = table.column(name)
    if row_count is None and not columns:
        raise StatisticsError(
            f"the table has columns {', '.join(table.column_names) or 'none'}; "
            "expected names such as 'x.min', or 'row_count'"
        )
    return columns, row_count


AS_DICT: Final = 'expected arrays by statistic by column, such as {"x": {"min": [1], "max": [5]}}'
PROVIDER: Final = ("num_containers", "min_values", "max_values", "null_counts", "row_counts")
# Type of an object that callers often pass by mistake -> how to make statistics of it.
WAYS_OUT: Final = {
    "dict": "make them with Statistics.from_dict(columns, schema)",
    "Table": "make them with Statistics.from_arrow(table, schema)",
    "RecordBatch": "make them with Statistics.from_arrow(table, schema)",
    "DataFrame": "make them with Statistics.from_arrow(pyarrow.table(frame), schema)",
    "str": "load a saved file with Statistics.load(path)",
    "PosixPath": "load a saved file with Statistics.load(path)",
}


def check_provider(provider: object) -> None:
    """Check that an object has what a provider of statistics needs.

    Raises:
        StatisticsError: it lacks an attribute.
    """
    if missing := [name for name in PROVIDER if not hasattr(provider, name)]:
        name = type(provider).__name__
        way_out = "give its .statistics" if hasattr(provider, "statistics") else WAYS_OUT.get(name)
        tail = f"; {way_out}" if way_out else ""
        raise StatisticsError(
            f"the statistics are of the type {name}, which has no {missing[0]}; expected "
            f"Statistics, or a provider with {', '.join(PROVIDER)}{tail}"
        )


def read_provider(
    provider: PruningStatistics,
    schema: pa.Schema,
    leaves: Mapping[Path, Leaf],
    columns: Iterable[str],
) -> dict[Path, ColumnStatistics]:
    """Call each method of a provider once per column.

    Raises:
        UnknownColumn: the schema lacks a column.
        StatisticsError: the object is not a provider; an answer has another length than
            `num_containers`, or cannot be read.
    """
    check_provider(provider)
    n = provider.num_containers
    raws = {}
    for name in columns:
        leaf = leaf_named(name, leaves)
        methods = (
            provider.min_values,
            provider.max_values,
            provider.null_counts,
            provider.row_counts,
        )
        answers = [
            None if (a := method(name)) is None else array_of(key, a, schema, leaf)
            for key, method in zip(KEYS, methods, strict=False)
        ]
        for key, a in zip(KEYS, answers, strict=False):
            if a is not None and len(a) != n:
                raise StatisticsError(
                    f"the provider gave {len(a)} values of {name}.{key}; "
                    f"expected {n}, its num_containers"
                )
        raws[leaf.path] = ColumnStatistics(*answers)
    return raws
