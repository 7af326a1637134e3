"""The values made last, by key: a small cache that threads share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """At most `most` values; the one that was made first goes first.

    Two threads may make the same value at once; both are given the one that is there first. No
    lock is held: each step is one operation of a dict. So a value may be made while another is, and the
    collector may end a value, which forgets others, in the middle of any step.
    """

    def __init__(self, max_size: int | None = None) -> None:
        self._max_size, self._values = max_size, dict[K, V]()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made if it is not there."""
        found = self._values.get(key)
        if found is None:
            found = self._values.setdefault(key, make())
            self._drop()
        return found

    def find(self, key: K) -> V | None:
        """Return the value of a key, if it is there."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a value."""
        self._values[key] = value
        self._drop()
        return value

    def drop(self, key: K) -> None:
        """Forget one value, if it is there."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Forget all values."""
        self._values = {}

    def _drop(self) -> None:
        while self._max_size is not None and len(self._values) > self._max_size:
            try:
                self._values.pop(next(iter(self._values)), None)
            except (StopIteration, RuntimeError):  # another thread changed it meanwhile
                continue

    def __iter__(self) -> Iterator[V]:
        return iter(tuple(self._values.values()))

    def __len__(self) -> int:
        return len(self._values)
