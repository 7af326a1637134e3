"""A device without a card: the PTX that NVRTC makes of a kernel's text, interpreted (tests/ptx.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skipstone.kernels import nvrtc
from skipstone.kernels.cuda_text import THREADS
from tests import ptx
from tests.cuda_emulated import BLOCKS, Parameter, _apart, _check, _value, parameters_of
from tests.cuda_memory import SET, Memory, Store, Wrong


@dataclass(frozen=True)
class Function:
    """A kernel, taken apart."""

    program: ptx.Program
    parameters: tuple[Parameter, ...]


class Interpreted:
    """A `Device` (kernels/device.py) of NVRTC and NumPy.

    Args:
        arch: What PTX is made for.
        options: What else NVRTC is told.
        change: What is done to the PTX before it is run.
        size: Bytes of memory that it has.
    """

    name = "PTX, in NumPy"

    def __init__(self, arch: str = "sm_90", options: Sequence[str] = (), change: Callable[[str], str] = lambda text: text, size: int = 1 << 40) -> None:
        self.arch, self.options, self.change, self.memory = arch, (*nvrtc.OPTIONS, *options), change, Store(size)
        self.launches = 0
        self._functions: dict[str, Function] = {}

    def upload(self, values: npt.NDArray[Any]) -> Memory:
        """A copy of a host array of one dimension."""
        return self.memory.put(values)

    def empty(self, count: int, lane: str) -> Memory:
        """Room for so many values, which hold nothing yet."""
        return self.memory.empty(count, lane)

    def adopt(self, pointer: int, count: int, lane: str, owner: object) -> Memory:
        """Values that lie on the device already."""
        found = self.memory.find(pointer, count, lane)
        found.owner = owner
        return found

    def download(self, values: Memory) -> npt.NDArray[Any]:
        """A copy in host memory, of values that all were written."""
        return self.memory.get(values)

    def settle(self) -> None:
        """All work is done: it is done when it is started."""
        self.memory.check()

    def function(self, text: str) -> Function:
        """The function named `kernel` of a text."""
        if text not in self._functions:
            made = self.change(nvrtc.ptx_of(text, self.arch, options=self.options))
            self._functions[text] = Function(ptx.parse(made), parameters_of(text))
        return self._functions[text]

    def start(self, function: Function, blocks: int, arguments: Sequence[Memory | np.generic]) -> None:
        """Run blocks of THREADS threads."""
        self.memory.check()
        if not 0 < blocks <= BLOCKS or len(arguments) != len(function.parameters):
            raise Wrong(f"{blocks} blocks, {len(arguments)} arguments; the kernel takes {len(function.parameters)}")
        for p, given in zip(function.parameters, arguments, strict=True):
            _check(p, given)
        arrays = [(p, a) for p, a in zip(function.parameters, arguments, strict=True) if isinstance(a, Memory)]
        _apart(arrays)
        params = {name: _value(a).view(np.uint8) for (name, _), a in zip(function.program.params, arguments, strict=True)}
        ptx.Launch(function.program, blocks, THREADS, params, [(p.name, a) for p, a in arrays]).run()
        self.launches += 1
        for p, a in arrays:
            if p.written:
                np.minimum(a.known, SET, out=a.known)
