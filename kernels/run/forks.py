"""Make forks safe: a child finds no lock held, no import half done and no compile in progress.

A fork copies one thread. A lock that another thread held stays locked in the child, and any thread
that waits for it waits forever. So a fork waits until no other thread compiles or imports a module,
and the child gets fresh copies of our other locks. Both waits are bounded. docs/decisions/forks.md
gives the reasons.
"""

from __future__ import annotations

import _imp
import _thread
import concurrent.futures.thread
import contextlib
import logging
import os
import random  # noqa: F401
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from importlib import _bootstrap
from types import FrameType
from typing import Any, Final

# Seconds that a fork waits for a compile in another thread.
COMPILE_WAIT: Final = 30.0
# Seconds that it waits for imports; a program may run inside an import.
IMPORT_WAIT: Final = 10.0
HURRY: Final = 3.0  # seconds that it keeps waiting after Ctrl-C
POLL: Final = 0.001
# The locks that hooks of concurrent.futures and logging take; they have no public names.
HOOK_LOCKS: Final[list[Any]] = [
    found
    for module, name in ((concurrent.futures.thread, "_global_shutdown_lock"), (logging, "_lock"))
    if (found := getattr(module, name, None)) is not None
]
# importlib has no public names for its locks and functions.
IMPORTLIB: Final[Any] = _bootstrap
MODULE_LOCK: Final[type[Any]] = IMPORTLIB._ModuleLock
IMPORTLIB_FILE: Final[str] = IMPORTLIB._find_and_load.__code__.co_filename

# Held by the thread that compiles: Numba and LLVM have global state.
compiling = threading.RLock()

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_endless: weakref.WeakSet[Any] = weakref.WeakSet()  # module locks held longer than IMPORT_WAIT
_broken = False
_inherited: frozenset[str] = frozenset()  # the modules that were imported before the fork


def lock() -> threading.Lock:
    """Return a lock that is free in a forked child, even if another thread held it.

    The state that it guards must be valid between any two steps.
    """
    made = threading.Lock()
    _locks.add(made)
    return made


def reentrant_lock() -> threading.RLock:
    """Return a reentrant lock that is free in a forked child."""
    made = threading.RLock()
    _locks.add(made)
    return made


def can_compile() -> bool:
    """Return False if this process was forked in the middle of a compile."""
    return not _broken


def is_inherited(module: str) -> bool:
    """Return True if this process was forked after a module was imported.

    The threads that it may have started do not exist here.
    """
    return module in _inherited


class _Fork(threading.local):
    """The state of a fork that this thread makes."""

    nested = False  # this thread compiles
    interrupted = False
    pandas = False  # pandas was imported, so `_wait_for_arrow` has run
    end = 0.0
    caller: FrameType | None = None  # the frame that forks, and its instruction
    instruction = 0


_fork = _Fork()


def _before() -> None:
    _fork.interrupted, _fork.nested = False, compiling._is_owned()  # type: ignore[attr-defined]
    _fork.caller = sys._getframe().f_back
    _fork.instruction = -1 if _fork.caller is None else _fork.caller.f_lasti
    _insist(_wait_for_compiler, COMPILE_WAIT)
    # Both steps import modules, so they must end before the import lock is taken.
    _insist(_wait_for_arrow, 0)
    _insist(_wait_for_imports, IMPORT_WAIT)


def _insist(step: Callable[[], None], seconds: float) -> None:
    """Run a step to its end even if Ctrl-C interrupts it.

    CPython drops exceptions that a fork hook raises, so Ctrl-C is sent again after the fork.
    """
    _fork.end = time.monotonic() + seconds
    while True:
        try:
            return step()
        except KeyboardInterrupt:
            _fork.interrupted = True
            _fork.end = min(_fork.end, time.monotonic() + HURRY)


def _wait_for_compiler() -> None:
    release_imports()  # the compiler may import modules
    if not compiling._is_owned():  # type: ignore[attr-defined]
        compiling.acquire(timeout=max(_fork.end - time.monotonic(), 0))


def _wait_for_arrow() -> None:
    """Let pyarrow set up memory, pandas, functions and files, if other threads may use it.

    It does each once, behind a lock: when any thread first allocates memory, when any first makes
    an array from a NumPy array and so imports pandas, when any first calls a function, and when any
    first uses a file system. Waiting for another thread would not suffice, since it may begin while
    the fork's last hooks run.
    """
    _fork.pandas = "pandas" in sys.modules
    if len(sys._current_frames()) < 2:
        return
    arrow, numpy = _module("pyarrow"), _module("numpy")
    compute, files = _module("pyarrow.compute"), _module("pyarrow.fs")
    if hasattr(arrow, "array") and hasattr(numpy, "zeros"):
        arrow.allocate_buffer(64)
        with contextlib.suppress(Exception):  # an import of pandas can raise anything
            arrow.array(numpy.zeros(1))
        if hasattr(compute, "call_function"):
            compute.call_function("array_sort_indices", [arrow.nulls(1, arrow.int64())])
    if hasattr(files, "LocalFileSystem"):
        files.LocalFileSystem()


