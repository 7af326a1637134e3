"""The files of both caches: kernels with parsed conditions, and statistics of tables.

Only files with names that Skipstone gives are counted and removed, and only those of this user.
Everything may be removed at any time: other processes recreate what is missing, and keep using the
files that they have open.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skipstone.bindings.shards.manifest import SHARD_FILES
from skipstone.bindings.tables.delta.disk import MAX_TEMPORARY_AGE, SAVED_NAME
from skipstone.kernels.run.private import why_exposed

_HEX: Final = "[0-9a-f]"
_VERSION: Final = re.compile(r"\d[\w.+-]*-py\d+")
_KERNEL: Final = re.compile(
    rf"(skipstone_kernel_{_HEX}{{32}})\..+|({_HEX}{{32}})\.(?:cubin|lock)"
    rf"|(parse_{_HEX}{{32}})\.json"
)
_NEW: Final = re.compile(rf"\.new-{_HEX}{{16}}")
_TABLE: Final = re.compile(rf"{_HEX}{{32}}")
_TEMPORARY: Final = re.compile(rf"(.+)\.{_HEX}{{8}}\.tmp")


@dataclass
class Cache:
    """The contents of one cache.

    Attributes:
        name: "kernels" or "statistics".
        folder: The folder; None if none is set.
        problem: The reason why nothing is kept there, such as another owner; None if there is none.
        files: The files, by entry: a kernel, a version of a table, or a copy of a shard.
        folders: The folders of Skipstone's that hold them, innermost first.
    """

    name: str
    folder: str | None
    problem: str | None = None
    files: dict[str, list[os.DirEntry[str]]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @property
    def sizes(self) -> list[os.stat_result]:
        """The status of each file that is still there."""
        found = []
        for entry in (e for each in self.files.values() for e in each):
            with contextlib.suppress(OSError):
                found.append(entry.stat(follow_symlinks=False))
        return found


@dataclass(frozen=True)
class Removed:
    """What `clear` removed.

    Attributes:
        entries: The number of entries.
        bytes: The size of their files.
        in_use: The entries that stay, as another process makes them right now.
        errors: The reasons why files could not be removed.
    """

    entries: int
    bytes: int
    in_use: int
    errors: list[str]


def find_kernels(root: str) -> Cache:
    """Return the compiled kernels and the parsed conditions below the cache folder."""
    cache = Cache("kernels", root, _problem(root))
    for kind in ("kernels", "cubins", "parses"):
        for version in _folders_in(os.path.join(root, kind), _VERSION):
            for folder in (*_folders_in(version, re.compile("__pycache__")), version):
                for entry in _files_in(folder):
                    _add(cache, entry, _KERNEL)
                cache.folders.append(folder)
    return cache


def find_statistics(folder: str | None, root: str) -> Cache:
    """Return the saved statistics.

    Args:
        folder: The folder of saved statistics; None if none is set.
        root: The cache folder, which holds copies of remote shards if none is set.
    """
    cache = Cache("statistics", folder, _problem(root if folder is None else folder))
    shards = _folders_in(os.path.join(root, "shards"), _VERSION)
    if folder is not None:
        for table in _folders_in(os.path.join(folder, "delta"), _TABLE):
            for entry in _files_in(table):
                _add(cache, entry, SAVED_NAME)
            cache.folders.append(table)
        shards = [*shards, os.path.join(folder, "shards")]
    for copies in shards:
        for entry in _files_in(copies):
            if SHARD_FILES.fullmatch(_without_suffix(entry.name).partition("-")[2]):
                _add(cache, entry, re.compile(".*"))
        cache.folders.append(copies)
    return cache


def _without_suffix(name: str) -> str:
    """Return a file's name without the suffix of an unfinished file."""
    match = _TEMPORARY.fullmatch(name)
    return name if match is None else match[1]


def _add(cache: Cache, entry: os.DirEntry[str], pattern: re.Pattern[str]) -> None:
    """Add a file to its entry, if it is one of ours; an unfinished file only if it is old."""
    match = pattern.fullmatch(_without_suffix(entry.name))
    if match is None and _NEW.fullmatch(entry.name) is None:
        return
    unfinished = match is None or _TEMPORARY.fullmatch(entry.name) is not None
    with contextlib.suppress(OSError):  # another process has just removed it
        found = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or not _is_own(found):
            return
        if unfinished and time.time() - found.st_mtime < MAX_TEMPORARY_AGE:
            return
        kernel = match is not None and pattern is _KERNEL
        key = match[match.lastindex or 0] if kernel and match is not None else entry.path
        cache.files.setdefault(key, []).append(entry)


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def _problem(folder: str) -> str | None:
    """Return the reason why a folder is not used; None if it is usable or does not exist yet."""
    reason = why_exposed(folder)
    if reason is None and os.path.exists(folder) and not os.path.isdir(folder):
        return f"{folder} is not a folder"
    if reason is None and os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder} cannot be written to"
    return reason


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        yield from sorted(found, key=lambda e: e.name)


def _folders_in(folder: str, pattern: re.Pattern[str]) -> list[str]:
    return [
        e.path
        for e in _entries(folder)
        if pattern.fullmatch(e.name) and e.is_dir(follow_symlinks=False)
    ]


def _files_in(folder: str) -> Iterator[os.DirEntry[str]]:
    return (e for e in _entries(folder) if e.is_file(follow_symlinks=False))


def clear(cache: Cache) -> Removed:
    """Remove the files of a cache, and the folders of it that are then empty.

    A kernel that another process compiles or loads right now stays.
    """
    entries = nbytes = in_use = 0
    errors: list[str] = []
    if cache.problem is not None:
        return Removed(0, 0, 0, [])
    for files in cache.files.values():
        with contextlib.ExitStack() as stack:
            locks = [Path(e.path) for e in files if e.name.endswith(".lock")]
            if cache.name == "kernels" and not all(_locked(lock, stack) for lock in locks):
                in_use += 1
                continue
            gone = 0
            for entry in files:
                with contextlib.suppress(FileNotFoundError):
                    try:
                        size = entry.stat(follow_symlinks=False).st_size
                        os.unlink(entry.path)
                        gone, nbytes = gone + 1, nbytes + size
                    except PermissionError as e:
                        errors.append(f"{entry.path}: {e.strerror}")
            entries += gone > 0
    for folder in cache.folders:
        # Numba writes to `__pycache__` while another process holds a lock beside it.
        beside = os.path.dirname(folder) if folder.endswith("__pycache__") else folder
        if not any(_files_in(beside)):
            with contextlib.suppress(OSError):  # it is not there, or not empty
                os.rmdir(folder)
    return Removed(entries, nbytes, in_use, errors)


def _locked(path: Path, stack: contextlib.ExitStack) -> bool:
    """Take the lock of a kernel until the stack ends; False if another process holds it."""
    try:
        import fcntl

        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True
