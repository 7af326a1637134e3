"""Where shards lie: a folder of this machine, or of any pyarrow file system, whose files are fetched before they are mapped."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow.fs as pafs

from skipstone.bindings.location import FileSystemLike, Location, in_folder, resolve
from skipstone.bindings.statistics.store.atomic import replacing
from skipstone.bindings.statistics.store.folder import kept_in
from skipstone.bindings.statistics.store.layout import wrong
from skipstone.kernels.run.compile_cache import directory

WAY_OUT: Final = "name a folder that save_shards or write_shards wrote"
# An object takes its name when its last byte is there; files of others are renamed.
OBJECT_STORES: Final = ("s3", "gcs", "abfs")
PIECE: Final = 1 << 24  # bytes that are fetched at a time


@dataclass(frozen=True)
class ShardFolder:
    """A folder.

    Attributes:
        filesystem: Any of pyarrow's.
        path: As the file system names the folder.
    """

    filesystem: pafs.FileSystem
    path: str

    @classmethod
    def of(cls, where: Location, filesystem: FileSystemLike | None = None) -> ShardFolder:
        """The folder of a path, or of a URI such as `file:/stats` or `s3://lake/stats`.

        Raises:
            SourceError: it is blank, or no file system is known for it.
        """
        return cls(*resolve(where, filesystem))

    @property
    def local(self) -> bool:
        """Whether its files can be mapped where they lie."""
        return isinstance(self.filesystem, pafs.LocalFileSystem)

    def at(self, name: str) -> str:
        """The path of a file."""
        return in_folder(self.path, name)

    def make(self) -> None:
        """Make the folder, if it is not there."""
        self.filesystem.create_dir(self.path, recursive=True)

    def names(self) -> set[str]:
        """The files that are there."""
        found = self.filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        return {f.base_name for f in found if f.is_file}

    def read(self, name: str) -> bytes:
        """A small file's bytes.

        Raises:
            StatisticsError: it cannot be read.
        """
        try:
            with self.filesystem.open_input_stream(self.at(name)) as f:
                return bytes(f.read())
        except OSError as e:
            raise wrong(self.at(name), f"cannot be read ({e})", WAY_OUT) from e

    def put(self, name: str, data: bytes) -> None:
        """A small file, which takes the place of any of its name when it is whole."""
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
        """Remove files, if they are there."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_file(self.at(name))

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[str]:
        """Where to write a new file on this machine; when the block ends well, it is sent to where it belongs."""
        if self.local:
            yield self.at(name)
            return
        with tempfile.TemporaryDirectory(prefix="skipstone-") as folder:
            yield (path := os.path.join(folder, name))
            with open(path, "rb") as f, self.filesystem.open_output_stream(self.at(name)) as to:
                shutil.copyfileobj(f, to, PIECE)

    def mapped(self, name: str, key: str) -> str:
        """Where a file can be mapped: itself, or a copy that is fetched once.

        Copies stay in `skipstone.cache_dir`, else in the user's cache directory, which may be emptied at any time.

        Args:
            name: The file.
            key: What tells it from others of its name, to name the copy by.

        Raises:
            StatisticsError: it cannot be fetched.
        """
        if self.local:
            return self.at(name)
        try:
            folder = kept_in("shards") or str(directory("shards"))
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as e:
            raise wrong(self.at(name), f"cannot be fetched ({e})") from e
        path = os.path.join(folder, f"{key}-{name}")
        if not os.path.exists(path):
            try:
                with self.filesystem.open_input_stream(self.at(name)) as f, replacing(path) as to:
                    shutil.copyfileobj(f, to, PIECE)
            except OSError as e:
                raise wrong(self.at(name), f"cannot be fetched ({e})") from e
        return path
