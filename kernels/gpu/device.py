"""The interface of devices, which hold arrays and run kernels.

`cupy_gpu.py` implements it for CUDA cards; tests have implementations without a card.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# An array in the device's memory, like cupy.ndarray: it has `dtype`, `shape` and `nbytes`, and
# gives views by a slice, `view` and `reshape`. It is not a numpy.ndarray: that type marks arrays in
# host memory.
DeviceArray = Any
Function = Any


class Device(Protocol):
    """The operations that kernels need of a device.

    Work on a device runs in the order in which it was started. Every call may raise DeviceError:
    the device is out of memory, is lost, or was used before this process was forked.
    """

    @property
    def name(self) -> str:
        """The device's name, for messages."""
        ...

    def upload(self, values: npt.NDArray[Any]) -> DeviceArray:
        """Copy a host array to the device; the copy is complete when this returns."""
        ...

    def empty(self, count: int, numpy_type: str) -> DeviceArray:
        """Allocate an uninitialized array of a NumPy type, shape (count,)."""
        ...

    def adopt(self, pointer: int, count: int, numpy_type: str, owner: object) -> DeviceArray:
        """Return an array over values that are already on the device.

        Aligned values are not copied; a copy is complete when this returns. The array keeps `owner`
        alive.

        Args:
            pointer: The address of the first value.
            count: The number of values.
            numpy_type: Their type.
            owner: The object that owns the memory.
        """
        ...

    def from_dlpack(self, given: Any) -> Any:
        """Convert a DLPack object to an array with `__cuda_array_interface__`."""
        ...

    def download(self, values: DeviceArray) -> npt.NDArray[Any]:
        """Copy an array to host memory, after all work that was started."""
        ...

    def settle(self) -> None:
        """Wait for all work on the device, including that of other libraries."""
        ...

    def function(self, text: str) -> Function:
        """Return the function named `kernel` of a text: from memory, from disk, or compiled now."""
        ...

    def ready(self, text: str) -> bool:
        """Return True if `function` would return the function of a text without compiling."""
        ...

    def start(
        self, function: Function, blocks: int, arguments: Sequence[DeviceArray | np.generic]
    ) -> None:
        """Start blocks of `cuda_text.THREADS` threads.

        Args:
            function: A function that `Device.function` returned.
            blocks: The number of blocks.
            arguments: Arrays of the device, and NumPy scalars.
        """
        ...
