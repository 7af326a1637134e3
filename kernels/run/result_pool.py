"""Room for results, which is used again once nobody holds it.

Fresh pages have to be mapped and zeroed when they are first written: for the packed verdicts of 10 M
containers that took as long as half of the kernel itself. So a few buffers are kept, and one is handed
out again when no array refers to it any more: NumPy's views, however derived, hold the array that owns
their memory, which its count of references tells.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.run import forks

CACHE_LINE: Final = 64  # bytes of a cache line
MAX_SMALL: Final = 1 << 16  # bytes up to which the allocator has mapped pages at hand
MAX_BUFFER: Final = 1 << 27  # bytes of a buffer that is kept
MAX_POOL: Final = 1 << 28  # bytes of all of them
Bytes = npt.NDArray[np.uint8]

_buffers: list[
    tuple[Bytes, int]
] = []  # buffers, and where a cache line starts in each; the last used at the end
_lock = forks.lock()
_probe = [object()]
UNREFERENCED: Final = sys.getrefcount(_probe[0])  # of what nothing but a list holds
# Without a global lock, or on another interpreter, counts of references do not tell who holds what.
_has_refcounts = (
    sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
)


def allocate(size: int) -> Bytes:
    """Bytes that hold anything, from a cache line on.

    Args:
        size: How many.

    Returns:
        uint8 array of shape (size,), host memory, aligned to 64 bytes; the caller's until nothing refers to it.
    """
    if size <= MAX_SMALL or size > MAX_BUFFER or not _has_refcounts:
        return _aligned(*_new_buffer(size), size)
    with _lock:
        for i in range(len(_buffers)):
            if (
                size <= _buffers[i][0].size - CACHE_LINE <= 2 * size
                and sys.getrefcount(_buffers[i][0]) == UNREFERENCED
            ):
                _buffers.append(_buffers.pop(i))
                return _aligned(*_buffers[-1], size)
        _buffers.append(_new_buffer(size))
        out = _aligned(*_buffers[-1], size)
        while sum(buffer.size for buffer, _ in _buffers) > MAX_POOL:
            _buffers.pop(0)
        return out


def allocate_words(count: int) -> npt.NDArray[np.uint64]:
    """Room for words of 64 containers."""
    if count * 8 <= MAX_SMALL:
        return np.empty(count, np.uint64)
    return allocate(count * 8).view(np.uint64)


def _new_buffer(size: int) -> tuple[Bytes, int]:
    buffer = np.empty(size + CACHE_LINE, np.uint8)
    return buffer, -buffer.ctypes.data % CACHE_LINE


def _aligned(buffer: Bytes, skip: int, size: int) -> Bytes:
    return buffer[skip : skip + size]
