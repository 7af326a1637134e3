"""Save Delta tables on disk for other processes, in the folder `config.statistics_cache_dir`.

A version is one file, which is renamed into its place when it is complete. It holds the log's
entries for each file as Arrow tables, and the statistics as kernels read them. It is memory-mapped,
so parts that a plan does not use need neither the log nor memory. For a newer version of the table,
only the commits after the saved version are read. The newer version is saved once it is a hundred
commits ahead.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.bindings.statistics.store.folder import cache_folder
from skipstone.bindings.statistics.store.layout import MALFORMED
from skipstone.bindings.statistics.store.load import PackedFile
from skipstone.bindings.statistics.store.write import save_packed
from skipstone.bindings.tables.delta.fields import fields_of
from skipstone.bindings.tables.delta.log import LogLocation, SnapshotRequest, Stamp
from skipstone.bindings.tables.delta.snapshot import METADATA, Snapshot, files_schema
from skipstone.bindings.tables.identity import settled
from skipstone.ir.errors import StatisticsError, describe_error
from skipstone.kernels import logs

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.table import DeltaTable

# Raise this after a change to what is saved here, or to how statistics are computed before they are
# packed (columns.py, generated.py and what these call).
FORMAT: Final = 2
COMMITS: Final = 100  # a version is saved if it is this many commits ahead of the saved one
MAX_VERSIONS: Final = 2  # saved versions of one table
MAX_TEMPORARY_AGE: Final = 3600  # seconds after which an unfinished file is removed
SAVED_NAME: Final = re.compile(r"(\d+)-(\d+)-(\d+)-([0-9a-f.]*)\.stats")


def newest(request: SnapshotRequest, location: LogLocation) -> DeltaTable | None:
    """Open the newest saved version of a table that is no newer than the requested one.

    Returns:
        The table; None if no version is saved, or none is usable.
    """
    folder = _folder(request)
    for version, stamp, name in _saved_versions(folder) if folder is not None else ():
        # If another table has taken this one's place, its commit has another stamp.
        if version <= request.version and stamp == location.stamp(version):
            with contextlib.suppress(StatisticsError, OSError):
                table = _open(
                    os.path.join(str(folder), name),
                    SnapshotRequest(request.uri, version, stamp, request.options),
                    location,
                )
                logs.write(
                    "statistics opened", table=table.path, version=version, wanted=request.version
                )
                return table
    return None


def worth_saving(saved: DeltaTable, request: SnapshotRequest) -> bool:
    """Return True if a version is COMMITS or more ahead of the saved one, and so worth saving."""
    return request.version - saved.version >= COMMITS


def save(table: DeltaTable, location: LogLocation) -> DeltaTable:
    """Save a version and return it as opened from its file.

    Returns:
        The table as opened; or `table` itself if there is no folder to save in, a newer version is
        saved already, its commit is too recent to tell apart from another, or saving fails (with a
        warning).
    """
    request = table.request
    folder = _folder(request)
    if folder is None or not settled(np.array([request.stamp[0]]), location.time)[0]:
        return table  # a table that took its place right now could have a commit of the same time
    if any(
        version > request.version and stamp == location.stamp(version)
        for version, stamp, _ in _saved_versions(folder)
    ):
        return table
    path = os.path.join(folder, f"{request.version}-{'-'.join(map(str, request.stamp))}.stats")
    read = table.snapshot
    parts = {f"stats {i}": pa.table({"stats": part}) for i, part in enumerate(read.stats)}
    note = {
        "format": FORMAT,
        "name": table.name,
        "metadata": dict(read.metadata),
        "fields": read.fields.described,
        "partitions": list(read.fields.partitions),
        "mapped": read.fields.mapped,
        "parts": len(parts),
    }
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with location.meter.phase("saving"):
            save_packed(table.statistics, path, {"files": read.files, **parts}, note)
        _sweep(folder, location)
        logs.write(
            "statistics saved", table=table.path, version=request.version, folder=str(folder)
        )
        return _open(path, request, location)
    except (StatisticsError, OSError) as e:  # a full disk, or another process cleans up
        logs.fallback(f"{table.redacted_path} cannot be saved in {folder}: {describe_error(e)}")
        warnings.warn(
            f"skipstone cannot save {table.redacted_path} in {folder} ({describe_error(e)}); "
            "the table was read from its log, and will be again",
            RuntimeWarning,
            stacklevel=2,
        )
        return table


def _open(path: str, request: SnapshotRequest, location: LogLocation) -> DeltaTable:
    from skipstone.bindings.tables.delta.table import DeltaTable

    file = PackedFile(path)
    note = file.note
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise StatisticsError(f"{path}: it was saved by another version of Skipstone; remove it")
    try:
        fields = fields_of({"fields": note["fields"]}, note["partitions"], note["mapped"])
        metadata, parts = {name: note["metadata"][name] for name in METADATA}, range(note["parts"])
        metadata["configuration"] = dict(metadata["configuration"])
    except MALFORMED as e:
        raise StatisticsError(
            f"{path}: its note is not of this version ({describe_error(e)}); remove it"
        ) from e

    def files() -> pa.Table:
        found, expected = file.table("files"), files_schema(tuple(fields.partitions.values()))
        if not found.schema.equals(expected) or found.num_rows != file.containers:
            raise malformed("files")
        return found

    def stats() -> tuple[pa.ChunkedArray, ...]:
        found = tuple(file.table(f"stats {i}").column(0) for i in parts)
        if not all(pa.types.is_struct(part.type) for part in found) or (
            sum(map(len, found)) != file.containers
        ):
            raise malformed("stats")
        return found

    def malformed(table: str) -> StatisticsError:
        return StatisticsError(
            f"{path}: its table {table!r} is not of this version; remove the file"
        )

    read = Snapshot(
        location.uri,
        location.root,
        location.fs,
        request.version,
        fields,
        metadata,
        file.containers,
        files,
        stats,
    )
    return DeltaTable(request, read, location.meter, file.adopt)


def _folder(request: SnapshotRequest) -> str | None:
    """Return the folder for the versions of a table; None if `statistics_cache_dir` is not set."""
    key = repr((request.uri, sorted(request.options)))
    return cache_folder("delta", hashlib.sha256(key.encode()).hexdigest()[:32])


def _saved_versions(folder: str) -> Iterator[tuple[int, Stamp, str]]:
    """Yield (version, stamp, file name) of the saved versions in a folder, newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    found = [
        (int(m[1]), (int(m[2]), int(m[3]), m[4]), m[0])
        for m in map(SAVED_NAME.fullmatch, names)
        if m
    ]
    yield from sorted(found, reverse=True)


def discard(request: SnapshotRequest) -> None:
    """Remove the saved file of a version."""
    folder = _folder(request)
    for version, stamp, name in _saved_versions(folder) if folder is not None else ():
        if (version, stamp) == (request.version, request.stamp):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(str(folder), name))


def _sweep(folder: str, location: LogLocation) -> None:
    """Remove older versions, versions of another table, and unfinished files of dead processes.

    A process that has a removed file open can still use it.
    """
    found = list(_saved_versions(folder))
    of_this = [name for version, stamp, name in found if stamp == location.stamp(version)][
        :MAX_VERSIONS
    ]
    old = [name for _, _, name in found if name not in of_this]
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            unknown = name.endswith(".stats") and SAVED_NAME.fullmatch(name) is None
            if (
                name in old
                or unknown
                or (
                    name.endswith(".tmp")
                    and time.time() - os.stat(path).st_mtime > MAX_TEMPORARY_AGE
                )
            ):
                os.unlink(path)
