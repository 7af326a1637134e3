"""One version of a Delta table as its log tells it: which files live, and what is known of them."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from skipstone.bindings.location import (
    KNOWN,
    REFUSED,
    Location,
    one_line,
    options_of,
    path_text,
    resolve,
    scheme_of,
    shown,
    unreachable,
)
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.delta.actions import COLUMNS, fetch, read_commits, settings
from skipstone.bindings.tables.delta.checkpoints import checkpoint_settings, read_checkpoint
from skipstone.bindings.tables.delta.decode import parsed
from skipstone.bindings.tables.delta.fields import LeafField, TableFields, fields_of
from skipstone.bindings.tables.delta.replay import hidden, keys_of, last_adds, paths_of
from skipstone.bindings.tables.delta.segment import COMMIT, segment, versions
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, clip

# What a reader has to know of, that this one does. Source: PROTOCOL.md, "Valid Feature Names in Table Features".
FEATURES: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "typeWidening",
        "typeWidening-preview",
    }
    | {"variantType", "variantType-preview", "variantShredding-preview"}
)
VERSION: Final = 3  # the protocol's reader version
KEPT: Final = tuple(name for name in COLUMNS if name != "stats")


@dataclass(frozen=True)
class Snapshot:
    """One version of a table. What is known of its files is read when it is first asked for.

    Attributes:
        uri: Where the table is.
        root: Its folder, as `fs` names it.
        fs: The file system that holds it.
        version: Which one.
        fields: Its columns.
        metadata: The `metaData` action: id, name, description, partitionColumns, configuration, createdTime.
        num_files: How many live.
    """

    uri: str
    root: str
    fs: pafs.FileSystem
    version: int
    fields: TableFields
    metadata: Mapping[str, Any]
    num_files: int
    read_files: Callable[[], pa.Table]
    read_stats: Callable[[], tuple[pa.ChunkedArray, ...]]

    @cached_property
    def files(self) -> pa.Table:
        """One row for each file that lives: `path` (percent signs decoded), `size`, `modificationTime`, `deletionVector`, `partition`, `spark`.

        The last is whether it is known that Spark computed the statistics.
        """
        return self.read_files()

    @cached_property
    def stats(self) -> tuple[pa.ChunkedArray, ...]:
        """The statistics of the files, in the same order: structs, a chunked array for each part of the log."""
        return self.read_stats()

    @property
    def nbytes(self) -> int:
        """Bytes of what was read, host memory or mapped from a file."""
        read = vars(self)
        return int(self.files.nbytes if "files" in read else 0) + sum(
            int(s.nbytes) for s in (self.stats if "stats" in read else ())
        )


# Time in ns and size of a commit; and on a local file system, where a time can be set to any other,
# the inode and the time of its last change, which cannot.
Stamp = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A version of a table, as it can be told from another one in its place.

    Attributes:
        uri: Where the table is.
        version: Which version.
        stamp: What tells its commit from another one of its name.
        options: Of the storage.
    """

    uri: str
    version: int
    stamp: Stamp
    options: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LogLocation:
    """Where a log lies, what it holds now, what was read of it, and the time before it was listed, in ns since 1970."""

    uri: str
    fs: pafs.FileSystem
    root: str
    listed: tuple[pafs.FileInfo, ...]
    meter: Meter
    time: int

    @property
    def log(self) -> str:
        """The log's folder."""
        return f"{self.root}/_delta_log" if self.root else "_delta_log"

    def stamp(self, version: int) -> Stamp:
        """Return what tells a commit, or the last file that bears its number; zeros: there is none."""
        own = [i for i in self.listed if i.base_name.startswith(f"{version:020}.")]
        if not own:
            return 0, 0, ""
        last = max(
            own, key=lambda i: (i.base_name == f"{version:020}.json", i.mtime_ns or 0, i.size)
        )
        return last.mtime_ns or 0, last.size, self._changed(last.path)

    def _changed(self, path: str) -> str:
        if isinstance(self.fs, pafs.LocalFileSystem):
            with contextlib.suppress(OSError):
                found = os.stat(path)
                return f"{found.st_ino:x}.{found.st_ctime_ns:x}"
        return ""


