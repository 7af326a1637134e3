"""Windows of rows, and where the rows of decoded pages lie in them.

A window is a range of rows of one row group that pages did not rule out. Rows are counted through
all windows that are read together. Pages extend past the ends of windows, and only some of the
pages within a window are read. A `Placement` relates the decoded rows to the rows of the windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skipstone.bindings.tables.files import Ints
from skipstone.kernels.pack.planes import Mask


class Placement(NamedTuple):
    """Runs of decoded rows that lie in windows.

    Attributes:
        decoded: The first decoded row of each run, shape (k,).
        window: The position of that row in the windows, shape (k,).
        lengths: The rows of each run, shape (k,).
        rows: The number of decoded rows.
    """

    decoded: Ints
    window: Ints
    lengths: Ints
    rows: int

    @staticmethod
    def of(runs: Sequence[tuple[int, int, int]], rows: int) -> Placement:
        """Join runs that follow each other.

        Args:
            runs: First decoded row, row of the windows, number of rows; ascending.
            rows: The number of decoded rows.
        """
        decoded, window, lengths = np.array(runs, np.int64).reshape(-1, 3).T
        if len(decoded) > 1:
            follows = (decoded[1:] == decoded[:-1] + lengths[:-1]) & (
                window[1:] == window[:-1] + lengths[:-1]
            )
            first = np.append(True, ~follows)
            lengths = np.add.reduceat(lengths, np.flatnonzero(first))
            decoded, window = decoded[first], window[first]
        return Placement(decoded, window, lengths, rows)

    @property
    def key(self) -> tuple[bytes, bytes, bytes, int]:
        """A key that is equal for columns whose decoded rows are the same."""
        return (
            self.decoded.tobytes(), self.window.tobytes(), self.lengths.tobytes(), self.rows,
        )  # fmt: skip

    def keep(self, candidates: Mask | None) -> Mask | None:
        """Return the mask of the decoded rows that lie in windows, and are candidates there.

        None means all of them.
        """
        if candidates is None and self._whole:
            return None
        out = np.zeros(self.rows, np.bool_)
        for a, b, n in self._runs():
            out[a : a + n] = True if candidates is None else candidates[b : b + n]
        return out

    def in_windows(self, decoded: Ints) -> Ints:
        """Map decoded rows to window rows.

        Args:
            decoded: The decoded rows, ascending; all of them lie in windows.

        Example:
            >>> placement = Placement.of([(2, 0, 3), (7, 3, 2)], 9)
            >>> placement.in_windows(np.array([2, 4, 8]))
            array([0, 2, 4])
        """
        ends = np.append(self.decoded[1:], self.rows)
        counts = np.diff(np.searchsorted(decoded, ends), prepend=0)
        return decoded + np.repeat(self.window - self.decoded, counts)

    def covered(self, n: int) -> Ints | None:
        """Return which of the n rows of windows were decoded, ascending; None means all."""
        if self._whole and self.rows == n:
            return None
        out = np.zeros(n, np.bool_)
        for _, b, length in self._runs():
            out[b : b + length] = True
        return None if out.all() else np.flatnonzero(out)

    @property
    def _whole(self) -> bool:
        return int(self.lengths.sum()) == self.rows

    def _runs(self) -> list[tuple[int, int, int]]:
        return list(
            zip(self.decoded.tolist(), self.window.tolist(), self.lengths.tolist(), strict=True)
        )


def windows_of(starts: Ints, stops: Ints, kept: Mask) -> list[tuple[int, int]]:
    """Return neighbouring segments that are kept as windows.

    Example:
        >>> starts, stops = np.array([0, 5, 7, 9]), np.array([5, 7, 9, 12])
        >>> windows_of(starts, stops, np.array([True, True, False, True]))
        [(0, 7), (9, 12)]
    """
    at = np.flatnonzero(kept)
    if not len(at):
        return []
    first = np.append(True, np.diff(at) > 1)
    last = np.append(first[1:], True)
    return list(zip(starts[at[first]].tolist(), stops[at[last]].tolist(), strict=True))
