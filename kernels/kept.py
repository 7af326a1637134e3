"""The values made last, by key: a small cache that threads share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """At most `most` values; the one that was made first goes first.

    Two threads may make the same value at once; both are given the one that is there first.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most, self._values, self._lock = most, OrderedDict[K, V](), threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if it is not there."""
        found = self._values.get(key)
        if found is not None:
            return found
        made = make()
        with self._lock:
            found = self._values.get(key)
        return self.put(key, made) if found is None else found

    def find(self, key: K) -> V | None:
        """The value of a key, if it is there."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a value."""
        with self._lock:
            self._values[key] = value
            while self._most is not None and len(self._values) > self._most:
                self._values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Keep none of them any more."""
        with self._lock:
            gone, self._values = self._values, OrderedDict[K, V]()
        del gone  # what goes with them may take this lock again

    def __iter__(self) -> Iterator[V]:
        return iter(tuple(self._values.values()))

    def __len__(self) -> int:
        return len(self._values)
