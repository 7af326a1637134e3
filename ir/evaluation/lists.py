"""The lists or maps of rows, with their items in Arrow arrays: all rows are computed at once.

`list_calls.py` and `list_lambdas.py` compute functions of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir import types as ty
from skipstone.ir.arrow import arrow_of, booleans_of, int64_of, plain
from skipstone.ir.types import TEXT, DType, Kind, from_arrow
from skipstone.ir.values import NO, Mask, Values, from_array, from_lists, malformed

Ints = npt.NDArray[np.int64]
# If a mask holds for fewer than one in this many items, their rows are looked up one by one.
ITEMS_PER_LOOKUP: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists or maps of n rows.

    Attributes:
        offsets: Where the items of each row begin and end, shape (n + 1,).
        valid: Not NULL, shape (n,). Items of NULL belong to no list.
        may_raise: As in `Values`, shape (n,).
        parts: The items of all rows; of maps the keys and the values.
    """

    offsets: Ints
    valid: Mask
    may_raise: Mask
    parts: tuple[pa.Array, ...]

    @staticmethod
    def of(array: pa.Array) -> Lists | None:
        """Return the rows of an array; None if it is of another layout."""
        array = plain(array)
        parts: tuple[pa.Array, ...]
        if isinstance(array, pa.MapArray):
            parts = (array.keys, array.items)
        elif isinstance(array, pa.ListArray | pa.LargeListArray):
            parts = (array.values,)
        else:
            return None
        offsets = int64_of(array.offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        return Lists(
            offsets - first,
            booleans_of(pc.is_valid(array)),
            np.zeros(len(array), np.bool_),
            tuple(plain(part.slice(first, last - first)) for part in parts),
        )

    @property
    def starts(self) -> Ints:
        """The position of the first item of each row, shape (n,)."""
        return self.offsets[:-1]

    @property
    def sizes(self) -> Ints:
        """The number of items of each row, shape (n,)."""
        return self.offsets[1:] - self.offsets[:-1]

    def counts(self, items: Mask) -> Ints:
        """Return how many items of each row a mask holds for."""
        at = np.flatnonzero(items)
        if len(at) * ITEMS_PER_LOOKUP < len(items):
            return np.bincount(self.rows_of(at), minlength=len(self.valid))
        width: Any = np.int32 if len(items) < 1 << 31 else np.int64
        sums = np.zeros(len(items) + 1, width)
        np.cumsum(items, dtype=sums.dtype, out=sums[1:])
        return np.asarray(sums[self.offsets[1:]] - sums[self.starts], np.int64)

    def rows_of(self, at: Ints) -> Ints:
        """Return the rows of items, given by their positions."""
        if len(at) * ITEMS_PER_LOOKUP < len(self.parts[0]):
            return np.searchsorted(self.offsets[1:], at, side="right")
        return self.rows()[at]

    def rows(self) -> Ints:
        """Return the row of each item."""
        return np.repeat(np.arange(len(self.valid)), self.sizes)

    def first(self, items: Mask) -> tuple[Ints, Mask]:
        """Return the first item of each row for which a mask holds, and the rows that have one."""
        hits = np.flatnonzero(items)
        rows = self.rows_of(hits)
        first = np.ones(len(hits), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=first[1:])
        at, found = np.zeros(len(self.valid), np.int64), np.zeros(len(self.valid), np.bool_)
        at[rows[first]], found[rows] = hits[first], True
        return at, found

    def unknown(self) -> Mask:
        """Return a mask of the rows that hold text that is not UTF-8."""
        out = np.zeros(len(self.valid), np.bool_)
        for part in self.parts:
            if from_arrow(part.type).kind is Kind.STRING and (bad := malformed(part)).any():
                out |= self.counts(bad) > 0
        return out & self.valid

    def kept(self, items: Mask) -> Lists:
        """Return the lists with those items for which a mask holds."""
        offsets = np.zeros(len(self.offsets), np.int64)
        np.cumsum(self.counts(items), out=offsets[1:])
        parts = tuple(pc.filter(part, arrow_of(items)) for part in self.parts)
        return replace(self, offsets=offsets, parts=parts)

    def taken(self, starts: Ints, sizes: Ints, step: int = 1) -> Lists:
        """Return lists of some items of each row, from a first one on, by steps of 1 or -1."""
        offsets = np.zeros(len(self.offsets), np.int64)
        np.cumsum(sizes, out=offsets[1:])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        at = arrow_of(np.repeat(starts, sizes) + step * within)
        return replace(self, offsets=offsets, parts=tuple(pc.take(p, at) for p in self.parts))

    def values(self, dtype: DType) -> Values:
        """Return the rows as values; of structs, only whether a list is NULL is known."""
        if not dtype.nested:
            return Values(ty.NULL, np.zeros(1, np.int64), self.valid, self.may_raise)
        offsets = arrow_of(self.offsets.astype(np.int32))
        whole: Any = pa.ListArray if len(self.parts) == 1 else pa.MapArray
        found = from_lists(whole.from_arrays(offsets, *self.parts))
        may_raise = self.may_raise | (found.may_raise & self.valid)
        return Values(dtype, found.points, self.valid, may_raise)

    def items_at(self, part: pa.Array, at: Ints, found: Mask, dtype: DType) -> Values:
        """Return an item of each row in which one was found; NULL in the others."""
        n = len(found)
        none, valid = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        if not dtype.ordered:
            valid[found] = booleans_of(pc.is_valid(part))[at[found]]
            return Values(ty.NULL, np.zeros(1, np.int64), valid, NO)
        items = from_array(part)
        valid[found] = np.broadcast_to(items.valid, len(part))[at[found]]
        if isinstance(items.array, np.ndarray):
            chosen = np.zeros(n, items.array.dtype)
            chosen[found] = items.array[at[found]]
            return Values(dtype, chosen, valid, none)
        taken = pc.take(items.array, arrow_of(np.where(found, at, 0), found))
        return Values(dtype, taken, valid, none)

    def lists_at(self, part: pa.Array, at: Ints, found: Mask, may_raise: Mask) -> Lists | None:
        """Return that item of each row, if the items are lists or maps themselves."""
        lists = Lists.of(pc.take(part, arrow_of(np.where(found, at, 0), found)))
        return None if lists is None else replace(lists, may_raise=may_raise)


def equal_items(items: pa.Array, values: pa.Array) -> Mask | None:
    """Return a mask of the items that equal values, one for each item, or one for all.

    None for types without a simple equality.
    """
    dtype = from_arrow(items.type)
    if not dtype.ordered:
        return None
    if dtype.kind in TEXT:
        one, short = len(values) == 1, pa.types.is_string(items.type)
        raw = items.view(pa.binary()) if one and short else _raw(items)
        wanted = pc.cast(_raw(values), raw.type)
        return booleans_of(pc.equal(raw, wanted[0] if one else wanted))
    a, b = from_array(items), from_array(values)
    same = a.points == b.points
    if dtype.kind is Kind.FLOAT:  # NaN equals itself
        same = same | (np.isnan(a.points) & np.isnan(b.points))
    return np.asarray(same & a.valid & b.valid, np.bool_)


def _raw(texts: pa.Array) -> pa.Array:
    """Return text as binary."""
    if pa.types.is_large_string(texts.type):
        return texts.view(pa.large_binary())
    return pc.cast(texts, pa.large_binary())