def locate(
    where: Location,
    version: int | str | datetime.datetime | None,
    storage_options: Mapping[str, str] | None,
) -> tuple[SnapshotRequest, LogLocation]:
    """Find a table's log, and the version that is meant.

    Raises:
        SourceError: there is no table, or no such version.
    """
    uri, options = path_text(where), options_of(storage_options)
    fs, root = _reached(uri, None if storage_options is None else options)
    place = LogLocation(uri, fs, root, (), Meter(), time.time_ns())
    try:
        with place.meter.phase("listing"):
            listed = tuple(
                i
                for i in fs.get_file_info(pafs.FileSelector(place.log))
                if i.type == pafs.FileType.File
            )
    except (FileNotFoundError, NotADirectoryError) as e:
        raise SourceError(
            f"{shown(uri)}: no Delta table is there, for it has no folder _delta_log"
        ) from e
    except REFUSED as e:
        raise unreachable(uri, e) from e
    place = replace(place, listed=listed)
    at = version_at(listed, version, fs, uri)
    return SnapshotRequest(root or uri, at, place.stamp(at), frozenset(options.items())), place


def snapshot(
    asked: SnapshotRequest,
    place: LogLocation,
    older: tuple[SnapshotRequest, Snapshot] | None = None,
) -> Snapshot:
    """Read the log of a table.

    Args:
        asked: The version.
        place: Where it lies.
        older: A version of the same table that was read before; only what is newer is read then, if it follows.

    Raises:
        SourceError: a part of the log is missing or damaged; the table needs a reader that knows more.
    """
    names = [i.base_name for i in place.listed]
    if (
        older is not None
        and older[0].stamp == place.stamp(older[0].version)
        and (newer := _refreshed(older[1], asked, place, names)) is not None
    ):
        return newer
    chosen = segment(names, asked.version, place.log)
    commits = [f"{place.log}/{c.name}" for c in chosen.commits]
    texts = fetch(place.fs, place.log, chosen.commits, place.meter)
    found = settings(texts, commits)
    if len(found) < 2:
        found = {**checkpoint_settings(place.fs, place.log, chosen.parts), **found}
    metadata, fields = _understood(found, place.uri, asked.version)
    partitions = tuple(fields.partitions.values())
    adds, removes = read_commits(texts, commits, partitions)
    live, keys = last_adds(adds, removes)
    older_files = (
        _without(t, hidden(t, keys))
        for t in read_checkpoint(place.fs, place.log, chosen.parts, partitions, place.meter)
    )
    parts = [
        part
        for t in (*older_files, adds.filter(pa.array(live)))
        for part in _parts(t, fields.leaves)
    ]
    return _of_parts(
        place, asked.version, fields, metadata, _once([(_files_of(t), s) for t, s in parts])
    )


def _once(parts: list[tuple[pa.Table, pa.ChunkedArray]]) -> list[tuple[pa.Table, pa.ChunkedArray]]:
    """Each file once: a checkpoint may name one twice, which replaying it would not notice."""
    keys = pa.chunked_array(
        [c for t, _ in parts for c in keys_of(t, decoded=True).chunks], pa.string()
    )
    if pc.count_distinct(keys).as_py() == len(keys):
        return parts
    code = keys.combine_chunks().dictionary_encode().indices.to_numpy()
    again = np.ones(len(keys), np.bool_)
    again[np.unique(code, return_index=True)[1]] = False
    starts = np.cumsum([0, *(t.num_rows for t, _ in parts)])
    return [
        (_without(t, again[a : a + t.num_rows]), s.filter(pa.array(~again[a : a + t.num_rows])))
        for (t, s), a in zip(parts, starts, strict=False)
    ]


def _refreshed(
    older: Snapshot, asked: SnapshotRequest, place: LogLocation, names: Sequence[str]
) -> Snapshot | None:
    """A newer version from an older one; None: the log has to be read from its checkpoint."""
    try:
        chosen = segment(names, asked.version, place.log, after=older.version)
    except SourceError:
        return None  # commits since then were cleaned up
    commits = [f"{place.log}/{c.name}" for c in chosen.commits]
    texts = fetch(place.fs, place.log, chosen.commits, place.meter)
    if settings(texts, commits):
        return None  # another schema, or another protocol
    adds, removes = read_commits(texts, commits, tuple(older.fields.partitions.values()))
    live, keys = last_adds(adds, removes)
    gone = hidden(older.files, keys, decoded=True)
    parts: list[tuple[pa.Table, pa.ChunkedArray]] = []
    start = 0
    for stats in older.stats:
        mask = gone[start : start + len(stats)]
        files = older.files.slice(start, len(stats))
        start += len(stats)
        parts.append(
            (_without(files, mask), stats.filter(pa.array(~mask)) if mask.any() else stats)
        )
    parts += [
        (_files_of(t), s) for t, s in _parts(adds.filter(pa.array(live)), older.fields.leaves)
    ]
    return _of_parts(place, asked.version, older.fields, older.metadata, parts)


