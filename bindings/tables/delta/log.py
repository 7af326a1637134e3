"""Find the log of a Delta table and the requested version."""

from __future__ import annotations

import contextlib
import datetime
import numbers
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow.fs as pafs

from skipstone.bindings.listing import entries_of
from skipstone.bindings.location import (
    ENDPOINTS,
    KNOWN,
    REFUSED,
    Location,
    info_at,
    missing,
    options_of,
    path_text,
    resolve,
    scheme_of,
    shown,
    unreachable,
)
from skipstone.bindings.plans.work import Meter
from skipstone.bindings.tables.delta.segment import COMMIT, versions
from skipstone.ir.errors import SourceError, describe_error
from skipstone.ir.types import EPOCH

# The time (ns) and size of a commit. On a local file system anyone can set a file's time, so there
# the inode and the time of its last change follow, which nobody can set.
Stamp = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A version of a table, distinct from that version of another table in the same place.

    Attributes:
        uri: The table's folder or URI.
        version: The version.
        stamp: Distinguishes the version's commit from another one of the same name.
        options: The storage options.
    """

    uri: str
    version: int
    stamp: Stamp
    options: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LogLocation:
    """A log's location and listing.

    Attributes:
        uri: The table, as the caller named it.
        fs: The file system that holds it.
        root: The table's folder, as `fs` names it.
        listed: The files in the log's folder.
        meter: Counts what is read of the log.
        time: The time before the log was listed, in ns since 1970.
    """

    uri: str
    fs: pafs.FileSystem
    root: str
    listed: tuple[pafs.FileInfo, ...]
    meter: Meter
    time: int

    @property
    def log(self) -> str:
        """Return the log's folder."""
        return f"{self.root}/_delta_log" if self.root else "_delta_log"

    def stamp(self, version: int) -> Stamp:
        """Return the stamp of a version's commit, or else of the newest file of its number.

        It is (0, 0, "") if there is no such file.
        """
        own = [i for i in self.listed if i.base_name.startswith(f"{version:020}.")]
        if not own:
            return 0, 0, ""
        last = max(
            own, key=lambda i: (i.base_name == f"{version:020}.json", i.mtime_ns or 0, i.size)
        )
        return last.mtime_ns or 0, last.size, self._change_mark(last.path)

    def _change_mark(self, path: str) -> str:
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
    """Find a table's log and the requested version.

    Args:
        where: The table's folder or URI.
        version: A version, or a time: the last version at or before it; None is the newest.
        storage_options: The options that the package `deltalake` needs to reach the storage.

    Raises:
        SourceError: there is no table or no such version, or the storage cannot be reached.
    """
    uri, options = path_text(where), options_of(storage_options)
    if options:
        from skipstone.bindings.storage import for_deltalake

        options = for_deltalake(uri, options)
    fs, root = _file_system(uri, options)
    location = LogLocation(uri, fs, root, (), Meter(), time.time_ns())
    try:
        with location.meter.phase("listing"):
            listed = tuple(i for i in entries_of(fs, location.log) if i.type == pafs.FileType.File)
    except (FileNotFoundError, NotADirectoryError) as e:
        if info_at(fs, root, uri).type == pafs.FileType.NotFound:
            raise missing(uri, "the folder of a Delta table", fs) from e
        raise SourceError(
            f"{shown(uri)}: not a Delta table: no _delta_log folder; expected the folder of one; "
            "scan opens tables of every format"
        ) from e
    except REFUSED as e:
        raise unreachable(uri, e) from e
    location = replace(location, listed=listed)
    at = version_at(listed, version, fs, uri)
    where_kept = root if isinstance(fs, pafs.LocalFileSystem) else _address(uri)
    request = SnapshotRequest(where_kept, at, location.stamp(at), frozenset(options.items()))
    return request, location


def _address(uri: str) -> str:
    """Return what identifies a table's store; a path names neither the account nor the server."""
    servers = map(os.environ.get, ENDPOINTS)
    return "@".join([uri.rstrip("/"), *filter(None, servers)])


def version_at(
    listed: Sequence[pafs.FileInfo],
    version: int | str | datetime.datetime | None,
    fs: pafs.FileSystem,
    uri: str,
) -> int:
    """Return the requested version: a number, the last one at or before a time, or the newest.

    Args:
        listed: The files in the log's folder.
        version: The request, as for `locate`; a number may be text.
        fs: The file system that holds the log.
        uri: The table, for errors.

    Raises:
        SourceError: there is no such version, or `version` is not a number or time.
    """
    available = versions([i.base_name for i in listed])
    if not available:
        raise SourceError(
            f"{uri}: the folder _delta_log holds no commit and no checkpoint; expected at least "
            "00000000000000000000.json, which the first write of a table makes"
        )
    if version is None:
        return available[-1]
    if isinstance(version, str) and version.isascii() and version.isdecimal():
        version = int(version)  # no time: a time names its zone
    if isinstance(version, numbers.Integral) and not isinstance(version, bool):
        if not 0 <= version <= available[-1]:
            some = f"{available[0]} to {available[-1]}" if available[1:] else f"{available[0]}"
            raise SourceError(f"{uri}: there is no version {version}; expected {some}")
        return int(version)
    try:
        when = datetime.datetime.fromisoformat(version) if isinstance(version, str) else version
    except ValueError:
        when = None
    if not isinstance(when, datetime.datetime):
        raise SourceError(
            f"{uri}: version={version!r}; expected a number, a time, its ISO text, or None"
        )
    if when.tzinfo is None:
        zoned = f"{when.isoformat()}+00:00"  # dates need a time before the zone
        raise SourceError(
            f"{uri}: version={str(version)!r} names no time zone; add one, such as {zoned!r}"
        )
    return _version_as_of(listed, when, fs, uri)


