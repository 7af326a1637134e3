"""Convert counts of NULL, NaN and rows to planes of what each container may hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir.arrow import known_of, numbers_of, whole
from skipstone.kernels.pack.bound_arrays import CHUNK
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.planes import Mask, Plane, join_parts, plane_of
from skipstone.kernels.run import pool

Counts = npt.NDArray[np.int64]  # negative: unknown
Positions = npt.NDArray[np.int64]
Bounded = Callable[[Positions], Mask]
UNKNOWN: Final = np.array(-1)
NO_NANS: Final = np.array(False)
NO_POSITIONS: Final = np.zeros(0, np.int64)


def planes_of(
    null: Given | None,
    row: Given | None,
    nan: Given | None,
    container: Given | None,
    n: int,
    *,
    nullable: bool,
    floating: bool,
    bounded: Bounded = lambda at: np.zeros(len(at), np.bool_),
) -> tuple[Plane, Plane, Plane, Positions]:
    """Return the planes of containers that may hold a value, NULL and NaN, and contradictions.

    If statistics of a container contradict each other, any of them may be wrong. Then all are
    unknown, and the container may hold anything.

    Args:
        null: Counts of NULL as given; anything but an array of integers is unknown.
        row: Counts of rows of the column.
        nan: Counts of NaN.
        container: Counts of rows of the container, used where the column's are missing.
        n: The number of containers.
        nullable: True if a container without a null count may hold NULL.
        floating: True if a container without a NaN count may hold NaN.
        bounded: Returns, for positions of containers, the mask of those that have a bound. It is
            called where counts leave no room for a value.

    Returns:
        Three planes, and the positions of the contradictions, ascending.
    """
    given = [
        a if a is not None and pa.types.is_integer(a.type) else None
        for a in (null, row, nan, container)
    ]
    if given == [None] * 4:
        return True, nullable, floating, NO_POSITIONS
    null, row, nan, container = given
    found: dict[int, Positions] = {}

    def masks(first: int, stop: int) -> tuple[Mask, ...]:
        nulls, nans = (_counts(a, first, stop) for a in (null, nan))
        rows = _counts(row, first, stop, _counts(container, first, stop))
        out, full, over = _masks(nulls, rows, nans, nullable=nullable, floating=floating)
        if full is not None and over is not None:
            at = np.flatnonzero(full | over)
            found[first] = at = at[over[at] | bounded(at + first)]
            for mask, most in zip(out, (True, True, floating), strict=True):
                if len(at) and mask is not NO_NANS:
                    mask[at] = most
            found[first] = at + first
        return out

    may_hold_value, nulls, nans = _by_chunks(masks, n) or (True, nullable, floating)
    wrong = [found[first] for first in sorted(found)]
    return may_hold_value, nulls, nans, np.concatenate(wrong) if wrong else NO_POSITIONS


def _masks(
    null: Counts, rows: Counts, nan: Counts, *, nullable: bool, floating: bool
) -> tuple[tuple[Mask, ...], Mask | None, Mask | None]:
    """Compute the masks of a chunk of containers.

    Returns:
        The masks "may hold a value, NULL, NaN"; the mask of containers whose counts leave no room
        for a value; and that of containers whose counts exceed their rows. None: no container.
    """
    nulls = null != 0 if nullable else null > 0
    # Most chunks are of these two kinds, and take fewer loops.
    if not floating and rows.min() > 0:
        if not (null >= rows).any():
            return (np.ones(len(rows), np.bool_), nulls, NO_NANS), None, None
        return (null != rows, nulls, NO_NANS), null == rows, null > rows
    counted, empty = rows >= 0, rows == 0
    less = np.maximum(null, 0)
    if not floating:
        over, full = counted & (less > rows), counted & (less == rows)
        return (~full, nulls | empty, NO_NANS), full, over
    not_null, gone = rows - np.minimum(less, rows), np.maximum(nan, 0)
    over = counted & ((less > rows) | (gone > not_null))
    full = counted & (less <= rows) & (gone == not_null)
    all_null = counted & (null == rows)
    nulls &= ~(full & (nan == rows))
    return (~full, nulls | empty, (nan != 0) & ~all_null & ~empty), full, over


def rows_plane(rows: Given | None, n: int) -> Plane:
    """Return the plane of containers that may hold rows."""
    if rows is None or not pa.types.is_integer(rows.type):
        return True
    (plane,) = _by_chunks(lambda first, stop: (_counts(rows, first, stop) != 0,), n) or (True,)
    return plane


def _counts(array: Given | None, first: int, stop: int, missing: Counts = UNKNOWN) -> Counts:
    """Return the counts of containers [first, stop), and `missing` where there is none."""
    if array is None:
        return missing
    part = whole(array.slice(first, stop - first))
    values, known = numbers_of(part).astype(np.int64, copy=False), known_of(part)
    return values if known is None else np.where(known, values, missing)


def _by_chunks(masks: Callable[[int, int], tuple[Mask, ...]], n: int) -> list[Plane]:
    """Compute planes of n containers from masks of containers [first, stop).

    Without containers there are no planes.
    """
    found: dict[int, tuple[Plane, ...]] = {}

    def work(first: int, stop: int) -> None:
        found[first] = tuple(map(plane_of, masks(first, stop)))

    pool.run_chunks(work, n, CHUNK)
    return [
        join_parts(parts, CHUNK, n)
        for parts in zip(*(found[first] for first in sorted(found)), strict=True)
    ]
