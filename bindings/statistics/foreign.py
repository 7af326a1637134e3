"""Statistics that other libraries keep on a device."""

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
from skipstone.kernels.gpu.device import Device
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.pack.columns import Column, Raw
from skipstone.kernels.run.lru_cache import Kept

if TYPE_CHECKING:
    from skipstone.bindings.statistics.statistics import Statistics
    from skipstone.kernels.gpu.device_arrays import Foreign


class ForeignBounds(Mapping[Path, Raw]):
    """Statistics as they came, of which some bounds lie on a device. Read as `Raw` these are downloaded, once.

    Args:
        raws: The others; a bound that lies there is null.
        foreign: By column its "min", its "max", or both.
        resident: Where they lie.
    """

    def __init__(
        self,
        raws: Mapping[Path, Raw],
        foreign: Mapping[Path, Mapping[str, Foreign]],
        resident: Resident,
    ) -> None:
        self._raws, self._foreign, self._resident = raws, foreign, resident
        self._read: Kept[Path, Raw] = Kept()
        self._columns: Kept[tuple[Path, DType], Column] = Kept()
        weakref.finalize(self, _drop, self._columns, resident).atexit = False

    def __getitem__(self, path: Path) -> Raw:
        raw = self._raws[path]
        return self._read.get(
            path,
            lambda: replace(
                raw,
                **{
                    key: f.to_arrow(self._resident.device)
                    for key, f in self._foreign.get(path, {}).items()
                },
            ),
        )

    def __iter__(self) -> Iterator[Path]:
        return iter(self._raws)

    def __len__(self) -> int:
        return len(self._raws)

    def there(self, path: Path, dtype: DType) -> bool:
        """Whether the bounds of a column can be judged as they lie."""
        found = self._foreign.get(path, {})
        raw = self._raws.get(path)
        # A bound that is on the host alone would be inverted unnoticed.
        mixed = raw is not None and any(
            a is not None and not pa.types.is_null(a.type) for a in (raw.min, raw.max)
        )
        return bool(found) and not mixed and all(f.n and f.suits(dtype) for f in found.values())

    def column(self, path: Path, dtype: DType, planes: Column) -> Column:
        """A column whose bounds lie on the device, with the planes of one that has none."""
        from skipstone.kernels.gpu.device_bounds import lanes_there

        def made() -> Column:
            found = self._foreign[path]
            low, high = lanes_there(
                self._resident.device, dtype, found.get("min"), found.get("max")
            )
            return replace(planes, lane=dtype.lane, low=low, high=high)

        return self._columns.get((path, dtype), made)

    def counts(self, path: Path) -> Raw:
        """All but the bounds."""
        return replace(self._raws[path], min=None, max=None)

    def here(self) -> dict[Path, Raw]:
        """All of them, in host memory."""
        return {path: self[path] for path in self}

    @property
    def nbytes(self) -> int:
        """Bytes of bounds that the device holds, mended ones included."""
        own = sum(
            f.n * np.dtype(f.told).itemsize
            for found in self._foreign.values()
            for f in found.values()
            if f.told is not None
        )
        given = {f.data[0] for found in self._foreign.values() for f in found.values()}
        lanes: list[Any] = [b for c in self._columns for b in (c.low, c.high) if b is not None]
        return int(
            own + sum(b.nbytes for b in lanes if b.__cuda_array_interface__["data"][0] not in given)
        )

    def release(self) -> None:
        """Drop what was mended, once nothing reads it; it is made again where it is asked for."""
        _drop(self._columns, self._resident)


def _drop(columns: Kept[tuple[Path, DType], Column], resident: Resident) -> None:
    if len(columns):
        resident.settle()
    columns.clear()


def from_device(
    columns: Any, schema: pa.Schema, row_count: Any, device: int | Device | None
) -> Statistics:
    """What `Statistics.from_device` makes."""
    from skipstone.bindings.statistics.device import device_of
    from skipstone.bindings.statistics.statistics import Statistics

    on = Resident(device_of(device))
    there = on.device
    there.settle()  # whoever made the arrays may still be writing them, on a stream of its own
    given, frame_rows = _by_column(columns)
    leaves = leaves_of(schema)
    foreign: dict[Path, dict[str, Foreign]] = {}
    here: dict[str, dict[str, Any]] = {}
    for name, statistics in given.items():
        for key, value in statistics.items():
            one = _foreign(value, f"{name}.{key}", there)
            if one is None:
                kept = (
                    value.to_arrow()
                    if hasattr(value, "to_arrow")
                    and not isinstance(value, pa.Array | pa.ChunkedArray)
                    else value
                )
            elif key in ("min", "max"):
                one.look(there)
                foreign.setdefault(leaf_named(name, leaves).path, {})[key] = one
                kept = pa.nulls(one.n)
            else:
                kept = one.to_arrow(there)
            here.setdefault(name, {})[key] = kept
    rows = frame_rows if row_count is None else row_count
    counted = _foreign(rows, "row_count", there)
    made = Statistics.from_dict(here, schema, rows if counted is None else counted.to_arrow(there))
    return made.with_bounds(
        ForeignBounds({path: made.raw(path) for path in made.leaf_paths()}, foreign, on), on
    )


def _foreign(value: Any, name: str, device: Device) -> Foreign | None:
    from skipstone.kernels.gpu.device_arrays import Foreign, foreign_of, lies_there

    return (
        value
        if isinstance(value, Foreign)
        else foreign_of(value, name, device)
        if lies_there(value)
        else None
    )


def _by_column(given: Any) -> tuple[dict[str, dict[str, Any]], Any]:
    """Statistics by column and name, and the row counts of a frame."""
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
            f"from_device was given a {type(given).__name__}; expected a mapping of columns, a cuDF frame, or an Arrow record batch of the device"
        )
    out: dict[str, dict[str, Any]] = {}
    for name, value in frame.items():
        column, dot, key = str(name).rpartition(".")
        if dot and key in KEYS:
            out.setdefault(column, {})[key] = value
    rows = frame.get("row_count")
    if not out and rows is None:
        raise StatisticsError(
            f"the frame has columns {', '.join(map(str, frame)) or 'none'}; expected names such as 'x.min', or 'row_count'"
        )
    return out, rows
