"""Upload large arrays through pinned host memory.

CUDA copies pageable memory through a buffer of its own, which one thread fills: an H200 received
7 GB/s that way. Threads that fill two pinned buffers of 16 MiB in turns gave it 17 to 20 GB/s.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from skipstone.kernels import settings

# Arrays from this size on are uploaded this way. 32 MiB took 2.4 ms either way, 64 MiB 8.0 and 3.9.
MIN_BYTES: Final = 1 << 26
BUFFER_BYTES: Final = 1 << 24
BUFFERS: Final = 2
# More threads are no faster: host memory is then the limit.
THREADS: Final = 4

Bytes = npt.NDArray[np.uint8]


class Buffer(Protocol):
    """Pinned host memory that a device can read while the host goes on."""

    @property
    def memory(self) -> Bytes:
        """The memory, shape (BUFFER_BYTES,)."""
        ...

    def send(self, at: int, size: int) -> None:
        """Start to copy the first `size` bytes to the byte `at` of the device's array."""
        ...

    def wait(self) -> None:
        """Wait until the last copy has read the memory."""
        ...


def pays(nbytes: int) -> bool:
    """Return True if an array of some bytes is uploaded sooner through pinned buffers."""
    return nbytes >= MIN_BYTES and settings.cpus() > 1


def upload(values: npt.NDArray[Any], buffers: Sequence[Buffer]) -> None:
    """Send an array's bytes through buffers; return once the device has read all of them.

    Args:
        values: A contiguous array, host memory.
        buffers: The buffers, which take turns.
    """
    source, workers = values.reshape(-1).view(np.uint8), min(THREADS, settings.cpus())
    try:
        with ThreadPoolExecutor(workers, "skipstone-upload") as pool:
            for i, at in enumerate(range(0, len(source), BUFFER_BYTES)):
                buffer, part = buffers[i % len(buffers)], source[at : at + BUFFER_BYTES]
                target, step = buffer.memory[: len(part)], -(-len(part) // workers)
                buffer.wait()
                pieces = [slice(k, k + step) for k in range(0, len(part), step)]
                list(pool.map(np.copyto, [target[p] for p in pieces], [part[p] for p in pieces]))
                buffer.send(at, len(part))
    finally:
        for buffer in buffers:
            buffer.wait()
