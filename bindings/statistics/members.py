"""Type the members of `isin` in bulk.

For a million strings of an Arrow array this takes a quarter of the time of typing each by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.arrow import plain
from skipstone.ir.types import TEXT, DType, Kind

TypedMembers = tuple[tuple[DType, object], ...]


def typed_array(values: pa.Array | pa.ChunkedArray | npt.NDArray[Any]) -> TypedMembers | None:
    """Return the distinct values of an array, ascending, typed as `literal_type` types each.

    A null becomes SQL's NULL, as the last member.

    Returns:
        Pairs of type and axis value. None if the values must be typed one by one.
    """
    if isinstance(values, np.ndarray):
        return _typed_numbers(values) if values.ndim == 1 and values.dtype.kind in "iuf" else None
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):  # older pyarrow: an array without chunks
        return ()
    array = plain(array)
    dtype = ty.from_arrow(array.type)
    if dtype.kind not in (Kind.INT, Kind.UINT, Kind.FLOAT, Kind.STRING, Kind.BINARY):
        return None
    null: TypedMembers = ((ty.NULL, None),) if array.null_count else ()
    not_null = array.drop_null()
    if dtype.kind in TEXT:
        # Spark orders strings by their bytes.
        large = pa.large_string() if dtype.kind is Kind.STRING else pa.large_binary()
        keys = pc.unique(not_null.cast(large).cast(pa.large_binary()))
        return (
            *zip(repeat(dtype), keys.take(pc.sort_indices(keys)).to_pylist(), strict=False),
            *null,
        )
    numbers = _typed_numbers(not_null.to_numpy(zero_copy_only=False))
    return None if numbers is None else (*numbers, *null)


def typed_list(values: Sequence[object]) -> TypedMembers | None:
    """Type a list whose values all have one plain Python type; keep their order.

    Returns:
        Pairs of type and axis value. None if the values must be typed one by one.
    """
    kinds = set(map(type, values))
    if kinds == {int}:
        numbers: Sequence[Any] = values
        fits = min(numbers) >= -(2**63) and max(numbers) < 2**63
        return _integers(numbers) if fits else None
    if kinds == {float}:
        return tuple(zip(repeat(ty.DOUBLE), values, strict=False))
    if kinds == {str}:
        try:
            return tuple((ty.STRING, v.encode()) for v in values)  # type: ignore[attr-defined]
        except UnicodeEncodeError:  # typing one by one names the value at fault
            return None
    return None


def _typed_numbers(values: npt.NDArray[Any]) -> TypedMembers | None:
    ascending = np.sort(values)
    distinct = (
        ascending[np.append(True, ascending[1:] != ascending[:-1])] if len(ascending) else ascending
    )
    if values.dtype.kind == "f":
        dtype = {4: ty.FLOAT, 8: ty.DOUBLE}.get(values.dtype.itemsize)
        return None if dtype is None else tuple(zip(repeat(dtype), distinct.tolist(), strict=False))
    if len(distinct) and distinct[-1] > 2**63 - 1:
        return None
    first, last = (int(np.searchsorted(distinct, end)) for end in (-(2**31), 2**31))
    types = (
        *repeat(ty.INT64, first),
        *repeat(ty.INT32, last - first),
        *repeat(ty.INT64, len(distinct) - last),
    )
    return tuple(zip(types, distinct.tolist(), strict=True))


def _integers(values: Iterable[Any]) -> TypedMembers:
    return tuple((ty.INT32 if -(2**31) <= v < 2**31 else ty.INT64, v) for v in values)
