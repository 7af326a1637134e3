"""Join keys as lanes: numbers or bytes that are equal where Spark's join finds the keys equal, and ordered as Spark orders them.

A lane array is int64 (integers, dates, timestamps, booleans, decimals of up to 18 digits; floats by their bits) or large_binary
(strings, binary, longer decimals); NULL stays NULL. NaN is one value above all numbers, -0.0 is 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.ir.coerce import common_type, in_spark
from skipstone.ir.functions.build import cast
from skipstone.ir.node import Node, Op
from skipstone.ir.rows import values_of
from skipstone.ir.session import Incomparable, Session
from skipstone.ir.types import DType, Kind, from_arrow, plain, whole
from skipstone.ir.values import Values, lane_of, to_array, unscaled

NAN: Final = np.iinfo(np.int64).max  # the lane of NaN; that of infinity is less
MAGNITUDE: Final = np.int64(2**63 - 1)
Mask = npt.NDArray[np.bool_]


def in_bytes(dtype: DType) -> bool:
    """Whether lanes of a type are bytes."""
    return dtype.coded or not dtype.ordered


# Arrow's names of types without an order whose values are compared as they are stored; maps and noted columns, such as collated text, are not.
COMPARED: Final = ("struct<", "list<", "large_list<", "fixed_size_list<", "time", "duration")


def width_of(dtype: DType) -> int:
    """Bytes of one key of a fixed width, as Spark stores it; 0 where each key has its own."""
    if dtype.kind in (Kind.STRING, Kind.BINARY, Kind.OTHER):
        return 0
    if dtype.kind is Kind.DECIMAL:
        return 16 if dtype.coded else 8
    return {Kind.BOOL: 1, Kind.DATE: 4, Kind.NULL: 1}.get(dtype.kind, (dtype.bits or 64) // 8)


def compared_in(a: DType, b: DType, session: Session) -> DType:
    """The type in which Spark's join compares columns of two types.

    Raises:
        Incomparable: Spark refuses the pair, or what it does is not known here.
    """
    a, b = in_spark(a), in_spark(b)
    if a == b:
        if a.kind is Kind.OTHER and not a.name.startswith(COMPARED):
            raise Incomparable(f"keys of type {a} are not compared here")
        return a
    if Kind.NULL in (a.kind, b.kind):
        return b if a.kind is Kind.NULL else a
    if a.kind is Kind.STRING:
        a, b = b, a
    if not (a.ordered and b.ordered):
        raise Incomparable(f"Spark does not compare {a} with {b}")
    return common_type(a, b, session)


def not_in_as_text(a: DType, b: DType, session: Session) -> bool:
    """Return True if Spark's NOT IN compares two types as text, and its joins do not.

    Source: Spark, `TypeCoercion.InConversion`; in ANSI mode both compare in one type.
    """
    kinds = {in_spark(a).kind, in_spark(b).kind}
    return not session.ansi and len(kinds) == 2 and Kind.STRING in kinds and Kind.NULL not in kinds


def keeps_values(source: DType, to: DType) -> bool:
    """Whether different values stay different in the type of the comparison, so that at most one of them equals a key."""
    match source.kind, to.kind:
        case (
            (Kind.INT, Kind.INT)
            | (Kind.INT, Kind.DECIMAL)
            | (Kind.DECIMAL, Kind.DECIMAL)
            | (Kind.FLOAT, Kind.FLOAT)
        ):
            return True
        case Kind.INT, Kind.FLOAT:
            return source.bits < (32 if to.bits == 32 else 64)
        case Kind.DATE, Kind.TIMESTAMP:
            return not to.zoned
        case Kind.TIMESTAMP, Kind.TIMESTAMP:
            return source.zoned == to.zoned
    return source == to


def cast_array(array: pa.Array, to: DType, session: Session, name: str = "cast") -> pa.Array:
    """An array as Spark casts it; each distinct value is cast once.

    Raises:
        Incomparable: Spark raises an error for some value, or what it gives is not known here.
    """
    array = signed(plain(array))
    source = from_arrow(array.type)
    if source == to:
        return array
    encoded = (
        pa.nulls(len(array), pa.bool_()).dictionary_encode()
        if source.kind is Kind.NULL
        else array.dictionary_encode()
    )
    if not len(encoded.dictionary):
        empty = Values(to, np.empty(1, lane_of(to)), np.zeros(1, np.bool_), np.zeros(1, np.bool_))
        empty.data[0] = b"" if to.kind in (Kind.STRING, Kind.BINARY) else 0
        return to_array(empty, len(array))
    node = cast(Node(Op.COLUMN, value=("key",), dtype=source), to, session, name)
    if node.op is Op.UNKNOWN:
        raise Incomparable(f"the cast of keys from {source} to {to} is not understood")
    found = values_of(node, pa.record_batch({"key": encoded.dictionary}), {})
    if found.lost.any():
        raise Incomparable(
            f"Spark raises an error where it casts some key from {source} to {to}, or what it gives is not known here"
        )
    return to_array(found, len(encoded.dictionary)).take(encoded.indices)


def signed(array: pa.Array) -> pa.Array:
    """Unsigned integers as the wider ones that they are to Spark."""
    if not pa.types.is_unsigned_integer(array.type):
        return array
    return array.cast(
        {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[
            array.type.bit_width
        ]
    )


def lanes_of(array: pa.Array) -> pa.Array:
    """An array of a type that Spark has, as lanes."""
    array = plain(array)
    dtype = from_arrow(array.type)
    match dtype.kind:
        case Kind.STRING:
            return array.cast(pa.large_string()).view(pa.large_binary())
        case Kind.BINARY:
            return array.cast(pa.large_binary())
        case Kind.OTHER | Kind.NULL:
            return pa.array(
                [
                    None if v is None else repr(_normal(v)).encode("utf-8", "surrogatepass")
                    for v in array.to_pylist()
                ],
                pa.large_binary(),
            )
        case Kind.DECIMAL:
            words = unscaled(array.cast(pa.decimal128(38, dtype.scale)))
            if not dtype.coded:
                return _with_nulls(np.ascontiguousarray(words[:, 0]).view(np.int64), array)
            flipped = np.empty((len(array), 2), ">u8")
            flipped[:, 0], flipped[:, 1] = words[:, 1] ^ np.uint64(1 << 63), words[:, 0]
            keys = pa.Array.from_buffers(
                pa.binary(16), len(array), [None, pa.py_buffer(flipped.tobytes())]
            ).cast(pa.large_binary())
            return pc.if_else(array.is_valid(), keys, None)
        case Kind.DATE:
            array = array.cast(pa.date32()).view(pa.int32())
        case Kind.TIMESTAMP:
            return array.view(pa.int64())
        case Kind.BOOL:
            array = array.cast(pa.uint8())
        case Kind.FLOAT:
            floats = np.asarray(
                array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
            )
            return _with_nulls(float_lanes(floats), array)
    return array.cast(pa.int64())


def _with_nulls(values: npt.NDArray[np.int64], of: pa.Array) -> pa.Array:
    return pa.array(
        values,
        pa.int64(),
        mask=None if not of.null_count else np.asarray(of.is_null().to_numpy(zero_copy_only=False)),
    )


def _normal(value: Any) -> Any:
    """A nested value, in which equal numbers have one text."""
    match value:
        case float():
            return value + 0.0
        case dict():
            return {k: _normal(v) for k, v in value.items()}
        case list() | tuple():
            return [_normal(v) for v in value]
    return value


def float_lanes(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Doubles as integers of the same order: the bits, with those of the magnitude turned where the sign is set."""
    bits = (values + 0.0).view(np.int64)
    return np.where(np.isnan(values), NAN, bits ^ ((bits >> 63) & MAGNITUDE))