def _module(name: str) -> Any:
    """Return a module that was imported, perhaps in part; else None."""
    return sys.modules.get(name)


def _wait_for_imports() -> None:
    """Wait until no other thread imports, then hold the lock that every import takes first."""
    me = _thread.get_ident()
    while True:
        _imp.acquire_lock()
        locks = [found for ref in _module_locks().values() if (found := ref()) is not None]
        held = [found for found in locks if found.owner not in (None, me) and found not in _endless]
        if not held and not _is_any_in_importlib() and _are_hooks_ready():
            if _fork.pandas or "pandas" not in sys.modules:
                return
            release_imports()
            _wait_for_arrow()  # another thread has imported pandas meanwhile
            continue
        if time.monotonic() >= _fork.end:
            _endless.update(held)
            return
        release_imports()
        time.sleep(POLL)


def _is_any_in_importlib() -> bool:
    """Return True if another thread is about to take a lock of importlib, or waits for one.

    It may hold a lock of its own meanwhile: pyarrow (26) does, when it imports pandas. A module
    lock that no thread owns, or is about to own, is left over from an error.
    """
    me = _thread.get_ident()
    for thread, frame in sys._current_frames().items():
        if thread == me or frame.f_code.co_filename != IMPORTLIB_FILE:
            continue
        lock = frame.f_locals.get("self")
        if not isinstance(lock, MODULE_LOCK) or (lock.owner != me and lock not in _endless):
            return True
    return False


def _are_hooks_ready() -> bool:
    """Return True if no other thread holds a lock that later hooks wait for.

    Such a thread may itself wait for the import lock: weak references to module locks take it when
    the garbage collector frees them, in any thread.
    """
    # Taking the locks would be a risk: Ctrl-C may come before they are released.
    own = f" owner={_thread.get_ident()} "
    texts = [repr(each) for each in HOOK_LOCKS]
    return not any(text.startswith("<locked") and own not in text for text in texts)


def _module_locks() -> dict[str, Any]:
    """Return the locks of modules that are being imported."""
    found: dict[str, Any] = getattr(IMPORTLIB, "_module_locks", {})
    return found.copy()


def release_imports() -> None:
    """Release the global import lock if this thread holds it.

    If Ctrl-C comes between two steps of importlib, the lock stays held (CPython 3.11) and other
    threads wait forever.
    """
    while _imp.lock_held():
        try:
            _imp.release_lock()
        except RuntimeError:  # another thread holds it
            return


def _after_in_parent() -> None:
    _insist(release_imports, 0)
    _insist(_release_compiler, 0)
    caller, _fork.caller = _fork.caller, None
    if _fork.interrupted:
        arguments = _thread.get_ident(), caller, _fork.instruction
        threading.Thread(target=_interrupt, args=arguments, daemon=True).start()


def _release_compiler() -> None:
    if not _fork.nested and compiling._is_owned():  # type: ignore[attr-defined]
        compiling.release()


def _interrupt(thread: int, caller: FrameType | None, instruction: int) -> None:
    """Interrupt the thread that forked, the main thread, once the fork has returned.

    Before, CPython drops what is raised: in hooks, and since 3.12 while it warns about threads.
    """
    while _is_forking(thread, caller, instruction):
        time.sleep(POLL)
    signal.pthread_kill(thread, signal.SIGINT)  # a real signal also ends a sleep


def _is_forking(thread: int, caller: FrameType | None, instruction: int) -> bool:
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame is caller:
            return frame.f_lasti == instruction
        if frame.f_code.co_filename == __file__:
            return True
        frame = frame.f_back
    return False


def _after_in_child() -> None:
    global _broken, _inherited
    _fork.caller, _inherited = None, frozenset(sys.modules)
    _insist(release_imports, 0)
    if not _fork.nested:
        _broken = _broken or not compiling.acquire(blocking=False)  # False: another thread compiles
        compiling._at_fork_reinit()  # type: ignore[attr-defined]
    for each in list(_locks):
        each._at_fork_reinit()


# Hooks that a module registers while `_before` waits run only after the fork. Those of
# concurrent.futures and logging would release locks that they do not hold, so both are imported
# above.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
