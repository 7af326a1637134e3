"""Test threads, forks and caches: nothing hangs, and nothing reads half a kernel."""

import multiprocessing
import os
import stat
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet.pages import decoders
from skipstone.kernels.run import compile_cache, compiler, pool

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])
N = 300_000  # more than one chunk
CALLS = -(-compiler.COMPILE_AFTER // (20 * N))  # after which `auto` compiles in the background


def make_stats():
    low = np.arange(N)
    return ss.Statistics.from_dict(
        {"x": {"min": low, "max": low + 9}, "y": {"min": low[::-1].copy(), "max": low[::-1] + 5}},
        SCHEMA,
    )


STATS = make_stats()


def judged(where, backend):
    return int(ss.PruningPredicate(where, SCHEMA).prune(STATS, backend).sum())


def in_fork(work, *args):
    """Return what a forked child puts into its last argument, a queue; the child must end, too."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=work, args=(*args, queue))
    child.start()
    try:
        found = queue.get(timeout=90)
        child.join(10)
        assert not child.is_alive()
        return found
    finally:
        child.kill()


def in_child(where, backend, queue):
    queue.put(judged(where, backend))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("backend", ["auto", "numpy", "numba"])
def test_a_forked_child_judges_while_the_parent_compiles(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path))
    where = f"x > 7 AND NOT (y < 3) OR x < {len(backend)} AND y <= 1"
    expected = judged(where, "numpy")
    for _ in range(CALLS):
        judged(f"({where}) AND x < 250000", "auto")  # the compiler starts in the background
    assert in_fork(in_child, where, backend) == expected


def count_in_child(plan, reader, queue):
    queue.put(plan.to_arrow(reader=reader).num_rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("reader", ["auto", "polars"])
@pytest.mark.parametrize("where", ["x > 7", None])
def test_a_forked_child_reads_what_polars_read_before(reader, where, tmp_path, monkeypatch):
    """The threads of Polars do not exist in the child, where it would wait for them forever."""
    monkeypatch.setattr(decoders, "POLARS_FROM", 0)
    pl.DataFrame({"x": range(100), "y": range(100)}).write_parquet(tmp_path / "t.parquet")
    plan = ss.scan_parquet(tmp_path).plan(where)
    expected = plan.to_arrow(reader=reader).num_rows  # starts the threads
    assert in_fork(count_in_child, plan, reader) == expected


def test_many_threads_share_statistics():
    predicates = [
        ss.PruningPredicate(f"x >= {i} AND y < {N - i}", SCHEMA) for i in range(0, N, N // 24)
    ]
    expected = [p.prune(STATS, "numpy").sum() for p in predicates]
    fresh = make_stats()
    with ThreadPoolExecutor(8) as callers:
        for backend in ("numpy", "numba", "auto"):
            assert [
                r.sum() for r in callers.map(lambda p, b=backend: p.prune(fresh, b), predicates)
            ] == expected


SCRIPT = """
import sys, numpy as np, pyarrow as pa, skipstone as ss
schema = pa.schema([("x", pa.int64())])
low = np.arange(70_000)
x = {"min": low, "max": low + 9, "null_count": low % 3, "row_count": low % 3 + low % 2}
stats = ss.Statistics.from_dict({"x": x}, schema)
print(ss.PruningPredicate("x > 500 OR x = 3", schema).prune(stats, "numba").sum())
"""


MISSES_AND_HITS = """
from skipstone.kernels.run import compile_cache as cache
(kernel,) = cache._kernels.values()
print(sum(kernel.stats.cache_misses.values()), sum(kernel.stats.cache_hits.values()))
"""


def test_processes_share_one_cache_and_make_a_damaged_one_again(tmp_path):
    env = {**os.environ, "SKIPSTONE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT + MISSES_AND_HITS]
    start = lambda: subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    runs = [start() for _ in range(3)]
    said = [r.communicate(timeout=120)[0].splitlines() for r in runs]
    assert all(r.returncode == 0 for r in runs)
    assert len({kept for kept, _ in said}) == 1
    # One compiled; the others waited and loaded it.
    assert sorted(count for _, count in said) == ["0 1", "0 1", "1 0"]
    assert len(list(tmp_path.rglob("skipstone_kernel_*.py"))) == 1
    assert not list(tmp_path.rglob(".new-*"))
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    again = start()
    assert again.communicate(timeout=120)[0].splitlines()[0] == said[0][0]
    assert again.returncode == 0


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no POSIX permissions on this system")
def test_a_directory_of_others_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path))
    own = compile_cache.directory()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    own.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write to"):
        assert compile_cache.directory() != own


def test_a_directory_that_cannot_be_made_is_not_needed(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="does not keep kernels"):
        assert compile_cache.directory().is_dir()


@pytest.mark.parametrize("value", ["0", "-1", "two", ""])
def test_threads_must_be_a_number(value, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_THREADS", value)
    with pytest.raises(ss.SkipstoneError, match="expected a positive integer"):
        pool.threads()


def test_threads_can_be_set(monkeypatch):
    monkeypatch.setenv("SKIPSTONE_THREADS", "1")
    assert pool.threads() == 1
    assert judged("x > 1000", "numba") == judged("x > 1000", "numpy")
    monkeypatch.setenv("SKIPSTONE_THREADS", "5")
    assert judged("x > 1000", "numba") == judged("x > 1000", "numpy")


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "2"])
def test_a_thread_count_must_be_a_positive_integer(value):
    with pytest.raises(ss.SkipstoneError, match="expected a positive integer, or None"):
        ss.set_threads(value)


def test_an_option_overrides_the_environment(monkeypatch):
    monkeypatch.setenv("SKIPSTONE_THREADS", "2")
    try:
        for count in (1, 7, 3, None):
            ss.set_threads(count)
            assert pool.threads() == (count or 2)
            assert judged("x > 1000", "numba") == judged("x > 1000", "numpy")
    finally:
        ss.set_threads(None)


def test_threads_are_the_cpus_that_the_process_may_use():
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process may use one CPU, or cannot say")
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
        "from skipstone.kernels.run import pool; print(pool.threads())"
    )
    env = {k: v for k, v in os.environ.items() if k != "SKIPSTONE_THREADS"}
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        ).stdout
        == "1\n"
    )


def test_a_failed_compile_warns_and_numpy_continues(monkeypatch):
    def broken(roots):
        raise RuntimeError("no compiler today")

    from skipstone.kernels.run import numba_cpu

    monkeypatch.setattr(numba_cpu, "compile_shape", broken)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(CALLS):
            assert judged("x > 1000 AND y > 77 AND x <> 5 AND y <> 12", "auto") > 0
        for t in threading.enumerate():
            if t.name == "skipstone-compile":
                t.join(10)
    assert any("no compiler today" in str(w.message) for w in seen)


def compiling():
    return [t for t in threading.enumerate() if t.name == "skipstone-compile"]


def test_large_shapes_are_not_compiled():
    """A fork waits for the compiler, so a shape that would take many seconds is left to NumPy."""
    wide = " AND ".join(f"(x > {i} AND y > {i} OR x < {-i} AND y < {-i})" for i in range(1, 41))
    before = compiling()
    for _ in range(CALLS):
        assert judged(wide, "auto") == judged(wide, "numpy")
    assert set(compiling()) <= set(before)


EXIT = """
import sys, time, numpy as np, pyarrow as pa, skipstone as ss
schema = pa.schema([("x", pa.int64()), ("y", pa.int32())])
low = np.arange(200_000)
columns = {"x": {"min": low, "max": low}, "y": {"min": low.astype("i4")}}
stats = ss.Statistics.from_dict(columns, schema)
for _ in range(5):
    ss.PruningPredicate("x > 5 AND y IN (1, 2, 3)", schema).prune(stats)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("seconds", ["0", "0.3", "0.8"])
def test_a_process_may_end_while_it_compiles(seconds, tmp_path):
    env = {**os.environ, "SKIPSTONE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", EXIT, seconds], env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_home_directory_is_not_an_error(monkeypatch):
    from pathlib import Path

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SKIPSTONE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.warns(RuntimeWarning, match="Could not determine home directory"):
        assert compile_cache.directory().is_dir()


def test_a_directory_that_cannot_be_written_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPSTONE_CACHE_DIR", str(tmp_path))
    own = compile_cache.directory()
    monkeypatch.setattr(
        compile_cache.os, "access", lambda path, mode: False
    )  # root may write anywhere
    with pytest.warns(RuntimeWarning, match="cannot be written to"):
        assert compile_cache.directory() != own