def _files_of(table: pa.Table) -> pa.Table:
    spark = (
        table.column("spark") if "spark" in table.column_names else pa.repeat(False, table.num_rows)
    )
    # A vector was added by who need not have computed the statistics.
    files = table.select(KEPT).append_column(
        "spark", pc.and_(spark, pc.is_null(table.column("deletionVector")))
    )
    return files.set_column(0, "path", paths_of(files))


def _of_parts(
    place: LogLocation,
    version: int,
    fields: TableFields,
    metadata: Mapping[str, Any],
    parts: list[tuple[pa.Table, pa.ChunkedArray]],
) -> Snapshot:
    there = [(t, s) for t, s in parts if t.num_rows] or parts[:1]
    files, stats = pa.concat_tables([t for t, _ in there]), tuple(s for _, s in there)
    return Snapshot(
        place.uri,
        place.root,
        place.fs,
        version,
        fields,
        metadata,
        files.num_rows,
        lambda: files,
        lambda: stats,
    )


MAPPING: Final = "delta.columnMapping.mode"
METADATA: Final = ("id", "name", "description", "partitionColumns", "configuration", "createdTime")


def _understood(
    found: Mapping[str, Mapping[str, Any]], uri: str, version: int
) -> tuple[dict[str, Any], TableFields]:
    """The table's metadata and columns, if this reader knows all that they need."""
    for name in ("metaData", "protocol"):
        if name not in found:
            raise SourceError(
                f"{uri}: the log of version {version} has no {name}; expected one in each checkpoint and in the first commit"
            )
    try:
        return _read_settings(found["protocol"], found["metaData"], uri)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise SourceError(
            f"{uri}: the settings of version {version} cannot be read ({type(e).__name__}: {str(e)[:200]})"
        ) from e


def _read_settings(
    protocol: Mapping[str, Any], metadata: Mapping[str, Any], uri: str
) -> tuple[dict[str, Any], TableFields]:
    least, features = protocol.get("minReaderVersion"), protocol.get("readerFeatures")
    if type(least) is not int or least < 1:
        raise SourceError(
            f"{uri}: the protocol has the reader version {clip(repr(least))}; expected 1, 2 or 3"
        )
    if (features is None and least == VERSION) or not (
        features is None or (isinstance(features, list) and all(map(_is_name, features)))
    ):
        raise SourceError(
            f"{uri}: the protocol has the reader version {least} and the readerFeatures "
            f"{clip(repr(features))}; expected names"
        )
    unknown = sorted(set(features or ()) - FEATURES)
    if unknown or least > VERSION:
        needs = clip(", ".join(unknown)) or f"reader version {least}"
        raise SourceError(
            f"{uri}: the table needs a reader that knows {needs}; this one knows {', '.join(sorted(FEATURES))}, up to reader version {VERSION}"
        )
    kept: dict[str, Any] = {name: metadata.get(name) for name in METADATA}
    kept["configuration"] = dict(kept["configuration"] or {})
    mapped = kept["configuration"].get(MAPPING, "none") != "none"
    return kept, fields_of(
        json.loads(metadata["schemaString"]), list(kept["partitionColumns"] or ()), mapped
    )


def _is_name(feature: object) -> bool:
    return isinstance(feature, str)


