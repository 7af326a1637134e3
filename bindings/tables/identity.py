"""Tell whether files changed without reading them, so that what was read can be used again.

The system's record of a file says when the file was last changed, and no program can set that time.
Skipstone relies on this only for file systems that are known to keep such records on this machine.
Network file systems answer from caches, and file systems over object stores invent the records.
File systems of fsspec may have entity tags instead.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.fs as pafs

from skipstone.kernels.config import config

UNKNOWN: Final = -1
# Clock steps in ns. A file that changed within one step before it was listed may change again and
# keep its time.
STEP, COARSE_STEP, SECOND = 20_000_000, 2_000_000_000, 1_000_000_000
# A file that changed this recently, in ns, may change again within one tick of the file system's
# clock and keep its times.
UNSETTLED: Final = COARSE_STEP
# File systems whose records of files are kept by the kernel of this machine alone.
TRUSTED: Final = frozenset(
    ("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs")
)
MOUNTS: Final = "/proc/self/mountinfo"  # Linux alone has it
MOUNTS_SECONDS: Final = 1  # how long the list of mounted file systems is used


class FileIdentity(NamedTuple):
    """A version of a local file: another version of it, or another file, differs in some item.

    Attributes:
        device, inode: Which file it is.
        size: Its size, in bytes.
        modified: When its bytes were changed, in ns since 1970; programs can set it.
        changed: When its bytes or its record were changed, in ns since 1970.
    """

    device: int
    inode: int
    size: int
    modified: int
    changed: int


def identity_of(path: str) -> FileIdentity | None:
    """Return the identity of a local file.

    Call this before reading. If the file is replaced during the read, the cached content cannot be
    mistaken for the new file.

    Args:
        path: The file.

    Returns:
        The identity; None if the file cannot be found, if it changed a moment ago, or if its file
        system is not known to keep true records.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "new")
        >>> _ = path.write_bytes(b"x")
        >>> identity_of(str(path)) is None
        True
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    newest = max(found.st_ctime_ns, found.st_mtime_ns)
    if time.time_ns() - newest < UNSETTLED or found.st_dev not in _trusted_devices():
        return None
    return FileIdentity(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def settled(times: npt.NDArray[np.int64], listed: int) -> npt.NDArray[np.bool_]:
    """Return for each file whether any later change must give it another modification time.

    Args:
        times: Modification times in ns since 1970, shape (n,); -1 is unknown. Whole seconds come
            from a coarse clock.
        listed: The time just before the files were listed, in ns since 1970.

    Example:
        >>> settled(np.array([1_000_000_001, 1_000_000_000, -1]), 2_000_000_000)
        array([ True, False, False])
    """
    step = np.where(times % SECOND == 0, COARSE_STEP, STEP)
    is_settled: npt.NDArray[np.bool_] = (times != UNKNOWN) & (times + step < listed)
    return is_settled


def change_times(paths: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return when the bytes or the record of each local file were changed.

    Returns:
        int64 array in ns since 1970, shape (n,); -1 if a file cannot be found.
    """
    times = np.full(len(paths), UNKNOWN, np.int64)
    for i, path in enumerate(paths):
        with contextlib.suppress(OSError):
            times[i] = os.stat(path).st_ctime_ns
    return times


def identity_in(filesystem: pafs.FileSystem, path: str) -> FileIdentity | None:
    """Return the identity of a file.

    None as for `identity_of`, if the file is not local, or if `skipstone.config.keep_footers` is
    False.
    """
    is_kept = isinstance(filesystem, pafs.LocalFileSystem) and config.keep_footers
    return identity_of(path) if is_kept else None


def _trusted_devices() -> frozenset[int]:
    """Return the devices of the mounted file systems that are trusted."""
    return _devices_at(int(time.monotonic() / MOUNTS_SECONDS))


@functools.lru_cache(maxsize=1)
def _devices_at(moment: int) -> frozenset[int]:
    """Return the devices that are trusted; `moment` says when to read them again."""
    if sys.platform != "linux":
        return frozenset()
    try:
        with open(MOUNTS, encoding="utf-8", errors="replace") as file:
            return trusted_in(file.read())
    except OSError:
        return frozenset()


def trusted_in(mounts: str) -> frozenset[int]:
    """Return the devices of trusted file systems in the text of a list of mounts.

    A device that is mounted as several kinds of file systems is not trusted.

    Source: proc(5), `/proc/pid/mountinfo`.

    Example:
        >>> text = "27 1 254:0 / / rw - ext4 /dev/vda rw\\n40 27 0:51 / /mnt rw - nfs4 host:/ rw\\n"
        >>> trusted_in(text) == {os.makedev(254, 0)}
        True
    """
    kinds: dict[int, set[str]] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.partition(" ")[0]
        if len(fields) < 5:
            continue
        major, _, minor = fields[2].partition(":")
        if major.isdecimal() and minor.isdecimal():
            kinds.setdefault(os.makedev(int(major), int(minor)), set()).add(kind)
    return frozenset(device for device, own in kinds.items() if own <= TRUSTED)


def etags_of(fs: pafs.FileSystem, path: str) -> dict[str, str]:
    """Return etags by path without slashes around it.

    File systems of fsspec may have etags. pyarrow's own file systems do not show any.
    """
    handler = fs.handler if isinstance(fs, pafs.PyFileSystem) else None
    if not isinstance(handler, pafs.FSSpecHandler):
        return {}
    return _tags(handler.fs.find(path, detail=True))


def etag_of_file(fs: pafs.FileSystem, path: str) -> dict[str, str]:
    """Return the etag of one file, as `etags_of` does. A folder is not listed for it."""
    handler = fs.handler if isinstance(fs, pafs.PyFileSystem) else None
    return _tags({path: handler.fs.info(path)}) if isinstance(handler, pafs.FSSpecHandler) else {}


def _tags(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    tags = {name.strip("/"): info.get("ETag") or info.get("etag") for name, info in entries.items()}
    return {name: str(tag) for name, tag in tags.items() if tag}
