"""The rows of windows that no test has ruled out yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class CandidateRows:
    """The rows that are still candidates, as a mask and as positions.

    Args:
        mask: The mask of the candidate rows, shape (n,). It belongs to this object.

    Attributes:
        mask: The mask now; only `keep` and `keep_only` change it.
        count: The number of candidate rows.
    """

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self._positions: Ints | None = None

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def positions(self) -> Ints | None:
        """The candidate rows, ascending; None: all rows."""
        if self.count == len(self.mask):
            return None
        if self._positions is None:
            self._positions = np.flatnonzero(self.mask)
        return self._positions

    def keep_only(self, rows: Ints) -> None:
        """Remove all rows but some.

        Args:
            rows: The rows that have passed a test, ascending; some may not be candidates.
        """
        if self.count < len(self.mask):
            rows = rows[self.mask[rows]]
        self.mask[:] = False
        self.mask[rows] = True
        self._positions, self.count = rows, len(rows)

    def keep(self, passed: Mask, where: Ints | None) -> None:
        """Remove the rows that have not passed a test.

        Args:
            passed: The mask of the tested rows that passed.
            where: The tested rows, all candidates and maybe others; None: all rows.

        Example:
            >>> rows = CandidateRows(np.array([True, True, False, True]))
            >>> rows.keep(np.array([True, False, True]), np.array([0, 1, 3]))
            >>> rows.positions.tolist()
            [0, 3]
        """
        if where is None:
            self.mask &= passed
        else:
            passed = self.mask[where] & passed
            self.mask[where] = passed
        self._positions = None if where is None else where[passed]
        self.count = (
            int(np.count_nonzero(self.mask)) if self._positions is None else len(self._positions)
        )
