"""Tables whose log was read, kept on disk for other processes, in the folder that `skipstone.cache_dir` names.

A version is one file, which is renamed into its place when it is whole: what stands in the log of each file,
as Arrow tables, and its statistics as kernels read them. It is opened in place, so that neither a log nor
memory is needed for what a plan does not look at. A newer version of the table is read from there on, and
saved in its turn when it is a hundred commits ahead.
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

from skipstone.bindings.statistics.store.folder import kept_in
from skipstone.bindings.statistics.store.layout import MALFORMED
from skipstone.bindings.statistics.store.read import PackedFile
from skipstone.bindings.statistics.store.settled import settled
from skipstone.bindings.statistics.store.write import save_packed
from skipstone.bindings.tables.delta.fields import fields_of
from skipstone.bindings.tables.delta.log import (
    METADATA,
    LogLocation,
    Snapshot,
    SnapshotRequest,
    Stamp,
)
from skipstone.ir.errors import StatisticsError, told

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.table import DeltaTable

# Raised by who changes what is saved here, or what is made of statistics before they are packed (columns.py, generated.py
# and what these call).
FORMAT: Final = 2
COMMITS: Final = 100  # after which a version is saved again
VERSIONS: Final = 2  # of one table that are kept
FORGOTTEN: Final = 3600  # seconds after which a file that nobody finished is removed
_NAME: Final = re.compile(r"(\d+)-(\d+)-(\d+)-([0-9a-f.]*)\.stats")


def newest(asked: SnapshotRequest, place: LogLocation) -> DeltaTable | None:
    """The newest version that is saved of a table, up to the one that is asked for; None: there is none, or it cannot be used."""
    folder = _folder(asked)
    for version, stamp, name in _saved(folder) if folder is not None else ():
        # Another table may have been made in the same place; then its commit is not the one that was read.
        if version <= asked.version and stamp == place.stamp(version):
            with contextlib.suppress(StatisticsError, OSError):
                return _opened(
                    os.path.join(str(folder), name),
                    SnapshotRequest(asked.uri, version, stamp, asked.options),
                    place,
                )
    return None


def outgrown(saved: DeltaTable, asked: SnapshotRequest) -> bool:
    """Whether a version is so much newer than the saved one that it should be saved as well."""
    return asked.version - saved.version >= COMMITS


def saved(table: DeltaTable, place: LogLocation) -> DeltaTable:
    """Save a version, and give it as it is there; as it was if nothing is to be kept, a newer version is, or its commit is of this moment."""
    asked = table.asked
    folder = _folder(asked)
    if folder is None or not settled(np.array([asked.stamp[0]]), place.time)[0]:
        return table  # or the commit of another table in its place, made at once, could have the same time
    if any(
        version > asked.version and stamp == place.stamp(version)
        for version, stamp, _ in _saved(folder)
    ):
        return table
    path = os.path.join(folder, f"{asked.version}-{'-'.join(map(str, asked.stamp))}.stats")
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
        with place.meter.phase("saving"):
            save_packed(table.statistics, path, {"files": read.files, **parts}, note)
        _sweep(folder, place)
        return _opened(path, asked, place)
    except (
        StatisticsError,
        OSError,
    ) as e:  # a full disk, or another process that cleans up: the table itself was read
        warnings.warn(
            f"skipstone does not keep {table.redacted_path} in {folder}: {e}",
            RuntimeWarning,
            stacklevel=2,
        )
        return table


def _opened(path: str, asked: SnapshotRequest, place: LogLocation) -> DeltaTable:
    from skipstone.bindings.tables.delta.table import DeltaTable

    file = PackedFile(path)
    note = file.note
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise StatisticsError(f"{path}: was saved by another version of Skipstone; remove it")
    try:
        fields = fields_of({"fields": note["fields"]}, note["partitions"], note["mapped"])
        metadata, parts = {name: note["metadata"][name] for name in METADATA}, range(note["parts"])
        metadata["configuration"] = dict(metadata["configuration"])
    except MALFORMED as e:
        raise StatisticsError(f"{path}: its note is not one of this version ({told(e)})") from e

    def stats() -> tuple[pa.ChunkedArray, ...]:
        return tuple(file.table(f"stats {i}").column(0) for i in parts)

    read = Snapshot(
        place.uri,
        place.root,
        place.fs,
        asked.version,
        fields,
        metadata,
        file.containers,
        lambda: file.table("files"),
        stats,
    )
    return DeltaTable(asked, read, place.meter, file.adopt)


def _folder(asked: SnapshotRequest) -> str | None:
    """Where the versions of a table are kept; None: nowhere."""
    key = repr((asked.uri, sorted(asked.options)))
    return kept_in("delta", hashlib.sha256(key.encode()).hexdigest()[:32])


def _saved(folder: str) -> Iterator[tuple[int, Stamp, str]]:
    """(version, stamp, name) of the files of a folder, newest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    found = [
        (int(m[1]), (int(m[2]), int(m[3]), m[4]), m[0]) for m in map(_NAME.fullmatch, names) if m
    ]
    yield from sorted(found, reverse=True)


def discard(asked: SnapshotRequest) -> None:
    """Remove what is kept of a version."""
    folder = _folder(asked)
    for version, stamp, name in _saved(folder) if folder is not None else ():
        if (version, stamp) == (asked.version, asked.stamp):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(str(folder), name))


def _sweep(folder: str, place: LogLocation) -> None:
    """Remove older versions, those of another table, and what processes that died left of a file. Who has one open keeps it."""
    found = list(_saved(folder))
    of_this = [name for version, stamp, name in found if stamp == place.stamp(version)][:VERSIONS]
    old = [name for _, _, name in found if name not in of_this]
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            unknown = name.endswith(".stats") and _NAME.fullmatch(name) is None
            if (
                name in old
                or unknown
                or (name.endswith(".tmp") and time.time() - os.stat(path).st_mtime > FORGOTTEN)
            ):
                os.unlink(path)
