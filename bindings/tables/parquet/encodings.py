"""Encodings of bounds in Parquet footers that we decode ourselves.

These are the encodings for which we provably agree with pyarrow.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.parquet.heads import Head
from skipstone.bindings.tables.table_columns import storage_type
from skipstone.ir.arrow import dtype_of
from skipstone.ir.types import FIRST_DATE, LAST_DATE
from skipstone.ir.zones import GREGORIAN, SETTLED

UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
POWERS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class Encoding(NamedTuple):
    """The encoding of a column's bounds in a footer.

    Attributes:
        numpy_type: NumPy's name of the stored type; "" for bytes.
        least, greatest: The limits of valid bounds; pyarrow decides about bounds outside of them.
        precision: Digits of a decimal; 0 for other types.
        width: Bytes of a decimal that is stored as bytes; 0 for others. Chunks of one encoding are
            decoded together, so they must agree in it.
        unit: The unit of a timestamp, as a power of ten.
        settled: The first day or tick on which all calendars agree; None for other types.
        counts_only: True if only the number of NULLs is used, and bounds are ignored.
    """

    numpy_type: str
    least: int | None = None
    greatest: int | None = None
    precision: int = 0
    width: int = 0
    unit: int = 0
    settled: int | None = None
    counts_only: bool = False


def encoding_of(head: Head, column: int, arrow_type: pa.DataType) -> Encoding | None:
    """Return how a column's bounds are stored.

    Args:
        head: The part of the footer that concerns the whole file.
        column: The position of the column among the Parquet columns.
        arrow_type: The type that the bounds are to have.

    Returns:
        The encoding; None if pyarrow has to decode the bounds.
    """
    logical = head.logical[column]
    if not head.trusted or logical is None:
        return None
    return _encoding(*head.physical[column], logical, arrow_type)


@cache
def parse_logical_type(text: str) -> dict[str, Any]:
    """Parse the JSON that pyarrow gives for a logical type; "" gives an empty dictionary."""
    return dict(json.loads(text)) if text else {}


@cache
def _encoding(physical: str, length: int, logical: str, arrow_type: pa.DataType) -> Encoding | None:
    logical_type, t = parse_logical_type(logical), pa.types
    match physical, logical_type.get("Type"):
        case "INT96", _:
            return Encoding("", counts_only=True)
        case "BOOLEAN", "None" if t.is_boolean(arrow_type):
            return Encoding("u1", 0, 1)
        case "INT32" | "INT64", "None" | "Int" if t.is_integer(arrow_type):
            return _integer_encoding(int(physical[3:]), logical_type, arrow_type)
        case "INT32", "Date" if t.is_date32(arrow_type):
            return Encoding("i4", FIRST_DATE, LAST_DATE, settled=GREGORIAN)
        case "INT32" | "INT64", "Time" if (
            t.is_time(arrow_type) and UNITS.get(logical_type["timeUnit"]) == arrow_type.unit
        ):
            limit = 86_400 * 10 ** POWERS[arrow_type.unit] - 1
            return Encoding(f"i{int(physical[3:]) // 8}", 0, limit)
        case "INT64", "Timestamp" if (
            t.is_timestamp(arrow_type)
            and logical_type["timeUnit"] in UNITS
            and (arrow_type.tz is not None) == logical_type["isAdjustedToUTC"]
        ):
            power = POWERS[UNITS[logical_type["timeUnit"]]]
            return Encoding("i8", unit=power, settled=SETTLED * 10**power)
        case "FLOAT" | "DOUBLE", "None" if arrow_type in (pa.float32(), pa.float64()):
            numpy_type = "f4" if physical == "FLOAT" else "f8"
            return Encoding(numpy_type) if np.can_cast(numpy_type, dtype_of(arrow_type)) else None
        case "INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY", "Decimal" if (
            t.is_decimal128(arrow_type) and arrow_type.scale == logical_type["scale"]
        ):
            return _decimal_encoding(physical, length, logical_type["precision"], arrow_type)
        case "BYTE_ARRAY", "String" if arrow_type in (pa.string(), pa.large_string()):
            return Encoding("")
        case "BYTE_ARRAY", "None" if arrow_type in (
            pa.binary(),
            pa.large_binary(),
            pa.string(),
            pa.large_string(),
        ):
            return Encoding("")
        case "FIXED_LEN_BYTE_ARRAY", "None" | "UUID" if storage_type(arrow_type) == pa.binary(
            length
        ):
            return Encoding("")
    return None


def _integer_encoding(
    width: int, logical: dict[str, Any], arrow_type: pa.DataType
) -> Encoding | None:
    """Return the encoding of integers that are stored in `width` bits."""
    signed = logical.get("isSigned", True)
    bits = logical.get("bitWidth", width)
    if not np.can_cast(f"{'i' if signed else 'u'}{bits // 8}", dtype_of(arrow_type)):
        return None
    numpy_type = f"{'i' if signed or bits < width else 'u'}{width // 8}"
    if signed:
        return Encoding(numpy_type, -(1 << bits - 1), (1 << bits - 1) - 1)
    return Encoding(numpy_type, 0, (1 << bits) - 1)


def _decimal_encoding(
    physical: str, length: int, precision: int, arrow_type: pa.DataType
) -> Encoding | None:
    """Return the encoding of decimals that are stored as integers or as `length` bytes."""
    if precision > arrow_type.precision or length > 16:
        return None
    if physical.startswith("INT"):
        return Encoding(f"i{int(physical[3:]) // 8}", precision=precision)
    return Encoding("", precision=precision, width=length)
