"""The background compiler: one thread, a bounded queue, and shapes that have earned it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeVar

from skipstone.kernels.run import forks
from skipstone.kernels.run.compile_cache import Shape

# Operations of a shape that is compiled unasked. 400 take some 3 s, which a fork would wait for.
MAX_OPERATIONS: Final = 400
# Below it NumPy answers in less time than a compiled kernel could save in a session.
MIN_CONTAINERS: Final = 100_000
# Containers that NumPy has judged by a shape, over all calls, when it is worth a compile: some 5 ms
# of NumPy, and 0.2 s for the compiler, during which it holds up other threads by the GIL.
COMPILE_AFTER: Final = 1_000_000
MAX_QUEUED: Final = 64  # what waits for the compiler; beyond that, what came first is dropped
MAX_COUNTED: Final = 4096  # shapes whose calls are counted
K = TypeVar("K", bound=Hashable)
OnFailure = Callable[[Exception], None]


class Task(NamedTuple):
    """A key to compile, how, and whom to tell if that fails."""

    key: Any
    compile_now: Callable[[Any], Any]
    on_failure: OnFailure | None


_lock = forks.lock()
_queue: dict[Hashable, Task] = {}
_counted: dict[Hashable, int] = {}  # by shape the containers that NumPy judged
_failed_keys: set[Hashable] = set()
_running = False
_current: Hashable = None


def compile_in_background(
    key: K, compile_now: Callable[[K], Any], on_failure: OnFailure | None = None
) -> None:
    """Have a daemon thread compile something; nobody waits for it.

    Args:
        key: What it is for. It is queued once, and dropped if too many come after it.
        compile_now: Compiles it.
        failed: Told why it could not be; it may then be asked for again. None: a warning tells, and
            it is not tried again.
    """
    global _running
    if os.environ.get("SKIPSTONE_COMPILE") == "0" or key in _failed_keys or key == _current:
        return
    if isinstance(key, Shape) and _operations(key) > MAX_OPERATIONS:
        return
    with _lock:
        if key in _queue:
            return
        _queue[key] = Task(key, compile_now, on_failure)
        if len(_queue) > MAX_QUEUED:
            del _queue[next(iter(_queue))]
        if _running:
            return
        _running = True
    try:
        threading.Thread(target=_run_queue, name="skipstone-compile", daemon=True).start()
    except RuntimeError:  # no more threads, or the interpreter ends
        _running = False


def count_use(shape: Shape, containers: int, compile_now: Callable[[Shape], Any]) -> None:
    """Note that NumPy judges containers by a shape; once that is worth it, compile the shape."""
    if containers < MIN_CONTAINERS:
        return
    total = _counted.get(shape, 0) + containers
    if total >= COMPILE_AFTER:
        _counted.pop(shape, None)
        compile_in_background(shape, compile_now)
        return
    with _lock:
        _counted.pop(shape, None)  # the one that was asked longest ago stands first
        _counted[shape] = total
        if len(_counted) > MAX_COUNTED:
            del _counted[next(iter(_counted))]


def _operations(shape: Shape) -> int:
    return sum(1 for root in shape.roots for _ in root.walk())


def _run_queue() -> None:
    global _running, _current
    while True:
        with _lock:
            if not _queue:
                _running, _current = False, None
                return
            # What was asked last is what is asked now.
            task = _queue.pop(next(reversed(_queue)))
            _current = task.key
        _compile(task)


def _compile(task: Task) -> None:
    try:
        task.compile_now(task.key)
    except Exception as e:  # what answered goes on answering
        if task.on_failure is not None:
            task.on_failure(e)
            return
        if len(_failed_keys) >= MAX_COUNTED:
            _failed_keys.clear()
        _failed_keys.add(task.key)
        warnings.warn(
            f"skipstone could not compile a kernel and goes on with NumPy: {e}",
            RuntimeWarning,
            stacklevel=2,
        )


def _reset_after_fork() -> None:
    # The child of a fork has no compiler. What is asked for again is compiled again.
    global _running, _current
    _running, _current = False, None
    _queue.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
