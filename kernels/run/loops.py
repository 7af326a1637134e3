"""Compile plain functions of a module with Numba, without the GIL.

Numba compiles the text of the module itself. The machine code is kept as an object file, where that
is possible, and a later process needs no Numba to load it.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from skipstone.ir.errors import BackendMissing
from skipstone.kernels.run import compile_cache, compiler, objects
from skipstone.kernels.run.compile_cache import Kernel
from skipstone.kernels.run.native import ArgumentType, ArrayType, Native

# Bytes or values that Python reads in some 20 ms; once it has read this many in a process, loops
# are compiled in the background.
PLAIN_SIZE: Final = 1 << 14
_plain_size = 0
_not_on_disk: set[Loop] = set()  # loops that were not on disk
HEADER = """
import numba as nb

i8 = nb.int64
array, matrix = nb.types.Array(i8, 1, "C"), nb.types.Array(i8, 2, "C")
readonly = nb.types.Array(nb.uint8, 1, "C", readonly=True)
longs = nb.types.Array(i8, 1, "C", readonly=True)
writable = nb.types.Array(nb.uint8, 1, "C")
flags = nb.types.Array(nb.boolean, 1, "C")
JIT = dict(_nrt=False, nogil=True, boundscheck=False, error_model="numpy")
"""
LONG, BYTE = np.dtype(np.int64), np.dtype(np.uint8)
# The types that `HEADER` names.
TYPES: Final[Mapping[str, ArgumentType]] = {
    "i8": None,
    "array": ArrayType(LONG, 1, is_written=True),
    "matrix": ArrayType(LONG, 2, is_written=True),
    "readonly": ArrayType(BYTE, 1, is_written=False),
    "longs": ArrayType(LONG, 1, is_written=False),
    "writable": ArrayType(BYTE, 1, is_written=True),
    "flags": ArrayType(np.dtype(np.bool_), 1, is_written=True),
}


class Loop(NamedTuple):
    """A loop and the source that it is compiled from.

    Attributes:
        module: The module. It imports only NumPy, and its functions take numbers and arrays.
        name: The function. It must not trust its input.
        signature: Its types, in the names of `HEADER`.
        inner: Functions of the module that it calls.
    """

    module: types.ModuleType
    name: str
    signature: str
    inner: tuple[str, ...] = ()

    @property
    def types(self) -> list[ArgumentType]:
        """The types of its arguments."""
        names = self.signature.partition("(")[2].removesuffix(")")
        return [TYPES[name.strip()] for name in names.split(",")]


def load(loop: Loop) -> Callable[..., int] | None:
    """Return the loop if this process has it, or finds its machine code on disk; else None."""
    found = compile_cache.find(loop)
    if found is None and loop not in _not_on_disk:
        if not _is_on_disk(loop):
            _not_on_disk.add(loop)
            return None
        found = compiled(loop)
    return found


def compiled_or_start(loop: Loop) -> bool:
    """Return True if the loop is compiled; otherwise start compiling it in the background."""
    if load(loop) is not None:
        return True
    compiler.compile_in_background(loop, compiled)
    return False


def compiled_or_plain(loop: Loop, size: int) -> Callable[..., int]:
    """Return the compiled loop, or the plain function if it is not compiled and has little to do.

    Args:
        loop: The loop.
        size: The bytes, or values, that it is to read.
    """
    global _plain_size
    if size > PLAIN_SIZE or compile_cache.find(loop) is not None:
        return compiled(loop)
    _plain_size += size
    if _plain_size >= PLAIN_SIZE and compiled_or_start(loop):
        return compiled(loop)
    return plain(loop)


def with_arguments(loop: Callable[..., int], *arguments: object) -> Callable[[], int]:
    """Return a call of a loop, compiled or plain, with arguments that stay the same."""
    return (
        loop.with_arguments(*arguments)
        if isinstance(loop, Native)
        else functools.partial(loop, *arguments)
    )


def compiled(loop: Loop) -> Callable[..., int]:
    """Return the compiled loop, or the plain function if Numba cannot be used."""
    try:
        return compile_cache.kernel(loop, _source, _make)
    except BackendMissing as e:
        compile_cache.warn_once(f"skipstone reads files by plain Python, which is slow: {e}")
        return plain(loop)


def plain(loop: Loop) -> Callable[..., int]:
    """Return the function of a loop uncompiled, for Python to run."""
    # NumPy warns where compiled code wraps silently, as at the negative of -2 ** 63.
    function: Callable[..., int] = getattr(loop.module, loop.name)
    return np.errstate(over="ignore")(function)


def _is_on_disk(loop: Loop) -> bool:
    """Return True if an object file of the loop is on disk."""
    if not objects.are_possible():
        return False
    module = compile_cache.path_of(_source(loop))
    # Importing llvmlite is worth its time only if there is an object file, for any processor.
    try:
        if module is None or not any(
            name.startswith(f"{module.stem}.") and name.endswith(".o")
            for name in os.listdir(module.parent)
        ):
            return False
        return objects.path_of(module).stat().st_size > 0  # it is empty if it cannot be kept
    except (objects.CannotKeep, OSError):
        return False


def _make(loop: Loop, module: types.ModuleType, text: str) -> Kernel:
    """Load a loop from its object file, or compile it."""
    if module.__file__ is not None and objects.are_possible():
        try:
            path = objects.path_of(Path(module.__file__))
            found = objects.load(path, loop.types)
            if found is None:
                compile_cache.import_numba()
                compile_cache.execute(module, text)
                found = objects.keep(
                    path, compile_cache.compile_now(module, keep=False), loop.types
                )
            return found
        except objects.CannotKeep:
            pass
    compile_cache.import_numba()
    return compile_cache.load_or_compile(module, text)


def _source(loop: Loop) -> str:
    inner = ""
    if loop.inner:
        names = ", ".join(loop.inner)
        inner = f"{names}, = (nb.njit(f, forceinline=True, **JIT) for f in ({names},))\n"
    signature = f"SIGNATURE = {loop.signature}\nkernel = {loop.name}\n"
    return f"{inspect.getsource(loop.module)}{HEADER}{inner}{signature}"
