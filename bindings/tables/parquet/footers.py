"""Parquet footers: read from files or from `_metadata`, and what they say of row groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.files import UNKNOWN, Ints
from skipstone.bindings.tables.parquet import thrift
from skipstone.bindings.tables.parquet.column_chunks import (
    ChunkBounds,
    Chunks,
    bound_of,
    nothing,
    told_of,
)
from skipstone.bindings.tables.parquet.encodings import POWERS, UNITS, logical_of, way_of
from skipstone.bindings.tables.parquet.file_schemas import Bloom, FileSchema
from skipstone.bindings.tables.parquet.footer import REFUSED, Head, Tail, read_tail, stored_as
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.zones import GREGORIAN, SETTLED
from skipstone.kernels.decode.footer_layout import at_hand
from skipstone.kernels.decode.footer_loops import (
    BLOOM,
    BLOOM_SIZE,
    MAX_EXACT,
    MIN_EXACT,
    TOLD,
    TRUTHS,
)
from skipstone.kernels.pack.columns import Raw
from skipstone.kernels.pack.planes import Mask

READERS: Final = 16  # footers fetched at a time, where most of that is waiting for storage
# Seconds for a footer, of a few, from which on it is. Files in memory take 50 us each, and 190 from 16 threads, which wait
# for the interpreter instead.
SLOW, FEW = 0.001, 16
# Bytes of footers for which no loop is compiled; and those that Python would take more than a second for, and keep 40 MB of.
SMALL, MANY = 1 << 17, 1 << 22
# Of a file that cannot be read.
WAY_OUT: Final = (
    'leave it out by a glob such as folder/*.parquet, or plan to read it by on_error="keep" '
    "(--keep-unreadable)"
)

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Footer:
    """What one file says of itself, or `_metadata` of it; `error` where it could not be read.

    Attributes:
        path: The file.
        tail: The footer, or that of `_metadata`.
        groups: Which of its row groups are the file's, in the file's order.
        own: Whether it is the file's own: only then it tells who wrote the file.
        nbytes: What was asked of storage for it.
    """

    path: str
    tail: Tail | None
    groups: Sequence[int] = ()
    error: SourceError | None = None
    own: bool = True
    nbytes: int = 0

    @property
    def julian(self) -> bool:
        """Whether Spark wrote the file in the Julian calendar, or may have: `_metadata` does not tell."""
        return not self.own or (self.tail is not None and self.tail.head.julian)

    @property
    def orders_nan(self) -> bool:
        """Whether NaN is known to be the last value in its bounds."""
        return self.own and self.tail is not None and self.tail.head.orders_nan


def read_footers(
    paths: Sequence[str],
    filesystem: pafs.FileSystem,
    meter: Meter,
    *,
    keep: bool,
    progress: Callable[[int], None] | None = None,
) -> list[Footer]:
    """Read footers in parallel, in the files' order; `progress` is told how many were read.

    Raises:
        SourceError: a file is missing, truncated, not Parquet or encrypted; unless `keep`.
    """
    out: list[Footer] = []
    asked = 0
    with closing(_each_read(paths, filesystem, {})) as read:
        for footer in read:
            if footer.error is not None and not keep:
                raise SourceError(f"{footer.error}; {WAY_OUT}") from footer.error
            out.append(footer)
            asked += footer.nbytes
            if asked >= SMALL:
                at_hand()
            meter.count("footers", 1, footer.nbytes)
            if progress is not None:
                progress(len(out))
    return out


def _each_read(
    paths: Sequence[str], filesystem: pafs.FileSystem, heads: dict[bytes, Head]
) -> Generator[Footer]:
    """Footers in the files' order: one after the other while storage answers at once, else many at a time."""
    at, quick = 0, True
    while quick and at < len(paths):
        start, some = time.perf_counter(), paths[at : at + FEW]
        read = [_read(path, filesystem, heads) for path in some]
        quick, at = time.perf_counter() - start < SLOW * len(some), at + len(some)
        yield from read
    with ThreadPoolExecutor(READERS, "skipstone-footers") as readers:
        try:
            step = max(
                1, min(FEW, (len(paths) - at) // (4 * READERS))
            )  # at a time: handing over takes as long as reading
            several = (paths[i : i + step] for i in range(at, len(paths), step))
            for read in readers.map(
                lambda some: [_read(path, filesystem, heads) for path in some], several
            ):
                yield from read
        finally:
            readers.shutdown(wait=False, cancel_futures=True)


def _read(path: str, filesystem: pafs.FileSystem, heads: dict[bytes, Head]) -> Footer:
    try:
        with filesystem.open_input_file(path) as source:
            tail, nbytes = read_tail(source, heads)
        names = tail.head.schema.names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            return Footer(
                path,
                None,
                error=SourceError(
                    f"{path}: has two columns named {twice!r}; expected each name once"
                ),
            )
        return Footer(path, tail, range(len(tail.rows)), nbytes=nbytes)
    except REFUSED as e:
        return Footer(path, None, error=SourceError(f"{path}: {_why(e)}"))


def _why(e: Exception) -> str:
    text = str(e)
    lower = text.lower()
    if isinstance(e, FileNotFoundError):
        return "the file is not there"
    if "encrypt" in lower or "decrypt" in lower:
        return "the file is encrypted, and no keys were given; read it elsewhere or leave it out"
    if "magic bytes" in lower or "too small" in lower or "parquet file size" in lower:
        return "not a whole Parquet file: it does not end as one (truncated, or of another format)"
    return f"the footer cannot be read ({text.splitlines()[0] if text else type(e).__name__})"


class FooterPart:
    """The row groups of files whose footers were read (`Part` in bindings/tables/parquet/groups.py says what its members are)."""

    def __init__(self, footers: Sequence[Footer], files: Ints) -> None:
        self.footers, self.files = footers, files
        self._heads, head, self.forms, form = _heads(footers)
        self.form: Ints = form[head]
        groups = [f.groups if f.tail is not None else (UNKNOWN,) for f in footers]
        counts = [len(g) for g in groups]
        self.owner = np.repeat(np.arange(len(footers)), counts)
        self._head = head[self.owner]
        self._told_as = _whole(
            np.asarray(g, np.int64) for g in groups
        )  # its number in the footer that tells of it
        self.group = np.where(
            self._head < 0,
            UNKNOWN,
            np.arange(len(self.owner)) - np.repeat(np.cumsum(counts) - counts, counts),
        )
        self.rows = self._of_groups("rows")

    def _of_groups(self, name: str) -> Ints:
        """What footers say of each row group; -1 is unknown."""
        told = (
            np.array([UNKNOWN]) if f.tail is None else getattr(f.tail, name) for f in self.footers
        )
        return _whole(
            values if f.own else values[np.asarray(f.groups, np.int64)]
            for f, values in zip(self.footers, told, strict=True)
        )

    @cached_property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group; -1 is unknown."""
        _ = self._chunks  # so that the loop reads many footers, not Python
        return self._of_groups("nbytes")

    @cached_property
    def _chunks(self) -> Chunks:
        """What the loop finds. Footers that were read before it was there it reads now, if they are many or it is there."""
        late = {
            id(f.tail): f.tail for f in self.footers if f.tail is not None and f.tail.layout is None
        }.values()
        size = sum(len(tail.data) for tail in late)
        if size >= SMALL and (size >= MANY or at_hand()):
            for tail in late:
                tail.lay_out()
        return Chunks([f.tail for f in self.footers])

    @cached_property
    def _julian(self) -> Mask:
        return np.array([f.julian for f in self.footers], np.bool_)[self.owner]

    def _places(self, path: Path) -> Ints:
        """Where a column stands in the file of each row group; -1: that is not known, or it is not there."""
        found = (f.position(path) for f in self.forms)
        return np.array([*(UNKNOWN if p is None else p for p in found), UNKNOWN], np.int64)[
            self.form[self.owner]
        ]

    def _asked(
        self, which: Mask, place: Ints
    ) -> Iterator[tuple[int, Footer, pq.ColumnChunkMetaData]]:
        """What pyarrow says of a column's chunks in some row groups."""
        at = np.flatnonzero(which)
        refused: set[int] = set()
        for i, owner, group, column in zip(
            *(a.tolist() for a in (at, self.owner[at], self._told_as[at], place[at])), strict=True
        ):
            footer = self.footers[owner]
            if owner in refused or footer.tail is None or not footer.tail.may_ask(group, column):
                continue
            try:
                chunk = footer.tail.metadata.row_group(group).column(column)
            except (*REFUSED, IndexError):  # the loop took a footer that pyarrow refuses: unknown
                refused.add(owner)
                continue
            yield i, footer, chunk

    def raw(self, path: Path, kind: pa.DataType) -> Raw:
        """Statistics of one column whose values the table has as `kind`."""
        form, place = self.form[self.owner], self._places(path)
        lacking, readable = (
            np.array([*test, False], np.bool_)[form]
            for test in (
                [f.lacks(path) for f in self.forms],
                [f.widens(path, kind) for f in self.forms],
            )
        )
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        told = self._told(np.where(readable, place, UNKNOWN), plain)
        nulls, counted = np.where(lacking, self.rows, told.nulls), told.counted | lacking
        nans: list[int | None] = [None] * len(place)
        low: dict[int, Any] = {}
        high: dict[int, Any] = {}
        for i, footer, chunk in self._asked(told.left, place):
            try:
                stats = chunk.statistics
            except REFUSED:
                continue
            if stats is None:
                continue
            if stats.has_null_count:
                nulls[i], counted[i] = stats.null_count, True
            if stats.has_min_max and stats.physical_type != "INT96":
                low[i], high[i] = _pair(stats, footer)
                if counted[i] and _all_nan(stats, footer):
                    nans[i] = self.rows[i] - nulls[i]
        least, most = (
            bound_of(values, told, asked, plain)
            for values, asked in ((told.low, low), (told.high, high))
        )
        if plain != kind:
            least, most = (b.dictionary_encode().cast(kind) for b in (least, most))
        return Raw(
            least, most, pa.array(nulls, mask=~counted), nan_count=pa.array(nans, pa.int64())
        )

    def _told(self, place: Ints, kind: pa.DataType) -> ChunkBounds:
        """What the loop found of the column that stands at some places; -1: nothing is asked."""
        if self._chunks.empty:
            return nothing(place >= 0)
        slots, start, there = self._chunks.of(self.owner, self._told_as, place)
        which, first = np.unique(self._head[there], return_index=True)
        at = dict(zip(which.tolist(), place[there][first].tolist(), strict=True))
        ways = {h: way_of(self._heads[h], p, kind) for h, p in at.items()}
        distinct = list(set(ways.values()))
        way, schema = (
            np.full(len(self._heads) + 1, UNKNOWN, np.int64),
            np.zeros((len(self._heads) + 1, 2), np.int64),
        )
        for h, p in at.items():
            way[h], schema[h] = distinct.index(ways[h]), stored_as(*self._heads[h].physical[p])
        told = told_of(
            self._chunks.data,
            slots,
            start,
            schema[self._head],
            distinct,
            np.where(there, way[self._head], UNKNOWN),
            self._julian,
            kind,
        )
        return told._replace(left=told.left | ((place >= 0) & ~there))

    def exact(self, path: Path) -> tuple[pa.Array, pa.Array]:
        """Whether min and max are values that occur, bool; null is unknown."""
        place = self._places(path)
        slots, _, there = self._chunks.of(self.owner, self._told_as, place)
        known, true = (
            [slots[:, TOLD] >> bit & 1 == 1 for bit in (MIN_EXACT + more, MAX_EXACT + more)]
            for more in (0, TRUTHS)
        )
        for i in np.flatnonzero((place >= 0) & ~there).tolist():
            tail = self.footers[self.owner[i]].tail
            stats = (
                {}
                if tail is None
                else tail.chunk(int(self._told_as[i]), int(place[i])).get(thrift.STATISTICS, {})
            )
            for side, flag in enumerate(
                _flag(stats, f) for f in (thrift.MIN_EXACT, thrift.MAX_EXACT)
            ):
                known[side][i], true[side][i] = flag is not None, bool(flag)
        low, high = (pa.array(values, mask=~mask) for values, mask in zip(true, known, strict=True))
        return low, high

    def blooms(self, path: Path) -> dict[int, Bloom]:
        """Where the bloom filters of a column lie, of the row groups that have one."""
        place, stored, form = (
            self._places(path),
            [f.stored(path) for f in self.forms],
            self.form[self.owner],
        )
        slots, _, there = self._chunks.of(self.owner, self._told_as, place)
        found = {
            i: (
                int(slots[i, BLOOM]),
                int(slots[i, BLOOM_SIZE]) if slots[i, TOLD] >> BLOOM_SIZE & 1 else None,
            )
            for i in np.flatnonzero(slots[:, TOLD] >> BLOOM & 1).tolist()
        }
        for i, _, chunk in self._asked((place >= 0) & ~there, place):
            if chunk.bloom_filter_offset is not None:
                found[i] = chunk.bloom_filter_offset, chunk.bloom_filter_length
        return {
            i: Bloom(*where, kind)
            for i, where in sorted(found.items())
            if (kind := stored[form[i]]) is not None
        }


def _flag(stats: thrift.Said, field: int) -> bool | None:
    """Whether a bound occurs; None: that is not said."""
    found = stats.get(field) if isinstance(stats, dict) else None
    return found if isinstance(found, bool) else None


def _whole(arrays: Iterable[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _heads(footers: Sequence[Footer]) -> tuple[list[Head], Ints, list[FileSchema], Ints]:
    """The distinct heads and which each file has, -1: it could not be read; the distinct forms and which each head has."""
    heads: dict[int, int] = {}
    found: list[Head] = []
    forms: dict[FileSchema, int] = {}
    head, form = np.full(len(footers), UNKNOWN, np.int64), list[int]()
    for i, f in enumerate(footers):
        if f.tail is None:
            continue
        own = f.tail.head
        if id(own) not in heads:
            heads[id(own)] = len(found)
            alike = (
                found
                and own.metadata.schema.equals(found[-1].metadata.schema)
                and own.columns.equals(found[-1].columns, check_metadata=True)
            )
            form.append(
                form[-1]
                if alike
                else forms.setdefault(FileSchema(own.columns, own.physical, f.path), len(forms))
            )
            found.append(own)
        head[i] = heads[id(own)]
    return found, head, list(forms), np.array([*form, UNKNOWN], np.int64)


def _pair(stats: pq.Statistics, footer: Footer) -> tuple[Any, Any]:
    """Both bounds as Python or Arrow values; (None, None) where they cannot be trusted."""
    logical = logical_of("" if stats.logical_type is None else stats.logical_type.to_json())
    try:
        if logical.get("Type") == "Timestamp":
            # As integers of the file's unit: Python's datetime has no nanoseconds.
            kind = pa.timestamp(
                UNITS[logical["timeUnit"]], "UTC" if logical["isAdjustedToUTC"] else None
            )
            low, high = (
                pa.scalar(v, pa.int64()).cast(kind) for v in (stats.min_raw, stats.max_raw)
            )
            if footer.julian and stats.min_raw < SETTLED * 10 ** POWERS[kind.unit]:
                return None, None
            return low, high
        if logical.get("Type") == "Date" and footer.julian and stats.min_raw < GREGORIAN:
            return None, None
        low, high = stats.min, stats.max
    except (
        ValueError,
        KeyError,
        OverflowError,
        pa.ArrowException,
    ):  # undecodable bytes, an unknown unit, a date that Python has no value for
        return None, None
    if isinstance(low, float) and (low != low or high != high):
        # One NaN bound: most writers compared by chance. parquet-mr, Spark's, orders NaN last and keeps the minimum.
        return (low, None) if low == low and footer.orders_nan else (None, None)
    return low, high


def _all_nan(stats: pq.Statistics, footer: Footer) -> bool:
    """Whether the least value is NaN, in a file where nothing lies above it."""
    return (
        stats.physical_type in ("FLOAT", "DOUBLE") and stats.min != stats.min and footer.orders_nan
    )
