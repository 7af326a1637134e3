"""Snapshots of footers: what `save_stats` keeps of a table's files, so that footers are read once.

Columns, not footers: a bound is then read by its column alone, and a million files are a few arrays instead of a million
structures to decode. One row is one row group; a file without row groups has a row of its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from skipstone.bindings.location import REFUSED, in_folder, one_line, resolve, shown
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.statistics.casts import attempt
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.checked import read_table, write_table
from skipstone.bindings.statistics.store.layout import MALFORMED, wrong
from skipstone.bindings.statistics.store.settled import settled
from skipstone.bindings.tables.files import UNKNOWN, Files, Ints
from skipstone.bindings.tables.parquet.file_schemas import Bloom, FileSchema, widens
from skipstone.bindings.tables.parquet.groups import Exactness, RowGroups, first_of
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, StatisticsError, told
from skipstone.ir.node import Path
from skipstone.kernels.pack.columns import Raw
from skipstone.kernels.pack.planes import Mask

NAME: Final = "_skipstone_stats"  # hidden from Spark, and from our own listings
ABOUT: Final = b"skipstone"


def write_snapshot(
    groups: RowGroups, exact: Exactness, listed: int, filesystem: pafs.FileSystem, path: str
) -> None:
    """Save what is known of a table's files; `listed` is the time, in ns since 1970, before they were listed."""
    # An etag tells as well as a time that had passed.
    told = settled(groups.files.times, listed) | np.asarray(groups.files.etags.is_valid(), np.bool_)
    table = _table(groups, exact, told)
    if isinstance(filesystem, pafs.LocalFileSystem):
        with replacing(path) as file:
            write_table(file, table)
    else:  # a name of an object store is given to whole objects; elsewhere a torn file is told by its tail
        with filesystem.open_output_stream(path) as sink:
            write_table(sink, table)


def _table(groups: RowGroups, exact: Exactness, told: Mask) -> pa.Table:
    forms, codes = _numbered(groups)
    kept = told & (codes != UNKNOWN)
    which = np.flatnonzero(kept[groups.file])
    bare = np.setdiff1d(np.flatnonzero(kept), groups.file)  # without row groups
    file, at = np.concatenate([groups.file[which], bare]), pa.array(which)
    blank = np.full(len(bare), UNKNOWN)

    def column(values: pa.Array) -> pa.Array:
        return pa.concat_arrays([values.take(at), pa.nulls(len(bare), values.type)])

    files = groups.files.take(file)
    columns: dict[str, Any] = {
        "path": files.paths.dictionary_encode(), "size": files.sizes, "time": files.times, "etag": files.etags, "form": codes[file],
        "group": np.concatenate([groups.group[which], blank]),
        "rows": np.concatenate([groups.rows[which], blank]),
        "bytes": np.concatenate([groups.nbytes[which], blank]),
    }  # fmt: skip
    paths = [p for p in exact if not groups.is_partition(p)]
    for i, path in enumerate(paths):
        raw = groups.raw(path)
        known = {
            "min": raw.min,
            "max": raw.max,
            "null_count": raw.null_count,
            "nan_count": raw.nan_count,
            **exact[path],
        }
        columns.update(
            {f"{i}.{key}": column(values) for key, values in known.items() if values is not None}
        )
        if blooms := groups.blooms(path):
            every = range(len(groups))
            columns[f"{i}.bloom"] = column(
                pa.array([blooms[g].offset if g in blooms else None for g in every], pa.int64())
            )
            columns[f"{i}.bloom_length"] = column(
                pa.array([blooms[g].length if g in blooms else None for g in every], pa.int64())
            )
    about = {
        "notes": True,  # schemas have notes on columns that are more to Spark than their type
        "columns": paths,
        "forms": [
            {
                "schema": base64.b64encode(f.schema.serialize().to_pybytes()).decode(),
                "physical": f.physical,
            }
            for f in forms
        ],
    }
    return pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(about)})


def _numbered(groups: RowGroups) -> tuple[list[FileSchema], Ints]:
    """The distinct forms of all files, and which each has; -1: it could not be read."""
    known: dict[FileSchema, int] = {}
    codes = np.full(len(groups.files), UNKNOWN, np.int64)
    for part in groups.parts:
        own = np.array([known.setdefault(f, len(known)) for f in part.forms] + [UNKNOWN], np.int64)
        codes[part.files] = own[part.form]
    return list(known), codes


