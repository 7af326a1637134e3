"""A device without a card: the very text of a kernel, compiled by g++, run lane by lane and watched (cuda_shim.cpp).

Memory of the device is its own: NumPy cannot read it, and kernels take nothing else. Whatever a card would leave undefined
is an error here: a vote that not all lanes come to, an access outside of an argument or not aligned to its size, a word
written twice or read in the launch that writes it, memory that is read before anything was put there.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from skipstone.kernels.cuda_text import THREADS, TYPES
from tests.cuda_memory import SET, Memory, Store, Wrong

HERE: Final = Path(__file__).parent


def _compiler() -> str | None:
    """GCC's, whose sanitizers call functions that anyone may give; by the name of g++ another compiler may answer."""
    found = shutil.which("g++")
    said = "" if found is None else subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60).stdout
    return found if "Free Software Foundation" in said else None


COMPILER: Final = _compiler()
MISSING: Final = None if COMPILER else "no C++ compiler: g++ of GCC is not on the path"
LANES: Final = {text: np.dtype(lane) for lane, text in TYPES.items()}
PARAMETERS: Final = 4096  # bytes of a launch's arguments, which every card and driver takes
BLOCKS: Final = 2**31 - 1
# Every access and everything undefined calls cuda_shim.cpp; `-nostdlib` keeps the sanitizers' own libraries away.
FLAGS: Final = shlex.split(
    "-std=c++17 -O1 -fPIC -shared -nostdlib -ffp-contract=off -fno-exceptions -fno-rtti -fno-thread-jumps -Wall -Werror -Wno-unknown-pragmas -Wno-unused "
    "-fsanitize=kernel-address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow "
    "--param asan-instrumentation-with-call-threshold=0 --param asan-stack=0 --param asan-globals=0"
)
BATCH: Final = 16
SHIM_FLAGS: Final = shlex.split("-std=c++17 -O2 -fPIC -shared -Wall -Wextra -Werror -U_FORTIFY_SOURCE")


@dataclass(frozen=True)
class Parameter:
    """One of a kernel's: its name, the lane type of its value or values, whether it is a pointer, and one to what is written."""

    name: str
    lane: np.dtype[Any]
    pointer: bool
    written: bool

    def text(self) -> str:
        kind = next(t for t, lane in LANES.items() if lane == self.lane)
        return f"{'' if self.written else 'const '}{kind}{'*' if self.pointer else ''}"


@dataclass(frozen=True)
class Function:
    """A kernel, loaded."""

    entry: Any
    parameters: tuple[Parameter, ...]


def parameters_of(text: str) -> tuple[Parameter, ...]:
    """What `kernel` of a text takes, as it declares it."""
    head = re.search(r'extern "C" __global__ void[^{]*?\bkernel\s*\(([^)]*)\)', text)
    assert head, "the text has no kernel"
    return tuple(_parameter(one.strip()) for one in head[1].split(","))


def _parameter(text: str) -> Parameter:
    found = re.fullmatch(r"(const )?([a-z0-9 ]+?)(\* __restrict__)? (\w+)", text)
    assert found, f"a parameter that a launch cannot give: {text}"
    const, kind, pointer, name = found.groups()
    return Parameter(name, LANES[kind], bool(pointer), bool(pointer and not const))


