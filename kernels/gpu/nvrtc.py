"""Compile CUDA C++ with NVRTC, NVIDIA's compiler, called directly.

NVRTC needs no device and no driver.

CuPy's own use of NVRTC always adds `-ftz=true` (cupy issue 9576). Then float32 values below 1.2e-38
compare as zero, and containers that hold such rows are pruned. So text is compiled here, and CuPy
only loads the result. Machine code is kept in memory and on disk (kernels/run/compile_cache.py).
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
import time
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from skipstone.ir.errors import BackendMissing, DeviceError, describe_error
from skipstone.kernels import logs
from skipstone.kernels.run import compile_cache

# The result of a comparison must not depend on where it runs: products are not fused with sums, and
# denormals keep their value.
OPTIONS: Final = ("--std=c++17", "-default-device", "--fmad=false", "--ftz=false", "-Xptxas=-v")
MAJORS: Final = (13, 12)  # major versions of CUDA, the preferred one first
# Paths of NVRTC in a CUDA toolkit, and in a folder of installed packages.
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
    """The result of a compilation by NVRTC.

    Attributes:
        cubin: Machine code; or PTX, which drivers compile, if NVRTC does not know the architecture
            yet.
        log: NVRTC's messages about the code: registers, stack, spills.
    """

    cubin: bytes
    log: str


def compile_text(text: str, arch: str, *, major: int | None = None) -> Compiled:
    """Return the machine code of a text: from memory, from disk, or compiled now, in 30 to 300 ms.

    Args:
        text: CUDA C++ with one function, `extern "C"`.
        arch: The architecture of the card, such as "sm_90".
        major: The major version of CUDA. Drivers load machine code of their own major version or
            older; None means any.

    Raises:
        BackendMissing: NVRTC is missing, or supports no cards as old as this one.
        DeviceError: the text is not valid CUDA C++.

    Example:
        >>> text = 'extern "C" __global__ void kernel(int* x) { *x = 1; }'
        >>> compile_text(text, "sm_90").log  # doctest: +SKIP
        "... 0 bytes spill stores, 0 bytes spill loads\\nptxas info    : Used 8 registers ..."
    """
    key = ("nvrtc", text, arch, major)
    found: Any = compile_cache.find(key)
    return _cached(key, *key[1:]) if found is None else found


def ptx_of(
    text: str, arch: str, *, major: int | None = None, options: Sequence[str] = OPTIONS
) -> str:
    """Return the PTX that NVRTC makes of a text before machine code; the caches are not used.

    Args:
        text: As in `compile_text`.
        arch: As in `compile_text`.
        major: As in `compile_text`.
        options: Options instead of those that kernels are compiled with.

    Raises:
        BackendMissing, DeviceError: as in `compile_text`.
    """
    found = _library(major).compile(
        text, [*options, f"--gpu-architecture=compute_{_number(arch)}"], "PTX"
    )
    return found.cubin.rstrip(b"\0").decode()


def version(major: int | None = None) -> tuple[int, int]:
    """Return the version of NVRTC, which is the version of its CUDA toolkit.

    Raises:
        BackendMissing: NVRTC is missing.
    """
    return _library(major).version


def _cached(key: Hashable, text: str, arch: str, major: int | None) -> Compiled:
    library = _library(major)
    options = [*OPTIONS, library.target(arch)]
    digest = hashlib.sha256("\0".join((text, *options, library.identity)).encode()).hexdigest()[:32]
    try:
        path = compile_cache.directory("cubins") / f"{digest}.cubin"
    except OSError:  # no directory can be written to
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
    start = time.perf_counter()
    found = library.compile(text, options, "PTX" if "compute_" in options[-1] else "CUBIN")
    logs.write("kernel compiled", kernel="cuda", seconds=time.perf_counter() - start)
    return found


def _serialize(c: Compiled) -> bytes:
    """Return the bytes of a file: a checksum of the rest, the log's length, the log, the code."""
    log = c.log.encode()
    rest = len(log).to_bytes(8, "little") + log + c.cubin
    return hashlib.sha256(rest).digest() + rest


