"""Open the files of Iceberg tables: local ones by Arrow, all others by pyiceberg's FileIO.

pyiceberg's own FileIO for Arrow imports `pyarrow.dataset`, which imports pandas if it is installed.
This takes 0.2 s of a process's first answer.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.io import PY_IO_IMPL, load_file_io
from pyiceberg.table import StaticTable

from skipstone.bindings.tables.identity import FileIdentity, identity_in

# Properties by which pyiceberg opens even local files in another way.
OTHER_WAYS: Final = (PY_IO_IMPL, "DEFAULT_SCHEME", "DEFAULT_NETLOC")


@dataclass(frozen=True, slots=True)
class LocalInput:
    """A local file. It has what pyiceberg asks of an `InputFile` to read metadata.

    Attributes:
        location: The path or URI that names it.
        path: The path.
    """

    location: str
    path: str

    def open(self, seekable: bool = True) -> pa.NativeFile:
        """Open the file.

        Raises:
            OSError: it cannot be opened.
        """
        return pafs.LocalFileSystem().open_input_file(self.path)

    @property
    def identity(self) -> FileIdentity | None:
        """The identity of its content; None if nothing identifies it."""
        return identity_in(pafs.LocalFileSystem(), self.path)


class FileIO:
    """Opens the files of a table. It can be pickled.

    Args:
        properties: The properties of pyiceberg's FileIO.
        own: pyiceberg's FileIO; None to make it when a file needs it.
        location: A file of the table, which says how to make it.
    """

    def __init__(
        self, properties: Mapping[str, Any], own: Any = None, location: str | None = None
    ) -> None:
        self._properties, self._own, self._location = dict(properties), own, location
        is_arrow = own is None or type(own).__module__ == "pyiceberg.io.pyarrow"
        self._opens_local = is_arrow and not any(name in properties for name in OTHER_WAYS)

    def new_input(self, location: str) -> Any:
        """Return a file by its path or URI, as pyiceberg's `FileIO.new_input` does."""
        path = local_path(location) if self._opens_local else None
        if path is not None:
            return LocalInput(location, path)
        return self.own.new_input(location)

    @property
    def own(self) -> Any:
        """pyiceberg's FileIO."""
        if self._own is None:
            self._own = load_file_io(self._properties, self._location)
        return self._own


def local_path(location: str) -> str | None:
    """Return the path of a local file as pyiceberg understands it; None if it may be elsewhere.

    Example:
        >>> local_path("/a b"), local_path("file:///a%20b"), local_path("s3://a/b")
        ('/a b', '/a%20b', None)
    """
    if location.startswith("/"):
        return os.path.abspath(location)
    uri = urlparse(location)
    if uri.scheme != "file" or uri.params or uri.query or uri.fragment:
        return None
    return f"{uri.netloc}{uri.path}"


class LazyTable(StaticTable):  # type: ignore[misc]
    """A table of pyiceberg whose FileIO is made when someone asks for it.

    Args:
        identifier, metadata, location, catalog: As for `StaticTable`.
        files: Opens its files.
    """

    def __init__(
        self, identifier: tuple[str, ...], metadata: Any, location: str, files: FileIO, catalog: Any
    ) -> None:
        super().__init__(identifier, metadata, location, None, catalog)
        del self.__dict__["io"]  # so that the property below counts
        self.files = files

    @functools.cached_property
    def io(self) -> Any:
        """pyiceberg's FileIO."""
        return self.files.own


def file_io_of(table: Any) -> FileIO:
    """Return what opens the files of a table of pyiceberg."""
    if isinstance(table, LazyTable):
        return table.files
    return FileIO(getattr(table.io, "properties", {}), table.io)
