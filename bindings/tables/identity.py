"""Identify the content of local files without reading it, so that what was read can be used again.

The system's record of a file says when the file was last changed, and no program can set that time.
"""

from __future__ import annotations

import os
import time
from typing import Final, NamedTuple

import pyarrow.fs as pafs

from skipstone.kernels.config import config

# A file that changed this recently, in ns, may change again within one tick of the file system's
# clock and keep its times. The ticks of some file systems last two seconds.
UNSETTLED: Final = 2 * 10**9
# Windows has the time of creation in the place of the time of change.
HAS_CHANGE_TIME: Final = os.name == "posix"


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

    Ask for it before the file is read: if the file is replaced while it is read, what was read is
    then never found under the identity of the new file.

    Args:
        path: The file.

    Returns:
        The identity; None if the file cannot be found, if it changed a moment ago, or if the system
        does not say when it changed.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "new")
        >>> _ = path.write_bytes(b"x")
        >>> identity_of(str(path)) is None
        True
    """
    if not HAS_CHANGE_TIME:
        return None
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    newest = max(found.st_ctime_ns, found.st_mtime_ns)
    if time.time_ns() - newest < UNSETTLED:
        return None
    return FileIdentity(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def identity_in(filesystem: pafs.FileSystem, path: str) -> FileIdentity | None:
    """Return the identity of a file.

    None as for `identity_of`, if the file is not local, or if `skipstone.config.keep_footers` is
    False.
    """
    is_kept = isinstance(filesystem, pafs.LocalFileSystem) and config.keep_footers
    return identity_of(path) if is_kept else None
