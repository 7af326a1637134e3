"""Decode the statistics of a Delta table's columns into bounds that hold for every known writer.

Source: Delta's PROTOCOL.md, "Per-file Statistics". Comments say where writers deviate from it.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.statistics.casts import cast_or_null, chunks_of
from skipstone.bindings.statistics.coerce_inputs import MAX_ROWS
from skipstone.bindings.tables.delta.fields import LeafField
from skipstone.bindings.tables.partition_values import (
    WHOLE_MINUTES,
    constant_statistics,
    partition_values,
)
from skipstone.ir import compute as pc
from skipstone.ir.arrow import (
    arrow_of,
    booleans_of,
    fill,
    int64_of,
    null_where,
    numbers_of,
    python_array,
    repeated,
    scalar_of,
)
from skipstone.ir.node import Path, lowered
from skipstone.ir.types import is_text
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import ColumnStatistics

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.snapshot import Snapshot

STATS_COLUMNS: Final = "delta.dataSkippingStatsColumns"
MILLISECOND, MINUTE = 1_000, 60_000_000  # in microseconds
EXACT: Final = 15  # digits of any decimal that a float64 preserves
# Delta once ended cut texts with this character, though greater ones may follow (delta#3430).
REPLACEMENT: Final = "\ufffd"
# Before zones had whole minutes: 1850-01-01T12:00:00.000-04:56:02.
OFFSET_WITH_SECONDS: Final = r"T.*[+-]\d\d:\d\d:\d\d$"


class LogColumns(Mapping[Path, ColumnStatistics]):
    """The statistics of all columns of a snapshot's files, decoded at first use.

    Args:
        snapshot: The table's columns, files and statistics.
        timezone: The zone of partition timestamps that name none.
    """

    def __init__(self, snapshot: Snapshot, timezone: str) -> None:
        leaves = snapshot.fields.leaves
        self._leaves = {leaf.path: leaf for leaf in leaves}
        named = STATS_COLUMNS in dict(snapshot.metadata["configuration"])
        self._mistaken = mistaken_columns(leaves) if named else frozenset()
        self._partitions = snapshot.fields.partitions
        self._snapshot, self._timezone = snapshot, timezone
        self._decoded: dict[Path, ColumnStatistics] = {}

    def __getitem__(self, path: Path) -> ColumnStatistics:
        if path not in self._decoded:
            self._decoded[path] = self._raw(self._leaves[path])
        return self._decoded[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def rows(self) -> pa.ChunkedArray:
        """Return the physical rows of each file, int64; null is unknown.

        A count is also unknown if a file cannot have that many rows, or if it is 0 but the file has
        bounds or NULLs.
        """
        return pa.chunked_array(
            [c for s in self._snapshot.stats for c in chunks_of(self._plausible_rows(s))],
            pa.int64(),
        )

    def _plausible_rows(self, stats: Given) -> Given:
        rows = _int64(child(stats, ("numRecords",)), len(stats))
        numbers = int64_of(rows, -1)
        wrong, empty = numbers > MAX_ROWS, np.flatnonzero(numbers == 0)
        few = pc.take(stats, arrow_of(empty))
        for leaf in self._leaves.values() if len(empty) else ():
            bounds = (child(few, (side, *leaf.physical)) for side in ("minValues", "maxValues"))
            for bound in bounds:
                wrong[empty] |= False if bound is None else booleans_of(pc.is_valid(bound))
            nulls = child(few, ("nullCount", *leaf.physical))
            wrong[empty] |= False if nulls is None else int64_of(_int64(nulls, len(few))) > 0
        return null_where(arrow_of(wrong), rows) if wrong.any() else rows

    def tight(self) -> pa.ChunkedArray:
        """Return whether each file's bounds occur in its rows; they do unless the log denies it."""
        fields = ((len(s), child(s, ("tightBounds",))) for s in self._snapshot.stats)
        flags = (
            repeated(scalar_of(True, pa.bool_()), n)
            if f is None
            else fill(pc.cast(f, pa.bool_()), True)
            for n, f in fields
        )
        return pa.chunked_array([c for t in flags for c in chunks_of(t)], pa.bool_())

    def texts(self, name: str) -> Given:
        """Return the values of a partition column as the log stores them."""
        texts = child(self._snapshot.files.column("partition"), (self._partitions[name],))
        assert texts is not None
        return texts

    def _raw(self, leaf: LeafField) -> ColumnStatistics:
        if leaf.path[0] in self._partitions and len(leaf.path) == 1:
            return partition_raw(self.texts(leaf.path[0]), leaf.type, self._timezone)
        if leaf.path in self._mistaken:
            return ColumnStatistics(row_count=self.rows())
        low = self._concatenated(
            leaf.type, lambda s: _bounds(child(s, ("minValues", *leaf.physical)), leaf, high=False)
        )
        high = self._concatenated(
            leaf.type, lambda s: _bounds(child(s, ("maxValues", *leaf.physical)), leaf, high=True)
        )
        nulls = self._concatenated(pa.int64(), lambda s: child(s, ("nullCount", *leaf.physical)))
        return ColumnStatistics(low, high, nulls, self.rows(), self._nans(leaf, high))

    def _nans(self, leaf: LeafField, high: Given | None) -> Given | None:
        """Return the NaN count of each file: 0 or unknown.

        It is 0 where Spark wrote tight bounds and the maximum is a number: Spark would have written
        NaN if there were one.
        """
        if high is None or not pa.types.is_floating(leaf.type):
            return None
        by_spark = self._snapshot.files.column("spark")
        without_nan = pc.and_(pc.and_(by_spark, self.tight()), pc.is_valid(high))
        return pc.if_else(without_nan, scalar_of(0, pa.int64()), pa.nulls(1, pa.int64())[0])

    def _concatenated(
        self, arrow_type: pa.DataType, look: Callable[[Given], Given | None]
    ) -> pa.ChunkedArray | None:
        """Concatenate one statistic over all parts of the log; None if no part has it."""
        parts = [look(s) for s in self._snapshot.stats]
        if all(p is None for p in parts):
            return None
        whole = [
            pa.nulls(len(s), arrow_type) if p is None else cast_or_null(p, arrow_type)
            for p, s in zip(parts, self._snapshot.stats, strict=True)
        ]
        return pa.chunked_array([c for p in whole for c in chunks_of(p)], arrow_type)


