"""A device without a GPU: g++ compiles the text of a kernel unchanged, and it runs lane by lane.

shim.cpp watches it. Device memory is separate: NumPy cannot read it, and kernels accept no
other memory. Anything that a GPU would leave undefined is an error here: a vote that some lanes do
not reach, an access outside an argument or not aligned to its size, a word written twice or read in
the launch that writes it, and memory that is read before it is written.
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
import pytest

from skipstone.kernels.gpu.cuda_text import THREADS
from tests.support.cuda.memory import Memory, Wrong
from tests.support.cuda.stand_in import Parameter, StandIn, parameters_of, value_of

HERE: Final = Path(__file__).parent


def _compiler() -> str | None:
    """Return GCC's compiler, whose sanitizers call functions that a program may define.

    The name g++ may belong to another compiler.
    """
    found = shutil.which("g++")
    said = (
        ""
        if found is None
        else subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60).stdout
    )
    return found if "Free Software Foundation" in said else None


COMPILER: Final = _compiler()
MISSING: Final = None if COMPILER else "no C++ compiler: g++ of GCC is not on the path"
# Every access and every undefined operation calls shim.cpp; `-nostdlib` excludes the
# sanitizers' own libraries.
FLAGS: Final = shlex.split(
    "-std=c++17 -O1 -fPIC -shared -nostdlib -ffp-contract=off -fno-exceptions -fno-rtti "
    "-fno-thread-jumps -Wall -Werror -Wno-unknown-pragmas -Wno-unused "
    "-fsanitize=kernel-address,undefined,float-cast-overflow "
    "-fno-sanitize-recover=undefined,float-cast-overflow "
    "--param asan-instrumentation-with-call-threshold=0 --param asan-stack=0 --param asan-globals=0"
)
BATCH: Final = 16
SHIM: Final[list[Any]] = []
LOCK: Final = threading.Lock()  # one launch at a time
SHIM_FLAGS: Final = shlex.split(
    "-std=c++17 -O2 -fPIC -shared -Wall -Wextra -Werror -U_FORTIFY_SOURCE"
)


@dataclass(frozen=True)
class Function:
    """A loaded kernel."""

    entry: Any
    parameters: tuple[Parameter, ...]


class Emulated(StandIn):
    """A `Device` (kernels/gpu/device.py) made of g++ and NumPy.

    Args:
        folder: The folder of compiled libraries, by the digest of their source.
        size: Bytes of device memory.
    """

    name = "g++, lane by lane"

    def __init__(self, folder: Path, size: int = 1 << 40) -> None:
        super().__init__(size)
        self.folder = folder
        self.launches = 0
        self.only: range | None = None  # which blocks run, if a grid is too large to run completely
        self._functions: dict[str, Function] = {}
        with LOCK:
            self._start = _shim(folder)

    def function(self, text: str) -> Function:
        """Return the function named `kernel` of a text."""
        if text not in self._functions:
            self.compile([text])
        return self._functions[text]

    def compile(self, texts: Iterable[str]) -> None:
        """Compile texts, BATCH per library; a library per text takes three times as long."""
        new = [text for text in dict.fromkeys(texts) if text not in self._functions]
        batches = [new[i : i + BATCH] for i in range(0, len(new), BATCH)]
        with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            libraries = pool.map(lambda batch: _build(_library(batch), FLAGS, self.folder), batches)
            for batch, path in zip(batches, libraries, strict=True):
                library = ctypes.CDLL(str(path))
                for i, text in enumerate(batch):
                    self._functions[text] = Function(
                        ctypes.cast(getattr(library, f"start{i}"), ctypes.c_void_p),
                        parameters_of(text),
                    )

    def start(
        self, function: Function, blocks: int, arguments: Sequence[Memory | np.generic]
    ) -> None:
        """Run blocks of THREADS threads.

        Raises:
            Wrong: arguments do not fit the declaration, or a thread did something undefined.
        """
        arrays = self.bound(function.parameters, blocks, arguments)
        held = [value_of(a) for a in arguments]
        values = (ctypes.c_void_p * len(held))(*(h.ctypes.data for h in held))
        regions = np.array(
            [(a.at, a.at + a.nbytes, a.known.ctypes.data, p.written) for p, a in arrays], np.int64
        ).reshape(-1, 4)
        with LOCK:
            run = self.only or range(blocks)
            wrong = self._start(
                function.entry,
                values,
                regions.ctypes.data,
                len(arrays),
                blocks,
                THREADS,
                run.start,
                run.stop,
            )
        self.launches += 1
        if wrong is not None:
            raise Wrong(
                re.sub(r"array (\d+)", lambda m: f"'{arrays[int(m[1])][0].name}'", wrong.decode())
            )


def _build(text: str, flags: Sequence[str], folder: Path) -> Path:
    """Build a library in a folder, named by the digest of its source."""
    made_of = "\n".join(
        [
            text,
            *flags,
            *((HERE / f"shim.{end}").read_text(encoding="utf-8") for end in ("h", "cpp")),
        ]
    )
    out = folder / f"{hashlib.sha256(made_of.encode()).hexdigest()[:32]}.so"
    if not out.exists():
        assert COMPILER, MISSING
        part = out.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        command = [COMPILER, *flags, "-x", "c++", "-I", str(HERE), "-o", str(part), "-"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=120)
        if done.returncode:
            raise Wrong(f"g++ refuses the text:\n{done.stderr}\n{text}")
        part.replace(out)
    return out


def _shim(folder: Path) -> Any:
    """Return the library that runs kernels.

    There is one per process, because texts are linked with the first one that is loaded.
    """
    if not SHIM:
        library = ctypes.CDLL(
            str(_build((HERE / "shim.cpp").read_text(encoding="utf-8"), SHIM_FLAGS, folder)),
            mode=ctypes.RTLD_GLOBAL,
        )
        library.shim_start.restype = ctypes.c_char_p
        library.shim_start.argtypes = [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            *[ctypes.c_uint32] * 4,
        ]
        SHIM.append(library.shim_start)
    return SHIM[0]


def _library(texts: Sequence[str]) -> str:
    """Return the source of several texts, each with code that unpacks a launch's arguments."""
    lines = ['#include "shim.h"']
    for i, text in enumerate(texts):
        values = ", ".join(f"*({p.text()}*)values[{j}]" for j, p in enumerate(parameters_of(text)))
        start = f'extern "C" UNWATCHED void start{i}(void** values) {{ kernel({values}); }}'
        lines += [
            f"#define kernel kernel{i}",
            f"namespace text{i} {{",
            f'#line 1 "text {i}"',
            text,
            start,
            "}",
            "#undef kernel",
        ]
    return "\n".join([*lines, ""])


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    """Return a device that checks kernels while it runs them."""
    if MISSING:
        pytest.skip(MISSING)
    return Emulated(tmp_path_factory.mktemp("kernels"))
