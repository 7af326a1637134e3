"""Import heavy packages, and compile with them, completely or not at all.

If Ctrl-C or a lack of memory interrupts an import, half-imported modules stay behind. The next
import then fails for the life of the process: `module 'numba' has no attribute 'core'`. If Ctrl-C
interrupts Numba, it loses the functions that it was about to register, and can no longer compile.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from skipstone.kernels.run import forks

T = TypeVar("T")

# Other packages import these without our doing: pyarrow imports pandas when it first makes a value.
FORGOTTEN: Final = ("pandas", "polars")

_done: Final[set[str]] = set()
_running: Final[dict[str, Future[None]]] = {}


def finish(work: Callable[[], T], name: str) -> T:
    """Run work to its end even if Ctrl-C comes; Ctrl-C ends only the wait for it.

    Signals interrupt only the main thread, so the main thread hands the work to another one.

    Args:
        work: The work. It must not need locks that this thread holds.
        name: The name of the thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    forks.release_imports()  # the work may import modules
    result = Future[T]()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as e:  # re-raised in the thread that waits
            result.set_exception(e)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:  # no more threads, or the interpreter is shutting down
        return work()
    return result.result()


def first_import(name: str, *parts: str) -> None:
    """Import a module before its first use.

    Args:
        name: The module.
        parts: Packages that only this module imports. A failed import also removes their modules.

    Raises:
        Exception: the error of the import. The next call starts it again.
    """
    if name not in _done:
        finish(lambda: _import_once(name, parts), "skipstone-import")


def _import_once(name: str, parts: Sequence[str]) -> None:
    """Import a module, or wait for the thread that does."""
    forks.release_imports()  # that thread may need the lock
    own_future = Future[None]()
    found = _running.setdefault(name, own_future)
    if found is own_future:
        _import(name, parts, own_future)
    found.result()


def _import(name: str, parts: Sequence[str], result: Future[None]) -> None:
    own = {name.partition(".")[0], *parts}
    fresh = own - set(sys.modules)
    try:
        importlib.import_module(name)
    except BaseException as e:  # re-raised in each thread that waits
        for module in [m for m in list(sys.modules) if m.partition(".")[0] in fresh]:
            sys.modules.pop(module, None)
        _running.pop(name, None)
        result.set_exception(e)
        return
    _done.add(name)
    _running.pop(name, None)
    result.set_result(None)


class _Leftovers:
    """An import finder that finds nothing, but removes what an interrupted import left behind.

    The C modules of pandas keep their functions in the module `pandas`. C modules that were left
    behind do not put their functions into a newly imported `pandas`. Other C modules then fail with
    an error that they do not check, and the thread ends while it holds the global import lock
    (CPython 3.11), so the process hangs.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Remove the modules of a package that is about to be imported."""
        if name in FORGOTTEN and name not in sys.modules:
            for module in [m for m in list(sys.modules) if m.startswith(f"{name}.")]:
                sys.modules.pop(module, None)


sys.meta_path.insert(0, _Leftovers)

if hasattr(os, "register_at_fork"):
    # A forked child lacks the importing thread. The fork itself waited for the import (forks.py).
    os.register_at_fork(after_in_child=_running.clear)
