"""Build the statements that rewrite a table in a layout, for each format and engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skipstone.bindings.layout.curves import COORDINATE_BITS
from skipstone.bindings.layout.simulate import Layout
from skipstone.ir.node import Path, quoted_name, quoted_path
from skipstone.ir.types import Kind

ICEBERG_FIELDS: Final = (
    "Existing partition fields stay: drop them with ALTER TABLE ... DROP PARTITION FIELD."
)
SETS: Final = "SET changes the session, so use a separate one."
UNCLUSTERED: Final = (Kind.BOOL, Kind.BINARY)  # Delta: "don't support data skipping"
GLOB: Final = re.compile(r"[\[*?]")  # what DuckDB reads as a pattern in the name of a file


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement to run.

    Attributes:
        engine: Runs it: "Spark", "DuckDB".
        sql: The text; it may hold several statements, each ends with a semicolon.
        note: What to know before it runs.
    """

    engine: str
    sql: str
    note: str = ""


def statements_for(
    layout: Layout,
    format: str,
    *,
    path: str | None,
    name: str | None,
    files: Sequence[str],
    rows_per_group: int,
    file_bytes: int,
    kinds: Mapping[Path, Kind] | None = None,
) -> tuple[Statement, ...]:
    """Return statements that rewrite a table in a layout; none if no engine of its format can.

    Args:
        layout: The layout; its `partition_by` is how the table is, or will be, partitioned.
        format: "parquet", "hive", "delta" or "iceberg".
        path: The table's folder.
        name: The table's name in Spark's catalog; None to name it by its path, if that works.
        files: The paths of its files.
        rows_per_group: The rows of a row group, so that there are as many as now.
        file_bytes: The bytes of a file.
        kinds: The types of the columns; types that are not given are assumed to be supported.
    """
    of_keys = [(kinds or {}).get(key) for key in layout.keys]
    if format == "delta":
        table = name or f"delta.{quoted_name(path or '')}"
        clusters = not any(kind in UNCLUSTERED for kind in of_keys)
        return _delta(layout, table, len(files), file_bytes, clusters)
    if format == "iceberg":
        # Iceberg interleaves the bits of columns, not of fields, and knows those of some types.
        interleaved = layout.kind in ("zorder", "hilbert")
        if interleaved and (Kind.DECIMAL in of_keys or any(len(key) > 1 for key in layout.keys)):
            return ()
        return _iceberg(layout, name, file_bytes)
    return _plain(layout, path, files, rows_per_group, file_bytes)


# Delta and Iceberg, in Spark SQL.


def _spark_names(paths: Sequence[Path]) -> str:
    return ", ".join(map(quoted_path, paths))


def _delta(
    layout: Layout, table: str, files: int, file_bytes: int, clusters: bool
) -> tuple[Statement, ...]:
    keys = _spark_names(layout.keys)
    # As many files as now, so that pruning stays as fine: OPTIMIZE aims at 1 GiB a file, and Spark
    # joins small partitions of a sort.
    sized = f"SET spark.databricks.delta.optimize.maxFileSize = {file_bytes};\n"
    cut = (
        f"SET spark.sql.shuffle.partitions = {max(files, 1)};\n"
        "SET spark.sql.adaptive.coalescePartitions.enabled = false;\n"
    )
    if layout.kind == "partition":
        by = f" ORDER BY {_spark_names((*layout.partition_by, *layout.keys))}"
        sql = (
            f"{cut}CREATE OR REPLACE TABLE {table} USING delta PARTITIONED BY "
            f"({_spark_names(layout.partition_by)}) AS SELECT * FROM {table}{by};"
        )
        note = f"This rewrites the whole table and keeps its history. {SETS}"
        return (Statement("Spark", sql, note),)
    if layout.kind == "sort" and len(layout.keys) > 1:
        order = _spark_names((*layout.partition_by, *layout.keys))
        sql = f"{cut}INSERT OVERWRITE {table} SELECT * FROM {table} ORDER BY {order};"
        note = "This rewrites the whole table, because OPTIMIZE cannot sort by one column and then "
        note += f"another. {SETS}"
        return (Statement("Spark", sql, note),)
    if layout.kind == "hilbert" and clusters and not layout.partition_by:
        sql = f"{sized}ALTER TABLE {table} CLUSTER BY ({keys});\nOPTIMIZE {table} FULL;"
        return (
            Statement("Spark", sql, f"Liquid clustering orders rows by a Hilbert curve. {SETS}"),
        )
    sql = f"{sized}OPTIMIZE {table} ZORDER BY ({keys});"
    note = "Run it again when new data has arrived."
    if layout.kind == "hilbert":
        what = "A partitioned table" if layout.partition_by else "A column of these types"
        note = f"{what} cannot have liquid clustering; Z-order comes closest."
    return (Statement("Spark", sql, f"{note} {SETS}"),)


