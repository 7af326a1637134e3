"""Column chunks of many files as columns: bounds and counts from where footers hold them, at once, not one after the other.

What is written here is what pyarrow says of the same chunk. Where that is not certain, the chunk is *left*, and pyarrow is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.statistics.coerce_inputs import values_of
from skipstone.bindings.tables.files import Ints
from skipstone.bindings.tables.parquet.encodings import POWERS, Encoding
from skipstone.bindings.tables.parquet.footer import Tail
from skipstone.ir.types import from_arrow
from skipstone.kernels.decode.footer_loops import (
    MAX,
    MAX_SIZE,
    MIN,
    MIN_SIZE,
    NULLS,
    SAID,
    TOLD,
    TYPE,
    WIDTH,
)
from skipstone.kernels.decode.spans import Bytes, gathered
from skipstone.kernels.pack.bounds import below, dtype_of
from skipstone.kernels.pack.planes import Mask

LONGEST: Final = 1 << 31  # bytes of an array
BOTH: Final = 1 << MIN | 1 << MAX


class ChunkBounds(NamedTuple):
    """What footers say of one column in n row groups.

    Attributes:
        low, high: Bounds: lanes, shape (n,); of decimals words, shape (n, 2); of bytes an array.
        known: Where there are both, shape (n,).
        units: Of timestamps, shape (n,), as powers of ten.
        nulls: Counts of NULLs, int64.
        counted: Where there is a count.
        left: Where pyarrow has to be asked.
    """

    low: Any
    high: Any
    known: Mask
    units: Ints
    nulls: Ints
    counted: Mask
    left: Mask


class Chunks:
    """Column chunks of files whose footers are laid out, in one room; it is empty where none is.

    Args:
        tails: Of the files; None, or one without a layout: nothing is known. Their bytes and layouts become parts of this room.
    """

    def __init__(self, tails: Sequence[Tail | None]) -> None:
        laid = list({id(t): t for t in tails if t is not None and t.layout is not None}.values())
        self.data = np.concatenate([np.zeros(0, np.uint8), *(t.data for t in laid)])
        flat = [t.layout.chunks.reshape(-1, WIDTH) for t in laid if t.layout is not None]
        self.slots = np.concatenate([np.zeros((0, WIDTH), np.int64), *flat])
        starts, firsts = (
            np.cumsum([0, *(len(t.data) for t in laid)]).tolist(),
            np.cumsum([0, *map(len, flat)]).tolist(),
        )
        for t, start, stop, first, last in zip(
            laid, starts, starts[1:], firsts, firsts[1:], strict=False
        ):
            if t.layout is not None:
                t.data, t.layout = (
                    self.data[start:stop],
                    t.layout._replace(chunks=self.slots[first:last].reshape(t.layout.chunks.shape)),
                )
        place = {id(t): i for i, t in enumerate(laid)}
        which = np.array([place.get(id(t), -1) for t in tails], np.int64)
        widths = [t.layout.chunks.shape[1] for t in laid if t.layout is not None]
        self._start, self._first, self._width = (
            np.array([*v, 0], np.int64)[which] for v in (starts[:-1], firsts[:-1], widths)
        )
        self._laid = which >= 0
        self.empty = not laid

    def of(self, owner: Ints, group: Ints, position: Ints) -> tuple[Ints, Ints, Mask]:
        """Of one column in n row groups: slots, where the footers start in the data, and of which there are slots, (n, WIDTH), (n,) and (n,).

        Args:
            owner: Which of the files each row group is of.
            group: Its number in the footer.
            position: Where the column stands there; -1: nowhere.
        """
        there = self._laid[owner] & (position >= 0)
        slots = np.zeros((len(owner), WIDTH), np.int64)
        slots[there] = self.slots[
            (self._first[owner] + group * self._width[owner] + position)[there]
        ]
        return slots, self._start[owner], there


def told_of(
    data: Bytes,
    slots: Ints,
    start: Ints,
    schema: Ints,
    ways: Sequence[Encoding | None],
    way: Ints,
    julian: Mask,
    kind: pa.DataType,
) -> ChunkBounds:
    """What footers say of one column in n row groups.

    Args:
        data: Their bytes.
        slots: Of the column's chunks, shape (n, WIDTH); zeros where nothing is known.
        start: Where in the data each footer starts, shape (n,).
        schema: What the schema of each says: Parquet's type, and bytes of a value, 0: any, shape (n, 2).
        ways: How bounds may be stored; None: that is not known.
        way: Which of them each has, shape (n,); -1: it is not asked about.
        julian: Where days may be those of the Julian calendar.
        kind: What values are.
    """
    told, n = slots[:, TOLD], len(slots)
    # A bound of fewer bytes than a value has ends the process in pyarrow (26.0), so that such chunks are asked nothing.
    wrong = slots[:, TYPE] != schema[:, 0]
    for slot, size in ((MIN, MIN_SIZE), (MAX, MAX_SIZE)):
        wrong |= (told >> slot & 1 == 1) & (schema[:, 1] > 0) & (slots[:, size] != schema[:, 1])
    sure, counts = (
        np.array([*test, False], np.bool_)[way]
        for test in ([w is not None for w in ways], [w is not None and w.counts for w in ways])
    )
    said = (way >= 0) & (told >> SAID & 1 == 1) & ~wrong
    bounded = said & ~counts & (told & BOTH != 0)
    known = bounded & sure & (told & BOTH == BOTH)
    left = (said & ~sure) | (bounded & ~known)
    places = [
        (slots[:, slot] + start, slots[:, size])
        for slot, size in ((MIN, MIN_SIZE), (MAX, MAX_SIZE))
    ]
    units, out = np.zeros(n, np.int64), [_room(n, kind) for _ in places]
    for i, one in enumerate(ways):
        at = np.flatnonzero(known & (way == i))
        if one is None or not len(at) or out[0] is None:
            continue
        low, high = (_values(data, places_of[at], sizes[at], one) for places_of, sizes in places)
        odd = _odd(low, one) | _odd(high, one)
        left[at[odd]], known[at[odd]] = True, False
        if one.settled is not None:
            known[at[julian[at] & (low < one.settled)]] = False
        out[0][at], out[1][at], units[at] = low, high, one.unit
    if out[0] is None and known.any():
        out = _bytes(data, places, known, left, kind)
    return ChunkBounds(
        out[0], out[1], known, units, slots[:, NULLS], said & (told >> NULLS & 1 == 1) & ~left, left
    )


def nothing(left: Mask) -> ChunkBounds:
    """Of row groups about which pyarrow has to be asked, or nobody."""
    none, zeros = np.zeros(len(left), np.bool_), np.zeros(len(left), np.int64)
    return ChunkBounds(None, None, none, zeros, zeros, none, left)


def _room(n: int, kind: pa.DataType) -> Any:
    """For bounds that are lanes, or words."""
    t = pa.types
    if t.is_decimal128(kind):
        return np.zeros((n, 2), np.uint64)
    if (
        t.is_integer(kind)
        or t.is_floating(kind)
        or t.is_boolean(kind)
        or t.is_date32(kind)
        or t.is_timestamp(kind)
    ):
        return np.zeros(
            n,
            np.uint8
            if t.is_boolean(kind)
            else f"i{kind.bit_width // 8}"
            if t.is_temporal(kind)
            else dtype_of(kind),
        )
    return None


def _values(data: Bytes, places: Ints, sizes: Ints, way: Encoding) -> Any:
    """Lanes, shape (m,), or words of decimals, shape (m, 2)."""
    size = int(sizes[0])
    raw = np.frombuffer(gathered(data, places, sizes, None).buffers()[2], np.uint8).reshape(
        -1, size
    )
    if way.lane and not way.digits:
        return raw.view(way.lane).reshape(-1)
    raw = raw[:, ::-1] if way.lane else raw  # the first byte is the highest
    wide = np.repeat((raw[:, :1] >> 7) * np.uint8(255), 16, axis=1)
    wide[:, 16 - size :] = raw
    return np.ascontiguousarray(wide[:, ::-1]).view(np.uint64)


def _odd(values: Any, way: Encoding) -> Mask:
    """Where values are none of the column's."""
    if way.digits:
        return ~(below(values, 10**way.digits) & ~below(values, 1 - 10**way.digits))
    if way.least is None or way.most is None:
        return np.asarray(values != values, np.bool_)
    return np.asarray((values < way.least) | (values > way.most), np.bool_)


