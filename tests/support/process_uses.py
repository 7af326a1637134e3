"""A first use of Skipstone that is forked or interrupted, and must answer correctly after that.

    python -m tests.support.process_uses fork|interrupt|both SEED FOLDER

`tests/fuzz/processes.py` starts it. It exits with 0 if all went well; otherwise it prints the
error.
"""

import faulthandler
import os
import random
import secrets
import select
import signal
import sys
import threading
import time
import traceback
import warnings

import numpy as np
import pyarrow as pa

import skipstone as ss

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])
N = 300_000
TIME = 120  # seconds that a process may take
LATEST = 2.5  # latest time of a fork or an interrupt, in seconds


def statistics(n):
    low = np.arange(n)
    return ss.Statistics.from_dict(
        {"x": {"min": low, "max": low + 9}, "y": {"min": low, "max": low}}, SCHEMA
    )


def same(found, expected):
    assert found == expected, f"{found} is not {expected}"


class Uses:
    """Operations that a program may do first. Each method raises if an answer is wrong."""

    def __init__(self, seed, folder):
        self.folder, self.terms = folder, 2 + seed % 7
        self.stats = None

    def large(self):
        if self.stats is None:
            self.stats = statistics(N)
        return self.stats

    def text(self):
        p = ss.PruningPredicate("x > 500 AND x < 700 OR y IN (3, 4)", SCHEMA)
        same(int(p.prune(statistics(1000)).sum()), 210)

    def compiled(self):
        text = " AND ".join(f"(x >= {i} OR y <> {i})" for i in range(self.terms))
        p = ss.PruningPredicate(f"{text} AND x < 1000", SCHEMA)
        same(int(p.prune(self.large(), "numba").sum()), 1000)

    def behind(self):
        text = " OR ".join(f"(x < {1000 + i} AND y <> {i})" for i in range(self.terms))
        p = ss.PruningPredicate(text, SCHEMA)
        for _ in range(5):
            same(int(p.prune(self.large()).sum()), 999 + self.terms)

    def plan(self):
        plan = ss.scan_parquet(f"{self.folder}/parquet").plan("x >= 150 AND x < 250")
        same((len(plan.files), plan.to_arrow().num_rows), (2, 100))

    def delta(self):
        same(len(ss.scan_delta(f"{self.folder}/delta").plan("x < 150").files), 2)

    def saved(self):
        # Python's tempfile has a lock that may be held during a fork.
        path = f"{self.folder}/{secrets.token_hex(8)}.stats"
        statistics(20_000).save(path)
        p = ss.PruningPredicate("x < 70", SCHEMA)
        same(int(p.prune(ss.Statistics.load(path)).sum()), 70)

    def all(self, order=None, names=("text", "plan", "compiled", "behind", "delta", "saved")):
        for name in names if order is None else order.sample(names, len(names)):
            getattr(self, name)()


def limit(seconds):
    """End this process after a number of seconds, and print the stacks of all threads."""
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(seconds)


def in_child(uses, pipe):
    try:
        limit(TIME)
        uses.all()
        os.write(pipe, b"1")
    finally:
        os._exit(0)


def answered(pipe):
    ready, _, _ = select.select([pipe], [], [], TIME)
    assert ready and os.read(pipe, 1) == b"1", "the child did not answer"


def forked(uses):
    """Fork; the child runs all operations, and reports that."""
    out, into = os.pipe()
    try:
        if os.fork() == 0:
            in_child(uses, into)
    finally:
        os.close(into)
        wait.append(lambda: answered(out))


wait = []


def fork(uses, r):
    failed = []

    def work(*how):
        try:
            uses.all(r, *how)
        except BaseException as e:
            failed.append((e, traceback.format_exc()))

    threads = [threading.Thread(target=work, args=how) for how in ((), (("text", "plan"),))]
    for t in threads:
        t.start()
    time.sleep(r.uniform(0, LATEST))
    forked(uses)
    for t in threads:
        t.join(TIME)
        assert not t.is_alive(), "a thread of the parent does not end"
    assert not failed, failed


def interrupted(uses, r, *, forks):
    end = time.monotonic() + LATEST + 1
    timer = threading.Timer(r.uniform(0, LATEST), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        if forks:
            threading.Thread(target=uses.compiled, daemon=True).start()
        while time.monotonic() < end:
            uses.all(r)
            if forks and not wait:
                forked(uses)
        # CPython drops exceptions raised in callbacks, such as those of the garbage collector.
        print("not interrupted")
    except KeyboardInterrupt:
        pass


def main(mode, seed, folder):
    warnings.simplefilter("ignore", DeprecationWarning)
    limit(2 * TIME)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores Ctrl-C
    seed = int(seed)
    uses, r = Uses(seed, folder), random.Random(seed)
    if mode == "fork":
        fork(uses, r)
    else:
        interrupted(uses, r, forks=mode == "both")
        uses.all()
    for one in wait:
        one()


if __name__ == "__main__":
    main(*sys.argv[1:])
