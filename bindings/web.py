"""Files on web servers, which are read by ranges of bytes. fsspec is imported at first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.ir.errors import BackendMissing, describe_error

GONE = (404, 410)  # HTTP's statuses for what is not there


class WebHandler(pafs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """fsspec's HTTP files, without its listing: that would download a file to look for links."""

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Return the files at URLs. The server is asked for their headers only.

        Raises:
            OSError: a server cannot be reached, or refuses the request.
        """
        return [self._info(path) for path in paths]

    def _info(self, url: str) -> pafs.FileInfo:
        try:
            found = self.fs.info(url)
        except FileNotFoundError as e:  # fsspec raises it for every failure
            cause: Any = e.__cause__
            if cause is None or getattr(cause, "status", None) in GONE:
                return pafs.FileInfo(url, pafs.FileType.NotFound)
            raise OSError(describe_error(cause)) from e
        if found.get("size") is None:
            raise OSError("the server does not say how long the file is")
        return pafs.FileInfo(url, pafs.FileType.File, size=found["size"])

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Open a file, whose length the server is asked for."""
        return pa.PythonFile(self.fs.open(path, mode="rb"), mode="r")

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """Raise an error: web servers have no folders.

        Raises:
            OSError: always.
        """
        raise OSError("a web server lists no folders; name the files one by one")


def web_files(scheme: str) -> pafs.FileSystem:
    """Return the file system of "http" or "https", whose paths are whole URLs.

    Raises:
        BackendMissing: fsspec or aiohttp is not installed.
    """
    try:
        import fsspec

        fs = fsspec.filesystem(scheme, cache_type="none")  # each read is one request
    except ImportError as e:
        raise BackendMissing(
            f"reading {scheme} URIs needs a package that is missing ({describe_error(e)}): "
            "pip install 'skipstone[http]'"
        ) from e
    return pafs.PyFileSystem(WebHandler(fs))
