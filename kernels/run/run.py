"""Run launches: choose a backend, and handle errors of devices.

"auto" switches to Numba once a kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import BackendMissing, DeviceError, SkipstoneError
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
    from skipstone.kernels.gpu.cuda_text import Variant
    from skipstone.kernels.gpu.device import DeviceArray
    from skipstone.kernels.gpu.resident import Resident

T = TypeVar("T")

Backend = Literal["auto", "numpy", "numba", "cupy"]
Out = Literal["host", "device"]
BACKENDS: Final = ("auto", "numpy", "numba", "cupy")


@dataclass(slots=True)
class Result:
    """The result of a launch.

    Attributes:
        planes: One plane for each root of the program, or one word of it for each of `todo`. If
            verdicts were requested, bits past the last container may be set. Empty if a device
            returned verdicts, or NumPy those of a few containers.
        backend: The backend that computed them; "none": nothing was left to compute.
        verdicts: uint8 array of shape (n,), host memory, if requested.
        words: The numbers of the words that the planes hold, uint32, ascending; None means all
            words that were judged.
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
        launch: The inputs. If the statistics live on a device and there are enough containers,
            "auto" uses the device.
        backend: "auto" answers with NumPy at once. If a compiled kernel pays, it is compiled in the
            background and used once it is ready. "cupy" uploads inputs that are not on the device
            yet, for this call.
        verdicts: Also return one byte per container.
        todo: The numbers of the words of containers to judge; None means all.

    Raises:
        BackendMissing: the backend is not available.
        DeviceError: the device failed, and the backend is not "auto".
        StatisticsError: the file that holds the statistics is damaged where they are read.
        SkipstoneError: no backend has that name.
    """
    words = word_count(launch.n) if todo is None else len(todo)
    count = launch.n if todo is None else words * 64
    variant: Variant = "all" if todo is None else "chosen"
    name = choose(launch, backend, count, variant)
    if name == "cupy":
        result = _try_device(launch, backend, lambda r: _run_on_device(launch, r, todo, verdicts))
        if result is not None:
            return result
    if name == "cupy" or (name != "none" and launch.host_twin is not None):
        launch = launch.on_host
        name = choose(launch, backend, count, variant)
    if name != "none":
        launch.verify(todo)
    if name == "numpy" and verdicts and todo is None and launch.n <= numpy_cpu.MAX_UNPACKED:
        judged = numpy_cpu.verdicts(launch)
        launch.check_files()
        return Result((), name, judged)
    found: list[Plane] = [
        result_pool.allocate_words(words) if answer is None else answer for answer in launch.answers
    ]
    outs = [p for p in found if not isinstance(p, bool)]
    verdict_bytes = None
    if name == "numba":
        verdict_bytes = numba_cpu.run(launch, outs, verdicts, todo)
    elif name == "numpy":
        numpy_cpu.run(launch, outs, todo)
    launch.check_files()
    if not verdicts:
        for p in outs:
            clear_tail(p, launch.n, todo)
    elif verdict_bytes is None:
        verdict_bytes = planes.verdicts(found, count)
    return Result(found, name, verdict_bytes)


def run_sparse(launch: Launch, backend: Backend = "auto", *, todo: Todo = None) -> Result:
    """Compute a launch, and keep only the words in which some container passes its first root.

    Args:
        launch: As in `run`.
        backend: As in `run`.
        todo: As in `run`.

    Raises:
        BackendMissing, DeviceError, StatisticsError, SkipstoneError: as in `run`.
    """
    if (
        todo is None
        and launch.answers[0] is None
        and launch.host_twin is None
        and choose(launch, backend, launch.n) == "numba"
    ):
        launch.verify()
        at, kept = numba_cpu.run_sparse(
            launch,
            [result_pool.allocate_words(word_count(launch.n)) for a in launch.answers if a is None],
        )
        launch.check_files()
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


def choose(launch: Launch, backend: Backend, n: int, variant: Variant = "all") -> str:
    """Return the backend that will judge containers of a launch.

    It is "none" if all roots are constant.

    Args:
        launch: The launch.
        backend: The backend that was requested.
        n: The number of containers to judge.
        variant: Which containers a device kernel judges, and how many predicates.

    Raises:
        SkipstoneError: no backend has that name.
        BackendMissing, DeviceError: "cupy" was requested, and no device can be used.
    """
    if backend not in BACKENDS:
        raise SkipstoneError(
            f"backend {backend!r} is not known; expected one of {', '.join(BACKENDS)}"
        )
    if backend == "cupy" and launch.resident is None:
        from skipstone.kernels.gpu import cupy_gpu  # without a GPU its modules are not imported

        cupy_gpu.device()
    if not n or None not in launch.answers:
        return "none"
    if backend != "auto":
        return backend
    if launch.resident is not None and launch.resident.usable:
        from skipstone.kernels.gpu import gpu

        # On the CPU, bounds that only the device has would be downloaded first.
        only_there = launch.host_twin is not None or launch.failed is not None
        if gpu.fits(launch) and (
            only_there or (n >= gpu.MIN_CONTAINERS and gpu.ready(launch, variant))
        ):
            return "cupy"
    if launch.compiled is None:
        launch.compiled = compile_cache.find(launch.key)
    if launch.compiled is not None:
        return "numba"
    compiler.count_use(launch.key, n, numba_cpu.compile_shape)
    return "numpy"


def survivors(launch: Launch, backend: Backend = "auto") -> tuple[npt.NDArray[np.int64], str]:
    """Return the containers that pass the first root.

    Args:
        launch: As in `run`.
        backend: As in `run`.

    Returns:
        Their positions, ascending, int64, shape (k,), host memory; and the backend that found them.

    Raises:
        BackendMissing, DeviceError, StatisticsError, SkipstoneError: as in `run`.
    """
    if choose(launch, backend, launch.n) == "cupy":
        from skipstone.kernels.gpu import gpu

        found = _try_device(launch, backend, lambda r: r.device.download(gpu.survivors(launch, r)))
        if found is not None:
            return found, "cupy"
    result = run(launch, backend)
    match = result.planes[0]
    if isinstance(match, bool):
        return np.arange(launch.n if match else 0, dtype=np.int64), result.backend
    return planes.positions(match), result.backend


def compile_ahead(launch: Launch) -> None:
    """Compile or load the kernel of a launch in the background, if this process lacks it."""
    if None in launch.answers and compile_cache.find(launch.key) is None:
        compiler.compile_in_background(launch.key, numba_cpu.compile_shape)


def run_many(launches: Sequence[Launch], backend: Backend = "auto") -> Verdicts:
    """Return the verdicts of many launches over the same statistics.

    Launches that differ only in literals are judged together, 64 containers at a time, so that the
    data that all of them read is read once.

    Args:
        launches: The launches.
        backend: As in `run`.

    Returns:
        uint8 array, shape (launches, n), host memory.

    Raises:
        BackendMissing, DeviceError, StatisticsError, SkipstoneError: as in `run`.
    """
    n = launches[0].n
    if backend == "cupy" or launches[0].resident is not None:
        chosen = {
            choose(one, backend, n * len(launches), "many" if one.params else "all")
            for one in launches
        }
        if chosen | {"none"} == {"cupy", "none"}:
            from skipstone.kernels.gpu import gpu

            result = _try_device(launches[0], backend, lambda r: gpu.many_on_host(launches, r))
            if result is not None:
                return result
    launches = [launch.on_host for launch in launches]
    rows = numba_cpu.allocate_rows(len(launches), n)
    out = rows.reshape(len(launches), -1)[:, :n]
    for positions in group_alike(launches):
        first = launches[positions[0]]
        if shares_kernel(first, len(positions), backend):
            first.verify()
            numba_cpu.run_many([launches[i] for i in positions], positions, rows)
            first.check_files()
        else:
            for i in positions:
                verdicts = run(launches[i], backend, verdicts=True).verdicts
                out[i] = 0 if verdicts is None else verdicts
    return out


def is_host_output(out: Out) -> bool:
    """Return True if results go to host memory.

    Raises:
        SkipstoneError: `out` is neither "host" nor "device".
    """
    if out not in ("host", "device"):
        raise SkipstoneError(f"out is {out!r}; expected 'host' or 'device'")
    return out == "host"


def on_device(
    launch: Launch, backend: Backend, work: Callable[[Resident], DeviceArray]
) -> DeviceArray:
    """Return the result of work on a launch, which stays on the device.

    Args:
        launch: The launch.
        backend: "auto" or "cupy".
        work: Computes the result from the device's copy of the inputs.

    Raises:
        SkipstoneError: the backend runs on the CPU, or it is "auto" and the statistics are in host
            memory.
        BackendMissing, DeviceError: there is no device, or it failed. No other backend can give the
            result.
    """
    if backend not in ("auto", "cupy"):
        raise SkipstoneError(
            f"backend {backend!r} returns results in host memory; for out='device' use "
            "backend='cupy' or 'auto'"
        )
    if backend == "auto" and launch.resident is None:
        raise SkipstoneError(
            "out='device' needs statistics on a device, and got statistics in host memory; use "
            "stats.to_device(), or backend='cupy' to upload them for this call"
        )
    return work(_resident_of(launch))


def _try_device(launch: Launch, backend: Backend, work: Callable[[Resident], T]) -> T | None:
    """Return the result of work on a launch's device.

    None: the device failed, and "auto" continues without it.
    """
    try:
        return work(_resident_of(launch))
    except (BackendMissing, DeviceError) as e:
        if backend != "auto" or launch.resident is None:
            raise
        launch.resident.give_up(e)
        return None


def _resident_of(launch: Launch) -> Resident:
    """Return the copies of a launch's statistics on a device.

    Without any, the inputs are uploaded for this call.
    """
    if launch.failed is not None:
        raise launch.failed
    if launch.resident is not None:
        return launch.resident
    from skipstone.kernels.gpu import cupy_gpu
    from skipstone.kernels.gpu.resident import Resident

    return Resident(cupy_gpu.device())


def _run_on_device(launch: Launch, resident: Resident, todo: Todo, verdicts: bool) -> Result:
    from skipstone.kernels.gpu import gpu

    if verdicts and todo is None and launch.n > gpu.MAX_UNPACKED:
        return Result((), "cupy", resident.device.download(gpu.verdicts(launch, resident)))
    found = gpu.run(launch, resident, todo)
    count = launch.n if todo is None else len(todo) * 64
    return Result(found, "cupy", planes.verdicts(found, count) if verdicts else None)


def shares_kernel(launch: Launch, count: int, backend: Backend) -> bool:
    """Return True if `count` launches like this one are judged together, by one kernel.

    That kernel must be compiled already, unless the backend is "numba", which waits for it.
    """
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
