"""Rows of several keys by rank: test membership, and find whether any row lies in a box."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.bindings.filters.domain import Domain
from skipstone.bindings.filters.keys import NAN_KEY, in_bytes
from skipstone.ir import compute as pc
from skipstone.ir.arrow import booleans_of, int64_of
from skipstone.ir.cached import cached_property
from skipstone.ir.types import DType, Kind
from skipstone.kernels.index.boxes import Tree, tree_of
from skipstone.kernels.pack.planes import Mask

Ranks = npt.NDArray[np.int64]
MAX_CODES: Final = 2**62  # with more possible codes, the codes are numbered again


def positions_in(ascending: pa.Array, values: pa.Array, side: Literal["left", "right"]) -> Ranks:
    """Return where values belong among ascending ones, as `numpy.searchsorted` does.

    Neither array may have NULL.
    """
    if not pa.types.is_large_binary(ascending.type):
        arrays = ascending.to_numpy(zero_copy_only=False), values.to_numpy(zero_copy_only=False)
        return np.asarray(np.searchsorted(*arrays, side=side), np.int64)
    if hasattr(pc, "search_sorted"):  # pyarrow 26
        return np.asarray(pc.search_sorted(ascending, values, side=side).to_numpy(), np.int64)
    keys = ascending.to_pylist()
    find = bisect.bisect_left if side == "left" else bisect.bisect_right
    return np.array([find(keys, v) for v in values.to_pylist()], np.int64)


def in_domain(keys: pa.Array, domain: Domain, dtype: DType) -> Mask:
    """Return which keys belong to a domain."""
    n = len(keys)
    if domain.kind == "all":
        return np.ones(n, np.bool_)
    valid = booleans_of(keys.is_valid())
    filled = keys.fill_null(b"" if in_bytes(dtype) else 0)
    out = np.zeros(n, np.bool_)
    if len(domain.firsts):
        at = positions_in(domain.lasts, filled, "left")
        inside = at < len(domain.lasts)
        # The number of ranges that start at or before the value.
        begun = positions_in(domain.firsts, filled, "right")
        out = valid & inside & (begun > at)
    if dtype.kind is Kind.FLOAT:
        out |= valid & np.asarray(filled.to_numpy(zero_copy_only=False) == NAN_KEY) & domain.nan
    return out | (~valid & domain.null)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Rows that have numbers, NaN and NULL in the same columns.

    Attributes:
        kinds: What each column has: 0 a number or bytes, 1 NaN, 2 NULL.
        tree: The ranks in the columns of kind 0; None if there are no such columns.
    """

    kinds: tuple[int, ...]
    tree: Tree | None


@dataclass(frozen=True, eq=False)
class Tuples:
    """Distinct rows of keys, as ranks.

    Attributes:
        values: The distinct normalized keys of each column without NULL, ascending.
        ranks: Shape (rows, columns): the position of each key in `values`; NULL comes after them.
        folds: How the ranks of a row become one code. Where a column's entry is not None, the codes
            so far are replaced by their positions in it before the column's rank is added.
        codes: The codes of the rows, ascending.
        numbers: For each column, how many of its values are not NaN; NaN is the last value.
    """

    values: tuple[pa.Array, ...]
    ranks: Ranks
    folds: tuple[Ranks | None, ...]
    codes: Ranks
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, columns: list[pa.Array], dtypes: tuple[DType, ...]) -> Tuples:
        """Return the distinct rows of columns of keys."""
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
            if size * (len(own) + 1) >= MAX_CODES:
                fold, codes = np.unique(codes, return_inverse=True)
                size = len(fold)
            folds.append(fold)
            codes = codes * (len(own) + 1) + matrix[:, i]
            size *= len(own) + 1
        numbers = [
            len(v) - int(t.kind is Kind.FLOAT and len(v) > 0 and v[-1].as_py() == NAN_KEY)
            for v, t in zip(values, dtypes, strict=True)
        ]
        return cls(tuple(values), matrix, tuple(folds), np.sort(codes), tuple(numbers))

    @cached_property
    def groups(self) -> list[Group]:
        """The rows grouped by where they have NaN and NULL, as trees; built once."""
        pattern = np.zeros(len(self.ranks), np.int64)
        for i, (values, numbers) in enumerate(zip(self.values, self.numbers, strict=True)):
            pattern = (
                pattern * 3 + (self.ranks[:, i] >= numbers) + (self.ranks[:, i] >= len(values))
            )
        out = []
        for p in np.unique(pattern).tolist():
            kinds = tuple(p // 3**i % 3 for i in reversed(range(len(self.values))))
            columns = [i for i, kind in enumerate(kinds) if kind == 0]
            out.append(
                Group(kinds, tree_of(self.ranks[pattern == p][:, columns]) if columns else None)
            )
        return out

    def member(self, keys: list[pa.Array]) -> Mask:
        """Return which of the given rows are among these rows; NULL equals NULL."""
        n = len(keys[0])
        present, ranks = np.ones(n, np.bool_), []
        for own, key in zip(self.values, keys, strict=True):
            at = pc.index_in(key, value_set=own)
            null = booleans_of(key.is_null())
            rank = int64_of(at, -1)
            rank = np.where(null, len(own), rank)
            present &= rank >= 0
            ranks.append(np.where(rank < 0, 0, rank))
        return present & self.has(np.stack(ranks, axis=1))

    def has(self, ranks: Ranks) -> Mask:
        """Return which rows of ranks, shape (n, columns), are among the rows."""
        codes, present = np.zeros(len(ranks), np.int64), np.ones(len(ranks), np.bool_)
        for i, (own, fold) in enumerate(zip(self.values, self.folds, strict=True)):
            if fold is not None:
                at = np.searchsorted(fold, codes)
                present &= (
                    (at < len(fold)) & (fold[np.minimum(at, len(fold) - 1)] == codes)
                    if len(fold)
                    else False
                )
                codes = at
            codes = codes * (len(own) + 1) + ranks[:, i]
        if not len(self.codes):
            return np.zeros(len(ranks), np.bool_)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.asarray(present & (self.codes[at] == codes), np.bool_)
