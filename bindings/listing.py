"""List folders of any pyarrow file system."""

from __future__ import annotations

import os

import pyarrow.fs as pafs


def entries_of(
    fs: pafs.FileSystem, folder: str, *, recursive: bool = False, missing_ok: bool = False
) -> list[pafs.FileInfo]:
    """Return what lies in a folder.

    Args:
        fs: The file system.
        folder: The folder.
        recursive: True to list the folders in it, too.
        missing_ok: True to return nothing if the folder does not exist.

    Raises:
        OSError, ArrowException, ValueError: the folder cannot be listed, or a name in it is not
            text; these are `REFUSED` of bindings/location.py.
    """
    selector = pafs.FileSelector(folder, recursive=recursive, allow_not_found=missing_ok)
    entries: list[pafs.FileInfo] = fs.get_file_info(selector)
    try:
        for entry in entries:
            _ = entry.path  # pyarrow decodes it here
    except UnicodeDecodeError as e:
        raise ValueError(
            f"it holds {os.fsdecode(e.object)!r}, whose name is not UTF-8 text; rename it"
        ) from e
    return entries
