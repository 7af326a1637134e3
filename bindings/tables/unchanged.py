"""Notice files that were replaced after they were listed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.tables.files import UNKNOWN
from skipstone.ir.errors import SourceError, StaleFile


def check_unchanged(
    filesystem: pafs.FileSystem, paths: Sequence[str], sizes: Sequence[int], times: Sequence[int]
) -> None:
    """Raise an error if a file changed since it was listed.

    Sizes and times are compared. Only local files are looked up again.

    Args:
        filesystem: The file system of the files.
        paths: The files.
        sizes: Their sizes in bytes when they were listed; -1 is unknown.
        times: Their times of change, in ns since 1970, when they were listed; -1 is unknown.

    Raises:
        StaleFile: a file was replaced, changed or removed.
    """
    if not isinstance(filesystem, pafs.LocalFileSystem) or not paths:
        return
    infos = filesystem.get_file_info(list(paths))
    for info, path, size, time in zip(infos, paths, sizes, times, strict=True):
        if info.type != pafs.FileType.File:
            raise StaleFile(
                f"{path}: the file was removed after it was planned; scan the table again"
            )
        if size not in (UNKNOWN, info.size):
            raise StaleFile(
                f"{path}: the file had {size} bytes when it was planned, and has {info.size} now; "
                "scan the table again"
            )
        if time not in (UNKNOWN, info.mtime_ns):
            raise StaleFile(
                f"{path}: the file was changed after it was planned; scan the table again"
            )


def check_opened(source: pa.NativeFile, path: str, size: int, time: int) -> None:
    """Raise an error if an open file is not the one that was listed.

    Object stores return the modification time when a file is opened, so no extra request is made.
    Times are compared with a tolerance of one second, because headers hold whole seconds.

    Args:
        source: The open file.
        path: Its path, for messages.
        size, time: Its size and modification time when it was listed, as for `check_unchanged`.

    Raises:
        StaleFile: the file was replaced.
    """
    if size != UNKNOWN and source.size() != size:
        raise StaleFile(
            f"{path}: the file had {size} bytes when it was planned, and has {source.size()} now; "
            "scan the table again"
        )
    changed = _time_of(source)
    if UNKNOWN not in (time, changed) and abs(changed - time // 10**9) > 1:
        raise StaleFile(f"{path}: the file was changed after it was planned; scan the table again")


def is_as_listed(source: pa.NativeFile, size: int, time: int) -> bool:
    """Return True if an open file has the size and time of change that were listed.

    Args:
        source: The open file.
        size, time: As for `check_opened`, and known.
    """
    changed = _time_of(source)
    return source.size() == size and changed != UNKNOWN and abs(changed - time // 10**9) <= 1


def check_looked_up(info: pafs.FileInfo, source: pa.NativeFile) -> None:
    """Raise an error if a file is not the one that is open.

    Args:
        info: What its file system says of it now.
        source: The open file.

    Raises:
        StaleFile: the file was replaced or removed.
    """
    if info.type != pafs.FileType.File:
        raise StaleFile(
            f"{info.path}: the file was removed after it was planned; scan the table again"
        )
    time = UNKNOWN if info.mtime_ns is None else info.mtime_ns
    check_opened(source, info.path, info.size, time)


def check_row_counts(path: str, listed: Sequence[int] | None, found: Sequence[int]) -> None:
    """Raise an error if row groups are not those of `_metadata`, which may be outdated.

    Args:
        path: The file.
        listed: The rows of its row groups as `_metadata` lists them; None if it does not list them.
        found: The rows of its row groups.

    Raises:
        SourceError: they differ.
    """
    if listed is not None and list(found) != list(listed):
        raise SourceError(
            f"{path}: its row groups differ from those in _metadata; write _metadata again, "
            "or scan with use_metadata=False"
        )


def _time_of(source: pa.NativeFile) -> int:
    """Return when an open file of an object store changed, in s since 1970; -1 is unknown."""
    try:
        when = dt.datetime.fromisoformat(source.metadata()["Last-Modified"].decode())
    except (KeyError, OSError, ValueError, AttributeError, NotImplementedError):
        return UNKNOWN
    return UNKNOWN if when.tzinfo is None else int(when.timestamp())
