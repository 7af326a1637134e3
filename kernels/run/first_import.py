"""Importing heavy packages: wholly, or not at all.

An import that Ctrl-C or a lack of memory ends halfway leaves modules behind, and the next one fails
on them: `module 'numba' has no attribute 'core'`, for the life of the process.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from skipstone.kernels.run import forks

_done: Final[set[str]] = set()
_running: Final[dict[str, Future[None]]] = {}


def first_import(name: str, *parts: str) -> None:
    """Import a module before it is used for the first time.

    A thread of its own imports it, since signals interrupt the main thread alone. Ctrl-C ends the
    wait and not the import.

    Args:
        name: The module.
        parts: Packages that it alone brings. A failed import removes their modules too.

    Raises:
        Exception: as the import did. The next call tries again from the start.
    """
    if name in _done:
        return
    forks.release_imports()  # the thread that imports would wait for it, and this one for that
    own_future = Future[None]()
    found = _running.setdefault(name, own_future)
    if found is own_future:
        work = threading.Thread(
            target=_import, args=(name, parts, own_future), name="skipstone-import", daemon=True
        )
        try:
            work.start()
        except RuntimeError:  # no more threads, or the interpreter ends
            _import(name, parts, own_future)
    found.result()


def _import(name: str, parts: Sequence[str], result: Future[None]) -> None:
    own = {name.partition(".")[0], *parts}
    fresh = own - set(sys.modules)
    try:
        importlib.import_module(name)
    except BaseException as e:  # whoever waits is told
        for module in [m for m in list(sys.modules) if m.partition(".")[0] in fresh]:
            sys.modules.pop(module, None)
        _running.pop(name, None)
        result.set_exception(e)
        return
    _done.add(name)
    _running.pop(name, None)
    result.set_result(None)


if hasattr(os, "register_at_fork"):
    # The thread that would say so is not there. The fork itself waited for the import (forks.py).
    os.register_at_fork(after_in_child=_running.clear)
