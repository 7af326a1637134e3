"""NVRTC, NVIDIA's compiler of CUDA C++, called directly: a kernel's text becomes machine code without a device or a driver.

CuPy's own way to NVRTC adds `-ftz=true`, whatever it is told (cupy issue 9576): float32 values below 1.2e-38 then compare as
zero, and containers that hold such rows are pruned. So text is compiled here and CuPy only loads the result. Machine code is
kept in memory and on disk (kernels/run/compile_cache.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import hashlib
import os
import re
import sys
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from skipstone.ir.errors import BackendMissing, DeviceError
from skipstone.kernels.run import compile_cache

# What a comparison says must not depend on where it runs: no product is fused with a sum, and denormals are numbers.
OPTIONS: Final = ("--std=c++17", "-default-device", "--fmad=false", "--ftz=false", "-Xptxas=-v")
MAJORS: Final = (13, 12)  # of CUDA, the one to prefer first
# Where a CUDA toolkit lies under its root, and where under a folder of installed packages its parts do.
IN_ROOT: Final = (
    ("bin/nvrtc64_{0}*_0.dll", "bin/x64/nvrtc64_{0}*_0.dll")
    if sys.platform == "win32"
    else ("lib64/libnvrtc.so.{0}", "lib/libnvrtc.so.{0}")
)
IN_PACKAGES: Final = (
    ("*/bin/nvrtc64_{0}*_0.dll", "*/bin/*/nvrtc64_{0}*_0.dll")
    if sys.platform == "win32"
    else ("*/lib/libnvrtc.so.{0}",)
)
LIBRARY_NAME: Final = "nvrtc64_{0}0_0.dll" if sys.platform == "win32" else "libnvrtc.so.{0}"


class Compiled(NamedTuple):
    """What NVRTC made of a text.

    Attributes:
        cubin: Machine code; PTX, which drivers compile, where NVRTC does not know the architecture yet.
        log: What it says of the code: registers, stack, spills.
    """

    cubin: bytes
    log: str


def compile_text(text: str, arch: str, *, major: int | None = None) -> Compiled:
    """The machine code of a text: from memory, from disk, or compiled now, in 30 to 300 ms.

    Args:
        text: CUDA C++ with one function, `extern "C"`.
        arch: Of the card: "sm_90".
        major: Of CUDA. Drivers load machine code of their own major version or older; None: any.

    Raises:
        BackendMissing: NVRTC is not there, or makes no code for cards as old as this.
        DeviceError: the text is not CUDA C++.

    Example:
        >>> compile_text('extern "C" __global__ void kernel(int* x) { *x = 1; }', "sm_90").log  # doctest: +SKIP
        "... 0 bytes spill stores, 0 bytes spill loads\\nptxas info    : Used 8 registers ..."
    """
    key = ("nvrtc", text, arch, major)
    found: Any = compile_cache.find(key)
    return _cached(key, *key[1:]) if found is None else found


def ptx_of(
    text: str, arch: str, *, major: int | None = None, options: Sequence[str] = OPTIONS
) -> str:
    """The PTX that NVRTC makes of a text before it makes machine code; neither looked up nor kept.

    Args:
        text, arch, major: As in `compile_text`.
        options: Instead of those that kernels are compiled with.
    """
    found = _library(major).compile(
        text, [*options, f"--gpu-architecture=compute_{_number(arch)}"], "PTX"
    )
    return found.cubin.rstrip(b"\0").decode()


def version(major: int | None = None) -> tuple[int, int]:
    """NVRTC's, which is that of the CUDA toolkit it is from.

    Raises:
        BackendMissing: it is not there.
    """
    return _library(major).version


def _cached(key: Hashable, text: str, arch: str, major: int | None) -> Compiled:
    library = _library(major)
    options = [*OPTIONS, library.target(arch)]
    digest = hashlib.sha256("\0".join((text, *options, library.identity)).encode()).hexdigest()[:32]
    try:
        path = compile_cache.directory("cubins") / f"{digest}.cubin"
    except OSError:  # nothing can be kept anywhere
        return compile_cache.make_once(key, lambda: _compiled(library, text, options))

    def make() -> Compiled:
        found = _deserialize(path)
        if found is None:
            found = _compiled(library, text, options)
            with contextlib.suppress(OSError):  # a full disk: the next process compiles again
                compile_cache.write_whole(path, _serialize(found))
        return found

    with compile_cache.process_lock(path):
        return compile_cache.make_once(key, make)


def _compiled(library: _Library, text: str, options: Sequence[str]) -> Compiled:
    return library.compile(text, options, "PTX" if "compute_" in options[-1] else "CUBIN")


def _serialize(c: Compiled) -> bytes:
    """A file's bytes: a checksum of what follows, the log's length, the log, the code."""
    log = c.log.encode()
    rest = len(log).to_bytes(8, "little") + log + c.cubin
    return hashlib.sha256(rest).digest() + rest


def _deserialize(path: Path) -> Compiled | None:
    """What a file holds; None where there is none, or it is damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    checksum, rest = data[:32], data[32:]
    if hashlib.sha256(rest).digest() != checksum:
        return None
    end = 8 + int.from_bytes(rest[:8], "little")
    return Compiled(rest[end:], rest[8:end].decode())


