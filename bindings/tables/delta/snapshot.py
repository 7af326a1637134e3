"""Read one version of a Delta table from its log: columns, live files and statistics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.tables.delta.actions import COLUMNS, VECTOR, fetch, read_commits, settings
from skipstone.bindings.tables.delta.checkpoints import checkpoint_settings, read_checkpoint
from skipstone.bindings.tables.delta.decode import parse_statistics
from skipstone.bindings.tables.delta.fields import LeafField, TableFields, fields_of
from skipstone.bindings.tables.delta.log import LogLocation, SnapshotRequest
from skipstone.bindings.tables.delta.replay import hidden, keys_of, last_adds, paths_of
from skipstone.bindings.tables.delta.segment import Segment, segment
from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, booleans_of, null_where, numbers_of, repeated, scalar_of
from skipstone.ir.cached import cached_property
from skipstone.ir.errors import SourceError, clip, describe_error

T = TypeVar("T")
# The table features that this reader supports. Source: PROTOCOL.md, "Valid Feature Names in Table
# Features".
FEATURES: Final = frozenset(
    {
        "columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck",
        "typeWidening", "typeWidening-preview",
    }
    | {"variantType", "variantType-preview", "variantShredding-preview"}
)  # fmt: skip

MAX_READER_VERSION: Final = 3  # the newest version of the protocol

FILE_COLUMNS: Final = tuple(name for name in COLUMNS if name != "stats")

MAPPING: Final = "delta.columnMapping.mode"
MAPPING_MODES: Final = ("none", "name", "id")
# Tables whose latest commits only a coordinator knows. Their feature is one of writers, so the
# protocol refuses no reader, which would miss those commits. Source: Delta's request for comments
# "Coordinated Commits"; its Spark writer appends "-preview".
COORDINATORS: Final = tuple(
    f"delta.coordinatedCommits.commitCoordinator{end}" for end in ("", "-preview")
)

METADATA: Final = ("id", "name", "description", "partitionColumns", "configuration", "createdTime")


def _given(read: T) -> T:
    return read


@dataclass(frozen=True)
class Snapshot:
    """One version of a table. Its files and statistics are read at first use.

    Attributes:
        uri: The table, as the caller named it.
        root: The table's folder, as `fs` names it.
        fs: The file system that holds it.
        version: The version.
        fields: The table's columns.
        metadata: The `metaData` action: id, name, description, partitionColumns, configuration,
            createdTime.
        num_files: The number of live files.
        read_files: Returns `files`.
        read_stats: Returns `stats`.
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
        """One row for each live file.

        Columns: `path` (percent-decoded), `size`, `modificationTime`, `deletionVector`,
        `partition`, and `spark`, True if Spark certainly computed the file's statistics.
        """
        return self.read_files()

    @cached_property
    def stats(self) -> tuple[pa.ChunkedArray, ...]:
        """The statistics of `files`, in their order: structs, one array per part of the log."""
        return self.read_stats()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what was read; another process need not reach the log."""
        read = partial(_given, self.files), partial(_given, self.stats)
        own = self.uri, self.root, self.fs, self.version, self.fields, self.metadata
        return Snapshot, (*own, self.num_files, *read)

    @property
    def nbytes(self) -> int:
        """The bytes that were read: in host memory, or mapped from a file."""
        read = vars(self)
        return int(self.files.nbytes if "files" in read else 0) + sum(
            int(s.nbytes) for s in (self.stats if "stats" in read else ())
        )


def read_snapshot(
    request: SnapshotRequest,
    location: LogLocation,
    older: tuple[SnapshotRequest, Snapshot] | None = None,
) -> Snapshot:
    """Read one version of a table from its log.

    Args:
        request: The version.
        location: The table's log.
        older: A version of the same table that was read before. If the log allows it, only newer
            commits are read.

    Raises:
        SourceError: a part of the log is missing or damaged, or the table needs features that this
            reader lacks.
    """
    names = [i.base_name for i in location.listed]
    if (
        older is not None
        and older[0].stamp == location.stamp(older[0].version)
        and (newer := _refresh(older[1], request, location, names)) is not None
    ):
        return newer
    chosen = segment(names, request.version, location.log)
    texts, commits = _read_texts(location, chosen)
    found = settings(texts, commits)
    if len(found) < 2:
        found = {**checkpoint_settings(location.fs, location.log, chosen.parts), **found}
    metadata, fields = _check_settings(found, location.uri, request.version)
    partitions = tuple(fields.partitions.values())
    adds, removes = read_commits(texts, commits, partitions)
    live, keys = last_adds(adds, removes)
    older_files = (
        _drop(t, hidden(t, keys))
        for t in read_checkpoint(
            location.fs, location.log, chosen.parts, partitions, location.meter
        )
    )
    parts = [
        part
        for t in (*older_files, pc.filter(adds, arrow_of(live)))
        for part in _with_statistics(t, fields.leaves)
    ]
    return _snapshot_of(
        location,
        request.version,
        fields,
        metadata,
        _without_duplicates([(_files_of(t), s) for t, s in parts]),
    )


def _refresh(
    older: Snapshot, request: SnapshotRequest, location: LogLocation, names: Sequence[str]
) -> Snapshot | None:
    """Read only the commits after an older version, and return the newer one.

    None means that this is not possible, so the log must be read from its checkpoint.
    """
    try:
        chosen = segment(names, request.version, location.log, after=older.version)
    except SourceError:
        return None  # commits after the older version were cleaned up
    texts, commits = _read_texts(location, chosen)
    if settings(texts, commits):
        return None  # the schema or the protocol may have changed
    adds, removes = read_commits(texts, commits, tuple(older.fields.partitions.values()))
    live, keys = last_adds(adds, removes)
    is_hidden = hidden(older.files, keys, decoded=True)
    parts: list[tuple[pa.Table, pa.ChunkedArray]] = []
    start = 0
    for stats in older.stats:
        mask = is_hidden[start : start + len(stats)]
        files = older.files.slice(start, len(stats))
        start += len(stats)
        remaining = pc.filter(stats, arrow_of(~mask)) if mask.any() else stats
        parts.append((_drop(files, mask), remaining))
    parts += [
        (_files_of(t), s)
        for t, s in _with_statistics(pc.filter(adds, arrow_of(live)), older.fields.leaves)
    ]
    return _snapshot_of(location, request.version, older.fields, older.metadata, parts)


def _read_texts(location: LogLocation, chosen: Segment) -> tuple[list[bytes], list[str]]:
    """Return the texts of a segment's commits, and their paths."""
    paths = [f"{location.log}/{c.name}" for c in chosen.commits]
    return fetch(location.fs, location.log, chosen.commits, location.meter), paths


