"""A small thread-safe cache of the newest values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A cache of at most `max_size` values, which drops the oldest value first.

    Two threads may make the same value at once; both get the value that is stored first. No lock is
    held, since each step is one operation of a dict. So one value may be made while another is
    being made. The garbage collector may also free a value in the middle of any step, which may
    drop other values.

    Args:
        max_size: The largest number of values; None means no limit.
    """

    def __init__(self, max_size: int | None = None) -> None:
        self._max_size, self._values = max_size, dict[K, V]()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; make it if it is missing."""
        found = self._values.get(key)
        if found is None:
            found = self._values.setdefault(key, make())
            self._drop()
        return found

    def find(self, key: K) -> V | None:
        """Return the value of a key, or None if it is missing."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """Store and return a value."""
        self._values[key] = value
        self._drop()
        return value

    def drop(self, key: K) -> None:
        """Remove one value, if it is there."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Remove all values."""
        self._values = {}

    def _drop(self) -> None:
        while self._max_size is not None and len(self._values) > self._max_size:
            try:
                self._values.pop(next(iter(self._values)), None)
            except (StopIteration, RuntimeError):  # another thread changed the dict
                continue

    def __iter__(self) -> Iterator[V]:
        return iter(tuple(self._values.values()))

    def __len__(self) -> int:
        return len(self._values)
