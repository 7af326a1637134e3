"""Entity tags of files, which some file systems have: they change with the content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.fs as pafs


def etags_of(fs: pafs.FileSystem, path: str) -> dict[str, str]:
    """Return etags by path without slashes around it.

    File systems of fsspec may have etags. pyarrow's own file systems do not show any.
    """
    handler = fs.handler if isinstance(fs, pafs.PyFileSystem) else None
    if not isinstance(handler, pafs.FSSpecHandler):
        return {}
    return _tags(handler.fs.find(path, detail=True))


def etag_of_file(fs: pafs.FileSystem, path: str) -> dict[str, str]:
    """Return the etag of one file, as `etags_of` does. A folder is not listed for it."""
    handler = fs.handler if isinstance(fs, pafs.PyFileSystem) else None
    return _tags({path: handler.fs.info(path)}) if isinstance(handler, pafs.FSSpecHandler) else {}


def _tags(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    tags = {name.strip("/"): info.get("ETag") or info.get("etag") for name, info in entries.items()}
    return {name: str(tag) for name, tag in tags.items() if tag}
