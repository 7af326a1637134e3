"""Decode the statistics of column chunks from many footers together.

The results equal what pyarrow returns for the same chunk. A chunk for which this is not certain is
*unresolved*: the caller asks pyarrow about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.statistics.coerce_inputs import values_of
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.encodings import (
    POWERS,
    UNITS,
    Encoding,
    parse_logical_type,
)
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, bitmap, dtype_of, scalar_of
from skipstone.ir.types import from_arrow
from skipstone.ir.values import malformed
from skipstone.ir.zones import GREGORIAN, SETTLED
from skipstone.kernels.decode.footer_loops import (
    FLAGS,
    HAS_STATISTICS,
    MAX,
    MAX_SIZE,
    MIN,
    MIN_SIZE,
    NULLS,
    TYPE,
)
from skipstone.kernels.decode.spans import Bytes, gathered
from skipstone.kernels.pack.bounds import below
from skipstone.kernels.pack.planes import Mask

if TYPE_CHECKING:
    from skipstone.bindings.tables.parquet.footers import Footer

MAX_ARRAY_BYTES: Final = 1 << 31
BOTH_BOUNDS: Final = 1 << MIN | 1 << MAX
DECIMAL_BYTES: Final = 16

Span = tuple[Ints, Ints]  # offsets of bounds in the data, and their lengths in bytes


class ChunkBounds(NamedTuple):
    """The statistics of one column in n row groups, as the loop decodes them.

    Attributes:
        low, high: The bounds. Values of shape (n,) for fixed-width types, words of shape (n, 2) for
            decimals, an Arrow array for bytes; None if no bound is decoded.
        known: Mask of the row groups with both bounds, shape (n,).
        units: The units of timestamps as powers of ten, shape (n,).
        nulls: The numbers of NULLs, int64, shape (n,).
        counted: Mask of the row groups with a number of NULLs, shape (n,).
        unresolved: Mask of the row groups for which pyarrow has to be asked, shape (n,).
    """

    low: Any
    high: Any
    known: Mask
    units: Ints
    nulls: Ints
    counted: Mask
    unresolved: Mask


def chunk_bounds(
    data: Bytes,
    slots: Ints,
    start: Ints | int,
    schema: Ints,
    encodings: Sequence[Encoding | None],
    encoding: Ints,
    julian: Mask,
    arrow_type: pa.DataType,
) -> ChunkBounds:
    """Decode the statistics of one column in n row groups.

    Args:
        data: The bytes that hold the bounds.
        slots: The values that the loop found for the column's chunks, shape (n, WIDTH); zeros if
            nothing is known.
        start: What to add to the offsets of bounds: one number, or one for each row group.
        schema: Parquet's type number of the column in each file's schema, and the bytes of a value,
            0 for any number of bytes, shape (n, 2).
        encodings: The encodings that occur; None means that pyarrow has to decode.
        encoding: The index in `encodings` for each row group, shape (n,); -1 if no bounds are
            wanted.
        julian: Mask of the row groups whose days may be in the Julian calendar, shape (n,).
        arrow_type: The type of the bounds.
    """
    n, flags = len(slots), slots[:, FLAGS]
    spans = [
        (slots[:, MIN] + start, slots[:, MIN_SIZE]),
        (slots[:, MAX] + start, slots[:, MAX_SIZE]),
    ]
    decodable = np.array([*(e is not None for e in encodings), False], np.bool_)[encoding]
    counts_only = np.array(
        [*(e is not None and e.counts_only for e in encodings), False], np.bool_
    )[encoding]
    has_statistics = (
        (encoding >= 0) & _has_bit(flags, HAS_STATISTICS) & ~_contradicts(slots, schema)
    )
    has_bounds = has_statistics & ~counts_only & (flags & BOTH_BOUNDS != 0)
    known = has_bounds & decodable & (flags & BOTH_BOUNDS == BOTH_BOUNDS)
    unresolved = (has_statistics & ~decodable) | (has_bounds & ~known)
    units = np.zeros(n, np.int64)
    low, high = _empty_bounds(n, arrow_type), _empty_bounds(n, arrow_type)
    if low is not None:
        for i, one in enumerate(encodings):
            at = np.flatnonzero(known & (encoding == i))
            if one is None or not len(at):
                continue
            lows, highs = (_decode(data, starts[at], sizes[at], one) for starts, sizes in spans)
            invalid = _is_invalid(lows, one) | _is_invalid(highs, one)
            unresolved[at[invalid]], known[at[invalid]] = True, False
            if one.settled is not None:
                known[at[julian[at] & (lows < one.settled)]] = False
            low[at], high[at], units[at] = lows, highs, one.unit
    elif known.any():
        low, high = _byte_bounds(data, spans, known, unresolved, arrow_type)
    counted = has_statistics & _has_bit(flags, NULLS) & ~unresolved
    return ChunkBounds(low, high, known, units, slots[:, NULLS], counted, unresolved)


def no_bounds(unresolved: Mask) -> ChunkBounds:
    """Return empty statistics; pyarrow has to be asked for the row groups of the mask."""
    none, zeros = np.zeros(len(unresolved), np.bool_), np.zeros(len(unresolved), np.int64)
    return ChunkBounds(None, None, none, zeros, zeros, none, unresolved)


def _has_bit(flags: Ints, bit: int) -> Mask:
    return np.asarray(flags >> bit & 1 == 1, np.bool_)


def _contradicts(slots: Ints, schema: Ints) -> Mask:
    """Return a mask of the chunks whose type, or the size of a bound, contradicts the schema.

    A bound of fewer bytes than a value ends the process in pyarrow (26.0), so such chunks must
    neither be decoded nor given to pyarrow.
    """
    physical, width = schema[:, 0], schema[:, 1]
    wrong: Mask = slots[:, TYPE] != physical
    for bound, size in ((MIN, MIN_SIZE), (MAX, MAX_SIZE)):
        wrong |= _has_bit(slots[:, FLAGS], bound) & (width > 0) & (slots[:, size] != width)
    return wrong


def _empty_bounds(n: int, arrow_type: pa.DataType) -> Any:
    """Return zeros for n bounds: values, or words for decimals; None for bytes."""
    t = pa.types
    if t.is_decimal128(arrow_type):
        return np.zeros((n, 2), np.uint64)
    if t.is_boolean(arrow_type):
        return np.zeros(n, np.uint8)
    if t.is_date32(arrow_type) or t.is_time(arrow_type) or t.is_timestamp(arrow_type):
        return np.zeros(n, f"i{arrow_type.bit_width // 8}")
    if t.is_integer(arrow_type) or t.is_floating(arrow_type):
        return np.zeros(n, dtype_of(arrow_type))
    return None


def _decode(data: Bytes, starts: Ints, sizes: Ints, encoding: Encoding) -> Any:
    """Decode m bounds of one encoding: values, shape (m,), or words of decimals, shape (m, 2)."""
    size = int(sizes[0])
    spans = gathered(data, starts, sizes, None).buffers()[2]
    raw = np.frombuffer(spans, np.uint8).reshape(-1, size)
    if encoding.numpy_type and not encoding.precision:
        return raw.view(encoding.numpy_type).reshape(-1)
    if encoding.numpy_type:
        raw = raw[:, ::-1]  # integers are little-endian, decimals stored as bytes are big-endian
    wide = np.repeat((raw[:, :1] >> 7) * np.uint8(255), DECIMAL_BYTES, axis=1)  # the sign
    wide[:, DECIMAL_BYTES - size :] = raw
    return np.ascontiguousarray(wide[:, ::-1]).view(np.uint64)


def _is_invalid(values: Any, encoding: Encoding) -> Mask:
    """Return a mask of the bounds that no value of the column can have."""
    if encoding.precision:
        too_high = ~below(values, 10**encoding.precision)
        too_low = below(values, 1 - 10**encoding.precision)
        return np.asarray(too_high | too_low, np.bool_)
    if encoding.least is None or encoding.greatest is None:
        return np.asarray(values != values, np.bool_)
    return np.asarray((values < encoding.least) | (values > encoding.greatest), np.bool_)


def _byte_bounds(
    data: Bytes, spans: Sequence[Span], known: Mask, unresolved: Mask, arrow_type: pa.DataType
) -> list[Any]:
    """Return the bounds of a column of bytes or text as Arrow arrays.

    A chunk with a bound that is not valid UTF-8 text becomes unresolved. `known` and `unresolved`
    are changed in place.
    """
    if any(int(sizes[known].sum()) >= MAX_ARRAY_BYTES for _, sizes in spans):
        unresolved |= known
        known &= False
    bounds = [gathered(data, starts, sizes, known) for starts, sizes in spans]
    if not pa.types.is_string(arrow_type) and not pa.types.is_large_string(arrow_type):
        return [pc.cast(b, arrow_type) for b in bounds]
    undecodable = malformed(bounds[0].view(pa.string())) | malformed(bounds[1].view(pa.string()))
    if undecodable.any():
        unresolved |= undecodable
        known &= ~undecodable
        bounds = [gathered(data, starts, sizes, known) for starts, sizes in spans]
    return [pc.cast(b.view(pa.string()), arrow_type) for b in bounds]


def bound_array(
    values: Any, decoded: ChunkBounds, from_pyarrow: Mapping[int, Any], arrow_type: pa.DataType
) -> pa.Array:
    """Return one bound of n row groups as an Arrow array; null is unknown.

    Args:
        values: `decoded.low` or `decoded.high`.
        decoded: The statistics that the loop decoded.
        from_pyarrow: Row group -> bound, for those that pyarrow decoded.
        arrow_type: The type; timestamps get the finest unit that occurs.
    """
    if pa.types.is_timestamp(arrow_type):
        return _timestamp_array(values, decoded, from_pyarrow, arrow_type)
    n, any_known = len(decoded.known), decoded.known.any()
    if not any_known:
        own = pa.nulls(n, arrow_type)
    elif isinstance(values, pa.Array):
        own = values
    else:
        own = _to_arrow(values, decoded.known, arrow_type)
    if not from_pyarrow:
        return own
    given = [from_pyarrow.get(i) for i in range(n)]
    if pa.types.is_time(arrow_type):
        given = [None if v is None else _ticks(v, arrow_type) for v in given]
    theirs = values_of(given, arrow_type, from_arrow(arrow_type))
    if not any_known:
        return theirs
    return pc.if_else(arrow_of(np.isin(np.arange(n), list(from_pyarrow))), theirs, own)


def _ticks(value: pa.Scalar, arrow_type: pa.DataType) -> int | None:
    """Return a time of day in the units of a type; None if they are too coarse for it."""
    try:
        fits = pc.cast(value, arrow_type)
    except pa.ArrowInvalid:
        return None
    whole = pa.int64() if pa.types.is_time64(arrow_type) else pa.int32()
    return int(pc.cast(fits, whole).as_py())


def _to_arrow(values: Any, known: Mask, arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(arrow_type):
        return arrow_of(values.view(np.bool_), known)
    return pa.Array.from_buffers(arrow_type, len(known), [bitmap(known), pa.py_buffer(values)])


def _timestamp_array(
    values: Ints | None,
    decoded: ChunkBounds,
    from_pyarrow: Mapping[int, Any],
    arrow_type: pa.DataType,
) -> pa.Array:
    known, units = decoded.known.copy(), decoded.units.copy()
    ticks = np.zeros(len(known), np.int64) if values is None else values.copy()
    for i, value in from_pyarrow.items():
        if value is None:
            continue
        if (value.type.tz is None) != (arrow_type.tz is None):
            return pa.nulls(len(known), arrow_type)
        ticks[i] = pc.cast(value, pa.int64()).as_py()
        known[i] = True
        units[i] = POWERS[value.type.unit]
    if not known.any():
        return pa.nulls(len(known), arrow_type)
    # Units may differ between files. The finest holds every value; bounds that overflow it are
    # unknown.
    finest = int(units[known].max())
    step = 10 ** (finest - np.where(known, units, finest))
    limit = np.iinfo(np.int64).max // step
    known &= (step == 1) | ((ticks >= -limit) & (ticks <= limit))
    unit = next(unit for unit, power in POWERS.items() if power == finest)
    return _to_arrow(np.where(known, ticks, 0) * step, known, pa.timestamp(unit, arrow_type.tz))


def trusted_bounds(stats: pq.Statistics, footer: Footer) -> tuple[Any, Any]:
    """Return both bounds as pyarrow reads them; None for a bound that cannot be trusted."""
    logical = parse_logical_type("" if stats.logical_type is None else stats.logical_type.to_json())
    try:
        if logical.get("Type") == "Timestamp":
            # As integers of the file's unit: Python's datetime has no nanoseconds.
            kind = pa.timestamp(
                UNITS[logical["timeUnit"]], "UTC" if logical["isAdjustedToUTC"] else None
            )
            low, high = (
                pc.cast(scalar_of(v, pa.int64()), kind) for v in (stats.min_raw, stats.max_raw)
            )
            if footer.julian and stats.min_raw < SETTLED * 10 ** POWERS[kind.unit]:
                return None, None
            return low, high
        if logical.get("Type") == "Time":
            # As integers, too: `stats.min` drops nanoseconds below a microsecond.
            unit = UNITS[logical["timeUnit"]]
            wide, kind = (
                (pa.int32(), pa.time32(unit)) if unit == "ms" else (pa.int64(), pa.time64(unit))
            )
            low, high = (pc.cast(scalar_of(v, wide), kind) for v in (stats.min_raw, stats.max_raw))
            return low, high
        if logical.get("Type") == "Date" and footer.julian and stats.min_raw < GREGORIAN:
            return None, None
        if logical.get("Type") == "Decimal" and isinstance(stats.min_raw, int):
            # pyarrow (21) does not read bounds of decimals that are stored as integers.
            low, high = (
                Decimal((int(raw < 0), tuple(map(int, str(abs(raw)))), -logical["scale"]))
                for raw in (stats.min_raw, stats.max_raw)
            )
        else:
            low, high = stats.min, stats.max
    except (ValueError, KeyError, OverflowError, pa.ArrowException):
        # Bytes that are not text, an unknown unit, or a date that Python cannot hold.
        return None, None
    if isinstance(low, float) and (low != low or high != high):
        # One bound is NaN: most writers do not handle NaN when computing bounds, so neither is
        # reliable. parquet-mr, Spark's writer, orders NaN last, so its minimum is right.
        return (low, None) if low == low and footer.orders_nan else (None, None)
    return low, high


def is_all_nan(stats: pq.Statistics, footer: Footer) -> bool:
    """Return True if the minimum is NaN in a file whose writer orders NaN last."""
    return (
        stats.physical_type in ("FLOAT", "DOUBLE") and stats.min != stats.min and footer.orders_nan
    )