def _iceberg(layout: Layout, name: str | None, file_bytes: int) -> tuple[Statement, ...]:
    full = name or "catalog.db.table"
    parts = full.split(".")
    catalog, rest = (parts[0], ".".join(parts[1:])) if len(parts) > 2 else ("spark_catalog", full)
    table = ".".join(map(quoted_name, parts))
    note = "" if name else "Replace catalog.db.table with your table's name."
    lines = []
    keys = layout.keys
    if layout.kind == "partition":
        lines += [
            f"ALTER TABLE {table} ADD PARTITION FIELD {quoted_path(p)};"
            for p in layout.partition_by
        ]
        keys = keys or layout.partition_by
        note = f"{note} {ICEBERG_FIELDS}".strip()
    if layout.kind in ("zorder", "hilbert"):
        order = f"zorder({', '.join(_iceberg_name(k) for k in keys)})"
        if layout.kind == "hilbert":
            note = f"{note} Iceberg has no Hilbert order; Z-order comes closest.".strip()
    else:
        lines.append(f"ALTER TABLE {table} WRITE ORDERED BY {_spark_names(keys)};")
        order = ", ".join(f"{_iceberg_name(k)} ASC NULLS LAST" for k in keys)
    lines.append(
        f"CALL {quoted_name(catalog)}.system.rewrite_data_files(table => {_text(rest)}, "
        f"strategy => 'sort', sort_order => {_text(order)}, "
        f"options => map('rewrite-all', 'true', 'target-file-size-bytes', '{file_bytes}'));"
    )
    return (Statement("Spark", "\n".join(lines), note),)


def _iceberg_name(path: Path) -> str:
    """Return a column as the `sort_order` of Iceberg's procedures writes it."""
    return ".".join(p if p.isascii() and p.isidentifier() else quoted_name(p) for p in path)


def _text(value: str) -> str:
    """Return a string literal of Spark SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# Plain Parquet, by DuckDB or Spark.


def duckdb_name(path: Path) -> str:
    """Return a column as DuckDB writes it.

    Example:
        >>> print(duckdb_name(("a b", "c")))
        "a b"."c"
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in path)


def _duckdb_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _plain(
    layout: Layout,
    path: str | None,
    files: Sequence[str],
    rows_per_group: int,
    file_bytes: int,
) -> tuple[Statement, ...]:
    if layout.kind == "hilbert":
        return ()
    target = (path or (files[0].rsplit("/", 1)[0] if files else "table")).rstrip("/")
    target = target.removesuffix(".parquet") + "-clustered"
    note = "This writes a copy beside the table. Compare it, then replace the table with it."
    duck = _duckdb(layout, files, target, rows_per_group, file_bytes)
    spark = _spark(layout, path, target, rows_per_group)
    return (Statement("DuckDB", duck, note), *([] if spark is None else [
        Statement("Spark", spark, note)])
    )  # fmt: skip


def _duckdb(
    layout: Layout, files: Sequence[str], target: str, rows_per_group: int, file_bytes: int
) -> str:
    # A glob would leave out files of other endings, and take those of hidden folders.
    source = ", ".join(_duckdb_text(GLOB.sub(r"[\g<0>]", file)) for file in files)
    options = ", union_by_name = true"  # else columns that the first file lacks are lost
    options += ", hive_partitioning = true" if layout.partition_by else ""
    rows = f"SELECT * FROM read_parquet([{source}]{options})"
    partitions = [duckdb_name(p) for p in layout.partition_by]
    keys = [duckdb_name(p) for p in layout.keys]
    if layout.kind == "zorder":
        places, rows = [f"z{i} of skipstone" for i in range(len(keys))], _with_places(rows, keys)
        keys = [_interleaved([duckdb_name((place,)) for place in places], _bits(len(places)))]
    # One thread writes the rows of a partition in their order.
    threads = "SET threads = 1;\n" if partitions else ""
    written = f"PARTITION_BY ({', '.join(partitions)}), " if partitions else ""
    size = "" if partitions else f", FILE_SIZE_BYTES {file_bytes}"
    return (
        f"{threads}COPY ({rows}\nORDER BY {', '.join([*partitions, *keys])})\n"
        f"TO {_duckdb_text(target)} (FORMAT parquet, {written}ROW_GROUP_SIZE {rows_per_group}"
        f"{size});"
    )


def _bits(columns: int) -> int:
    return min(COORDINATE_BITS, 63 // columns)


def _with_places(rows: str, keys: Sequence[str]) -> str:
    """Return a query of the same rows, with their places along each column to order them by."""
    most = (1 << _bits(len(keys))) - 1
    names = [duckdb_name((f"z{i} of skipstone",)) for i in range(len(keys))]
    places = ", ".join(
        f"CAST(percent_rank() OVER (ORDER BY {key}) * {most} AS BIGINT) AS {name}"
        for key, name in zip(keys, names, strict=True)
    )
    return f"SELECT * EXCLUDE ({', '.join(names)}) FROM\n(SELECT *, {places} FROM\n({rows}))"


def _interleaved(places: Sequence[str], bits: int) -> str:
    """Return an expression of DuckDB for the place on a Z curve: the places' bits, interleaved."""
    k = len(places)
    return " + ".join(
        f"(({place} >> {bit}) & 1) * {1 << (bit * k + k - 1 - i)}"
        for bit in range(bits - 1, -1, -1)
        for i, place in enumerate(places)
    )


def _spark(layout: Layout, path: str | None, target: str, rows_per_group: int) -> str | None:
    """Return Spark's statement.

    None without a path, and for Z-order, because one task would compute all ranks.
    """
    if layout.kind == "zorder" or path is None:
        return None
    keys = _spark_names((*layout.partition_by, *layout.keys))
    by = f"\nPARTITIONED BY ({_spark_names(layout.partition_by)})" if layout.partition_by else ""
    return (
        "SET spark.sql.parquet.mergeSchema = true;\nCREATE TABLE clustered USING parquet\n"
        f"OPTIONS ('parquet.block.row.count.limit' '{rows_per_group}'){by}\n"
        f"LOCATION {_text(target)} AS\nSELECT * FROM parquet.{quoted_name(path)} ORDER BY {keys};"
    )
