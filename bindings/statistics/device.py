"""The part of `Statistics` that concerns devices: upload, launches there, release."""

from __future__ import annotations

import functools
import weakref
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skipstone.bindings.statistics.from_device import DeviceBounds
from skipstone.ir.errors import BackendMissing, DeviceError, SkipstoneError
from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Path
from skipstone.ir.types import DType
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import Column, ColumnStatistics, may_contradict
from skipstone.kernels.pack.packed import PREPARED, Packed
from skipstone.kernels.run.bounded_cache import BoundedCache
from skipstone.kernels.run.launch import Key, Launch
from skipstone.kernels.run.prepare import prepare

if TYPE_CHECKING:
    from skipstone.kernels.gpu.device import Device
    from skipstone.kernels.gpu.resident import Resident
    from skipstone.kernels.index.index import Index


def device_of(device: int | Device | None) -> Device:
    """Return the device that a caller names.

    Args:
        device: Its number, as CUDA counts them; a device; None means CuPy's current device.

    Raises:
        SkipstoneError: `device` is none of these.
        BackendMissing: CuPy, a driver or the device is missing.
        DeviceError: the device cannot be used.
    """
    if device is None or isinstance(device, int):
        from skipstone.kernels.gpu import cupy_gpu

        return cupy_gpu.device(device)
    if not hasattr(device, "upload"):
        raise SkipstoneError(
            f"device is {device!r}; expected its number, as CUDA counts them, or None"
        )
    return device


class DeviceSupport(Packed):
    """Statistics in host memory or on a device, which has copies or the given bounds themselves."""

    _raw: Mapping[Path, ColumnStatistics]
    _index: Index | None
    _resident: Resident | None = None

    @abstractmethod
    def _given_rows(self) -> Given | None:
        """Return the rows of each container as given; None if no row counts were given."""

    @abstractmethod
    def packed(self, path: Path, dtype: DType, raw: ColumnStatistics) -> Column:
        """Pack `raw`, statistics of a column as given, with bounds read as `dtype`."""

    def shallow_copy(self) -> Self:
        """Return new statistics that share all members with these."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        return out

    def to_device(self, device: int | Device | None = None) -> Self:
        """Return the same statistics on a GPU; uploaded columns stay there between predicates.

        Every function that takes statistics takes these. A column is uploaded when a predicate
        first reads it, and so are levels, codes and key sets; `device_nbytes` counts their bytes.
        Statistics of calls (`a + b`) are computed on the host and uploaded.

        "auto" runs on the device from some 130,000 containers on, once the kernel for a predicate's
        shape is compiled. If the device fails (out of memory, or lost), "auto" continues on the CPU
        and warns once. `backend="cupy"` always runs on the device, and raises if it fails.

        Pickles and copies are statistics in host memory. CUDA does not survive a fork: a forked
        child cannot use these statistics on the device.

        Args:
            device: The device's number, as CUDA counts them; None means CuPy's current device.

        Returns:
            New statistics, which share arrays in host memory with these. Device arrays come from
            CuPy's current memory pool; kernels run on CuPy's current stream.

        Raises:
            BackendMissing: CuPy, a driver or the device is missing.
            DeviceError: the device cannot be used.

        Example:
            >>> on_gpu = stats.to_device()  # doctest: +SKIP
            >>> PruningPredicate("x > 5", schema).survivors(on_gpu, out="device")  # doctest: +SKIP
            array([3, 17, 20])
        """
        if self._resident is not None and device is None:
            return self
        from skipstone.kernels.gpu.resident import Resident

        resident = Resident(device_of(device))
        out = self.shallow_copy()
        if isinstance(self._raw, DeviceBounds):
            out._raw = self._raw.to_host()
        return out.place_on(resident)

    def with_bounds(self, bounds: DeviceBounds, resident: Resident) -> Self:
        """Return the same statistics with bounds that are on a device."""
        out = self.shallow_copy()
        Packed.__init__(out)
        out._raw = bounds
        return out.place_on(resident)

    def place_on(self, resident: Resident) -> Self:
        """Move these statistics to a device, and return them."""
        self._resident = resident
        self._forget_launches()
        self._host_launches: BoundedCache[Program, Launch] = BoundedCache(PREPARED)
        if self._index is not None:
            self._index = replace(self._index, resident=resident)
        return self

    @property
    def device(self) -> str | None:
        """The name of the device that holds these statistics; None if they are in host memory."""
        return None if self._resident is None else self._resident.name

    @property
    def device_nbytes(self) -> int:
        """Bytes in device memory, including arrays given to `from_device`; without results."""
        own = 0 if self._resident is None else self._resident.nbytes
        return own + (self._raw.nbytes if isinstance(self._raw, DeviceBounds) else 0)

    def release(self) -> None:
        """Free the device memory of these statistics; arrays given to `from_device` stay.

        The statistics remain usable: predicates upload again what they read. A device that failed
        before is tried again.
        """
        if self._resident is not None:
            self._forget_launches()
            if isinstance(self._raw, DeviceBounds):
                self._raw.release()
            self._resident.release()

    def prepared(self, program: Program) -> Launch:
        """Prepare a program's launch, with bounds on the device if they are there."""
        if self._resident is None:
            return super().prepared(program)
        try:
            launch = prepare(program, self, self._peek_on_device)
        except (
            BackendMissing,
            DeviceError,
        ) as e:  # the device could not check bounds that it holds
            launch = prepare(program, self, self.peek)
            launch.failed = e
        launch.resident = self._resident
        if not all(isinstance(a, np.ndarray) for a in launch.arrays):
            # These statistics hold the launch. With a strong reference back, device memory would be
            # freed only by the garbage collector.
            launch.host_twin = functools.partial(_host_launch, weakref.ref(self), program)
        return launch

    def _peek_on_device(self, key: Key, dtype: DType) -> Column:
        """Return a column with its bounds on the device; in host memory if that is impossible."""
        if (
            isinstance(key, Node)
            or not isinstance(self._raw, DeviceBounds)
            or not self._raw.usable_in_place(key, dtype)
        ):
            return self.peek(key, dtype)
        counts = self._raw.counts(key)
        if may_contradict(counts, dtype, self._given_rows(), self.num_containers):
            return self.peek(key, dtype)  # the host compares counts with bounds
        return self._raw.column(key, dtype, self.packed(key, dtype, counts))

    def host_launch(self, program: Program) -> Launch:
        """Return the program's launch in host memory, even if its arrays are on a device."""
        return self._host_launches.get(program, lambda: prepare(program, self, self.peek))

    def __getstate__(self) -> dict[str, Any]:
        on_host = {"_raw": self._raw.to_host()} if isinstance(self._raw, DeviceBounds) else {}
        return {
            k: v
            for k, v in {**super().__getstate__(), **on_host}.items()
            if k not in ("_resident", "_host_launches")
        }


def _host_launch(stats: weakref.ref[DeviceSupport], program: Program) -> Launch:
    owner = stats()
    assert owner is not None
    return owner.host_launch(program)
