"""Statistics that live on a device: copies of host arrays that stay there from predicate to predicate."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import DeviceError, SkipstoneError
from skipstone.kernels import cache
from skipstone.kernels.device import Device, DeviceArray
from skipstone.kernels.launch import Launch

# By the id of a host array that itself, and what was made of it.
Copies: TypeAlias = dict[int, tuple[weakref.ref[npt.NDArray[Any]], DeviceArray]]


class Resident:
    """What of some statistics lies on a device. Safe to share between threads.

    A host array is uploaded when a launch first reads it, and its copy is dropped with it. Columns live as long as
    their statistics do; literals of long IN lists as long as their launch is kept.

    Attributes:
        device: Where.
        usable: Whether "auto" may use it: no call has failed since the last release.
    """

    def __init__(self, device: Device) -> None:
        self._device, self.usable = device, True
        self._copies: Copies = {}
        self._lock, self._process = threading.Lock(), os.getpid()
        weakref.finalize(self, _settle, device, self._process, self._copies).atexit = False

    @property
    def device(self) -> Device:
        """The device.

        Raises:
            DeviceError: this process is a fork of the one that made it, and what CUDA holds does not survive that.
        """
        if os.getpid() != self._process:
            raise DeviceError(
                f"these statistics are on {self._device.name} for process {self._process}, of which this one was forked, and CUDA does not survive a fork; "
                "start processes by 'spawn' or 'forkserver', or call to_device in the child alone"
            )
        return self._device

    @property
    def name(self) -> str:
        """The device, in words."""
        return self._device.name

    def inputs(self, launch: Launch) -> tuple[list[DeviceArray], list[DeviceArray], list[DeviceArray]]:
        """The arrays, planes and sets of a launch, as they lie on the device; planes in words of 32.

        Raises:
            DeviceError: there is no room, or the device is lost.
            StatisticsError: the file that statistics come from is damaged.
        """
        for guard in launch.guards:
            guard.touch()
        arrays, planes, sets = (self._there(given) for given in (launch.arrays, launch.planes, launch.sets))
        return arrays, [p.view(np.uint32) for p in planes], sets

    def ready(self, text: str) -> bool:
        """Whether the device has the function of a text; else it is compiled behind the scenes."""
        if os.getpid() != self._process or self._device.ready(text):
            return True  # of a fork too: who asks the device is told
        cache.compile_behind((text, self._device), lambda asked: self._device.function(asked[0]))
        return False

    def _there(self, arrays: Iterable[Any]) -> list[DeviceArray]:
        return [self._copy(a) if isinstance(a, np.ndarray) else a for a in arrays]

    def _copy(self, values: npt.NDArray[Any]) -> DeviceArray:
        key, device = id(values), self.device
        with self._lock:
            found = self._copies.get(key)
            if found is not None and found[0]() is values:
                return found[1]
            copy, copies, process = device.upload(values), self._copies, self._process

            def forget(gone: weakref.ref[npt.NDArray[Any]]) -> None:
                if (kept := copies.get(key)) is not None and kept[0] is gone:
                    _settle(device, process, copies)
                    del copies[key]

            copies[key] = weakref.ref(values, forget), copy
            return copy

    @property
    def nbytes(self) -> int:
        """Bytes of the copies, device memory."""
        return sum(copy.nbytes for _, copy in self._copies.copy().values())

    def release(self) -> None:
        """Drop the copies; what is asked next makes them again. A device that failed may be tried again."""
        _settle(self._device, self._process, self._copies)
        self._copies.clear()
        self.usable = True

    def give_up(self, error: SkipstoneError) -> None:
        """Leave what "auto" is asked from now on to the CPU, and say so once."""
        if self.usable:
            self.usable = False
            warnings.warn(f"skipstone goes on with the CPU: {error}", RuntimeWarning, stacklevel=2)


def _settle(device: Device, process: int, copies: Copies) -> None:
    """Wait before copies are dropped: a stream other than the one that they were made in may still read them, and the first may use their memory again."""
    if copies and os.getpid() == process:
        with contextlib.suppress(DeviceError):  # of a device that is lost nothing reads any more
            device.settle()