def version_at(
    listed: Sequence[pafs.FileInfo],
    version: int | str | datetime.datetime | None,
    fs: pafs.FileSystem,
    uri: str,
) -> int:
    """The version that is meant: a number, the last one at a time, or the newest."""
    known = versions([i.base_name for i in listed])
    if not known:
        raise SourceError(f"{uri}: the folder _delta_log holds no commit and no checkpoint")
    if version is None:
        return known[-1]
    if isinstance(version, int) and not isinstance(version, bool):
        if not 0 <= version <= known[-1]:
            raise SourceError(f"{uri}: there is no version {version}; the newest is {known[-1]}")
        return version
    try:
        when = datetime.datetime.fromisoformat(version) if isinstance(version, str) else version
    except ValueError:
        when = None
    if not isinstance(when, datetime.datetime):
        raise SourceError(
            f"{uri}: version={version!r}; expected a number, a time, its ISO text, or None"
        )
    if when.tzinfo is None:
        raise SourceError(f"{uri}: version={version!r} names no time zone; add one, such as +00:00")
    commits = sorted(
        ((int(m[1]), i) for i in listed if (m := COMMIT.fullmatch(i.base_name))),
        key=lambda pair: pair[0],
    )
    before = [v for v, i in commits if _committed(i, fs) <= when.timestamp() * 1000]
    if not before:
        raise SourceError(
            f"{uri}: no version is as old as {when.isoformat()}; the oldest commit that is left is {commits[0][0] if commits else 'none'}"
        )
    return before[-1]


def _committed(commit: pafs.FileInfo, fs: pafs.FileSystem) -> float:
    """Milliseconds since 1970: what the commit says itself, or the time of its file."""
    with fs.open_input_stream(commit.path) as f:
        m = STAMP.search(f.read(1 << 16))
    return float(m[1]) if m else commit.mtime_ns / 1e6


STAMP: Final = re.compile(rb'"inCommitTimestamp"\s*:\s*(\d+)')


def _reached(uri: str, storage_options: Mapping[str, str] | None) -> tuple[pafs.FileSystem, str]:
    """The file system that holds a table, and the table's folder on it."""
    scheme = scheme_of(uri)
    if scheme in (None, "file") or (storage_options is None and scheme in KNOWN):
        try:
            return resolve(uri)
        except SourceError:
            if scheme not in ("hdfs", "viewfs"):  # the package needs no libhdfs
                raise
    try:
        from deltalake.exceptions import DeltaError
        from deltalake.fs import DeltaStorageHandler
    except ModuleNotFoundError as e:
        raise SourceError(
            f"{uri}: reaching that storage needs the package deltalake; pip install 'skipstone[delta]'"
        ) from e
    try:
        return pafs.PyFileSystem(DeltaStorageHandler(uri, dict(storage_options or {}))), ""
    except (DeltaError, OSError, ValueError, TypeError) as e:
        raise SourceError(
            f"{shown(uri)}: the storage cannot be reached ({one_line(e)}); check the URI and storage_options="
        ) from e


def _without(table: pa.Table, gone: npt.NDArray[np.bool_]) -> pa.Table:
    """The other rows; usually all, which are not copied then."""
    return table.filter(pa.array(~gone)) if gone.any() else table


def _parts(
    table: pa.Table, leaves: Sequence[LeafField]
) -> Iterator[tuple[pa.Table, pa.ChunkedArray]]:
    """Files with their statistics as structs: those that a checkpoint has parsed, and those that are read from texts."""
    if "stats_parsed" in table.column_names:
        missing = np.asarray(pc.is_null(table.column("stats_parsed")), np.bool_)
        yes = _without(table, missing)
        if yes.num_rows:
            yield yes, yes.column("stats_parsed")
        table = table.filter(pa.array(missing))
    if table.num_rows or "stats_parsed" not in table.column_names:
        yield table, parsed(table.column("stats"), leaves)


def logical_rows(rows: pa.ChunkedArray, vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    """Rows that live: physical ones less those that deletion vectors name; null is unknown."""
    deleted = pc.if_else(
        pc.is_null(vectors), pa.scalar(0, pa.int64()), pc.struct_field(vectors, "cardinality")
    )
    left = pc.subtract(rows, deleted)
    return pc.if_else(pc.greater_equal(left, 0), left, None)


def sums(values: pa.ChunkedArray, mask: npt.NDArray[np.bool_]) -> int | None:
    """The sum of some files' counts; None as soon as one is unknown."""
    chosen = values.filter(pa.array(mask))
    if chosen.null_count:
        return None
    return int(pc.sum(chosen).as_py() or 0)
