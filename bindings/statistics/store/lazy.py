"""A mapping whose values are read from a file at first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LazyMapping(Mapping[K, V], Generic[K, V]):
    """Values that are read when they are first used; pickled as a dict.

    Args:
        readers: By key, the function that reads its value.
        check: Raises if the file has changed since it was opened; called before each use.
    """

    def __init__(self, readers: Mapping[K, Callable[[], V]], check: Callable[[], None]) -> None:
        self._readers, self._values, self._check = readers, dict[K, V](), check

    def __getitem__(self, key: K) -> V:
        self._check()
        if key not in self._values:
            self._values[key] = self._readers[key]()
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._readers

    def __iter__(self) -> Iterator[K]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
