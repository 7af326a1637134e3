"""A device: where arrays lie and kernels run. `cupy_gpu.py` has the card; tests have one that stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# An array in the device's memory, with `dtype`, `shape` and `nbytes`: a cupy.ndarray.
DeviceArray = Any
Function = Any


class Device(Protocol):
    """What kernels ask of a device. Work on it is in order: what was started earlier is done before what is started later."""

    def upload(self, values: npt.NDArray[Any]) -> DeviceArray:
        """A copy of a host array."""
        ...

    def empty(self, count: int, lane: str) -> DeviceArray:
        """Room for so many values of a lane type."""
        ...

    def download(self, values: DeviceArray) -> npt.NDArray[Any]:
        """A copy in host memory, once all work that was started is done."""
        ...

    def function(self, text: str) -> Function:
        """The function named `kernel` of a text: from memory, from disk, or compiled now."""
        ...

    def start(self, function: Function, blocks: int, arguments: Sequence[DeviceArray | np.generic]) -> None:
        """Start blocks of `cuda_text.THREADS` threads."""
        ...
