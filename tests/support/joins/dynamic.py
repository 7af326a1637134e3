"""Joins in plain Python with Spark's equality, and random keys, containers and filters for them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

import skipstone as ss

ZONE = dt.UTC
KINDS = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float": pa.float32(), "double": pa.float64(),
    "decimal(9,2)": pa.decimal128(9, 2), "decimal(25,5)": pa.decimal128(25, 5),
    "decimal(12,0)": pa.decimal128(12, 0),
    "date": pa.date32(), "timestamp_ntz": pa.timestamp("us"),
    "timestamp_ntz ns": pa.timestamp("ns"),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp ms": pa.timestamp("ms", "UTC"),
    "string": pa.string(), "large_string": pa.large_string(), "binary": pa.binary(),
    "boolean": pa.bool_(),
}  # fmt: skip
NUMBERS = [
    k
    for k, t in KINDS.items()
    if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)
]
TIMES = {
    "date": ["date", "timestamp_ntz", "timestamp_ntz ns", "timestamp"],
    "timestamp_ntz": ["date", "timestamp_ntz", "timestamp_ntz ns"],
    "timestamp_ntz ns": ["timestamp_ntz", "timestamp_ntz ns"],
    "timestamp": ["timestamp", "timestamp ms", "date"],
    "timestamp ms": ["timestamp", "timestamp ms"],
}
PARTNERS = {
    **dict.fromkeys(NUMBERS, NUMBERS),
    **TIMES,
    "string": ["string", "large_string"],
    "large_string": ["string"],
    "binary": ["binary"],
    "boolean": ["boolean"],
}
# The types that Spark casts a string to, under ANSI, before it compares it with a key of another
# type. Spark has no nanoseconds.
TEXT = ("string", "large_string")
FROM_TEXT = {
    **dict.fromkeys(NUMBERS, "double"),
    **dict.fromkeys(["int8", "int16", "int32", "int64", "uint8", "uint32"], "int64"),
    **{k: k for k in ("date", "timestamp_ntz", "boolean")},
    **dict.fromkeys(["timestamp", "timestamp ms"], "timestamp"),
}
# Texts, and their values under Spark's ANSI casts; a missing cast raises an error.
TEXTS = {
    "1": {"int64": 1, "double": 1.0, "boolean": True},
    " 3 ": {"int64": 3, "double": 3.0},
    "0": {"int64": 0, "double": 0.0, "boolean": False},
    "-2": {"int64": -2, "double": -2.0},
    "1.5": {"double": 1.5},
    "2.55": {"double": 2.55},
    "NaN": {"double": math.nan},
    "9223372036854775807": {"int64": 2**63 - 1, "double": 2.0**63},
    "2024-01-12": {
        "date": dt.date(2024, 1, 12),
        "timestamp": dt.datetime(2024, 1, 12, tzinfo=ZONE),
        "timestamp_ntz": dt.datetime(2024, 1, 12),
    },
    "true": {"boolean": True},
    "x": {},
}


for kind in FROM_TEXT:
    PARTNERS[kind] = [*PARTNERS[kind], "string"]
PARTNERS["string"] = [*PARTNERS["string"] * 6, *FROM_TEXT]


class Raises(Exception):
    """Spark raises an error for a cast."""


def of_text(value, kind):
    """Return the value as which Spark compares a text with a key of a kind, and its kind."""
    if value is not None and FROM_TEXT[kind] not in TEXTS[value]:
        raise Raises(value)
    return None if value is None else TEXTS[value][FROM_TEXT[kind]], FROM_TEXT[kind]


def cast_texts(rows, kinds, others):
    """Return rows and kinds of one side of a join as Spark compares them."""
    pairs = [
        [
            of_text(v, o) if k in TEXT and o not in TEXT else (v, k)
            for v, k, o in zip(row, kinds, others, strict=True)
        ]
        for row in rows
    ]
    after = [
        FROM_TEXT[o] if k in TEXT and o not in TEXT else k
        for k, o in zip(kinds, others, strict=True)
    ]
    return [tuple(v for v, _ in row) for row in pairs], after


def exact(value, kind):
    """Return a value as it is compared: a number, or text."""
    t = KINDS[kind]
    if isinstance(value, float):
        return float(np.float32(value)) if pa.types.is_float32(t) else value
    if isinstance(value, decimal.Decimal):
        return Fraction(value)
    if isinstance(value, dt.datetime):
        return Fraction(
            int(
                (value.replace(tzinfo=None) - dt.datetime(1970, 1, 1))
                / dt.timedelta(microseconds=1)
            )
        )
    if isinstance(value, dt.date):
        return Fraction((value - dt.date(1970, 1, 1)).days * 86_400_000_000)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return Fraction(value)
    return value


def floating(kind):
    return kind in ("float", "double")


def same(a, kind_a, b, kind_b, null_safe=False):
    """Return whether Spark's join finds two keys equal: True, False or None."""
    if a is None or b is None:
        return (a is None and b is None) if null_safe else None
    x, y = exact(a, kind_a), exact(b, kind_b)
    if floating(kind_a) or floating(kind_b):
        x, y = float(x), float(y)
        return x == y or (math.isnan(x) and math.isnan(y))
    return x == y