def _without_duplicates(
    parts: list[tuple[pa.Table, pa.ChunkedArray]],
) -> list[tuple[pa.Table, pa.ChunkedArray]]:
    """Drop repeated files: a checkpoint may name a file twice, and replay does not notice."""
    keys = pa.chunked_array(
        [c for t, _ in parts for c in keys_of(t, decoded=True).chunks], pa.string()
    )
    if len(pc.unique(keys)) == len(keys):
        return parts
    code = numbers_of(pc.dictionary_encode(keys.combine_chunks()).indices)
    duplicate = np.ones(len(keys), np.bool_)
    duplicate[np.unique(code, return_index=True)[1]] = False
    starts = np.cumsum([0, *(t.num_rows for t, _ in parts)])
    return [
        (
            _drop(t, duplicate[a : a + t.num_rows]),
            pc.filter(s, arrow_of(~duplicate[a : a + t.num_rows])),
        )
        for (t, s), a in zip(parts, starts, strict=False)
    ]


def _drop(table: pa.Table, is_hidden: npt.NDArray[np.bool_]) -> pa.Table:
    """Return the rows that are not hidden. Usually these are all rows, and are not copied."""
    return pc.filter(table, arrow_of(~is_hidden)) if is_hidden.any() else table


def _with_statistics(
    table: pa.Table, leaves: Sequence[LeafField]
) -> Iterator[tuple[pa.Table, pa.ChunkedArray]]:
    """Yield files with their statistics as structs.

    First those whose statistics a checkpoint holds as structs, then those parsed from texts.
    """
    if "stats_parsed" in table.column_names:
        missing = booleans_of(pc.is_null(table.column("stats_parsed")))
        with_struct = _drop(table, missing)
        if with_struct.num_rows:
            yield with_struct, with_struct.column("stats_parsed")
        table = pc.filter(table, arrow_of(missing))
    if table.num_rows or "stats_parsed" not in table.column_names:
        yield table, parse_statistics(table.column("stats"), leaves)


def files_schema(partitions: Sequence[str]) -> pa.Schema:
    """Return the schema of `Snapshot.files`.

    Args:
        partitions: The partition columns, as the log names them.
    """
    values = pa.struct([(p, pa.string()) for p in partitions])
    return pa.schema([
        ("path", pa.string()), ("size", pa.int64()), ("modificationTime", pa.int64()),
        ("deletionVector", VECTOR), ("partition", values), ("spark", pa.bool_()),
    ])  # fmt: skip


