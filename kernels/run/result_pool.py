"""A pool of reusable result buffers.

Fresh pages must be mapped and zeroed when they are first written. For the packed verdicts of 10 M
containers this took half as long as the kernel. So a few buffers are kept. A buffer is handed out
again when no array refers to it any more: NumPy's views, however derived, hold the array that owns
their memory, so its reference count tells.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.run import forks

CACHE_LINE: Final = 64  # bytes of a cache line
# Largest size in bytes that is not pooled: for such sizes, the allocator keeps mapped pages ready.
MAX_SMALL: Final = 1 << 16
MAX_BUFFER: Final = 1 << 27  # largest buffer that is kept, in bytes
MAX_POOL: Final = 1 << 28  # largest total of all kept buffers, in bytes
Bytes = npt.NDArray[np.uint8]

# Buffers, and the offset of the first cache line in each; the last used at the end.
_buffers: list[tuple[Bytes, int]] = []
_lock = forks.lock()
_probe = [object()]
# the reference count of an object that only a list holds
UNREFERENCED: Final = sys.getrefcount(_probe[0])
# Without the GIL, or on another interpreter, reference counts are not exact.
_has_refcounts = (
    sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
)


def allocate(size: int) -> Bytes:
    """Return uninitialized bytes that start at a cache line.

    Args:
        size: The number of bytes.

    Returns:
        uint8 array of shape (size,), host memory, aligned to 64 bytes. It belongs to the caller
        until nothing refers to it.
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
    """Return an uninitialized array of words of 64 containers, shape (count,), host memory."""
    if count * 8 <= MAX_SMALL:
        return np.empty(count, np.uint64)
    return allocate(count * 8).view(np.uint64)


def _new_buffer(size: int) -> tuple[Bytes, int]:
    buffer = np.empty(size + CACHE_LINE, np.uint8)
    return buffer, -buffer.ctypes.data % CACHE_LINE


def _aligned(buffer: Bytes, skip: int, size: int) -> Bytes:
    return buffer[skip : skip + size]