class Emulated:
    """A `Device` (kernels/device.py) of g++ and NumPy.

    Args:
        folder: Where libraries are kept, by the digest of what they are made of.
        size: Bytes of memory that it has.
    """

    name = "g++, lane by lane"

    def __init__(self, folder: Path, size: int = 1 << 40) -> None:
        self.folder, self.memory = folder, Store(size)
        self.launches = 0
        self._functions: dict[str, Function] = {}
        self._lock = threading.Lock()
        shim = self._build((HERE / "cuda_shim.cpp").read_text(encoding="utf-8"), SHIM_FLAGS)
        self._shim = ctypes.CDLL(str(shim), mode=ctypes.RTLD_GLOBAL)
        self._shim.shim_start.restype = ctypes.c_char_p
        self._shim.shim_start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32]

    def upload(self, values: npt.NDArray[Any]) -> Memory:
        """A copy of a host array of one dimension."""
        return self.memory.put(values)

    def empty(self, count: int, lane: str) -> Memory:
        """Room for so many values, which hold nothing yet."""
        return self.memory.empty(count, lane)

    def adopt(self, pointer: int, count: int, lane: str, owner: object) -> Memory:
        """Values that lie on the device already."""
        found = self.memory.find(pointer, count, lane)
        found.owner = owner
        return found

    def download(self, values: Memory) -> npt.NDArray[Any]:
        """A copy in host memory, of values that all were written."""
        return self.memory.get(values)

    def settle(self) -> None:
        """All work is done: it is done when it is started."""
        self.memory.check()

    def function(self, text: str) -> Function:
        """The function named `kernel` of a text."""
        if text not in self._functions:
            self.compile([text])
        return self._functions[text]

    def compile(self, texts: Iterable[str]) -> None:
        """Compile texts, BATCH to a library: that takes a third of the time that one for each does."""
        new = [text for text in dict.fromkeys(texts) if text not in self._functions]
        batches = [new[i : i + BATCH] for i in range(0, len(new), BATCH)]
        with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            libraries = pool.map(lambda batch: self._build(_library(batch), FLAGS), batches)
            for batch, path in zip(batches, libraries, strict=True):
                library = ctypes.CDLL(str(path))
                for i, text in enumerate(batch):
                    self._functions[text] = Function(ctypes.cast(getattr(library, f"start{i}"), ctypes.c_void_p), parameters_of(text))

    def start(self, function: Function, blocks: int, arguments: Sequence[Memory | np.generic]) -> None:
        """Run blocks of THREADS threads.

        Raises:
            Wrong: arguments do not fit the declaration, or what a thread did is undefined.
        """
        self.memory.check()
        if not 0 < blocks <= BLOCKS:
            raise Wrong(f"a grid of {blocks} blocks; expected 1 to {BLOCKS}")
        if len(arguments) != len(function.parameters):
            raise Wrong(f"{len(arguments)} arguments; the kernel takes {len(function.parameters)}")
        for p, given in zip(function.parameters, arguments, strict=True):
            _check(p, given)
        arrays = [(p, a) for p, a in zip(function.parameters, arguments, strict=True) if isinstance(a, Memory)]
        _apart(arrays)
        held = [_value(a) for a in arguments]
        if (size := sum(-(-h.nbytes // 8) * 8 for h in held)) > PARAMETERS:
            raise Wrong(f"{size} bytes of arguments; a launch takes {PARAMETERS}")
        values = (ctypes.c_void_p * len(held))(*(h.ctypes.data for h in held))
        regions = np.array([(a.at, a.at + a.nbytes, a.known.ctypes.data, p.written) for p, a in arrays], np.int64).reshape(-1, 4)
        with self._lock:
            wrong = self._shim.shim_start(function.entry, values, regions.ctypes.data, len(arrays), blocks, THREADS)
        self.launches += 1
        for p, a in arrays:
            if p.written:
                np.minimum(a.known, SET, out=a.known)
        if wrong is not None:
            raise Wrong(re.sub(r"array (\d+)", lambda m: f"'{arrays[int(m[1])][0].name}'", wrong.decode()))

    def _build(self, text: str, flags: Sequence[str]) -> Path:
        made_of = "\n".join([text, *flags, *((HERE / f"cuda_shim.{end}").read_text(encoding="utf-8") for end in ("h", "cpp"))])
        out = self.folder / f"{hashlib.sha256(made_of.encode()).hexdigest()[:32]}.so"
        if not out.exists():
            assert COMPILER, MISSING
            part = out.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
            done = subprocess.run(
                [COMPILER, *flags, "-x", "c++", "-I", str(HERE), "-o", str(part), "-"], input=text, text=True, capture_output=True, timeout=120
            )
            if done.returncode:
                raise Wrong(f"g++ refuses the text:\n{done.stderr}\n{text}")
            part.replace(out)
        return out


def _library(texts: Sequence[str]) -> str:
    """Texts beside each other, each with what takes a launch's arguments apart."""
    lines = ['#include "cuda_shim.h"']
    for i, text in enumerate(texts):
        values = ", ".join(f"*({p.text()}*)values[{j}]" for j, p in enumerate(parameters_of(text)))
        start = f'extern "C" UNWATCHED void start{i}(void** values) {{ kernel({values}); }}'
        lines += [f"#define kernel kernel{i}", f"namespace text{i} {{", f'#line 1 "text {i}"', text, start, "}", "#undef kernel"]
    return "\n".join([*lines, ""])


def _check(p: Parameter, given: object) -> None:
    if p.pointer and not isinstance(given, Memory):
        raise Wrong(f"{p.name} is {type(given).__name__}; expected memory of the device")
    if not p.pointer and not isinstance(given, np.generic):
        raise Wrong(f"{p.name} is {type(given).__name__}; expected a NumPy scalar")
    if given.dtype != p.lane:  # type: ignore[attr-defined]
        raise Wrong(f"{p.name} is of {given.dtype}; the kernel declares {p.lane}")  # type: ignore[attr-defined]


def _apart(arrays: list[tuple[Parameter, Memory]]) -> None:
    """What is written is not read or written under another name, as `__restrict__` promises."""
    for p, a in arrays:
        for q, b in arrays:
            if p.written and p.name != q.name and a.at < b.at + b.nbytes and b.at < a.at + a.nbytes:
                raise Wrong(f"{p.name} and {q.name} overlap")


def _value(given: Memory | np.generic) -> npt.NDArray[Any]:
    """A launch's argument, as bytes of host memory: a number, or where an array is."""
    return np.array([given.at], np.uint64) if isinstance(given, Memory) else np.array([given])


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    """A device that judges kernels while it runs them."""
    if MISSING:
        pytest.skip(MISSING)
    return Emulated(tmp_path_factory.mktemp("kernels"))
