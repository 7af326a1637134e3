"""Keep compiled kernels in memory and on disk.

The text of a kernel becomes a module in a directory that only this user can write. The module's
name is the digest of the text. Numba stores the machine code beside it and checks it against its
own version and the processor; loops are stored as object files instead (objects.py). The
directory's name holds the versions of Skipstone, Numba and Python, so a new version starts with an
empty directory.

Files are written under a temporary name and then renamed, so processes that share the directory
always read whole files. A lock file lets one process compile while the others wait. Nothing depends
on the disk: a kernel that cannot be stored is compiled in memory.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import types
import warnings
from collections.abc import Callable, Hashable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from skipstone.ir.errors import BackendMissing, describe_error
from skipstone.ir.node import Node
from skipstone.kernels import logs
from skipstone.kernels.config import config
from skipstone.kernels.run import forks
from skipstone.kernels.run.first_import import finish, first_import
from skipstone.kernels.run.private import why_exposed

# Seconds that a process waits while another one compiles the same kernel; then it compiles its own
# copy. Not every system can tell that the other process is stopped.
LOCK_WAIT: Final = 10.0
CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
Kernel = Callable[..., int]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Shape(NamedTuple):
    """The key of a compiled kernel.

    Attributes:
        roots: `Launch.shape`.
        many: True if the kernel judges many sets of literals at once.
    """

    roots: tuple[Node, ...]
    many: bool = False


_kernels: dict[Hashable, Any] = {}
_warned: set[str] = set()


def find(shape: Hashable) -> Kernel | None:
    """Return the kernel of a shape if this process has it, else None."""
    return _kernels.get(shape)


def count() -> int:
    """Return the number of kernels and loops that this process has compiled or loaded."""
    return len(_kernels)


def kernel(
    key: K,
    source_of: Callable[[K], str],
    make: Callable[[K, types.ModuleType, str], Kernel] | None = None,
) -> Kernel:
    """Return the kernel of a key: from memory, from disk, or compiled now.

    Args:
        key: The input of `source_of`.
        source_of: Returns the text of a module that defines `kernel`, its `SIGNATURE` and the
            options `JIT`.
        make: Loads or compiles the kernel of a key, given its module, which has not run yet, and
            the module's text; None to let Numba do it.

    Raises:
        BackendMissing: Numba cannot be imported, or this process cannot compile.
    """
    found = find(key)
    if found is None:
        if make is None:
            import_numba()
        text = source_of(key)
        module = _module(text)
        now = (
            (lambda: load_or_compile(module, text))
            if make is None
            else (functools.partial(make, key, module, text))
        )
        with _module_lock(module):
            once = functools.partial(make_once, key, now)
            # Numba compiles no more once Ctrl-C has interrupted it.
            nested = forks.compiling._is_owned()  # type: ignore[attr-defined]
            found = once() if nested else finish(once, "skipstone-compile-now")
    return found


def make_once(key: Hashable, make: Callable[[], T]) -> T:
    """Return the cached value of a key, or make it, once in this process.

    One thread compiles at a time; the others wait for it.

    Raises:
        BackendMissing: this process was forked in the middle of a compile.
    """
    found: T | None = _kernels.get(key)
    if found is None:
        if not forks.can_compile():
            raise BackendMissing(
                "this process was forked while another thread compiled, and cannot compile "
                "anything itself: use backend='numpy' here, or start processes by 'spawn' or "
                "'forkserver'"
            )
        forks.release_imports()  # the thread that compiles may import modules
        with forks.compiling:
            found = _kernels.get(key)
            if found is None:
                found = _kernels[key] = make()
    return found


def import_numba() -> None:
    """Import Numba.

    Raises:
        BackendMissing: it cannot be imported, or may not compile.
    """
    try:
        first_import("numba", "llvmlite")
    except Exception as e:  # an import can raise anything
        raise BackendMissing(
            f"backend 'numba' cannot be used: importing the numba package failed "
            f"({describe_error(e)}); install or repair it, or free memory if that was short, "
            "or use backend='numpy'"
        ) from e
    import numba

    if numba.config.DISABLE_JIT:
        raise BackendMissing(
            "backend 'numba' cannot be used: the variable NUMBA_DISABLE_JIT is set; "
            "unset it, or use backend='numpy'"
        )


@contextlib.contextmanager
def process_lock(path: Path) -> Iterator[None]:
    """Hold a lock that keeps other processes of this machine from loading or compiling a kernel.

    One of Spark's many workers compiles the kernel, and the others find it on disk. A process
    that waits here holds no other lock, so neither forks nor other kernels wait for another
    process.
    """
    with contextlib.ExitStack() as stack:
        # If files cannot be locked, or the holder of the lock was stopped, several processes
        # compile the same kernel.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            file = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, file)
            # A forked child inherits the open file and would keep the lock.
            stack.callback(fcntl.flock, file, fcntl.LOCK_UN)
            end = time.monotonic() + LOCK_WAIT
            while time.monotonic() < end and not _is_stopped(os.pread(file, 20, 0)):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.pwrite(file, b"%-20d" % os.getpid(), 0)
                    break
                time.sleep(0.01)
        yield


def _is_stopped(pid: bytes) -> bool:
    """Return True if a process of this machine is stopped, by SIGSTOP or a debugger."""
    try:
        with open(f"/proc/{int(pid)}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, ValueError, IndexError):  # no such process, or a system without /proc
        return False


def _module_lock(module: types.ModuleType) -> contextlib.AbstractContextManager[None]:
    path = module.__file__
    return contextlib.nullcontext() if path is None else process_lock(Path(path))


def load_or_compile(module: types.ModuleType, text: str) -> Kernel:
    """Load a kernel from Numba's cache, or compile it and keep it there."""
    execute(module, text)
    if module.__file__ is not None:
        for _ in range(2):
            try:
                return compile_now(module, keep=True)
            except OSError as e:  # the disk is full, or the user may not read or write the files
                warn_not_kept(e)
                break
            except Exception:
                # Machine code that a crash damaged fails in many ways: discard it and compile the
                # kernel again. An error in the text itself is raised below.
                _discard(Path(module.__file__))
    return compile_now(module, keep=False)


