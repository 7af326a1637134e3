"""`ShardFolder`: a folder of shards, on this machine or on any pyarrow file system.

Files of other file systems are downloaded before they are mapped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow.fs as pafs

from skipstone.bindings.listing import entries_of
from skipstone.bindings.location import FileSystemLike, Location, in_folder, resolve
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.folder import cache_folder
from skipstone.bindings.statistics.store.layout import wrong
from skipstone.ir.errors import describe_error
from skipstone.kernels.run.compile_cache import directory

WAY_OUT: Final = "name a folder that save_shards or write_shards wrote"
# In these stores an object appears under its name only when its last byte has arrived. On other
# file systems a temporary file is renamed.
OBJECT_STORES: Final = ("s3", "gcs", "abfs")
COPY_BYTES: Final = 1 << 24  # bytes that are copied at a time


@dataclass(frozen=True)
class ShardFolder:
    """A folder of shards.

    Attributes:
        filesystem: Any pyarrow file system.
        path: The folder's path on it.
    """

    filesystem: pafs.FileSystem
    path: str

    @classmethod
    def of(cls, where: Location, filesystem: FileSystemLike | None = None) -> ShardFolder:
        """Return the folder at a path, or at a URI such as `file:/stats` or `s3://lake/stats`.

        Raises:
            SourceError: the path is blank, or no file system is known for it.
        """
        return cls(*resolve(where, filesystem))

    @property
    def local(self) -> bool:
        """True if its files can be mapped in place."""
        return isinstance(self.filesystem, pafs.LocalFileSystem)

    def at(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return in_folder(self.path, name)

    def make(self) -> None:
        """Create the folder if it does not exist."""
        self.filesystem.create_dir(self.path, recursive=True)

    def names(self) -> set[str]:
        """Return the names of the files in the folder."""
        infos = entries_of(self.filesystem, self.path, missing_ok=True)
        return {f.base_name for f in infos if f.is_file}

    def read(self, name: str) -> bytes:
        """Read a small file.

        Raises:
            StatisticsError: the file cannot be read.
        """
        try:
            with self.filesystem.open_input_stream(self.at(name)) as f:
                return bytes(f.read())
        except OSError as e:
            raise wrong(self.at(name), f"cannot be read ({describe_error(e)})", WAY_OUT) from e

    def put(self, name: str, data: bytes) -> None:
        """Write a small file, which replaces any file of its name once it is complete.

        Raises:
            OSError: the file cannot be written.
        """
        if self.local:
            with replacing(self.at(name)) as f:
                f.write(data)
            return
        direct = self.filesystem.type_name in OBJECT_STORES
        to = self.at(name if direct else f"{name}.tmp")
        with self.filesystem.open_output_stream(to) as f:
            f.write(data)
        if not direct:
            self.filesystem.move(to, self.at(name))

    def remove(self, names: Iterable[str]) -> None:
        """Delete files; ignore those that do not exist."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_file(self.at(name))

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[str]:
        """Yield a local path to write a new file to; upload it if the block ends without an error.

        If the folder can be mapped in place, the path is in it and nothing is uploaded.
        """
        if self.local:
            yield self.at(name)
            return
        with tempfile.TemporaryDirectory(prefix="skipstone-") as folder:
            yield (path := os.path.join(folder, name))
            with open(path, "rb") as f, self.filesystem.open_output_stream(self.at(name)) as to:
                shutil.copyfileobj(f, to, COPY_BYTES)

    def mapped(self, name: str, key: str) -> str:
        """Return the path at which a file can be mapped; download a remote file once.

        Copies stay in `config.statistics_cache_dir`, or else in the user's cache directory. Both
        may be emptied at any time.

        Args:
            name: The file.
            key: A key that tells files of one name apart; it becomes part of the copy's name.

        Raises:
            StatisticsError: the file cannot be downloaded.
        """
        if self.local:
            return self.at(name)
        try:
            folder = cache_folder("shards") or str(directory("shards"))
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as e:
            raise wrong(self.at(name), f"cannot be downloaded ({describe_error(e)})") from e
        path = os.path.join(folder, f"{key}-{name}")
        if not os.path.exists(path):
            try:
                with self.filesystem.open_input_stream(self.at(name)) as f, replacing(path) as to:
                    shutil.copyfileobj(f, to, COPY_BYTES)
            except OSError as e:
                raise wrong(self.at(name), f"cannot be downloaded ({describe_error(e)})") from e
        return path
