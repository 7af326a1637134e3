"""Cache the Delta tables whose log this process has read.

The same version is not read again; for a newer version, only newer commits are read. The cache
keeps a table while the program holds it, and also the most recent tables, up to a gigabyte.

A version of a Delta table never changes, but another table may take its place. So the cache
compares the commit's size and time, and on a local file system also its inode and change time. It
does not notice a remote commit that was rewritten with the same size within the resolution of the
storage's clock, nor older commits and checkpoints that were rewritten below an unchanged commit.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from skipstone.kernels import logs
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.log import SnapshotRequest
    from skipstone.bindings.tables.delta.table import DeltaTable

MAX_CACHED_BYTES: Final = 1 << 30  # bytes of recent tables; the program may hold more itself

_lock = forks.lock()
_live_tables: weakref.WeakValueDictionary[SnapshotRequest, DeltaTable] = (
    weakref.WeakValueDictionary()
)
_recent_tables: OrderedDict[SnapshotRequest, DeltaTable] = OrderedDict()


def cached_table(
    request: SnapshotRequest, read: Callable[[DeltaTable | None], DeltaTable]
) -> DeltaTable:
    """Return the table of a version, from the cache if it is there.

    Args:
        request: The table and its version.
        read: Reads the table's log. Its argument is an older version of the same table, or None;
            with one, it reads only the newer part.
    """
    with _lock:
        table = _live_tables.get(request)
        older = [
            k
            for k in _live_tables
            if k.uri == request.uri and k.options == request.options and k.version < request.version
        ]
        if older and table is None:
            base = _live_tables.get(max(older, key=lambda k: k.version))
        else:
            base = None
    if table is None:
        table = read(base)
    else:
        logs.write("log in memory", table=table.path, version=table.version)
    with _lock:
        _live_tables[request] = table
        _recent_tables[request] = table
        _recent_tables.move_to_end(request)
        while (
            len(_recent_tables) > 1
            and sum(t.nbytes for t in _recent_tables.values()) > MAX_CACHED_BYTES
        ):
            _recent_tables.popitem(last=False)
        if table.nbytes > MAX_CACHED_BYTES:
            _recent_tables.pop(request, None)
    return table


def discard(request: SnapshotRequest) -> None:
    """Drop a version from the cache: the next scan reads it again."""
    with _lock:
        _recent_tables.pop(request, None)
        _live_tables.pop(request, None)


def forget() -> None:
    """Empty the cache."""
    with _lock:
        _recent_tables.clear()
        _live_tables.clear()
