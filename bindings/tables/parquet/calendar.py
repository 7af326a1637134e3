"""Days and times that Spark wrote in the calendar of before 1582, as Spark reads them.

Source: Spark, `DataSourceUtils.datetimeRebaseSpec` and `RebaseDateTime`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.ir.errors import SourceError
from skipstone.ir.types import PER_SECOND
from skipstone.ir.zones import GREGORIAN, SETTLED

Ints = npt.NDArray[np.int64]
Notes = Mapping[bytes, bytes]

VERSION: Final = b"org.apache.spark.version"
ZONE: Final = b"org.apache.spark.timeZone"
UTC: Final = (b"UTC", b"Etc/UTC", b"GMT", b"Z")
MARCH_0: Final = 719_470  # days from March of the year 0 in the Julian calendar to 1970
DAY: Final = 86_400


def is_julian(notes: Notes, *, int96: bool = False) -> bool:
    """Whether Spark wrote a file's days and times, or those of type INT96, in the Julian calendar where they are early.

    Args:
        notes: The key-value metadata of the footer.
        int96: Of which times this is asked.
    """
    version = notes.get(VERSION)
    key, first = (
        (b"org.apache.spark.legacyINT96", b"3.1.0")
        if int96
        else (b"org.apache.spark.legacyDateTime", b"3.")
    )
    return key in notes or (version is not None and version < first)


def modern(
    batch: pa.RecordBatch, notes: Notes, int96: Collection[str], path: str
) -> pa.RecordBatch:
    """A batch of a file with early days, and times in UTC, moved to where Spark reads them.

    Args:
        batch: As Arrow reads the file.
        notes: The key-value metadata of the footer.
        int96: Names of top-level columns that hold values of type INT96.
        path: The file's, for errors.

    Raises:
        SourceError: there are early values that only Spark can read: times in another zone, or days within lists and maps.
    """
    by_spark = (
        {old: is_julian(notes, int96=old) for old in (False, True)} if VERSION in notes else {}
    )
    if not any(by_spark.values()):
        return batch
    for i, field in enumerate(batch.schema):
        batch = batch.set_column(
            i,
            field,
            _moved(batch.column(i), field.name, by_spark, notes, field.name in int96, path),
        )
    return batch


def _moved(
    values: pa.Array, name: str, by_spark: Mapping[bool, bool], notes: Notes, old: bool, path: str
) -> pa.Array:
    if not any(_is_early(part, by_spark, old) for part in leaves(values)):
        return values
    if pa.types.is_struct(values.type):
        inner = [_moved(part, name, by_spark, notes, old, path) for part in values.flatten()]
        return pa.StructArray.from_arrays(inner, fields=list(values.type), mask=values.is_null())
    if pa.types.is_date32(values.type):
        return _stored(_days(_numbers(values)), values)
    if pa.types.is_timestamp(values.type) and notes.get(ZONE) in UTC:
        day = DAY * PER_SECOND[values.type.unit]
        ticks = _numbers(values)
        return _stored(_days(ticks // day) * day + ticks % day, values)
    raise SourceError(
        f"{path}: Spark wrote its column {name!r} in the Julian calendar, and it holds days before 1582 or times before 1900 that Arrow reads as other ones; "
        "leave the column out, or read the file by Spark"
    )


def _is_early(values: pa.Array, by_spark: Mapping[bool, bool], old: bool) -> bool:
    """Whether values are ones that Spark moves."""
    kind = values.type
    if values.null_count == len(values):
        return False
    if pa.types.is_date32(kind):
        return by_spark[False] and pc.min(values.view(pa.int32())).as_py() < GREGORIAN
    if not pa.types.is_timestamp(kind) or (
        kind.tz is None and not old
    ):  # times without a zone have no calendar but the present one
        return False
    return (
        by_spark[old] and pc.min(values.view(pa.int64())).as_py() < SETTLED * PER_SECOND[kind.unit]
    )


def _numbers(values: pa.Array) -> Ints:
    return np.asarray(
        values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
        .fill_null(0)
        .to_numpy(zero_copy_only=False),
        np.int64,
    )


def _stored(numbers: Ints, like: pa.Array) -> pa.Array:
    storage = pa.int32() if pa.types.is_date32(like.type) else pa.int64()
    return pa.array(numbers, storage, mask=np.asarray(like.is_null())).cast(like.type)


def _days(days: Ints) -> Ints:
    """Days by the label that the Julian calendar has for them, where it is that of the time; one that is no more is the day after the last of its month.

    Example:
        >>> _days(np.array([-719_164, -141_428, -141_427])).astype("datetime64[D]")
        array(['0001-01-01', '1582-10-04', '1582-10-15'], dtype='datetime64[D]')
    """
    cycle, left = np.divmod(days + MARCH_0, 1461)  # four years
    year = np.minimum(left // 365, 3)
    left = left - 365 * year
    month = (5 * left + 2) // 153  # March is 0
    day = left - (153 * month + 2) // 5
    first = (
        (12 * (4 * cycle + year - 1970) + month + 2)
        .astype("datetime64[M]")
        .astype("datetime64[D]")
        .astype(np.int64)
    )
    return np.where(days < GREGORIAN, first + day, days)


def leaves(values: pa.Array) -> Iterator[pa.Array]:
    """The plain values within a column."""
    if pa.types.is_struct(values.type):
        for inner in values.flatten():
            yield from leaves(inner)
    elif pa.types.is_map(values.type):
        yield from (*leaves(values.keys), *leaves(values.items))
    elif pa.types.is_nested(values.type):
        yield from leaves(values.flatten())
    else:
        yield values