def execute(module: types.ModuleType, text: str) -> None:
    """Run the text of a kernel's module."""
    # The text may call Numba, whose locks a fork must not copy while they are held. So it runs
    # within `forks.compiling`.
    exec(compile(text, module.__file__ or f"<{module.__name__}>", "exec"), module.__dict__)


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            stale.unlink(missing_ok=True)


def compile_now(module: Any, *, keep: bool) -> Kernel:
    """Compile the kernel of a module that has run.

    Args:
        module: The module.
        keep: True if Numba loads it from its cache, or keeps it there.
    """
    import numba

    from skipstone.kernels.run.numba_warnings import shared_warnings_kept

    # Numba finds the module of stored machine code by its name
    sys.modules[module.__name__] = module
    start = time.perf_counter()
    with shared_warnings_kept():
        out: Any = numba.njit(module.SIGNATURE, cache=keep, **module.JIT)(module.kernel)
    event = "kernel loaded" if out.stats.cache_hits else "kernel compiled"
    logs.write(event, kernel=module.__name__, seconds=time.perf_counter() - start)
    return cast("Kernel", out)


def warn_once(text: str, stacklevel: int = 3) -> None:
    """Issue a warning once per process."""
    if text not in _warned:
        _warned.add(text)
        logs.fallback(text)
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)


def warn_not_kept(error: OSError) -> None:
    """Warn that compiled kernels cannot be written to disk."""
    warn_once(
        f"skipstone does not keep kernels on disk: {describe_error(error)}. Each process compiles "
        "them again; set SKIPSTONE_CACHE_DIR to a directory that can be written.",
        stacklevel=4,
    )


def directory(kind: str = "kernels") -> Path:
    """Return the directory of cached kernels, or of cached files of another kind.

    It is created if needed.

    It is below `config.kernel_cache_dir`. If others can change it, or a directory above it, they
    could plant code there: a private temporary directory is used instead, with a warning.

    Args:
        kind: The name of the subdirectory, such as "kernels".

    Raises:
        OSError: no temporary directory can be created either.
    """
    reason = folder_or_reason(kind, _versions())
    if isinstance(reason, Path):
        return reason
    logs.fallback(f"skipstone does not keep {kind}: {reason}")
    warnings.warn(
        f"skipstone does not keep {kind}: {reason}. "
        "Set SKIPSTONE_CACHE_DIR, or config.kernel_cache_dir, to a directory of your own.",
        RuntimeWarning,
        stacklevel=3,
    )
    return _temporary()


def folder_or_reason(kind: str, version: str) -> Path | str:
    """Return the folder of cached files, which is created if needed, or why it cannot be used.

    Args:
        kind: The name of the folder below `config.kernel_cache_dir`.
        version: The name of the folder below that one.
    """
    try:
        path = Path(config.kernel_cache_dir) / kind / version
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(path, os.W_OK | os.X_OK):
            return f"{path} cannot be written to"
        return path if (why := why_exposed(path)) is None else why
    except (OSError, RuntimeError) as e:  # RuntimeError: the user has no home directory
        return describe_error(e)


_temporary_directory: Path | None = None


def _temporary() -> Path:
    global _temporary_directory
    if _temporary_directory is None:
        import tempfile

        _temporary_directory = Path(tempfile.mkdtemp(prefix="skipstone-kernels-"))
    return _temporary_directory


@functools.cache
def _versions() -> str:
    numba = _version_beside("numba")
    if numba is None:
        from importlib import metadata  # takes 20 ms to import

        try:
            numba = metadata.version("numba")
        except metadata.PackageNotFoundError:
            numba = ""
    own = sys.modules["skipstone"].__version__
    return f"{own}-numba{numba}-py{sys.version_info.major}{sys.version_info.minor}"


def _version_beside(package: str) -> str | None:
    """Return a package's version from the folder that its installer made beside it."""
    spec = PathFinder.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    folders = Path(spec.origin).parent.parent.glob(f"{package}-*.dist-info")
    names = [folder.name.removesuffix(".dist-info") for folder in folders]
    return names[0].partition("-")[2] if len(names) == 1 else None


def path_of(text: str) -> Path | None:
    """Return the file of the module of a kernel's text; None if files cannot be kept."""
    import hashlib

    name = f"skipstone_kernel_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    try:
        return directory() / f"{name}.py"
    except OSError as e:
        warn_not_kept(e)
        return None


def _module(text: str) -> types.ModuleType:
    """Return a module whose file holds the text, which has not run yet."""
    path = path_of(text)
    name = f"skipstone_kernel_{os.urandom(16).hex()}" if path is None else path.stem
    module = types.ModuleType(name)
    module.__file__ = None
    try:
        if path is not None:
            if not path.exists() or path.read_bytes() != text.encode():
                write_whole(path, text.encode())
            module.__file__ = str(path)
    except OSError as e:
        warn_not_kept(e)
    return module


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: readers see all of it or nothing."""
    # The module tempfile has a lock that a forked child may find held.
    temporary = path.parent / f".new-{os.urandom(8).hex()}"
    handle = os.open(temporary, CREATE_FLAGS, 0o600)
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
