"""Packed statistics of columns as intervals, and intervals as packed statistics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from skipstone.ir.arrow import python_array
from skipstone.ir.interval import Interval, end
from skipstone.ir.types import TEXT, DType, Kind
from skipstone.ir.values import NO, Data, Mask, numpy_type_of
from skipstone.kernels.pack.bounds import Bounds
from skipstone.kernels.pack.codes import Dictionary, key_of, value_of_key
from skipstone.kernels.pack.columns import Column, column_of
from skipstone.kernels.pack.narrow import open_ends
from skipstone.kernels.pack.planes import Plane, plane_of, unpack


def mask_of_plane(plane: Plane, n: int) -> Mask:
    """Return a plane as a mask of n containers; of one, if all are alike."""
    return np.full(1, plane) if isinstance(plane, bool) else unpack(plane, n)


def unpacked(c: Column, n: int, keys: Data | None = None) -> Interval:
    """Return a packed column as an interval; codes become the values in `keys` (see `keys_of`)."""
    dtype = c.dtype
    may_hold_value, nulls, nans, may_raise = (
        mask_of_plane(p, n)
        for p in (c.may_hold_value, c.may_hold_null, c.may_hold_nan, c.may_raise)
    )
    if not dtype.ordered:  # such a column only has null tests
        zero = np.zeros(1, np.int64)
        return Interval(dtype, zero, zero, NO, may_hold_value, nulls, nans, may_raise)
    low, high = (_values(c, keys, high=h) for h in (False, True))
    above = NO
    if dtype.kind in TEXT:
        if c.high is None:
            above = np.ones(1, np.bool_)
        else:
            above = np.asarray(c.high == c.end(high=True), np.bool_)
    if (
        dtype.kind is not Kind.FLOAT
        and c.low is not None
        and c.high is not None
        and np.array_equal(c.low, c.high)
    ):
        high = low  # one value per container: functions then evaluate it once
    return Interval(dtype, low, high, above, may_hold_value, nulls, nans, may_raise)


def keys_of(c: Column) -> Data | None:
    """Return the values of codes; the last one is the value of an unknown upper bound."""
    if c.codes is None:
        return None
    assert isinstance(c.codes, Dictionary), "coarse codes have no values"
    keys = c.codes.keys.to_pylist()
    values = np.array([value_of_key(k, c.dtype) for k in keys], object)
    return values if c.dtype.kind is Kind.DECIMAL else np.append(values, end(c.dtype, high=True))


def _values(c: Column, keys: Data | None, *, high: bool) -> Data:
    bounds = c.high if high else c.low
    if bounds is None:
        return end(c.dtype, high=high)
    if keys is not None:
        return np.asarray(keys[np.asarray(bounds)])
    out = np.asarray(bounds, numpy_type_of(c.dtype))
    if c.narrowed and open_ends(c.dtype, c.numpy_type)[high]:
        out = np.where(bounds == c.end(high), end(c.dtype, high=high), out)
    return out


def packed(v: Interval, n: int) -> Column:
    """Return an interval as a packed column of n containers."""
    dtype = v.dtype
    may_hold_value, nulls, nans, may_raise = (
        plane_of(np.broadcast_to(m, n))
        for m in (v.may_hold_value, v.may_hold_null, v.may_hold_nan, v.may_raise)
    )
    has_value = np.broadcast_to(v.may_hold_value, n)
    known = has_value.copy()
    low = _bounds(np.broadcast_to(v.low, n), known, dtype)
    high = _bounds(
        np.broadcast_to(v.high, n), known & ~np.broadcast_to(v.unbounded_above, n), dtype
    )
    return replace(column_of(dtype, low, high, may_hold_value, nulls, nans), may_raise=may_raise)


def _bounds(values: Data, known: Mask, dtype: DType) -> Bounds:
    if dtype.coded:
        keys = [
            key_of(int(x) if dtype.kind is Kind.DECIMAL else x, dtype) if k else None
            for x, k in zip(values.tolist(), known.tolist(), strict=True)
        ]
        return Bounds(python_array(keys, pa.large_binary()), known)
    if dtype.kind is Kind.FLOAT:
        return Bounds(np.where(known, values, 0).astype(dtype.numpy_type), known)
    low, high = dtype.lowest, dtype.highest
    return Bounds(
        np.clip(np.where(known, values, 0).astype(np.int64), low, high).astype(dtype.numpy_type),
        known,
    )
