"""How bounds of columns are stored in Parquet footers, as far as it is certain what pyarrow makes of them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.parquet.footer import Head
from skipstone.ir.zones import GREGORIAN, SETTLED
from skipstone.kernels.pack.bounds import dtype_of

UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
POWERS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # that Python has dates for


class Encoding(NamedTuple):
    """How bounds are stored.

    Attributes:
        lane: NumPy's name of what they are; "": bytes.
        least, most: What they may be; of others pyarrow is asked.
        digits: Of decimals.
        size: Of decimals that are bytes, how many these are.
        unit: Of timestamps, as a power of ten.
        settled: The first day, or tick, that all calendars agree on.
        counts: Whether NULLs are all that counts, and bounds are not used.
    """

    lane: str
    least: int | None = None
    most: int | None = None
    digits: int = 0
    size: int = 0
    unit: int = 0
    settled: int | None = None
    counts: bool = False


def way_of(head: Head, column: int, kind: pa.DataType) -> Encoding | None:
    """How a column's bounds are stored; None: pyarrow has to be asked what they are as values of a type."""
    found = head.metadata.schema.column(column)
    if not head.trusted or found.logical_type is None:
        return None
    return _way(*head.physical[column], found.logical_type.to_json(), kind)


@cache
def logical_of(told: str) -> dict[str, Any]:
    """What pyarrow tells as JSON of a logical type."""
    return dict(json.loads(told)) if told else {}


@cache
def _way(physical: str, length: int, logical: str, kind: pa.DataType) -> Encoding | None:
    told, t = logical_of(logical), pa.types
    match physical, told.get("Type"):
        case "INT96", _:
            return Encoding("", counts=True)
        case "BOOLEAN", "None" if t.is_boolean(kind):
            return Encoding("u1", 0, 1)
        case "INT32" | "INT64", "None" | "Int" if t.is_integer(kind):
            wide, signed = int(physical[3:]), told.get("isSigned", True)
            bits = told.get("bitWidth", wide)
            least, most = (
                (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            )
            lane = f"{'i' if signed or bits < wide else 'u'}{wide // 8}"
            return (
                Encoding(lane, least, most)
                if np.can_cast(f"{'i' if signed else 'u'}{bits // 8}", dtype_of(kind))
                else None
            )
        case "INT32", "Date" if t.is_date32(kind):
            return Encoding("i4", FIRST_DAY, LAST_DAY, settled=GREGORIAN)
        case "INT64", "Timestamp" if (
            t.is_timestamp(kind)
            and told["timeUnit"] in UNITS
            and (kind.tz is not None) == told["isAdjustedToUTC"]
        ):
            power = POWERS[UNITS[told["timeUnit"]]]
            return Encoding("i8", unit=power, settled=SETTLED * 10**power)
        case "FLOAT" | "DOUBLE", "None" if kind in (pa.float32(), pa.float64()):
            lane = "f4" if physical == "FLOAT" else "f8"
            return Encoding(lane) if np.can_cast(lane, dtype_of(kind)) else None
        case "INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY", "Decimal" if (
            t.is_decimal128(kind) and kind.scale == told["scale"]
        ):
            digits = told["precision"]
            lane = f"i{int(physical[3:]) // 8}" if physical.startswith("INT") else ""
            return (
                Encoding(lane, digits=digits, size=0 if lane else length)
                if digits <= kind.precision and length <= 16
                else None
            )
        case "BYTE_ARRAY", "String" if kind in (pa.string(), pa.large_string()):
            return Encoding("")
        case "BYTE_ARRAY", "None" if kind in (
            pa.binary(),
            pa.large_binary(),
            pa.string(),
            pa.large_string(),
        ):
            return Encoding("")
        case "FIXED_LEN_BYTE_ARRAY", "None" if kind == pa.binary(length):
            return Encoding("")
    return None
