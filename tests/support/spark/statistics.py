"""Statistics as DataFrames, and the answers of strategies."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal as D
from typing import Any

import pyarrow as pa

from tests.support.spark.session import HAS_ARROW_UDF

FAR, EARLY = dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1)


DAYS = [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]


WALLS = [
    EARLY,
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2024, 10, 27, 0, 30),
    dt.datetime(2024, 10, 27, 1, 30),
    FAR,
]


TEXTS = ["", "a", "ab", "abc", "é", "z😀"]


# column  Spark's type      Arrow type                 bounds to draw from
TYPES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "b": ("boolean", pa.bool_(), [False, True]),
    "i8": ("tinyint", pa.int8(), [-128, -1, 0, 5, 127]),
    "i16": ("smallint", pa.int16(), [-(2**15), 0, 5, 2**15 - 1]),
    "i": ("int", pa.int32(), [-(2**31), -5, 0, 5, 2**31 - 1]),
    "l": ("bigint", pa.int64(),
          [-(2**63), -(2**53) - 1, 0, 5, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1]),
    "f": ("float", pa.float32(),
          [float("-inf"), -1.5, 0.0, 5.5, 16777216.0, float("inf"), float("nan")]),
    "g": ("double", pa.float64(),
          [float("-inf"), -1.5, 0.0, 5.5, 2.0**53, float("inf"), float("nan")]),
    "m": ("decimal(9,2)", pa.decimal128(9, 2),
          [D("-9999999.99"), D("0.00"), D("5.50"), D("9999999.99")]),
    "w": ("decimal(38,10)", pa.decimal128(38, 10),
          [D("-5.5"), D(0), D("5.0000000001"), D(10) ** 27]),
    "s": ("string", pa.string(), TEXTS),
    "y": ("binary", pa.binary(), [t.encode() for t in TEXTS] + [b"\xff"]),
    "d": ("date", pa.date32(), DAYS),
    "t": ("timestamp", pa.timestamp("us", "UTC"), [w.replace(tzinfo=dt.UTC) for w in WALLS]),
    "n": ("timestamp_ntz", pa.timestamp("us"), WALLS),
}  # fmt: skip


SCHEMA = pa.schema([(name, t) for name, (_, t, _) in TYPES.items()])


PREDICATES = [
    "b", "NOT b OR i8 = 5", "i16 BETWEEN 1 AND 5", "i IN (-5, 0, 7)", "i NOT IN (5, NULL)",
    "i <> 5", "i <=> 5",
    "l = 9007199254740993", "l > 9007199254740992", "l <= -9007199254740993",
    "l >= 9223372036854775807", "l < -9223372036854775808 OR l = 5",
    "f > 5", "f <= 5.5", "f = DOUBLE('NaN')", "NOT (g > 5)", "g < 9007199254740993", "m = 5.5",
    "m > 0.01 AND m < 5.5", "w > 5", "w = 5.0000000001",
    "s LIKE 'ab%'", "s > 'z'", "s = '' OR s IS NULL", "y > X'61'", "y = X'FF'",
    "d = DATE'9999-12-31'", "d < DATE'1970-01-01'", "d IS NOT NULL",
    "t > TIMESTAMP'9999-12-31 00:00:00'", "t = TIMESTAMP'2024-10-27 00:30:00Z'", "t < '1970-01-01'",
    "n = TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
    "n <= TIMESTAMP_NTZ'0001-01-01 00:00:00'", "n > DATE'2024-10-27'",
    "i > 0 AND (s = 'a' OR t IS NULL) AND NOT (d > DATE'2024-01-01')", "true", "i = l",
]  # fmt: skip


def random_statistics(n: int, seed: int) -> pa.Table:
    """Return bounds that fit, cross, are NaN or unknown, and counts that fit or contradict them.

    Counts may also be unknown.
    """
    rng = random.Random(seed)
    columns: dict[str, pa.Array] = {}

    def draw(values: list[Any], t: pa.DataType, unknown: float = 0.25) -> pa.Array:
        return pa.array(
            [None if rng.random() < unknown else rng.choice(values) for _ in range(n)], t
        )

    for name, (_, t, values) in TYPES.items():
        columns[f"{name}.min"], columns[f"{name}.max"] = (
            draw(values[: len(values) // 2 + 1], t),
            draw(values[len(values) // 2 :], t),
        )
        columns[f"{name}.null_count"] = draw([0, 0, 0, 1, 9, 10, -1, 2**53 + 1], pa.int64())
        if pa.types.is_floating(t):
            columns[f"{name}.nan_count"] = draw([0, 0, 1, 10], pa.int64())
    columns["row_count"] = draw([0, 10, 10, 10, 2**53 + 1], pa.int64())
    return pa.table(columns)


def frame(spark: Any, table: pa.Table) -> Any:
    """Return a DataFrame of statistics in one partition, so a null shares a batch with others."""
    types = [
        TYPES[c.partition(".")[0]][0] if c.endswith((".min", ".max")) else "bigint"
        for c in table.column_names
    ]
    ddl = ", ".join(
        f"`{c}` {t}" for c, t in zip(["at", *table.column_names], ["bigint", *types], strict=True)
    )
    return spark.createDataFrame(
        table.add_column(0, "at", pa.array(range(len(table)))), ddl
    ).coalesce(1)


def called(udf: Any, df: Any) -> Any:
    """Call the UDF on the columns that it names; missing columns are NULL."""
    from pyspark.sql import functions as F

    return udf(*(F.col(f"`{c}`") if c in df.columns else F.lit(None) for c in udf.columns))


def answers(df: Any) -> list[Any]:
    """Return the last column, in the order of the first."""
    return [row[-1] for row in sorted(df.collect())]


STRATEGIES = ("native", *["arrow_udf"] * HAS_ARROW_UDF, "map_in_arrow", "pandas_udf")


def plan_of(df: Any) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


#     a statistic in SQL, predicate, verdict
ODD = [
    # 'Z' collates above 'a'; its bytes lie below
    ("'Z' COLLATE UTF8_LCASE AS `s.max`",                                         "s > 'a'", 1),
    ("'Z' AS `s.max`",                                                            "s > 'a'", 0),
    # not UTF-8: bounds nothing
    ("cast(X'ff41' AS string) AS `s.max`",                                        "s > 'a'", 1),
    ("cast(3 AS tinyint) AS `l.max`",                                             "l > 5",   0),
    ("cast(3 AS decimal(20,0)) AS `l.max`",                                       "l > 5",   0),
    ("3.5 AS `l.max`",                                                            "l > 5",   1),
    ("3 AS `m.max`",                                                              "m > 5",   0),
    ("3 AS `g.max`, 0 AS `g.nan_count`",                                          "g > 5",   0),
    # a double bounds no bigint
    ("3.0D AS `l.max`",                                                           "l > 5",   1),
    # a day is not an instant
    ("DATE'2024-01-01' AS `t.max`", "t > TIMESTAMP'2024-01-02 00:00:00'", 1),
    ("array(1) AS `l.max`",                                                       "l > 5",   1),
    ("cast(0 AS decimal(20,0)) AS `l.null_count`, 3 AS `l.max`, 2S AS row_count", "l < 5",   2),
    ("0.0D AS `l.null_count`, 3 AS `l.max`, 2S AS row_count",                     "l < 5",   1),
]  # fmt: skip
