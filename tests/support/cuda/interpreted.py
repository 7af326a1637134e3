"""A device without a GPU that interprets NVRTC's PTX of a kernel (tests/support/cuda/ptx.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from skipstone.ir.errors import BackendMissing, DeviceError
from skipstone.kernels.gpu import nvrtc
from skipstone.kernels.gpu.cuda_text import THREADS
from tests.support.cuda import ptx
from tests.support.cuda.memory import Memory, Wrong
from tests.support.cuda.stand_in import Parameter, StandIn, parameters_of, value_of


def _missing() -> str | None:
    try:
        nvrtc.version()
    except BackendMissing as e:
        return str(e)
    return None


MISSING = _missing()


_ptx = functools.cache(lambda text, arch, options: nvrtc.ptx_of(text, arch, options=options))


@dataclass(frozen=True)
class Function:
    """A parsed kernel."""

    program: ptx.Program
    parameters: tuple[Parameter, ...]


class Interpreted(StandIn):
    """A `Device` (kernels/gpu/device.py) made of NVRTC and NumPy.

    Args:
        arch: The architecture of the PTX.
        options: Further options of NVRTC, besides those that kernels are compiled with.
        change: A function that changes the PTX before it runs.
        size: Bytes of device memory.
    """

    name = "PTX, in NumPy"

    def __init__(
        self,
        arch: str = "sm_90",
        options: Sequence[str] = (),
        change: Callable[[str], str] = str,
        size: int = 1 << 40,
    ) -> None:
        super().__init__(size)
        self.arch, self.options, self.change = arch, (*nvrtc.OPTIONS, *options), change
        self.launches = 0
        self._functions: dict[str, Function] = {}

    def function(self, text: str) -> Function:
        """Return the function named `kernel` of a text."""
        if text not in self._functions:
            try:
                made = self.change(_ptx(text, self.arch, self.options))
            except DeviceError as e:
                raise Wrong(str(e)) from None
            self._functions[text] = Function(ptx.parse(made), parameters_of(text))
        return self._functions[text]

    def start(
        self, function: Function, blocks: int, arguments: Sequence[Memory | np.generic]
    ) -> None:
        """Run blocks of THREADS threads.

        Raises:
            Wrong: arguments do not fit the declaration, or a thread did something undefined.
        """
        arrays = self.bound(function.parameters, blocks, arguments)
        values = {
            name: value_of(a).view(np.uint8)
            for (name, _), a in zip(function.program.params, arguments, strict=True)
        }
        try:
            ptx.Launch(
                function.program, blocks, THREADS, values, [memory for _, memory in arrays]
            ).run()
        finally:
            self.launches += 1
            self.done(arrays)


@pytest.fixture(scope="session")
def interpreted():
    """Return a device that runs NVRTC's PTX of kernels."""
    if MISSING:
        pytest.skip(MISSING)
    return Interpreted()
