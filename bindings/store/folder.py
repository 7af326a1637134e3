"""Where statistics of tables are kept for other processes: `skipstone.cache_dir`."""

from __future__ import annotations

import os

from skipstone.ir.errors import SourceError

_folder: str | None = None


def cache_dir() -> str | None:
    """The folder, as an absolute path; None: nothing is kept."""
    return _folder


def set_cache_dir(folder: str | os.PathLike[str] | None) -> None:
    """Name the folder, which is made when something is put there; None keeps nothing from now on.

    Raises:
        SourceError: it is no path.
    """
    global _folder
    if folder is not None and (not isinstance(folder, str | os.PathLike) or not os.fspath(folder)):
        raise SourceError(f"cache_dir is {folder!r}; expected a folder's path, or None")
    _folder = None if folder is None else os.path.abspath(os.path.expanduser(os.fspath(folder)))
