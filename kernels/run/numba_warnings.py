"""Keep Numba's compiler from changing what `warnings` does in other threads.

Numba (0.60 to 0.68) infers types within `warnings.catch_warnings`, some 240 times for a kernel of
two comparisons. Before Python 3.14 that replaces the filters and the printer of the whole process.
If another thread enters or leaves such a block at the same time, its warnings are lost, or all
later warnings of the process.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

_here = threading.local()


@contextlib.contextmanager
def shared_warnings_kept() -> Iterator[None]:
    """Let Numba compile in this thread without `warnings.catch_warnings`, within a block.

    What Numba compiles for others, in other threads, does not change. Numba must be imported.
    """
    from numba.core import errors

    # A version that has no such class has none of its blocks either.
    fixer: Any = getattr(errors, "WarningsFixer", None)
    if fixer is not None and fixer.catch_warnings.__module__ != __name__:
        fixer.catch_warnings = _unless_ours(fixer.catch_warnings)
    _here.compiles = True
    try:
        yield
    finally:
        _here.compiles = False


def _unless_ours(
    catch: Callable[..., AbstractContextManager[None]],
) -> Callable[..., AbstractContextManager[None]]:
    def catch_warnings(*args: Any, **kwargs: Any) -> AbstractContextManager[None]:
        if getattr(_here, "compiles", False):
            return contextlib.nullcontext()
        return catch(*args, **kwargs)

    return catch_warnings