def _files_of(table: pa.Table) -> pa.Table:
    spark = (
        table.column("spark")
        if "spark" in table.column_names
        else repeated(scalar_of(False, pa.bool_()), table.num_rows)
    )
    # The writer that added a deletion vector need not have computed the statistics.
    files = table.select(FILE_COLUMNS).append_column(
        "spark", pc.and_(spark, pc.is_null(table.column("deletionVector")))
    )
    return files.set_column(0, "path", paths_of(files))


def _snapshot_of(
    location: LogLocation,
    version: int,
    fields: TableFields,
    metadata: Mapping[str, Any],
    parts: list[tuple[pa.Table, pa.ChunkedArray]],
) -> Snapshot:
    non_empty = [(t, s) for t, s in parts if t.num_rows] or parts[:1]
    files, stats = pa.concat_tables([t for t, _ in non_empty]), tuple(s for _, s in non_empty)
    return Snapshot(
        location.uri,
        location.root,
        location.fs,
        version,
        fields,
        metadata,
        files.num_rows,
        partial(_given, files),
        partial(_given, stats),
    )


def _check_settings(
    found: Mapping[str, Mapping[str, Any]], uri: str, version: int
) -> tuple[dict[str, Any], TableFields]:
    """Return the table's metadata and columns.

    Raises:
        SourceError: an action is missing or malformed, or needs features that this reader lacks.
    """
    for name in ("metaData", "protocol"):
        if name not in found:
            raise SourceError(
                f"{uri}: the log of version {version} has no {name}; expected one in each "
                "checkpoint and in the first commit"
            )
    try:
        return _read_settings(found["protocol"], found["metaData"], uri)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise SourceError(
            f"{uri}: the settings of version {version} cannot be read ({describe_error(e)})"
        ) from e


def _read_settings(
    protocol: Mapping[str, Any], metadata: Mapping[str, Any], uri: str
) -> tuple[dict[str, Any], TableFields]:
    least, features = protocol.get("minReaderVersion"), protocol.get("readerFeatures")
    if type(least) is not int or least < 1:
        raise SourceError(
            f"{uri}: the protocol has the reader version {clip(repr(least))}; expected 1, 2 or 3"
        )
    named = isinstance(features, list) and all(isinstance(f, str) for f in features)
    if not named and (features is not None or least == MAX_READER_VERSION):
        raise SourceError(
            f"{uri}: the protocol has the reader version {least} and the readerFeatures "
            f"{clip(repr(features))}; expected names"
        )
    unknown = sorted(set(features or ()) - FEATURES)
    if unknown or least > MAX_READER_VERSION:
        needs = clip(", ".join(unknown)) or f"reader version {least}"
        raise SourceError(
            f"{uri}: the table needs a reader that supports {needs}; this one supports "
            f"{', '.join(sorted(FEATURES))}, up to reader version {MAX_READER_VERSION}"
        )
    known_metadata: dict[str, Any] = {name: metadata.get(name) for name in METADATA}
    known_metadata["configuration"] = dict(known_metadata["configuration"] or {})
    for name in COORDINATORS:
        if coordinator := known_metadata["configuration"].get(name):
            raise SourceError(
                f"{uri}: the table has coordinated commits, and only its coordinator "
                f"{clip(repr(coordinator))} knows the latest; read it with an engine that asks it, "
                f"or remove the property {name} with Delta"
            )
    mode = mapping_mode(known_metadata["configuration"])
    if mode not in MAPPING_MODES:
        raise SourceError(
            f"{uri}: the table maps columns by {clip(repr(mode))}; expected one of "
            f"{', '.join(MAPPING_MODES)}"
        )
    partitions = list(known_metadata["partitionColumns"] or ())
    return known_metadata, fields_of(
        json.loads(metadata["schemaString"]), partitions, mode != "none"
    )


def mapping_mode(configuration: Mapping[str, Any]) -> str:
    """Return the column mapping mode of a table's properties, in lower case, as Delta reads it.

    Source: Delta Lake, `DeltaColumnMappingMode`.
    """
    mode = configuration.get(MAPPING)
    return "none" if mode is None else str(mode).lower()


def logical_rows(rows: pa.ChunkedArray, vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the live rows of files, int64; null is unknown.

    Args:
        rows: Physical rows.
        vectors: Deletion vectors, whose cardinality is subtracted.
    """
    deleted = pc.if_else(
        pc.is_null(vectors), scalar_of(0, pa.int64()), pc.struct_field(vectors, "cardinality")
    )
    live = pc.subtract(rows, deleted)
    return null_where(pc.less(live, scalar_of(0, pa.int64())), live)


def sum_of(values: pa.ChunkedArray, mask: npt.NDArray[np.bool_]) -> int | None:
    """Return the sum of the masked values, or None if one of them is null."""
    chosen = pc.filter(values, arrow_of(mask))
    if chosen.null_count:
        return None
    return int(pc.sum(chosen).as_py() or 0)
