"""A device that is not there, is full, or is lost: who asked for it by name is told what to do, and "auto" goes on with the CPU, warning once."""

import ast
import importlib
import multiprocessing
import os
import re
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.kernels import cupy_gpu, gpu
from skipstone.kernels.cuda_text import THREADS
from tests.cuda_emulated import MISSING, Emulated

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])
P = ss.PruningPredicate("x > 3 AND y < 90", SCHEMA)


def small(n=200):
    x = np.arange(n)
    return ss.Statistics.from_dict({"x": {"min": x, "max": x + 5}, "y": {"min": x[::-1].copy()}}, SCHEMA)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    if MISSING:
        pytest.skip(MISSING)
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def card(libraries, monkeypatch):
    """A device of its own, to be broken, that judges however few containers there are."""
    monkeypatch.setattr(gpu, "WORTH", 0)
    return Emulated(libraries)


CALLS = {
    "prune": lambda stats, backend: P.prune(stats, backend),
    "evaluate": lambda stats, backend: P.evaluate(stats, backend),
    "survivors": lambda stats, backend: P.survivors(stats, backend),
    "prune_many": lambda stats, backend: ss.prune_many([P, ss.PruningPredicate("x > 5 AND y < 80", SCHEMA)], stats, backend),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("way", ["full", "lost"])
def test_auto_goes_on_with_the_cpu(call, way, card):
    host = small()
    stats, expected = host.to_device(card), call(host, "numpy").tolist()
    if way == "full":
        card.memory.size = 0
    else:
        assert call(stats, "auto").tolist() == expected
        card.memory.lose()
    with pytest.warns(RuntimeWarning, match="skipstone goes on with the CPU: the device is") as told:
        assert call(stats, "auto").tolist() == expected
    assert len(told) == 1
    assert call(stats, "auto").tolist() == expected  # not told twice
    with pytest.raises(ss.DeviceError, match="out of memory" if way == "full" else "lost"):
        call(stats, "cupy")
    with pytest.raises(ss.DeviceError):
        P.prune(stats, out="device")
    if way == "full":
        card.memory.size = 1 << 30
        stats.release()
        before = card.memory.used
        assert call(stats, "auto").tolist() == expected
        assert card.memory.used > before


def test_levels_go_on_with_the_cpu(card, monkeypatch):
    from skipstone.kernels import descend

    monkeypatch.setattr(descend, "FLAT", 0)
    host = small(4000)
    stats = host.index(block=50).to_device(card)
    card.memory.lose()
    with pytest.warns(RuntimeWarning, match="goes on with the CPU"):
        assert P.survivors(stats).tolist() == P.survivors(host).tolist()
    assert P.prune(stats).tolist() == P.prune(host).tolist()


def test_bounds_that_only_the_device_has(card):
    """They are judged where no room is left to mend them, as they can come here; once it is lost, they cannot."""
    inverted = np.array([7, 1, 5])
    given = {"x": {"min": card.upload(inverted), "max": card.upload(inverted[::-1].copy())}}
    stats = ss.Statistics.from_device(given, SCHEMA, device=card)
    p = ss.PruningPredicate("x > 5", SCHEMA)
    card.memory.size = card.memory.used
    with pytest.warns(RuntimeWarning, match="out of memory"):
        assert p.prune(stats).tolist() == [True, False, True]
    card.memory.lose()
    assert p.prune(stats).tolist() == [True, False, True]
    with pytest.raises(ss.DeviceError, match="lost"):
        ss.PruningPredicate("x > 5", SCHEMA).prune(ss.Statistics.from_device(given, SCHEMA, device=card))


def in_child(stats, queue):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kept = int(P.prune(stats).sum())
    try:
        P.prune(stats, "cupy")
    except ss.DeviceError as e:
        queue.put((kept, [str(w.message) for w in told], str(e)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_leaves_the_device_alone(card):
    stats = small().to_device(card)
    kept, uses = int(P.prune(stats).sum()), card.launches
    queue = multiprocessing.get_context("fork").Queue()
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(stats, queue))
    child.start()
    try:
        found, (told,), raised = queue.get(timeout=60)
    finally:
        child.join(10)
    assert found == kept
    assert "CUDA does not survive a fork" in told and "'spawn' or 'forkserver'" in raised
    assert int(P.prune(stats).sum()) == kept and card.launches == uses + 2


# What keeps a device from being there. CuPy is not, or its errors are those that CuPy 14.2 raises.


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class OutOfMemoryError(MemoryError):
    pass


def cupy_that_says(error=None, driver=13020, count=1, **runtime):
    """CuPy as far as `device` asks it: what it says without a GPU, or with one that fails."""

    def devices():
        if error is not None:
            raise error
        return count

    asked = {"getDeviceCount": devices, "getDevice": lambda: 0, "driverGetVersion": lambda: driver, "runtimeGetVersion": lambda: 13020}
    asked |= {"CUDARuntimeError": CUDARuntimeError, "getDeviceProperties": lambda number: {"name": b"A card"}, **runtime}
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
#    what CUDA says                                                              driver   what people are told
ABSENT = {
    "no driver": (CUDARuntimeError(35, OLD), 0, "cupy 14.2.0 for CUDA 13.2 but no NVIDIA driver; install one"),
    "an older CUDA": (CUDARuntimeError(35, OLD), 12040, r"a driver for CUDA 12.4, which is too old for it; install cupy for it: .*gpu-cuda12"),
    "a very old one": (CUDARuntimeError(35, OLD), 11080, "a driver for CUDA 11.8, which is too old for it; update the driver"),
    "no device": (CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected"), 13020, "and a driver, but no device"),
}
BROKEN = {
    "a fork": (CUDARuntimeError(3, "cudaErrorInitializationError: initialization error"), "start processes by 'spawn'"),
    "busy": (CUDARuntimeError(46, "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable"), "is/are busy or unavailable"),
}


@pytest.fixture
def nothing_known(monkeypatch):
    monkeypatch.setattr(cupy_gpu, "_devices", {})
    monkeypatch.setattr(cupy_gpu, "_process", None)


@pytest.mark.parametrize("error, driver, says", ABSENT.values(), ids=ABSENT)
def test_what_is_missing_is_told(error, driver, says, nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_says(error, driver))
    for ask in (lambda: P.prune(small(), "cupy"), lambda: small().to_device(), lambda: ss.Statistics.from_device({}, SCHEMA)):
        with pytest.raises(ss.BackendMissing, match=says):
            ask()


@pytest.mark.parametrize("error, says", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_told(error, says, nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_says(error))
    with pytest.raises(ss.DeviceError, match=re.escape(says)):
        small().to_device()


def test_no_cupy(nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ss.BackendMissing, match=r"needs a GPU and the cupy package: pip install .*gpu-cuda13.*use backend='numba'"):
        P.prune(small(), "cupy")
    assert P.prune(small(), "auto").any()


def test_no_such_device(nothing_known, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_says(count=2))
    for number in (2, -1):
        with pytest.raises(ss.BackendMissing, match=f"no device {number}; CUDA counts 2"):
            small().to_device(number)


FAILS = {
    "full": (OutOfMemoryError("Out of memory allocating 10 bytes"), "no room to allocate 10 bytes: 1 of 2 MiB are free there; release"),
    "full as well": (CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory"), "no room to allocate 10 bytes"),
    "lost": (CUDARuntimeError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered"), "is lost, it could not allocate 10 bytes"),
    "of another card": (CUDARuntimeError(209, "cudaErrorNoKernelImageForDevice"), "(sm_90) refuses a kernel"),
    "forked": (CUDARuntimeError(3, "cudaErrorInitializationError"), "if this process was forked"),
}


@pytest.mark.parametrize("error, says", FAILS.values(), ids=FAILS)
def test_what_fails_is_told(error, says, nothing_known, monkeypatch):
    def fails(*_):
        raise error

    fake = cupy_that_says(memGetInfo=lambda: (1 << 20, 2 << 20))
    fake.empty = fails
    monkeypatch.setitem(sys.modules, "cupy", fake)
    device = cupy_gpu.device()
    assert device.name == "A card (device 0)" and cupy_gpu.device(0) is device
    with pytest.raises(ss.DeviceError, match=re.escape(says)):
        device.empty(10, "uint8")


def test_a_fork_after_use_is_told(nothing_known, monkeypatch):
    monkeypatch.setattr(cupy_gpu, "_process", os.getpid() + 1)
    with pytest.raises(ss.DeviceError, match="CUDA does not survive a fork; start processes by 'spawn'"):
        cupy_gpu.device()


def chains(tree):
    """Names of CuPy that its home uses, such as cuda.runtime.getDeviceCount."""
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in ("cupy", "cuda") and parts:
            yield ".".join((["cuda"] if node.id == "cuda" else []) + parts)
        elif isinstance(node, ast.Name) and node.id == "self" and parts[:1] == ["_cupy"] and parts[1:]:
            yield ".".join(parts[1:])


def test_every_name_of_cupy_is_there():
    """What stands in for CuPy here has whatever it is asked for; the package itself, where it is installed, must have it too."""
    names = set(chains(ast.parse(Path(cupy_gpu.__file__).read_text())))
    assert {"cuda.runtime.getDeviceCount", "cuda.Module", "empty", "asnumpy", "from_dlpack", "cuda.UnownedMemory"} <= names
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    for name in names:
        found = cupy
        for part in name.split("."):
            found = getattr(found, part, None) or importlib.import_module(f"{found.__name__}.{part}")
    assert THREADS <= 1024
