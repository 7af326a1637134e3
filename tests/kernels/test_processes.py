"""Test full disks, stopped processes, failed imports and threads that raise: all calls return."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.kernels.run import compile_cache, compiler, pool
from skipstone.kernels.run.bounded_cache import BoundedCache
from skipstone.kernels.run.compile_cache import Shape
from tests.fuzz.processes import fuzz

USE = """
import os, resource, signal, sys, numpy as np, pyarrow as pa, skipstone as ss
schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
low = np.arange(70_000)
stats = ss.Statistics.from_dict({"x": {"min": low, "max": low + 9}, "y": {"min": low}}, schema)
p = ss.PruningPredicate("x < 500 AND y <> 3", schema)
"""


def ran(code, **env):
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", USE + textwrap.dedent(code)],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout.split(), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_and_interrupts_at_random_moments():
    _, said = fuzz(1, 2)
    assert not [s for s in said if not s.startswith("(")]


FULL = {
    "a limit of bytes": "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))",
    "no folders": "os.environ['TMPDIR'] = os.environ['SKIPSTONE_CACHE_DIR'] = '/dev/null/x'",
}


@pytest.mark.parametrize("full", FULL.values(), ids=FULL)
def test_nothing_depends_on_a_disk(full, tmp_path):
    code = f"{full}\nprint(p.prune(stats, 'numba').sum(), p.prune(stats).sum())"
    status, said, err = ran(code, SKIPSTONE_CACHE_DIR=str(tmp_path))
    assert (status, said) == (0, ["500", "500"]), err
    assert err.count("skipstone does not keep kernels") >= 1


@pytest.mark.parametrize(
    "disk, cache",
    [("size=64k", "SKIPSTONE_CACHE_DIR"), ("ro", "HOME")],
    ids=["full", "read-only"],
)
def test_a_disk_that_cannot_be_written(tmp_path, disk, cache):
    """The cache of kernels and the folder of saved tables are on it."""
    import deltalake

    home, table = tmp_path / "home", tmp_path / "table"
    home.mkdir()
    deltalake.write_deltalake(table, pa.table({"x": range(100)}))
    mount = ["mount", "-t", "tmpfs", "-o", disk, "tmpfs", str(home)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        if disk != "ro":
            (home / "fill").write_bytes(bytes(50_000))
        code = f"""
        ss.cache_dir = {str(home / "tables")!r}
        plan = ss.scan_delta({str(table)!r}).plan("x < 7")
        print(p.prune(stats, "numba").sum(), p.prune(stats).sum(), plan.count())
        """
        status, said, err = ran(code, **{cache: str(home)})
        assert (status, said) == (0, ["500", "500", "7"]), err
    finally:
        subprocess.run(["umount", str(home)], check=True)


def test_a_folder_in_the_place_of_a_kernel(tmp_path):
    code = """
    p.prune(stats, "numba")
    from pathlib import Path
    for path in list(Path(os.environ["SKIPSTONE_CACHE_DIR"]).rglob("skipstone_kernel_*.py")):
        path.unlink()
        path.mkdir()
    from skipstone.kernels.run import compile_cache as cache
    cache._kernels.clear()
    print(p.prune(stats, "numba").sum())
    """
    status, said, err = ran(code, SKIPSTONE_CACHE_DIR=str(tmp_path))
    assert (status, said) == (0, ["500"]), err


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc on this system")
def test_a_stopped_process_that_holds_a_lock_is_not_waited_for(tmp_path):
    env = {"SKIPSTONE_CACHE_DIR": str(tmp_path)}
    assert ran("print(p.prune(stats, 'numba').sum())", **env)[1] == ["500"]
    (lock,) = tmp_path.rglob("*.lock")
    code = f"""
import fcntl, os, signal, sys
file = os.open({str(lock)!r}, os.O_RDWR)
fcntl.flock(file, fcntl.LOCK_EX)
os.pwrite(file, b"%-20d" % os.getpid(), 0)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        code = """
        import time
        from skipstone.kernels.run import compile_cache as cache
        cache.import_numba()
        start = time.monotonic()
        print(p.prune(stats, "numba").sum(), time.monotonic() - start < cache.LOCK_WAIT)
        """
        assert ran(code, **env)[1] == ["500", "True"]
    finally:
        holder.send_signal(signal.SIGCONT)
        holder.kill()
        holder.communicate()


