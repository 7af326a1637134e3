"""Parquet footers as statistics of row groups."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skipstone.bindings.membership import GREGORIAN, SETTLED
from skipstone.bindings.sources.files import File, partition_array
from skipstone.ir.errors import SourceError
from skipstone.ir.node import Path
from skipstone.ir.types import from_arrow, leaves_of
from skipstone.kernels.columns import Raw

READERS: Final = 16  # footers fetched at a time: most of that is waiting for storage

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Footer:
    """What one file says of itself; `error` where it could not be read."""

    file: File
    metadata: pq.FileMetaData | None
    schema: pa.Schema | None
    error: SourceError | None = None


def read_footers(files: Sequence[File], filesystem: pafs.FileSystem, *, keep: bool, progress: Progress | None = None) -> list[Footer]:
    """Read footers in parallel, in the files' order.

    Raises:
        SourceError: a file is missing, truncated, not Parquet or encrypted; unless `keep`.
    """
    out: list[Footer] = []
    with ThreadPoolExecutor(min(READERS, len(files)) or 1, "skipstone-footers") as readers:
        for footer in readers.map(lambda f: _read(f, filesystem), files):
            if footer.error is not None and not keep:
                readers.shutdown(cancel_futures=True)
                raise footer.error
            out.append(footer)
            if progress is not None:
                progress(len(out), len(files))
    return out


def _read(file: File, filesystem: pafs.FileSystem) -> Footer:
    try:
        with filesystem.open_input_file(file.path) as source:
            metadata = pq.read_metadata(source)
        return Footer(file, metadata, metadata.schema.to_arrow_schema())
    except (OSError, pa.ArrowException, ValueError) as e:
        return Footer(file, None, None, SourceError(f"{file.path}: {_why(e)}"))


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


def common_schema(footers: Sequence[Footer]) -> pa.Schema:
    """One schema for all files: types widen, and a column that some file lacks may be NULL.

    Raises:
        SourceError: two files have types that do not fit together.
    """
    distinct: dict[bytes, Footer] = {}
    for f in footers:
        if f.schema is not None:
            distinct.setdefault(f.schema.remove_metadata().serialize().to_pybytes(), f)
    if not distinct:
        raise SourceError("no file could be read, so the table's columns are not known")
    merged: pa.Schema | None = None
    for f in distinct.values():
        assert f.schema is not None
        plain = pa.schema([field.with_type(_without_views(field.type)) for field in f.schema])
        try:
            merged = plain if merged is None else pa.unify_schemas([merged, plain], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as e:
            raise SourceError(f"{f.file.path}: its columns do not fit those of the other files ({str(e).splitlines()[0]})") from e
    assert merged is not None
    everywhere = set.intersection(*(set(f.schema.names) for f in distinct.values() if f.schema is not None))
    return pa.schema([field if field.name in everywhere else field.with_nullable(True) for field in merged])


def _without_views(t: pa.DataType) -> pa.DataType:
    """View types as plain ones: Arrow's filters and sorts do not take views yet (pyarrow 26)."""
    if pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_binary_view(t):
        return pa.binary()
    if pa.types.is_struct(t):
        return pa.struct([t.field(i).with_type(_without_views(t.field(i).type)) for i in range(t.num_fields)])
    return t


@dataclass(frozen=True, slots=True)
class Container:
    """A row group, or (`row_group` None) a file of which nothing is known."""

    footer: int
    row_group: int | None


