"""Judge containers in smaller parts if judging all of them fails.

A bad container then affects only itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.outcome import Verdict
from skipstone.kernels.pack.columns import ColumnStatistics
from skipstone.kernels.pack.planes import Verdicts

if TYPE_CHECKING:
    import pyarrow as pa

    from skipstone.ir.node import Path
    from skipstone.ir.types import DType

MAX_FAILURES: Final = 16  # bad containers that are searched for; after them whole parts are kept


def by_parts(
    judge: Callable[[Statistics], Verdicts],
    statistics: Statistics,
    failed: Callable[[Exception, int], None],
) -> Verdicts:
    """Judge containers; those on which judging fails are MAYBE.

    Whatever a statistics provider or a file raises, no row is lost if the container is kept.

    Args:
        judge: Returns the verdicts of the containers of some statistics.
        statistics: The statistics of all containers.
        failed: Called with each error and the number of containers that are kept because of it.

    Returns:
        uint8 array, shape (containers,), of `Verdict`.
    """
    try:
        return judge(statistics)
    except Exception as e:
        first = e
    n = statistics.num_containers
    out = np.full(n, Verdict.MAYBE, np.uint8)
    failed_parts, remaining_searches = [(0, n, first)], MAX_FAILURES
    while failed_parts:
        start, stop, error = failed_parts.pop()
        if stop - start <= 1 or not remaining_searches:
            failed(error, stop - start)
            remaining_searches = max(remaining_searches - 1, 0)
            continue
        middle = (start + stop) // 2
        for a, b in ((middle, stop), (start, middle)):
            try:
                out[a:b] = judge(StatisticsSlice(statistics, a, b))
            except Exception as e:
                failed_parts.append((a, b, e))
    return out


class StatisticsSlice(Statistics):
    """The statistics of neighbouring containers. Each column is sliced before it is packed.

    Args:
        statistics: The statistics of all containers.
        start, stop: The slice is the containers [start, stop).
    """

    def __init__(self, statistics: Statistics, start: int, stop: int) -> None:
        self._statistics, self._start = statistics, start
        rows = statistics.row_count
        super().__init__(
            statistics.schema,
            stop - start,
            _SlicedColumns(statistics, start, stop - start),
            row_count=None if rows is None else rows.slice(start, stop - start),
            counts_parents=statistics.counts_parents,
        )

    @property
    def has_members(self) -> bool:
        """Return True if `contained_in` may have an answer."""
        return self._statistics.has_members

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Return the answer of the whole statistics, for these containers."""
        answer = self._statistics.contained_in(path, values, dtype)
        return None if answer is None else answer.slice(self._start, self.num_containers)


class _SlicedColumns(Mapping["Path", ColumnStatistics]):
    """Columns of neighbouring containers, sliced when they are first used."""

    def __init__(self, statistics: Statistics, start: int, count: int) -> None:
        self._statistics, self._start, self._count = statistics, start, count

    def __getitem__(self, path: Path) -> ColumnStatistics:
        if path not in self._statistics.leaf_paths():
            raise KeyError(path)
        raw = self._statistics.raw(path)
        arrays = (raw.min, raw.max, raw.null_count, raw.row_count, raw.nan_count)
        return ColumnStatistics(
            *(None if a is None else a.slice(self._start, self._count) for a in arrays)
        )

    def __iter__(self) -> Iterator[Path]:
        return iter(self._statistics.leaf_paths())

    def __len__(self) -> int:
        return len(self._statistics.leaf_paths())
