"""Which files can be told by their times from later ones of the same name."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

UNKNOWN: Final = -1
# A clock's step, in ns: a file that was changed within it, before it was listed, may change again and keep its time.
STEP, COARSE_STEP, SECOND = 20_000_000, 2_000_000_000, 1_000_000_000


def settled(times: npt.NDArray[np.int64], listed: int) -> npt.NDArray[np.bool_]:
    """Whether a file that takes the place of each would have another time.

    Args:
        times: When files were last changed, in ns since 1970, shape (n,); -1 is unknown. Whole seconds are of a coarse clock.
        listed: The time before they were listed.

    Example:
        >>> settled(np.array([1_000_000_001, 1_000_000_000, -1]), 2_000_000_000)
        array([ True, False, False])
    """
    step = np.where(times % SECOND == 0, COARSE_STEP, STEP)
    found: npt.NDArray[np.bool_] = (times != UNKNOWN) & (times + step < listed)
    return found
