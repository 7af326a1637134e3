"""Statistics that live on a device: copies of host arrays that stay there from predicate to predicate."""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import DeviceError
from skipstone.kernels.gpu.device import Device, DeviceArray
from skipstone.kernels.run import compiler, forks
from skipstone.kernels.run.launch import Launch


class _ArrayKey(weakref.ref[npt.NDArray[Any]]):
    """A host array as a key: equal to itself alone, and once it is gone to no array that comes to lie at its place."""

    __slots__ = ("_id",)

    _id: int

    def __new__(
        cls, values: npt.NDArray[Any], gone: Callable[[_ArrayKey], None] | None = None
    ) -> Self:
        out = super().__new__(cls, values, gone)
        out._id = id(values)
        return out

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, _ArrayKey) and (mine := self()) is not None and mine is other()
        )


# By host array what was made of it.
Copies: TypeAlias = dict[_ArrayKey, DeviceArray]


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
        self._lock, self._process = forks.lock(), os.getpid()
        weakref.finalize(self, _drop, device, self._process, self._copies).atexit = False

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

    def inputs(
        self, launch: Launch
    ) -> tuple[list[DeviceArray], list[DeviceArray], list[DeviceArray]]:
        """The arrays, planes and sets of a launch, as they lie on the device; planes in words of 32.

        Raises:
            DeviceError: there is no room, or the device is lost.
            StatisticsError: the file that statistics come from is damaged.
        """
        for guard in launch.guards:
            guard.touch()
        arrays, planes, sets = (
            self._copies_of(given) for given in (launch.arrays, launch.planes, launch.sets)
        )
        return arrays, [p.view(np.uint32) for p in planes], sets

    def ready(self, text: str) -> bool:
        """Whether the device has the function of a text; else it is compiled behind the scenes."""
        if os.getpid() != self._process or self._device.ready(text):
            return True  # of a fork too: who asks the device is told
        compiler.compile_in_background(
            (text, self._device), lambda asked: self._device.function(asked[0]), self.give_up
        )
        return False

    def _copies_of(self, arrays: Iterable[Any]) -> list[DeviceArray]:
        return [self._copy(a) if isinstance(a, np.ndarray) else a for a in arrays]

    def _copy(self, values: npt.NDArray[Any]) -> DeviceArray:
        device = self.device
        with self._lock:
            if (found := self._copies.get(_ArrayKey(values))) is not None:
                return found
            copies, process = self._copies, self._process

            def forget(gone: _ArrayKey) -> None:
                # Without the lock: the collector may call this while its thread, or one that waits for another's, holds it.
                if gone in copies:
                    _settle(device, process)
                    copies.pop(gone, None)  # others may have released it meanwhile

            return copies.setdefault(_ArrayKey(values, forget), device.upload(values))

    @property
    def nbytes(self) -> int:
        """Bytes of the copies, device memory."""
        return sum(copy.nbytes for copy in self._copies.copy().values())

    def release(self) -> None:
        """Drop the copies; what is asked next makes them again. A device that failed may be tried again."""
        _drop(self._device, self._process, self._copies)
        self.usable = True

    def settle(self) -> None:
        """Wait before memory of the device is dropped: a stream other than the one that it was made in may still read it, and the first may use it again."""
        _settle(self._device, self._process)

    def give_up(self, error: Exception) -> None:
        """Leave what "auto" is asked from now on to the CPU, and say so once."""
        if self.usable:
            self.usable = False
            warnings.warn(f"skipstone goes on with the CPU: {error}", RuntimeWarning, stacklevel=2)


def _drop(device: Device, process: int, copies: Copies) -> None:
    if copies:
        _settle(device, process)
    copies.clear()  # each holds by its callback the whole, which the collector alone would find


def _settle(device: Device, process: int) -> None:
    if os.getpid() == process:
        with contextlib.suppress(DeviceError):  # of a device that is lost nothing reads any more
            device.settle()
