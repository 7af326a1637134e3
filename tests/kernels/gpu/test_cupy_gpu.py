"""Test the use of CuPy without a card: its calls, and the messages for the errors of CuPy 14.2."""

import ast
import importlib
import os
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import skipstone as ss
from skipstone.kernels.gpu import cupy_gpu, nvrtc
from skipstone.kernels.gpu.cuda_text import THREADS
from tests.support.cuda.memory import SET
from tests.support.cuda.two_columns import SCHEMA, P, small


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class OutOfMemoryError(MemoryError):
    pass


def cupy_that_says(error=None, driver=13020, count=1, **runtime):
    """Return the part of CuPy that `device` calls, without a GPU or with one that fails."""

    def devices():
        if error is not None:
            raise error
        return count

    asked = {
        "getDeviceCount": devices,
        "getDevice": lambda: 0,
        "driverGetVersion": lambda: driver,
        "runtimeGetVersion": lambda: 13020,
    }
    asked |= {
        "CUDARuntimeError": CUDARuntimeError,
        "getDeviceProperties": lambda number: {"name": b"A card"},
        **runtime,
    }
    cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(**asked),
        driver=types.SimpleNamespace(CUDADriverError=type("CUDADriverError", (RuntimeError,), {})),
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        Device=lambda number: Card(),
    )
    return types.SimpleNamespace(__version__="14.2.0", cuda=cuda)


class Card:
    compute_capability = "90"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
# CUDA's error, the driver's version, the message.
ABSENT = {
    "no driver": (
        CUDARuntimeError(35, OLD),
        0,
        "cupy 14.2.0 for CUDA 13.2 but no NVIDIA driver; install one",
    ),
    "an older CUDA": (
        CUDARuntimeError(35, OLD),
        12040,
        r"a driver for CUDA 12.4, which is too old for it; install cupy for it: .*gpu-cuda12",
    ),
    "a very old one": (
        CUDARuntimeError(35, OLD),
        11080,
        "a driver for CUDA 11.8, which is too old for it; update the driver",
    ),
    "no device": (
        CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected"),
        13020,
        "and a driver, but no device",
    ),
}
BROKEN = {
    "a fork": (
        CUDARuntimeError(3, "cudaErrorInitializationError: initialization error"),
        "start processes by 'spawn'",
    ),
    "busy": (
        CUDARuntimeError(
            46, "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable"
        ),
        "is/are busy or unavailable",
    ),
}


@pytest.fixture
def nothing_known(monkeypatch):
    monkeypatch.setattr(cupy_gpu, "_devices", {})
    monkeypatch.setattr(cupy_gpu, "_process", None)


@pytest.mark.parametrize("error, driver, says", ABSENT.values(), ids=ABSENT)
def test_missing_parts_are_named(error, driver, says, nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_says(error, driver))
    for ask in (
        lambda: P.prune(small(), "cupy"),
        lambda: small().to_device(),
        lambda: ss.Statistics.from_device({}, SCHEMA),
    ):
        with pytest.raises(ss.BackendMissing, match=says):
            ask()


@pytest.mark.parametrize("error, says", BROKEN.values(), ids=BROKEN)
def test_broken_parts_are_named(error, says, nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_says(error))
    with pytest.raises(ss.DeviceError, match=re.escape(says)):
        small().to_device()


