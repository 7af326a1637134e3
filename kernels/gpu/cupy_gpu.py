"""The card: CuPy's memory, streams and launches, and what its errors mean.

Kernels are compiled by NVRTC called directly (nvrtc.py). `cupy.RawModule` and `RawKernel` are not used: they add
`-ftz=true`, after which float32 bounds below 1.2e-38 compare as 0, and containers are pruned that hold matching rows.

Arrays come from CuPy's current memory pool, work goes to its current stream.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import BackendMissing, DeviceError, SkipstoneError
from skipstone.kernels.gpu import nvrtc
from skipstone.kernels.gpu.cuda_text import THREADS
from skipstone.kernels.gpu.device import DeviceArray, Function

FALLBACK: Final = "use backend='numba' or 'auto'"
EXTRAS: Final = (
    'pip install "skipstone[gpu-cuda13]" (or [gpu-cuda12] for drivers of CUDA 12; never both)'
)
# Of cudaError_t and CUresult, which number alike.
NO_MEMORY, NOT_INITIALIZED, OLD_DRIVER, BUSY, NO_DEVICE, NO_SUCH_DEVICE = 2, 3, 35, 46, 100, 101
NO_IMAGE: Final = (
    200,
    209,
    218,
    222,
)  # the kernel is for another architecture, or from another CUDA

_devices: dict[int, CupyDevice] = {}
_process: int | None = None  # that used CUDA first


def device(number: int | None = None) -> CupyDevice:
    """A device of this machine.

    Args:
        number: As CUDA counts them; None: CuPy's current one.

    Raises:
        BackendMissing: CuPy, a driver or a device is not there, or they do not fit each other; the message says what to do.
        DeviceError: it is there, and cannot be used.
    """
    global _process
    if _process is not None and _process != os.getpid():
        raise DeviceError(
            f"process {_process} used CUDA before this one was forked of it, and CUDA does not survive a fork; start processes by 'spawn'"
        )
    cupy = _cupy()
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        chosen = cupy.cuda.runtime.getDevice() if number is None else number
    except RuntimeError as e:
        raise _missing_device(cupy, e) from e
    if not 0 <= chosen < count:
        raise BackendMissing(
            f"there is no device {chosen}; CUDA counts {count}, from 0 on (CUDA_VISIBLE_DEVICES decides which)"
        )
    if chosen not in _devices:
        _devices[chosen] = CupyDevice(cupy, chosen)
        _process = os.getpid()
    return _devices[chosen]


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as e:
        if isinstance(e, ModuleNotFoundError) and e.name == "cupy":
            raise BackendMissing(
                f"backend 'cupy' needs a GPU and the cupy package: {EXTRAS}; or {FALLBACK}"
            ) from None
        # Such as NumPy of another major version; CuPy's first paragraph says which.
        raise BackendMissing(
            f"backend 'cupy' found a cupy package that cannot be imported: {_first_paragraph(e)}; {EXTRAS}; or {FALLBACK}"
        ) from e
    return cupy


def _missing_device(cupy: Any, error: RuntimeError) -> SkipstoneError:
    """Why no device can be had."""
    status = getattr(error, "status", None)
    made_for = _version(cupy.cuda.runtime.runtimeGetVersion)
    driver = _version(cupy.cuda.runtime.driverGetVersion)
    package = f"cupy {cupy.__version__} for CUDA {made_for}"
    if status == OLD_DRIVER and driver is None:
        return BackendMissing(
            f"backend 'cupy' found {package} but no NVIDIA driver; install one (`nvidia-smi` then lists the devices), or {FALLBACK}"
        )
    if status == OLD_DRIVER:
        major = str(driver).partition(".")[0]
        way = (
            f'install cupy for it: pip uninstall the other, then pip install "skipstone[gpu-cuda{major}]"'
            if major in ("12", "13")
            else "update the driver"
        )
        return BackendMissing(
            f"backend 'cupy' found {package}, and a driver for CUDA {driver}, which is too old for it; {way}, or {FALLBACK}"
        )
    if status == NO_DEVICE:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
        return BackendMissing(
            f"backend 'cupy' found {package} and a driver, but no device{why}; {FALLBACK}"
        )
    if status == NOT_INITIALIZED:
        return DeviceError(
            "CUDA cannot be initialized: most often the process was forked of one that used it; start processes by 'spawn'"
        )
    return DeviceError(
        f"backend 'cupy' found {package}, and CUDA fails: {_first_paragraph(error)}; {FALLBACK}"
    )


def _version(ask: Any) -> str | None:
    """CUDA's versions are numbers such as 13020; without a driver its version is 0."""
    try:
        number = int(ask())
    except RuntimeError:
        return None
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _first_paragraph(error: BaseException) -> str:
    """The first lines of a message, in one."""
    return " ".join(str(error).strip().split("\n\n")[0].split())[:300]


