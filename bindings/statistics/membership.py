"""Test containers against a set of values, by lists of all their values and by bloom filters.

An answer is that of `PruningStatistics.contained`: true if the column holds only values of the set
(or NULL), false if it holds none of them, null if that is unknown.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import booleans_of, fill, int64_of, plain
from skipstone.ir.node import Path
from skipstone.ir.types import PER_SECOND, DType, Kind, Leaf, from_arrow
from skipstone.ir.zones import GREGORIAN, SETTLED
from skipstone.kernels.pack.bounds import bounds_of
from skipstone.kernels.pack.codes import key_of
from skipstone.kernels.pack.planes import Mask

# Bytes of a block. A filter is a sequence of blocks of eight 32-bit words; a value sets one bit in
# each word of one block.
BLOCK: Final = 32
SALT: Final = np.array(
    [
        0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947,
        0x5C6BFB31,
    ],
    np.uint32,
)  # fmt: skip
MAX_PROBES_PER_STEP: Final = 1 << 17  # pairs of container and value
Hashes = npt.NDArray[np.uint64]


def in_lists(lists: pa.Array, values: Iterable[object], dtype: DType) -> pa.BooleanArray | None:
    """Test lists of all values that occur against a set.

    Args:
        lists: Arrow lists, length n: all values of each container except NULL, including NaN; null
            is unknown. A list is unknown if one of its elements is null, or not exactly a value of
            the column's type.
        values: Axis values of `dtype`.
        dtype: The column's type.

    Returns:
        bool array, length n; an empty list holds none of the values. None: all are unknown.

    Example:
        >>> from skipstone.ir.types import INT64
        >>> in_lists(pa.array([[1, 2], [1, 5], [5], [], None]), (1, 2), INT64).to_pylist()
        [True, None, False, False, None]
    """
    if not _is_list(lists.type) or not dtype.ordered:
        return None
    n, flat = len(lists), lists.flatten()
    unknown = booleans_of(pc.is_null(lists))
    # Arrow's list_parent_indices counts the elements under a null list; flatten omits them.
    total = int64_of(pc.list_value_length(lists))
    parents = np.repeat(np.arange(n), total)
    inside = np.zeros(n, np.int64)
    if len(flat):
        low, high = bounds_of(flat, dtype, "min"), bounds_of(flat, dtype, "max")
        if low is None or high is None:
            return pa.array([False if t == 0 else None for t in total], pa.bool_(), mask=unknown)
        exact = low.mask.copy()
        if dtype.kind is Kind.TIMESTAMP:
            exact &= low.values == high.values  # unequal: between two ticks of the column
        unknown |= np.bincount(parents[~exact], minlength=n) > 0
        inside = np.bincount(parents[_among(low.values, values, dtype)], minlength=n)
    only = (inside == total) & (total > 0)
    return pa.array(only, pa.bool_(), mask=unknown | ~(only | (inside == 0)))


def _is_list(t: pa.DataType) -> bool:
    kinds = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(is_kind(t) for is_kind in kinds)


def _among(flat: Any, values: Iterable[Any], dtype: DType) -> Mask:
    """Return which of the values are in the set; NaN never is, and -0.0 equals 0.0."""
    if not dtype.coded:
        # Sorting members that are mostly in order is fast; numpy's `isin` takes seconds for a
        # million.
        members = np.sort(np.array(list(values), dtype.numpy_type))
        at = np.minimum(np.searchsorted(members, flat), len(members) - 1)
        if len(members):
            return np.asarray(members[at] == flat, np.bool_)
        return np.zeros(len(flat), np.bool_)
    keys = [key_of(v, dtype) for v in values]
    return np.asarray(
        pc.is_in(flat, value_set=pa.array(keys, pa.large_binary())).to_numpy(zero_copy_only=False),
        np.bool_,
    )


class Blooms:
    """Bloom filters of one column in n containers, ready to be probed.

    Args:
        filters: An Arrow array of length n: bitsets of split-block filters, multiples of 32 bytes.
            A null, another length or another type is unknown.
        dtype: The column's type in the files that the filters come from.
        physical: The Parquet type of the values that were hashed, such as "INT32"; None means any
            type that a writer may choose for `dtype`.
        length: Bytes of a FIXED_LEN_BYTE_ARRAY.

    Memory: a copy of the bitsets in host memory.

    Source: Apache Parquet, `BloomFilter.md`.
    """

    def __init__(
        self,
        filters: pa.Array,
        dtype: DType,
        physical: str | None = None,
        length: int | None = None,
    ) -> None:
        self._dtype, self._physical, self._length = dtype, physical, length
        filters = plain(filters)
        if from_arrow(filters.type).kind is not Kind.BINARY:
            filters = pa.nulls(len(filters), pa.large_binary())
        filters = pc.cast(filters, pa.large_binary())
        sizes = int64_of(pc.binary_length(filters))
        self._valid = (sizes > 0) & (sizes % BLOCK == 0)
        valid = pc.filter(filters, pa.array(self._valid, pa.bool_()))
        self._blocks = sizes[self._valid].astype(np.uint64) // BLOCK
        self._starts = np.cumsum(self._blocks) - self._blocks
        self._words = np.frombuffer(b"".join(v.as_buffer() for v in valid), "<u4").reshape(-1, 8)

    def absent(self, values: Iterable[object]) -> Mask | None:
        """Return where the filters prove that none of the axis values occurs.

        Returns:
            bool array, shape (n,). None: nothing is proved, as the bytes that were hashed for some
            value are not certain.
        """
        undecided = np.arange(len(self._blocks))
        rest = iter(values)
        # A filter that holds one of the values is done, so a long list is rarely hashed to its end.
        while len(undecided) and (
            some := list(itertools.islice(rest, max(1, MAX_PROBES_PER_STEP // len(undecided))))
        ):
            hashes = hashes_of(some, self._dtype, self._physical, self._length)
            if hashes is None:
                return None
            undecided = undecided[~self._any_in(undecided, hashes)]
        out = np.zeros(len(self._valid), np.bool_)
        out[np.flatnonzero(self._valid)[undecided]] = True
        return out

    def _any_in(self, which: npt.NDArray[np.intp], hashes: Hashes) -> Mask:
        """Return whether each of the filters `which` may hold one of the hashes."""
        block = block_of(hashes, self._blocks[which, None])
        words = self._words[(self._starts[which, None] + block).astype(np.intp)]
        return np.asarray(in_blocks(words, hashes).any(axis=1), np.bool_)


def hashes_of(
    values: Iterable[object], dtype: DType, physical: str | None = None, length: int | None = None
) -> Hashes | None:
    """Return the hashes that a writer may have put into a bloom filter for axis values.

    Returns:
        uint64 array: at least one hash for each value. None: the hashed bytes of some value are
        not certain.
    """
    import xxhash

    encoded = [encodings(v, dtype, physical, length) for v in values]
    if None in encoded:
        return None
    return np.array(
        [xxhash.xxh64_intdigest(data) for encoded_value in encoded for data in encoded_value or ()],
        np.uint64,
    )


def block_of(hashes: Hashes, blocks: Any) -> Hashes:
    """Return the block of a filter in which each hash is looked up; `blocks` is their number."""
    found: Hashes = ((hashes >> np.uint64(32)) * blocks) >> np.uint64(32)
    return found


def in_blocks(words: npt.NDArray[np.uint32], hashes: Hashes) -> Mask:
    """Return whether blocks hold hashes.

    Args:
        words: The blocks' words, shape (..., n, 8).
        hashes: The hash to look up in each block, shape (n,).

    Returns:
        bool array, shape (..., n).
    """
    bits = np.uint32(1) << ((hashes.astype(np.uint32)[:, None] * SALT) >> np.uint32(27))
    held: Mask = (words & bits == bits).all(axis=-1)
    return held


def encodings(
    value: Any, dtype: DType, physical: str | None = None, length: int | None = None
) -> list[bytes] | None:
    """Return the bytes that a Parquet writer may have hashed for an axis value.

    These are its plain encodings, in each width that a writer may have chosen.

    Args:
        value: An axis value of `dtype`.
        dtype: The column's type in the file.
        physical: The Parquet type, if it is known.
        length: Bytes of a FIXED_LEN_BYTE_ARRAY.

    Returns:
        The possible encodings. None if they are not certain: for booleans; for decimals and
        timestamps of an unknown physical type, as readers change scales and units; for dates and
        timestamps that a legacy calendar moves.

    Example:
        >>> from skipstone.ir.types import FLOAT, INT16
        >>> encodings(5, INT16), encodings(0.0, FLOAT)
        ([b'\\x05\\x00\\x00\\x00'], [b'\\x00\\x00\\x00\\x00', b'\\x00\\x00\\x00\\x80'])
    """
    match dtype.kind:
        case Kind.STRING | Kind.BINARY:
            return [value] if physical in (None, "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY") else None
        case Kind.INT | Kind.UINT | Kind.DATE:
            if dtype.kind is Kind.DATE and value < GREGORIAN:
                return None
            # A BIGINT column may have been widened from INT; format 1.0 stores UINT32 as INT64.
            encodings_by_width = [_integer(value, width) for width in _widths(dtype, physical)]
            return [b for b in encodings_by_width if b is not None] or None
        case Kind.FLOAT:
            return _float(value, dtype, physical)
        case Kind.TIMESTAMP if physical == "INT64" and value >= SETTLED * PER_SECOND[dtype.unit]:
            return [struct.pack("<q", value)]
        case Kind.DECIMAL if physical in ("INT32", "INT64"):
            return (
                [b] if (b := _integer(value, 4 if physical == "INT32" else 8)) is not None else None
            )
        case Kind.DECIMAL if (
            physical == "FIXED_LEN_BYTE_ARRAY"
            and length
            and -(1 << (8 * length - 1)) <= value < 1 << (8 * length - 1)
        ):
            return [value.to_bytes(length, "big", signed=True)]
    return None


def _widths(dtype: DType, physical: str | None) -> tuple[int, ...]:
    """Return the bytes of integers that a writer may have chosen for a type."""
    if physical is not None:
        return {"INT32": (4,), "INT64": (8,)}.get(physical, ())
    if dtype.kind is Kind.INT and dtype.bits == 64:
        return 8, 4
    if dtype.kind is Kind.UINT and dtype.bits == 32:
        return (4, 8)
    if dtype.bits == 64:
        return (8,)
    return (4,)


def _integer(value: int, width: int) -> bytes | None:
    """Encode an integer in two's complement, little endian; None if it does not fit.

    Unsigned numbers are stored by their bits.
    """
    bits = 8 * width
    if -(1 << (bits - 1)) <= value < 1 << bits:
        return (value % (1 << bits)).to_bytes(width, "little")
    return None


def _float(value: float, dtype: DType, physical: str | None) -> list[bytes] | None:
    """Encode a float in each width that a writer may have chosen and that holds it exactly."""
    codes = {"FLOAT": "<f", "DOUBLE": "<d"}
    if physical in codes:
        chosen = [codes[physical]]
    elif physical:
        chosen = []
    elif dtype.bits == 32:
        chosen = ["<f"]
    else:
        chosen = ["<d", "<f"]
    out = []
    for code in chosen:
        try:
            packed = struct.pack(code, value)
        except OverflowError:
            continue
        if struct.unpack(code, packed)[0] == value:
            # 0.0 and -0.0 are one value with two encodings.
            out += [packed, struct.pack(code, -value)] if value == 0 else [packed]
    if physical is None and dtype.bits == 64 and abs(value) <= 1 << 31 and value == int(value):
        whole = _integer(int(value), 4)  # a DOUBLE column may have been widened from INT
        out += [] if whole is None else [whole]
    return out or None


def combine_answers(
    first: pa.BooleanArray | None, second: pa.BooleanArray | None
) -> pa.BooleanArray | None:
    """Combine two answers: the known one decides; where two contradict, nothing is known."""
    if first is None or second is None:
        return second if first is None else first
    joined = pc.coalesce(first, second)
    return pc.if_else(fill(pc.not_equal(first, second), False), pa.scalar(None, pa.bool_()), joined)


class ValuesAndBlooms:
    """Value lists and bloom filters that were given with statistics.

    Args:
        extras: By column, "values" and "bloom", Arrow arrays of length n.
        dtypes: The columns' types in the schema of the statistics.
    """

    def __init__(
        self, extras: Mapping[Path, Mapping[str, pa.Array]], dtypes: Mapping[Path, DType]
    ) -> None:
        self._extras, self._dtypes = extras, dtypes
        self._blooms: dict[Path, Blooms] = {}

    def lists(self, path: Path) -> pa.Array | None:
        """Return the value lists of a column; None if there are none."""
        lists = self._extras.get(path, {}).get("values")
        return None if lists is None or not _is_list(lists.type) else lists

    def contained(
        self, path: Path, values: tuple[object, ...], dtype: DType
    ) -> pa.BooleanArray | None:
        """Test all containers against axis values of `dtype`; None if nothing is known."""
        extras = self._extras.get(path, {})
        lists = in_lists(extras["values"], values, dtype) if "values" in extras else None
        own = self._dtypes.get(path)
        if own is None or "bloom" not in extras or not same_axis(own, dtype):
            return lists
        if path not in self._blooms:
            self._blooms[path] = Blooms(extras["bloom"], own)
        return combine_answers(lists, none_of(self._blooms[path].absent(values)))


def values_and_blooms_of(
    extras: Mapping[Path, Mapping[str, pa.Array]], leaves: Mapping[Path, Leaf]
) -> ValuesAndBlooms | None:
    """Return the value lists and bloom filters among extras; None if there are neither."""
    if not any("values" in e or "bloom" in e for e in extras.values()):
        return None
    return ValuesAndBlooms(extras, {path: leaf.dtype for path, leaf in leaves.items()})


def same_axis(a: DType, b: DType) -> bool:
    """Return True if an axis value means the same in both types."""
    return a == b or (a.kind is b.kind and a.kind in (Kind.INT, Kind.UINT, Kind.FLOAT))


def none_of(absent: Mask | None) -> pa.BooleanArray | None:
    """Convert a mask of containers that hold no value of a set to an answer: false, else null."""
    if absent is None:
        return None
    return pa.array(np.zeros(len(absent), np.bool_), pa.bool_(), mask=~absent)