def axis_of(lanes: pa.Array, dtype: DType) -> list[Any]:
    """Lanes without NULL as values of the type's axis, in the same order."""
    if in_bytes(dtype):
        found = lanes.to_pylist()
        return (
            [int.from_bytes(v, "big") - 2**127 for v in found]
            if dtype.kind is Kind.DECIMAL
            else found
        )
    numbers = lanes.to_numpy(zero_copy_only=False)
    return floats_of(numbers).tolist() if dtype.kind is Kind.FLOAT else numbers.tolist()  # type: ignore[no-any-return]


def floats_of(lanes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The doubles of lanes."""
    values = (lanes ^ ((lanes >> 63) & MAGNITUDE)).view(np.float64)
    return np.where(lanes == NAN, np.nan, values)


def array_of(lanes: pa.Array, dtype: DType) -> pa.Array:
    """Lanes as an Arrow array of their type, NULL where they are; nested values as the texts that they are told apart by."""
    valid = np.asarray(lanes.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    if not dtype.ordered:
        return lanes
    filled = lanes.fill_null(bytes(16) if in_bytes(dtype) else 0)
    data = np.empty(len(lanes), lane_of(dtype))
    data[:] = axis_of(filled, dtype)
    return to_array(Values(dtype, data, valid, np.zeros(len(lanes), np.bool_)), len(lanes))


@dataclass(frozen=True, slots=True)
class Keyed:
    """Keys of one column, ready to be compared with another column's values.

    Attributes:
        dtype: What the lanes are of: the other column's own type, if a key equals one of its values at most; else the type that both are compared in.
        lanes: Shape (n,); NULL where the key is, after its cast.
        null: Where that is, shape (n,); None: nowhere.
        possible: Which keys can equal any value of the other column, shape (n,); None: all.
    """

    dtype: DType
    lanes: pa.Array
    null: Mask | None
    possible: Mask | None = None


def keyed(array: pa.Array | pa.ChunkedArray, other: DType, session: Session) -> Keyed:
    """Keys as a join with a column of type `other` compares them.

    Raises:
        Incomparable: Spark refuses to compare them, or what it does is not known here.
    """
    array = signed(plain(whole(array)))
    own, other = from_arrow(array.type), in_spark(other)
    to = compared_in(other, own, session)
    if own == other:
        return Keyed(other, lanes_of(array), nulls_of(array))
    there = cast_array(array, to, session)
    if not keeps_values(other, to):
        return Keyed(to, lanes_of(there), nulls_of(there))
    # What is not the same after the way to the column's type and back equals no value of the column.
    back = cast_array(there, other, session, "try_cast")
    again = lanes_of(cast_array(back, to, session))
    lanes = lanes_of(there)
    same = pc.equal(again, lanes).fill_null(False)
    possible = np.asarray(pc.or_(same, lanes.is_null()).to_numpy(zero_copy_only=False), np.bool_)
    return Keyed(other, lanes_of(back), nulls_of(there), None if possible.all() else possible)


def nulls_of(array: pa.Array) -> Mask | None:
    """Where an array is NULL; None: nowhere."""
    return (
        np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)
        if array.null_count
        else None
    )
