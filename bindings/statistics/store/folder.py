"""The folder that caches statistics of tables for other processes.

It is `config.statistics_cache_dir`, which is also called `skipstone.cache_dir`.
"""

from __future__ import annotations

import os
import warnings

from skipstone.kernels import logs
from skipstone.kernels.config import Config, config
from skipstone.kernels.run.private import why_exposed

_warned: set[str] = set()


def cache_dir() -> str | None:
    """Return the folder as an absolute path; None if nothing is cached on disk."""
    return config.statistics_cache_dir


def cache_folder(*names: str) -> str | None:
    """Return a folder below `cache_dir()` if no other user can change its contents.

    Otherwise another user could plant a forged table: warn once, return None and cache nothing.

    Args:
        names: The path of the folder below `cache_dir()`.
    """
    folder = cache_dir()
    if folder is None:
        return None
    path = os.path.join(folder, *names)
    reason = why_exposed(path)
    if reason is None:
        return path
    if reason not in _warned:
        _warned.add(reason)
        logs.fallback(f"skipstone keeps no statistics in {folder}: {reason}")
        warnings.warn(
            f"skipstone keeps nothing in config.statistics_cache_dir = {folder!r}: {reason}. "
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
    Config.statistics_cache_dir.set(folder, "cache_dir")
