"""The common interface of a scan's files, and a cache of earlier lists."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pyarrow as pa

from skipstone.bindings.tables.files import Ints
from skipstone.ir.errors import SourceError
from skipstone.kernels.pack.planes import Mask
from skipstone.kernels.run import forks

if TYPE_CHECKING:
    from skipstone.bindings.filters.scan import DynamicFilters
    from skipstone.bindings.predicates.predicate import PruningPredicate
    from skipstone.bindings.spark.pruning.cost import ColumnBounds

MAX_CACHED: Final = 16  # lists


class UnjudgedFiles(SourceError):
    """The files of a scan cannot be judged, so the scan stays as it is."""


class ScanFiles(Protocol):
    """The n files of one scan.

    Attributes:
        paths: Their paths; no two scans of a plan share a path that names different rows.
        sizes: Their sizes in bytes, int64, shape (n,).
        partitioned: The partition columns.
        by: What judges them, for reports; "" for footers, a log or manifests.
    """

    by: str
    paths: list[str]
    sizes: Ints
    partitioned: pa.Schema

    @property
    def first(self) -> Ints | None:
        """The first position of each file's path, shape (n,); None if no path occurs twice."""
        ...

    def __len__(self) -> int:
        """Return the number of files."""
        ...

    def partition_mask(self, predicate: PruningPredicate) -> Mask:
        """Return the files that Spark opens by its own pruning, bool, shape (n,)."""
        ...

    def filtered_partitions(self, filters: DynamicFilters) -> Mask:
        """Return the files whose partition may hold a row that joins need, bool, shape (n,)."""
        ...

    def keep_mask(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        *,
        case_sensitive: bool,
        filters: DynamicFilters | None = None,
    ) -> Mask:
        """Return which of some files may hold a matching row, bool, shape (n,).

        Args:
            predicate: Over the columns of the files and of partitions.
            candidates: The files to judge, bool, shape (n,).
            case_sensitive: True if Spark distinguishes names by case, or may do so later. Only
                footers depend on it.
            filters: Dynamic filters that joins apply to the rows, or None.

        Raises:
            UnjudgedFiles: a column differs from Spark's by its name's case, or by its type.
        """
        ...

    def bounds(self, column: str, candidates: Mask) -> ColumnBounds:
        """Return the bounds of a column in the containers of some files.

        Args:
            column: A column that statistics can judge.
            candidates: The files, bool, shape (n,).
        """
        ...

    def rows(
        self,
        predicate: PruningPredicate,
        candidates: Mask,
        columns: list[str],
        *,
        case_sensitive: bool,
    ) -> pa.Table:
        """Read the rows of some files that match a predicate.

        Args:
            predicate: Over the columns of the files and of partitions.
            candidates: The files, bool, shape (n,).
            columns: The columns to read.
            case_sensitive: True if Spark distinguishes names by case. Only footers depend on it.

        Raises:
            UnjudgedFiles: a used column differs from Spark's by its name's case, or by its type.
            SourceError: a file cannot be read, or is no longer as it was listed.
            UnsupportedForm: the predicate cannot filter rows, or only Spark can read them.
        """
        ...


Files = TypeVar("Files", bound=ScanFiles)


class Listings:
    """A cache of the latest lists of files, each with the statistics read so far."""

    def __init__(self, max_size: int = MAX_CACHED) -> None:
        self._max_size = max_size
        self._lock = forks.lock()
        self._listings: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Files]) -> Files:
        """Return the list of a key; make it at first use.

        A key changes with the list's content, so an entry never becomes stale.
        """
        with self._lock:
            found = self._listings.get(key)
            if found is not None:
                self._listings.move_to_end(key)
                kept: Files = found
                return kept
        made = make()
        with self._lock:
            self._listings[key] = made
            while len(self._listings) > self._max_size:
                self._listings.popitem(last=False)
        return made
