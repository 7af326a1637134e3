"""Keep decoded manifests: those that a table uses, and the latest others up to some bytes.

A manifest never changes, so a table's next snapshot reads only the manifests that are new in it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from skipstone.kernels.run import forks
from skipstone.kernels.run.lru_cache import LruCache

MAX_CACHED_BYTES: Final = 64 << 20
# Path, length, and what the manifest's entries inherit: sequence number and partition spec.
Key = tuple[str, int, int, int]


class Decoded(Protocol):
    """A decoded manifest."""

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that it holds."""
        ...


M = TypeVar("M", bound=Decoded)


class ManifestCache(Generic[M]):
    """Decoded manifests by their keys. Threads may share it.

    Args:
        max_bytes: The largest number of bytes of manifests that no table uses.
    """

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._in_use: weakref.WeakValueDictionary[Key, M] = weakref.WeakValueDictionary()
        self._latest = LruCache[Key, M](max_bytes)
        self._lock = forks.lock()

    def find(self, keys: Iterable[Key]) -> dict[Key, M]:
        """Return the manifests of some keys that are there, and count them as used."""
        with self._lock:
            found = {key: one for key in keys if (one := self._in_use.get(key)) is not None}
            self._keep(found)
        return found

    def add(self, manifests: Mapping[Key, M]) -> None:
        """Add manifests."""
        with self._lock:
            self._in_use.update(manifests)
            self._keep(manifests)

    def _keep(self, manifests: Mapping[Key, M]) -> None:
        for key, one in manifests.items():
            self._latest.put(key, one, one.held_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the manifests that stay even if no table uses them."""
        return self._latest.nbytes

    def clear(self) -> None:
        """Forget all manifests: tables that are scanned from now on read theirs again."""
        with self._lock:
            self._in_use.clear()
            self._latest.clear()