class _Library:
    """One NVRTC, loaded."""

    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        numbers = (ctypes.c_int(), ctypes.c_int())
        self._call("nvrtcVersion", *map(ctypes.byref, numbers))
        self.version: tuple[int, int] = (numbers[0].value, numbers[1].value)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        self.identity = f"{self.version[0]}.{self.version[1]} {size}"  # patches keep the version, and mostly not the size
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        archs = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", archs)
        self.archs = sorted(archs)

    def target(self, arch: str) -> str:
        """The option that names what to make code for."""
        number = _number(arch)
        if number in self.archs:
            return f"--gpu-architecture=sm_{number}"
        older = [known for known in self.archs if known < number]
        if older:
            return f"--gpu-architecture=compute_{older[-1]}"
        oldest = f"NVRTC {self.version[0]}.{self.version[1]} makes no code for {arch}; the oldest that it knows is sm_{self.archs[0]}."
        raise BackendMissing(
            f"{oldest} CUDA 12 goes back to sm_50: pip install 'skipstone[gpu-cuda12]'; or use backend='numba'"
        )

    def compile(self, text: str, options: Sequence[str], wanted: str) -> Compiled:
        """Machine code ("CUBIN") or "PTX"."""
        program, given = ctypes.c_void_p(), [o.encode() for o in options]
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None
        )
        try:
            failed = self._lib.nvrtcCompileProgram(
                program, len(given), (ctypes.c_char_p * len(given))(*given)
            )
            log = self._bytes("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            log = re.sub(r".*Compile time = .*\n?", "", log)  # equal texts give equal files
            if failed:
                raise DeviceError(
                    f"NVRTC {self.version[0]}.{self.version[1]} does not compile a kernel ({self._error_text(failed)}):\n{log}\n{text}"
                )
            return Compiled(self._bytes(wanted, program), log)
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _bytes(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        room = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, room)
        return room.raw

    def _call(self, name: str, *args: object) -> None:
        failed = getattr(self._lib, name)(*args)
        if failed:
            raise DeviceError(f"NVRTC: {name} failed: {self._error_text(failed)}")

    def _error_text(self, failed: int) -> str:
        return str(self._lib.nvrtcGetErrorString(failed).decode())


def _number(arch: str) -> int:
    found = re.fullmatch(r"sm_([1-9]\d+)", arch)
    if found is None:
        raise DeviceError(f"{arch!r} is no architecture of a card; expected one like 'sm_90'")
    return int(found[1])


@functools.cache
def _library(major: int | None) -> _Library:
    """NVRTC of a major version of CUDA, or of any."""
    failed = ""
    for wanted in MAJORS if major is None else (major,):
        for path in _paths(wanted):
            try:
                return _Library(path)
            except (
                OSError,
                AttributeError,
            ) as e:  # cannot be loaded, or is too old to say what it makes code for
                if os.path.exists(path):
                    failed = f" ({path}: {e})"
    of = "" if major is None else f" of CUDA {major}"
    install = " or ".join(
        f"pip install 'skipstone[gpu-cuda{m}]'" for m in (MAJORS if major is None else (major,))
    )
    raise BackendMissing(
        f"NVRTC{of}, which compiles kernels for NVIDIA's cards, is not found{failed}: {install}; or use backend='numba'"
    )


def _paths(major: int) -> Iterator[str]:
    """Where NVRTC may be: in packages of NVIDIA's, in a toolkit, and where the system, or what this process has loaded, finds it."""
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    packages = [
        (folder, IN_PACKAGES) for folder in (spec.submodule_search_locations or () if spec else ())
    ]
    roots = [
        (root, IN_ROOT)
        for root in (
            os.environ.get("CUDA_PATH"),
            os.environ.get("CUDA_HOME"),
            sys.prefix,
            "/usr/local/cuda",
        )
        if root
    ]
    for folder, patterns in (*packages, *roots):
        for pattern in patterns:
            yield from sorted(glob.glob(os.path.join(glob.escape(folder), pattern.format(major))))
    yield LIBRARY_NAME.format(major)
