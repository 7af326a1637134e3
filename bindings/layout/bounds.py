"""The bounds of one column in all containers, as ordered numbers, and which are unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skipstone.bindings.statistics.statistics import Statistics
from skipstone.ir.node import Path
from skipstone.ir.types import DType
from skipstone.kernels.pack.bounds import Side, bounds_of
from skipstone.kernels.pack.codes import Dictionary, key_of
from skipstone.kernels.pack.columns import Column
from skipstone.kernels.pack.planes import Mask, unpack


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of n containers on one column's axis.

    Attributes:
        dtype: The column's type.
        low, high: Axis values, or codes of `codes`; shape (n,), arbitrary where not `bounded`.
        bounded: True where both bounds are known and the container may hold a value.
        empty: True where the container holds no value besides NULL and NaN.
        contradictory: True where a bound was given that cannot be true, so that it is unknown.
        codes: The dictionary of codes, for text, binary and long decimals; otherwise None.
    """

    dtype: DType
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    bounded: Mask
    empty: Mask
    contradictory: Mask
    codes: Dictionary | None


def ranges_of(statistics: Statistics, path: Path, dtype: DType) -> Ranges:
    """Return the ranges of a column's containers.

    Args:
        statistics: n containers.
        path, dtype: A column whose values have an order.
    """
    n = statistics.num_containers
    column = statistics.column(path, dtype)
    held = column.may_hold_value
    empty = np.full(n, not held) if isinstance(held, bool) else ~unpack(held, n)
    sides = {"min": (column.low, False), "max": (column.high, True)}
    arrays, known, contradictory = [], np.ones(n, np.bool_), np.zeros(n, np.bool_)
    for side, (array, high) in sides.items():
        given = _given_at_end(statistics, path, column, side)  # type: ignore[arg-type]
        inside = column.known(high)
        sure = np.zeros(n, np.bool_) if inside is None else inside | given[1]
        known &= sure
        contradictory |= given[0] & ~sure & ~empty
        arrays.append(np.zeros(n, np.int64) if array is None else array)
    codes = column.codes if isinstance(column.codes, Dictionary) else None
    return Ranges(dtype, arrays[0], arrays[1], known & ~empty, empty, contradictory, codes)


def _given_at_end(
    statistics: Statistics, path: Path, column: Column, side: Side
) -> tuple[Mask, Mask]:
    """Return where a bound was given, and where it is the end of its type.

    A array has the type's end where a bound is unknown. FALSE, TRUE, 0 of an unsigned type and ''
    are such ends too.
    """
    n, dtype = statistics.num_containers, column.dtype
    array = getattr(statistics.raw(path), side)
    found = None if array is None else bounds_of(array, dtype, side)
    if found is None:
        return np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    given = np.ones(n, np.bool_) if found.known is None else np.asarray(found.known, np.bool_)
    end = dtype.highest if side == "max" else dtype.lowest
    if end is None:
        return given, np.zeros(n, np.bool_)
    if dtype.coded:
        import pyarrow as pa

        from skipstone.ir import compute as pc

        ends = pc.equal(found.values, pa.scalar(key_of(end, dtype), found.values.type))
        at_end = ends.fill_null(False).to_numpy(zero_copy_only=False)
    else:
        at_end = found.values == end
    return given, np.asarray(given & at_end, np.bool_)
