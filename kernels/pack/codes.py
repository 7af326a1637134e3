"""Order-preserving codes for values wider than a machine word: strings, binary, long decimals.

The distinct bounds of a column, sorted, are its dictionary. The code of a bound is its position
there, so codes compare as the bounds do, ties included. A literal need not be in the dictionary: it
falls between two codes, and its ranks say where.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import arrow_of, binary_of, known_of, null_where, numbers_of
from skipstone.ir.node import Op
from skipstone.ir.types import DType, Kind
from skipstone.kernels.pack.bounds import Bounds


def key_of(axis: object, dtype: DType) -> bytes:
    """Return the bytes that represent an axis value in a dictionary; they keep its order."""
    if dtype.kind is Kind.DECIMAL:
        assert isinstance(axis, int)
        return (axis + 2**127).to_bytes(16, "big")
    assert isinstance(axis, bytes)
    return axis


def value_of_key(key: bytes, dtype: DType) -> int | bytes:
    """Return the axis value that some bytes represent in a dictionary."""
    return int.from_bytes(key, "big") - 2**127 if dtype.kind is Kind.DECIMAL else key


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The distinct bounds of one column, ascending, as a large_binary array in host memory.

    Attributes:
        given: The array, or a function that reads it from a file and caches it.
        dtype: The column's type.
    """

    given: pa.Array | Callable[[], pa.Array]
    dtype: DType

    @property
    def keys(self) -> pa.Array:
        """The bounds as an array."""
        return self.given() if callable(self.given) else self.given

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, i: int) -> bytes:
        return self.keys[i].as_py()  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """Bytes of the bounds; 0 if a function reads them."""
        return 0 if callable(self.given) else int(self.given.nbytes)

    def end(self, high: bool) -> int:
        """Return the code of an unknown bound."""
        return 0 if not high else len(self) - (self.dtype.highest is not None)

    def rank(self, op: Op, axis: object) -> int:
        """Return the code that replaces a value in a comparison.

        LT and LE become code < rank, GE and GT become code >= rank.
        """
        # The number of bounds below the value, or of bounds not above it.
        find = bisect.bisect_right if op in (Op.LE, Op.GT) else bisect.bisect_left
        return find(self, key_of(axis, self.dtype))

    def runs(self, values: tuple[object, ...]) -> tuple[Codes, Codes]:
        """Return ascending values as runs of codes (kernels/pack/keys.py).

        A value between two codes is a run that ends before it starts.
        """
        left, right = self._ranks(values)
        return left, right - np.int32(1)

    def _ranks(self, values: tuple[object, ...]) -> tuple[Codes, Codes]:
        wanted = [key_of(v, self.dtype) for v in values]
        if hasattr(pc, "search_sorted"):  # pyarrow 26
            keys = binary_of(wanted)
            left, right = (
                numbers_of(pc.search_sorted(self.keys, keys, side=side))
                for side in ("left", "right")
            )
            return left.astype(np.int32), right.astype(np.int32)
        lefts, rights = (
            [find(self, w) for w in wanted] for find in (bisect.bisect_left, bisect.bisect_right)
        )
        return np.array(lefts, np.int32), np.array(rights, np.int32)


Codes = npt.NDArray[np.int32]


def encode(
    low: Bounds | None, high: Bounds | None, dtype: DType
) -> tuple[Codes | None, Codes | None, Dictionary]:
    """Encode both bounds with one dictionary.

    An unknown lower bound gets the code of the type's lowest value. An unknown upper bound gets the
    code of the highest value, or, for strings and binary, one past all codes.

    Returns:
        The codes of the lower and of the upper bounds, int32, shape (n,), None for a side that is
        unknown everywhere; and the dictionary.
    """
    ends = [key_of(dtype.lowest, dtype)] + (
        [] if dtype.highest is None else [key_of(dtype.highest, dtype)]
    )
    parts = [binary_of(ends)]
    parts += [
        b.values if b.known is None else null_where(arrow_of(~b.known), b.values)
        for b in (low, high)
        if b is not None
    ]
    encoded = pc.dictionary_encode(pa.concat_arrays(parts))
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), np.int32)
    rank[numbers_of(order)] = np.arange(len(order), dtype=np.int32)
    dictionary = Dictionary(pc.take(encoded.dictionary, order), dtype)
    indices, there = numbers_of(encoded.indices), known_of(encoded.indices)
    if there is not None:
        indices = np.where(there, indices, 0)
    past = len(dictionary) if dtype.highest is None else len(dictionary) - 1
    out: list[Codes | None] = []
    start = len(ends)
    for b, missing in ((low, 0), (high, past)):
        if b is None:
            out.append(None)
            continue
        codes = rank[indices[start : start + len(b.values)]]
        out.append(codes if b.known is None else np.where(b.known, codes, np.int32(missing)))
        start += len(b.values)
    return out[0], out[1], dictionary
