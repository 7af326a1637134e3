"""Normalized join keys: numbers or bytes that are compared in place of the original keys.

Two normalized keys are equal if Spark's join finds the original keys equal, and they sort as Spark
sorts these. An array of them is int64 (integers, dates, timestamps, booleans, decimals of up to 18
digits, and floats as their bits) or large_binary (strings, binary, longer decimals). NULL stays
NULL. NaN is one value above all numbers, and -0.0 is 0.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import (
    arrow_of,
    booleans_of,
    fill,
    null_where,
    numbers_of,
    plain,
    ticks_of,
    whole,
)
from skipstone.ir.coercion.coerce import common_type, in_spark
from skipstone.ir.errors import describe_error
from skipstone.ir.functions.build import cast
from skipstone.ir.node import Node, Op
from skipstone.ir.rows import values_of
from skipstone.ir.session import CannotJudge, Session
from skipstone.ir.types import TEXT, DType, Kind, from_arrow
from skipstone.ir.values import Values, numpy_type_of, to_array, unscaled
from skipstone.kernels.pack.codes import value_of_key
from skipstone.kernels.pack.planes import Mask

NAN_KEY: Final = np.iinfo(np.int64).max  # above the normalized key of infinity
MAGNITUDE_MASK: Final = np.int64(2**63 - 1)


def in_bytes(dtype: DType) -> bool:
    """Return True if the normalized keys of a type are bytes."""
    return dtype.coded or not dtype.ordered


# Prefixes of Arrow's names of types that have no order, but whose values are compared as they are
# stored. Maps and special types, such as collated text, are not compared.
COMPARABLE_PREFIXES: Final = (
    "struct<", "list<", "large_list<", "fixed_size_list<", "time", "duration",
)  # fmt: skip


def width_of(dtype: DType) -> int:
    """Return the bytes of one key as Spark stores it; 0 for types of variable width."""
    if dtype.kind in (Kind.STRING, Kind.BINARY, Kind.OTHER):
        return 0
    if dtype.kind is Kind.DECIMAL:
        return 16 if dtype.coded else 8
    return {Kind.BOOL: 1, Kind.DATE: 4, Kind.NULL: 1}.get(dtype.kind, (dtype.bits or 64) // 8)


def compared_in(a: DType, b: DType, session: Session) -> DType:
    """Return the type in which Spark's join compares columns of two types.

    Raises:
        CannotJudge: Spark refuses the pair, or its rule is not known here.
    """
    a, b = in_spark(a), in_spark(b)
    if same_type(a, b):
        if a.kind is Kind.OTHER and not a.name.startswith(COMPARABLE_PREFIXES):
            raise CannotJudge(f"keys of type {a} are not compared here")
        return a
    if Kind.NULL in (a.kind, b.kind):
        return b if a.kind is Kind.NULL else a
    if a.kind is Kind.STRING:
        a, b = b, a
    if a.kind is b.kind is Kind.OTHER:
        raise CannotJudge(f"{a} and {b} are not compared here")
    if not (a.ordered and b.ordered):
        raise CannotJudge(f"Spark does not compare {a} with {b}")
    return common_type(a, b, session)


def same_type(a: DType, b: DType) -> bool:
    """Return True if types are one type in Spark.

    Nested types of Arrow also differ by the name of a list's elements, the width of its offsets,
    and by which values may be NULL.

    Example:
        >>> import pyarrow as pa
        >>> same_type(*map(from_arrow, (pa.list_(pa.int8()), pa.large_list(pa.int8()))))
        True
    """
    return a == b or (a.kind is b.kind is Kind.OTHER and _spelled(a.name) == _spelled(b.name))


def _spelled(name: str) -> str:
    """Return Arrow's name of a type without what Spark does not tell apart."""
    return re.sub(r"\b(list<)\w+: ", r"\1", re.sub(r"\blarge_(?!\w+:)| not null\b", "", name))


def not_in_as_text(a: DType, b: DType, session: Session) -> bool:
    """Return True if Spark's NOT IN compares two types as text, and its joins do not.

    Source: Spark, `TypeCoercion.InConversion`; in ANSI mode both compare in one type.
    """
    kinds = {in_spark(a).kind, in_spark(b).kind}
    return not session.ansi and len(kinds) == 2 and Kind.STRING in kinds and Kind.NULL not in kinds


