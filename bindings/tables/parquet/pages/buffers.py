"""Reusable buffers for files in memory, so that the system need not clear new memory for each file.

A buffer is a `BytesIO`. It lends its bytes without a copy, and copies them itself if it is written
while somebody still holds them.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Final

from skipstone.kernels.run import forks

UNIT: Final = 1 << 20  # sizes of buffers are multiples of this; smaller ones are not kept
MAX_FREE: Final = 3 << 25  # bytes of all buffers that wait for their next use

_free: list[io.BytesIO] = []
_lock = forks.lock()


@contextlib.contextmanager
def buffer(size: int) -> Iterator[io.BytesIO]:
    """Yield a reusable, uninitialized buffer of at least `size` bytes.

    Example:
        >>> with buffer(3_000_000) as lent:
        ...     len(lent.getvalue()) >= 3_000_000
        True
    """
    if size < UNIT:
        yield io.BytesIO(bytes(size))
        return
    lent = _taken(size)
    yield lent  # after an error somebody may hold a view of it, so it is not kept
    with _lock:
        if sum(map(_capacity, _free)) + _capacity(lent) <= MAX_FREE:
            _free.append(lent)


def _taken(size: int) -> io.BytesIO:
    with _lock:
        fitting = [one for one in _free if size <= _capacity(one)]
        if fitting:
            found = min(fitting, key=_capacity)
            _free.remove(found)
            return found
        if _free:  # a larger one takes its place
            _free.remove(min(_free, key=_capacity))
    return io.BytesIO(bytes(-(-size // UNIT) * UNIT))


def _capacity(one: io.BytesIO) -> int:
    return one.seek(0, io.SEEK_END)
