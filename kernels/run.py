"""Running a launch: which backend answers, and when Numba takes over."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from skipstone.ir.errors import BackendMissing, SkipstoneError
from skipstone.ir.node import Op
from skipstone.ir.simplify import TRUE
from skipstone.kernels import cache, numba_cpu, numpy_cpu, planes
from skipstone.kernels.launch import Launch
from skipstone.kernels.planes import Plane, Verdicts, clear_tail, word_count

Backend = Literal["auto", "numpy", "numba", "cupy"]
BACKENDS: Final = ("auto", "numpy", "numba", "cupy")
# Below it NumPy answers in less time than a compiled kernel could save in a session.
COMPILE_FROM: Final = 100_000


@dataclass(frozen=True, slots=True)
class Result:
    """What a launch gave.

    Attributes:
        planes: One per root of the program.
        backend: Which one computed them; "none": nothing was left to compute.
        verdicts: uint8 array of shape (n,), host memory, if it was asked for.
    """

    planes: tuple[Plane, ...]
    backend: str
    verdicts: Verdicts | None = None


def run(launch: Launch, backend: Backend = "auto", *, verdicts: bool = False) -> Result:
    """Compute a launch.

    Args:
        launch: What to compute, host memory.
        backend: "auto" answers with NumPy at once; where a compiled kernel pays it is made behind the
            scenes, and answers from then on.
        verdicts: Whether to give one byte per container as well.

    Raises:
        BackendMissing: the backend is not there.
        SkipstoneError: no backend has that name.
    """
    name = choose(launch, backend)
    outs = [np.empty(word_count(launch.n), np.uint64) for r in launch.roots if r.op is not Op.LITERAL]
    judged = None
    if name == "numba":
        judged = numba_cpu.run(launch, outs, verdicts)
    elif name == "numpy":
        numpy_cpu.run(launch, outs)
    filled = iter(outs)
    found = tuple(r == TRUE if r.op is Op.LITERAL else clear_tail(next(filled), launch.n) for r in launch.roots)
    if verdicts and judged is None:
        judged = planes.verdicts(found, launch.n)
    return Result(found, name, judged)


def choose(launch: Launch, backend: Backend) -> str:
    """The backend that will run a launch; "none" when nothing is left to compute."""
    if backend not in BACKENDS:
        raise SkipstoneError(f"backend {backend!r} is not known; expected one of {', '.join(BACKENDS)}")
    if backend == "cupy":
        raise BackendMissing("backend 'cupy' is not built yet; use backend='numba', 'numpy' or 'auto'")
    if not launch.n or all(r.op is Op.LITERAL for r in launch.roots):
        return "none"
    if backend != "auto":
        return backend
    if cache.ready(launch.shape) is not None:
        return "numba"
    if launch.n < COMPILE_FROM or os.environ.get("SKIPSTONE_COMPILE") == "0":
        return "numpy"
    cache.compile_behind(launch.shape, numba_cpu.compile_shape)
    return "numpy"
