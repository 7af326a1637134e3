"""Rows and settings on which Spark judges coercions."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import math
from collections.abc import Iterator
from decimal import Decimal as D
from typing import Any

import pyarrow as pa

INF, NAN = math.inf, math.nan


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type, misc]


WALLS = [
    (2024, 1, 1),
    (2023, 12, 31, 23),
    (2024, 1, 1, 5),
    (2024, 7, 1),
    (2024, 6, 30, 20),
    (2024, 6, 30, 22),
    (2024, 7, 1, 4),
]


DAYS = [(2024, 1, 1), (2024, 7, 1), (2023, 12, 31), (2024, 1, 2), (1969, 12, 31), (9999, 12, 31)]


# column  Spark's type      Arrow type                   values, and NULL
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "i8": ("tinyint", pa.int8(), [0, 1, 5, -128, 127]),
    "i16": ("smallint", pa.int16(), [0, 1, 5, -(2**15), 2**15 - 1]),
    "i": ("int", pa.int32(), [0, 1, 5, 6, -5, 10, 16777217, -(2**31), 2**31 - 1]),
    "l": ("bigint", pa.int64(),
          [0, 1, 5, 6, 3 * 10**9, 2**53 - 1, 2**53, 2**53 + 1, 16777217, -(2**63), 2**63 - 1]),
    "f": ("float", pa.float32(),
          [0.0, -0.0, 5.0, 0.1, 5.5, 16777216.0, NAN, INF, -INF, 3.4028234663852886e38, 1e-45]),
    "g": ("double", pa.float64(),
          [0.0, -0.0, 5.0, 0.1, 5.5, 16777217.0, 2.0**53, NAN, INF, -INF, 1.7e308,
            0.10000000149011612]),
    "m": ("decimal(9,2)", pa.decimal128(9, 2),
          [D("0.00"), D("5.00"), D("5.50"), D("0.10"), D("-5.00"), D("9999999.99")]),
    "m0": ("decimal(5,0)", pa.decimal128(5, 0), [D(0), D(5), D(6), D(-5), D(99999)]),
    "w": ("decimal(38,10)", pa.decimal128(38, 10),
          [D(0), D(5), D("5.5"), D("0.1"), D(2**53 + 1),
            D("9999999999999999999999999999.9999999999")]),
    "d": ("date", pa.date32(), [dt.date(*d) for d in DAYS]),
    "t": ("timestamp", pa.timestamp("us", "UTC"), [utc(*w) for w in WALLS]),
    "n": ("timestamp_ntz", pa.timestamp("us"),
          [dt.datetime(*w) for w in WALLS]),  # type: ignore[arg-type, misc]
    "s": ("string", pa.string(),
          ["", "5", "a", "ab", "abc", "a%", "a_c", "2024-01-01", "true", "5.0", "é", "z😀",
           "it's", "a\\"]),
    "b": ("boolean", pa.bool_(), [True, False]),
    "y": ("binary", pa.binary(), [b"", b"a", b"\x01", b"\xff", b"5"]),
}  # fmt: skip


ROWS = max(len(values) for *_, values in COLUMNS.values()) + 1


SCHEMA = pa.schema([(name, t) for name, (_, t, _) in COLUMNS.items()])


BATCH = pa.record_batch(
    [pa.array(v + [None] * (ROWS - len(v)), t) for _, t, v in COLUMNS.values()], SCHEMA
)


SETTINGS = [(True, "UTC"), (False, "UTC"), (True, "Europe/Berlin"), (False, "America/New_York")]


@contextlib.contextmanager
def judging(spark: Any, ansi: bool, zone: str) -> Iterator[None]:
    """Make the view `rows` and change Spark's settings for a while."""
    table = pa.Table.from_batches([BATCH]).append_column("row", pa.array(range(ROWS), pa.int32()))
    spark.createDataFrame(
        table, ", ".join(f"{name} {t}" for name, (t, *_) in COLUMNS.items()) + ", row int"
    ).createOrReplaceTempView("rows")
    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    spark.conf.set("spark.sql.session.timeZone", zone)
    # PySpark logs every query that raises; here some should raise.
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        spark.conf.set("spark.sql.ansi.enabled", "true")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
