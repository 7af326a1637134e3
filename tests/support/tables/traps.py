"""Traps of `test_peer_bugs`: one file each, a writer's statistics for it, and the matching rows."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal as D
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.tables.footers import (
    MAX,
    MAX_EXACT,
    MIN,
    MIN_EXACT,
    NULLS,
    forget_orders,
    restate,
)

NAN = float("nan")


@dataclass(frozen=True)
class Trap:
    """One file.

    Attributes:
        origin: The project with the bug.
        rows: Columns of one row group.
        found: Predicate -> how many rows match.
        change: A change to the statistics, as another writer would write them.
        groups: Predicate -> the row groups that are kept, if that matters.
        settings: Spark's settings.
        options: The writer's options.
    """

    origin: str
    rows: dict[str, Any]
    found: dict[str, int]
    change: Callable[[Path], None] | None = None
    groups: dict[str, list[int]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def double(x: float) -> bytes:
    return struct.pack("<d", x)


def long(x: int) -> bytes:
    return struct.pack("<q", x)


def int96(nanoseconds: int) -> bytes:
    days, rest = divmod(nanoseconds, 86_400 * 10**9)
    return struct.pack("<qi", rest, days + 2_440_588)


def says(**statistics: Any) -> Callable[[Path], None]:
    fields = {
        "low": MIN,
        "high": MAX,
        "nulls": NULLS,
        "low_exact": MIN_EXACT,
        "high_exact": MAX_EXACT,
    }
    return lambda path: restate(path, {fields[k]: v for k, v in statistics.items()})


WITH_NAN = pa.array([1.0, 2.0, NAN])
ABOVE = {
    "f > 2": 1,
    "f >= 100": 1,
    "NOT (f < 10)": 1,
    "isnan(f)": 1,
    "f = double('NaN')": 1,
    "f NOT IN (1, 2)": 1,
    "f BETWEEN 50 AND double('NaN')": 1,
}
ABOVE |= {
    "NOT isnan(f)": 2,
    "f + 1 > 100": 1,
    "greatest(f, 0D) > 100": 1,
    "NOT (f <= 2 OR f IS NULL)": 1,
    "f <=> double('NaN')": 1,
    "f <= 2": 2,
}

NUMBERS = [
    # pyarrow leaves NaN out of bounds. DataFusion#15812, iceberg#9130, duckdb#25521, delta#7101:
    # the NaN row is lost.
    Trap("NaN beyond max", {"f": WITH_NAN}, ABOVE, groups={"f < 1": []}),
    # Spark writes max = NaN, others min; where one bound is NaN, the other cannot be trusted
    # either.
    Trap("NaN as max",     {"f": WITH_NAN}, ABOVE, says(high=double(NAN))),
    Trap("NaN as min", {"f": WITH_NAN}, ABOVE | {"f < 2": 1},
         says(low=double(NAN), high=double(1.0))),
    Trap("NaN as both bounds", {"f": WITH_NAN}, ABOVE | {"f < 2": 1},
         says(low=double(NAN), high=double(NAN))),
    # One value and NaN look like one value: pyarrow and DataFusion drop the row, DuckDB adds it to
    # `f <= 1`.
    Trap("<> with NaN", {"f": [1.0, NAN]},
         {"f <> 1": 1, "NOT (f = 1)": 1, "f <= 1": 1, "f = 1": 1, "f NOT IN (1)": 1,
           "NOT (f <=> 1)": 1}),
    Trap("nothing but NaN", {"f": [NAN, NAN]},
         {"f > 5": 2, "f <> 5": 2, "isnan(f)": 2, "f IS NOT NULL": 2, "f = f": 2}),
    # ducklake#1307, Delta: 1.1 as FLOAT is 1.10000002 as DOUBLE, above the literal that it was
    # written from.
    Trap(
        "FLOAT beside DOUBLE", {"f": pa.array([1.1], pa.float32())},
        {"f > 1.1D": 1, "CAST(f AS DOUBLE) > 1.1D": 1, "f = CAST(1.1 AS FLOAT)": 1, "f <> 1.1D": 1,
          "f <= 1.100000023841858D": 1},
        groups={"f = 1.1D": []},
    ),
    # The Iceberg specification orders -0.0 below 0.0, and its readers compare so; in SQL they are
    # equal.
    Trap("-0.0", {"f": [-0.0, -0.0]},
         {"f = 0.0": 2, "f >= 0.0": 2, "f IN (0.0)": 2, "f <=> 0.0D": 2},
         says(low=double(-0.0), high=double(-0.0))),
    Trap("0.0 for -0.0", {"f": [-0.0, 0.0]}, {"f = -0.0D": 2, "f <= -0.0D": 2},
         says(low=double(0.0), high=double(0.0)), groups={"f < 0.0": []}),
    # polars#15323: bounds of unsigned numbers read as signed ones.
    Trap("uint64 beyond int64", {"u": pa.array([2**64 - 1, 2**63], pa.uint64())},
         {"u > 9223372036854775807": 2, "u = 18446744073709551615": 1, "u >= 0": 2}),
    # delta-rs#4757, #3905: decimals read as doubles lose their last digits.
    Trap(
        "decimals through doubles", {"m": [D("9007199254740993.01"), D("9007199254740993.02")]},
        {"m = 9007199254740993.01": 1, "m > 9007199254740993.01": 1, "m < 9007199254740993.02": 1},
        groups={"m < 9007199254740993.01": []},
    ),
    # DataFusion#723: the absolute values of bounds are not bounds. At the smallest integer both
    # wrap.
    Trap(
        "abs and - at the smallest integer", {"x": [-(2**63), 5, -3]},
        {"abs(x) < 0": 1, "-x < 0": 2, "abs(x) = 3": 1, "abs(x) >= 5": 1, "x - 1 > 0": 2},
        settings={"ansi": False},
    ),
    Trap("abs of bounds", {"x": [-10, 1, 9]}, {"abs(x) < 2": 1, "abs(x) > 9": 1, "-x > 9": 1},
         groups={"abs(x) > 10": []}),
    # DataFusion#22142: many values share one result of a narrowing cast, so that the literal cannot
    # be cast back.
    Trap("narrowing casts", {"f": [5.1, 5.9]},
         {"CAST(f AS INT) = 5": 2, "CAST(f AS BIGINT) <= 5": 2, "CAST(f AS DECIMAL(3, 0)) = 6": 1}),
    Trap("casts to BOOLEAN", {"x": [2, 3]},
         {"CAST(x AS BOOLEAN)": 2, "CAST(x AS BOOLEAN) = true": 2}),
    # Writers widen a column; bounds of old files keep their width (pyiceberg#3293), and the literal
    # may lie beyond it.
    Trap("literals beyond the type", {"i": pa.array([1, 127], pa.int8())},
         {"i < 300": 2, "i <> 300": 2, "i >= 126.5": 1, "i NOT IN (300, 5)": 2}),
]  # fmt: skip

TIMES = [
    # DataFusion#22142 again: a day is many timestamps.
    Trap(
        "timestamps as dates", {"n": [dt.datetime(2024, 5, 1, 23, 59, 59, 999999)]},
        {"CAST(n AS DATE) = DATE '2024-05-01'": 1, "CAST(n AS DATE) <= DATE '2024-05-01'": 1,
          "to_date(n) >= DATE '2024-05-01'": 1, "n > DATE '2024-05-01'": 1},
    ),
    # Berlin's clocks showed 02:30 twice: local time does not keep the order.
    Trap(
        "an hour that comes twice",
        {"t": pa.array([dt.datetime(2024, 10, 27, 0, 30), dt.datetime(2024, 10, 27, 1, 10)],
          pa.timestamp("us", "UTC"))},
        {
            "hour(t) = 2": 2, "CAST(t AS TIMESTAMP_NTZ) = TIMESTAMP_NTZ '2024-10-27 02:10:00'": 1,
            "CAST(t AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ '2024-10-27 02:20:00'": 1,
            "t = TIMESTAMP '2024-10-27 02:30:00'": 1, "t > TIMESTAMP '2024-10-27 02:30:00'": 1,
            "CAST(t AS DATE) = DATE '2024-10-27'": 2,
        },
        settings={"timezone": "Europe/Berlin"},
    ),
    Trap(
        "an hour that never comes", {"n": [dt.datetime(2024, 3, 31, 2, 30)]},
        {"CAST(n AS TIMESTAMP) >= TIMESTAMP '2024-03-31 03:00:00'": 1,
          "CAST(n AS TIMESTAMP) = TIMESTAMP '2024-03-31 03:30:00'": 1},
        settings={"timezone": "Europe/Berlin"},
    ),
    # delta#2343, kernel-rs#2894: an instant's day depends on the session.
    Trap(
        "another zone's day",
        {"t": pa.array([dt.datetime(2024, 1, 1, 2)], pa.timestamp("us", "UTC"))},
        {"CAST(t AS DATE) = DATE '2023-12-31'": 1, "year(t) = 2023": 1},
        settings={"timezone": "America/New_York"},
    ),
    # DataFusion#25484: bounds of INT96 are ordered as bytes, nanoseconds of the day first.
    Trap(
        "INT96", {"t": pa.array([86_399 * 10**9, 10**18], pa.timestamp("ns"))},
        {"t > TIMESTAMP_NTZ '2000-01-01 00:00:00'": 1,
          "t < TIMESTAMP_NTZ '2000-01-01 00:00:00'": 1},
        says(low=int96(10**18), high=int96(86_399 * 10**9)),
        options={"use_deprecated_int96_timestamps": True},
    ),
]  # fmt: skip

LONG = "x" * 300
TEXTS = [
    # DataFusion#22374: an escaped wildcard is a character.
    Trap(
        "LIKE with escapes", {"s": ["a%b", "axb"]},
        {r"s LIKE 'a\\%b'": 1, "s LIKE 'a!%b' ESCAPE '!'": 1, r"s NOT LIKE 'a\\%%'": 1,
          "s LIKE 'a_b'": 2},
        groups={r"s LIKE 'a\\_%'": [0]},
    ),
    Trap(
        "LIKE, one value", {"s": ["a_b", "a_b"]},
        {r"s LIKE 'a\\_b'": 2, r"s LIKE '%\\_%'": 2, "s LIKE 'a_b'": 2},
        groups={r"s LIKE 'a\\%b'": [], "s LIKE '__'": []},
    ),
    # A prefix's successor: the last code point has none, and surrogates lie between.
    Trap("LIKE past the last character", {"s": ["a\U0010ffffb", "\ud7ffz"]},
         {"s LIKE 'a\U0010ffff%'": 1, "s LIKE '\ud7ff%'": 1, "s NOT LIKE 'a%'": 1}),
    # Strings compare by UTF-8 bytes, not by UTF-16 units.
    Trap("beyond the basic plane", {"s": ["\uff5e", "\U0001f600"]},
         {"s > '\uff5e'": 1, "s < '\U0001f600'": 1, "s = '\U0001f600'": 1}),
    # DataFusion#8342: old writers compared bytes as signed numbers, so that 'é' came before 'a'.
    Trap(
        "bounds of before column orders", {"s": ["a", "é", "z"]},
        {"s = 'é'": 1, "s > 'z'": 1, "s < 'b'": 1, "s <> 'a'": 2}, forget_orders,
        groups={"s IS NULL": []},
    ),
    # Parquet: bounds may be cut, and flags say so. duckdb-iceberg#1334: in the middle of a
    # character.
    Trap("a cut max", {"s": ["aaa", LONG]},
         {"s = 'aaa'": 1, f"s = '{LONG}'": 1, "s > 'xx'": 1, "s <= 'y'": 2},
         says(high=b"y", high_exact=False)),
    Trap(
        "bounds that are no UTF-8", {"s": ["é", "é1"]},
        {"s = 'é'": 1, "s LIKE 'é%'": 2, "s > 'a'": 2, "s <> 'é'": 1},
        says(low=b"\xc3", high=b"\xc3\xff", low_exact=False, high_exact=False),
    ),
    Trap("no max", {"s": ["a", "\U0010ffff"]}, {"s = '\U0010ffff'": 1, "s > 'z'": 1, "s = 'a'": 1},
         says(high=None)),
    Trap("binary without a greater prefix", {"b": [b"\xff" * 300, b"\xff" * 301]},
         {f"b = X'{'ff' * 300}'": 1, f"b > X'{'ff' * 300}'": 1, "b > X'fe'": 2}),
    # The Iceberg specification: empty bounds are values. Some readers treated them as absent.
    Trap("empty strings", {"s": ["", ""]}, {"s = ''": 2, "s < 'a'": 2, "s <= ''": 2},
         groups={"s <> ''": [], "s > ''": []}),
    Trap("from the empty string on", {"s": ["", "b"]},
         {"s = ''": 1, "s = 'b'": 1, "s LIKE '%'": 2, "length(s) = 0": 1, "s <> ''": 1}),
    # iceberg#14216: Java orders UUIDs as signed numbers.
    Trap("bytes above 7f", {"b": pa.array([b"\x7f" * 16, b"\x80" * 16], pa.binary(16))},
         {f"b = X'{'80' * 16}'": 1, f"b > X'{'7f' * 16}'": 1}),
]  # fmt: skip

COUNTS = [
    # DataFusion#25239: a missing count was read as zero; #21907: rows with NULL counted as fully
    # matched.
    Trap("no null count", {"x": [1, None, 3]},
         {"x IS "
          "NULL": 1, "x IS NOT NULL": 2, "x > 0": 2, "NOT (x <=> 1)": 2, "coalesce(x, 9) = 9": 1},
         says(nulls=None)),
    # iceberg#17558, DataFusion#1433: sums of -1, counts of other columns.
    *(
        Trap(f"a null count of {n}", {"x": [1, None, 3]},
             {"x IS NULL": 1, "x IS NOT NULL": 2, "x > 0": 2, "x = 3": 1}, says(nulls=n))
        for n in (-1, -(2**63), 4, 10**12)
    ),
    # ClickHouse#116499: which of two inverted bounds is right?
    Trap("inverted bounds", {"x": [1, 5, 9]}, {"x = 5": 1, "x > 8": 1, "x < 2": 1, "x <> 5": 2},
         says(low=long(9), high=long(1))),
    # DataFusion#24769, delta: NULL in all rows is not the same as a missing column; bounds may be
    # anything.
    Trap(
        "nothing but NULL", {"x": pa.array([None, None], pa.int64())},
        {"x IS NULL": 2, "x <=> NULL": 2, "NOT (x <=> 5)": 2, "coalesce(x, 0) = 0": 2,
          "(x = 5) IS NULL": 2, "x NOT IN (5) OR x IS NULL": 2},
        groups={"x = 5": [], "x <> 5": [], "NOT (x > 5)": [], "x IS NOT NULL": []},
    ),
    Trap(
        "bounds of nothing but NULL", {"x": pa.array([None, None], pa.int64())},
        {"x IS NULL": 2, "x <=> NULL": 2}, says(low=long(0), high=long(0)),
        groups={"x = 0": [0], "x = 1": [0]},  # which is right, the bounds or the count?
    ),
    # pyiceberg keeps everything "all match": NULL satisfies its NOT IN. In SQL, no row satisfies
    # NOT IN with a NULL member.
    Trap(
        "NOT IN with NULL", {"x": [1, 2, 3]},
        {"(x NOT IN (1, NULL)) IS NULL": 2, "x IN (1, NULL)": 1,
          "NOT (x IN (1, NULL) AND x = 1)": 2, "x NOT IN (7, 8)": 3},
        groups={"x NOT IN (1, NULL)": [], "NOT (x IN (NULL))": [], "x IN (NULL)": []},
    ),
    Trap("NULL does not pass NOT IN", {"x": [1, None]},
         {"x NOT IN (5)": 1, "x <> 5": 1, "NOT (x = 5)": 1, "x < 1000000000000": 1}),
]  # fmt: skip

NAMES = [
    # DataFusion#5708: `a.b` is a column, a.b a field.
    Trap(
        "dots in names", {"a.b": [1, 2], "a": pa.array([{"b": 5}, {"b": 6}])},
        {"`a.b` = 2": 1, "a.b = 6": 1, "a.b > 4 AND `a.b` < 2": 1},
        groups={"a.b = 1": [], "`a.b` = 5": []},
    ),
    # iceberg#8598, #8611: counts of fields leave out rows whose struct is NULL.
    Trap("NULL above", {"a": pa.array([None, {"b": 5}, {"b": None}])},
         {"a.b IS NULL": 2, "a.b IS NOT NULL": 1, "NOT (a.b <=> 5)": 2, "a IS NULL": 1}),
]  # fmt: skip

TRAPS = (*NUMBERS, *TIMES, *TEXTS, *COUNTS, *NAMES)
