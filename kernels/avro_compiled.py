"""The loops of `avro_loops`, compiled by Numba: from the text of that module, without the GIL."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from skipstone.kernels import avro_loops, cache

if TYPE_CHECKING:
    import types

SIGNATURES: Final = {
    "blocks": "i8(readonly, i8, i8, matrix, array)",
    "records": "i8(readonly, matrix, matrix, array, matrix, array)",
    "entries": "i8(readonly, array, i8, nb.boolean, array, array)",
    "gather": "i8(readonly, array, array, nb.types.Array(nb.uint8, 1, 'C'))",
}
HEADER: Final = """
import numba as nb

i8 = nb.int64
array, matrix = nb.types.Array(i8, 1, "C"), nb.types.Array(i8, 2, "C")
readonly = nb.types.Array(nb.uint8, 1, "C", readonly=True)
JIT = dict(_nrt=False, nogil=True, boundscheck=False, error_model="numpy")
varint, items = (nb.njit(f, forceinline=True, **JIT) for f in (varint, items))
"""


def _source(name: str) -> str:
    return f"{inspect.getsource(avro_loops)}{HEADER}SIGNATURE = {SIGNATURES[name]}\nkernel = {name}\n"


def _load(module: types.ModuleType) -> Callable[..., int]:
    import numba

    sys.modules[module.__name__] = module  # machine code that comes from disk asks for its module by name
    compiled: Callable[..., int] = numba.njit(module.SIGNATURE, cache=True, **module.JIT)(module.kernel)
    return compiled


def loop(name: str) -> Callable[..., int]:
    """A loop of `avro_loops`, compiled: from memory, from disk, or now."""
    return cache.kernel(name, _source, _load)
