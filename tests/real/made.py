"""A table that a real writer made, and the ways to open it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

# Each part is a commit of its own; `id` names the rows.
PARTS, ROWS = 6, 40
SELECT = """SELECT /*+ COALESCE(1) */ id,
    CAST(id DIV 3 AS INT) i,
    CAST(IF(id % 7 = 0, NULL, id * 1000) AS BIGINT) l,
    CAST(CASE WHEN id % 11 = 0 THEN 'NaN' WHEN id % 13 = 0 THEN NULL ELSE id / 4 END AS DOUBLE) f,
    IF(id % 5 = 0, NULL, CONCAT('text ', LPAD(CAST(id AS STRING), 4, '0'))) s,
    DATE_ADD(DATE '2023-12-20', CAST(id DIV 4 AS INT)) d,
    TIMESTAMP '2023-12-31 20:00:00' + MAKE_DT_INTERVAL(0, CAST(id AS INT), 0, 0.000001) t,
    CAST(id / 8 AS DECIMAL(12, 2)) n,
    CAST(CONCAT('b', id) AS BINARY) b,
    id % 2 = 0 z,
    IF(id % 9 = 0, NULL,
        NAMED_STRUCT('x', NULLIF(CAST(id AS INT), -1), 'y', NULLIF(CONCAT('y', id), ''))) st,
    ARRAY(CAST(id AS INT), 7) arr,
    IF(id % 8 = 0, NULL, MAP('k1', CAST(id AS INT), CONCAT('g', id DIV 50), -1)) m,
    CASE WHEN id % 10 = 0 THEN NULL WHEN id % 10 = 1 THEN ARRAY() ELSE
        ARRAY(NAMED_STRUCT('a', CAST(id AS INT), 'b', CONCAT('e', id DIV 7)),
            NAMED_STRUCT('a', NULLIF(CAST(id + 5 AS INT), 5), 'b', NULL)) END items,
    CONCAT('p', id DIV 60) p
FROM range({}, {})"""
COLUMNS = """id BIGINT, i INT, l BIGINT, f DOUBLE, s STRING, d DATE, t TIMESTAMP, n DECIMAL(12, 2),
    b BINARY, z BOOLEAN, st STRUCT<x: INT, y: STRING>, arr ARRAY<INT>,
    m MAP<STRING, INT>, items ARRAY<STRUCT<a: INT, b: STRING>>, p STRING"""


@dataclass(frozen=True)
class Made:
    """A table.

    Attributes:
        format, writer, feature: What it is a case of.
        scan: Opens it with Skipstone.
        frame: Opens it with Spark.
        theirs: True if Spark's planner of this format chooses files, so that it is a peer.
        is_read: False if it has files of formats that Skipstone plans, and refuses to read; then
            Spark reads the files that it leaves.
        refused: Words of the error by which Skipstone refuses the table; "" if it opens it.
    """

    format: str
    writer: str
    feature: str
    scan: Callable[[], Any]
    frame: Callable[[], Any] | None
    theirs: bool = True
    is_read: bool = True
    refused: str = ""

    @property
    def name(self) -> str:
        return f"{self.format}, {self.writer}, {self.feature}"


def unmade(format: str, writer: str, feature: str, error: Exception) -> Made:
    """Return a case that fails, because its table could not be made."""

    def scan() -> Any:
        raise error

    return Made(format, writer, feature, scan, scan)


def rows_of(spark: Any, part: int) -> pa.Table:
    """Return the rows of one part, for the writers that take Arrow tables."""
    table = spark.sql(SELECT.format(ROWS * part, ROWS * part + ROWS)).toArrow()
    fields = [
        f.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def inserts(table: str, parts: range = range(PARTS)) -> list[str]:
    """Return statements that insert the parts."""
    return [f"INSERT INTO {table} {SELECT.format(ROWS * k, ROWS * k + ROWS)}" for k in parts]


def run(spark: Any, statements: list[str]) -> None:
    for statement in statements:
        spark.sql(statement)


# Which tables to make, by writer and feature.
Wanted = Callable[[str, str], bool]
Maker = Callable[[Any, Path, Wanted], Iterator[Made]]
