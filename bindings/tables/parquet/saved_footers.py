"""Snapshots of footers: the file that `save_stats` writes, so that footers are read only once.

A snapshot stores columns, not footers. Reading a bound reads one column, and a million files are a
few arrays instead of a million structures to decode. One row is one row group; a file without row
groups has one row.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.statistics.casts import cast_or_null
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.layout import MALFORMED, wrong
from skipstone.bindings.statistics.store.table_file import read_table, write_table
from skipstone.bindings.tables.files import UNKNOWN, Files, Ints
from skipstone.bindings.tables.identity import change_times, settled
from skipstone.bindings.tables.parquet.file_schemas import BloomLocation, FileSchema, widens
from skipstone.bindings.tables.parquet.groups import Exactness, RowGroups, first_positions
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, int64_of, python_array
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import StatisticsError, describe_error
from skipstone.ir.node import Path
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Mask

METADATA_KEY: Final = b"skipstone"
AT_ONCE: Final = 8  # columns that are looked up together: memory grows with them


def write_snapshot(
    groups: RowGroups,
    exact: Exactness,
    listed: int,
    source: pafs.FileSystem,
    filesystem: pafs.FileSystem,
    path: str,
) -> None:
    """Save the statistics of a table's files.

    Args:
        groups: The row groups.
        exact: True if bounds occur in a row.
        listed: The time before the files were listed, in ns since 1970.
        source: The file system of the table's files.
        filesystem: The file system of `path`.
        path: The file to write.

    Raises:
        OSError: the file cannot be written.
    """
    files = groups.files
    # An etag identifies a file's content, and so does an old enough modification time.
    identified = settled(files.times, listed) | np.asarray(files.etags.is_valid(), np.bool_)
    if isinstance(source, pafs.LocalFileSystem):
        changed = change_times(files.paths.to_pylist())
        identified &= (changed != UNKNOWN) & (changed < listed)  # else not what was read
        files = replace(files, etags=_tags(changed))
    table = _table(groups, files, exact, identified)
    if isinstance(filesystem, pafs.LocalFileSystem):
        with replacing(path) as file:
            write_table(file, table)
    else:
        # Object stores show only whole objects. Elsewhere, a partly written file lacks its end and
        # is refused.
        with filesystem.open_output_stream(path) as sink:
            write_table(sink, table)


def _tags(changed: Ints) -> pa.StringArray:
    """Return times of change as etags."""
    return pc.cast(arrow_of(changed, changed != UNKNOWN), pa.string())


def _table(groups: RowGroups, all_files: Files, exact: Exactness, identified: Mask) -> pa.Table:
    """Return the table of a snapshot.

    Args:
        groups: The row groups.
        all_files: Their files, with etags to save.
        exact: True if bounds occur in a row.
        identified: Mask of the files to save, by position in the table.
    """
    schemas, codes = _number_schemas(groups)
    saved = identified & (codes != UNKNOWN)
    which = np.flatnonzero(saved[groups.file])
    without_groups = np.setdiff1d(np.flatnonzero(saved), groups.file)
    file, at = np.concatenate([groups.file[which], without_groups]), arrow_of(which)
    blank = np.full(len(without_groups), UNKNOWN)

    def column(values: pa.Array) -> pa.Array:
        return pa.concat_arrays([values.take(at), pa.nulls(len(without_groups), values.type)])

    files = all_files.take(file)
    columns: dict[str, Any] = {
        "path": files.paths.dictionary_encode(),
        "size": files.sizes,
        "time": files.times,
        "etag": files.etags,
        "form": codes[file],
        "group": np.concatenate([groups.group[which], blank]),
        "rows": np.concatenate([groups.rows[which], blank]),
        "bytes": np.concatenate([groups.nbytes[which], blank]),
    }
    paths = [p for p in (*exact, *sorted(exact.parts)) if not groups.is_partition(p)]
    for i, path in enumerate(paths):
        if i % AT_ONCE == 0:
            groups.load(paths[i : i + AT_ONCE])
        raw = groups.raw(path)
        statistics = {
            "min": raw.min,
            "max": raw.max,
            "null_count": raw.null_count,
            "nan_count": raw.nan_count,
            **exact[path],
        }
        if blooms := groups.blooms(path):
            locations = [blooms.get(g) for g in range(len(groups))]
            offsets = [None if b is None else b.offset for b in locations]
            lengths = [None if b is None else b.length for b in locations]
            statistics["bloom"] = python_array(offsets, pa.int64())
            statistics["bloom_length"] = python_array(lengths, pa.int64())
        columns.update(
            {f"{i}.{key}": column(array) for key, array in statistics.items() if array is not None}
        )
    metadata = {
        "notes": True,  # schemas have notes on columns that mean more in Spark than their type
        "columns": paths,
        "forms": [
            {
                "schema": base64.b64encode(f.schema.serialize().to_pybytes()).decode(),
                "physical": f.physical,
            }
            for f in schemas
        ],
    }
    return pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(metadata)})


def _number_schemas(groups: RowGroups) -> tuple[list[FileSchema], Ints]:
    """Return the distinct schemas of all files, and the number of each file's schema.

    The number is -1 if a file could not be read.
    """
    numbers: dict[FileSchema, int] = {}
    codes = np.full(len(groups.files), UNKNOWN, np.int64)
    for part in groups.parts:
        own = [numbers.setdefault(f, len(numbers)) for f in part.schemas]
        codes[part.files] = np.array([*own, UNKNOWN], np.int64)[part.schema_number]
    return list(numbers), codes


class Snapshot:
    """A saved snapshot of the footers of n files.

    Args:
        path: The path that it was read from, for error messages.
        data: Its bytes.

    Attributes:
        table: The rows: one per row group, or one for a file without row groups.
        positions: Name of a column of `table` -> its position.
        columns: Path of a column -> the prefix of its statistics in `table`.
        group, rows, nbytes, schema_number: Columns of `table`; -1 is unknown.
        paths, sizes, times, etags: The files, length n, in the order of `paths`.
        starts, ends: The rows of each file, half-open, shape (n,).
        schemas: The distinct schemas.

    Raises:
        StatisticsError: the file is not a snapshot, is damaged, or another version wrote it.
    """

    def __init__(self, path: str, data: pa.Buffer) -> None:
        try:
            self._load(path, data)
        except StatisticsError:
            raise
        except (*MALFORMED, OSError, pa.ArrowException) as e:
            raise wrong(
                path,
                f"is not what this version writes ({describe_error(e)})",
                "call save_stats again",
            ) from e

    def _load(self, path: str, data: pa.Buffer) -> None:
        table = read_table(path, data).combine_chunks()
        metadata = json.loads(table.schema.metadata[METADATA_KEY])
        self.table, _ = table, metadata["notes"]
        self.positions = {name: i for i, name in enumerate(table.column_names)}
        self.columns: dict[Path, int] = {tuple(p): i for i, p in enumerate(metadata["columns"])}
        self.group, self.rows, self.nbytes, self.schema_number, sizes, times = (
            self._ints(k) for k in ("group", "rows", "bytes", "form", "size", "time")
        )
        names = table.column("path").combine_chunks()
        codes = int64_of(names.indices)
        first = np.flatnonzero(np.diff(codes, prepend=-1))
        order = first[np.argsort(codes[first], kind="stable")]
        has_schema = (self.schema_number >= 0) & (self.schema_number < len(metadata["forms"]))
        if (np.diff(codes[order]) == 0).any() or not has_schema.all():
            raise ValueError("the rows of a file are not adjacent, or have no schema")
        self.starts = order
        self.ends = np.append(first, len(codes))[np.searchsorted(first, order) + 1]
        self.paths = names.dictionary.take(arrow_of(codes[order]))
        example = first_positions(self.schema_number[order], len(metadata["forms"])).tolist()
        self.schemas = [
            _decode_schema(f, path if at < 0 else self.paths[at].as_py())
            for at, f in zip(example, metadata["forms"], strict=True)
        ]
        self.sizes, self.times = sizes[order], times[order]
        self.etags = table.column("etag").combine_chunks().take(arrow_of(order))

    def _ints(self, name: str) -> Ints:
        return int64_of(self.table.column(name))

    def part(self, files: Files, filesystem: pafs.FileSystem) -> SavedPart:
        """Return the row groups of the files that did not change since they were saved.

        A file is unchanged if its size and time are the same, and its etag if it has one. Without
        an etag, its time must be known. The etag of a local file is the time of its last change,
        which no program can set.
        """
        listed_at, saved_at = self._find(files.paths)
        etags = files.etags.take(arrow_of(listed_at))
        if isinstance(filesystem, pafs.LocalFileSystem):
            etags = _tags(change_times(files.paths.take(arrow_of(listed_at)).to_pylist()))
        saved_etags = self.etags.take(arrow_of(saved_at))
        same_etag = booleans_of(pc.equal(etags, saved_etags))
        no_etags = np.asarray(pc.and_(etags.is_null(), saved_etags.is_null()))
        times = files.times[listed_at]
        unchanged = (
            (files.sizes[listed_at] == self.sizes[saved_at])
            & (times == self.times[saved_at])
            & (same_etag | (no_etags & (times != UNKNOWN)))
        )
        return SavedPart(self, listed_at[unchanged], saved_at[unchanged])

    def _find(self, paths: pa.StringArray) -> tuple[Ints, Ints]:
        """Return the positions of the saved files in `paths`, and in this snapshot."""
        if paths.equals(self.paths):  # no file was added or removed: no path is looked up
            return np.arange(len(paths)), np.arange(len(paths))
        index = pc.index_in(paths, value_set=self.paths)
        saved = np.flatnonzero(booleans_of(index.is_valid()))
        return saved, int64_of(index.drop_null())


def _decode_schema(saved: dict[str, Any], example: str) -> FileSchema:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(saved["schema"])))
    return FileSchema(
        schema, tuple((str(kind), int(length)) for kind, length in saved["physical"]), example
    )


class SavedPart:
    """The row groups of files that a snapshot describes.

    `RowGroupPart` in bindings/tables/parquet/groups.py documents the members.

    Args:
        snapshot: The snapshot.
        files: The position of each file in the table.
        saved: The position of each file in the snapshot.
    """

    def __init__(self, snapshot: Snapshot, files: Ints, saved: Ints) -> None:
        self._snapshot, self.files, self.saved = snapshot, files, saved
        self.schemas, self.schema_number = (
            snapshot.schemas,
            snapshot.schema_number[snapshot.starts[saved]],
        )
        counts = snapshot.ends[saved] - snapshot.starts[saved]
        owner = np.repeat(np.arange(len(files)), counts)
        rows = np.arange(int(counts.sum())) + np.repeat(
            snapshot.starts[saved] - (np.cumsum(counts) - counts), counts
        )
        is_group = snapshot.group[rows] != UNKNOWN  # files without row groups also have a row
        self.owner, self._rows_at = owner[is_group], rows[is_group]
        self.group, self.rows, self.nbytes = (
            a[self._rows_at] for a in (snapshot.group, snapshot.rows, snapshot.nbytes)
        )

    @cached_property
    def _has_all_rows(self) -> bool:
        return len(self._rows_at) == self._snapshot.table.num_rows and bool(
            (np.diff(self._rows_at) == 1).all()
        )

    def _column(self, name: str) -> pa.Array | None:
        at = self._snapshot.positions.get(name)
        if at is None:
            return None
        values = self._snapshot.table.column(at).combine_chunks()
        return values if self._has_all_rows else values.take(arrow_of(self._rows_at))

    def _per_schema(self, test: Sequence[bool]) -> Mask:
        """Return a test of the file schemas for each row group."""
        mask: Mask = np.array([*test, False], np.bool_)[self.schema_number[self.owner]]
        return mask

    def load(self, paths: Sequence[Path]) -> None:
        """Do nothing: the snapshot stores each column by itself."""

    def raw(self, path: Path, arrow_type: pa.DataType) -> ColumnStatistics:
        """Return the statistics of one column, with bounds of the table's type `arrow_type`."""
        lacking = self._per_schema([f.lacks(path) for f in self.schemas])
        readable = self._per_schema([f.widens(path, arrow_type) for f in self.schemas])
        at = arrow_of(np.arange(len(readable)), readable)
        i = self._snapshot.columns.get(path)
        saved = (
            None if i is None else self._column(f"{i}.{key}")
            for key in ("min", "max", "null_count", "nan_count")
        )
        low, high, count, nans = (a if a is None or readable.all() else a.take(at) for a in saved)
        nulls = arrow_of(self.rows, lacking)
        if count is not None:
            nulls = pc.if_else(arrow_of(lacking), nulls, count)
        return ColumnStatistics(
            _widen(low, arrow_type), _widen(high, arrow_type), nulls, nan_count=nans
        )

    def exact(self, path: Path) -> tuple[pa.Array, pa.Array]:
        """Return whether min and max occur in a row, as bool arrays; null is unknown."""
        i = self._snapshot.columns.get(path)
        saved = [
            None if i is None else self._column(f"{i}.{key}") for key in ("min_exact", "max_exact")
        ]
        low, high = (pa.nulls(len(self.owner), pa.bool_()) if a is None else a for a in saved)
        return low, high

    def blooms(self, path: Path) -> dict[int, BloomLocation]:
        """Return row group -> location of a column's bloom filter, where there is one."""
        i = self._snapshot.columns.get(path)
        offsets, lengths = (
            None if i is None else self._column(f"{i}.{key}") for key in ("bloom", "bloom_length")
        )
        if offsets is None or lengths is None:
            return {}
        stored = [f.stored_type(path) for f in self.schemas]
        numbers = self.schema_number[self.owner].tolist()
        return {
            g: BloomLocation(offset, length, kind)
            for g, (offset, length, number) in enumerate(
                zip(offsets.to_pylist(), lengths.to_pylist(), numbers, strict=True)
            )
            if offset is not None and (kind := stored[number]) is not None
        }


def _widen(values: pa.Array | None, arrow_type: pa.DataType) -> pa.Array | None:
    """Return bounds as a wider type; None if their type does not widen to `arrow_type`.

    Bounds of timestamps may keep a finer unit than the column.
    """
    if values is None:
        return None
    if pa.types.is_timestamp(arrow_type) and pa.types.is_timestamp(values.type):
        return values if (arrow_type.tz is None) == (values.type.tz is None) else None
    # A snapshot stores integers as wide as the widest file has them.
    integers = pa.types.is_integer(arrow_type) and pa.types.is_integer(values.type)
    if integers or widens(values.type, arrow_type):
        return cast_or_null(values, arrow_type).combine_chunks()
    return None
