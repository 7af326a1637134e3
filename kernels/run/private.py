"""Check that only this user can change a folder.

Otherwise someone could plant machine code or a saved log there.

Source: OpenSSH, `safe_path`, and Debian's rule for a user's own group.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def why_exposed(folder: str | os.PathLike[str]) -> str | None:
    """Return why others could change the contents of a folder, or None if they cannot.

    Args:
        folder: The folder. It and its parents need not exist yet. All of them are checked, as named
            and with links followed. Each must belong to this user or to root. Others may write only
            if the sticky bit keeps them from renaming files that are not theirs.

    Example:
        >>> why_exposed("/tmp")
        'others may write to /tmp'
    """
    if not hasattr(os, "getuid"):
        return None
    named, real = os.path.abspath(folder), os.path.realpath(folder)
    for path in dict.fromkeys((named, real)):
        for at in (Path(path), *Path(path).parents):
            try:
                found = os.lstat(at)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as e:
                return f"{at} cannot be looked at ({e.strerror})"
            if found.st_uid not in (0, os.getuid()):
                return f"{at} belongs to another user"
            sticky = found.st_mode & stat.S_ISVTX and str(at) not in (named, real)
            if not stat.S_ISLNK(found.st_mode) and not sticky and _shared(found):
                return f"others may write to {at}"
    return None


def _shared(found: os.stat_result) -> bool:
    """Return True if users other than the owner may write.

    A group of only the owner does not count.
    """
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _own_group(found)


def _own_group(found: os.stat_result) -> bool:
    """Return True if the group has the owner's name and no other member."""
    try:
        import grp
        import pwd

        owner, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid)
    except (ImportError, KeyError):
        return False
    return group.gr_name == owner and set(group.gr_mem) <= {owner}
