"""Columns and values of Parquet files for several tests."""

import datetime as dt
import decimal

import pyarrow as pa

D = decimal.Decimal


WIDE = pa.table(
    {
        "i": pa.array([3, None, 7, 9], pa.int32()),
        "u": pa.array([0, 2**64 - 1, 5, 5], pa.uint64()),
        "f": pa.array([1.5, float("nan"), -0.0, 2.0], pa.float32()),
        "s": pa.array(["b", "a", None, "é"]),
        "v": pa.array(["b", "a", None, "é"], pa.string_view()),
        "c": pa.array(["b", "a", None, "é"]).dictionary_encode(),
        "b": pa.array([b"\xff", b"", b"a", None]),
        "d": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None, None]),
        "n": pa.array([1, 2, 3, 4], pa.timestamp("ns")),
        "t": pa.array(
            [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1), None, None], pa.timestamp("us", "UTC")
        ),
        "m": pa.array([D("1.50"), D("-2.25"), None, D("0")], pa.decimal128(9, 2)),
        "big": pa.array([D(10) ** 30, -(D(10) ** 30), None, D("0")], pa.decimal128(38, 2)),
        "o": pa.array([True, False, None, True]),
        "a": pa.array(
            [{"x": 1, "y": {"z": "p"}}, None, {"x": None, "y": None}, {"x": 4, "y": {"z": "q"}}]
        ),
        "l": pa.array([[1], None, [], [2, 3]]),
        "h": pa.array([1, 2, 3, 4], pa.float16()),
        "e": pa.array([dt.time(1), None, None, None]),
    }
)


#     predicate                                       row groups   rows
CASES = [
    ("i > 8", [1], 1),
    ("i IS NULL", [0], 1),
    ("u = 18446744073709551615", [0], 1),
    ("f > 100", [0, 1], 1),  # NaN is greater, and footers ignore it
    ("f = 0.0", [1], 1),
    ("s = 'é'", [1], 1),
    ("v LIKE 'a%'", [0], 1),
    ("c < 'b'", [0], 1),
    ("b >= X'FE'", [0], 1),
    ("d = DATE '9999-12-31'", [0], 1),
    ("n >= TIMESTAMP_NTZ '1970-01-01 00:00:00.000001'", [], 0),
    ("t < TIMESTAMP '0100-01-01 00:00:00'", [0], 1),
    ("m = -2.25", [0], 1),
    ("big > 1000000000000000000000000000", [0], 1),
    ("o", [0, 1], 2),
    ("NOT o", [0], 1),
    ("a.x = 4", [1], 1),
    ("a.x IS NULL", [0, 1], 2),
    ("a.y.z = 'q'", [1], 1),
    ("l IS NULL", [0, 1], 1),  # the null count of a list's leaf includes more than its NULLs
    ("h IS NOT NULL", [0, 1], 4),
    ("i > 5 OR s = 'a'", [0, 1], 3),
    ("1 = 2", [], 0),
]


LEGACY = {b"org.apache.spark.version": b"3.1.0", b"org.apache.spark.legacyDateTime": b""}
