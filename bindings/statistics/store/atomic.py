"""Files that take their name when they are whole and on disk, and not before."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A new file, to be written and read, that takes the place of any at `path` when the block ends well; else nothing is left of it."""
    path = os.path.abspath(path)
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    handle = os.open(
        temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
    )
    try:
        with os.fdopen(handle, "w+b") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync(os.path.dirname(path))


def _sync(folder: str) -> None:
    """Make the new name last, where folders can be told to."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
