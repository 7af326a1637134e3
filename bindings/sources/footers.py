"""Parquet footers: read from files or from `_metadata`, and what they say of row groups."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.membership import GREGORIAN, SETTLED
from skipstone.bindings.sources.calendar import is_julian
from skipstone.bindings.sources.exact import Flags, read_flags
from skipstone.bindings.sources.files import UNKNOWN, Ints
from skipstone.bindings.sources.forms import Bloom, Form
from skipstone.bindings.work import Meter
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.types import from_arrow
from skipstone.kernels.columns import Raw

READERS: Final = 16  # footers fetched at a time, where most of that is waiting for storage
# Seconds for a footer, of a few, from which on it is. Files in memory take 50 us each, and 190 from 16 threads, which wait
# for the interpreter instead.
SLOW, FEW = 0.001, 16
FETCHED: Final = 1 << 16  # bytes from a file's end that pyarrow asks for at first

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Footer:
    """What one file says of itself, or `_metadata` of it; `error` where it could not be read.

    Attributes:
        path: The file.
        metadata: The footer, or `_metadata`.
        groups: Which of its row groups are the file's, in the file's order.
        own: Whether it is the file's own: only then it tells who wrote the file.
        nbytes: What was asked of storage for it.
    """

    path: str
    metadata: pq.FileMetaData | None
    schema: pa.Schema | None
    groups: Sequence[int] = ()
    error: SourceError | None = None
    own: bool = True
    nbytes: int = 0


def read_footers(paths: Sequence[str], filesystem: pafs.FileSystem, meter: Meter, *, keep: bool, progress: Callable[[int], None] | None = None) -> list[Footer]:
    """Read footers in parallel, in the files' order; `progress` is told how many were read.

    Raises:
        SourceError: a file is missing, truncated, not Parquet or encrypted; unless `keep`.
    """
    out: list[Footer] = []
    with closing(_each_read(paths, filesystem)) as read:
        for footer in read:
            if footer.error is not None and not keep:
                raise footer.error
            out.append(footer)
            meter.count("footers", 1, footer.nbytes)
            if progress is not None:
                progress(len(out))
    return out


def _each_read(paths: Sequence[str], filesystem: pafs.FileSystem) -> Generator[Footer]:
    """Footers in the files' order: one after the other while storage answers at once, else many at a time."""
    at, quick = 0, True
    while quick and at < len(paths):
        start, some = time.perf_counter(), paths[at : at + FEW]
        read = [_read(path, filesystem) for path in some]
        quick, at = time.perf_counter() - start < SLOW * len(some), at + len(some)
        yield from read
    with ThreadPoolExecutor(READERS, "skipstone-footers") as readers:
        try:
            yield from readers.map(lambda path: _read(path, filesystem), paths[at:])
        finally:
            readers.shutdown(wait=False, cancel_futures=True)


def _read(path: str, filesystem: pafs.FileSystem) -> Footer:
    try:
        with filesystem.open_input_file(path) as source:
            metadata = pq.read_metadata(source)
            nbytes = max(min(source.size(), FETCHED), metadata.serialized_size + 8)
        schema = schema_of(metadata)
        if len(set(schema.names)) < len(schema.names):
            twice = next(name for name in schema.names if schema.names.count(name) > 1)
            return Footer(path, None, None, error=SourceError(f"{path}: has two columns named {twice!r}; expected each name once"))
        return Footer(path, metadata, schema, range(metadata.num_row_groups), nbytes=nbytes)
    except (OSError, pa.ArrowException, ValueError) as e:
        return Footer(path, None, None, error=SourceError(f"{path}: {_why(e)}"))


def schema_of(metadata: pq.FileMetaData) -> pa.Schema:
    """The columns of a file. Those of type INT96 are TIMESTAMP, as Spark has it, in microseconds: as nanoseconds the year 3000 would be 1830."""
    schema = metadata.schema.to_arrow_schema()
    if not any(_has_nanoseconds(f.type) for f in schema):
        return schema
    columns = (metadata.schema.column(i) for i in range(metadata.num_columns))
    old = {c.path for c in columns if c.physical_type == "INT96"}
    return pa.schema([_modern(f, f.name, old) for f in schema], schema.metadata) if old else schema


def _has_nanoseconds(t: pa.DataType) -> bool:
    return any(_has_nanoseconds(f.type) for f in t) if pa.types.is_struct(t) else bool(t == pa.timestamp("ns"))


