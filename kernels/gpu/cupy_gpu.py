"""CuPy as a device: its memory, streams and launches, and the meaning of its errors.

Kernels are compiled by direct calls of NVRTC (nvrtc.py). `cupy.RawModule` and `RawKernel` are not
used: they add `-ftz=true`. Then float32 bounds below 1.2e-38 compare as 0, and containers that hold
matching rows are pruned.

Arrays come from CuPy's current memory pool, and work goes to its current stream.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skipstone.ir.errors import BackendMissing, DeviceError, SkipstoneError
from skipstone.kernels.gpu import nvrtc, uploads
from skipstone.kernels.gpu.cuda_text import THREADS
from skipstone.kernels.gpu.device import DeviceArray, Function
from skipstone.kernels.run.result_pool import allocate

FALLBACK: Final = "use backend='numba' or 'auto'"
EXTRAS: Final = (
    'pip install "skipstone[gpu-cuda13]" (or [gpu-cuda12] for drivers of CUDA 12; never both)'
)
# Values of cudaError_t and CUresult, which use the same numbers.
NO_MEMORY, NOT_INITIALIZED, OLD_DRIVER, BUSY, NO_DEVICE, NO_SUCH_DEVICE = 2, 3, 35, 46, 100, 101
# The kernel is for another architecture, or from another CUDA version.
NO_IMAGE: Final = (200, 209, 218, 222)
HOST_TO_DEVICE: Final = 1  # cudaMemcpyHostToDevice

_devices: dict[int, CupyDevice] = {}
_process: int | None = None  # the process that used CUDA first


def device(number: int | None = None) -> CupyDevice:
    """Return a device of this machine.

    Args:
        number: The number of the device as CUDA counts; None means CuPy's current device.

    Raises:
        BackendMissing: CuPy, a driver or a device is missing, or they do not fit each other; the
            message says how to fix it.
        DeviceError: the device is there and cannot be used.
    """
    global _process
    if _process is not None and _process != os.getpid():
        raise DeviceError(
            f"process {_process} used CUDA and then forked this process, and CUDA does not survive "
            "a fork; start processes by 'spawn'"
        )
    cupy = _cupy()
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        chosen = cupy.cuda.runtime.getDevice() if number is None else number
    except RuntimeError as e:
        raise _missing_device(cupy, e) from e
    if not 0 <= chosen < count:
        raise BackendMissing(
            f"there is no device {chosen}; CUDA counts {count}, from 0 on "
            "(CUDA_VISIBLE_DEVICES decides which)"
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
        # For instance, NumPy has another major version; CuPy's first paragraph names the cause.
        raise BackendMissing(
            "backend 'cupy' found a cupy package that cannot be imported: "
            f"{_first_paragraph(e)}; {EXTRAS}; or {FALLBACK}"
        ) from e
    return cupy


def _missing_device(cupy: Any, error: RuntimeError) -> SkipstoneError:
    """Return the error that says why there is no device."""
    status = getattr(error, "status", None)
    made_for = _version(cupy.cuda.runtime.runtimeGetVersion)
    driver = _version(cupy.cuda.runtime.driverGetVersion)
    package = f"cupy {cupy.__version__} for CUDA {made_for}"
    if status == OLD_DRIVER and driver is None:
        return BackendMissing(
            f"backend 'cupy' found {package} but no NVIDIA driver; install one (`nvidia-smi` then "
            f"lists the devices), or {FALLBACK}"
        )
    if status == OLD_DRIVER:
        major = str(driver).partition(".")[0]
        way = (
            "install cupy for it: pip uninstall the other, then "
            f'pip install "skipstone[gpu-cuda{major}]"'
            if major in ("12", "13")
            else "update the driver"
        )
        return BackendMissing(
            f"backend 'cupy' found {package}, and a driver for CUDA {driver}, which is too old "
            f"for it; {way}, or {FALLBACK}"
        )
    if status == NO_DEVICE:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
        return BackendMissing(
            f"backend 'cupy' found {package} and a driver, but no device{why}; {FALLBACK}"
        )
    if status == NOT_INITIALIZED:
        return DeviceError(
            "CUDA cannot be initialized: most often the process was forked from one that used it; "
            "start processes by 'spawn'"
        )
    return DeviceError(
        f"backend 'cupy' found {package}, and CUDA fails: {_first_paragraph(error)}; {FALLBACK}"
    )


def _version(ask: Any) -> str | None:
    """Return a CUDA version, such as "13.2" for the number 13020; None if there is none.

    Without a driver, the version of the driver is 0.
    """
    try:
        number = int(ask())
    except RuntimeError:
        return None
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _first_paragraph(error: BaseException) -> str:
    """Return the first paragraph of a message on one line, at most 300 characters."""
    return " ".join(str(error).strip().split("\n\n")[0].split())[:300]


class CupyDevice:
    """A CUDA card as a `Device` (kernels/gpu/device.py).

    Threads may share it, each with its own current stream.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy, self._number = cupy, number
        self._functions: dict[str, Function] = {}
        with self._on_device("look at the device"):
            self._arch = f"sm_{cupy.cuda.Device(number).compute_capability}"
            self._major = cupy.cuda.runtime.runtimeGetVersion() // 1000
            properties = cupy.cuda.runtime.getDeviceProperties(number)
        self._name = f"{properties['name'].decode()} (device {number})"

    @property
    def name(self) -> str:
        """The driver's name of the card, with its number."""
        return self._name

    def upload(self, values: npt.NDArray[Any]) -> DeviceArray:
        """Copy a host array to the device.

        The stream is synchronized, so any other stream may read the copy.
        """
        with self._on_device("upload {:,} bytes", values.nbytes):
            out = self._cupy.empty(values.shape, values.dtype)
            given = np.ascontiguousarray(values)
            if uploads.pays(given.nbytes) and (buffers := self._pinned(out)):
                uploads.upload(given, buffers)
            else:
                out.set(given)
            self._cupy.cuda.get_current_stream().synchronize()
            return out

    def _pinned(self, out: DeviceArray) -> list[_Pinned]:
        """Return buffers for an array's upload; none if the host has no memory to pin."""
        try:
            return [_Pinned(self._cupy, out.data.ptr) for _ in range(uploads.BUFFERS)]
        except self._cupy.cuda.runtime.CUDARuntimeError as e:
            if e.status != NO_MEMORY:
                raise
            return []

    def empty(self, count: int, numpy_type: str) -> DeviceArray:
        """Allocate an uninitialized array from CuPy's current memory pool."""
        with self._on_device("allocate {:,} bytes", count * np.dtype(numpy_type).itemsize):
            return self._cupy.empty(count, numpy_type)

    def adopt(self, pointer: int, count: int, numpy_type: str, owner: object) -> DeviceArray:
        """Return an array over memory that another library allocated.

        Unaligned memory is copied, and the stream is synchronized as in `upload`.

        Raises:
            DeviceError: the memory is on another device or on the host.
        """
        size = np.dtype(numpy_type).itemsize
        with self._on_device("use an array of another library"):
            cuda = self._cupy.cuda
            lies = cuda.runtime.pointerGetAttributes(pointer).device
            if lies != self._number:
                # A kernel that reads another device's memory ends this device's context.
                if lies >= 0:
                    where = f"on device {lies}; give device={lies}"
                else:
                    where = "in host memory that CUDA does not know"
                raise DeviceError(
                    f"statistics for device {self._number} expected an array there, and got one "
                    f"that lies {where}"
                )
            memory = cuda.MemoryPointer(
                cuda.UnownedMemory(pointer, count * size, owner, self._number), 0
            )
            if pointer % size:
                copy = self._cupy.ndarray((count * size,), np.uint8, memory).copy().view(numpy_type)
                cuda.get_current_stream().synchronize()
                return copy
            return self._cupy.ndarray((count,), numpy_type, memory)

    def from_dlpack(self, given: Any) -> Any:
        """Convert a DLPack object to an array with `__cuda_array_interface__`."""
        with self._on_device("take an array by DLPack"):
            return self._cupy.from_dlpack(given)

    def download(self, values: DeviceArray) -> npt.NDArray[Any]:
        """Copy an array to host memory, after the work on the current stream."""
        size = values.nbytes
        out: npt.NDArray[Any] = allocate(size).view(values.dtype).reshape(values.shape)
        with self._on_device("download {:,} bytes", size):
            if size:
                self._cupy.asnumpy(values, out=out)
            return out

    def settle(self) -> None:
        """Wait for every stream of the device."""
        with self._on_device("wait for the device"):
            self._cupy.cuda.runtime.deviceSynchronize()

    def function(self, text: str) -> Function:
        """Return the function of a kernel's text, compiled for this card's architecture."""
        if text not in self._functions:
            cubin = nvrtc.compile_text(text, self._arch, major=self._major).cubin
            with self._on_device("load a kernel"):
                module = self._cupy.cuda.Module()
                module.load(cubin)
                self._functions[text] = module.get_function("kernel")
        return self._functions[text]

    def ready(self, text: str) -> bool:
        """Return True if the function of a text is loaded."""
        return text in self._functions

    def start(
        self, function: Function, blocks: int, arguments: Sequence[DeviceArray | np.generic]
    ) -> None:
        """Start blocks on CuPy's current stream."""
        with self._on_device("start a kernel"):
            function((blocks,), (THREADS,), tuple(arguments))

    def _on_device(self, what: str, size: int = 0) -> _OnDevice:
        return _OnDevice(self, self._cupy.cuda.Device(self._number), what, size)

    def explain(self, what: str, error: BaseException | None) -> DeviceError | None:
        """Return the error that says why the device could not do something, and the way out.

        None: the error is not CUDA's.
        """
        cuda = self._cupy.cuda
        if isinstance(error, cuda.memory.OutOfMemoryError):
            return DeviceError(self._out_of_memory(what, error))
        if isinstance(error, (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)):
            return DeviceError(self._describe_failure(what, error))
        return None

    def _out_of_memory(self, what: str, error: BaseException) -> str:
        try:
            free, total = self._cupy.cuda.runtime.memGetInfo()
            memory = f"{free >> 20:,} of {total >> 20:,} MiB are free there"
        except RuntimeError:
            memory = _first_paragraph(error)
        way = (
            "release() other statistics, call cupy.get_default_memory_pool().free_all_blocks(), "
            "or keep fewer columns there"
        )
        return f"device {self._number} has no room to {what}: {memory}; {way}, or {FALLBACK}"

    def _describe_failure(self, what: str, error: RuntimeError) -> str:
        status = getattr(error, "status", None)
        if status == NO_MEMORY:
            return self._out_of_memory(what, error)
        if status in NO_IMAGE:
            return (
                f"device {self._number} ({self._arch}) refuses a kernel: "
                f"{_first_paragraph(error)}; update the driver, or remove the folder 'cubins' of "
                "the cache"
            )
        if status == NOT_INITIALIZED:
            return (
                f"device {self._number} cannot {what}: {_first_paragraph(error)}; if this process "
                "was forked from one that used CUDA, start processes by 'spawn'"
            )
        return (
            f"device {self._number} is lost, it could not {what}: {_first_paragraph(error)}; its "
            f"memory is gone: start a new process, or {FALLBACK}"
        )