def test_no_cupy(nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(
        ss.BackendMissing,
        match=r"needs a GPU and the cupy package: pip install .*gpu-cuda13.*use backend='numba'",
    ):
        P.prune(small(), "cupy")
    assert P.prune(small(), "auto").any()


def test_no_such_device(nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_says(count=2))
    for number in (2, -1):
        with pytest.raises(ss.BackendMissing, match=f"no device {number}; CUDA counts 2"):
            small().to_device(number)


FAILS = {
    "full": (
        OutOfMemoryError("Out of memory allocating 10 bytes"),
        "no room to allocate 10 bytes: 1 of 2 MiB are free there; release",
    ),
    "full as well": (
        CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory"),
        "no room to allocate 10 bytes",
    ),
    "lost": (
        CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered"),
        "is lost, it could not allocate 10 bytes",
    ),
    "of another card": (
        CUDARuntimeError(209, "cudaErrorNoKernelImageForDevice"),
        "(sm_90) refuses a kernel",
    ),
    "forked": (CUDARuntimeError(3, "cudaErrorInitializationError"), "if this process was forked"),
}


@pytest.mark.parametrize("error, says", FAILS.values(), ids=FAILS)
def test_failures_are_explained(error, says, nothing_known, monkeypatch):
    def fails(*_):
        raise error

    fake = cupy_that_says(memGetInfo=lambda: (1 << 20, 2 << 20))
    fake.empty = fails
    monkeypatch.setitem(sys.modules, "cupy", fake)
    device = cupy_gpu.device()
    assert device.name == "A card (device 0)" and cupy_gpu.device(0) is device
    with pytest.raises(ss.DeviceError, match=re.escape(says)):
        device.empty(10, "uint8")


def test_a_fork_after_use_is_refused(nothing_known, monkeypatch):
    monkeypatch.setattr(cupy_gpu, "_process", os.getpid() + 1)
    with pytest.raises(
        ss.DeviceError, match="CUDA does not survive a fork; start processes by 'spawn'"
    ):
        cupy_gpu.device()


def cupy_over(device, streams):
    """Return CuPy with the memory and launches of an emulated device."""

    def empty(shape, dtype):
        out = device.empty(*(shape if isinstance(shape, tuple) else (shape,)), dtype)

        def set_(values):
            assert values.flags.c_contiguous and values.dtype == out.dtype
            out.bytes[:], out.known[:] = values.view(np.uint8), SET

        out.set = set_
        return out

    class Module:
        def load(self, cubin):
            self.text = cubin.decode()

        def get_function(self, name):
            function = device.function(self.text)
            assert name == "kernel"

            def start(grid, block, arguments):
                assert block == (THREADS,) and isinstance(arguments, tuple)
                device.start(function, *grid, arguments)

            return start

    made = cupy_that_says(
        deviceSynchronize=device.settle,
        pointerGetAttributes=lambda pointer: types.SimpleNamespace(device=0),
    )
    made.cuda.Module = Module
    made.cuda.get_current_stream = lambda: types.SimpleNamespace(
        synchronize=lambda: streams.append(1)
    )
    made.cuda.UnownedMemory = lambda pointer, size, owner, number: (pointer, owner)
    made.cuda.MemoryPointer = lambda memory, offset: memory
    made.ndarray = lambda shape, dtype, memory: device.adopt(memory[0], *shape, dtype, memory[1])
    made.empty, made.from_dlpack = empty, device.from_dlpack
    made.asnumpy = lambda values, out: np.copyto(out, device.download(values))
    return made


def test_the_whole_way_through_cupy(device, nothing_known, monkeypatch):
    """Kernels are compiled for the card, loaded and started; arrays are uploaded, adopted and
    downloaded.
    """
    asked, streams = [], []
    monkeypatch.setitem(sys.modules, "cupy", cupy_over(device, streams))
    monkeypatch.setattr(
        nvrtc,
        "compile_text",
        lambda text, arch, major: asked.append((arch, major)) or nvrtc.Compiled(text.encode(), ""),
    )
    host, x = small(), np.arange(200)
    expected = P.evaluate(host, "numpy").tolist()
    assert P.evaluate(host, "cupy").tolist() == expected
    assert set(asked) == {("sm_90", 13)}
    stats = host.to_device()
    assert (stats.device, P.evaluate(stats, "cupy").tolist()) == ("A card (device 0)", expected)
    assert len(streams) == 2 * 2  # each upload was synchronized
    given = {
        "x": {"min": device.upload(x), "max": device.upload(x + 5)},
        "y": {"min": device.upload(x[::-1].copy())},
    }
    there = ss.Statistics.from_device(given, SCHEMA)
    assert device.download(P.evaluate(there, out="device")).tolist() == expected
    assert P.survivors(there).tolist() == np.flatnonzero(expected).tolist()
    before = len(asked)
    P.evaluate(there, "cupy")
    assert len(asked) == before  # a kernel is loaded once
    for lies, says in (
        (1, "lies on device 1; give device=1"),
        (-2, "lies in host memory that CUDA does not know"),
    ):
        sys.modules["cupy"].cuda.runtime.pointerGetAttributes = lambda pointer, lies=lies: (
            types.SimpleNamespace(device=lies)
        )
        with pytest.raises(ss.DeviceError, match=says):
            ss.Statistics.from_device(given, SCHEMA)


def test_a_copy_is_waited_for(device, nothing_known, monkeypatch):
    """An unaligned array is copied on the current stream; its reader may use another stream."""
    log = []
    fake = cupy_over(device, log)
    fake.ndarray = lambda *_: types.SimpleNamespace(
        copy=lambda: (log.append("copied"), types.SimpleNamespace(view=lambda lane: lane))[1]
    )
    monkeypatch.setitem(sys.modules, "cupy", fake)
    assert cupy_gpu.device().adopt(9, 3, "int64", None) == "int64"
    assert log == ["copied", 1]


def chains(tree):
    """Return the names of CuPy that cupy_gpu.py uses, such as cuda.runtime.getDeviceCount."""
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in ("cupy", "cuda") and parts:
            yield ".".join((["cuda"] if node.id == "cuda" else []) + parts)
        elif (
            isinstance(node, ast.Name)
            and node.id == "self"
            and parts[:1] == ["_cupy"]
            and parts[1:]
        ):
            yield ".".join(parts[1:])


def test_cupy_has_every_name_that_we_use():
    """The emulation here has every attribute; the package itself, if installed, must have these
    too.
    """
    names = set(chains(ast.parse(Path(cupy_gpu.__file__).read_text())))
    assert {
        "cuda.runtime.getDeviceCount",
        "cuda.Module",
        "empty",
        "asnumpy",
        "from_dlpack",
        "cuda.UnownedMemory",
    } <= names
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    for name in names:
        found = cupy
        for part in name.split("."):
            found = getattr(found, part, None) or importlib.import_module(
                f"{found.__name__}.{part}"
            )
    assert THREADS <= 1024
