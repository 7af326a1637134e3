"""What people give as statistics: lists, NumPy and Arrow arrays, by column name, as Arrow arrays of one length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skipstone.ir.errors import StatisticsError, unknown_column
from skipstone.ir.node import Path, show_path
from skipstone.ir.types import DType, Leaf, to_axis, to_python, whole
from skipstone.kernels.pack.bounds import Given

MOST_ROWS: Final = 1 << 48  # that no file has; sums of more would not be numbers of 64 bits
COUNTS: Final = ("null_count", "row_count", "nan_count")
PACKED: Final = ("min", "max", *COUNTS)
KEYS: Final = (*PACKED, "min_exact", "max_exact", "values", "bloom")
COARSE: Final = ("Y", "M", "W", "h", "m")  # units of NumPy's that Arrow lacks
EXPECTED: Final = "expected a list, NumPy or Arrow array of one value per container"
REFUSED: Final = (
    pa.ArrowException,
    OverflowError,
    ValueError,
    TypeError,
)  # how Arrow refuses a value


def leaf_named(name: str, leaves: Mapping[Path, Leaf], by: str = "a statistic") -> Leaf:
    """Return the column of a dotted name; `by` is what named it, for errors.

    Raises:
        UnknownColumn: the schema lacks it.
    """
    for path in (split_name(name), (name,)):
        if path in leaves:
            return leaves[path]
    raise unknown_column(name, map(show_path, leaves), by)


def split_name(name: str) -> Path:
    """A dotted name as a path; backticks keep a part whole, and two of them within such a part stand for one."""
    parts, quoted, previous = [""], False, ""
    for ch in name:
        previous, before = ch, previous
        if ch == "`":
            quoted = not quoted
            parts[-1] += "`" if quoted and before == "`" else ""
        elif ch == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += ch
    return tuple(parts)


def common_length(lengths: dict[str, int]) -> int:
    """The one length that all statistics, by name, have.

    Raises:
        StatisticsError: there are none, or they differ.
    """
    if not lengths:
        raise StatisticsError(
            "no statistics were given, so the number of containers is not known; give row_count=[None] * n at least"
        )
    (first, n), *rest = lengths.items()
    for name, length in rest:
        if length != n:
            raise StatisticsError(
                f"{name} has {length} values and {first} has {n}; expected one value per container in each"
            )
    return n


def array_of(key: str, value: Any, schema: pa.Schema, leaf: Leaf) -> Given:
    """Return one statistic of one column, its chunks as they came; what cannot be read is null, unknown.

    Raises:
        StatisticsError: it is no array of one value per container.
    """
    name = f"{show_path(leaf.path)}.{key}"
    value = one_each(name, value, nested=key == "values")
    try:
        return _array(key, value, schema, leaf)
    except REFUSED as e:
        raise StatisticsError(f"{name} cannot be read ({_first_line(e)}); {EXPECTED}") from e


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


def one_each(name: str, value: Any, *, nested: bool = False) -> Any:
    """Return values, one per container, as Arrow can take them: a list, or an array in host order.

    Args:
        name: Of the statistic, for errors.
        value: A list, a NumPy or Arrow array, a series.
        nested: Whether each value may be an array itself.

    Raises:
        StatisticsError: it has another shape, or is corrupt.
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
    """Raise if an index of a dictionary array is out of bounds: Arrow does not check, and reads elsewhere."""
    if not pa.types.is_dictionary(value.type):
        return
    for chunk in value.chunks if isinstance(value, pa.ChunkedArray) else [value]:
        found = pc.min_max(chunk.indices).as_py()
        least, most = found["min"], found["max"]
        if least is not None and (least < 0 or most >= len(chunk.dictionary)):
            raise StatisticsError(
                f"{name} is a corrupt dictionary array: its indices are {least} to {most}, and its "
                f"dictionary has {len(chunk.dictionary)} values; {EXPECTED}"
            )


