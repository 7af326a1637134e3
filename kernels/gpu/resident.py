"""Statistics that live on a device: copies of host arrays that stay there between predicates."""

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
from skipstone.kernels import logs
from skipstone.kernels.gpu.device import Device, DeviceArray
from skipstone.kernels.run import compiler, forks
from skipstone.kernels.run.launch import Launch


class _IdentityKey(weakref.ref[Any]):
    """A host array or a launch as a dict key, equal only to itself.

    Once the object is gone, the key is not equal to a new object at the same address.
    """

    __slots__ = ("_id",)

    _id: int

    def __new__(cls, of: object, gone: Callable[[_IdentityKey], None] | None = None) -> Self:
        out = super().__new__(cls, of, gone)
        out._id = id(of)
        return out

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, _IdentityKey) and (mine := self()) is not None and mine is other()
        )


# host array -> its copy on the device
Copies: TypeAlias = dict[_IdentityKey, DeviceArray]
# the arrays, planes and sets of a launch on the device
Inputs: TypeAlias = tuple[list[DeviceArray], list[DeviceArray], list[DeviceArray]]


class Resident:
    """The copies of some statistics on a device. Threads may share it.

    A host array is uploaded when a launch first reads it, and its copy is dropped with it. Copies
    of columns live as long as their statistics; those of long IN lists, as long as their launch.

    Attributes:
        device: The device.
        usable: True if "auto" may use it: no call has failed since the last release.
    """

    def __init__(self, device: Device) -> None:
        self._device, self.usable = device, True
        self._copies: Copies = {}
        self._inputs: dict[_IdentityKey, Inputs] = {}
        self._lock, self._process = forks.lock(), os.getpid()
        weakref.finalize(self, _drop, device, self._process, self._copies).atexit = False

    @property
    def device(self) -> Device:
        """The device.

        Raises:
            DeviceError: this process was forked from the one that made it, and CUDA memory does not
                survive a fork.
        """
        if os.getpid() != self._process:
            raise DeviceError(
                f"these statistics are on {self._device.name} for process {self._process}, which "
                "forked this one, and CUDA does not survive a fork; start processes by 'spawn' or "
                "'forkserver', or call to_device only in the child"
            )
        return self._device

    @property
    def name(self) -> str:
        """The device's name, for messages."""
        return self._device.name

    def inputs(self, launch: Launch) -> Inputs:
        """Return the arrays, planes and sets of a launch on the device; planes in words of 32.

        Raises:
            DeviceError: the device is out of memory, or lost.
            StatisticsError: the file that holds the statistics is damaged.
        """
        launch.verify()
        # A release during this call replaces the dict, so what is kept here goes with it.
        kept = self._inputs
        if (found := kept.get(_IdentityKey(launch))) is not None and os.getpid() == self._process:
            return found
        arrays, planes, sets = (
            self._copies_of(inputs) for inputs in (launch.arrays, launch.planes, launch.sets)
        )
        out = arrays, [p.view(np.uint32) for p in planes], sets
        owner = weakref.ref(self)  # a callback that held the dict would make a cycle

        def forget(gone: _IdentityKey) -> None:
            if (there := owner()) is not None:
                there._inputs.pop(gone, None)

        kept[_IdentityKey(launch, forget)] = out
        return out

    def ready(self, text: str) -> bool:
        """Return True if the device has a text's function; else compile it in the background."""
        if os.getpid() != self._process or self._device.ready(text):
            return True  # in a forked child, using the device then raises
        compiler.compile_in_background(
            (text, self._device), lambda key: self._device.function(key[0]), self.give_up
        )
        return False

    def _copies_of(self, arrays: Iterable[Any]) -> list[DeviceArray]:
        return [self._copy(a) if isinstance(a, np.ndarray) else a for a in arrays]

    def _copy(self, values: npt.NDArray[Any]) -> DeviceArray:
        device = self.device
        with self._lock:
            if (found := self._copies.get(_IdentityKey(values))) is not None:
                return found
            copies, process = self._copies, self._process

            def forget(gone: _IdentityKey) -> None:
                # This takes no lock: the garbage collector may run it in the thread that holds the
                # lock, or in one that the holder waits for.
                if gone in copies:
                    _settle(device, process)
                    copies.pop(gone, None)  # another thread may have released it

            return copies.setdefault(_IdentityKey(values, forget), device.upload(values))

    @property
    def nbytes(self) -> int:
        """Bytes of the copies, device memory."""
        return sum(copy.nbytes for copy in self._copies.copy().values())

    def release(self) -> None:
        """Drop the copies; the next predicate uploads them again.

        A device that failed may be used again.
        """
        self._inputs = {}
        _drop(self._device, self._process, self._copies)
        self.usable = True

    def settle(self) -> None:
        """Wait for the device before its memory is dropped.

        A stream other than the one that allocated it may still read it, while the first stream may
        use it again.
        """
        _settle(self._device, self._process)

    def give_up(self, error: Exception) -> None:
        """Let "auto" use the CPU from now on, and warn once."""
        if self.usable:
            self.usable = False
            logs.fallback(f"skipstone continues on the CPU: {error}")
            warnings.warn(f"skipstone continues on the CPU: {error}", RuntimeWarning, stacklevel=2)


def _drop(device: Device, process: int, copies: Copies) -> None:
    if copies:
        _settle(device, process)
    copies.clear()  # the callbacks hold the dict: only the collector would free it


def _settle(device: Device, process: int) -> None:
    if os.getpid() == process:
        with contextlib.suppress(DeviceError):  # nothing reads from a device that is lost
            device.settle()
