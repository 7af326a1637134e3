"""`skipstone.cache_dir`, the folder that caches statistics of tables for other processes."""

from __future__ import annotations

import os
import warnings

from skipstone.ir.errors import SourceError
from skipstone.kernels.run.private import exposed

_folder: str | None = None
_warned: set[str] = set()


def cache_dir() -> str | None:
    """Return the folder as an absolute path; None: nothing is cached on disk."""
    return _folder


def kept_in(*names: str) -> str | None:
    """Return a folder below `cache_dir()` if no other user can change its contents.

    Otherwise another user could plant a forged table: warn once, return None and cache nothing.

    Args:
        names: The path of the folder below `cache_dir()`.
    """
    if _folder is None:
        return None
    path = os.path.join(_folder, *names)
    reason = exposed(path)
    if reason is None:
        return path
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(
            f"skipstone keeps nothing in skipstone.cache_dir = {_folder!r}: {reason}. "
            "Choose a folder of your own, below folders that only you or root can change.",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def set_cache_dir(folder: str | os.PathLike[str] | None) -> None:
    """Set the folder.

    Args:
        folder: A path; the folder is created when something is first cached. None: cache nothing
            on disk from now on.

    Raises:
        SourceError: `folder` is not a path.
    """
    global _folder
    if folder is not None and (not isinstance(folder, str | os.PathLike) or not os.fspath(folder)):
        raise SourceError(f"cache_dir is {folder!r}; expected a folder's path, or None")
    _folder = None if folder is None else os.path.abspath(os.path.expanduser(os.fspath(folder)))
