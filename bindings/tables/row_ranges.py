"""Sets of row numbers as ranges: the cost of a set follows its ranges, not its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
# Up to this number, ranges are set one by one.
MAX_SLICES: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class RowRanges:
    """A set of row numbers; rows count from 0.

    Attributes:
        starts, stops: Ascending half-open ranges, int64, shape (n,). No range is empty, and none
            touches the next.
    """

    starts: Longs
    stops: Longs

    @classmethod
    def of(cls, starts: Longs, stops: Longs) -> RowRanges:
        """Make a set from ranges in any order, which may overlap.

        Args:
            starts, stops: Half-open ranges, int64, shape (n,).

        Example:
            >>> rows = RowRanges.of(np.array([7, 0, 3]), np.array([9, 3, 4]))
            >>> rows.starts.tolist(), rows.stops.tolist()
            ([0, 7], [4, 9])
        """
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(stops[order])
        if not len(starts):
            return cls(starts, reach)
        first = np.append(True, starts[1:] > reach[:-1])
        return cls(starts[first], reach[np.append(first[1:], True)])

    @classmethod
    def at(cls, rows: Longs) -> RowRanges:
        """Make a set from single rows in any order."""
        return cls.of(rows, rows + 1)

    @classmethod
    def union(cls, parts: Iterable[RowRanges]) -> RowRanges:
        """Return the union of sets."""
        sets = [cls(np.empty(0, np.int64), np.empty(0, np.int64)), *parts]
        starts = np.concatenate([s.starts for s in sets])
        return cls.of(starts, np.concatenate([s.stops for s in sets]))

    @property
    def count(self) -> int:
        """The number of rows in the set."""
        return int((self.stops - self.starts).sum())

    @property
    def stop(self) -> int:
        """One more than the greatest row; 0 if the set is empty."""
        return int(self.stops[-1]) if len(self.stops) else 0

    def mask(self, first: int, n: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows `first` to `first + n - 1`: True if the set has the row.

        Returns:
            bool array, shape (n,).

        Example:
            >>> RowRanges.at(np.array([1, 2, 5])).mask(2, 3).tolist()
            [True, False, False]
        """
        a = int(np.searchsorted(self.stops, first, "right"))
        b = int(np.searchsorted(self.starts, first + n, "left"))
        starts = np.maximum(self.starts[a:b] - first, 0)
        lengths = np.minimum(self.stops[a:b] - first, n) - starts
        out = np.zeros(n, np.bool_)
        if len(lengths) <= MAX_SLICES:
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
                out[start : start + length] = True
            return out
        # The number of a row is the start of its range plus its place in it.
        before = np.cumsum(lengths) - lengths
        out[np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))] = True
        return out
