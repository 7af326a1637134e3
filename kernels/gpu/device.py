"""A device: where arrays lie and kernels run. `cupy_gpu.py` has the card; tests have one that stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# An array in the device's memory, as cupy.ndarray: it has `dtype`, `shape` and `nbytes`, and gives views by a slice, `view` and
# `reshape`. It is no numpy.ndarray, by which arrays in host memory are told.
DeviceArray = Any
Function = Any


class Device(Protocol):
    """What kernels ask of a device. Work on it is in order: what was started earlier is done before what is started later.

    Every call may raise DeviceError: the device is out of memory, lost, or was used before this process was forked.
    """

    @property
    def name(self) -> str:
        """The device, in words."""
        ...

    def upload(self, values: npt.NDArray[Any]) -> DeviceArray:
        """A copy of a host array, which is there when this returns."""
        ...

    def empty(self, count: int, lane: str) -> DeviceArray:
        """Room for so many values of a lane type."""
        ...

    def adopt(self, pointer: int, count: int, lane: str, owner: object) -> DeviceArray:
        """Values that lie on the device already, without a copy if they are aligned; `owner` lives as long as the array. A copy is there when this returns."""
        ...

    def from_dlpack(self, given: Any) -> Any:
        """What another library gives by DLPack, as an object with `__cuda_array_interface__`."""
        ...

    def download(self, values: DeviceArray) -> npt.NDArray[Any]:
        """A copy in host memory, once all work that was started is done."""
        ...

    def settle(self) -> None:
        """Wait for all work on the device, that of other libraries included."""
        ...

    def function(self, text: str) -> Function:
        """The function named `kernel` of a text: from memory, from disk, or compiled now."""
        ...

    def ready(self, text: str) -> bool:
        """Whether `function` would give that of a text at once."""
        ...

    def start(
        self, function: Function, blocks: int, arguments: Sequence[DeviceArray | np.generic]
    ) -> None:
        """Start blocks of `cuda_text.THREADS` threads."""
        ...
