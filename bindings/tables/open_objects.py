"""Keep objects of S3 open between the read of their footer and that of their rows.

Opening an object takes a request, and the next request waits for its answer. An open object is
still read by its path, so another object may have replaced it by then. Whether this has happened is
checked while its rows are read.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow.fs as pafs

from skipstone.bindings.tables.files import UNKNOWN
from skipstone.bindings.tables.parquet.pages.ranges import Ranges
from skipstone.bindings.tables.unchanged import check_looked_up, is_as_listed
from skipstone.kernels.run import forks
from skipstone.kernels.run.pool import ContextPool

# The kind of file system where an open file is known to hold only its path, size and time, and no
# connection. How the other kinds read an open file that was replaced has not been tried.
KEPT: Final = "s3"
MAX_OPEN: Final = 25  # of each file system: as many as are opened at once
# `id` of a file system, which is not hashable -> its open objects by path.
_open: dict[int, dict[str, Ranges]] = {}
_lock = forks.lock()


@contextlib.contextmanager
def open_object(filesystem: pafs.FileSystem, path: str) -> Iterator[Ranges]:
    """Open a remote file, and keep it open after the `with` block if it is an object in S3.

    `find_open` then returns the object with the bytes that the block read and kept.

    Raises:
        OSError: it cannot be opened.
    """
    ranges = Ranges(filesystem.open_input_file(path), local=False)
    if filesystem.type_name == KEPT:
        with _lock:
            own = _open.get(id(filesystem))
            if own is None:
                own = _open[id(filesystem)] = {}
                weakref.finalize(filesystem, _open.pop, id(filesystem), None)
            if path in own or len(own) < MAX_OPEN:
                own[path] = ranges
        yield ranges
        return
    with ranges.source:
        yield ranges


def find_open(
    filesystem: pafs.FileSystem, files: Iterable[tuple[str, int, int]]
) -> dict[str, Ranges]:
    """Return the open objects among some files, by path, with the bytes of them that were kept.

    Args:
        filesystem: Their file system.
        files: Their paths, sizes in bytes and times of change in ns since 1970, as they were
            listed. Objects whose size or time differs are left out.
    """
    own = _open.get(id(filesystem))
    if own is None:
        return {}
    return {
        path: own[path].copy()
        for path, size, time in files
        if path in own
        and UNKNOWN not in (size, time)
        and is_as_listed(own[path].source, size, time)
    }


@contextlib.contextmanager
def looked_up(filesystem: pafs.FileSystem, objects: Mapping[str, Ranges]) -> Iterator[None]:
    """Check in threads whether open objects were replaced; the end of the `with` block waits.

    Args:
        filesystem: Their file system.
        objects: Path -> the open object.

    Raises:
        StaleFile: an object was replaced or removed. An error that the block raises takes
            precedence.
        OSError: the storage cannot be reached.
    """
    if not objects:
        yield
        return
    with ContextPool(len(objects), "skipstone-look-up") as pool:
        infos = [pool.submit(filesystem.get_file_info, path) for path in objects]
        yield
        for info, ranges in zip(infos, objects.values(), strict=True):
            check_looked_up(info.result(), ranges.source)
