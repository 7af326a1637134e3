"""Forks while other threads hold locks that are not ours: those of pyarrow and of Python."""

import os
import subprocess
import sys

import pytest

ARROW = """
import os, signal, sys, threading, time, warnings
import numpy as np, pyarrow as pa, skipstone
warnings.simplefilter("ignore")
threading.Thread(target=pa.array, args=(np.zeros(3),)).start()
while "pandas" not in sys.modules:
    time.sleep(0.001)
if os.fork() == 0:
    signal.alarm(60)
    pa.array(np.zeros(3))
    os._exit(0)
print(os.wait()[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_pyarrow_imports_pandas():
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-c", ARROW], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_another_thread_is_about_to_import_pandas():
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-c", AWAITED], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_while_a_pool_takes_work():
    """The thread that holds the pool's lock waits for one that needs the import lock."""
    done = subprocess.run([sys.executable, "-c", HOOKS], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
