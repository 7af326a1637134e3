"""What is kept of the keys of one column alone: a set, ranges or nothing, as many as its limits allow.

Ranges lie in buckets. Two keys share one at level t if nothing above their lowest t bits differs; of bytes, if they differ beyond the
first `SHORT - t` only. The level is the least at which there are few enough buckets, so it depends on the keys alone: not on
their order, nor on how they came in parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.filters.keys import NAN, in_bytes, width_of
from skipstone.bindings.filters.limits import Limits
from skipstone.ir.types import DType, Kind

SHORT: Final = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Values that a column of keys may have.

    Attributes:
        kind: "set": these; "ranges": what lies within; "all": any.
        firsts, lasts: Lanes, ascending, without NULL and NaN: ends of ranges; of a set the same array.
        nan, null: Whether NaN and NULL are among them.
        level: Of the buckets that ranges lie in.
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
        """Bytes of the ends of ranges, or of the values."""
        return int(
            self.firsts.nbytes if self.kind == "set" else self.firsts.nbytes + self.lasts.nbytes
        )

    def __str__(self) -> str:
        more = "".join(
            f" and {name}" for name, there in (("NaN", self.nan), ("NULL", self.null)) if there
        )
        if self.kind == "all":
            return "all values"
        if self.kind == "set":
            return f"{len(self.firsts):,} values{more}"
        return (
            f"{len(self.firsts):,} ranges" if len(self.firsts) > 1 else "least and greatest value"
        ) + more


# Arrow imports pandas to make an array of a list.
_EMPTY: Final = pa.Array.from_buffers(pa.int64(), 0, [None, pa.py_buffer(b"")])
ALL: Final = Domain("all", _EMPTY, _EMPTY)


def domain_of(lanes: pa.Array, dtype: DType, limits: Limits, share: int) -> Domain:
    """The domain of a column's lanes, of any order and number."""
    found = pc.unique(lanes)
    null, found = bool(found.null_count), found.drop_null()
    found = found.take(pc.sort_indices(found))
    nan = dtype.kind is Kind.FLOAT and len(found) > 0 and found[-1].as_py() == NAN
    values = found.slice(0, len(found) - nan)
    return _fitted(
        Domain("set", values, values, nan, null, 0, widest_of(values, dtype)), dtype, limits, share
    )


def widest_of(values: pa.Array, dtype: DType) -> int:
    """Bytes of the longest value."""
    return width_of(dtype) or (
        int(pc.max(pc.binary_length(values)).as_py() or 0) if len(values) else 0
    )


def joined(a: Domain, b: Domain, dtype: DType, limits: Limits, share: int) -> Domain:
    """What two parts of the keys give together."""
    if "all" in (a.kind, b.kind):
        return ALL
    kind: Literal["set", "ranges"] = "set" if a.kind == b.kind == "set" else "ranges"
    parts = (a.firsts, b.firsts) if kind == "set" else (a.firsts, a.lasts, b.firsts, b.lasts)
    points = pc.unique(pa.concat_arrays(parts))
    points = points.take(pc.sort_indices(points))
    found = Domain(
        kind,
        points,
        points,
        a.nan or b.nan,
        a.null or b.null,
        max(a.level, b.level),
        max(a.widest, b.widest),
    )
    return _fitted(found, dtype, limits, share)


def _fitted(d: Domain, dtype: DType, limits: Limits, share: int) -> Domain:
    """A domain of ascending values, or ends of ranges, as its limits allow it."""
    if d.kind == "set" and limits.fits(len(d.firsts) + d.nan, nbytes_of(d.firsts, dtype), share):
        return d
    most = limits.ranges_of(d.widest, share)
    if not dtype.ordered or not most:
        return ALL
    points = d.firsts
    apart = _apart(points, dtype)
    level = d.level
    if len(apart) >= most:
        level = max(level, int(np.partition(apart, len(apart) - most)[len(apart) - most]))
    starts = np.flatnonzero(np.append(True, apart > level)[: len(points)])
    ends = np.append(starts[1:], len(points))[: len(starts)] - 1
    return Domain(
        "ranges",
        points.take(pa.array(starts)),
        points.take(pa.array(ends)),
        d.nan,
        d.null,
        level,
        d.widest,
    )


def nbytes_of(values: pa.Array, dtype: DType) -> int:
    """Bytes of values, as a threshold counts them; NULL counts as a value of no bytes."""
    width = width_of(dtype)
    return width * len(values) if width else int(pc.sum(pc.binary_length(values)).as_py() or 0)


def _apart(points: pa.Array, dtype: DType) -> npt.NDArray[np.int64]:
    """At which level each value shares a bucket with the next; shape (n - 1,)."""
    if in_bytes(dtype):
        texts = points.to_pylist()
        return np.array([SHORT - _shared(a, b) for a, b in pairwise(texts)], np.int64)
    bits = points.to_numpy(zero_copy_only=False).view(np.uint64) ^ np.uint64(1 << 63)
    different = bits[1:] ^ bits[:-1]
    high, low = (
        (different >> np.uint64(32)).astype(np.float64),
        (different & np.uint64(0xFFFFFFFF)).astype(np.float64),
    )
    return np.asarray(np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1]), np.int64)


def _shared(a: bytes, b: bytes) -> int:
    """How many bytes two texts begin with alike."""
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
