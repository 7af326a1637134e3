"""Decide from modification times for which listed files a later change would be detected."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

UNKNOWN: Final = -1
# Clock steps in ns. A file that changed within one step before it was listed may change again and
# keep its time.
STEP, COARSE_STEP, SECOND = 20_000_000, 2_000_000_000, 1_000_000_000


def settled(times: npt.NDArray[np.int64], listed: int) -> npt.NDArray[np.bool_]:
    """Return for each file whether any later change must give it another modification time.

    Args:
        times: Modification times in ns since 1970, shape (n,); -1 is unknown. Whole seconds come
            from a coarse clock.
        listed: The time just before the files were listed, in ns since 1970.

    Example:
        >>> settled(np.array([1_000_000_001, 1_000_000_000, -1]), 2_000_000_000)
        array([ True, False, False])
    """
    step = np.where(times % SECOND == 0, COARSE_STEP, STEP)
    is_settled: npt.NDArray[np.bool_] = (times != UNKNOWN) & (times + step < listed)
    return is_settled
