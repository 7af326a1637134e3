"""Where statistics of tables are kept for other processes: `skipstone.cache_dir`."""

from __future__ import annotations

import os
import warnings

from skipstone.ir.errors import SourceError
from skipstone.kernels.run.private import exposed

_folder: str | None = None
_warned: set[str] = set()


def cache_dir() -> str | None:
    """The folder, as an absolute path; None: nothing is kept."""
    return _folder


def kept_in(*names: str) -> str | None:
    """Return a folder below `cache_dir()`, if nobody else can change what is in it.

    Else a saved table could be planted: one warning says so, and nothing is kept.
    """
    if _folder is None:
        return None
    path = os.path.join(_folder, *names)
    why = exposed(path)
    if why is None:
        return path
    if why not in _warned:
        _warned.add(why)
        warnings.warn(
            f"skipstone keeps nothing in skipstone.cache_dir = {_folder!r}: {why}. "
            "Name a folder of your own, below folders that only you or root can change.",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def set_cache_dir(folder: str | os.PathLike[str] | None) -> None:
    """Name the folder, which is made when something is put there; None keeps nothing from now on.

    Raises:
        SourceError: it is no path.
    """
    global _folder
    if folder is not None and (not isinstance(folder, str | os.PathLike) or not os.fspath(folder)):
        raise SourceError(f"cache_dir is {folder!r}; expected a folder's path, or None")
    _folder = None if folder is None else os.path.abspath(os.path.expanduser(os.fspath(folder)))
