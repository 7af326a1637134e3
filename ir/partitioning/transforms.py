"""Iceberg's partition transforms: from a column's values to partition values.

Source: Iceberg's specification, "Partition Transforms" and appendix B. A transform that it does not
define is also accepted, but allows no conclusion about its column.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of
from skipstone.ir.errors import UnsupportedForm
from skipstone.ir.partitioning.murmur import hash_bytes, hash_longs
from skipstone.ir.types import DATE, INT32, PER_SECOND, TEXT, DType, Kind

TIME: Final = ("year", "month", "day", "hour")
SOURCES: Final = {
    "bucket": (Kind.INT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, *TEXT),
    "truncate": (Kind.INT, Kind.DECIMAL, *TEXT),
    **dict.fromkeys(("year", "month", "day"), (Kind.DATE, Kind.TIMESTAMP)),
    "hour": (Kind.TIMESTAMP,),
}
MAX_WIDTH: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Transform:
    """A partition transform: its name and, for buckets and truncation, a width.

    All of them map null to null; `void` maps every value to null. `uuids` is True for buckets of
    UUIDs: columns of these hold text, and the UUIDs' bytes are hashed.

    Example:
        >>> Transform.parse("bucket[16]")
        Transform(name='bucket', width=16)
        >>> Transform.parse("bucket[16]").apply(np.array([34, -1]), INT32).tolist()
        [3, 8]
    """

    name: str
    width: int = 0
    uuids: bool = field(default=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Transform:
        """Parse a transform's name in Iceberg's metadata.

        Any other text becomes an unknown transform.
        """
        match re.fullmatch(r"(bucket|truncate)\[([0-9]{1,10})\]", text, re.ASCII | re.IGNORECASE):
            case re.Match() as sized if 0 < int(sized[2]) <= MAX_WIDTH:
                return cls(sized[1].lower(), int(sized[2]))
        lowered = text.lower()
        return cls(lowered if lowered in (*TIME, "identity", "void") else text)

    def __str__(self) -> str:
        return f"{self.name}[{self.width}]" if self.width else self.name

    def supports(self, source: DType) -> bool:
        """Return True if the specification defines the transform for a column's type.

        `void` is defined for all types, and allows no conclusion.
        """
        if self.name in ("identity", "void"):
            return not self.width
        return source.kind in SOURCES.get(self.name, ()) and (self.width > 0) == (
            self.name in ("bucket", "truncate")
        )

    def exact(self, source: DType) -> bool:
        """Return True if a partition's value equals the value of each of its rows."""
        days = self.name == "day" and source.kind is Kind.DATE
        return self.supports(source) and (
            self.name == "identity"
            or days
            or (self.name == "truncate" and self.width == 1 and source.kind not in TEXT)
        )

    def result_type(self, source: DType) -> DType:
        """Return the type of partition values.

        Days are dates, as in Java and pyiceberg. Iceberg has no integers below 32 bits, so
        truncation widens them. A transform that is unknown, or undefined for this type, allows no
        comparison.
        """
        if not self.supports(source):
            return DType(Kind.OTHER, name=f"partition by {self}")
        if self.name == "day":
            return DATE
        if self.name in ("identity", "truncate", "void"):
            if self.name == "truncate" and source.kind is Kind.INT and source.bits < 32:
                return INT32
            return source
        return INT32

    def apply(self, values: Any, source: DType) -> Any:
        """Return the partition values that writers give to column values.

        Args:
            values: n values on the axis of `source`: a NumPy array without nulls, of objects for
                decimals beyond 18 digits; for strings and binary an Arrow `large_binary` array.
            source: The column's type.

        Returns:
            n partition values on the axis of `result_type(source)`, host memory. An Arrow array
            that keeps nulls if `values` was one, and for `void`; otherwise a NumPy array. Integers
            beyond the result type wrap around, as Java's casts do. Decimals may exceed their
            precision by one digit.

        Raises:
            UnsupportedForm: the transform is unknown, or not defined for `source`.
            pyarrow.ArrowInvalid: strings to truncate are not UTF-8.

        Example:
            >>> from skipstone.ir.types import DATE
            >>> Transform("month").apply(np.array([0, -1, 19358]), DATE).tolist()
            [0, -1, 636]
        """
        if not self.supports(source):
            raise UnsupportedForm(
                f"the partition transform {str(self)!r} of {source} is not known; "
                "expected one that Iceberg's specification defines"
            )
        if self.name == "identity":
            return values
        if self.name == "void":
            return pa.nulls(len(values))
        if self.name == "bucket":
            return self._bucket(values, source)
        if source.kind in TEXT:
            if source.kind is Kind.BINARY:
                return pc.binary_slice(values, 0, self.width)
            return pc.utf8_slice_codeunits(values.cast(pa.large_string()), 0, self.width).cast(
                pa.large_binary()
            )
        result = self.result_type(source)
        numbers = np.asarray(values)
        with np.errstate(over="ignore"):
            steps = self.floor(
                numbers if numbers.dtype == object else numbers.astype(np.int64), source
            )
        return steps if steps.dtype == object else steps.astype(result.numpy_type)

    def floor(self, v: Any, source: DType) -> Any:
        """Return the partition value before it is fitted into a type.

        Takes a Python integer or an int64 array. The result is monotone on Python integers, which
        never overflow. It is undefined for `bucket`, and for strings and binary.
        """
        if self.name == "truncate":
            return v - v % self.width
        if source.kind is Kind.TIMESTAMP:
            per_hour = 3600 * PER_SECOND[source.unit]
            if self.name == "hour":
                return v // per_hour
            v = v // (24 * per_hour)
        if self.name == "day":
            return v
        months = _months(v)
        return months if self.name == "month" else months // 12

    def _bucket(self, values: Any, source: DType) -> Any:
        if isinstance(values, pa.Array):
            if self.uuids:
                values = _uuid_bytes(values)
            buckets = self._modulo(hash_bytes(values.cast(pa.large_binary())))
            return arrow_of(buckets, booleans_of(values.is_valid()))
        numbers = np.asarray(values)
        if source.kind is Kind.DECIMAL:
            return self._modulo(
                hash_bytes(pa.array(map(twos_complement, numbers.tolist()), pa.large_binary()))
            )
        longs = numbers.astype(np.int64)
        if source.kind is Kind.TIMESTAMP:
            # Nanoseconds hash as the microseconds that contain them.
            per = PER_SECOND[source.unit]
            longs = longs * (10**6 // per) if per <= 10**6 else longs // (per // 10**6)
        return self._modulo(hash_longs(longs))

    def _modulo(self, hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
        return ((hashes & np.uint32(MAX_WIDTH)) % np.uint32(self.width)).astype(np.int32)


def _uuid_bytes(texts: pa.Array) -> pa.Array:
    """Return the bytes of UUIDs; null where a text is not one as Spark writes it."""
    return pa.array(map(_bytes_of_uuid, texts.to_pylist()), pa.large_binary())


def _bytes_of_uuid(text: bytes | None) -> bytes | None:
    try:
        found = None if text is None else uuid.UUID(text.decode())
    except ValueError:
        return None
    return None if found is None or str(found).encode() != text else found.bytes


def _months(days: Any) -> Any:
    """Convert days since 1970 to months since January 1970, in the proleptic Gregorian calendar.

    Takes an int or an int64 array.

    Source: Howard Hinnant, "chrono-compatible low-level date algorithms", civil_from_days. Its
    years begin in March, so a leap day ends a year and months begin at fixed places.
    """
    z = days + 719468
    era = z // 146097
    day = z - era * 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    in_year = day - (365 * year + year // 4 - year // 100)
    return (400 * era + year - 1970) * 12 + (5 * in_year + 2) // 153 + 2


def twos_complement(v: int) -> bytes:
    """Return the fewest big-endian bytes that hold a signed integer."""
    return v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "big", signed=True)