def mistaken_columns(leaves: Iterable[LeafField]) -> frozenset[Path]:
    """Return the columns whose statistics Delta may have written under the name of another column.

    If a table names the columns of its statistics, Delta 4.4 takes the names of some for the
    physical names of others: after `a` and `b` were renamed to each other, it writes the bounds of
    one as those of the other. Such bounds stay in the log if the property is removed later; then
    they are believed, as Delta believes them.
    """
    levels = {
        leaf.path: [
            (lowered(leaf.path[:n]), lowered(leaf.physical[:n]))
            for n in range(1, len(leaf.path) + 1)
        ]
        for leaf in leaves
    }
    names, physical = (
        {pair[side] for pairs in levels.values() for pair in pairs} for side in (0, 1)
    )
    return frozenset(
        path
        for path, pairs in levels.items()
        if any(own != stored and (own in physical or stored in names) for own, stored in pairs)
    )


def child(structs: Given, path: Sequence[str]) -> Given | None:
    """Return a nested field of structs; None if there is no such field.

    It is NULL where a struct around it is NULL.
    """
    for name in path:
        kind = structs.type
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        structs = pc.struct_field(structs, [kind.get_field_index(name)])
    return structs


def _int64(values: Given | None, n: int) -> Given:
    return pa.nulls(n, pa.int64()) if values is None else cast_or_null(values, pa.int64())


def _bounds(values: Given | None, leaf: LeafField, *, high: bool) -> Given | None:
    """Return bounds of the leaf's type, widened so that no value lies outside."""
    kind = leaf.type
    if values is None or not _may_be_bounds(values.type, kind):
        return None
    if pa.types.is_floating(kind):
        return _float_bounds(cast_or_null(values, kind), leaf, high=high)
    if pa.types.is_timestamp(kind):
        return pa.chunked_array(
            [_timestamp_bounds(part, kind, high) for part in _microseconds(values, kind)], kind
        )
    if pa.types.is_string(kind):
        values = cast_or_null(values, kind)
        return null_where(pc.ends_with(values, REPLACEMENT), values) if high else values
    if pa.types.is_decimal(kind) and kind.precision > EXACT:
        return pa.chunked_array(
            [_decimal_bounds(part, kind, high=high) for part in cast_or_null(values, kind).chunks],
            kind,
        )
    return values


def _may_be_bounds(given: pa.DataType, arrow_type: pa.DataType) -> bool:
    """Return True if a column of type `arrow_type` may have bounds of type `given`.

    Checkpoints may hold a narrower type, and JSON holds dates and times as text.
    """
    t, text = pa.types, is_text(given)
    if t.is_string(arrow_type):
        return bool(text)
    if t.is_timestamp(arrow_type):
        return bool(t.is_timestamp(given) or t.is_date(given) or text)
    if t.is_date(arrow_type):
        return bool(t.is_date(given) or text)
    if t.is_integer(given):
        return bool(
            t.is_integer(arrow_type) or t.is_floating(arrow_type) or t.is_decimal(arrow_type)
        )
    return bool(
        (t.is_floating(given) and t.is_floating(arrow_type))
        or (t.is_decimal(given) and t.is_decimal(arrow_type))
    )


