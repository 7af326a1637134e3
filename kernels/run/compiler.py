"""Compile kernels in the background.

One thread compiles from a bounded queue, and only shapes that are used enough.
"""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeVar

from skipstone.ir.errors import describe_error
from skipstone.kernels import logs
from skipstone.kernels.config import config
from skipstone.kernels.run import compile_cache, forks
from skipstone.kernels.run.compile_cache import Shape

# Once a process has this many kernels, no more are compiled in the background: each takes some 1
# MB, and Numba (0.68) never frees it, even if the kernel is forgotten.
MAX_KERNELS: Final = 256
# Larger shapes are not compiled in the background. 400 operations take some 3 s to compile, and a
# fork would have to wait for that.
MAX_OPERATIONS: Final = 400
# For fewer containers, NumPy takes less time than a compiled kernel could save in a session.
MIN_CONTAINERS: Final = 100_000
# A shape is compiled once NumPy has done this many of its operations on containers, or rows, over
# all calls. They take some 30 ms; the compiler takes 0.2 s, and slows other threads by the GIL.
COMPILE_AFTER: Final = 1 << 29
# Tasks that wait for the compiler; beyond that the cheapest is dropped.
MAX_QUEUED: Final = 64
MAX_COUNTED: Final = 4096  # shapes whose use is counted
K = TypeVar("K", bound=Hashable)
OnFailure = Callable[[Exception], None]


class Task(NamedTuple):
    """A key to compile.

    Attributes:
        key, compile_now, on_failure: As in `compile_in_background`.
        cost: What calls have cost without it, in operations on containers.
    """

    key: Any
    compile_now: Callable[[Any], Any]
    on_failure: OnFailure | None
    cost: float


_lock = forks.lock()
_queue: dict[Hashable, Task] = {}
_counted: dict[Hashable, int] = {}  # shape -> operations that NumPy has done
_failed_keys: set[Hashable] = set()
_running = False
_current: Hashable = None


def compile_in_background(
    key: K,
    compile_now: Callable[[K], Any],
    on_failure: OnFailure | None = None,
    cost: float = math.inf,
) -> None:
    """Compile something in a daemon thread, and return at once.

    Args:
        key: Identifies the task. It is queued once, and dropped if too many dearer tasks wait.
        compile_now: Compiles the key.
        on_failure: Called with the exception if that fails; the key may then be queued again. None:
            issue a warning and never compile this key again.
        cost: What calls have cost without it, in operations on containers; the dearest is compiled
            first.
    """
    global _running
    if not config.compile or key in _failed_keys or key == _current:
        return
    if isinstance(key, Shape) and (
        _operations(key) > MAX_OPERATIONS or compile_cache.count() >= MAX_KERNELS
    ):
        return
    with _lock:
        _queue[key] = Task(key, compile_now, on_failure, cost)
        if len(_queue) > MAX_QUEUED:
            del _queue[min(_queue.values(), key=_cost).key]
        if _running:
            return
        _running = True
    try:
        threading.Thread(target=_run_queue, name="skipstone-compile", daemon=True).start()
    except RuntimeError:  # no more threads, or the interpreter is shutting down
        _running = False


def count_use(shape: Shape, containers: int, compile_now: Callable[[Shape], Any]) -> None:
    """Count what NumPy does for a shape; compile the shape once that pays.

    Args:
        shape: The shape.
        containers: Containers that NumPy judges now. Small numbers are not counted.
        compile_now: Compiles the shape.
    """
    if containers < MIN_CONTAINERS:
        return
    total = _counted.get(shape, 0) + containers * _operations(shape)
    if total >= COMPILE_AFTER:
        compile_in_background(shape, compile_now, cost=total)
    with _lock:
        _counted.pop(shape, None)  # keeps the dict ordered by last use
        _counted[shape] = total
        if len(_counted) > MAX_COUNTED:
            del _counted[next(iter(_counted))]


def wait(seconds: float) -> bool:
    """Wait until nothing is compiled in the background; return False if that takes longer."""
    end = time.monotonic() + seconds
    while _running:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _operations(shape: Shape) -> int:
    """Return the number of operations and inputs of a kernel, at least 1."""
    return max(sum(1 for root in shape.roots for _ in root.walk()), 1)


def _cost(task: Task) -> float:
    return task.cost


def _run_queue() -> None:
    global _running, _current
    while True:
        with _lock:
            if not _queue:
                _running, _current = False, None
                return
            task = _queue.pop(max(_queue.values(), key=_cost).key)
            _current = task.key
        _compile(task)


def _compile(task: Task) -> None:
    try:
        task.compile_now(task.key)
    except Exception as e:  # the caller keeps its current backend
        if task.on_failure is not None:
            task.on_failure(e)
            return
        if len(_failed_keys) >= MAX_COUNTED:
            _failed_keys.clear()
        _failed_keys.add(task.key)
        logs.fallback(f"a kernel cannot be compiled: {describe_error(e)}")
        warnings.warn(
            f"skipstone could not compile a kernel and continues with NumPy: {describe_error(e)}",
            RuntimeWarning,
            stacklevel=2,
        )


def _reset_after_fork() -> None:
    # A forked child has no compiler thread. Shapes are queued again when they are used.
    global _running, _current
    _running, _current = False, None
    _queue.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
