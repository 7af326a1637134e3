"""Forks while other threads hold locks that are not ours: those of pyarrow and of Python."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def run(script: str, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, output and errors of a new process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


ARROW = """
import os, signal, sys, threading, time
import numpy as np, pyarrow as pa, skipstone
threading.Thread(target=pa.array, args=(np.zeros(3),)).start()
while "pandas" not in sys.modules:
    time.sleep(0.001)
if os.fork() == 0:
    signal.alarm(60)
    pa.array(np.zeros(3))
    os._exit(0)
print(os.wait()[1])
"""


def test_a_fork_while_pyarrow_imports_pandas():
    pytest.importorskip("pandas")
    assert run(ARROW) == (0, "0\n", "")


AWAITED = """
import _imp, os, signal, sys, threading, time
from importlib import _bootstrap
import numpy as np
import pyarrow as pa
from skipstone.kernels.run import forks

real, threads = forks._wait_for_arrow, []

def waits():
    real()
    if threads:
        return
    _imp.acquire_lock()  # the other thread takes pyarrow's lock, then waits for this one
    threads.append(threading.Thread(target=pa.array, args=(np.zeros(3),)))
    threads[0].start()
    while sys._current_frames()[threads[0].ident].f_code.co_name != "_get_module_lock":
        time.sleep(0.001)

forks._wait_for_arrow = waits
assert "pandas" not in sys.modules
if os.fork() == 0:
    signal.alarm(20)
    pa.array(np.zeros(3))
    os._exit(0)
print(os.wait()[1])
"""


def test_a_fork_while_another_thread_is_about_to_import_pandas():
    pytest.importorskip("pandas")
    assert run(AWAITED) == (0, "0\n", "")


HOOKS = """
import _imp, os, threading, time
import concurrent.futures.thread as futures
import skipstone

begun, done = threading.Event(), threading.Event()

def hold():
    with futures._global_shutdown_lock:
        begun.set()
        done.wait()

def need():
    time.sleep(0.5)  # the fork's hooks run by now
    _imp.acquire_lock()
    _imp.release_lock()
    done.set()

for work in (hold, need):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
if os.fork() == 0:
    os._exit(0)
print(os.wait()[1])
"""


def test_a_fork_while_a_pool_takes_work():
    """The thread that holds the pool's lock waits for one that needs the import lock."""
    assert run(HOOKS) == (0, "0\n", "")


BROKEN = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy, pyarrow
from skipstone.kernels.run import forks

threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
held = []
real = forks._wait_for_imports
forks._wait_for_imports = lambda: (real(), held.append(True))
if os.fork() == 0:
    os._exit(0)
print(os.wait()[1], held)
"""


def test_a_fork_with_a_pandas_that_cannot_be_imported(tmp_path):
    """The other steps before the fork are still taken, and nothing is printed."""
    (tmp_path / "pandas.py").write_text("raise RuntimeError('broken')")
    assert run(BROKEN, str(tmp_path)) == (0, "0 [True]\n", "")


OWN = """
import concurrent.futures.thread as futures, logging, os, time
import skipstone

start = time.monotonic()
logging._lock.acquire()  # as a handler holds it
if os.fork() == 0:
    os._exit(0)
logging._lock.release()
print(os.wait()[1], time.monotonic() - start < 3)
"""


def test_a_fork_does_not_wait_for_its_own_lock():
    assert run(OWN) == (0, "0 True\n", "")
