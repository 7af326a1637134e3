"""Loops that are plain functions of a module: Numba compiles their very text, without the GIL, and keeps it as it keeps kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from skipstone.ir.errors import BackendMissing
from skipstone.kernels.run import compile_cache, compiler

if TYPE_CHECKING:
    import types

HEADER = """
import numba as nb

i8 = nb.int64
array, matrix = nb.types.Array(i8, 1, "C"), nb.types.Array(i8, 2, "C")
readonly = nb.types.Array(nb.uint8, 1, "C", readonly=True)
writable = nb.types.Array(nb.uint8, 1, "C")
JIT = dict(_nrt=False, nogil=True, boundscheck=False, error_model="numpy")
"""


class Loop(NamedTuple):
    """A loop, by what it is compiled from.

    Attributes:
        module: Of functions of numbers and arrays, which NumPy alone is imported by.
        name: The function; it must not trust its input.
        signature: Its types, in the words of `HEADER`.
        inner: Functions of the module that it calls.
    """

    module: types.ModuleType
    name: str
    signature: str
    inner: tuple[str, ...] = ()


def at_hand(loop: Loop) -> bool:
    """Whether a loop is there without waiting for it; if it is not, it will be."""
    if compile_cache.find(loop) is not None:
        return True
    compiler.compile_in_background(loop, compiled)
    return False


def compiled(loop: Loop) -> Callable[..., int]:
    """Return a loop, compiled; the plain function where Numba cannot be used."""
    try:
        return compile_cache.kernel(loop, _source)
    except BackendMissing as e:
        compile_cache.warn_once(f"skipstone reads files slowly: {e}")
        plain: Callable[..., int] = getattr(loop.module, loop.name)
        return plain


def _source(loop: Loop) -> str:
    inner = (
        f"{', '.join(loop.inner)}, = (nb.njit(f, forceinline=True, **JIT) for f in ({', '.join(loop.inner)},))\n"
        if loop.inner
        else ""
    )
    return f"{inspect.getsource(loop.module)}{HEADER}{inner}SIGNATURE = {loop.signature}\nkernel = {loop.name}\n"