def test_a_numba_that_cannot_be_imported_may_be_tried_again():
    code = """
    import builtins, importlib
    real = builtins.__import__
    def fails(name, *args, **kwargs):
        if name == "numba.core.typing" or name.startswith("numba.core.dispatcher"):
            raise MemoryError("out of memory")
        return real(name, *args, **kwargs)
    builtins.__import__ = fails
    for _ in range(2):
        try:
            p.prune(stats, "numba")
        except ss.BackendMissing as e:
            print("missing")
    print(p.prune(stats).sum())
    builtins.__import__ = real
    try:
        print(p.prune(stats, "numba").sum())
    except ss.BackendMissing:
        print("500")
    """
    status, said, err = ran(code)
    assert (status, said) == (0, ["missing", "missing", "500", "500"]), err


def test_a_numba_that_must_not_compile_is_not_used(tmp_path):
    code = """
    try:
        p.prune(stats, "numba")
    except ss.BackendMissing as e:
        print("NUMBA_DISABLE_JIT" in str(e))
    print(p.prune(stats).sum())
    """
    status, said, err = ran(code, SKIPSTONE_CACHE_DIR=str(tmp_path), NUMBA_DISABLE_JIT="1")
    assert (status, said) == (0, ["True", "500"]), err


@pytest.mark.parametrize("who", ["caller", "helper"])
def test_an_error_in_a_chunk_waits_for_the_others(who, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_THREADS", "4")
    running, me = [], threading.get_ident()

    def work(first, last):
        running.append(first)
        time.sleep(0.02)
        mine = threading.get_ident() == me
        running.remove(first)
        if mine == (who == "caller"):
            raise ValueError(f"chunk {first}")

    with pytest.raises(ValueError, match="chunk"):
        pool.run_chunks(work, 400, 1)
    assert not running
    monkeypatch.undo()
    pool.run_chunks(lambda first, last: running.append(first), 8, 1)
    assert sorted(running) == list(range(8))


def test_values_are_the_same_for_all_threads():
    kept, meet, found = BoundedCache(2), threading.Barrier(8), []

    def make():
        meet.wait()  # all threads make the value at once
        return object()

    threads = [threading.Thread(target=lambda: found.append(kept.get(1, make))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(map(id, found))) == 1
    for key in range(9):
        kept.put(key, key)
    assert list(kept) == [7, 8]


def test_shapes_earn_their_kernel_and_one_thread_compiles(monkeypatch):
    compiled, hold = [], threading.Event()

    def compile_now(shape):
        hold.wait(10)
        compiled.append(shape)

    shapes = [Shape((), i) for i in range(300)]  # distinct shapes of one operation
    for shape in shapes:
        compiler.count_use(shape, compiler.COMPILE_AFTER // 5, compile_now)
        compiler.count_use(shape, compiler.MIN_CONTAINERS - 1, compile_now)
    named = lambda: [t for t in threading.enumerate() if t.name == "skipstone-compile"]
    assert not named() and not compiled
    for _ in range(4):
        for shape in shapes:
            compiler.count_use(shape, compiler.COMPILE_AFTER // 5 + shape.many, compile_now)
    assert len(named()) == 1 and len(compiler._queue) == compiler.MAX_QUEUED
    dearest = shapes[150]  # it waits in the queue no more, and is used again
    compiler.count_use(dearest, compiler.COMPILE_AFTER, compile_now)
    hold.set()
    named()[0].join(20)
    assert len(compiled) == compiler.MAX_QUEUED + 1
    # The first was compiled before others waited; then come those that cost most.
    assert compiled[1] == dearest and set(compiled[2:]) <= set(shapes[-compiler.MAX_QUEUED :])


def test_a_process_compiles_a_bounded_number_of_shapes(monkeypatch):
    monkeypatch.setattr(compiler, "MAX_KERNELS", compile_cache.count())
    compiled = []
    compiler.count_use(Shape((), 1 << 20), compiler.COMPILE_AFTER, compiled.append)
    assert not compiler._queue and not compiled


CTRL_C = """
import threading, time
from skipstone.kernels.run import forks
held, done = threading.Event(), threading.Event()
def compile():
    with forks.compiling:
        held.set()
        time.sleep(2)
threading.Thread(target=compile).start()
held.wait()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
out, into = os.pipe()
start = time.monotonic()
try:
    if os.fork() == 0:
        kept = p.prune(stats, "numba").sum()
        os.write(into, b"%d" % kept)
        os._exit(0)
    time.sleep(30)
    print("swallowed")
except KeyboardInterrupt:
    print("interrupted", 1 < time.monotonic() - start < 30)
print(os.read(out, 9).decode())
"""


# Since CPython 3.12 a fork beside threads warns, and drops what the warning raises.
SLOW_WARNING = """
import warnings
warnings.simplefilter("always")
warnings.showwarning = lambda *warning: [time.sleep(0.01) for _ in range(50)]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("warning", ["", SLOW_WARNING], ids=["no warning", "a slow warning"])
def test_ctrl_c_while_a_fork_waits_for_the_compiler(warning):
    code = CTRL_C.replace("held, done =", f"{warning}held, done =")
    assert ran(code)[:2] == (0, ["interrupted", "True", "500"])


HELD = """
from skipstone.kernels.run import forks
HELD = forks.compiling._is_owned()  # when the text runs
def kernel(x): return x
SIGNATURE, JIT = "int64(int64)", {}
"""


def test_no_text_runs_without_the_lock_that_forks_wait_for(tmp_path, monkeypatch):
    """The text of a loop calls Numba for its inner functions, and Numba has locks of its own."""
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path))
    found = compile_cache.kernel("test_no_text_runs", lambda key: HELD)
    assert found(3) == 3 and found.py_func.__globals__["HELD"]


LEFT_LOCK = """
import _imp, threading, time
from skipstone.kernels.run import forks
p.prune(stats, "numba")
held = threading.Event()
def compile():
    with forks.compiling:
        held.set()
        time.sleep(0.5)
        import colorsys
thread = threading.Thread(target=compile, daemon=True)
thread.start()
held.wait()
_imp.acquire_lock()
{use}
"""
USES = {
    "compile": "print(ss.PruningPredicate('x < 9 OR y = 3', schema).prune(stats, 'numba').sum())",
    "fork": "os.fork() or os._exit(0)\nprint(9 if not thread.is_alive() else 'waited in vain')",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_lock_of_imports_that_ctrl_c_left_held(use):
    """Ctrl-C within importlib may leave it held (CPython 3.11); the compiler imports modules."""
    assert ran(LEFT_LOCK.replace("{use}", use))[:2] == (0, ["9"])


LEFT_LOCK_AND_IMPORT = """
import _imp, os, signal, sys, threading, time
import pyarrow as pa, skipstone as ss
first = {first}
class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r} and not held.is_set():
            held.set()
            time.sleep(0.5)
        return None
held = threading.Event()
sys.meta_path.insert(0, Slow)
threading.Thread(target=__import__, args=[{module!r}], daemon=True).start()
signal.alarm(20)
held.wait()
_imp.acquire_lock()
print({use})
"""
PREDICATE = ("ss.PruningPredicate", "skipstone.bindings.predicates.sql")
SCAN = ("ss.scan", "skipstone.bindings.tables.parquet.footers")
READ = "skipstone.bindings.tables.parquet.read_groups"


@pytest.mark.parametrize(
    ("first", "module", "use"),
    [
        (*PREDICATE, "first('x > 1', pa.schema([('x', pa.int64())])).columns"),
        (*SCAN, "first({path!r}).schema.names"),
        ("ss.scan_parquet({path!r}).plan()", READ, "first.to_arrow().num_rows"),
    ],
)
def test_an_import_after_ctrl_c_left_the_lock_of_imports(first, module, use, tmp_path):
    """Ctrl-C may leave the lock with the main thread, which waits for a thread that needs it."""
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"x": [1]}), path)
    first, use = first.format(path=path), use.format(path=path)
    code = LEFT_LOCK_AND_IMPORT.format(first=first, module=module, use=use)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# pyarrow imports pandas when it first makes an array from NumPy, behind a C++ lock.
