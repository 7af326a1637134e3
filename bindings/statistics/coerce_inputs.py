"""Coerce statistics as users give them, lists, NumPy and Arrow arrays, to Arrow arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sized
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.arrow import python_array, type_at, whole
from skipstone.ir.errors import StatisticsError, counted, describe_error, unknown_column
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import DType, Leaf, to_axis, to_python
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.run import pool

MAX_ROWS: Final = 1 << 48  # no file has more; sums of larger counts could exceed 64 bits
COUNTS: Final = ("null_count", "row_count", "nan_count")
PACKED: Final = ("min", "max", *COUNTS)
KEYS: Final = (*PACKED, "min_exact", "max_exact", "values", "bloom")
UNITS_WITHOUT_ARROW: Final = ("Y", "M", "W", "h", "m")  # NumPy's time units that Arrow lacks
EXPECTED: Final = "expected a list, NumPy or Arrow array of one value per container"
COPY_CHUNK: Final = 1 << 18  # values that a thread copies at a time
# One part of a dotted name, in backticks or plain.
QUOTED: Final = r"`(?:[^`]|``)*`"
PLAIN: Final = r"[^`.]*"
PART: Final = re.compile(rf"(?:^|\.)(?:({QUOTED})|({PLAIN}))")
QUOTED_NAME: Final = re.compile(rf"(?:{QUOTED}|{PLAIN})(?:\.(?:{QUOTED}|{PLAIN}))*")
# What pyarrow raises for a value that it cannot convert.
CONVERSION_ERRORS: Final = (pa.ArrowException, OverflowError, ValueError, TypeError)


def leaf_named(name: str, leaves: Mapping[Path, Leaf], by: str = "a statistic") -> Leaf:
    """Return the column that a dotted name stands for.

    Args:
        name: The name, as in SQL.
        leaves: The schema's columns.
        by: The subject of the error message, such as "order_by".

    Raises:
        UnknownColumn: the schema lacks the column.
        StatisticsError: the name is no text.
    """
    if not isinstance(name, str):
        raise StatisticsError(f"{by} names {name!r:.60}; expected the name of a column")
    for path in (split_name(name), (name,)):
        if path in leaves:
            return leaves[path]
    raise unknown_column(name, map(show_path, leaves), by)


def split_name(name: str) -> Path:
    """Split a dotted name into a path.

    Backticks keep a part whole; two backticks within such a part stand for one. A backtick
    elsewhere stands for itself.

    Example:
        >>> split_name("a.`b.c`")
        ('a', 'b.c')
        >>> split_name("a`b")
        ('a`b',)
    """
    if "`" not in name or not QUOTED_NAME.fullmatch(name):
        return tuple(name.split("."))
    parts = (quoted or plain for quoted, plain in PART.findall(name))
    return tuple(p[1:-1].replace("``", "`") if p[:1] == "`" else p for p in parts)


def common_length(lengths: dict[str, int]) -> int:
    """Return the one length that all statistics have.

    Args:
        lengths: Lengths by name of the statistic.

    Raises:
        StatisticsError: there are no statistics, or their lengths differ.
    """
    if not lengths:
        raise StatisticsError(
            "no statistics were given, so the number of containers is not known; "
            "give at least row_count=[None] * n"
        )
    (first, n), *rest = lengths.items()
    for name, length in rest:
        if length != n:
            raise StatisticsError(
                f"{name} has {counted(length, 'values')} and {first} has {n}; "
                "expected one value per container in each"
            )
    return n


def array_of(key: str, value: Any, schema: pa.Schema, leaf: Leaf) -> Given:
    """Convert one statistic of one column to Arrow; a value that cannot be read becomes null.

    Args:
        key: The statistic, one of KEYS.
        value: Its values, as the user gave them.
        schema: The table's columns.
        leaf: The column.

    Returns:
        An array, or the original chunks of a chunked array.

    Raises:
        StatisticsError: `value` does not hold one value per container.
    """
    name = f"{show_path(leaf.path)}.{key}"
    value = check_one_per_container(name, value, nested=key == "values")
    try:
        return _array(key, value, schema, leaf)
    except CONVERSION_ERRORS as e:
        raise StatisticsError(f"{name} cannot be read ({describe_error(e)}); {EXPECTED}") from e


def _array(key: str, value: Any, schema: pa.Schema, leaf: Leaf) -> Given:
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value if key in PACKED else whole(value)
    if key in COUNTS:
        return counts_of(value)
    if key in ("min_exact", "max_exact"):
        return pa.array(value, pa.bool_())
    if key == "bloom":
        return pa.array(
            [bytes(v) if isinstance(v, bytes | bytearray | memoryview) else None for v in value],
            pa.large_binary(),
        )
    arrow = _arrow_type(schema, leaf.path)
    return (
        _lists(value, pa.list_(arrow)) if key == "values" else values_of(value, arrow, leaf.dtype)
    )


def check_one_per_container(name: str, value: Any, *, nested: bool = False) -> Any:
    """Check that values are one per container, and return them in a form that Arrow can convert.

    Args:
        name: The statistic, for errors.
        value: A list, a NumPy or Arrow array, a series.
        nested: True if each value may be an array itself.

    Returns:
        A list, or an array in host byte order.

    Raises:
        StatisticsError: `value` has another shape or type, or is corrupt.
    """
    if isinstance(value, pa.Array | pa.ChunkedArray):
        _check_dictionary(name, value)
        return value
    if isinstance(value, np.ndarray):
        if value.ndim != 1 and not (nested and value.ndim):
            raise StatisticsError(f"{name} has the shape {value.shape}; {EXPECTED}")
        if value.dtype.kind == "V":
            raise StatisticsError(f"{name} has the NumPy type {value.dtype}; {EXPECTED}")
        return value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    unordered = isinstance(value, str | bytes | Mapping | set | frozenset | pa.Table)
    if unordered or not isinstance(value, Iterable):
        raise StatisticsError(f"{name} is of the type {type(value).__name__}; {EXPECTED}")
    return value if isinstance(value, Sized) else list(value)


def _check_dictionary(name: str, value: Given) -> None:
    """Raise StatisticsError if an index of a dictionary array is out of bounds.

    Arrow does not check its indices, and would read memory outside the dictionary.
    """
    if not pa.types.is_dictionary(value.type):
        return
    for chunk in value.chunks if isinstance(value, pa.ChunkedArray) else [value]:
        limits = pc.min_max(chunk.indices).as_py()
        low, high = limits["min"], limits["max"]
        if low is not None and (low < 0 or high >= len(chunk.dictionary)):
            raise StatisticsError(
                f"{name} is a corrupt dictionary array: its indices are {low} to {high}, and its "
                f"dictionary has {len(chunk.dictionary)} values; {EXPECTED}"
            )


def _arrow_type(schema: pa.Schema, path: Path) -> pa.DataType:
    t = type_at(schema, path)
    while (
        pa.types.is_dictionary(t)
        or pa.types.is_run_end_encoded(t)
        or isinstance(t, pa.BaseExtensionType)
    ):
        t = t.storage_type if isinstance(t, pa.BaseExtensionType) else t.value_type
    return t


def row_count_of(value: Any) -> Given:
    """Convert the rows of each container to Arrow.

    Raises:
        StatisticsError: `value` does not hold one value per container.
    """
    value = check_one_per_container("row_count", value)
    try:
        return counts_of(value)
    except CONVERSION_ERRORS as e:
        raise StatisticsError(f"row_count cannot be read ({describe_error(e)}); {EXPECTED}") from e


def counts_of(value: Any) -> Given:
    """Convert counts to Arrow; the chunks of a chunked array stay as they are.

    A value that is not an integer of 64 bits becomes null, unknown.
    """
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        try:
            return pa.array(_frozen(value))
        except pa.ArrowNotImplementedError:  # complex and long double numbers are not counts
            return pa.nulls(len(value), pa.int64())
    whole = [
        v if isinstance(v, int | np.integer) and -(2**63) <= v < 2**63 else None for v in value
    ]
    return pa.array(whole, pa.int64())


def _frozen(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of a writable array, whose memory Arrow would share; else the array."""
    if not value.flags.writeable or value.dtype.kind not in "iufMm":
        return value
    if type(value) is not np.ndarray:  # such as a masked array
        return value.copy()
    out = np.empty(value.shape, value.dtype)

    def copy(first: int, stop: int) -> None:
        out[first:stop] = value[first:stop]

    pool.run_chunks(copy, len(value), COPY_CHUNK)
    return out


