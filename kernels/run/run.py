"""Running a launch: which backend answers, when Numba takes over, and what becomes of a device that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import BackendMissing, DeviceError, SkipstoneError
from skipstone.kernels.gpu.device import DeviceArray
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.pack import planes
from skipstone.kernels.pack.planes import (
    Plane,
    Todo,
    Verdicts,
    WordNumbers,
    clear_tail,
    nonzero_words,
    word_count,
)
from skipstone.kernels.run import compile_cache, compiler, numba_cpu, numpy_cpu, result_pool
from skipstone.kernels.run.compile_cache import Shape
from skipstone.kernels.run.launch import Launch, group_alike

if TYPE_CHECKING:
    from skipstone.kernels.gpu.cuda_text import Form

T = TypeVar("T")

Backend = Literal["auto", "numpy", "numba", "cupy"]
Out = Literal["host", "device"]
BACKENDS: Final = ("auto", "numpy", "numba", "cupy")


@dataclass(slots=True)
class Result:
    """What a launch gave.

    Attributes:
        planes: One per root of the program; of `todo`, where that was given, a word each. Where verdicts were
            asked, bits past the last container may be set; and there are none where a device gave verdicts.
        backend: Which one computed them; "none": nothing was left to compute.
        verdicts: uint8 array of shape (n,), host memory, if it was asked for.
        words: The numbers of the words that planes hold, uint32, ascending, if not all that were judged.
    """

    planes: Sequence[Plane]
    backend: str
    verdicts: Verdicts | None = None
    words: WordNumbers | None = None


def run(
    launch: Launch, backend: Backend = "auto", *, verdicts: bool = False, todo: Todo = None
) -> Result:
    """Compute a launch.

    Args:
        launch: What to compute. Of statistics that live on a device "auto" asks that, if there are enough containers.
        backend: "auto" answers with NumPy at once; where a compiled kernel pays it is made behind the
            scenes, and answers from then on. "cupy" uploads what is not on the device yet, for this call.
        verdicts: Whether to give one byte per container as well.
        todo: The words of containers to judge; None: all.

    Raises:
        BackendMissing: the backend is not there.
        DeviceError: the device failed, and "auto" was not asked.
        StatisticsError: the file that statistics come from is damaged where they are read.
        SkipstoneError: no backend has that name.
    """
    words = word_count(launch.n) if todo is None else len(todo)
    asked = launch.n if todo is None else words * 64
    form: Form = "all" if todo is None else "chosen"
    name = choose(launch, backend, asked, form)
    if (
        name == "cupy"
        and (
            there := _try_device(
                launch, backend, lambda on: _run_on_device(launch, on, todo, verdicts)
            )
        )
        is not None
    ):
        return there
    if name == "cupy" or (name != "none" and launch.host_twin is not None):
        launch = launch.on_host
        name = choose(launch, backend, asked, form)
    if name != "none":
        for guard in launch.guards:
            guard.touch(todo)
    found: list[Plane] = [
        result_pool.allocate_words(words) if answer is None else answer for answer in launch.answers
    ]
    outs = [p for p in found if not isinstance(p, bool)]
    judged = None
    if name == "numba":
        judged = numba_cpu.run(launch, outs, verdicts, todo)
    elif name == "numpy":
        numpy_cpu.run(launch, outs, todo)
    for file in launch.files:
        file.check()
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
    if (
        todo is None
        and launch.answers[0] is None
        and launch.host_twin is None
        and choose(launch, backend, launch.n) == "numba"
    ):
        for guard in launch.guards:
            guard.touch()
        at, kept = numba_cpu.sift(
            launch,
            [result_pool.allocate_words(word_count(launch.n)) for a in launch.answers if a is None],
        )
        for file in launch.files:
            file.check()
        rest = iter(kept)
        found: list[Plane] = [
            clear_tail(next(rest), launch.n, at) if a is None else a for a in launch.answers
        ]
        return Result(found, "numba", words=at)
    result = run(launch, backend, todo=todo)
    first = result.planes[0]
    count = word_count(launch.n) if todo is None else len(todo)
    where = np.arange(count if first else 0) if isinstance(first, bool) else nonzero_words(first)
    at = where.astype(np.uint32) if todo is None else todo[where]
    return Result(
        [p if isinstance(p, bool) else p[where] for p in result.planes], result.backend, words=at
    )


def choose(launch: Launch, backend: Backend, n: int, form: Form = "all") -> str:
    """The backend that will judge n containers of a launch, by a kernel of some form; "none" when nothing is left to compute."""
    if backend not in BACKENDS:
        raise SkipstoneError(
            f"backend {backend!r} is not known; expected one of {', '.join(BACKENDS)}"
        )
    if backend == "cupy" and launch.on is None:
        from skipstone.kernels.gpu import cupy_gpu  # who has no GPU does not wait for its modules

        cupy_gpu.device()
    if not n or None not in launch.answers:
        return "none"
    if backend != "auto":
        return backend
    if launch.on is not None and launch.on.usable:
        from skipstone.kernels.gpu import gpu

        alone = (
            launch.host_twin is not None or launch.failed is not None
        )  # the CPU would wait for bounds that the device has alone
        if gpu.fits(launch) and (alone or (n >= gpu.MIN_CONTAINERS and gpu.ready(launch, form))):
            return "cupy"
    if compile_cache.find(Shape(launch.shape)) is not None:
        return "numba"
    compiler.count_use(Shape(launch.shape), n, numba_cpu.compile_shape)
    return "numpy"


def survivors(launch: Launch, backend: Backend = "auto") -> tuple[npt.NDArray[np.int64], str]:
    """Positions of the containers that pass the first root, ascending, int64, shape (k,), host memory; and which backend gave them.

    Args:
        launch: As in `run`; likewise the other, and what may go wrong.
    """
    if choose(launch, backend, launch.n) == "cupy":
        from skipstone.kernels.gpu import gpu

        if (
            found := _try_device(
                launch, backend, lambda on: on.device.download(gpu.survivors(launch, on))
            )
        ) is not None:
            return found, "cupy"
    result = run(launch, backend)
    match = result.planes[0]
    if isinstance(match, bool):
        return np.arange(launch.n if match else 0, dtype=np.int64), result.backend
    return planes.positions(match, launch.n), result.backend


def compile_ahead(launch: Launch) -> None:
    """Have the kernel of launches like this one compiled behind the scenes, or loaded from disk, if this process lacks it."""
    shape = Shape(launch.shape)
    if None in launch.answers and compile_cache.find(shape) is None:
        compiler.compile_in_background(shape, numba_cpu.compile_shape)


def run_many(launches: Sequence[Launch], backend: Backend = "auto") -> Verdicts:
    """The verdicts of many launches over the same statistics.

    Those that differ in literals alone are judged together, 64 containers at a time, so that what
    all of them read is read once.

    Returns:
        uint8 array, shape (launches, n), host memory.
    """
    n = launches[0].n
    lives_there = backend == "cupy" or launches[0].on is not None
    if lives_there and {
        choose(one, backend, n * len(launches), "many" if one.params else "all") for one in launches
    } | {"none"} == {"cupy", "none"}:
        from skipstone.kernels.gpu import gpu

        if (
            there := _try_device(launches[0], backend, lambda on: gpu.many_here(launches, on))
        ) is not None:
            return there
    launches = [launch.on_host for launch in launches]
    rows = numba_cpu.allocate_rows(len(launches), n)
    out = rows.reshape(len(launches), -1)[:, :n]
    for places in group_alike(launches):
        first = launches[places[0]]
        if shares_kernel(first, len(places), backend):
            for guard in first.guards:
                guard.touch(None)
            numba_cpu.run_many([launches[i] for i in places], places, rows)
            for file in first.files:
                file.check()
        else:
            for i in places:
                verdicts = run(launches[i], backend, verdicts=True).verdicts
                out[i] = 0 if verdicts is None else verdicts
    return out


def stays_here(out: Out) -> bool:
    """Whether results are for host memory.

    Raises:
        SkipstoneError: nowhere has that name.
    """
    if out not in ("host", "device"):
        raise SkipstoneError(f"out {out!r} is not known; expected 'host' or 'device'")
    return out == "host"


def on_device(
    launch: Launch, backend: Backend, work: Callable[[Resident], DeviceArray]
) -> DeviceArray:
    """What work over a launch gives, which stays on the device.

    Raises:
        SkipstoneError: the statistics are in host memory, and "cupy" was not asked; or a backend of the CPU was.
        BackendMissing, DeviceError: there is no device, or it failed: nothing else could give the answer.
    """
    if backend not in ("auto", "cupy"):
        raise SkipstoneError(
            f"backend {backend!r} gives its answers in host memory; for out='device' use backend='cupy' or 'auto'"
        )
    if backend == "auto" and launch.on is None:
        raise SkipstoneError(
            "out='device' was asked of statistics in host memory; give stats.to_device(), or backend='cupy' to upload them for this call"
        )
    return work(_resident_of(launch))


def _try_device(launch: Launch, backend: Backend, work: Callable[[Resident], T]) -> T | None:
    """What work on a launch's device gives; None where it failed and "auto" goes on without it."""
    try:
        return work(_resident_of(launch))
    except (BackendMissing, DeviceError) as e:
        if backend != "auto" or launch.on is None:
            raise
        launch.on.give_up(e)
        return None