def _first_line(e: Exception) -> str:
    return next(iter(str(e).splitlines()), type(e).__name__)


def _arrow_type(schema: pa.Schema, path: Path) -> pa.DataType:
    t = schema.field(path[0]).type
    for name in path[1:]:
        t = t.field(name).type
    while (
        pa.types.is_dictionary(t)
        or pa.types.is_run_end_encoded(t)
        or isinstance(t, pa.BaseExtensionType)
    ):
        t = t.storage_type if isinstance(t, pa.BaseExtensionType) else t.value_type
    return t


def row_count_of(value: Any) -> Given:
    """Return the rows of each container.

    Raises:
        StatisticsError: it is no array of one value per container.
    """
    value = one_each("row_count", value)
    try:
        return counts_of(value)
    except REFUSED as e:
        raise StatisticsError(f"row_count cannot be read ({_first_line(e)}); {EXPECTED}") from e


def counts_of(value: Any) -> Given:
    """Return counts, their chunks as they came; what is not a whole number of 64 bits is unknown."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        try:
            return pa.array(kept(value))
        except pa.ArrowNotImplementedError:  # complex and long double numbers count nothing
            return pa.nulls(len(value), pa.int64())
    whole = [
        v if isinstance(v, int | np.integer) and -(2**63) <= v < 2**63 else None for v in value
    ]
    return pa.array(whole, pa.int64())


def kept(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array that nobody changes: a copy, unless it is read-only. Arrow would share its
    memory.
    """
    return value.copy() if value.flags.writeable and value.dtype.kind in "iufMm" else value


def _lists(value: Any, arrow: pa.DataType) -> pa.Array:
    """Lists of values; one with a value that is none of the column's type is unknown."""
    # Told the type at once, Arrow takes 5.5 for the integer 5; a cast refuses it.
    whole = pa.types.is_integer(arrow.value_type)

    def read(one: Any) -> list[Any] | None:
        try:
            items = list(one)
            pa.array(items, arrow.value_type)
            return None if whole and any(v is not None and int(v) != v for v in items) else items
        except REFUSED:
            return None

    try:
        return pa.array(value).cast(arrow) if whole else pa.array(value, arrow)
    except REFUSED:
        return pa.array(list(map(read, value)), arrow)


def values_of(value: Any, arrow: pa.DataType, dtype: DType) -> pa.Array:
    """Values of a column's type; others are unknown."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        try:
            return pa.array(kept(_in_arrow_units(value)))
        except pa.ArrowNotImplementedError:  # long double and complex numbers, picoseconds
            return pa.nulls(len(value), arrow)
    try:
        return pa.array(value, arrow)
    except REFUSED:
        return pa.array([_fitting(v, arrow, dtype) for v in value], arrow)


def _in_arrow_units(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return times in units of Arrow; other arrays as they are.

    Arrow (26) refuses hours, and takes a unit of 25 seconds for one second.
    """
    if value.dtype.kind not in "mM":
        return value
    unit, step = np.datetime_data(value.dtype)
    plain = "s" if unit in COARSE else unit
    if (plain, 1) == (unit, step) or unit == "generic":
        return value
    found = value.astype(f"{value.dtype.kind}8[{plain}]")
    # What overflowed is unknown.
    found[found.astype(value.dtype) != value] = np.array("NaT", found.dtype)
    return found


def _fitting(v: Any, arrow: pa.DataType, dtype: DType) -> Any:
    """A value that is one of the column's type, or None: such a bound is unknown."""
    try:
        return pa.scalar(v, arrow).as_py()
    except REFUSED:
        pass
    try:
        axis = to_axis(v, dtype)
        fits = dtype.highest is None or dtype.lowest <= axis <= dtype.highest  # type: ignore[operator]
        return to_python(axis, dtype) if fits else None
    except (ValueError, TypeError, OverflowError):
        return None