class RowGroups(Mapping[Path, Raw]):
    """Statistics of all row groups, column by column, read from the footers when a column is first asked for."""

    def __init__(self, footers: Sequence[Footer], containers: Sequence[Container], schema: pa.Schema, partitions: Sequence[pa.Field]) -> None:
        self._footers, self._containers, self._schema = footers, containers, schema
        self._partitions = {f.name: f for f in partitions}
        self._leaves = {p: leaf for p, leaf in leaves_of(schema).items() if leaf.dtype.ordered}
        self._made: dict[Path, Raw] = {}
        self._index: dict[int, dict[Path, int]] = {}

    def __iter__(self) -> Iterator[Path]:
        return iter(self._leaves)

    def __len__(self) -> int:
        return len(self._leaves)

    def __getitem__(self, path: Path) -> Raw:
        if path not in self._made:
            if path not in self._leaves:
                raise KeyError(path)
            self._made[path] = self._constant(self._partitions[path[0]]) if path[0] in self._partitions else self._column(path)
        return self._made[path]

    def _constant(self, field: pa.Field) -> Raw:
        """A partition value: both bounds at once; NULL is a column of NULLs, whatever the rows."""
        per_footer = pa.concat_arrays([partition_array(f.file, field) for f in self._footers])
        values = per_footer.take(pa.array([c.footer for c in self._containers], pa.int64()))
        nulls = values.is_null().cast(pa.int64())
        ones = pa.array([1] * len(values), pa.int64())
        nans = pc.is_nan(values).fill_null(False).cast(pa.int64()) if pa.types.is_floating(values.type) else None
        return Raw(values, values, nulls, ones, nans)

    def _column(self, path: Path) -> Raw:
        n = len(self._containers)
        low: list[Any] = [None] * n
        high: list[Any] = [None] * n
        nulls: list[int | None] = [None] * n
        nans: list[int | None] = [None] * n
        arrow = _type_at(self._schema, path)
        for i, c in enumerate(self._containers):
            footer = self._footers[c.footer]
            if footer.metadata is None or c.row_group is None:
                continue
            group = footer.metadata.row_group(c.row_group)
            index = self.position(c.footer, path)
            if index is None:
                nulls[i] = group.num_rows  # the file lacks the column: its rows read as NULL
                continue
            chunk = group.column(index)
            stats = chunk.statistics
            if stats is None:
                continue
            if stats.has_null_count:
                nulls[i] = stats.null_count
            if stats.has_min_max and chunk.physical_type != "INT96":
                low[i], high[i] = _pair(stats, footer.metadata)
                if nulls[i] is not None and _all_nan(stats, footer.metadata):
                    nans[i] = group.num_rows - nulls[i]
        return Raw(_as_array(low, arrow), _as_array(high, arrow), pa.array(nulls, pa.int64()), nan_count=pa.array(nans, pa.int64()))

    def is_partition(self, path: Path) -> bool:
        """Whether a column's values come from folders' names, whatever the files hold."""
        return path[0] in self._partitions

    def position(self, footer: int, path: Path) -> int | None:
        """Where a column stands among the Parquet columns of a file; None: the file lacks it."""
        if footer not in self._index:
            schema = self._footers[footer].schema
            self._index[footer] = {} if schema is None else dict(_number(schema))
        return self._index[footer].get(path)


def _number(schema: pa.Schema) -> Iterator[tuple[Path, int]]:
    at = 0
    for field in schema:
        for path, width in _spread(field, ()):
            if path is not None:
                yield path, at
            at += width


def _spread(field: pa.Field, above: Path) -> Iterator[tuple[Path | None, int]]:
    path = (*above, field.name)
    if pa.types.is_struct(field.type):
        for i in range(field.type.num_fields):
            yield from _spread(field.type.field(i), path)
    elif pa.types.is_nested(field.type):
        yield None, _width(field.type)
    else:
        yield path, 1


def _width(t: pa.DataType) -> int:
    if pa.types.is_map(t):
        return _width(t.key_type) + _width(t.item_type)
    if pa.types.is_struct(t):
        return sum(_width(t.field(i).type) for i in range(t.num_fields))
    return _width(t.value_type) if pa.types.is_nested(t) else 1


def _type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    t = schema.field(path[0]).type
    for name in path[1:]:
        t = t.field(name).type
    while pa.types.is_dictionary(t):
        t = t.value_type
    return t


_UNITS: Final = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def _pair(stats: pq.Statistics, metadata: pq.FileMetaData) -> tuple[Any, Any]:
    """Both bounds as Python or Arrow values; (None, None) where they cannot be trusted."""
    logical = json.loads(stats.logical_type.to_json()) if stats.logical_type is not None else {}
    try:
        if logical.get("Type") == "Timestamp":
            # As integers of the file's unit: Python's datetime has no nanoseconds.
            kind = pa.timestamp(_UNITS[logical["timeUnit"]], "UTC" if logical["isAdjustedToUTC"] else None)
            low, high = (pa.scalar(v, pa.int64()).cast(kind) for v in (stats.min_raw, stats.max_raw))
            if _julian(metadata) and stats.min_raw < SETTLED * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]:
                return None, None
            return low, high
        if logical.get("Type") == "Date" and _julian(metadata) and stats.min_raw < GREGORIAN:
            return None, None
        low, high = stats.min, stats.max
    except (ValueError, KeyError, OverflowError, pa.ArrowException):  # undecodable bytes, an unknown unit, a date that Python has no value for
        return None, None
    if isinstance(low, float) and (low != low or high != high):
        # One NaN bound: most writers compared by chance. parquet-mr, Spark's, orders NaN last and keeps the minimum.
        return (low, None) if low == low and _orders_nan(metadata) else (None, None)
    return low, high


def _orders_nan(metadata: pq.FileMetaData) -> bool:
    """Whether the writer's minimum and maximum follow Java's order, in which NaN is last: parquet-mr, Spark's, from 1.10 on."""
    return re.match(r"parquet-mr version 1\.[1-9]\d\.", metadata.created_by or "") is not None


def _all_nan(stats: pq.Statistics, metadata: pq.FileMetaData) -> bool:
    """Whether the least value is NaN, in a file where nothing lies above it."""
    return stats.physical_type in ("FLOAT", "DOUBLE") and stats.min != stats.min and _orders_nan(metadata)


def _julian(metadata: pq.FileMetaData) -> bool:
    """Whether Spark wrote the file in the Julian calendar."""
    notes = metadata.metadata or {}
    version = notes.get(b"org.apache.spark.version")
    return b"org.apache.spark.legacyDateTime" in notes or (version is not None and version < b"3.")


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
