"""The thread pool of the project. Kernels run without the GIL, so plain threads are enough.

The number of threads is `config.threads`. A forked child starts a pool of its own.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, TypeVar

from skipstone.kernels.config import Config, config
from skipstone.kernels.run import forks

T = TypeVar("T")
Result = TypeVar("Result")
# Requests to storage at once, most of which wait; Arrow's client of S3 makes at most 25.
REQUESTS: Final = 25
# Units of work that are read at once from storage where they wait for requests.
REMOTE_UNITS: Final = 4
_lock = forks.lock()
_pool: ContextPool | None = None
_size = 0
_in_worker = threading.local()


class ContextPool(ThreadPoolExecutor):
    """A thread pool whose work sees the context of the thread that submitted it.

    As a `with` block, it ends early after an error. The overrides of `skipstone.config` count in
    its threads too.
    """

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Schedule `work(*args, **kwargs)`, as `ThreadPoolExecutor` does."""
        return super().submit(copy_context().run, work, *args, **kwargs)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        # After an error, such as Ctrl-C, work that has not begun is dropped. Python may also close
        # a dropped generator in one of the pool's own threads, which cannot wait for itself: an
        # engine drops it wherever it next runs Python (Polars 2.1 does, in its streaming engine).
        is_own = threading.current_thread() in self._threads
        self.shutdown(wait=not is_own, cancel_futures=kind is not None)


def set_threads(count: int | None) -> None:
    """Set the number of threads that share work in this process: the setting `config.threads`.

    Args:
        count: The number of threads, including the calling thread. None: the number in
            `SKIPSTONE_THREADS`, or one for each CPU that the process may use.

    Raises:
        SkipstoneError: the count is not a positive integer.
    """
    Config.threads.set(count, "set_threads(count)")


def threads() -> int:
    """Return the number of threads that share work: the setting `config.threads`.

    Raises:
        SkipstoneError: `SKIPSTONE_THREADS` is not a positive integer.
    """
    return config.threads


def units_at_once(*, local: bool) -> int:
    """Return how many units of work are read at once."""
    return threads() if local else max(threads(), REMOTE_UNITS)


def map_requests(
    work: Callable[[T], Result],
    items: Sequence[T],
    *,
    local: bool = False,
    at_once: int = REQUESTS,
) -> list[Result]:
    """Return what work returns for each item; several items wait for remote storage at once.

    Args:
        work: The work, which spends most of its time waiting.
        items: The items.
        local: True if nothing waits; the items are then worked on one after another.
        at_once: The most items at once; few if each makes several requests itself.
    """
    if local or len(items) < 2:
        return [work(item) for item in items]
    with ContextPool(min(at_once, len(items)), "skipstone-requests") as pool:
        return list(pool.map(work, items))


def _submit(work: Callable[[], None], times: int, helpers: list[Future[None]]) -> None:
    """Run work in up to `times` threads of the pool; append their futures to `helpers`.

    The pool is created at first use, and again if more threads are needed.
    """
    global _pool, _size
    with _lock:
        if _pool is None or _size < times:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _size = times
            _pool = ContextPool(_size, "skipstone", initializer=_mark_worker)
        # no more threads, or the interpreter is shutting down
        with contextlib.suppress(RuntimeError):
            helpers.extend(_pool.submit(work) for _ in range(times))


def _mark_worker() -> None:
    _in_worker.active = True


def run_chunks(
    work: Callable[[int, int], None], total: int, chunk: int, tasks: int | None = None
) -> None:
    """Call work(first, last) over [0, total) in chunks; the calling thread takes its share.

    Args:
        work: The work. It should release the GIL if it takes long.
        total: The end of the last chunk.
        chunk: The length of a chunk; the least length, if `tasks` is given.
        tasks: The most chunks for each thread; the lengths of chunks are then multiples of 8.

    Raises:
        BaseException: the error of a chunk, with notes that name errors of other threads.
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
                with guard:  # no thread starts another chunk
                    for _ in todo:
                        pass
                raise

    raised: list[BaseException] = []
    # Work within a chunk is not divided again: its parts would wait behind the other chunks.
    _in_worker.active = True
    try:
        _submit(drain, workers - 1, helpers)
        drain()
    except BaseException as e:  # raised below, once no thread writes any more
        raised.append(e)
    finally:
        _in_worker.active = False
    raised += _wait_for_all(helpers)
    if raised:
        for other in raised[1:]:
            raised[0].add_note(f"Another thread of the pool raised {type(other).__name__}: {other}")
        raise raised[0]


def _wait_for_all(helpers: list[Future[None]]) -> list[BaseException]:
    """Wait until no helper runs, whatever happens in the meantime, and return the helpers' errors.

    After that the caller's arrays are no longer used. Ctrl-C also waits for the chunks that have
    begun.
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
    # A forked child has none of its parent's threads.
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
