"""Statistics that may live on a device: what `Statistics` can do of that."""

from __future__ import annotations

import functools
import weakref
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from skipstone.bindings.statistics.foreign import ForeignBounds
from skipstone.ir.errors import BackendMissing, DeviceError, SkipstoneError
from skipstone.ir.lower import Program
from skipstone.ir.node import Node, Path
from skipstone.ir.types import DType
from skipstone.kernels.gpu.device import Device
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.index.index import Index
from skipstone.kernels.pack.bounds import Given
from skipstone.kernels.pack.columns import Column, Raw, may_contradict
from skipstone.kernels.pack.packed import DERIVED, PREPARED, Packed
from skipstone.kernels.run.launch import Key, Launch
from skipstone.kernels.run.lru_cache import Kept
from skipstone.kernels.run.prepare import prepare


def device_of(device: int | Device | None) -> Device:
    """What a caller means by a device.

    Raises:
        SkipstoneError: it is none.
        BackendMissing, DeviceError: it is not there, or cannot be used.
    """
    if device is None or isinstance(device, int):
        from skipstone.kernels.gpu import cupy_gpu

        return cupy_gpu.device(device)
    if not hasattr(device, "upload"):
        raise SkipstoneError(
            f"device is {device!r}; expected its number, as CUDA counts them, or None"
        )
    return device


class OnDevice(Packed):
    """Statistics in host memory, or on a device: copies that stay there, and bounds that were there before."""

    _raw: Mapping[Path, Raw]
    _index: Index | None
    _resident: Resident | None = None

    @abstractmethod
    def _given_rows(self) -> Given | None:
        """Row counts of the containers, as they came."""

    @abstractmethod
    def packed(self, path: Path, dtype: DType, raw: Raw) -> Column:
        """A column packed of statistics as they came."""

    def sharing(self) -> Self:
        """New statistics that share everything with these."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        return out

    def to_device(self, device: int | Device | None = None) -> Self:
        """The same statistics to be judged on a GPU, where what predicates read stays from one to the next.

        Everything that takes statistics takes these. A column is uploaded when a predicate first reads it, levels, codes and
        key sets likewise; `device_nbytes` says how much lies there. What only the host knows, such as statistics of calls
        (`a + b`), is made there and uploaded.

        "auto" asks the device from some 65,000 containers on, once the kernel of a predicate's shape is compiled. Where the device
        fails, out of memory or lost, it goes on with the CPU and warns once; `backend="cupy"` asks the device always, and raises.
        Pickles and copies are statistics in host memory. In a forked child these statistics cannot be used on the device:
        CUDA does not survive a fork.

        Args:
            device: Its number, as CUDA counts them; None: CuPy's current one.

        Returns:
            New statistics, which share what is in host memory with these. Arrays come from CuPy's current memory pool;
            kernels run on CuPy's current stream.

        Raises:
            BackendMissing: CuPy, a driver or a device is not there.
            DeviceError: the device cannot be used.

        Example:
            >>> there = stats.to_device()  # doctest: +SKIP
            >>> PruningPredicate("x > 5", schema).survivors(there, out="device")  # doctest: +SKIP
            array([3, 17, 20])
        """
        if self._resident is not None and device is None:
            return self
        resident = Resident(device_of(device))
        out = self.sharing()
        if isinstance(self._raw, ForeignBounds):
            out._raw = self._raw.here()
        return out.on(resident)

    def with_bounds(self, bounds: ForeignBounds, resident: Resident) -> Self:
        """The same statistics with bounds that lie on a device."""
        out = self.sharing()
        Packed.__init__(out)
        out._raw = bounds
        return out.on(resident)

    def on(self, resident: Resident) -> Self:
        """These statistics, to live there from now on."""
        self._resident = resident
        self._launches, self._launches_of_calls = Kept(PREPARED), Kept(DERIVED)
        self._here: Kept[Program, Launch] = Kept(PREPARED)
        if self._index is not None:
            self._index = replace(self._index, on=resident)
        return self

    @property
    def device(self) -> str | None:
        """The device that these statistics live on, in words; None: they are in host memory."""
        return None if self._resident is None else self._resident.name

    @property
    def device_nbytes(self) -> int:
        """Bytes that the device holds for these statistics, results aside; those of `from_device` included."""
        own = 0 if self._resident is None else self._resident.nbytes
        return own + (self._raw.nbytes if isinstance(self._raw, ForeignBounds) else 0)

    def release(self) -> None:
        """Give back what the device holds for these statistics, arrays that were given to `from_device` aside.

        They can still be used: what a predicate asks then is uploaded again. A device that failed is tried again.
        """
        if self._resident is not None:
            self._launches, self._launches_of_calls = Kept(PREPARED), Kept(DERIVED)
            if isinstance(self._raw, ForeignBounds):
                self._raw.release()
            self._resident.release()

    def prepared(self, program: Program) -> Launch:
        """The program's launch, with bounds of the device where they lie there."""
        if self._resident is None:
            return super().prepared(program)
        try:
            launch = prepare(program, self, self._look)
        except (
            BackendMissing,
            DeviceError,
        ) as e:  # bounds that lie there could not be looked at there
            launch = prepare(program, self, self.peek)
            launch.failed = e
        launch.on = self._resident
        if not all(isinstance(a, np.ndarray) for a in launch.arrays):
            # The launch is kept by these statistics: by no more than a name should it keep them, or memory of the device waits for the collector.
            launch.host_twin = functools.partial(_here, weakref.ref(self), program)
        return launch

    def _look(self, key: Key, dtype: DType) -> Column:
        if (
            isinstance(key, Node)
            or not isinstance(self._raw, ForeignBounds)
            or not self._raw.there(key, dtype)
        ):
            return self.peek(key, dtype)
        counts = self._raw.counts(key)
        if may_contradict(counts, dtype, self._given_rows(), self.num_containers):
            return self.peek(key, dtype)  # counts and bounds are compared on the host
        return self._raw.column(key, dtype, self.packed(key, dtype, counts))

    def here(self, program: Program) -> Launch:
        """The program's launch in host memory, whatever lies on a device."""
        return self._here.get(program, lambda: prepare(program, self, self.peek))

    def __getstate__(self) -> dict[str, Any]:
        here = {"_raw": self._raw.here()} if isinstance(self._raw, ForeignBounds) else {}
        return {
            k: v
            for k, v in {**super().__getstate__(), **here}.items()
            if k not in ("_resident", "_here")
        }


def _here(stats: weakref.ref[OnDevice], program: Program) -> Launch:
    found = stats()
    assert found is not None
    return found.here(program)