def keeps_values(source: DType, to: DType) -> bool:
    """Return True if different values of `source` stay different in `to`.

    Then at most one value of the column equals a key.
    """
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
        case Kind.TIME, Kind.TIME:
            return True
        case Kind.TIMESTAMP, Kind.TIMESTAMP:
            return source.zoned == to.zoned
    return source == to


def cast_array(array: pa.Array, to: DType, session: Session, name: str = "cast") -> pa.Array:
    """Return an array as Spark casts it; each distinct value is cast once.

    Raises:
        CannotJudge: Spark raises an error for some value, or the result is not known here.
    """
    array = as_spark_reads(plain(array))
    source = from_arrow(array.type)
    if same_type(source, to):
        return array
    if source.kind is Kind.NULL:
        encoded = pa.nulls(len(array), pa.bool_()).dictionary_encode()
    else:
        encoded = array.dictionary_encode()
    if not len(encoded.dictionary):
        empty = Values(
            to, np.empty(1, numpy_type_of(to)), np.zeros(1, np.bool_), np.zeros(1, np.bool_)
        )
        empty.data[0] = b"" if to.kind in TEXT else 0
        return to_array(empty, len(array))
    node = cast(Node(Op.COLUMN, value=("key",), dtype=source), to, session, name)
    if node.op is Op.UNKNOWN:
        raise CannotJudge(f"the cast of keys from {source} to {to} is not understood")
    values = values_of(node, pa.record_batch({"key": encoded.dictionary}), {})
    if values.may_raise.any():
        raise CannotJudge(
            f"Spark raises an error when it casts some key from {source} to {to}, "
            "or the result is not known here"
        )
    return to_array(values, len(encoded.dictionary)).take(encoded.indices)