def _version_as_of(
    listed: Sequence[pafs.FileInfo], when: datetime.datetime, fs: pafs.FileSystem, uri: str
) -> int:
    """Return the last version at or before a time.

    Raises:
        SourceError: there is no such version.
    """
    commits = sorted(
        ((int(m[1]), i) for i in listed if (m := COMMIT.fullmatch(i.base_name))),
        key=lambda pair: pair[0],
    )
    found = _last_before(commits, fs, when)
    if found is None:
        raise SourceError(
            f"{uri}: no version is as old as {when.isoformat()}; the oldest remaining commit is "
            f"{commits[0][0] if commits else 'none'}"
        )
    return found


def _last_before(
    commits: Sequence[tuple[int, pafs.FileInfo]], fs: pafs.FileSystem, when: datetime.datetime
) -> int | None:
    """Return the last version at or before a time, as Delta counts the times of commits.

    If the newest commit has an inCommitTimestamp, that is its time; the same holds for the commits
    before it, back to the first without one. The time of any other commit is that of its file in
    whole milliseconds, or a millisecond after the previous commit if that is later, because copied
    files may have equal or unordered times.

    Args:
        commits: Versions and their commits, oldest first.
        fs: The file system that holds them.
        when: The time.

    Raises:
        SourceError: the file system does not say when a commit's file was written.

    Source: Delta Lake, `DeltaHistoryManager`.
    """
    # A float of seconds would be a little less than some milliseconds.
    wanted, count = (when - EPOCH) // MILLISECOND, len(commits)
    while count and (stamp := _stamp_in(commits[count - 1][1], fs)) is not None:
        count -= 1
        if stamp <= wanted:
            return commits[count][0]
    found, last = None, None
    for version, file in commits[:count]:
        if file.mtime_ns is None:
            raise SourceError(
                f"{file.path}: its storage does not say when it was written, so no version can be "
                "chosen by time; give the version's number"
            )
        own = file.mtime_ns // 10**6
        last = own if last is None else max(own, last + 1)
        if last <= wanted:
            found = version
    return found


def _stamp_in(commit: pafs.FileInfo, fs: pafs.FileSystem) -> int | None:
    """Return a commit's inCommitTimestamp; None if it has none."""
    with fs.open_input_stream(commit.path) as f:
        m = COMMIT_TIMESTAMP.search(f.read(1 << 16))
    return int(m[1]) if m else None


MILLISECOND: Final = datetime.timedelta(milliseconds=1)
COMMIT_TIMESTAMP: Final = re.compile(rb'"inCommitTimestamp"\s*:\s*(\d+)')


def _file_system(uri: str, options: Mapping[str, str]) -> tuple[pafs.FileSystem, str]:
    """Return the file system that holds a table, and the table's folder on it.

    Raises:
        SourceError: the storage cannot be reached, or needs the package `deltalake`, which is not
            installed.
    """
    scheme, fs = scheme_of(uri), None
    here = scheme in (None, "file") or (scheme in KNOWN and not options)
    if options and not here:
        from skipstone.bindings.storage import gs_with_token, plain_s3

        # deltalake's own file system lets no other thread run while it opens a file.
        fs = plain_s3(uri, options) or gs_with_token(uri, options)
    if here or fs is not None:
        try:
            return resolve(uri, fs)
        except SourceError:
            if scheme not in ("hdfs", "viewfs"):  # deltalake reaches these without libhdfs
                raise
    try:
        from deltalake.exceptions import DeltaError
        from deltalake.fs import DeltaStorageHandler
    except ModuleNotFoundError as e:
        names = ", ".join(sorted(KNOWN))
        needed = (
            "reaching that storage needs the package deltalake"
            if scheme in KNOWN
            else f"no file system is known for {scheme}; expected one of {names}, or one of "
            "deltalake's, which needs that package"
        )
        raise SourceError(f"{shown(uri)}: {needed}: pip install 'skipstone[delta]'") from e
    try:
        return pafs.PyFileSystem(DeltaStorageHandler(uri, dict(options))), ""
    except (DeltaError, OSError, ValueError, TypeError) as e:
        if scheme not in KNOWN and "unknown scheme" in str(e).lower():
            raise unreachable(uri, e) from e
        raise SourceError(
            f"{shown(uri)}: the storage cannot be reached ({describe_error(e)}); "
            "check the URI and storage_options="
        ) from e
