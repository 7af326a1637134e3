"""Parquet files of random rows, by pyarrow, Spark, DuckDB and Polars."""

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import skipstone as ss
from tests.support.spark.answers import set_in
from tests.support.spark.rows import (
    Made,
    as_instants,
    ddl,
    families,
    in_nanos,
    in_spark,
    made_of,
    pieces,
    plain_years,
    rows,
    whole,
    within_nanos,
)


def of_files(spark: Any, writer: str, t: pa.Table, folder: str) -> Made:
    schema = ddl(t.schema)
    return made_of(
        spark,
        writer,
        t,
        lambda: ss.scan_parquet(folder),
        lambda: spark.read.schema(schema).parquet(folder),
        format="parquet",
    )


def by_pyarrow(r: random.Random, spark: Any, folder: str) -> Made:
    t = rows(r, unsigned=r.random() < 0.3)
    int96, nanos = r.random() < 0.12, r.random() < 0.08
    if int96 or nanos:
        t = within_nanos(t)
    names = t.column_names
    said = []
    missing = r.choice(names[2:]) if r.random() < 0.15 else None
    for i, piece in enumerate(pieces(r, t)):
        options: dict[str, Any] = {
            "version": r.choice(("1.0", "2.4", "2.6")),
            "data_page_version": r.choice(("1.0", "2.0")),
            "write_statistics": r.choice((True, True, True, False, names[: len(names) // 2])),
            "use_dictionary": r.choice((True, False)),
            "compression": r.choice(("none", "snappy", "zstd")),
            "row_group_size": r.choice((1, 3, 6, 6, 12, 1000)),
            "write_page_index": r.random() < 0.5,
            "data_page_size": r.choice((None, 1, 64)),
            "store_decimal_as_integer": r.random() < 0.3,
        }
        if options["version"] == "1.0":  # it stores UINT32 as INT64, and timestamps in milliseconds
            options["version"] = "2.4"
        if int96:
            options["use_deprecated_int96_timestamps"] = True
        elif nanos:
            options |= {"version": "2.6", "coerce_timestamps": None}
            piece = piece.cast(pa.schema([in_nanos(f) for f in piece.schema]))
        if missing and i % 2:
            piece = piece.drop_columns([missing])
            t = _without(t, missing, piece["id"])
        pq.write_table(piece, f"{folder}/{i:02}.parquet", **options)
        said.append(str({k: v for k, v in options.items() if k not in ("compression",)}))
    if int96:
        t = as_instants(t)
    made = of_files(spark, "pyarrow", t, folder)
    if missing:  # if no file has the column, the table lacks it
        t = t if missing in ss.scan_parquet(folder).schema.names else t.drop_columns([missing])
        made = of_files(spark, "pyarrow, a file lacks a column", t, folder)
    if nanos:
        made = replace(made, writer="pyarrow, nanoseconds", frame=None)
    return replace(made, writer="pyarrow, INT96") if int96 else made


def _without(t: pa.Table, name: str, ids: pa.Array) -> pa.Table:
    """Return the rows, with NULL for a column in the rows of a file that lacks it."""
    gone = pc.is_in(t["id"], value_set=whole(ids))
    i = t.column_names.index(name)
    if pa.types.is_nested(t.schema.field(name).type):
        values = [
            None if g else v for g, v in zip(gone.to_pylist(), t[name].to_pylist(), strict=True)
        ]
        return t.set_column(i, name, pa.array(values, t.schema.field(name).type))
    return t.set_column(
        i, name, pc.if_else(gone, pa.scalar(None, t.schema.field(name).type), t[name])
    )


def by_spark(r: random.Random, spark: Any, folder: str) -> Made:
    t = rows(r)
    legacy, int96 = r.choice(("CORRECTED", "CORRECTED", "LEGACY")), r.random() < 0.2
    if int96:
        t = within_nanos(t)
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": legacy,
        "spark.sql.parquet.int96RebaseModeInWrite": legacy,
        "spark.sql.parquet.outputTimestampType": "INT96" if int96 else "TIMESTAMP_MICROS",
        "spark.sql.parquet.writeLegacyFormat": str(r.random() < 0.15).lower(),
    }
    if legacy == "LEGACY":
        t = plain_years(t)
    frame = in_spark(spark, t)
    extra = []
    if r.random() < 0.3:
        extra.append("CAST(s AS STRING COLLATE UTF8_LCASE) AS u")
    if r.random() < 0.3:
        extra += ["make_dt_interval(i % 100, 0, 0, 0.5) AS iv", "make_ym_interval(0, i % 50) AS ym"]
    if r.random() < 0.2:
        extra.append("CAST(left(s, 5) AS VARCHAR(5)) AS vc")
    frame = frame.selectExpr("*", *extra)
    options = {
        "parquet.page.size": r.choice(("64", "1048576")),
        "parquet.statistics.truncate.length": r.choice(("2", "2147483647")),
        "parquet.columnindex.truncate.length": r.choice(("1", "64")),
        "parquet.enable.dictionary": r.choice(("true", "false")),
        "parquet.writer.version": r.choice(("PARQUET_1_0", "PARQUET_2_0")),
        "parquet.bloom.filter.enabled#s": r.choice(("true", "false")),
        "parquet.block.size": r.choice(("200", "134217728")),
        "parquet.page.row.count.limit": r.choice(("2", "20000")),
    }
    with set_in(spark, settings):
        parts = r.choice((1, 2, 4))
        spread = (
            frame.repartitionByRange(parts, "i") if r.random() < 0.6 else frame.repartition(parts)
        )
        spread.write.options(**options).mode("append").parquet(folder)
    kinds = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
    name = f"Spark{', INT96' * int96}{', legacy' * (legacy == 'LEGACY')}"
    name += ", collated" * ("u" in kinds) + ", intervals" * ("iv" in kinds)
    return Made(
        name,
        frame.localCheckpoint(),
        families(kinds),
        lambda: ss.scan_parquet(folder),
        lambda: spark.read.schema(frame.schema).parquet(folder),
        {"format": "parquet"},
    )


def by_duckdb(r: random.Random, spark: Any, folder: str) -> Made:
    import duckdb

    t = plain_years(rows(r, odd=r.random() < 0.5))
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        for i, piece in enumerate(pieces(r, t)):
            if not piece.num_rows and i:
                continue
            con.register("piece", piece)
            options = (
                f"ROW_GROUP_SIZE {r.choice((2, 8, 2048))}, PARQUET_VERSION {r.choice(('v1', 'v2'))}"
            )
            con.execute(f"COPY piece TO '{folder}/{i}.parquet' (FORMAT parquet, {options})")
            con.unregister("piece")
    return of_files(spark, "DuckDB", t, folder)


def by_polars(r: random.Random, spark: Any, folder: str) -> Made:
    import polars as pl

    t = plain_years(rows(r, unsigned=r.random() < 0.3))
    t = t.drop_columns([n for n in ("mp",) if n in t.column_names])
    for i, piece in enumerate(pieces(r, t)):
        pl.from_arrow(piece).write_parquet(
            f"{folder}/{i}.parquet",
            statistics=r.choice(
                (True, "full", False, {"min": True, "max": False, "null_count": True})
            ),
            row_group_size=r.choice((2, 8, 1000)),
            data_page_size=r.choice((None, 64)),
        )
    return of_files(spark, "Polars", t, folder)
