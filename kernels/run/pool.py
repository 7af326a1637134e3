"""The project's thread pool. Kernels run without the GIL, so plain threads are enough.

The number of threads is what `set_threads` was told, else `SKIPSTONE_THREADS`, else the CPUs this
process may use. A forked child starts a pool of its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from skipstone.ir.errors import SkipstoneError
from skipstone.kernels.run import forks

_lock = forks.lock()
_pool: ThreadPoolExecutor | None = None
_size = 0
_configured: int | None = None
_in_worker = threading.local()


def set_threads(count: int | None) -> None:
    """Let so many threads of this process share the work, whatever `SKIPSTONE_THREADS` says.

    Args:
        count: Threads, the caller's included; None: as the environment says, or all CPUs that the process may use.

    Raises:
        SkipstoneError: the count is not a positive integer.
    """
    global _configured
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise SkipstoneError(
            f"set_threads was given {count!r}; expected a positive integer, or None"
        )
    _configured = count


def threads() -> int:
    """How many threads share the work.

    Raises:
        SkipstoneError: `SKIPSTONE_THREADS` is not a positive integer.
    """
    if _configured is not None:
        return _configured
    text = os.environ.get("SKIPSTONE_THREADS")
    if text is not None:
        if not text.isdigit() or int(text) == 0:
            raise SkipstoneError(
                f"SKIPSTONE_THREADS is {text!r}; expected a positive integer, or leave it unset"
            )
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _submit(work: Callable[[], None], times: int, helpers: list[Future[None]]) -> None:
    """Have threads of the pool do some work, at most `times`, and list what they do.

    The pool is made at first use, and again where more threads are wanted.
    """
    global _pool, _size
    with _lock:
        if _pool is None or _size < times:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _size = times
            _pool = ThreadPoolExecutor(_size, "skipstone", initializer=_mark_worker)
        with contextlib.suppress(RuntimeError):  # no more threads, or the interpreter ends
            helpers.extend(_pool.submit(work) for _ in range(times))


def _mark_worker() -> None:
    _in_worker.active = True


def run_chunks(
    work: Callable[[int, int], None], total: int, chunk: int, tasks: int | None = None
) -> None:
    """Call work(first, last) over [0, total) in chunks; the caller's thread takes its share.

    Args:
        work: What to do, without the GIL where it takes long.
        total: Where the last chunk ends.
        chunk: How long each is; the least, if there are to be fewer.
        tasks: How many chunks there are to be at most for each thread; their lengths are multiples of 8.
    """
    if total <= chunk:
        if total:
            work(0, total)
        return
    workers = 1 if getattr(_in_worker, "active", False) else threads()
    if tasks is not None:
        chunk = max(-(-total // (tasks * workers)) + 7 & ~7, chunk)
    starts = range(0, total, chunk)
    workers = min(workers, len(starts))
    if workers < 2:
        for s in starts:
            work(s, min(s + chunk, total))
        return
    todo, guard = iter(starts), threading.Lock()
    helpers: list[Future[None]] = []

    def drain() -> None:
        while True:
            with guard:
                s = next(todo, None)
            if s is None:
                return
            try:
                work(s, min(s + chunk, total))
            except BaseException:
                with guard:  # nobody starts another chunk
                    for _ in todo:
                        pass
                raise

    raised: list[BaseException] = []
    _in_worker.active = True  # work within a chunk is not divided again: its parts would wait behind the other chunks
    try:
        _submit(drain, workers - 1, helpers)
        drain()
    except BaseException as e:  # raised below, when nobody writes any more
        raised.append(e)
    finally:
        _in_worker.active = False
    raised += _wait_for_all(helpers)
    if raised:
        for other in raised[1:]:
            raised[0].add_note(f"Another thread of the pool raised {type(other).__name__}: {other}")
        raise raised[0]


def _wait_for_all(helpers: list[Future[None]]) -> list[BaseException]:
    """Wait until no helper runs, whatever happens meanwhile, and return what they raised.

    The caller's arrays are free after that. Ctrl-C, too, waits for the chunks that were begun.
    """
    raised: list[BaseException] = []
    while helpers:
        one = helpers[-1]
        try:
            error = None if one.cancel() else one.exception()
        except KeyboardInterrupt as e:
            raised.append(e)
            continue
        helpers.pop()
        if error is not None:
            raised.append(error)
    return raised


def _reset_after_fork() -> None:
    # The child of a fork has none of its parent's threads.
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
