"""The project's thread pool. Kernels run without the GIL, so plain threads are enough.

The number of threads is `SKIPSTONE_THREADS`, or the CPUs this process may use. A forked child starts
a pool of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from skipstone.ir.errors import SkipstoneError

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_in_worker = threading.local()


def threads() -> int:
    """How many threads share the work.

    Raises:
        SkipstoneError: `SKIPSTONE_THREADS` is not a positive integer.
    """
    text = os.environ.get("SKIPSTONE_THREADS")
    if text is not None:
        if not text.isdigit() or int(text) == 0:
            raise SkipstoneError(f"SKIPSTONE_THREADS is {text!r}; expected a positive integer, or leave it unset")
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def executor() -> ThreadPoolExecutor:
    """The pool, made at first use."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(threads(), "skipstone", initializer=_mark)
        return _pool


def _mark() -> None:
    _in_worker.here = True


def run_chunks(work: Callable[[int, int], None], total: int, chunk: int) -> None:
    """Call work(first, last) over [0, total) in chunks; the caller's thread takes its share."""
    if total <= chunk:
        if total:
            work(0, total)
        return
    starts = range(0, total, chunk)
    workers = 1 if getattr(_in_worker, "here", False) else min(threads(), len(starts))
    if workers < 2:
        for s in starts:
            work(s, min(s + chunk, total))
        return
    todo, guard = iter(starts), threading.Lock()

    def drain() -> None:
        while True:
            with guard:
                s = next(todo, None)
            if s is None:
                return
            work(s, min(s + chunk, total))

    helpers = [executor().submit(drain) for _ in range(workers - 1)]
    drain()
    for h in helpers:
        h.result()


def _forget() -> None:
    # The child of a fork has none of its parent's threads.
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