def _modern(f: pa.Field, path: str, old: set[str]) -> pa.Field:
    if pa.types.is_struct(f.type):
        return f.with_type(pa.struct([_modern(inner, f"{path}.{inner.name}", old) for inner in f.type]))
    return f.with_type(pa.timestamp("us", "UTC")) if path in old else f


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
    """The row groups of files whose footers were read (`Part` in bindings/sources/groups.py says what its members are)."""

    def __init__(self, footers: Sequence[Footer], files: Ints, filesystem: pafs.FileSystem, meter: Meter) -> None:
        self.footers, self.files = footers, files
        self._filesystem, self._meter = filesystem, meter
        self.forms, self.form = _forms(footers)
        groups = [f.groups if f.metadata is not None else (UNKNOWN,) for f in footers]
        self.owner = np.repeat(np.arange(len(footers)), [len(g) for g in groups])
        self.group = np.concatenate(
            [np.zeros(0, np.int64), *(np.arange(len(g)) if f.metadata is not None else [UNKNOWN] for f, g in zip(footers, groups, strict=True))]
        )
        self.rows = np.array([UNKNOWN if g is None else g.num_rows for _, _, g in self._each()], np.int64)

    def _each(self) -> Iterator[tuple[Footer, int, pq.RowGroupMetaData | None]]:
        """Footer, form, and what is said, of each row group."""
        for footer, form in zip(self.footers, self.form.tolist(), strict=True):
            if footer.metadata is None:
                yield footer, form, None
            else:
                yield from ((footer, form, footer.metadata.row_group(g)) for g in footer.groups)

    @cached_property
    def nbytes(self) -> Ints:
        """Compressed bytes of each row group; -1 is unknown."""
        return np.array([UNKNOWN if g is None else sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for _, _, g in self._each()], np.int64)

    def raw(self, path: Path, kind: pa.DataType) -> Raw:
        """Statistics of one column whose values the table has as `kind`."""
        n = len(self.owner)
        low: list[Any] = [None] * n
        high: list[Any] = [None] * n
        nulls: list[int | None] = [None] * n
        nans: list[int | None] = [None] * n
        at = [f.position(path) for f in self.forms]
        readable, lacking = [f.widens(path, kind) for f in self.forms], [f.lacks(path) for f in self.forms]
        for i, (footer, form, group) in enumerate(self._each()):
            if group is None:
                continue
            index = at[form]
            if index is None:
                if lacking[form]:
                    nulls[i] = group.num_rows  # the file lacks the column: its rows read as NULL
                continue
            stats = group.column(index).statistics
            if stats is None or not readable[form]:
                continue
            if stats.has_null_count:
                nulls[i] = stats.null_count
            if stats.has_min_max and stats.physical_type != "INT96":
                low[i], high[i] = _pair(stats, footer)
                if nulls[i] is not None and _all_nan(stats, footer):
                    nans[i] = group.num_rows - nulls[i]
        return Raw(_as_array(low, kind), _as_array(high, kind), pa.array(nulls, pa.int64()), nan_count=pa.array(nans, pa.int64()))

    def exact(self, path: Path) -> tuple[pa.Array, pa.Array]:
        """Whether min and max are values that occur, bool; null is unknown. Footers are fetched again for it, once."""
        at = [f.position(path) for f in self.forms]
        found = [self._flag(o, g, None if (form := self.form[o]) < 0 else at[form]) for o, g in zip(self.owner.tolist(), self.group.tolist(), strict=True)]
        return pa.array([f[0] for f in found], pa.bool_()), pa.array([f[1] for f in found], pa.bool_())

    def _flag(self, owner: int, group: int, index: int | None) -> tuple[bool | None, bool | None]:
        flags = self._flags[owner]
        known = index is not None and 0 <= group < len(flags) and index < len(flags[group])
        return flags[group][index] if known and index is not None else (None, None)

    @cached_property
    def _flags(self) -> list[Flags]:
        paths = [None if f.metadata is None else f.path for f in self.footers]
        with ThreadPoolExecutor(min(READERS, len(paths)) or 1, "skipstone-footers") as readers:
            found = list(readers.map(lambda p: ([], 0) if p is None else read_flags(p, self._filesystem), paths))
        self._meter.count("footers", sum(p is not None for p in paths), sum(nbytes for _, nbytes in found))
        return [flags for flags, _ in found]

    def blooms(self, path: Path) -> dict[int, Bloom]:
        """Where the bloom filters of a column lie, of the row groups that have one."""
        found = {}
        stored, at = [f.stored(path) for f in self.forms], [f.position(path) for f in self.forms]
        for i, (_, form, group) in enumerate(self._each()):
            index = None if group is None else at[form]
            kind = None if index is None else stored[form]
            if group is not None and kind is not None and (chunk := group.column(index)).bloom_filter_offset is not None:
                found[i] = Bloom(chunk.bloom_filter_offset, chunk.bloom_filter_length, kind)
        return found


