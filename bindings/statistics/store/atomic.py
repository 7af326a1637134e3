"""Replace files atomically: a new file takes its name once it is complete and on disk."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces any file at `path` when the block ends without an error.

    The file is open for writing and reading. If the block raises, the file is deleted and `path`
    stays as it was.

    Raises:
        OSError: the file cannot be written.
    """
    path = os.path.abspath(path)
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(temporary, flags, 0o666)
    except OSError as e:
        e.filename = path  # the file that the caller asked for
        raise
    try:
        with os.fdopen(handle, "w+b") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        try:
            os.replace(temporary, path)
        except OSError as e:
            if e.filename2 is None:
                raise
            raise OSError(e.errno, e.strerror, path) from None  # `e` names the temporary file
    except BaseException as e:
        if isinstance(e, OSError) and e.errno is not None and e.filename is None:
            e.filename = path  # errors of writing name no file
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync(os.path.dirname(path))


def _sync(folder: str) -> None:
    """Flush a folder's entries to disk, on systems that can do so."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
