"""The common part of simulated devices: memory, and a strict check of a launch's arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.kernels.gpu.cuda_text import TYPES
from tests.support.cuda.memory import FRESH, SET, Memory, Store, Wrong

NUMPY_TYPES: Final = {text: np.dtype(numpy_type) for numpy_type, text in TYPES.items()}
PARAMETERS: Final = 4096  # bytes of a launch's arguments that every GPU and driver accepts
BLOCKS: Final = 2**31 - 1


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    It has a name, the NumPy type of its value or values, and flags for a pointer, and for a pointer
    to output.
    """

    name: str
    numpy_type: np.dtype[Any]
    pointer: bool
    written: bool

    def text(self) -> str:
        kind = next(t for t, numpy_type in NUMPY_TYPES.items() if numpy_type == self.numpy_type)
        return f"{'' if self.written else 'const '}{kind}{'*' if self.pointer else ''}"


def parameters_of(text: str) -> tuple[Parameter, ...]:
    """Return the parameters of `kernel` in a text, as it declares them."""
    head = re.search(r'extern "C" __global__ void[^{]*?\bkernel\s*\(([^)]*)\)', text)
    assert head, "the text has no kernel"
    return tuple(_parameter(one.strip()) for one in head[1].split(","))


def _parameter(text: str) -> Parameter:
    found = re.fullmatch(r"(const )?([a-z0-9 ]+?)(\* __restrict__)? (\w+)", text)
    assert found, f"a parameter that a launch cannot give: {text}"
    const, kind, pointer, name = found.groups()
    return Parameter(name, NUMPY_TYPES[kind], bool(pointer), bool(pointer and not const))


Bound = list[tuple[Parameter, Memory]]


class StandIn:
    """A `Device` (kernels/gpu/device.py) without `function` and `start`.

    Args:
        size: Bytes of device memory.
    """

    def __init__(self, size: int = 1 << 40) -> None:
        self.memory = Store(size)

    def upload(self, values: npt.NDArray[Any]) -> Memory:
        """Copy a one-dimensional host array to the device."""
        return self.memory.put(values)

    def empty(self, count: int, numpy_type: str) -> Memory:
        """Allocate unwritten values."""
        return self.memory.empty(count, numpy_type)

    def adopt(self, pointer: int, count: int, numpy_type: str, owner: object) -> Memory:
        """Take over values that already lie on the device."""
        found = self.memory.find(pointer, count, numpy_type)
        found.owner = owner
        return found

    def ready(self, text: str) -> bool:
        """Wait for its compilers."""
        return True

    def from_dlpack(self, given: Any) -> Memory:
        """Take values of another library."""

        class OnHost:
            def __dlpack_device__(self) -> tuple[int, int]:
                return 1, 0

            def __dlpack__(self, **_: Any) -> Any:
                return given.__dlpack__()

        found: npt.NDArray[Any] = np.from_dlpack(OnHost())  # type: ignore[arg-type]
        return self.memory.find(found.ctypes.data, len(found), found.dtype)

    def download(self, values: Memory) -> npt.NDArray[Any]:
        """Return a copy in host memory, of values that were all written."""
        return self.memory.get(values)

    def settle(self) -> None:
        """Do nothing, because all work is done when it starts."""
        self.memory.check()

    def bound(
        self,
        parameters: tuple[Parameter, ...],
        blocks: int,
        arguments: Sequence[Memory | np.generic],
    ) -> Bound:
        """Return the arrays of a launch with the parameters they are bound to.

        Raises:
            Wrong: a device would refuse them.
        """
        self.memory.check()
        if not 0 < blocks <= BLOCKS:
            raise Wrong(f"a grid of {blocks} blocks; expected 1 to {BLOCKS}")
        if len(arguments) != len(parameters):
            raise Wrong(f"{len(arguments)} arguments; the kernel takes {len(parameters)}")
        given = list(zip(parameters, arguments, strict=True))
        for p, a in given:
            _check(p, a)
        if (size := 8 * len(arguments)) > PARAMETERS:
            raise Wrong(f"{size} bytes of arguments; a launch takes {PARAMETERS}")
        arrays = [(p, a) for p, a in given if isinstance(a, Memory)]
        _apart(arrays)
        return arrays

    def done(self, arrays: Bound) -> None:
        """Mark the launch's output as written for the next launch."""
        for p, a in arrays:
            if p.written:
                a.known[a.known == FRESH] = SET


def value_of(given: Memory | np.generic) -> npt.NDArray[Any]:
    """Return a launch's argument as bytes of host memory: a number, or an array's address."""
    return np.array([given.at], np.uint64) if isinstance(given, Memory) else np.array([given])


def _check(p: Parameter, given: object) -> None:
    if p.pointer and not isinstance(given, Memory):
        raise Wrong(f"{p.name} is {type(given).__name__}; expected memory of the device")
    if not p.pointer and not isinstance(given, np.generic):
        raise Wrong(f"{p.name} is {type(given).__name__}; expected a NumPy scalar")
    dtype = given.dtype  # type: ignore[attr-defined]
    if dtype != p.numpy_type:
        raise Wrong(f"{p.name} is of {dtype}; the kernel declares {p.numpy_type}")


def _apart(arrays: list[tuple[Parameter, Memory]]) -> None:
    """Check that written arrays are not aliased, as `__restrict__` promises."""
    for p, a in arrays:
        for q, b in arrays:
            if p.written and p.name != q.name and a.at < b.at + b.nbytes and b.at < a.at + a.nbytes:
                raise Wrong(f"{p.name} and {q.name} overlap")