def _forms(footers: Sequence[Footer]) -> tuple[list[Form], Ints]:
    """The distinct forms of files, and which each has; -1: it could not be read."""
    known: dict[Form, int] = {}
    codes = np.full(len(footers), UNKNOWN, np.int64)
    last: tuple[pa.Schema, pq.ParquetSchema, int] | None = None
    for i, f in enumerate(footers):
        if f.metadata is None or f.schema is None:
            continue
        if last is None or not (f.metadata.schema.equals(last[1]) and f.schema.equals(last[0])):
            columns = [f.metadata.schema.column(c) for c in range(len(f.metadata.schema))]
            form = Form(f.schema.remove_metadata(), tuple((c.physical_type, c.length) for c in columns), f.path)
            last = f.schema, f.metadata.schema, known.setdefault(form, len(known))
        codes[i] = last[2]
    return list(known), codes


_UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def _pair(stats: pq.Statistics, footer: Footer) -> tuple[Any, Any]:
    """Both bounds as Python or Arrow values; (None, None) where they cannot be trusted."""
    logical = json.loads(stats.logical_type.to_json()) if stats.logical_type is not None else {}
    try:
        if logical.get("Type") == "Timestamp":
            # As integers of the file's unit: Python's datetime has no nanoseconds.
            kind = pa.timestamp(_UNITS[logical["timeUnit"]], "UTC" if logical["isAdjustedToUTC"] else None)
            low, high = (pa.scalar(v, pa.int64()).cast(kind) for v in (stats.min_raw, stats.max_raw))
            if _julian(footer) and stats.min_raw < SETTLED * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]:
                return None, None
            return low, high
        if logical.get("Type") == "Date" and _julian(footer) and stats.min_raw < GREGORIAN:
            return None, None
        low, high = stats.min, stats.max
    except (ValueError, KeyError, OverflowError, pa.ArrowException):  # undecodable bytes, an unknown unit, a date that Python has no value for
        return None, None
    if isinstance(low, float) and (low != low or high != high):
        # One NaN bound: most writers compared by chance. parquet-mr, Spark's, orders NaN last and keeps the minimum.
        return (low, None) if low == low and _orders_nan(footer) else (None, None)
    return low, high


def _orders_nan(footer: Footer) -> bool:
    """Whether the writer's minimum and maximum follow Java's order, in which NaN is last: parquet-mr, Spark's, from 1.10 on."""
    assert footer.metadata is not None
    return footer.own and re.match(r"parquet-mr version 1\.[1-9]\d\.", footer.metadata.created_by or "") is not None


def _all_nan(stats: pq.Statistics, footer: Footer) -> bool:
    """Whether the least value is NaN, in a file where nothing lies above it."""
    return stats.physical_type in ("FLOAT", "DOUBLE") and stats.min != stats.min and _orders_nan(footer)


def _julian(footer: Footer) -> bool:
    """Whether Spark wrote the file in the Julian calendar, or may have: `_metadata` does not tell."""
    assert footer.metadata is not None
    return not footer.own or is_julian(footer.metadata.metadata or {})


def _as_array(values: list[Any], arrow: pa.DataType) -> pa.Array:
    from skipstone.bindings.given import values_of

    if pa.types.is_timestamp(arrow):
        kinds = {v.type for v in values if v is not None}
        zoned = arrow.tz is not None
        if not kinds or any((k.tz is not None) != zoned for k in kinds):
            return pa.nulls(len(values), arrow)
        # Units may differ between files. The finest holds every value; bounds that overflow it are unknown.
        unit = max((k.unit for k in kinds), key=("s", "ms", "us", "ns").index)
        wide = pa.timestamp(unit, arrow.tz)
        return pa.array([_rescale(v, wide) for v in values], pa.int64()).cast(wide)
    return values_of(values, arrow, from_arrow(arrow))


def _rescale(value: pa.Scalar | None, wide: pa.DataType) -> int | None:
    if value is None:
        return None
    per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    ticks = value.cast(pa.int64()).as_py() * (per[wide.unit] // per[value.type.unit])
    return ticks if -(2**63) <= ticks < 2**63 else None
