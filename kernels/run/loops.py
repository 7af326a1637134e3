"""Compile plain functions of a module with Numba, without the GIL.

Numba compiles the text of the module itself and caches the result as it does for kernels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from skipstone.ir.errors import BackendMissing
from skipstone.kernels.run import compile_cache, compiler

if TYPE_CHECKING:
    import types

# Bytes or values that Python reads in some 20 ms; once it has read so many in a process, loops are
# compiled in the background.
PLAIN_SIZE: Final = 1 << 14
_plain_size = 0
HEADER = """
import numba as nb

i8 = nb.int64
array, matrix = nb.types.Array(i8, 1, "C"), nb.types.Array(i8, 2, "C")
readonly = nb.types.Array(nb.uint8, 1, "C", readonly=True)
longs = nb.types.Array(i8, 1, "C", readonly=True)
writable = nb.types.Array(nb.uint8, 1, "C")
JIT = dict(_nrt=False, nogil=True, boundscheck=False, error_model="numpy")
"""


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


def at_hand(loop: Loop) -> bool:
    """Return True if the loop is compiled; otherwise start compiling it in the background."""
    if compile_cache.find(loop) is not None:
        return True
    compiler.compile_in_background(loop, compiled)
    return False


def suited(loop: Loop, size: int) -> Callable[..., int]:
    """Return the compiled loop, or the plain function if it is not compiled and has little to do.

    Args:
        loop: The loop.
        size: The bytes, or values, that it is to read.
    """
    global _plain_size
    if size > PLAIN_SIZE or compile_cache.find(loop) is not None:
        return compiled(loop)
    _plain_size += size
    if _plain_size > PLAIN_SIZE:
        at_hand(loop)
    plain: Callable[..., int] = getattr(loop.module, loop.name)
    return plain


def compiled(loop: Loop) -> Callable[..., int]:
    """Return the compiled loop, or the plain function if Numba cannot be used."""
    try:
        return compile_cache.kernel(loop, _source)
    except BackendMissing as e:
        compile_cache.warn_once(f"skipstone reads files slowly: {e}")
        plain: Callable[..., int] = getattr(loop.module, loop.name)
        return plain


def _source(loop: Loop) -> str:
    inner = ""
    if loop.inner:
        names = ", ".join(loop.inner)
        inner = f"{names}, = (nb.njit(f, forceinline=True, **JIT) for f in ({names},))\n"
    signature = f"SIGNATURE = {loop.signature}\nkernel = {loop.name}\n"
    return f"{inspect.getsource(loop.module)}{HEADER}{inner}{signature}"