def _lists(value: Any, arrow: pa.DataType) -> pa.Array:
    """Convert lists; a list with a value that is not of the column's type becomes null."""
    # Given an integer type, pa.array turns 5.5 into 5; a cast refuses it.
    whole = pa.types.is_integer(arrow.value_type)

    def read(one: Any) -> list[Any] | None:
        try:
            items = list(one)
            pa.array(items, arrow.value_type)
            return None if whole and any(v is not None and int(v) != v for v in items) else items
        except CONVERSION_ERRORS:
            return None

    try:
        return pc.cast(pa.array(value), arrow) if whole else pa.array(value, arrow)
    except CONVERSION_ERRORS:
        return pa.array(list(map(read, value)), arrow)


def values_of(value: Any, arrow: pa.DataType, dtype: DType) -> pa.Array:
    """Convert values to a column's type; a value of another type becomes null, unknown."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        try:
            return pa.array(_frozen(_in_arrow_units(value)))
        except pa.ArrowNotImplementedError:  # long double and complex numbers, picoseconds
            return pa.nulls(len(value), arrow)
    try:
        return python_array(value, arrow) if isinstance(value, list) else pa.array(value, arrow)
    except CONVERSION_ERRORS:
        return pa.array([_value_or_none(v, arrow, dtype) for v in value], arrow)


def _in_arrow_units(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert times to a unit that Arrow has; return other arrays unchanged.

    pyarrow 26 refuses hours, and reads a unit of 25 seconds as one second.
    """
    if value.dtype.kind not in "mM":
        return value
    unit, step = np.datetime_data(value.dtype)
    plain = "s" if unit in UNITS_WITHOUT_ARROW else unit
    if (plain, 1) == (unit, step) or unit == "generic":
        return value
    to = np.dtype(f"{value.dtype.kind}8[{plain}]")
    try:
        return _converted(value, to)
    except OverflowError:  # since NumPy 2.5
        return np.concatenate([_time_or_nat(v, to) for v in value[:, None]])


def _converted(value: npt.NDArray[Any], to: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert times to another unit. A time that overflowed is unknown."""
    converted = value.astype(to)
    converted[converted.astype(value.dtype) != value] = np.array("NaT", to)
    return converted


def _time_or_nat(value: npt.NDArray[Any], to: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        return _converted(value, to)
    except OverflowError:
        return np.full(value.shape, np.array("NaT", to))


def _value_or_none(v: Any, arrow: pa.DataType, dtype: DType) -> Any:
    """Return a value of the column's type; None, an unknown bound, if `v` is not one."""
    try:
        found = pa.scalar(v, arrow)
        # Python's time of day lacks nanoseconds.
        return found.value if isinstance(found, pa.Time64Scalar) else found.as_py()
    except CONVERSION_ERRORS:
        pass
    try:
        axis: Any = to_axis(v, dtype)
        fits = dtype.highest is None or dtype.lowest <= axis <= dtype.highest
        return to_python(axis, dtype) if fits else None
    except (ValueError, TypeError, OverflowError):
        return None