class Snapshot:
    """Footers that were saved.

    Raises:
        StatisticsError: the file is not one, is damaged, or another version wrote it.
    """

    def __init__(self, path: str, data: pa.Buffer) -> None:
        try:
            table = read_table(path, data).combine_chunks()
            about = json.loads(table.schema.metadata[ABOUT])
            self.table, _ = table, about["notes"]
            self.columns: dict[Path, int] = {tuple(p): i for i, p in enumerate(about["columns"])}
            self.group, self.rows, self.nbytes, self.form, sizes, times = (
                self._ints(k) for k in ("group", "rows", "bytes", "form", "size", "time")
            )
            names = table.column("path").combine_chunks()
            codes = names.indices.to_numpy()
            first = np.flatnonzero(np.diff(codes, prepend=-1))
            order = first[np.argsort(codes[first], kind="stable")]
            if (np.diff(codes[order]) == 0).any() or (
                len(codes) and not 0 <= self.form.min() <= self.form.max() < len(about["forms"])
            ):
                raise ValueError("rows of one file lie apart, or have no form")
            self.starts, self.ends = (
                order,
                np.append(first, len(codes))[np.searchsorted(first, order) + 1],
            )
            self.paths = names.dictionary.take(pa.array(codes[order]))
            example = first_of(self.form[order], len(about["forms"])).tolist()
            self.forms = [
                _form(f, path if at < 0 else self.paths[at].as_py())
                for at, f in zip(example, about["forms"], strict=True)
            ]
            self.sizes, self.times, self.etags = (
                sizes[order],
                times[order],
                table.column("etag").combine_chunks().take(pa.array(order)),
            )
        except StatisticsError:
            raise
        except (*MALFORMED, OSError, pa.ArrowException) as e:
            raise wrong(
                path,
                f"is not what this version writes ({told(e)})",
                "call save_stats again",
            ) from e

    def _ints(self, name: str) -> Ints:
        return np.asarray(self.table.column(name).to_numpy(), np.int64)

    def part(self, files: Files) -> SavedPart:
        """What is saved of those files that are still the same: of one size, and of one time and etag as far as there are any."""
        here, at = self._places(files.paths)
        now, then = files.etags.take(pa.array(here)), self.etags.take(pa.array(at))
        tagged = np.asarray(pc.equal(now, then).fill_null(False))
        untagged = np.asarray(pc.and_(now.is_null(), then.is_null()))
        time, known = files.times[here], files.times[here] != UNKNOWN
        same = (
            (files.sizes[here] == self.sizes[at])
            & (time == self.times[at])
            & (tagged | (untagged & known))
        )
        return SavedPart(self, here[same], at[same])

    def _places(self, paths: pa.StringArray) -> tuple[Ints, Ints]:
        """Which of some paths are saved, and where."""
        if paths.equals(self.paths):  # a table to which nothing came: no path is looked up
            return np.arange(len(paths)), np.arange(len(paths))
        found = pc.index_in(paths, value_set=self.paths)
        here = np.flatnonzero(np.asarray(found.is_valid(), np.bool_))
        return here, np.asarray(found.drop_null().to_numpy(), np.int64)


def _form(told: dict[str, Any], example: str) -> FileSchema:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told["schema"])))
    return FileSchema(
        schema, tuple((str(kind), int(length)) for kind, length in told["physical"]), example
    )


