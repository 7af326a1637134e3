"""Statistics from arrays that other libraries hold on a device (`Statistics.from_device`)."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skipstone.bindings.statistics.coerce_inputs import KEYS, leaf_named
from skipstone.ir.errors import StatisticsError
from skipstone.ir.node import Path
from skipstone.ir.types import DType, leaves_of
from skipstone.kernels.pack.columns import Column, ColumnStatistics
from skipstone.kernels.run.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.kernels.gpu.device import Device
    from skipstone.kernels.gpu.device_arrays import ExternalArray
    from skipstone.kernels.gpu.resident import Resident


class DeviceBounds(Mapping[Path, ColumnStatistics]):
    """Statistics by column; some bounds are on a device.

    Reading a column as `ColumnStatistics` downloads its bounds once.

    Args:
        raws: The statistics in host memory; a bound that is on the device is null here.
        external: By column, the bounds on the device: "min", "max" or both.
        resident: The device.
    """

    def __init__(
        self,
        raws: Mapping[Path, ColumnStatistics],
        external: Mapping[Path, Mapping[str, ExternalArray]],
        resident: Resident,
    ) -> None:
        self._raws, self._external, self._resident = raws, external, resident
        self._read: BoundedCache[Path, ColumnStatistics] = BoundedCache()
        self._columns: BoundedCache[tuple[Path, DType], Column] = BoundedCache()
        weakref.finalize(self, _drop_columns, self._columns, resident).atexit = False

    def __getitem__(self, path: Path) -> ColumnStatistics:
        raw = self._raws[path]
        return self._read.get(
            path,
            lambda: replace(
                raw,
                **{
                    key: f.to_arrow(self._resident.device)
                    for key, f in self._external.get(path, {}).items()
                },
            ),
        )

    def __iter__(self) -> Iterator[Path]:
        return iter(self._raws)

    def __len__(self) -> int:
        return len(self._raws)

    def usable_in_place(self, path: Path, dtype: DType) -> bool:
        """Return True if kernels can read a column's bounds on the device as `dtype`, uncopied."""
        bounds = self._external.get(path, {})
        raw = self._raws.get(path)
        # The device checks only its own bounds: with one bound on the host, an inverted pair would
        # go unnoticed.
        mixed = raw is not None and any(
            a is not None and not pa.types.is_null(a.type) for a in (raw.min, raw.max)
        )
        return bool(bounds) and not mixed and all(f.n and f.suits(dtype) for f in bounds.values())

    def column(self, path: Path, dtype: DType, planes: Column) -> Column:
        """Return a column with the bounds on the device and the flags of `planes`."""
        from skipstone.kernels.gpu.device_bounds import bounds_on_device

        def make() -> Column:
            bounds = self._external[path]
            low, high = bounds_on_device(
                self._resident.device, dtype, bounds.get("min"), bounds.get("max")
            )
            return replace(planes, numpy_type=dtype.numpy_type, low=low, high=high)

        return self._columns.get((path, dtype), make)

    def counts(self, path: Path) -> ColumnStatistics:
        """Return the statistics of a column without its bounds."""
        return replace(self._raws[path], min=None, max=None)

    def to_host(self) -> dict[Path, ColumnStatistics]:
        """Return all statistics in host memory."""
        return {path: self[path] for path in self}

    @property
    def nbytes(self) -> int:
        """Bytes of bounds in device memory, repaired copies included."""
        own = sum(
            f.n * np.dtype(f.numpy_type).itemsize
            for bounds in self._external.values()
            for f in bounds.values()
            if f.numpy_type is not None
        )
        given = {f.data[0] for bounds in self._external.values() for f in bounds.values()}
        bounds: list[Any] = [b for c in self._columns for b in (c.low, c.high) if b is not None]
        return int(
            own
            + sum(b.nbytes for b in bounds if b.__cuda_array_interface__["data"][0] not in given)
        )

    def release(self) -> None:
        """Free repaired copies once no kernel reads them; they are recreated when needed."""
        _drop_columns(self._columns, self._resident)


def _drop_columns(columns: BoundedCache[tuple[Path, DType], Column], resident: Resident) -> None:
    if len(columns):
        resident.settle()
    columns.clear()


def from_device(
    columns: Any, schema: pa.Schema, row_count: Any, device: int | Device | None
) -> Statistics:
    """Implement `Statistics.from_device`."""
    from skipstone.bindings.statistics.device import device_of
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.kernels.gpu.resident import Resident

    resident = Resident(device_of(device))
    on = resident.device
    on.settle()  # other streams may still be writing the arrays
    given, frame_rows = _by_column(columns)
    leaves = leaves_of(schema)
    external: dict[Path, dict[str, ExternalArray]] = {}
    on_host: dict[str, dict[str, Any]] = {}
    for name, statistics in given.items():
        for key, value in statistics.items():
            array = _external_array(value, f"{name}.{key}", on)
            if array is None:
                host = (
                    value.to_arrow()
                    if hasattr(value, "to_arrow")
                    and not isinstance(value, pa.Array | pa.ChunkedArray)
                    else value
                )
            elif key in ("min", "max"):
                array.check_device(on)
                external.setdefault(leaf_named(name, leaves).path, {})[key] = array
                host = pa.nulls(array.n)
            else:
                host = array.to_arrow(on)
            on_host.setdefault(name, {})[key] = host
    rows = frame_rows if row_count is None else row_count
    device_rows = _external_array(rows, "row_count", on)
    stats = Statistics.from_dict(
        on_host, schema, rows if device_rows is None else device_rows.to_arrow(on)
    )
    raws = {path: stats.raw(path) for path in stats.leaf_paths()}
    return stats.with_bounds(DeviceBounds(raws, external, resident), resident)


def _external_array(value: Any, name: str, device: Device) -> ExternalArray | None:
    """Return an array that is on the device; None for any other value."""
    from skipstone.kernels.gpu.device_arrays import (
        ExternalArray,
        external_array_of,
        is_device_array,
    )

    if isinstance(value, ExternalArray):
        return value
    if is_device_array(value):
        return external_array_of(value, name, device)
    return None


def _by_column(given: Any) -> tuple[dict[str, dict[str, Any]], Any]:
    """Return statistics by column and key, and the row counts of a frame.

    Raises:
        StatisticsError: `given` is neither a mapping nor a frame, or the frame has no statistics.
    """
    if isinstance(given, Mapping):
        return {name: dict(statistics) for name, statistics in given.items()}, None
    if isinstance(given, pa.Table | pa.RecordBatch):
        frame: Mapping[str, Any] = {name: given.column(name) for name in given.column_names}
    elif hasattr(given, "__arrow_c_device_array__"):
        from skipstone.kernels.gpu.device_arrays import all_of_arrow

        frame = all_of_arrow(given)
    elif hasattr(given, "columns") and hasattr(given, "__getitem__"):
        frame = {name: given[name] for name in given.columns}
    else:
        raise StatisticsError(
            f"from_device was given a {type(given).__name__}; expected a mapping of columns, "
            "a cuDF frame, or an Arrow record batch of the device"
        )
    out: dict[str, dict[str, Any]] = {}
    for name, value in frame.items():
        column, dot, key = str(name).rpartition(".")
        if dot and key in KEYS:
            out.setdefault(column, {})[key] = value
    rows = frame.get("row_count")
    if not out and rows is None:
        raise StatisticsError(
            f"the frame has columns {', '.join(map(str, frame)) or 'none'}; "
            "expected names such as 'x.min', or 'row_count'"
        )
    return out, rows
