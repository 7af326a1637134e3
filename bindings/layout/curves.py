"""Orders of rows: by one column after the other, along a Z curve, along a Hilbert curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.index.order import hilbert

Places = npt.NDArray[np.uint64]
Keys = npt.NDArray[np.integer[Any]]
Order = npt.NDArray[np.int64]
# Delta's OPTIMIZE ZORDER BY cuts a column into 1,000 ranges.
COORDINATE_BITS: Final = 10


def rank_places(keys: Keys, bits: int = COORDINATE_BITS) -> Places:
    """Return coordinates from 0 to 2 ** bits - 1 that spread rows evenly over a column's values.

    Equal keys have equal coordinates, and coordinates ascend with keys. A column's distribution
    has no effect beyond that: half of the rows are below the middle.

    Args:
        keys: Shape (n,).
        bits: Bits of a coordinate.

    Example:
        >>> import numpy as np
        >>> rank_places(np.array([5, 1000, 7, 6]), bits=2).tolist()
        [0, 3, 2, 1]
    """
    order = np.argsort(keys, kind="stable")
    ascending = keys[order]
    first = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]][: len(keys)])
    below = np.repeat(first, np.diff(np.r_[first, len(keys)])).astype(np.uint64)
    out = np.empty(len(keys), np.uint64)
    out[order] = (below << np.uint64(bits)) // np.uint64(max(len(keys), 1))
    return out


def z_order(places: Sequence[Places], bits: int = COORDINATE_BITS) -> Places:
    """Return positions along a Z curve: the coordinates' bits, interleaved, highest first.

    Args:
        places: Coordinates of n points, each of shape (n,); all bits together are at most 64.
        bits: Bits of a coordinate.

    Source: G. M. Morton, A computer oriented geodetic data base, 1966.

    Example:
        >>> import numpy as np
        >>> x, y = np.array([0, 0, 1, 1], np.uint64), np.array([0, 1, 0, 1], np.uint64)
        >>> z_order([x, y], bits=1).tolist()
        [0, 1, 2, 3]
    """
    out = np.zeros_like(places[0])
    one = np.uint64(1)
    for bit in range(bits - 1, -1, -1):
        for axis in places:
            out = (out << one) | ((axis >> np.uint64(bit)) & one)
    return out


def order_by(keys: Sequence[Keys], curve: str) -> Order:
    """Return the order of rows by keys.

    Args:
        keys: By column, numbers that ascend with the column's values; each of shape (n,).
        curve: "sort": by the first key, then the next. "zorder" or "hilbert": along that curve.

    Returns:
        The rows' positions in that order, shape (n,). Equal rows keep their order.
    """
    if curve == "sort" or len(keys) == 1:
        return np.lexsort(tuple(reversed(keys)))
    bits = min(COORDINATE_BITS, 64 // len(keys))
    places = [rank_places(key, bits) for key in keys]
    distance = z_order(places, bits) if curve == "zorder" else hilbert(places, bits)
    return np.argsort(distance, kind="stable")
