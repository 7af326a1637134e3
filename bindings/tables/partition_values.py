"""Cast the texts of partition values to their types, as Spark does: in Delta and Hive tables."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from skipstone.bindings.statistics.casts import as_spark, cast_or_null, chunks_of
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, fill, null_where, python_array
from skipstone.ir.types import NAIVE_EPOCH
from skipstone.ir.zones import DAY, to_instant, zone_of
from skipstone.kernels.decode.arrays import texts as texts_of
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import ColumnStatistics

# Zones' offsets once had seconds, and Delta 3.2 and 3.3 cut them off (delta#5249).
WHOLE_MINUTES: Final = (
    63_676_800_000_000  # 1972-01-08, when the last zone, Monrovia's, gave up its seconds
)
EMPTY: Final = texts_of([""])[0]
ASCII_BLANKS: Final = " \t\n\r\x0b\x0c"  # Spark's casts trim these blanks and no others
_ZONED: Final = r":\d\d:\d\d(\.\d+)?\s*([A-Za-z]|[+-](0\d|1[0-7]|18(:?00)*$))"
# As Java's "yyyy-MM-dd HH:mm:ss.S" in strict mode: a year of four digits, or more with a sign.
_CLOCK: Final = re.compile(
    r"((?:\d{4}|\+\d{5,7}|-(?!0+-)\d{4,7})-\d\d-\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d{1,6})?))?"
)


def constant_statistics(values: Given, unknown: Given | None = None) -> ColumnStatistics:
    """Return the statistics of containers that hold one value, or NULL, in all of their rows.

    Args:
        values: The value of each container, length n.
        unknown: Boolean: True where nothing is known of a container, whose value is null then.
    """
    nulls, nans = pc.cast(pc.is_null(values), pa.int64()), None
    if pa.types.is_floating(values.type):
        nans = pc.cast(fill(pc.is_nan(values), False), pa.int64())
    if unknown is not None:
        nulls = null_where(unknown, nulls)
        nans = None if nans is None else null_where(unknown, nans)
    return ColumnStatistics(values, values, nulls, arrow_of(np.ones(len(values), np.int64)), nans)


def partition_values(
    texts: Given, arrow_type: pa.DataType, timezone: str
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Cast the texts of a partition column to its type, as Spark's casts do.

    Args:
        texts: The values as the log stores them.
        arrow_type: The column's type.
        timezone: The zone of timestamps that name none.

    Returns:
        The values, null where they are NULL or unknown; and a boolean array, True where they are
        NULL: where the text is absent, or is empty and the type is neither STRING nor BINARY.
    """
    texts = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
    absent = pc.is_null(texts)
    if pa.types.is_string(arrow_type):
        return texts, absent
    if pa.types.is_binary(arrow_type):
        return cast_or_null(texts, arrow_type), absent
    empty = pc.or_kleene(absent, pc.equal(texts, EMPTY))
    # Few texts are distinct, so each is cast once.
    coded = pc.dictionary_encode(texts).unify_dictionaries()
    out = []
    for chunk in coded.chunks:
        filled = null_where(pc.equal(chunk.dictionary, EMPTY), chunk.dictionary)
        read = _cast_words(pc.utf8_trim(filled, ASCII_BLANKS), arrow_type, timezone)
        out.append(pc.take(read, chunk.indices))
    return pa.chunked_array([c for o in out for c in chunks_of(o)], arrow_type), empty


def _cast_words(words: pa.Array, arrow_type: pa.DataType, timezone: str) -> pa.Array:
    """Cast trimmed texts; those that have no value, or an unknown one, become NULL."""
    if pa.types.is_timestamp(arrow_type):
        return _parse_timestamps(_pad_dates(words), arrow_type, timezone)
    if pa.types.is_decimal(arrow_type):
        # Arrow does not notice that an exponent overflows.
        values = (as_spark(word or "", arrow_type) for word in words.to_pylist())
        return pa.concat_arrays([pa.nulls(0, arrow_type), *values])
    if pa.types.is_integer(arrow_type):
        # Arrow also reads hexadecimal numbers, Spark does not.
        is_number = pc.match_substring_regex(words, r"^[+-]?[0-9]+$")
        words = null_where(pc.invert(is_number), pc.replace_substring_regex(words, r"^\+", ""))
    elif pa.types.is_floating(arrow_type):
        # Arrow reads NaN with a sign or a payload, Spark does not.
        words = null_where(pc.match_substring_regex(words, r"(?i)[+-]nan|nan\("), words)
    elif pa.types.is_date(arrow_type):
        words = _pad_dates(words)
    read = cast_or_null(words, arrow_type).combine_chunks()
    return _with_far_years(read, words, "D") if pa.types.is_date32(arrow_type) else read


def is_zoned(texts: Given) -> Given:
    """Return which texts of times name a zone: a letter or sign follows the clock's first colon."""
    return fill(pc.match_substring_regex(texts, r":.*[A-Za-z+-]"), False)


