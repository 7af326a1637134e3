"""The packed statistics of one column, which kernels read.

Bounds are contiguous arrays. Unknown bounds are widened to the ends of the type, so kernels need
not test if a bound is known. Counts become three planes: may hold a value, may hold NULL, may hold
NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, known_of, plain, whole
from skipstone.ir.types import DType, Kind
from skipstone.kernels.pack.bound_arrays import Pair, pack_bounds
from skipstone.kernels.pack.bounds import (
    BoundArray,
    Bounds,
    Given,
    Side,
    bounds_in_place,
    bounds_of,
)
from skipstone.kernels.pack.codes import encode
from skipstone.kernels.pack.counts import Positions, planes_of
from skipstone.kernels.pack.narrow import end_of
from skipstone.kernels.pack.planes import Mask, Plane

if TYPE_CHECKING:
    from skipstone.kernels.index.coarse import Grid
    from skipstone.kernels.pack.codes import Dictionary
    from skipstone.kernels.run.guard import Guard


PLANES: Final = ("may_hold_value", "may_hold_null", "may_hold_nan")


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Statistics of one column for n containers, host memory.

    Attributes:
        dtype: The column's type.
        numpy_type: The type of the arrays of bounds: `dtype.numpy_type`, a narrower one
            (kernels/pack/narrow.py), or the type of codes.
        low: The lower bounds, shape (n,); None if unknown everywhere.
        high: The upper bounds, shape (n,); None if unknown everywhere.
        may_hold_value: May hold a value that is neither NULL nor NaN.
        may_hold_null: May hold NULL.
        may_hold_nan: May hold NaN.
        codes: If bounds are codes, what they stand for: a dictionary, exactly, or a grid, coarsely
            (kernels/index/coarse.py).
        may_raise: For calls: Spark may raise an error on some row, or the result is not known here.
        guards: By attribute, the guards of arrays that come from a file. Each has to verify its
            array before that is read.
    """

    dtype: DType
    numpy_type: str
    low: BoundArray | None
    high: BoundArray | None
    may_hold_value: Plane
    may_hold_null: Plane
    may_hold_nan: Plane
    codes: Dictionary | Grid | None = None
    may_raise: Plane = False
    guards: Mapping[str, Guard] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, the planes and the dictionary."""
        arrays = (
            self.low, self.high, self.may_hold_value, self.may_hold_null, self.may_hold_nan,
            self.may_raise,
        )  # fmt: skip
        own = sum(a.nbytes for a in arrays if isinstance(a, np.ndarray))
        return own + (0 if self.codes is None else self.codes.nbytes)

    @property
    def narrowed(self) -> bool:
        """True if bounds have a type narrower than the column's own: literals may need clamping."""
        return self.codes is None and self.numpy_type != self.dtype.numpy_type

    def known(self, high: bool) -> Mask | None:
        """Return the mask of known bounds of a side, shape (n,); None if none is known.

        A bound at the end of its type counts as unknown.
        """
        bounds = self.high if high else self.low
        return None if bounds is None else np.asarray(bounds != self.end(high), np.bool_)

    def end(self, high: bool) -> int | float:
        """Return the value or code that replaces an unknown bound."""
        if self.codes is not None:
            return self.codes.end(high)
        return end_of(self.dtype, self.numpy_type, high=high)

    def without_arrays(self) -> Column:
        """Return the column's types and codes alone: nothing is known of its containers."""
        return replace(
            self,
            low=None,
            high=None,
            may_hold_value=True,
            may_hold_null=True,
            may_hold_nan=True,
            may_raise=False,
            guards=None,
        )

    def rearranged(
        self, bounds: Callable[[BoundArray], BoundArray], plane: Callable[[Plane], Plane]
    ) -> Column:
        """Return the column of other containers, given what becomes of its arrays and planes."""
        low, high = (None if b is None else bounds(b) for b in (self.low, self.high))
        return replace(
            self,
            low=low,
            high=high,
            may_hold_value=plane(self.may_hold_value),
            may_hold_null=plane(self.may_hold_null),
            may_hold_nan=plane(self.may_hold_nan),
            may_raise=plane(self.may_raise),
        )


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column as given: Arrow arrays of length n, chunked or not.

    None and null mean unknown.
    """

    min: Given | None = None
    max: Given | None = None
    null_count: Given | None = None
    row_count: Given | None = None
    nan_count: Given | None = None


def pack_column(
    raw: ColumnStatistics,
    dtype: DType,
    n: int,
    *,
    nullable: bool = True,
    parent_may_be_null: bool = False,
    rows: Given | None = None,
) -> Column:
    """Pack the statistics of one column.

    Host memory: the result. Bounds that already have the column's own type, and are all known, are
    not copied.

    Args:
        raw: The statistics as given. A statistic that cannot be true becomes unknown, never an
            error. If the counts and bounds of a container contradict each other, all of them become
            unknown there.
        dtype: The type to read bounds as.
        n: The number of containers.
        nullable: True if the schema lets the column hold NULL; used if there is no null count.
        parent_may_be_null: True if a struct around the column may be NULL without being counted in
            its null count.
        rows: Row counts of the containers, used if the column has none of its own.
    """
    floating = dtype.kind is Kind.FLOAT
    given: tuple[tuple[Given | None, Side], ...] = ((raw.min, "min"), (raw.max, "max"))

    def bounded(at: Positions) -> Mask:
        out = np.zeros(len(at), np.bool_)
        for a, side in given:
            given_at = None if a is None else _take(a, at)
            if given_at is not None:
                out |= known_bounds(bounds_of(given_at, dtype, side), dtype, len(at))
        return out

    may_hold_value, nulls, nans, contradictions = planes_of(
        raw.null_count,
        raw.row_count,
        raw.nan_count if floating else None,
        rows,
        n,
        nullable=nullable,
        floating=floating,
        bounded=bounded,
    )
    if dtype.coded:
        low, high = (
            None if a is None else without(bounds_of(a, dtype, side), contradictions, n)
            for a, side in given
        )
        return column_of(dtype, low, high, may_hold_value, parent_may_be_null or nulls, nans)

    def read(first: int, stop: int) -> Pair:
        low, high = (
            None if a is None else bounds_of(a.slice(first, stop - first), dtype, side)
            for a, side in given
        )
        if len(contradictions):
            at = (
                contradictions[slice(*np.searchsorted(contradictions, (first, stop)).tolist())]
                - first
            )
            low, high = (without(b, at, stop - first) for b in (low, high))
        return _drop_invalid(low, high, dtype)

    a, b = (None if a is None else bounds_in_place(a, dtype) for a, _ in given)
    if dtype.ordered:
        bounds = pack_bounds(read, dtype, n, (raw.min is not None, raw.max is not None), (a, b))
    else:
        bounds = (dtype.numpy_type, None, None)
    return Column(dtype, *bounds, may_hold_value, parent_may_be_null or nulls, nans)


def may_contradict(raw: ColumnStatistics, dtype: DType, rows: Given | None, n: int) -> bool:
    """Return True if the counts of some container leave no room for a value.

    A bound of that container would then contradict them.
    """
    floating = dtype.kind is Kind.FLOAT
    nans = raw.nan_count if floating else None
    everywhere = lambda at: np.ones(len(at), np.bool_)  # noqa: E731
    contradictions = planes_of(
        raw.null_count, raw.row_count, nans, rows, n,
        nullable=True, floating=floating, bounded=everywhere,
    )[3]  # fmt: skip
    return len(contradictions) > 0


def column_of(
    dtype: DType, low: Bounds | None, high: Bounds | None, values: Plane, nulls: Plane, nans: Plane
) -> Column:
    """Return a column from planes and from bounds that are in order."""
    if dtype.coded:
        a, b, codes = encode(low, high, dtype)
        if a is not None and b is not None and (disorder := a > b).any():
            a = np.where(disorder, 0, a).astype(np.int32)
            b = np.where(disorder, codes.end(high=True), b).astype(np.int32)
        return Column(dtype, "int32", a, b, values, nulls, nans, codes)
    if not dtype.ordered or (low is None and high is None):
        return Column(dtype, dtype.numpy_type, None, None, values, nulls, nans)
    bounds = (low, high)

    def read(first: int, stop: int) -> Pair:
        low, high = (
            None
            if b is None
            else Bounds(b.values[first:stop], None if b.known is None else b.known[first:stop])
            for b in bounds
        )
        return low, high

    bounds_in_place = (
        None if low is None or low.known is not None else low.values,
        None if high is None or high.known is not None else high.values,
    )
    n = max(0 if b is None else len(b.values) for b in bounds)
    return Column(
        dtype,
        *pack_bounds(read, dtype, n, (low is not None, high is not None), bounds_in_place),
        values,
        nulls,
        nans,
    )


def _take(array: Given, at: Positions) -> pa.Array | None:
    """Return the values at ascending positions of an array; None if all of them are null."""
    if not len(at):
        return None
    first = int(at[0])
    values, at = plain(whole(array.slice(first, int(at[-1]) - first + 1))), at - first
    if values.null_count == len(values):
        return None
    known = known_of(values) if values.buffers()[0] is not None else None
    if known is not None and not known[at].any():
        return None
    # Arrow cannot take from string and binary views.
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        values = pc.cast(
            values, pa.large_binary() if pa.types.is_binary_view(values.type) else pa.large_string()
        )
    return pc.take(values, arrow_of(at))


def known_bounds(b: Bounds | None, dtype: DType, n: int) -> Mask:
    """Return the mask of n containers whose bound is a value."""
    if b is None:
        return np.zeros(n, np.bool_)
    if dtype.kind is Kind.FLOAT:
        b = _without_nan(b)
    return np.ones(n, np.bool_) if b is None else b.mask


def without(b: Bounds | None, at: Positions, n: int) -> Bounds | None:
    """Return bounds that are unknown at some of n containers."""
    if b is None or not len(at):
        return b
    kept = np.ones(n, np.bool_)
    kept[at] = False
    return b.where(kept)


def _drop_invalid(low: Bounds | None, high: Bounds | None, dtype: DType) -> Pair:
    """Drop a bound that is NaN, and both bounds if they are inverted: either may be wrong."""
    bad: Mask | None = None
    if dtype.kind is Kind.FLOAT:
        low, high = (_without_nan(b) for b in (low, high))
    if low is not None and high is not None:
        inverted: Mask = low.values > high.values
        if inverted.any():
            for known in (low.known, high.known):
                inverted = inverted if known is None else inverted & known
            bad = inverted
    if bad is None or not bad.any():
        return low, high
    return low and low.where(~bad), high and high.where(~bad)


def _without_nan(b: Bounds | None) -> Bounds | None:
    if b is None or not (nan := np.isnan(b.values)).any():
        return b
    return b.where(~nan)
