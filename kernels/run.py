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
from skipstone.kernels.planes import Plane, Todo, Verdicts, clear_tail, word_count

Backend = Literal["auto", "numpy", "numba", "cupy"]
BACKENDS: Final = ("auto", "numpy", "numba", "cupy")
# Below it NumPy answers in less time than a compiled kernel could save in a session.
COMPILE_FROM: Final = 100_000


@dataclass(frozen=True, slots=True)
class Result:
    """What a launch gave.

    Attributes:
        planes: One per root of the program; of `todo`, where that was given, a word each.
        backend: Which one computed them; "none": nothing was left to compute.
        verdicts: uint8 array of shape (n,), host memory, if it was asked for.
    """

    planes: tuple[Plane, ...]
    backend: str
    verdicts: Verdicts | None = None


def run(launch: Launch, backend: Backend = "auto", *, verdicts: bool = False, todo: Todo = None) -> Result:
    """Compute a launch.

    Args:
        launch: What to compute, host memory.
        backend: "auto" answers with NumPy at once; where a compiled kernel pays it is made behind the
            scenes, and answers from then on.
        verdicts: Whether to give one byte per container as well.
        todo: The words of containers to judge; None: all.

    Raises:
        BackendMissing: the backend is not there.
        StatisticsError: the file that statistics come from is damaged where they are read.
        SkipstoneError: no backend has that name.
    """
    words = word_count(launch.n) if todo is None else len(todo)
    name = choose(launch, backend, launch.n if todo is None else words * 64)
    if name != "none":
        for guard in launch.guards:
            guard.touch(todo)
    outs = [np.empty(words, np.uint64) for r in launch.roots if r.op is not Op.LITERAL]
    judged = None
    if name == "numba":
        judged = numba_cpu.run(launch, outs, verdicts, todo)
    elif name == "numpy":
        numpy_cpu.run(launch, outs, todo)
    filled = iter(outs)
    found = tuple(r == TRUE if r.op is Op.LITERAL else clear_tail(next(filled), launch.n, todo) for r in launch.roots)
    if verdicts and judged is None:
        judged = planes.verdicts(found, launch.n if todo is None else words * 64)
    return Result(found, name, judged)


def choose(launch: Launch, backend: Backend, n: int) -> str:
    """The backend that will judge n containers of a launch; "none" when nothing is left to compute."""
    if backend not in BACKENDS:
        raise SkipstoneError(f"backend {backend!r} is not known; expected one of {', '.join(BACKENDS)}")
    if backend == "cupy":
        raise BackendMissing("backend 'cupy' is not built yet; use backend='numba', 'numpy' or 'auto'")
    if not n or all(r.op is Op.LITERAL for r in launch.roots):
        return "none"
    if backend != "auto":
        return backend
    if cache.ready(launch.shape) is not None:
        return "numba"
    if n < COMPILE_FROM or os.environ.get("SKIPSTONE_COMPILE") == "0":
        return "numpy"
    cache.compile_behind(launch.shape, numba_cpu.compile_shape)
    return "numpy"