def _bytes(
    data: Bytes, places: Sequence[tuple[Ints, Ints]], known: Mask, left: Mask, kind: pa.DataType
) -> list[Any]:
    """Bounds that are bytes; texts that are none, and the other bound of the same chunk, are left."""
    if any(int(sizes[known].sum()) >= LONGEST for _, sizes in places):
        left |= known
        known &= False
    found = [gathered(data, starts, sizes, known) for starts, sizes in places]
    if not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
        return [f.cast(kind) for f in found]
    bad = _undecodable(found[0]) | _undecodable(found[1])
    if bad.any():
        left |= bad
        known &= ~bad
        found = [gathered(data, starts, sizes, known) for starts, sizes in places]
    return [f.view(pa.string()).cast(kind) for f in found]


def _undecodable(values: pa.BinaryArray) -> Mask:
    try:
        values.view(pa.string()).validate(full=True)
        return np.zeros(len(values), np.bool_)
    except pa.ArrowInvalid:
        return np.array([v is not None and not _decodes(v) for v in values.to_pylist()], np.bool_)


def _decodes(value: bytes) -> bool:
    try:
        return value.decode() is not None
    except UnicodeDecodeError:
        return False


def bound_of(
    values: Any, told: ChunkBounds, asked: Mapping[int, Any], kind: pa.DataType
) -> pa.Array:
    """One bound of n row groups as values of a type; null is unknown.

    Args:
        values: What is told of it.
        told: All that is told.
        asked: What pyarrow said of others, by row group.
        kind: The type; timestamps have the finest unit that one of them has.
    """
    if pa.types.is_timestamp(kind):
        return _stamps(values, told, asked, kind)
    n, known = len(told.known), told.known.any()
    own = (
        pa.nulls(n, kind)
        if not known
        else values
        if isinstance(values, pa.Array)
        else _array(values, told.known, kind)
    )
    if not asked:
        return own
    found = values_of([asked.get(i) for i in range(n)], kind, from_arrow(kind))
    return pc.if_else(pa.array(np.isin(np.arange(n), list(asked))), found, own) if known else found


