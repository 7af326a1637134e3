"""The keys of a single column, stored as a set, as ranges or not at all, as the limits allow.

Ranges lie in buckets. Two integer keys share a bucket at level t if they differ only in their
lowest t bits. Two byte keys share one if their first `MAX_SHARED_BYTES - t` bytes are equal. The
level is the least one that gives few enough buckets. It therefore depends only on the keys, not on
their order or on how they are divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.filters.keys import NAN_KEY, in_bytes, width_of
from skipstone.bindings.filters.limits import Limits
from skipstone.ir import compute as pc
from skipstone.ir.types import DType, Kind

MAX_SHARED_BYTES: Final = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Values that a column of keys may have.

    Attributes:
        kind: "set": exactly the values; "ranges": values within the ranges; "all": any value.
        firsts, lasts: The ends of the ranges as normalized keys, ascending, without NULL and
            NaN; for a set, both are the array of its values.
        nan, null: True if NaN and NULL are among the values.
        level: The level of the buckets that ranges lie in.
        widest: Bytes of the longest value.
    """

    kind: Literal["set", "ranges", "all"]
    firsts: pa.Array
    lasts: pa.Array
    nan: bool = False
    null: bool = False
    level: int = 0
    widest: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the values, or of the ends of ranges."""
        return int(
            self.firsts.nbytes if self.kind == "set" else self.firsts.nbytes + self.lasts.nbytes
        )

    def __str__(self) -> str:
        more = "".join(
            f" and {name}" for name, held in (("NaN", self.nan), ("NULL", self.null)) if held
        )
        if self.kind == "all":
            return "all values"
        if self.kind == "set":
            return f"{len(self.firsts):,} values{more}"
        return (
            f"{len(self.firsts):,} ranges" if len(self.firsts) > 1 else "minimum and maximum"
        ) + more


# Made of buffers, because Arrow imports pandas to make an array of a list.
_EMPTY: Final = pa.Array.from_buffers(pa.int64(), 0, [None, pa.py_buffer(b"")])
ALL: Final = Domain("all", _EMPTY, _EMPTY)


def domain_of(keys: pa.Array, dtype: DType, limits: Limits, share: int) -> Domain:
    """Return the domain of a column's normalized keys.

    Args:
        keys: The keys, in any order, with repeats.
        dtype: Their type.
        limits: The limits of the filter.
        share: The number of columns that share the byte limit.
    """
    distinct = pc.unique(keys)
    null, distinct = bool(distinct.null_count), distinct.drop_null()
    distinct = distinct.take(pc.sort_indices(distinct))
    nan = dtype.kind is Kind.FLOAT and len(distinct) > 0 and distinct[-1].as_py() == NAN_KEY
    values = distinct.slice(0, len(distinct) - nan)
    return _within_limits(
        Domain("set", values, values, nan, null, 0, widest_of(values, dtype)), dtype, limits, share
    )


def widest_of(values: pa.Array, dtype: DType) -> int:
    """Return the bytes of the longest value."""
    return width_of(dtype) or (
        int(pc.max(pc.binary_length(values)).as_py() or 0) if len(values) else 0
    )


def union_domains(a: Domain, b: Domain, dtype: DType, limits: Limits, share: int) -> Domain:
    """Return the domain of two parts of the keys together."""
    if "all" in (a.kind, b.kind):
        return ALL
    kind: Literal["set", "ranges"] = "set" if a.kind == b.kind == "set" else "ranges"
    parts = (a.firsts, b.firsts) if kind == "set" else (a.firsts, a.lasts, b.firsts, b.lasts)
    points = pc.unique(pa.concat_arrays(parts))
    points = points.take(pc.sort_indices(points))
    union = Domain(
        kind,
        points,
        points,
        a.nan or b.nan,
        a.null or b.null,
        max(a.level, b.level),
        max(a.widest, b.widest),
    )
    return _within_limits(union, dtype, limits, share)


def _within_limits(domain: Domain, dtype: DType, limits: Limits, share: int) -> Domain:
    """Return a domain unchanged if the limits allow it, else as ranges, else as all values.

    Args:
        domain: A domain whose ends are ascending.
        dtype: The type of the keys.
        limits: The limits of the filter.
        share: The number of columns that share the byte limit.
    """
    if domain.kind == "set" and limits.fits(
        len(domain.firsts) + domain.nan, nbytes_of(domain.firsts, dtype), share
    ):
        return domain
    max_ranges = limits.ranges_of(domain.widest, share)
    if not dtype.ordered or not max_ranges:
        return ALL
    points = domain.firsts
    levels = _shared_levels(points, dtype)
    level = domain.level
    if len(levels) >= max_ranges:
        at = len(levels) - max_ranges
        level = max(level, int(np.partition(levels, at)[at]))
    starts = np.flatnonzero(np.append(True, levels > level)[: len(points)])
    ends = np.append(starts[1:], len(points))[: len(starts)] - 1
    return Domain(
        "ranges",
        points.take(pa.array(starts)),
        points.take(pa.array(ends)),
        domain.nan,
        domain.null,
        level,
        domain.widest,
    )


def nbytes_of(values: pa.Array, dtype: DType) -> int:
    """Return the bytes of values as a threshold counts them; NULL counts as a value of no bytes."""
    width = width_of(dtype)
    return width * len(values) if width else int(pc.sum(pc.binary_length(values)).as_py() or 0)


def _shared_levels(points: pa.Array, dtype: DType) -> npt.NDArray[np.int64]:
    """Return the least level at which each value shares a bucket with the next; shape (n - 1,)."""
    if in_bytes(dtype):
        from skipstone.ir.functions.text import common_prefix

        texts = points.to_pylist()
        return np.array(
            [MAX_SHARED_BYTES - common_prefix(a, b) for a, b in pairwise(texts)], np.int64
        )
    bits = points.to_numpy(zero_copy_only=False).view(np.uint64) ^ np.uint64(1 << 63)
    different = bits[1:] ^ bits[:-1]
    high = (different >> np.uint64(32)).astype(np.float64)
    low = (different & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.asarray(np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1]), np.int64)