def as_spark_reads(array: pa.Array) -> pa.Array:
    """Return numbers in the type that Spark reads them as: wider signed integers, wide decimals.

    Arrow compares and encodes no decimals of 32 and 64 bits (pyarrow 26). Spark has no nanoseconds.
    Times that are whole microseconds become these, which hold every day of Python.
    """
    t = array.type
    if pa.types.is_decimal(t) and t.bit_width < 128:
        return array.cast(pa.decimal128(t.precision, t.scale))
    if pa.types.is_timestamp(t) and t.unit == "ns":
        try:
            return array.cast(pa.timestamp("us", t.tz))
        except pa.ArrowInvalid:
            return array
    if not pa.types.is_unsigned_integer(t):
        return array
    return array.cast(
        {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[t.bit_width]
    )


def normalized_keys(array: pa.Array) -> pa.Array:
    """Return the normalized keys of an array of a type that Spark has."""
    array = plain(array)
    dtype = from_arrow(array.type)
    match dtype.kind:
        case Kind.STRING:
            return array.cast(pa.large_string()).view(pa.large_binary())
        case Kind.BINARY:
            return array.cast(pa.large_binary())
        case Kind.OTHER | Kind.NULL:
            try:
                texts = [None if v is None else repr(_normalized(v)) for v in array.to_pylist()]
            except (OverflowError, ValueError) as e:  # such as days beyond the year 9999
                raise CannotJudge(f"some key is not compared here ({describe_error(e)})") from e
            keys = [None if v is None else v.encode("utf-8", "surrogatepass") for v in texts]
            return pa.array(keys, pa.large_binary())
        case Kind.DECIMAL:
            words = unscaled(array.cast(pa.decimal128(38, dtype.scale)))
            if not dtype.coded:
                return _with_nulls(np.ascontiguousarray(words[:, 0]).view(np.int64), array)
            flipped = np.empty((len(array), 2), ">u8")
            flipped[:, 0], flipped[:, 1] = words[:, 1] ^ np.uint64(1 << 63), words[:, 0]
            keys = pa.Array.from_buffers(
                pa.binary(16), len(array), [None, pa.py_buffer(flipped.tobytes())]
            ).cast(pa.large_binary())
            return null_where(array.is_null(), keys)
        case Kind.DATE:
            array = array.cast(pa.date32()).view(pa.int32())
        case Kind.TIME:
            return ticks_of(array)
        case Kind.TIMESTAMP:
            return array.view(pa.int64())
        case Kind.BOOL:
            array = array.cast(pa.uint8())
        case Kind.FLOAT:
            floats = numbers_of(fill(array.cast(pa.float64()), 0.0)).view(np.float64)
            return _with_nulls(float_keys(floats), array)
    return array.cast(pa.int64())


def _with_nulls(values: npt.NDArray[np.int64], of: pa.Array) -> pa.Array:
    return arrow_of(values, booleans_of(of.is_valid()) if of.null_count else None)


def _normalized(value: Any) -> Any:
    """Return a nested value with -0.0 as 0.0, so that equal numbers have one text."""
    match value:
        case float():
            return value + 0.0
        case dict():
            return {k: _normalized(v) for k, v in value.items()}
        case list() | tuple():
            return [_normalized(v) for v in value]
    return value


def float_keys(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the normalized keys of doubles: integers of the same order.

    The integers are the bits of the doubles. If the sign is set, the bits of the magnitude are
    inverted.
    """
    bits = (values + 0.0).view(np.int64)
    return np.where(np.isnan(values), NAN_KEY, bits ^ ((bits >> 63) & MAGNITUDE_MASK))


def axis_of(keys: pa.Array, dtype: DType) -> list[Any]:
    """Return normalized keys without NULL as values of the type's axis, in the same order."""
    if in_bytes(dtype):
        values: list[Any] = keys.to_pylist()
        if dtype.kind is Kind.DECIMAL:
            return [value_of_key(v, dtype) for v in values]
        return values
    numbers = keys.to_numpy(zero_copy_only=False)
    numbers = floats_of(numbers) if dtype.kind is Kind.FLOAT else numbers
    return numbers.tolist()  # type: ignore[no-any-return]


def floats_of(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the doubles of normalized keys."""
    values = (keys ^ ((keys >> 63) & MAGNITUDE_MASK)).view(np.float64)
    return np.where(keys == NAN_KEY, np.nan, values)


def array_of(keys: pa.Array, dtype: DType) -> pa.Array:
    """Return normalized keys as an Arrow array of their type.

    NULL stays NULL. Nested values become the texts that distinguish them.
    """
    valid = booleans_of(keys.is_valid())
    if not dtype.ordered:
        return keys
    filled = keys.fill_null(bytes(16) if in_bytes(dtype) else 0)
    data = np.empty(len(keys), numpy_type_of(dtype))
    data[:] = axis_of(filled, dtype)
    return to_array(Values(dtype, data, valid, np.zeros(len(keys), np.bool_)), len(keys))


@dataclass(frozen=True, slots=True)
class JoinKeys:
    """Keys of one column, ready to be compared with the values of another column.

    Attributes:
        dtype: The type of the keys: the other column's own type if a key equals at most one of its
            values; otherwise the type in which both are compared.
        keys: Normalized keys, shape (n,); NULL where the key is NULL after its cast.
        null: Which keys are NULL, shape (n,); None if there are none.
        possible: Which keys can equal some value of the other column, shape (n,); None if all can.
    """

    dtype: DType
    keys: pa.Array
    null: Mask | None
    possible: Mask | None = None


def join_keys(array: pa.Array | pa.ChunkedArray, other: DType, session: Session) -> JoinKeys:
    """Return keys as a join compares them with a column of type `other`.

    Raises:
        CannotJudge: Spark refuses to compare them, or the result is not known here.
    """
    array = as_spark_reads(plain(whole(array)))
    own, other = from_arrow(array.type), in_spark(other)
    to = compared_in(other, own, session)
    if same_type(own, other):
        return JoinKeys(other, normalized_keys(array), nulls_of(array))
    compared = cast_array(array, to, session)
    if not keeps_values(other, to):
        return JoinKeys(to, normalized_keys(compared), nulls_of(compared))
    # A key that changes when it is cast to the column's type and back equals no value of it.
    as_column = cast_array(compared, other, session, "try_cast")
    returned = normalized_keys(cast_array(as_column, to, session))
    keys = normalized_keys(compared)
    same = pc.equal(returned, keys).fill_null(False)
    possible = np.asarray(pc.or_(same, keys.is_null()).to_numpy(zero_copy_only=False), np.bool_)
    return JoinKeys(
        other, normalized_keys(as_column), nulls_of(compared), None if possible.all() else possible
    )


def nulls_of(array: pa.Array) -> Mask | None:
    """Return which values of an array are NULL; None if there are none."""
    if array.null_count:
        return booleans_of(array.is_null())
    return None