class CupyDevice:
    """A card, as kernels see it (kernels/gpu/device.py). Safe to share between threads, each with its own current stream."""

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy, self._number = cupy, number
        self._functions: dict[str, Function] = {}
        with self._translate_errors("look at the device"):
            self._arch = f"sm_{cupy.cuda.Device(number).compute_capability}"
            self._major = cupy.cuda.runtime.runtimeGetVersion() // 1000
            properties = cupy.cuda.runtime.getDeviceProperties(number)
        self._name = f"{properties['name'].decode()} (device {number})"

    @property
    def name(self) -> str:
        """As the driver names it, with its number."""
        return self._name

    def upload(self, values: npt.NDArray[Any]) -> DeviceArray:
        """A copy of a host array. The stream is waited for, so that any other may read it."""
        with self._on_device(f"upload {values.nbytes:,} bytes"):
            out = self._cupy.empty(values.shape, values.dtype)
            out.set(np.ascontiguousarray(values))
            self._cupy.cuda.get_current_stream().synchronize()
            return out

    def empty(self, count: int, lane: str) -> DeviceArray:
        """Room in CuPy's current memory pool."""
        with self._on_device(f"allocate {count * np.dtype(lane).itemsize:,} bytes"):
            return self._cupy.empty(count, lane)

    def adopt(self, pointer: int, count: int, lane: str, owner: object) -> DeviceArray:
        """An array over memory that somebody else allocated; where that is not aligned a copy, which is waited for as in `upload`."""
        size = np.dtype(lane).itemsize
        with self._on_device("use an array of another library"):
            cuda = self._cupy.cuda
            lies = cuda.runtime.pointerGetAttributes(pointer).device
            if (
                lies != self._number
            ):  # a kernel that reads another device's memory ends the context of this one
                where = (
                    f"on device {lies}; give device={lies}"
                    if lies >= 0
                    else "in host memory that CUDA does not know"
                )
                raise DeviceError(
                    f"statistics for device {self._number} were given an array that lies {where}"
                )
            memory = cuda.MemoryPointer(
                cuda.UnownedMemory(pointer, count * size, owner, self._number), 0
            )
            if pointer % size:
                copy = self._cupy.ndarray((count * size,), np.uint8, memory).copy().view(lane)
                cuda.get_current_stream().synchronize()
                return copy
            return self._cupy.ndarray((count,), lane, memory)

    def from_dlpack(self, given: Any) -> Any:
        """What another library gives by DLPack, as an object with `__cuda_array_interface__`."""
        with self._on_device("take an array by DLPack"):
            return self._cupy.from_dlpack(given)

    def download(self, values: DeviceArray) -> npt.NDArray[Any]:
        """A copy in host memory, after what was started on the current stream."""
        with self._on_device(f"download {values.nbytes:,} bytes"):
            found: npt.NDArray[Any] = self._cupy.asnumpy(values)
            return found

    def settle(self) -> None:
        """Wait for every stream of the device."""
        with self._on_device("wait for the device"):
            self._cupy.cuda.runtime.deviceSynchronize()

    def function(self, text: str) -> Function:
        """The function of a text, compiled for this card's architecture."""
        if text not in self._functions:
            cubin = nvrtc.compile_text(text, self._arch, major=self._major).cubin
            with self._on_device("load a kernel"):
                module = self._cupy.cuda.Module()
                module.load(cubin)
                self._functions[text] = module.get_function("kernel")
        return self._functions[text]

    def ready(self, text: str) -> bool:
        """Whether the function of a text is loaded."""
        return text in self._functions

    def start(
        self, function: Function, blocks: int, arguments: Sequence[DeviceArray | np.generic]
    ) -> None:
        """Start blocks on CuPy's current stream."""
        with self._on_device("start a kernel"):
            function((blocks,), (THREADS,), tuple(arguments))

    @contextlib.contextmanager
    def _on_device(self, what: str) -> Iterator[None]:
        with self._translate_errors(what), self._cupy.cuda.Device(self._number):
            yield

    @contextlib.contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Say of CuPy's errors what they mean."""
        cuda = self._cupy.cuda
        try:
            yield
        except cuda.memory.OutOfMemoryError as e:
            raise DeviceError(self._out_of_memory(what, e)) from e
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError) as e:
            raise DeviceError(self._describe_failure(what, e)) from e

    def _out_of_memory(self, what: str, error: BaseException) -> str:
        try:
            free, total = self._cupy.cuda.runtime.memGetInfo()
            room = f"{free >> 20:,} of {total >> 20:,} MiB are free there"
        except RuntimeError:
            room = _first_paragraph(error)
        way = "release() other statistics, call cupy.get_default_memory_pool().free_all_blocks(), or keep fewer columns there"
        return f"device {self._number} has no room to {what}: {room}; {way}, or {FALLBACK}"

    def _describe_failure(self, what: str, error: RuntimeError) -> str:
        status = getattr(error, "status", None)
        if status == NO_MEMORY:
            return self._out_of_memory(what, error)
        if status in NO_IMAGE:
            return f"device {self._number} ({self._arch}) refuses a kernel: {_first_paragraph(error)}; update the driver, or remove the folder 'cubins' of the cache"
        if status == NOT_INITIALIZED:
            return f"device {self._number} cannot {what}: {_first_paragraph(error)}; if this process was forked of one that used CUDA, start processes by 'spawn'"
        return f"device {self._number} is lost, it could not {what}: {_first_paragraph(error)}; what lay there is gone: start a new process, or {FALLBACK}"
