"""A guard for hostile input, which must be handled in time and must not affect anything outside."""

import contextlib
import signal
import sys

import pyarrow as pa

from tests.support.effort import LONG

SCHEMA = pa.schema(
    [
        ("x", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("é", pa.int64()),
        ("a\u200bb", pa.int64()),
    ]
)
N, MB = 10_000, 1_000_000 if LONG else 300_000
# Seconds. Most cases take a tenth of a second, the slowest two seconds; one whose time grows with
# the square of its size would take minutes.
GUARD = 60
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.connect",
    "socket.getaddrinfo",
    "urllib.Request",
    "shutil.rmtree",
    "os.remove",
)
watching = False


def audit(event, args):
    if watching and (
        event in FORBIDDEN
        or (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"))
    ):
        raise AssertionError(f"{event} {args}")


sys.addaudithook(audit)


@contextlib.contextmanager
def guarded():
    """Raise TimeoutError after GUARD seconds; forbid commands, connections and writing files."""
    global watching

    def stop(number, frame):
        raise TimeoutError(f"more than {GUARD} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, GUARD)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # of modules imported meanwhile
    watching = True
    try:
        yield
    finally:
        watching, sys.dont_write_bytecode = False, writes
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
