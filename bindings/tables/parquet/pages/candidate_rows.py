"""The rows of windows that no test has ruled out yet."""

from __future__ import annotations

import numpy as np

from skipstone.bindings.tables.files import Ints
from skipstone.kernels.pack.planes import Mask


class CandidateRows:
    """The rows that are still candidates, as a mask and as positions.

    Args:
        n: The number of rows.
        mask: The mask of the candidate rows, shape (n,), which belongs to this object; None means
            all.

    Attributes:
        count: The number of candidate rows.
    """

    def __init__(self, n: int, mask: Mask | None = None) -> None:
        self._n, self._mask = n, mask
        self.count = n if mask is None else int(np.count_nonzero(mask))
        self._positions: Ints | None = None

    def __len__(self) -> int:
        return self._n

    @property
    def mask(self) -> Mask:
        """The mask now; only `keep` and `keep_only` change it."""
        if self._mask is None:
            self._mask = np.ones(self._n, np.bool_)
        return self._mask

    @property
    def all(self) -> bool:
        """True if every row is a candidate."""
        return self.count == self._n

    @property
    def positions(self) -> Ints | None:
        """The candidate rows, ascending; None means all rows."""
        if self.all:
            return None
        if self._positions is None:
            self._positions = np.flatnonzero(self.mask)
        return self._positions

    def keep_only(self, rows: Ints) -> None:
        """Remove all rows but some.

        Args:
            rows: The rows that have passed a test, ascending; some may not be candidates.
        """
        if not self.all:
            rows = rows[self.mask[rows]]
        self.mask[:] = False
        self.mask[rows] = True
        self._positions, self.count = rows, len(rows)

    def keep_first(self, n: int) -> None:
        """Remove all rows but the first n."""
        if n < self.count:
            first = np.flatnonzero(self.mask)[:n]
            self.keep_only(first)

    def keep(self, passed: Mask, where: Ints | None) -> None:
        """Remove the rows that have not passed a test.

        Args:
            passed: The mask of the tested rows that passed.
            where: The tested rows, all candidates and maybe others; None means all rows.

        Example:
            >>> rows = CandidateRows(4, np.array([True, True, False, True]))
            >>> rows.keep(np.array([True, False, True]), np.array([0, 1, 3]))
            >>> rows.positions.tolist()
            [0, 3]
        """
        if where is None:
            self._mask = passed.copy() if self._mask is None else self._mask & passed
        else:
            passed = self.mask[where] & passed
            self.mask[where] = passed
        self._positions = None if where is None else where[passed]
        self.count = (
            int(np.count_nonzero(self.mask)) if self._positions is None else len(self._positions)
        )