def _pad_dates(words: pa.Array) -> pa.Array:
    """Pad months and days to two digits, as Arrow needs; Spark's casts also accept one digit."""
    words = pc.replace_substring_regex(words, r"^(\d{4})-(\d)-", r"\1-0\2-")
    return pc.replace_substring_regex(words, r"^(\d{4})-(\d\d)-(\d)($|[ T])", r"\1-\2-0\3\4")


def _parse_timestamps(words: pa.Array, kind: pa.TimestampType, timezone: str) -> pa.Array:
    """Parse timestamps; those without a zone are local to `timezone`."""
    zoned = is_zoned(words)
    if kind.tz is None:
        return cast_or_null(null_where(zoned, words), kind).combine_chunks()
    unzoned = null_where(zoned, words)
    bare = _with_far_years(
        cast_or_null(unzoned, pa.timestamp("us")).combine_chunks(), unzoned, "us"
    )
    # Arrow also reads a zone after minutes, and offsets of more than 18 hours; Spark does not.
    readable = fill(pc.match_substring_regex(words, _ZONED), False)
    absolute = cast_or_null(null_where(pc.invert(readable), words), kind).combine_chunks()
    zone = zone_of(timezone)
    local = [
        None if v is None else _instant(v, zone)
        for chunk in chunks_of(bare)
        for v in pc.cast(chunk, pa.int64()).to_pylist()
    ]
    instants = pc.cast(python_array(local, pa.int64()), pa.timestamp("us", kind.tz))
    return pc.if_else(zoned, absolute, cast_or_null(instants, kind).combine_chunks())


def _with_far_years(values: pa.Array, words: pa.Array, unit: Literal["D", "us"]) -> pa.Array:
    """Fill in the dates and times of years with a sign, which Arrow does not parse.

    Args:
        values: DATE or TIMESTAMP; NULL where Arrow could not parse the text.
        words: The texts.
        unit: The unit of the type.
    """
    signed = fill(pc.and_(pc.is_null(values), pc.match_substring_regex(words, "^[+-]")), False)
    if not pc.any(signed).as_py():
        return values
    counts = [
        clock_of(word, unit) if at else None
        for word, at in zip(words.to_pylist(), signed.to_pylist(), strict=True)
    ]
    far = pc.cast(python_array(counts, pa.int32() if unit == "D" else pa.int64()), values.type)
    return pc.if_else(signed, far, values)


def clock_of(text: str, unit: Literal["D", "us"]) -> int | None:
    """Return the days or microseconds from 1970 to a date or time; None for other text.

    Years of more than four digits, and years before 0000, have a sign.

    Example:
        >>> clock_of("+5881580-07-11", "D"), clock_of("+5881580-07-12", "D")
        (2147483647, None)
        >>> clock_of("1970-01-02 00:00:00.5", "us"), clock_of("2023-02-29", "D")
        (86400500000, None)
    """
    count = _count(text, unit)
    most = 2**31 if unit == "D" else 2**63
    return count if count is not None and -most <= count < most else None


def why_no_value(text: str, arrow_type: pa.DataType, timezone: str) -> str:
    """Return why a text has no value of a partition column's type, as the end of a sentence."""
    if pa.types.is_timestamp(arrow_type) and clock_of(text.strip(ASCII_BLANKS), "us") is not None:
        return f"is a time at which the offset of the zone {timezone} is not certain"
    return f"is not of the column's type, {arrow_type}"


def is_clock(text: str) -> bool:
    """Return True if Spark accepts a text as a time, in some zone at the ends of the range."""
    count = _count(text, "us")
    return count is not None and abs(count) < 2**63 + DAY


def _count(text: str, unit: Literal["D", "us"]) -> int | None:
    """Return the count of `clock_of`, which may lie beyond the range of its type."""
    m = _CLOCK.fullmatch(text)
    if m is None or (unit == "D" and m[2]) or (unit == "us" and len(m[1]) > len("+294247-01-10")):
        return None
    try:
        days = int(np.datetime64(m[1].removeprefix("+"), "D").astype(np.int64))
        time = np.datetime64(f"1970-01-01T{m[2] or '00:00:00'}", "us")
    except ValueError:
        return None
    return days if unit == "D" else days * DAY + int(time.astype(np.int64))


def _instant(local: int, zone: dt.tzinfo) -> int | None:
    """Return the instant that Spark takes a clock's time for; None if it is not certain.

    If the clock shows the time twice, that is the first instant. If it skips the time, that is as
    much later as the gap is long.
    """
    instant = to_instant(local, zone)
    if instant is not None or local < WHOLE_MINUTES:
        return instant
    try:
        offset = (NAIVE_EPOCH + dt.timedelta(microseconds=local)).replace(tzinfo=zone).utcoffset()
    except OverflowError:
        return None
    return None if offset is None else local - offset // dt.timedelta(microseconds=1)
