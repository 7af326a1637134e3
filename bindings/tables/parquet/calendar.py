"""Convert days and times that Spark wrote in the Julian calendar to the values that Spark reads.

Spark's Julian calendar concerns days before 1582 and times before 1900.

Source: Spark, `DataSourceUtils.datetimeRebaseSpec` and `RebaseDateTime`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, int64_of
from skipstone.ir.errors import SourceError
from skipstone.ir.types import PER_SECOND
from skipstone.ir.zones import GREGORIAN, SETTLED

KeyValues = Mapping[bytes, bytes]

VERSION: Final = b"org.apache.spark.version"
ZONE: Final = b"org.apache.spark.timeZone"
UTC: Final = (b"UTC", b"Etc/UTC", b"GMT", b"Z")
MARCH_0: Final = 719_470  # days from March of the year 0 in the Julian calendar to 1970
DAY: Final = 86_400


def is_julian(key_values: KeyValues, *, int96: bool = False) -> bool:
    """Return True if Spark wrote a file's early days and times in the Julian calendar.

    Args:
        key_values: The key-value metadata of the footer.
        int96: True to answer for times of type INT96 instead of the other days and times.
    """
    version = key_values.get(VERSION)
    if int96:
        key, first = (b"org.apache.spark.legacyINT96", b"3.1.0")
    else:
        key, first = (b"org.apache.spark.legacyDateTime", b"3.")
    return key in key_values or (version is not None and version < first)


def rebase_batch(
    batch: pa.RecordBatch, key_values: KeyValues, int96: Collection[str], path: str
) -> pa.RecordBatch:
    """Return a batch whose early days, and early times in UTC, are as Spark reads them.

    Args:
        batch: Rows as Arrow reads them from the file.
        key_values: The key-value metadata of the footer.
        int96: Names of top-level columns that hold values of type INT96.
        path: The file's path, for error messages.

    Raises:
        SourceError: there are early values that only Spark can read: times in another zone, or days
            within lists and maps.
    """
    if VERSION in key_values:
        julian = {old: is_julian(key_values, int96=old) for old in (False, True)}
    else:
        julian = {}
    if not any(julian.values()):
        return batch
    for i, field in enumerate(batch.schema):
        batch = batch.set_column(
            i,
            field,
            _rebased(batch.column(i), field.name, julian, key_values, field.name in int96, path),
        )
    return batch


def _rebased(
    values: pa.Array,
    name: str,
    julian: Mapping[bool, bool],
    key_values: KeyValues,
    int96: bool,
    path: str,
) -> pa.Array:
    if not any(_has_early(part, julian, int96) for part in leaf_values(values)):
        return values
    if pa.types.is_struct(values.type):
        inner = [_rebased(p, name, julian, key_values, int96, path) for p in values.flatten()]
        return pa.StructArray.from_arrays(inner, fields=list(values.type), mask=pc.is_null(values))
    if pa.types.is_date32(values.type):
        return _from_integers(_rebased_days(_to_integers(values)), values)
    if pa.types.is_timestamp(values.type) and key_values.get(ZONE) in UTC:
        day = DAY * PER_SECOND[values.type.unit]
        ticks = _to_integers(values)
        return _from_integers(_rebased_days(ticks // day) * day + ticks % day, values)
    raise SourceError(
        f"{path}: Spark wrote its column {name!r} in the Julian calendar, and Arrow misreads its "
        "days before 1582 or times before 1900; leave the column out, or read the file by Spark"
    )


def _has_early(values: pa.Array, julian: Mapping[bool, bool], int96: bool) -> bool:
    """Return True if plain values include one that Spark rebases.

    Args:
        values: Values of one type that is not nested.
        julian: Two answers, True if the values are Julian: for INT96 times under the key True, for
            all other values under False.
        int96: True if the values were stored as INT96.
    """
    kind = values.type
    if values.null_count == len(values):
        return False
    if pa.types.is_date32(kind):
        return julian[False] and pc.min(values.view(pa.int32())).as_py() < GREGORIAN
    # Times without a zone always use the Gregorian calendar.
    if not pa.types.is_timestamp(kind) or (kind.tz is None and not int96):
        return False
    settled = SETTLED * PER_SECOND[kind.unit]
    return julian[int96] and pc.min(values.view(pa.int64())).as_py() < settled


def _to_integers(values: pa.Array) -> Ints:
    return int64_of(pc.cast(values, pa.int32() if pa.types.is_date32(values.type) else pa.int64()))


def _from_integers(numbers: Ints, like: pa.Array) -> pa.Array:
    storage = pa.int32() if pa.types.is_date32(like.type) else pa.int64()
    return pc.cast(pc.cast(arrow_of(numbers, booleans_of(pc.is_valid(like))), storage), like.type)


def _rebased_days(days: Ints) -> Ints:
    """Return the days whose Gregorian year, month and day equal the Julian ones of `days`.

    Days from 1582-10-15 on stay the same. A date that the Gregorian calendar lacks becomes the day
    after the last day of its month.

    Args:
        days: Days since 1970, int64.

    Example:
        >>> _rebased_days(np.array([-719_164, -141_428, -141_427])).astype("datetime64[D]")
        array(['0001-01-01', '1582-10-04', '1582-10-15'], dtype='datetime64[D]')
    """
    cycle, days_left = np.divmod(days + MARCH_0, 1461)  # four years
    year = np.minimum(days_left // 365, 3)
    days_left = days_left - 365 * year
    month = (5 * days_left + 2) // 153  # March is 0
    day = days_left - (153 * month + 2) // 5
    first = (
        (12 * (4 * cycle + year - 1970) + month + 2)
        .astype("datetime64[M]")
        .astype("datetime64[D]")
        .astype(np.int64)
    )
    return np.where(days < GREGORIAN, first + day, days)


def leaf_values(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the arrays of plain values within a column."""
    if pa.types.is_struct(values.type):
        for inner in values.flatten():
            yield from leaf_values(inner)
    elif pa.types.is_map(values.type):
        yield from (*leaf_values(values.keys), *leaf_values(values.items))
    elif pa.types.is_nested(values.type):
        yield from leaf_values(values.flatten())
    else:
        yield values
