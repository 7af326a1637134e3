"""Judging containers part by part where judging all of them at once fails, so that one bad
container costs only itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.outcome import Verdict
from skipstone.kernels.pack.columns import Raw

if TYPE_CHECKING:
    import pyarrow as pa

    from skipstone.ir.node import Path
    from skipstone.ir.types import DType

Verdicts = npt.NDArray[np.uint8]
MAX_FAILURES: Final = 16  # containers that are looked for one by one; the rest of a part is kept


def by_parts(
    judge: Callable[[Statistics], Verdicts],
    statistics: Statistics,
    failed: Callable[[Exception, int], None],
) -> Verdicts:
    """Judge containers; those on which judging fails are MAYBE.

    Args:
        judge: Gives the verdicts of the containers of some statistics.
        statistics: Of all containers.
        failed: Told of each failure, and of how many containers are kept for it. Whatever a
            statistics provider or a file
            raises, no row is lost without the filter.
    """
    try:
        return judge(statistics)
    except Exception as e:
        first = e
    n = statistics.num_containers
    out = np.full(n, Verdict.MAYBE, np.uint8)
    waiting, left = [(0, n, first)], MAX_FAILURES
    while waiting:
        start, stop, error = waiting.pop()
        if stop - start <= 1 or not left:
            failed(error, stop - start)
            left = max(left - 1, 0)
            continue
        middle = (start + stop) // 2
        for a, b in ((middle, stop), (start, middle)):
            try:
                out[a:b] = judge(Part(statistics, a, b))
            except Exception as e:
                waiting.append((a, b, e))
    return out


class Part(Statistics):
    """The statistics of neighbouring containers. Each column is sliced before it is packed.

    Args:
        of: All statistics.
        start, stop: The containers [start, stop).
    """

    def __init__(self, of: Statistics, start: int, stop: int) -> None:
        self._of, self._start = of, start
        rows = of.row_count
        super().__init__(
            of.schema,
            stop - start,
            _Slices(of, start, stop - start),
            row_count=None if rows is None else rows.slice(start, stop - start),
            counts_parents=of.counts_parents,
        )

    @property
    def has_members(self) -> bool:
        """Return True if `contained_in` may have an answer."""
        return self._of.has_members

    def contained_in(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Return what all statistics say of these containers."""
        found = self._of.contained_in(path, values, dtype)
        return None if found is None else found.slice(self._start, self.num_containers)


class _Slices(Mapping["Path", Raw]):
    """Columns of neighbouring containers, sliced when they are asked for."""

    def __init__(self, of: Statistics, start: int, count: int) -> None:
        self._of, self._start, self._count = of, start, count

    def __getitem__(self, path: Path) -> Raw:
        if path not in self._of.leaf_paths():
            raise KeyError(path)
        raw = self._of.raw(path)
        given = (raw.min, raw.max, raw.null_count, raw.row_count, raw.nan_count)
        return Raw(*(None if a is None else a.slice(self._start, self._count) for a in given))

    def __iter__(self) -> Iterator[Path]:
        return iter(self._of.leaf_paths())

    def __len__(self) -> int:
        return len(self._of.leaf_paths())
