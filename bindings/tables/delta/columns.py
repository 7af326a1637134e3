"""The statistics of a Delta table's columns as kernels want them: bounds that hold, whoever wrote them.

Source: Delta's PROTOCOL.md, "Per-file Statistics"; what writers do besides is told where it matters.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.statistics.casts import as_spark, attempt, chunks_of
from skipstone.bindings.statistics.coerce_inputs import MOST_ROWS
from skipstone.bindings.tables.delta.fields import LeafField
from skipstone.ir.node import Path
from skipstone.ir.zones import to_instant, zone_of
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import Raw

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.log import Snapshot

MILLISECOND, MINUTE = 1_000, 60_000_000  # in microseconds
# Delta 3.2 and 3.3 cut the seconds of zones' offsets, which had some once (delta#5249).
WHOLE_MINUTES: Final = (
    63_676_800_000_000  # 1972-01-08, when the last zone, Monrovia's, gave up its seconds
)
EXACT: Final = 15  # digits that a float64 keeps of any decimal
REPLACEMENT: Final = "\ufffd"  # ended texts that were cut once, though greater characters may have followed (delta#3430)
ASCII_BLANKS: Final = " \t\n\r\x0b\x0c"  # what Spark's casts trim; other blanks belong to the text


class LogColumns(Mapping[Path, Raw]):
    """The statistics of all columns of some files, decoded at first use.

    Args:
        read: The table's columns and what its log tells of the files.
        timezone: What timestamps without a zone are read in.
    """

    def __init__(self, read: Snapshot, timezone: str) -> None:
        self._leaves = {leaf.path: leaf for leaf in read.fields.leaves}
        self._partitions = read.fields.partitions
        self._read, self._timezone = read, timezone
        self._made: dict[Path, Raw] = {}

    def __getitem__(self, path: Path) -> Raw:
        if path not in self._made:
            self._made[path] = self._raw(self._leaves[path])
        return self._made[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def rows(self) -> pa.ChunkedArray:
        """Physical rows of each file, int64; null is unknown, and so are more than a file can have, and none beside bounds or NULLs."""
        return pa.chunked_array(
            [c for s in self._read.stats for c in chunks_of(self._rows_of(s))], pa.int64()
        )

    def _rows_of(self, stats: Given) -> Given:
        rows = _int64(child(stats, ("numRecords",)), len(stats))
        wrong = np.asarray(pc.greater(rows, MOST_ROWS).fill_null(False), np.bool_).copy()
        empty = np.flatnonzero(np.asarray(pc.equal(rows, 0).fill_null(False), np.bool_))
        few = stats.take(pa.array(empty))
        for leaf in self._leaves.values() if len(empty) else ():
            bounds = (child(few, (side, *leaf.physical)) for side in ("minValues", "maxValues"))
            for told in bounds:
                wrong[empty] |= False if told is None else np.asarray(told.is_valid(), np.bool_)
            nulls = child(few, ("nullCount", *leaf.physical))
            wrong[empty] |= (
                False
                if nulls is None
                else np.asarray(pc.greater(_int64(nulls, len(few)), 0).fill_null(False), np.bool_)
            )
        return pc.if_else(pa.array(wrong), None, rows) if wrong.any() else rows

    def tight(self) -> pa.ChunkedArray:
        """Whether bounds occur in the file; they do unless it says otherwise."""
        found = ((len(s), child(s, ("tightBounds",))) for s in self._read.stats)
        told = (
            pa.repeat(True, n) if f is None else f.cast(pa.bool_()).fill_null(True)
            for n, f in found
        )
        return pa.chunked_array([c for t in told for c in chunks_of(t)], pa.bool_())

    def texts(self, name: str) -> Given:
        """The values of a partition column as the log has them."""
        texts = child(self._read.files.column("partition"), (self._partitions[name],))
        assert texts is not None
        return texts

    def _raw(self, leaf: LeafField) -> Raw:
        if leaf.path[0] in self._partitions and len(leaf.path) == 1:
            return partition_raw(self.texts(leaf.path[0]), leaf.type, self._timezone)
        low = self._joined(
            leaf.type, lambda s: _bounds(child(s, ("minValues", *leaf.physical)), leaf, high=False)
        )
        high = self._joined(
            leaf.type, lambda s: _bounds(child(s, ("maxValues", *leaf.physical)), leaf, high=True)
        )
        nulls = self._joined(pa.int64(), lambda s: child(s, ("nullCount", *leaf.physical)))
        return Raw(low, high, nulls, self.rows(), self._nans(leaf, high))

    def _nans(self, leaf: LeafField, high: Given | None) -> Given | None:
        """How many NaNs: none, where an upper bound is a number and would be NaN if there were one."""
        if high is None or not pa.types.is_floating(leaf.type):
            return None
        none = pc.and_(pc.and_(self._read.files.column("spark"), self.tight()), pc.is_valid(high))
        return pc.if_else(none, pa.scalar(0, pa.int64()), None)

    def _joined(
        self, kind: pa.DataType, look: Callable[[Given], Given | None]
    ) -> pa.ChunkedArray | None:
        """One statistic of all files; None where no part has it."""
        parts = [look(s) for s in self._read.stats]
        if all(p is None for p in parts):
            return None
        whole = [
            pa.nulls(len(s), kind) if p is None else attempt(p, kind)
            for p, s in zip(parts, self._read.stats, strict=True)
        ]
        return pa.chunked_array([c for p in whole for c in chunks_of(p)], kind)


def child(structs: Given, path: Sequence[str]) -> Given | None:
    """A struct's field, NULL where a struct around it is; None: it has no such field."""
    for name in path:
        kind = structs.type
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        structs = pc.struct_field(structs, [kind.get_field_index(name)])
    return structs