def matches(row, keys, null_safe):
    """Return True if a row of (value, kind) keys has a match among rows of keys."""
    return any(
        all(
            same(a, ka, b, kb, safe) is True
            for (a, ka), (b, kb), safe in zip(row, key, null_safe, strict=True)
        )
        for key in keys
    )


def absent(row, keys):
    """Return True if NOT IN is TRUE for a row.

    The row then certainly differs from each key in some column.
    """
    return all(
        any(same(a, ka, b, kb) is False for (a, ka), (b, kb) in zip(row, key, strict=True))
        for key in keys
    )


def needed(row, keys, how, null_safe):
    """Return True if a join needs a row of its left side."""
    if how in ("left", "full"):
        return True
    if how == "not in":
        return absent(row, keys)
    return matches(row, keys, null_safe) != (how == "anti")


@dataclass
class Random:
    """Random values from few points, so that keys often meet, and from the ends of types."""

    r: random.Random

    def value(self, kind):
        r, t = self.r, KINDS[kind]
        n = r.randint(-4, 6)
        if r.random() < 0.15:
            return None
        if pa.types.is_unsigned_integer(t):
            return r.choice([abs(n), abs(n), 2**t.bit_width - 1, 2**t.bit_width - 2])
        if pa.types.is_integer(t):
            top = 2 ** (t.bit_width - 1)
            return r.choice([n, n, n, n, top - 1, -top, min(2**53 + r.randint(-1, 2), top - 1)])
        if pa.types.is_floating(t):
            v = r.choice(
                [n, n, n, n + 0.5, 0.1, -0.0, math.nan, math.inf, -math.inf, 2.0**53, 1e30]
            )
            return float(np.float32(v)) if pa.types.is_float32(t) else float(v)
        if pa.types.is_decimal(t):
            return decimal.Decimal(r.choice([n, n, n, n * 10 + 5, 255])) / (
                1 if t.scale == 0 else r.choice([1, 10, 100])
            )
        if pa.types.is_date(t):
            return dt.date(2024, 1, 10) + dt.timedelta(days=n)
        if pa.types.is_timestamp(t):
            step = r.choice(
                [dt.timedelta(0), dt.timedelta(0), dt.timedelta(milliseconds=1)]
                + ([] if t.unit == "ms" else [dt.timedelta(microseconds=1)])
            )
            return (
                dt.datetime(2024, 1, 10, tzinfo=ZONE if t.tz else None)
                + dt.timedelta(days=n)
                + step
            )
        if pa.types.is_boolean(t):
            return n > 0
        text = r.choice(["", "a", "ab", "abc", "b", "é", "z" * 40, "a\0", f"k{n}"])
        return text.encode() if pa.types.is_binary(t) else text

    def text(self, kind):
        """Return a text, mostly one that Spark can compare with a key of a kind."""
        fit = [t for t, values in TEXTS.items() if FROM_TEXT[kind] in values]
        if self.r.random() < 0.15:
            return None
        return self.r.choice(fit if self.r.random() < 0.95 else list(TEXTS))

    def rows(self, kinds, most, others=None):
        """Return random rows; `others` are the kinds of the keys that they are compared with."""
        pairs = list(zip(kinds, others or kinds, strict=True))
        return [
            tuple(self.text(o) if k in TEXT and o not in TEXT else self.value(k) for k, o in pairs)
            for _ in range(self.r.randint(0, most))
        ]


def table(rows, kinds, names):
    return pa.table(
        [pa.array([row[i] for row in rows], KINDS[k]) for i, k in enumerate(kinds)], names=names
    )


def typed(row, kinds):
    return tuple(zip(row, kinds, strict=True))


def statistics(containers, kinds, names, r):
    """Return correct statistics of lists of rows, of which some are dropped or widened."""
    columns = {}
    for i, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        entry = {"min": [], "max": [], "null_count": [], "row_count": [], "nan_count": []}
        for rows in containers:
            values = [row[i] for row in rows if row[i] is not None]
            real = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
            key = (lambda v: v.encode()) if kind.endswith("string") else (lambda v: v)
            bounds = (min(real, key=key), max(real, key=key)) if real else (None, None)
            known = r.random() < 0.85
            entry["min"].append(bounds[0] if known and r.random() < 0.9 else None)
            entry["max"].append(bounds[1] if known and r.random() < 0.9 else None)
            entry["null_count"].append(len(rows) - len(values) if r.random() < 0.85 else None)
            entry["nan_count"].append(len(values) - len(real) if r.random() < 0.7 else None)
            entry["row_count"].append(len(rows) if r.random() < 0.9 else None)
        arrow = KINDS[kind]
        columns[name] = {
            k: pa.array(v, arrow if k in ("min", "max") else pa.int64())
            for k, v in entry.items()
            if k != "nan_count" or floating(kind)
        }
    schema = pa.schema([(n, KINDS[k]) for n, k in zip(names, kinds, strict=True)])
    return ss.Statistics.from_dict(columns, schema, row_count=[len(c) for c in containers])
