"""Compiled kernels, in memory and on disk.

A kernel's text is a module in a directory of this user's own, named by the text's digest; Numba keeps
the machine code beside it and checks it against its own version and the processor. The directory
carries the versions of Skipstone, Numba and Python, so a new one starts empty. Files are written
under a temporary name and renamed, so processes that meet there read whole files; a lock lets one of them
compile while the others wait.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from skipstone.ir.node import Node
from skipstone.kernels.private import exposed

# Operations of a shape that is compiled unasked. 400 take some 3 s, which a fork would wait for.
LARGEST: Final = 400
LONGEST: Final = 30  # seconds that a process waits for the kernel of another
Kernel = Callable[..., int]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Shape(NamedTuple):
    """What a kernel is compiled for.

    Attributes:
        roots: `Launch.shape`.
        many: Whether it judges by many sets of literals at once.
    """

    roots: tuple[Node, ...]
    many: bool = False


_kernels: dict[Hashable, Any] = {}
_compiling = threading.Lock()
_waiting: set[Hashable] = set()
_waiting_lock = threading.Lock()


def ready(shape: Hashable) -> Kernel | None:
    """The kernel of a shape, if this process has it."""
    return _kernels.get(shape)


def kernel(
    shape: K, source_of: Callable[[K], str], load: Callable[[types.ModuleType], Kernel]
) -> Kernel:
    """The kernel of a shape, or of another key that its text follows from."""
    return made(shape, lambda: _loaded(source_of(shape), load))


def made(key: Hashable, make: Callable[[], T]) -> T:
    """What a compiler makes, once in this process: one thread compiles at a time, and the others wait for it."""
    found: T | None = _kernels.get(key)
    if found is None:
        with _compiling:
            found = _kernels.get(key)
            if found is None:
                found = _kernels[key] = make()
    return found


def _loaded(text: str, load: Callable[[types.ModuleType], Kernel]) -> Kernel:
    module = _module(text)
    with alone(Path(str(module.__file__))):
        return _load_or_compile(module, load)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """While no other process of this machine loads or compiles the same kernel: of Spark's many workers one compiles it, and the others find it on disk."""
    with contextlib.ExitStack() as held:
        # Where files cannot be locked, or whoever holds the lock was stopped, some compile what others do too.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            file = held.enter_context(open(path.with_suffix(".lock"), "ab"))
            end = time.monotonic() + LONGEST
            while time.monotonic() < end:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(
                        file, fcntl.LOCK_EX | fcntl.LOCK_NB
                    )  # the system ends it with the process
                    break
                time.sleep(0.01)
        yield


def _load_or_compile(
    module: types.ModuleType, load: Callable[[types.ModuleType], Kernel]
) -> Kernel:
    try:
        return load(module)
    except Exception:
        # Machine code that a crash or a full disk left unusable fails in many ways. Without it the
        # kernel is compiled again, and what is wrong with the text itself is raised then.
        for stale in (Path(str(module.__file__)).parent / "__pycache__").glob(
            f"{module.__name__}.*"
        ):
            stale.unlink(missing_ok=True)
        return load(module)


def compile_behind(
    shape: K, compile_now: Callable[[K], Any], failed: Callable[[Exception], None] | None = None
) -> None:
    """Have a daemon thread compile a shape, or what another key stands for; nobody waits for it.

    Args:
        shape: The key; it is compiled once.
        compile_now: Compiles it.
        failed: Told why it could not be; it may then be asked for again. None: a warning tells, and it is not tried again.
    """
    if os.environ.get("SKIPSTONE_COMPILE") == "0":
        return
    with _waiting_lock:
        if shape in _waiting:
            return
        _waiting.add(shape)
    if isinstance(shape, Shape) and sum(1 for root in shape.roots for _ in root.walk()) > LARGEST:
        return

    def work() -> None:
        try:
            compile_now(shape)
        except Exception as e:  # what answered goes on answering
            if failed is None:
                warnings.warn(
                    f"skipstone could not compile a kernel and goes on with NumPy: {e}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return
            with _waiting_lock:
                _waiting.discard(shape)
            failed(e)

    threading.Thread(target=work, name="skipstone-compile", daemon=True).start()


def directory(kind: str = "kernels") -> Path:
    """Where kernels, or things of another kind, are kept: `SKIPSTONE_CACHE_DIR`, else the user's cache directory. Made if it is not there.

    One that others can change, or one above it, would let them plant code: a private temporary one
    is used instead.
    """
    try:
        path = _root() / kind / _versions()
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.W_OK | os.X_OK):
            reason = f"{path} cannot be written to"
        elif (why := exposed(path)) is not None:
            reason = why
        else:
            return path
    except (OSError, RuntimeError) as e:  # RuntimeError: this user has no home directory
        reason = str(e)
    warnings.warn(
        f"skipstone does not keep {kind}: {reason}. Set SKIPSTONE_CACHE_DIR to a directory of your own.",
        RuntimeWarning,
        stacklevel=3,
    )
    return _temporary()


def _root() -> Path:
    if given := os.environ.get("SKIPSTONE_CACHE_DIR"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skipstone"


_temporary_directory: Path | None = None


def _temporary() -> Path:
    global _temporary_directory
    if _temporary_directory is None:
        import tempfile

        _temporary_directory = Path(tempfile.mkdtemp(prefix="skipstone-kernels-"))
    return _temporary_directory


def _versions() -> str:
    from importlib import metadata

    try:
        own = metadata.version("skipstone")
    except metadata.PackageNotFoundError:  # a checkout that was not installed
        own = "checkout"
    return (
        f"{own}-numba{metadata.version('numba')}-py{sys.version_info.major}{sys.version_info.minor}"
    )


def _module(text: str) -> types.ModuleType:
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    name, folder = f"skipstone_kernel_{digest}", directory()
    path = folder / f"{name}.py"
    if not path.exists() or path.read_bytes() != text.encode():
        write_whole(path, text.encode())
    module = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or nothing."""
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _before_fork() -> None:
    # A child that is forked while another thread compiles would inherit Numba's lock, held forever.
    _compiling.acquire()


def _after_fork() -> None:
    _compiling.release()


def _after_fork_in_child() -> None:
    global _compiling, _waiting_lock
    _compiling, _waiting_lock = threading.Lock(), threading.Lock()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )
