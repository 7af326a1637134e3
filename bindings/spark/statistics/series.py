"""Turn pandas Series of statistics into Arrow arrays.

PySpark passes NumPy-backed Series to a UDF. A bigint with a null arrives as float64, so its values
may be rounded. A TIMESTAMP arrives as the wall clock of the session's time zone, which a worker
does not learn reliably. Such losses are rounded outwards, or the value becomes unknown.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skipstone.ir import compute as pc
from skipstone.ir.types import DType, Kind

if TYPE_CHECKING:
    import pandas as pd

    from skipstone.bindings.spark.statistics.needed import Statistic

EXACT: Final = 2.0**53  # below it, a float64 stands for exactly one integer
EXACT32: Final = 2.0**24  # the same for a float32
INT64_END: Final = 2.0**63
MAX_ZONE_OFFSET: Final = 18 * 3600  # seconds; Java's zones lie within 18 hours of UTC
REFUSED: Final = (
    pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError,
    TypeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Carrier:
    """The form in which one statistic travels to a worker.

    Attributes:
        split: True for two Series, the value with nulls filled and a null flag; False for one.
        means: What the numbers or bytes stand for: days, microseconds, UTF-8. None: themselves.
    """

    split: bool = False
    means: pa.DataType | None = None


def read(
    statistic: Statistic, carrier: Carrier, series: pd.Series, was_null: pd.Series | None = None
) -> pa.Array | None:
    """Convert one statistic of a batch to an Arrow array that bounds or counts at least as loosely.

    Args:
        statistic: The statistic in the Series.
        carrier: The form in which it travelled.
        series: n values; null, NaN and NaT are unknown.
        was_null: n flags, if it travelled split.

    Returns:
        Array of length n, or None if nothing is known. Values that cannot be read are unknown; they
        never raise an error.
    """
    try:
        array = _converted(statistic, carrier, series, was_null)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if array is None or carrier.means is None or array.type == carrier.means:
            return array
        return _reinterpret(carrier.means, array)
    except REFUSED:
        return None


def _converted(
    statistic: Statistic, carrier: Carrier, series: pd.Series, was_null: pd.Series | None
) -> Any:
    """Convert a statistic to an Arrow array of the type in which it travelled."""
    if was_null is not None:
        return pa.array(series.to_numpy(), mask=was_null.to_numpy())
    if statistic.is_count:
        return _counts(series)
    if statistic.kind == "bloom":
        return pa.array(series, pa.large_binary(), from_pandas=True)
    if carrier.means is None:
        return _bounds(series, statistic.dtype, statistic.kind)
    if pa.types.is_list(carrier.means):
        return _lists(series, carrier.means)
    if _is_number(series):
        return _numbers(series, statistic.kind)
    return pa.array(series, pa.large_binary(), from_pandas=True)


def _reinterpret(means: pa.DataType, array: pa.Array) -> pa.Array:
    """View numbers or bytes as the type that they stand for."""
    if pa.types.is_date32(means):
        return array.cast(pa.int32()).view(means)
    return array.cast(pa.int64()).view(means) if pa.types.is_timestamp(means) else array.view(means)


def _lists(series: pd.Series, means: pa.ListType) -> pa.Array:
    """Convert lists without nulls, whose elements are numbers or bytes that stand for others."""
    sent = {pa.date32(): pa.int32(), pa.large_string(): pa.large_binary()}.get(
        means.value_type, means.value_type
    )
    sent = pa.int64() if pa.types.is_timestamp(sent) else sent
    found = pa.array([None if v is None else list(v) for v in series], pa.list_(sent))
    return found.cast(means)


def _kind(series: pd.Series) -> str:
    """Return NumPy's letter of a dtype, or "O" for pandas' own dtypes."""
    return str(getattr(series.dtype, "kind", "O"))


def _is_number(series: pd.Series) -> bool:
    return _kind(series) in "iuf"


def _counts(series: pd.Series) -> pa.Array | None:
    """Convert counts. A float that stands for several integers is unknown."""
    if _kind(series) != "f":
        return _integers(series)
    values = series.to_numpy()
    with np.errstate(invalid="ignore"):
        known = (np.abs(values) < (EXACT if values.dtype == np.float64 else EXACT32)) & (
            values == np.floor(values)
        )
    return pa.array(np.where(known, values, 0).astype(np.int64), mask=~known)


def _integers(series: pd.Series) -> pa.Array | None:
    array = pa.array(series, from_pandas=True)
    if pa.types.is_null(array.type):
        return None
    if pa.types.is_decimal(array.type) or (
        _kind(series) == "O" and not pa.types.is_integer(array.type)
    ):
        return pa.array(
            [
                int(v) if isinstance(v, int | decimal.Decimal) and v == v // 1 else None
                for v in series.tolist()
            ],
            pa.int64(),
        )
    return array if pa.types.is_integer(array.type) else None


def _numbers(series: pd.Series, side: str) -> pa.Array:
    """Convert integers, or floats that were integers."""
    if _kind(series) != "f":
        return pa.array(series, from_pandas=True)
    values = series.to_numpy()
    if values.dtype != np.float64:
        return pa.array(
            np.where(np.isfinite(values), values, 0).astype(np.int64),
            mask=~(np.abs(values) < EXACT32),
        )
    return outwards(values, side)


def outwards(values: npt.NDArray[np.float64], side: str) -> pa.Array:
    """Return the outermost int64 that each float may have been before it was rounded.

    Args:
        values: Shape (n,), int64 bounds that became floats. NaN, fractions and values that no int64
            rounds to are unknown.
        side: "min" for the least such integer, "max" for the greatest.

    Returns:
        int64 array of length n.

    Example:
        >>> outwards(np.array([2.0**53, 5.0, np.nan]), "max").to_pylist()
        [9007199254740993, 5, None]
    """
    with np.errstate(invalid="ignore"):
        known = (np.abs(values) <= INT64_END) & (values == np.floor(values))
    safe = np.where(known, values, 0.0)
    # 2^63 is one more than the greatest int64, which rounds to it.
    top = safe == INT64_END
    middle = np.where(top, np.iinfo(np.int64).max, np.where(top, 0.0, safe).astype(np.int64))
    low = side == "min"
    half = (np.abs(safe - np.nextafter(safe, -np.inf if low else np.inf)) / 2).astype(np.int64)
    if low:
        ends = np.where(safe == -INT64_END, middle, middle - half + top)
        ends += ends.astype(np.float64) != safe
    else:
        ends = np.where(top, middle, middle + half)
        ends -= ends.astype(np.float64) != safe
    return pa.array(ends, mask=~known)


def _bounds(series: pd.Series, dtype: DType, side: str) -> pa.Array | None:
    """Convert bounds of a column; None if they cannot bound it."""
    number = _is_number(series)
    match dtype.kind:
        case Kind.INT | Kind.UINT:
            return _numbers(series, side) if number else _integers(series)
        case Kind.FLOAT:
            return pa.array(series, from_pandas=True) if number else None
        case Kind.DECIMAL if _kind(series) != "f":
            # A double may have been a bigint; neither bounds a decimal.
            return pa.array(series, from_pandas=True)
        case Kind.TIMESTAMP if _kind(series) == "M":
            return _timestamps(series, dtype, side)
        case Kind.BOOL if not number:
            return pa.array(series, pa.bool_(), from_pandas=True)
        case Kind.DATE if _kind(series) == "O":
            return pa.array(series, pa.date32(), from_pandas=True)
        case Kind.STRING if not number:
            return pa.array(series, pa.large_string(), from_pandas=True)
        case Kind.BINARY if not number:
            return pa.array(series, pa.large_binary(), from_pandas=True)
    return None


def _timestamps(series: pd.Series, dtype: DType, side: str) -> pa.Array:
    """Convert wall clocks. If they stand for instants, move them by the largest zone offset."""
    array = pa.array(series, from_pandas=True)
    if array.type.tz is not None or not dtype.zoned:
        return array
    ticks = array.view(pa.int64())
    step = MAX_ZONE_OFFSET * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    return pc.call_function(
        "subtract_checked" if side == "min" else "add_checked", [ticks, pa.scalar(step)]
    ).view(pa.timestamp(array.type.unit, "UTC"))