class SavedPart:
    """Files of a table of which a snapshot tells (`Part` in bindings/tables/parquet/groups.py says what its members are)."""

    def __init__(self, snapshot: Snapshot, files: Ints, saved: Ints) -> None:
        self._snapshot, self.files, self.saved = snapshot, files, saved
        self.forms, self.form = snapshot.forms, snapshot.form[snapshot.starts[saved]]
        counts = snapshot.ends[saved] - snapshot.starts[saved]
        owner = np.repeat(np.arange(len(files)), counts)
        rows = np.arange(int(counts.sum())) + np.repeat(
            snapshot.starts[saved] - (np.cumsum(counts) - counts), counts
        )
        real = snapshot.group[rows] != UNKNOWN
        self.owner, self._which = owner[real], rows[real]
        self.group, self.rows, self.nbytes = (
            a[self._which] for a in (snapshot.group, snapshot.rows, snapshot.nbytes)
        )

    @cached_property
    def _all(self) -> bool:
        return len(self._which) == self._snapshot.table.num_rows and bool(
            (np.diff(self._which) == 1).all()
        )

    def _column(self, name: str) -> pa.Array | None:
        if name not in self._snapshot.table.column_names:
            return None
        values = self._snapshot.table.column(name).combine_chunks()
        return values if self._all else values.take(pa.array(self._which))

    def _by_form(self, test: Sequence[bool]) -> Mask:
        told: Mask = np.array([*test, False], np.bool_)[self.form[self.owner]]
        return told

    def raw(self, path: Path, kind: pa.DataType) -> Raw:
        """Statistics of one column whose values the table has as `kind`."""
        lacking = self._by_form([f.lacks(path) for f in self.forms])
        readable = self._by_form([f.widens(path, kind) for f in self.forms])
        at = pa.array(np.arange(len(readable)), mask=~readable)
        i = self._snapshot.columns.get(path)
        found = (
            None if i is None else self._column(f"{i}.{key}")
            for key in ("min", "max", "null_count", "nan_count")
        )
        low, high, count, nans = (a if a is None or readable.all() else a.take(at) for a in found)
        nulls = pa.array(self.rows, pa.int64(), mask=~lacking)
        if count is not None:
            nulls = pc.if_else(pa.array(lacking), nulls, count)
        return Raw(_widened(low, kind), _widened(high, kind), nulls, nan_count=nans)

    def exact(self, path: Path) -> tuple[pa.Array, pa.Array]:
        """Whether min and max are values that occur."""
        i = self._snapshot.columns.get(path)
        found = [
            None if i is None else self._column(f"{i}.{key}") for key in ("min_exact", "max_exact")
        ]
        low, high = (pa.nulls(len(self.owner), pa.bool_()) if a is None else a for a in found)
        return low, high

    def blooms(self, path: Path) -> dict[int, Bloom]:
        """Where bloom filters of a column lie."""
        i = self._snapshot.columns.get(path)
        offsets, lengths = (
            None if i is None else self._column(f"{i}.{key}") for key in ("bloom", "bloom_length")
        )
        if offsets is None or lengths is None:
            return {}
        stored = [f.stored(path) for f in self.forms]
        forms = self.form[self.owner].tolist()
        return {
            g: Bloom(offset, length, kind)
            for g, (offset, length, form) in enumerate(
                zip(offsets.to_pylist(), lengths.to_pylist(), forms, strict=True)
            )
            if offset is not None and (kind := stored[form]) is not None
        }


def _widened(values: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    """Bounds as values of a type that theirs widens to; None: it does not. Of a timestamp they may be finer than the column."""
    if values is None:
        return None
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type):
        return values if (kind.tz is None) == (values.type.tz is None) else None
    whole = pa.types.is_integer(kind) and pa.types.is_integer(
        values.type
    )  # saved wider than the files have them
    return attempt(values, kind).combine_chunks() if whole or widens(values.type, kind) else None


def find_snapshot(
    stats: str | bool | None, root: str | None, filesystem: pafs.FileSystem, meter: Meter
) -> Snapshot | None:
    """The snapshot to use: the one that is named, or one beside the data that can be used.

    Raises:
        SourceError: the one that is named is not there.
        StatisticsError: it cannot be used.
    """
    if stats is False or (stats is None and root is None):
        return None
    fs, path = (
        (filesystem, in_folder(root or "", NAME))
        if not isinstance(stats, str)
        else resolve(stats, None)
    )
    try:
        with fs.open_input_file(path) as source:
            data = source.read_buffer()
    except REFUSED as e:
        if isinstance(stats, str):
            raise SourceError(
                f"{shown(stats)}: the statistics cannot be read ({one_line(e)}); name a file that save_stats wrote, or leave stats out"
            ) from e
        return None
    meter.count("snapshots", 1, data.size)
    try:
        return Snapshot(path, data)
    except StatisticsError:
        if isinstance(stats, str):
            raise
        return None  # footers say the same, and are there
