"""Tables whose log was read in this process: the same version is not read again, and a newer one only from there on.

A version of a Delta table never changes, but another table may be made in its place; so its commit
is compared, by size and time, and by inode and time of change on a local file system. A remote
commit that was rewritten with its size within the storage's step of time is not noticed, nor are
older commits and checkpoints that were rewritten below a commit that was not. Tables are kept as long as the program holds them, and the
last few besides, up to a gigabyte.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.tables.delta.log import SnapshotRequest
    from skipstone.bindings.tables.delta.table import DeltaTable

MOST: Final = 1 << 30  # bytes of tables that nobody holds

_lock = forks.lock()
_held: weakref.WeakValueDictionary[SnapshotRequest, DeltaTable] = weakref.WeakValueDictionary()
_last: OrderedDict[SnapshotRequest, DeltaTable] = OrderedDict()


def table_of(asked: SnapshotRequest, read: Callable[[DeltaTable | None], DeltaTable]) -> DeltaTable:
    """The table of a version.

    Args:
        asked: Which table and version.
        read: Reads its log; given an older version of the same place, if there is one, only what is newer than that.
    """
    with _lock:
        found = _held.get(asked)
        older = [
            k
            for k in _held
            if k.uri == asked.uri and k.options == asked.options and k.version < asked.version
        ]
        base = _held.get(max(older, key=lambda k: k.version)) if older and found is None else None
    if found is None:
        found = read(base)
    with _lock:
        _held[asked] = found
        _last[asked] = found
        _last.move_to_end(asked)
        while len(_last) > 1 and sum(t.nbytes for t in _last.values()) > MOST:
            _last.popitem(last=False)
        if found.nbytes > MOST:
            _last.pop(asked, None)
    return found


def discard(asked: SnapshotRequest) -> None:
    """Hold a version no more: the next scan reads it again."""
    with _lock:
        _last.pop(asked, None)
        _held.pop(asked, None)


def forget() -> None:
    """Hold no table any more."""
    with _lock:
        _last.clear()
        _held.clear()
