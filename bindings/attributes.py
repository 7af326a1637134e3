"""Hints for attributes of other libraries, such as `column.isnull()`, and names for completion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_PLAN: Final = "call plan(where)"
_ROWS: Final = "call plan(where).to_arrow()"
_READ: Final = "call to_arrow(), to_pandas(), to_polars() or to_duckdb()"

# Kind of object -> names in pandas, Polars, PySpark and pyarrow -> what Skipstone has instead.
MEANT: Final[Mapping[str, Mapping[str, str]]] = {
    "column": {
        **dict.fromkeys(("is_in", "isIn", "in_"), "write column.isin([value, ...])"),
        **dict.fromkeys(("isnull", "isna", "isNull", "is_none"), "write column.is_null()"),
        **dict.fromkeys(("notnull", "notna", "isNotNull"), "write column.is_not_null()"),
        **dict.fromkeys(("is_valid",), "write column.is_not_null()"),
        **dict.fromkeys(("isnan", "isNaN"), "write column.is_nan()"),
        **{n: f"write call({n!r}, column, ...)" for n in ("contains", "endswith", "rlike")},
        **{n: f"write call({n!r}, column, ...)" for n in ("ilike", "upper", "lower", "year")},
        "eqNullSafe": "write column.eq_null_safe(value)",
        "is_between": "write column.between(low, high)",
        "astype": "write column.cast(type)",
        "str": "write call(name, column, ...), such as call('upper', column)",
        "dt": "write call(name, column, ...), such as call('year', column)",
    },
    "table": {
        **dict.fromkeys(("filter", "where", "query", "prune"), _PLAN),
        **dict.fromkeys(("to_arrow", "to_pandas", "to_table", "to_duckdb", "to_spark"), _ROWS),
        **dict.fromkeys(("read", "collect", "scan", "toPandas"), _ROWS),
        **dict.fromkeys(("select",), "call plan(columns=[name, ...])"),
        **dict.fromkeys(("head", "limit", "take"), "call plan(limit=n).to_arrow()"),
        **dict.fromkeys(("count", "count_rows"), "call plan(where).count()"),
        **dict.fromkeys(("columns", "column_names", "dtypes"), "see its schema"),
        "save_stats": "tables of Delta and Iceberg have the statistics in their metadata",
        "stats": "see its statistics",
        "explain": "call plan(where).explain()",
    },
    "plan": {
        **dict.fromkeys(("to_df", "df", "to_table", "to_pyarrow", "toPandas", "pandas"), _READ),
        **dict.fromkeys(("read", "collect", "execute", "run", "fetch", "fetchall", "rows"), _READ),
        **dict.fromkeys(("filter", "where"), "give the whole condition to table.plan(where)"),
        **dict.fromkeys(("head", "limit", "take"), "call table.plan(where, limit=n)"),
        **dict.fromkeys(("select",), "call table.plan(where, columns=[name, ...])"),
        **dict.fromkeys(("sort", "order_by", "sort_by"), "call table.plan(where, order_by=text)"),
        **dict.fromkeys(("file", "paths", "num_files"), "see its files and sizes"),
        **dict.fromkeys(("num_rows", "shape", "nbytes"), "see its sizes, or call count()"),
        **dict.fromkeys(("sum", "mean", "group_by", "groupby", "agg"), _READ),
        "show": "call explain()",
        "map": "call table.map(column, where=...)",
    },
}


# Names without an underscore that are no part of the interface: other modules use them.
INTERNAL: Final[Mapping[str, frozenset[str]]] = {
    "table": frozenset(
        (
            "answer", "dataset_files", "full_path", "load", "meter",
            "refinement", "replan", "request", "skipped_folders", "total", "why_missing",
        )
    ),
    "statistics": frozenset(
        ("host_launch", "of_bounds", "place_on", "shallow_copy", "with_index", "with_members")
    ),
}  # fmt: skip


def public_names(names: Iterable[str], kind: str) -> list[str]:
    """Return the names of an object's attributes that `dir`, and so completion, should list.

    Args:
        names: All names.
        kind: A key of INTERNAL.
    """
    return sorted(set(names) - INTERNAL[kind])


def explain_attribute(owner: object, kind: str, name: str) -> None:
    """Raise an error with a hint if an attribute belongs to another library; otherwise return.

    Args:
        owner: The object.
        kind: A key of MEANT.
        name: The attribute.

    Raises:
        AttributeError: the name is known.
    """
    if (meant := MEANT[kind].get(name)) is not None:
        raise AttributeError(f"a {kind} has no attribute {name!r}; {meant}", name=name, obj=owner)