def _microseconds(values: Given, kind: pa.TimestampType) -> list[pa.Array]:
    """Return timestamps, dates or texts as int64 microseconds since 1970."""
    if pa.types.is_timestamp(values.type):
        # Checkpoints may lack the column's zone, or hold nanoseconds.
        kind = pa.timestamp("us", values.type.tz)
    elif kind.tz is not None and is_text(values.type):
        long = pc.match_substring_regex(values, OFFSET_WITH_SECONDS)
        if pc.any(long).as_py():
            return _with_offset_seconds(values, long, kind)
    return chunks_of(cast_or_null(cast_or_null(values, kind), pa.int64()))


def _with_offset_seconds(texts: Given, long: Given, kind: pa.TimestampType) -> list[pa.Array]:
    """Return texts as `_microseconds` does; Arrow reads no offsets with seconds."""
    short = pc.if_else(long, pc.utf8_slice_codeunits(texts, 0, -3), texts)
    ticks = cast_or_null(cast_or_null(short, kind), pa.int64())
    seconds = pc.if_else(long, pc.utf8_slice_codeunits(texts, -2, 2**31 - 1), "0")
    behind = pc.multiply(pc.cast(seconds, pa.int64()), 10**6)
    west = pc.equal(pc.utf8_slice_codeunits(texts, -9, -8), "-")
    moved = pc.if_else(west, pc.add(ticks, behind), pc.subtract(ticks, behind))
    return chunks_of(pc.if_else(long, moved, ticks))


def _timestamp_bounds(ticks: pa.Array, kind: pa.TimestampType, high: bool) -> pa.Array:
    """Widen bounds by what writers cut off.

    Maxima are cut to milliseconds, so a value may exceed one by less than a millisecond. Bounds
    before WHOLE_MINUTES may be wrong by up to a minute either way.
    """
    values = int64_of(ticks)
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
    return pc.cast(arrow_of(values, booleans_of(pc.is_valid(ticks))), kind)


def _decimal_bounds(values: pa.Array, kind: pa.Decimal128Type, *, high: bool) -> pa.Array:
    """Widen decimal bounds that a writer may have passed through float64 or int64 (delta-rs#4757).

    They grow by a few steps of float64. A bound at either end of int64 is unknown.
    """
    if kind.scale == 0 and kind.precision > 18:
        ends = python_array([decimal.Decimal(2**63 - 1), decimal.Decimal(-(2**63))], kind)
        values = null_where(pc.is_in(values, value_set=ends), values)
    known = booleans_of(pc.is_valid(values))
    near = np.where(known, numbers_of(pc.cast(values, pa.float64())), 0)
    steps = 4 * np.spacing(np.abs(near))
    wide = arrow_of(near + steps if high else near - steps, known)
    widened = cast_or_null(wide, kind).combine_chunks()
    wider = pc.greater(widened, values) if high else pc.less(widened, values)
    return null_where(pc.is_null(widened), pc.if_else(wider, widened, values))


def _float_bounds(values: Given, leaf: LeafField, *, high: bool) -> Given:
    """Widen bounds of a DOUBLE column that was FLOAT once.

    Their texts are short and mean the nearest FLOAT, not the nearest DOUBLE.
    """
    if "float" not in leaf.widened or not pa.types.is_float64(values.type):
        return values
    near = pc.cast(pc.cast(values, pa.float32(), safe=False), pa.float64())
    return pc.max_element_wise(values, near) if high else pc.min_element_wise(values, near)


def partition_raw(texts: Given, arrow_type: pa.DataType, timezone: str) -> ColumnStatistics:
    """Return the statistics of a partition column: all rows of a file have one value, or NULL.

    A text that is not a value of the type is unknown. An empty text is a value of STRING and BINARY
    to Spark, and NULL to other readers, so whether it is NULL is unknown. A text of BINARY beyond
    ASCII is its UTF-8 bytes to Spark, and a byte for each character to other readers.
    """
    values, empty = partition_values(texts, arrow_type, timezone)
    if pa.types.is_binary(arrow_type):
        values = null_where(pc.invert(pc.string_is_ascii(texts)), values)
    unreadable = pc.and_(pc.is_null(values), pc.invert(empty))
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        unreadable = pc.or_(unreadable, fill(pc.equal(texts, scalar_of("", pa.string())), False))
    return constant_statistics(values, unreadable)