def _deserialize(path: Path) -> Compiled | None:
    """Read a file; return None if it is missing or damaged."""
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
    """A loaded NVRTC library."""

    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        numbers = (ctypes.c_int(), ctypes.c_int())
        self._call("nvrtcVersion", *map(ctypes.byref, numbers))
        self.version: tuple[int, int] = (numbers[0].value, numbers[1].value)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        # Patch releases keep the version, but usually change the size.
        self.identity = f"{self.version[0]}.{self.version[1]} {size}"
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        archs = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", archs)
        self.archs = sorted(archs)

    def target(self, arch: str) -> str:
        """Return the option that names the architecture to compile for.

        Raises:
            BackendMissing: NVRTC no longer supports cards of this architecture.
        """
        number = _number(arch)
        if number in self.archs:
            return f"--gpu-architecture=sm_{number}"
        older = [known for known in self.archs if known < number]
        if older:
            return f"--gpu-architecture=compute_{older[-1]}"
        raise BackendMissing(
            f"NVRTC {self.version[0]}.{self.version[1]} does not support {arch}; the oldest that "
            f"it supports is sm_{self.archs[0]}. CUDA 12 goes back to sm_50: "
            "pip install 'skipstone[gpu-cuda12]'; or use backend='numba'"
        )

    def compile(self, text: str, options: Sequence[str], kind: str) -> Compiled:
        """Compile a text to machine code ("CUBIN") or "PTX".

        Raises:
            DeviceError: the text does not compile.
        """
        program, encoded = ctypes.c_void_p(), [o.encode() for o in options]
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None
        )
        try:
            failed = self._lib.nvrtcCompileProgram(
                program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded)
            )
            log = self._bytes("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            log = re.sub(r".*Compile time = .*\n?", "", log)  # equal texts then give equal files
            if failed:
                raise DeviceError(
                    f"NVRTC {self.version[0]}.{self.version[1]} does not compile a kernel "
                    f"({self._error_text(failed)}):\n{log}\n{text}"
                )
            return Compiled(self._bytes(kind, program), log)
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _bytes(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def _call(self, name: str, *args: object) -> None:
        failed = getattr(self._lib, name)(*args)
        if failed:
            raise DeviceError(f"NVRTC: {name} failed: {self._error_text(failed)}")

    def _error_text(self, failed: int) -> str:
        return str(self._lib.nvrtcGetErrorString(failed).decode())


def _number(arch: str) -> int:
    found = re.fullmatch(r"sm_([1-9]\d+)", arch)
    if found is None:
        raise DeviceError(f"{arch!r} is not a card's architecture; expected one like 'sm_90'")
    return int(found[1])


@functools.cache
def _library(major: int | None) -> _Library:
    """Load NVRTC of a major version of CUDA, or of any.

    Raises:
        BackendMissing: it is not found, or cannot be loaded.
    """
    failed = ""
    for number in MAJORS if major is None else (major,):
        for path in _paths(number):
            try:
                return _Library(path)
            # It cannot be loaded, or is too old to list the architectures that it supports.
            except (OSError, AttributeError) as e:
                if os.path.exists(path):
                    failed = f" ({path}: {describe_error(e)})"
    of = "" if major is None else f" of CUDA {major}"
    install = " or ".join(
        f"pip install 'skipstone[gpu-cuda{m}]'" for m in (MAJORS if major is None else (major,))
    )
    raise BackendMissing(
        f"NVRTC{of}, which compiles kernels for NVIDIA's cards, is not found{failed}: {install}; "
        "or use backend='numba'"
    )


def _paths(major: int) -> Iterator[str]:
    """Yield possible paths of NVRTC.

    They are in NVIDIA's packages and in CUDA toolkits; the last is a bare name, which the system or
    this process may resolve.
    """
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