class _Pinned:
    """A pinned buffer (kernels/gpu/uploads.py) whose copies go to the current stream."""

    def __init__(self, cupy: Any, address: int) -> None:
        self._copy, self._address = cupy.cuda.runtime.memcpyAsync, address
        self._held = cupy.cuda.alloc_pinned_memory(uploads.BUFFER_BYTES)
        self.memory: uploads.Bytes = np.frombuffer(self._held, np.uint8, uploads.BUFFER_BYTES)
        self._stream, self._read = cupy.cuda.get_current_stream(), cupy.cuda.Event()

    def send(self, at: int, size: int) -> None:
        source, target = self.memory.ctypes.data, self._address + at
        self._copy(target, source, size, HOST_TO_DEVICE, self._stream.ptr)
        self._read.record(self._stream)

    def wait(self) -> None:
        self._read.synchronize()


class _OnDevice:
    """Make a device CuPy's current one, and turn CuPy's errors into `DeviceError`.

    A launch enters this for each array that it allocates. A generator would take 3 us each time,
    and a kernel over a million containers takes 5.
    """

    __slots__ = ("_current", "_device", "_size", "_what")

    def __init__(self, device: CupyDevice, current: Any, what: str, size: int) -> None:
        self._device, self._current, self._what, self._size = device, current, what, size

    def __enter__(self) -> None:
        try:
            self._current.__enter__()
        except Exception as e:
            self._raise(e)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._current.__exit__(None, None, None)
            return
        try:
            self._current.__exit__(kind, error, trace)
        finally:
            self._raise(error)

    def _raise(self, error: BaseException) -> None:
        """Raise the `DeviceError` of an error of CUDA."""
        explained = self._device.explain(self._what.format(self._size), error)
        if explained is not None:
            raise explained from error
