"""Running a launch: which backend answers, and when Numba takes over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from skipstone.ir.errors import BackendMissing, SkipstoneError
from skipstone.kernels import cache, numba_cpu, numpy_cpu, planes, room
from skipstone.kernels.cache import Shape
from skipstone.kernels.launch import Launch
from skipstone.kernels.planes import Plane, Todo, Verdicts, WordNumbers, clear_tail, held, word_count

Backend = Literal["auto", "numpy", "numba", "cupy"]
BACKENDS: Final = ("auto", "numpy", "numba", "cupy")
# Below it NumPy answers in less time than a compiled kernel could save in a session.
COMPILE_FROM: Final = 100_000


@dataclass(slots=True)
class Result:
    """What a launch gave.

    Attributes:
        planes: One per root of the program; of `todo`, where that was given, a word each. Where verdicts were
            asked, bits past the last container may be set.
        backend: Which one computed them; "none": nothing was left to compute.
        verdicts: uint8 array of shape (n,), host memory, if it was asked for.
        words: The numbers of the words that planes hold, uint32, ascending, if not all that were judged.
    """

    planes: Sequence[Plane]
    backend: str
    verdicts: Verdicts | None = None
    words: WordNumbers | None = None


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
    found: list[Plane] = [room.words(words) if answer is None else answer for answer in launch.answers]
    outs = [p for p in found if not isinstance(p, bool)]
    judged = None
    if name == "numba":
        judged = numba_cpu.run(launch, outs, verdicts, todo)
    elif name == "numpy":
        numpy_cpu.run(launch, outs, todo)
    if not verdicts:
        for p in outs:
            clear_tail(p, launch.n, todo)
    elif judged is None:
        judged = planes.verdicts(found, launch.n if todo is None else words * 64)
    return Result(found, name, judged)


def sift(launch: Launch, backend: Backend = "auto", *, todo: Todo = None) -> Result:
    """Compute a launch, and keep those words alone in which some container passes its first root.

    Args:
        launch: As in `run`; likewise the others, and what may go wrong.
    """
    if todo is None and launch.answers[0] is None and choose(launch, backend, launch.n) == "numba":
        for guard in launch.guards:
            guard.touch()
        at, kept = numba_cpu.sift(launch, [room.words(word_count(launch.n)) for a in launch.answers if a is None])
        rest = iter(kept)
        found: list[Plane] = [clear_tail(next(rest), launch.n, at) if a is None else a for a in launch.answers]
        return Result(found, "numba", words=at)
    result = run(launch, backend, todo=todo)
    first = result.planes[0]
    count = word_count(launch.n) if todo is None else len(todo)
    where = np.arange(count if first else 0) if isinstance(first, bool) else held(first)
    at = where.astype(np.uint32) if todo is None else todo[where]
    return Result([p if isinstance(p, bool) else p[where] for p in result.planes], result.backend, words=at)


def choose(launch: Launch, backend: Backend, n: int) -> str:
    """The backend that will judge n containers of a launch; "none" when nothing is left to compute."""
    if backend not in BACKENDS:
        raise SkipstoneError(f"backend {backend!r} is not known; expected one of {', '.join(BACKENDS)}")
    if backend == "cupy":
        raise BackendMissing("backend 'cupy' is not built yet; use backend='numba', 'numpy' or 'auto'")
    if not n or None not in launch.answers:
        return "none"
    if backend != "auto":
        return backend
    if cache.ready(Shape(launch.shape)) is not None:
        return "numba"
    if n >= COMPILE_FROM:
        cache.compile_behind(Shape(launch.shape), numba_cpu.compile_shape)
    return "numpy"


def compile_ahead(launch: Launch) -> None:
    """Have the kernel of launches like this one compiled behind the scenes, or loaded from disk, if this process lacks it."""
    shape = Shape(launch.shape)
    if None in launch.answers and cache.ready(shape) is None:
        cache.compile_behind(shape, numba_cpu.compile_shape)


def run_many(launches: Sequence[Launch], backend: Backend = "auto") -> Verdicts:
    """The verdicts of many launches over the same statistics.

    Those that differ in literals alone are judged together, 64 containers at a time, so that what
    all of them read is read once.

    Returns:
        uint8 array, shape (launches, n), host memory.
    """
    n = launches[0].n
    rows = numba_cpu.rows_of(len(launches), n)
    out = rows.reshape(len(launches), -1)[:, :n]
    alike: dict[Any, list[int]] = {}
    for i, launch in enumerate(launches):
        alike.setdefault(_reads(launch), []).append(i)
    for places in alike.values():
        first = launches[places[0]]
        if together(first, len(places), backend):
            for guard in first.guards:
                guard.touch(None)
            numba_cpu.run_many([launches[i] for i in places], places, rows)
        else:
            for i in places:
                verdicts = run(launches[i], backend, verdicts=True).verdicts
                out[i] = 0 if verdicts is None else verdicts
    return out


def _reads(launch: Launch) -> Any:
    """What launches must have in common to be judged together."""
    return launch.shape, *(id(a) for a in launch.arrays), *(id(p) for p in launch.planes)


def together(launch: Launch, count: int, backend: Backend) -> bool:
    """Whether so many launches like this one are judged by one kernel, which must be there or be waited for."""
    if count < 2 or launch.sets or not launch.params or launch.n < 64 or backend not in ("auto", "numba"):
        return False
    shape = Shape(launch.shape, many=True)
    if backend == "numba" or cache.ready(shape) is not None:
        return True
    if launch.n * count >= COMPILE_FROM:
        cache.compile_behind(shape, numba_cpu.compile_shape)
    return False