def _resident_of(launch: Launch) -> Resident:
    """Where a launch's inputs lie, or are uploaded for this call."""
    if launch.failed is not None:
        raise launch.failed
    if launch.on is not None:
        return launch.on
    from skipstone.kernels.gpu import cupy_gpu

    return Resident(cupy_gpu.device())


def _run_on_device(launch: Launch, on: Resident, todo: Todo, verdicts: bool) -> Result:
    from skipstone.kernels.gpu import gpu

    if verdicts and todo is None:
        return Result((), "cupy", on.device.download(gpu.verdicts(launch, on)))
    found = gpu.run(launch, on, todo)
    count = (word_count(launch.n) if todo is None else len(todo)) * 64
    return Result(found, "cupy", planes.verdicts(found, count) if verdicts else None)


def shares_kernel(launch: Launch, count: int, backend: Backend) -> bool:
    """Whether so many launches like this one are judged by one kernel, which must be there or be waited for."""
    if (
        count < 2
        or launch.sets
        or not launch.params
        or launch.n < 64
        or backend not in ("auto", "numba")
    ):
        return False
    shape = Shape(launch.shape, many=True)
    if backend == "numba" or compile_cache.find(shape) is not None:
        return True
    compiler.count_use(shape, launch.n * count, numba_cpu.compile_shape)
    return False
