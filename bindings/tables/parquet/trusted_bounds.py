"""Bounds as pyarrow reads them, of column chunks that the compiled loop leaves to it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.tables.parquet.encodings import POWERS, UNITS, parse_logical_type
from skipstone.bindings.tables.parquet.footers import Footer
from skipstone.ir.arrow import scalar_of
from skipstone.ir.zones import GREGORIAN, SETTLED


def trusted_bounds(stats: pq.Statistics, footer: Footer) -> tuple[Any, Any]:
    """Return both bounds as Python or Arrow values; None for a bound that cannot be trusted."""
    logical = parse_logical_type("" if stats.logical_type is None else stats.logical_type.to_json())
    try:
        if logical.get("Type") == "Timestamp":
            # As integers of the file's unit: Python's datetime has no nanoseconds.
            kind = pa.timestamp(
                UNITS[logical["timeUnit"]], "UTC" if logical["isAdjustedToUTC"] else None
            )
            low, high = (
                scalar_of(v, pa.int64()).cast(kind) for v in (stats.min_raw, stats.max_raw)
            )
            if footer.julian and stats.min_raw < SETTLED * 10 ** POWERS[kind.unit]:
                return None, None
            return low, high
        if logical.get("Type") == "Date" and footer.julian and stats.min_raw < GREGORIAN:
            return None, None
        low, high = stats.min, stats.max
    except (ValueError, KeyError, OverflowError, pa.ArrowException):
        # Bytes that are not text, an unknown unit, or a date that Python cannot hold.
        return None, None
    if isinstance(low, float) and (low != low or high != high):
        # One bound is NaN: most writers do not handle NaN when computing bounds, so neither is
        # reliable. parquet-mr, Spark's writer, orders NaN last, so that its minimum is right.
        return (low, None) if low == low and footer.orders_nan else (None, None)
    return low, high


def is_all_nan(stats: pq.Statistics, footer: Footer) -> bool:
    """Return True if the minimum is NaN in a file whose writer orders NaN last."""
    return (
        stats.physical_type in ("FLOAT", "DOUBLE") and stats.min != stats.min and footer.orders_nan
    )
