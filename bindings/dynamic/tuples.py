"""Rows of several keys by rank: membership of rows, and whether any lies in a box."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.bindings.dynamic.domain import Domain
from skipstone.bindings.dynamic.keys import NAN, Mask, in_bytes
from skipstone.ir.types import DType, Kind

Ranks = npt.NDArray[np.int64]
MOST: Final = 2**62  # different codes, beyond which they are numbered anew


def places(ascending: pa.Array, wanted: pa.Array, side: str) -> Ranks:
    """Where values would stand among ascending ones, as `numpy.searchsorted` says; neither has NULL."""
    if not pa.types.is_large_binary(ascending.type):
        found = np.searchsorted(ascending.to_numpy(zero_copy_only=False), wanted.to_numpy(zero_copy_only=False), side)  # type: ignore[arg-type]
        return found.astype(np.int64, copy=False)
    if hasattr(pc, "search_sorted"):  # pyarrow 26
        return np.asarray(pc.search_sorted(ascending, wanted, side=side).to_numpy(), np.int64)
    keys, find = ascending.to_pylist(), bisect.bisect_left if side == "left" else bisect.bisect_right
    return np.array([find(keys, v) for v in wanted.to_pylist()], np.int64)


def within(lanes: pa.Array, d: Domain, dtype: DType) -> Mask:
    """Which lanes a domain has."""
    n = len(lanes)
    if d.kind == "all":
        return np.ones(n, np.bool_)
    valid = np.asarray(lanes.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    filled = lanes.fill_null(b"" if in_bytes(dtype) else 0)
    out = np.zeros(n, np.bool_)
    if len(d.firsts):
        at = places(d.lasts, filled, "left")
        inside = at < len(d.lasts)
        begun = places(d.firsts, filled, "right")  # ranges that start at the value or before it
        out = valid & inside & (begun > at)
    if dtype.kind is Kind.FLOAT:
        out |= valid & np.asarray(filled.to_numpy(zero_copy_only=False) == NAN) & d.nan
    return out | (~valid & d.null)


@dataclass(frozen=True, slots=True, eq=False)
class Tuples:
    """Distinct rows of keys.

    Attributes:
        values: Of each column the distinct lanes but NULL, ascending.
        ranks: Shape (rows, columns): which of them each row has; NULL is past them.
        folds: How the ranks of a row become one code: where not None, codes so far are numbered by it before the next column's rank joins.
        codes: Of the rows, ascending.
    """

    values: tuple[pa.Array, ...]
    ranks: Ranks
    folds: tuple[Ranks | None, ...]
    codes: Ranks

    @classmethod
    def of(cls, columns: list[pa.Array], dtypes: tuple[DType, ...]) -> Tuples:
        """From columns of lanes."""
        values, ranks = [], []
        for column in columns:
            encoded = column.dictionary_encode()
            order = pc.sort_indices(encoded.dictionary)
            rank = np.empty(len(order) + 1, np.int64)
            rank[order.to_numpy()] = np.arange(len(order))
            rank[-1] = len(order)
            values.append(encoded.dictionary.take(order))
            ranks.append(rank[encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)])
        matrix = np.stack(ranks, axis=1) if ranks else np.zeros((0, 0), np.int64)
        folds: list[Ranks | None] = []
        codes, size = np.zeros(len(matrix), np.int64), 1
        for i, own in enumerate(values):
            fold = None
            if size * (len(own) + 1) >= MOST:
                fold, codes = np.unique(codes, return_inverse=True)
                size = len(fold)
            folds.append(fold)
            codes = codes * (len(own) + 1) + matrix[:, i]
            size *= len(own) + 1
        return cls(tuple(values), matrix, tuple(folds), np.sort(codes))

    def member(self, lanes: list[pa.Array]) -> Mask:
        """Which rows of lanes are among them; NULL equals NULL."""
        n = len(lanes[0])
        present, ranks = np.ones(n, np.bool_), []
        for own, lane in zip(self.values, lanes, strict=True):
            at = pc.index_in(lane, value_set=own)
            null = np.asarray(lane.is_null().to_numpy(zero_copy_only=False), np.bool_)
            rank = np.asarray(at.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
            rank = np.where(null, len(own), rank)
            present &= rank >= 0
            ranks.append(np.where(rank < 0, 0, rank))
        return present & self.has(np.stack(ranks, axis=1))

    def has(self, ranks: Ranks) -> Mask:
        """Which rows of ranks, of shape (n, columns), are among them."""
        codes, present = np.zeros(len(ranks), np.int64), np.ones(len(ranks), np.bool_)
        for i, (own, fold) in enumerate(zip(self.values, self.folds, strict=True)):
            if fold is not None:
                at = np.searchsorted(fold, codes)
                present &= (at < len(fold)) & (fold[np.minimum(at, len(fold) - 1)] == codes) if len(fold) else False
                codes = at
            codes = codes * (len(own) + 1) + ranks[:, i]
        if not len(self.codes):
            return np.zeros(len(ranks), np.bool_)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return present & (self.codes[at] == codes)
