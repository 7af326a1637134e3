"""A thread-safe LRU cache, bounded by bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from skipstone.kernels.run import forks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """An LRU cache of as many values as fit into a number of bytes.

    Args:
        max_bytes: The largest sum of their sizes.

    Example:
        >>> recent = LruCache[str, int](100)
        >>> for i, name in enumerate("abc"):
        ...     recent.put(name, i, 40)
        >>> recent.find("a"), recent.find("c")
        (None, 2)
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._nbytes = max_bytes, 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = forks.lock()

    def find(self, key: K) -> V | None:
        """Return the value of a key, or None if it is not there."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Store a value of about `nbytes` bytes; one that does not fit is not stored."""
        dropped = []  # freed without the lock, because freeing may call anything
        with self._lock:
            if key in self._values:
                dropped.append(self._values.pop(key))
                self._nbytes -= dropped[-1][1]
            if nbytes <= self._max_bytes:
                self._values[key] = value, nbytes
                self._nbytes += nbytes
            while self._nbytes > self._max_bytes:
                dropped.append(self._values.popitem(last=False)[1])
                self._nbytes -= dropped[-1][1]

    @property
    def nbytes(self) -> int:
        """The sum of the values' sizes."""
        return self._nbytes

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            dropped, self._values, self._nbytes = self._values, OrderedDict(), 0
        del dropped

    def __len__(self) -> int:
        return len(self._values)
