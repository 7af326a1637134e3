"""Keep objects of remote storage open between the read of their footer and that of their rows.

Opening an object takes a request, whose answer the next one waits for. An object that is open is
read by its path, so its rows may be another object's by then: whether it was replaced is looked up
while rows are read.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from skipstone.bindings.tables.files import UNKNOWN
from skipstone.bindings.tables.unchanged import check_looked_up, is_as_listed
from skipstone.kernels.run import forks
from skipstone.kernels.run.pool import ContextPool

# The kinds of file systems where opening takes a request, and reading an open file no connection.
KEPT: Final = ("abfs", "gcs", "s3")
MAX_OPEN: Final = 25  # of each file system: as many as are opened at once
# By the `id` of a file system, which has no hash: its open objects by path.
_open: dict[int, dict[str, pa.NativeFile]] = {}
_lock = forks.lock()


@contextlib.contextmanager
def open_object(filesystem: pafs.FileSystem, path: str) -> Iterator[pa.NativeFile]:
    """Open a file, and keep it open after the `with` block if it lies in an object store.

    Raises:
        OSError: it cannot be opened.
    """
    source = filesystem.open_input_file(path)
    if filesystem.type_name in KEPT:
        with _lock:
            own = _open.get(id(filesystem))
            if own is None:
                own = _open[id(filesystem)] = {}
                weakref.finalize(filesystem, _open.pop, id(filesystem), None)
            if path in own or len(own) < MAX_OPEN:
                own[path] = source
        yield source
        return
    with source:
        yield source


def find_open(
    filesystem: pafs.FileSystem, files: Iterable[tuple[str, int, int]]
) -> dict[str, pa.NativeFile]:
    """Return those of some files that are open: path -> the open object.

    Args:
        filesystem: Their file system.
        files: Their paths, sizes in bytes and times of change in ns since 1970, as they were
            listed. Objects of other sizes and times are left out.
    """
    own = _open.get(id(filesystem))
    if own is None:
        return {}
    return {
        path: own[path]
        for path, size, time in files
        if path in own and UNKNOWN not in (size, time) and is_as_listed(own[path], size, time)
    }


@contextlib.contextmanager
def looked_up(filesystem: pafs.FileSystem, sources: Mapping[str, pa.NativeFile]) -> Iterator[None]:
    """Look up in threads whether open objects were replaced; the end of the block waits for them.

    Args:
        filesystem: Their file system.
        sources: Path -> the open object.

    Raises:
        StaleFile: an object was replaced or removed. An error that the block raises comes first.
        OSError: the storage cannot be reached.
    """
    if not sources:
        yield
        return
    with ContextPool(len(sources), "skipstone-look-up") as pool:
        infos = [pool.submit(filesystem.get_file_info, path) for path in sources]
        yield
        for info, source in zip(infos, sources.values(), strict=True):
            check_looked_up(info.result(), source)
