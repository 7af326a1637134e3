"""Read footers from object stores by one request each, of files whose sizes are known.

Source: Arrow's C++ `FileSystem::OpenInputFile(FileInfo)`, which asks for no size that it is given.
In Python only the fragments of datasets pass it on.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.tables.parquet.heads import MAGIC
from skipstone.bindings.tables.parquet.pages.ranges import is_local

FEW: Final = 8  # files; importing `pyarrow.dataset` takes as long as two requests
FETCH: Final = 1 << 16  # bytes that pyarrow reads of a file's end


class RemoteFooters:
    """Footers of one file system's files.

    Args:
        filesystem: The file system.
        files: The number of files.
    """

    def __init__(self, filesystem: pafs.FileSystem, files: int) -> None:
        self._filesystem = filesystem
        # File systems in Python open files by their paths alone.
        remote = not is_local(filesystem) and not isinstance(filesystem, pafs.PyFileSystem)
        self._on = remote and files >= FEW

    def read(self, path: str, size: int) -> tuple[bytes, int] | None:
        """Return a file's footer, and the number of bytes that were read from storage.

        pyarrow returns the footer parsed; written again it is the same, unless it has fields that
        pyarrow does not know. Then its length differs.

        Args:
            path: The file.
            size: Its size in bytes as it was listed; -1 is unknown.

        Returns:
            None if the footer must be read from the opened file, whose errors tell more.
        """
        if not self._on or size <= 0:
            return None
        import pyarrow.dataset as ds

        try:
            found = ds.ParquetFileFormat().make_fragment(path, self._filesystem, file_size=size)
            metadata = found.metadata
        except (OSError, ValueError, pa.ArrowException):
            return None
        out = pa.BufferOutputStream()
        metadata.write_metadata_file(out)
        footer = out.getvalue().to_pybytes()[len(MAGIC) : -len(MAGIC) - 4]
        if len(footer) != metadata.serialized_size:
            self._on = False  # the other files have the same writer, mostly
            return None
        return footer, max(min(size, FETCH), len(footer) + 8)