def _array(values: Any, known: Mask, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array(values.view(np.bool_), mask=~known)
    bits = None if known.all() else pa.array(known).buffers()[1]
    return pa.Array.from_buffers(kind, len(known), [bits, pa.py_buffer(values)])


def _stamps(
    values: Ints | None, told: ChunkBounds, asked: Mapping[int, Any], kind: pa.DataType
) -> pa.Array:
    known, units = told.known.copy(), told.units.copy()
    ticks = np.zeros(len(known), np.int64) if values is None else values.copy()
    for i, value in asked.items():
        if value is not None:
            if (value.type.tz is None) != (kind.tz is None):
                return pa.nulls(len(known), kind)
            ticks[i], known[i], units[i] = (
                value.cast(pa.int64()).as_py(),
                True,
                POWERS[value.type.unit],
            )
    if not known.any():
        return pa.nulls(len(known), kind)
    # Units may differ between files. The finest holds every value; bounds that overflow it are unknown.
    finest = int(units[known].max())
    step = 10 ** (finest - np.where(known, units, finest))
    most = np.iinfo(np.int64).max // step
    known &= (step == 1) | ((ticks >= -most) & (ticks <= most))
    wide = pa.timestamp(next(unit for unit, power in POWERS.items() if power == finest), kind.tz)
    return _array(np.where(known, ticks, 0) * step, known, wide)
