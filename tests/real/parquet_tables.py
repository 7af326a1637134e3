"""Parquet tables by Spark, DuckDB, Polars and pyarrow. Spark lists their files and skips none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import skipstone as ss
from tests.real.made import PARTS, ROWS, SELECT, Made, Wanted, rows_of

# Feature -> the settings of Spark's writer.
SPARK: dict[str, dict[str, str]] = {
    "plain": {},
    "legacy decimals": {"spark.sql.parquet.writeLegacyFormat": "true"},
    "times as INT96": {"spark.sql.parquet.outputTimestampType": "INT96"},
    "times as milliseconds": {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    "bloom filters": {"parquet.bloom.filter.enabled#s": "true"},
}


def by_spark(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    for k, (feature, settings) in enumerate(SPARK.items()):
        path = folder / f"parquet-{k}"
        options = {name: value for name, value in settings.items() if name[:5] != "spark"}
        for name, value in settings.items():
            if name not in options:
                spark.conf.set(name, value)
        for part in range(PARTS):
            rows = spark.sql(SELECT.format(ROWS * part, ROWS * part + ROWS))
            rows.coalesce(1).write.options(**options).mode("append").parquet(str(path))
        for name in settings:
            if name not in options:
                spark.conf.unset(name)
        yield made(spark, "Spark", feature, path)
    path = folder / "parquet-parted"
    spark.sql(SELECT.format(0, ROWS * PARTS)).write.partitionBy("p").parquet(str(path))
    yield made(spark, "Spark", "partitions", path)


def by_others(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    import duckdb
    import polars as pl

    for writer in ("DuckDB", "Polars", "pyarrow", "pyarrow, page indexes"):
        path = folder / f"parquet {writer}"
        path.mkdir()
        for part in range(PARTS):
            rows, file = rows_of(spark, part), str(path / f"{part}.parquet")
            match writer:
                case "DuckDB":
                    duckdb.sql(f"COPY (FROM rows) TO '{file}' (FORMAT parquet)")
                case "Polars":
                    pl.from_arrow(rows).write_parquet(file)
                case "pyarrow":
                    pq.write_table(rows, file, row_group_size=ROWS // 2)
                case _:
                    pq.write_table(rows, file, write_page_index=True, max_rows_per_page=5)
        yield made(spark, writer, "plain", path)


def made(spark: Any, writer: str, feature: str, path: Path) -> Made:
    return Made("parquet", writer, feature, lambda: ss.scan(str(path)),
                lambda: spark.read.parquet(str(path)), theirs=False)  # fmt: skip


MAKERS = (by_spark, by_others)