def _int64(values: Given | None, n: int) -> Given:
    return pa.nulls(n, pa.int64()) if values is None else attempt(values, pa.int64())


def _bounds(values: Given | None, leaf: LeafField, *, high: bool) -> Given | None:
    """Bounds of the leaf's type that no value lies beyond."""
    kind = leaf.type
    if values is None or not _fits(values.type, kind):
        return None
    if pa.types.is_floating(kind):
        return _floats(attempt(values, kind), leaf, high=high)
    if pa.types.is_timestamp(kind):
        return pa.chunked_array([_ticks(part, kind, high) for part in _times(values, kind)], kind)
    if pa.types.is_string(kind):
        values = attempt(values, kind)
        return pc.if_else(pc.ends_with(values, REPLACEMENT), None, values) if high else values
    if pa.types.is_decimal(kind) and kind.precision > EXACT:
        return pa.chunked_array(
            [_decimals(part, kind, high=high) for part in attempt(values, kind).chunks], kind
        )
    return values


def _fits(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a column of this type may have had bounds of that one, in a checkpoint or as JSON: a narrower one, or dates as text."""
    t = pa.types
    text = t.is_string(given) or t.is_large_string(given) or t.is_string_view(given)
    if t.is_string(kind):
        return bool(text)
    if t.is_timestamp(kind):
        return bool(t.is_timestamp(given) or t.is_date(given) or text)
    if t.is_date(kind):
        return bool(t.is_date(given) or text)
    if t.is_integer(given):
        return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind))
    return bool(
        (t.is_floating(given) and t.is_floating(kind))
        or (t.is_decimal(given) and t.is_decimal(kind))
    )


def _times(values: Given, kind: pa.TimestampType) -> list[pa.Array]:
    """Timestamps as microseconds, whatever stood for them."""
    if pa.types.is_timestamp(values.type):
        # Those of checkpoints may lack the zone of the other kind, or have nanoseconds.
        kind = pa.timestamp("us", values.type.tz)
    return chunks_of(attempt(attempt(values, kind), pa.int64()))


def _ticks(ticks: pa.Array, kind: pa.TimestampType, high: bool) -> pa.Array:
    """Bounds that were cut to milliseconds: an upper one may be exceeded by less than one more; an early one by a minute."""
    values = ticks.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    early = np.where(values < WHOLE_MINUTES, MINUTE, 0)
    if high:
        more = early + MILLISECOND
        values = np.where(
            values > np.iinfo(np.int64).max - more, np.iinfo(np.int64).max, values + more
        )
    else:
        values = np.where(
            values < np.iinfo(np.int64).min + early, np.iinfo(np.int64).min, values - early
        )
    return pa.array(values, pa.int64(), mask=np.asarray(ticks.is_null())).cast(kind)


def _decimals(values: pa.Array, kind: pa.Decimal128Type, *, high: bool) -> pa.Array:
    """Bounds that may have been a float64 or an int64 on their way, as delta-rs makes them (delta-rs#4757).

    They are widened by a few steps of the one; at the ends of the other nothing is known.
    """
    if kind.scale == 0 and kind.precision > 18:
        ends = pa.array([decimal.Decimal(2**63 - 1), decimal.Decimal(-(2**63))], kind)
        values = pc.if_else(pc.is_in(values, value_set=ends), None, values)
    near = values.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    steps = 4 * np.spacing(np.abs(near))
    wide = pa.array(near + steps if high else near - steps, mask=np.asarray(values.is_null()))
    moved = attempt(wide, kind).combine_chunks()
    beyond = pc.greater(moved, values) if high else pc.less(moved, values)
    return pc.if_else(pc.is_null(moved), None, pc.if_else(beyond, moved, values))


def _floats(values: Given, leaf: LeafField, *, high: bool) -> Given:
    """Bounds of a column that was FLOAT once: their texts are short, and mean the nearest FLOAT, not the nearest DOUBLE."""
    if "float" not in leaf.widened or not pa.types.is_float64(values.type):
        return values
    near = values.cast(pa.float32(), safe=False).cast(pa.float64())
    return pc.max_element_wise(values, near) if high else pc.min_element_wise(values, near)


def partition_raw(texts: Given, kind: pa.DataType, timezone: str) -> Raw:
    """The statistics of a partition column: all rows of a file have one value, or NULL; what is no value of the type is unknown."""
    values, empty = partition_values(texts, kind, timezone)
    unread = pc.and_(pc.is_null(values), pc.invert(empty))
    nulls = pc.if_else(unread, None, empty.cast(pa.int64()))
    ones = pa.chunked_array([pa.repeat(pa.scalar(1, pa.int64()), len(texts))])
    nans = (
        pc.if_else(unread, None, pc.is_nan(values).fill_null(False).cast(pa.int64()))
        if pa.types.is_floating(kind)
        else None
    )
    return Raw(values, values, nulls, ones, nans)


def partition_values(
    texts: Given, kind: pa.DataType, timezone: str
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Values of a partition column, and where they are NULL: an absent text, or an empty one.

    Args:
        texts: As the log has them.
        kind: The column's type.
        timezone: The zone of timestamps that name none.
    """
    texts = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
    empty = pc.or_(pc.is_null(texts), pc.equal(texts, "").fill_null(True))
    if pa.types.is_string(kind):
        return pc.if_else(empty, pa.scalar(None, kind), texts), empty
    if pa.types.is_binary(
        kind
    ):  # Spark's bytes are those of the text; what beyond ASCII stood for is not known
        return attempt(
            pc.if_else(pc.and_(pc.string_is_ascii(texts), pc.invert(empty)), texts, None), kind
        ), empty
    # Few texts are distinct, so each is read once.
    coded = texts.dictionary_encode().unify_dictionaries()
    out = []
    for chunk in coded.chunks:
        words = pc.utf8_trim(
            pc.if_else(pc.equal(chunk.dictionary, ""), None, chunk.dictionary), ASCII_BLANKS
        )
        if pa.types.is_integer(kind):  # and no hexadecimal ones, which Arrow reads too
            words = pc.if_else(
                pc.match_substring_regex(words, r"^[+-]?[0-9]+$"),
                pc.replace_substring_regex(words, r"^\+", ""),
                None,
            )
        elif pa.types.is_floating(kind):  # and NaN with a sign or a payload
            words = pc.if_else(pc.match_substring_regex(words, r"(?i)[+-]nan|nan\("), None, words)
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            words = _padded(words)
        if pa.types.is_timestamp(kind):
            read = _instants(words, kind, timezone)
        elif pa.types.is_decimal(kind):  # with an exponent Arrow's overflow unnoticed
            read = pa.concat_arrays(
                [pa.nulls(0, kind), *(as_spark(word or "", kind) for word in words.to_pylist())]
            )
        else:
            read = attempt(words, kind).combine_chunks()
        out.append(pc.take(read, chunk.indices))
    return pa.chunked_array([c for o in out for c in chunks_of(o)], kind), empty


def is_zoned(texts: Given) -> Given:
    """Which texts of times name a zone: a letter or a sign stands behind the clock's first colon."""
    return pc.match_substring_regex(texts, r":.*[A-Za-z+-]").fill_null(False)


def _padded(words: pa.Array) -> pa.Array:
    """Dates with two digits for month and day, as Arrow reads them; Spark's casts take one too."""
    words = pc.replace_substring_regex(words, r"^(\d{4})-(\d)-", r"\1-0\2-")
    return pc.replace_substring_regex(words, r"^(\d{4})-(\d\d)-(\d)($|[ T])", r"\1-\2-0\3\4")


def _instants(words: pa.Array, kind: pa.TimestampType, timezone: str) -> pa.Array:
    """Timestamps of texts with a zone or without."""
    zoned = is_zoned(words)
    if kind.tz is None:
        return attempt(pc.if_else(zoned, None, words), kind).combine_chunks()
    bare = attempt(pc.if_else(zoned, None, words), pa.timestamp("us")).combine_chunks()
    absolute = attempt(pc.if_else(zoned, words, None), kind).combine_chunks()
    zone = zone_of(timezone)
    local = [
        None if v is None else _instant(v, zone)
        for chunk in chunks_of(bare)
        for v in chunk.cast(pa.int64()).to_pylist()
    ]
    return pc.if_else(zoned, absolute, pa.array(local, pa.int64()).cast(kind))


def _instant(local: int, zone: dt.tzinfo) -> int | None:
    """The instant that Spark takes a clock's time for: when the clock shows it twice the first, when never that much later."""
    certain = to_instant(local, zone)
    if certain is not None or local < WHOLE_MINUTES:
        return certain
    try:
        offset = (
            (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=local))
            .replace(tzinfo=zone)
            .utcoffset()
        )
    except OverflowError:
        return None
    return None if offset is None else local - offset // dt.timedelta(microseconds=1)
