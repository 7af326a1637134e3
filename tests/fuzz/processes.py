"""Fork or interrupt processes at random moments of a first use: each answers correctly and ends.

`python -m tests.fuzz.processes --forks 200 --interrupts 100`
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.process_uses import TIME


def tables(folder):
    """Write the tables that the processes read."""
    from deltalake import write_deltalake

    (folder / "parquet").mkdir()
    for i in range(5):
        part = pa.table({"x": range(i * 100, i * 100 + 100)})
        pq.write_table(part, folder / "parquet" / f"{i}.parquet")
        write_deltalake(folder / "delta", part, mode="append")


def run(mode, seed, folder):
    """Run one process.

    Returns:
        What went wrong, or None.
    """
    with tempfile.TemporaryDirectory() as fresh:
        # Most processes find kernels on disk; others are forked or interrupted while they compile.
        cache = folder / "cache" if seed % 4 else fresh
        env = {**os.environ, "SKIPSTONE_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.process_uses", mode, str(seed), str(folder)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=3 * TIME)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{mode} {seed}: did not end"
    if process.returncode:
        return f"{mode} {seed}: exit {process.returncode}: {_ends(err)}"
    return None if not out else f"({mode} {seed}: {out.strip()})"


def _ends(err):
    """Return the first and the last stacks: the first one is the thread that hangs."""
    return err if len(err) < 12_000 else f"{err[:6000]}\n...\n{err[-6000:]}"


def fuzz(forks, interrupts, seed=0, jobs=2):
    """Run processes; half of the interrupted ones fork as well.

    Returns:
        The number of runs by mode, and what went wrong.
    """
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(jobs) as pool:
        folder = Path(name)
        tables(folder)
        cases = [("fork", seed + i) for i in range(forks)]
        cases += [(("interrupt", "both")[i % 2], seed + i) for i in range(interrupts)]
        random.Random(seed).shuffle(cases)
        results = []
        for i, one in enumerate(pool.map(lambda case: run(*case, folder), cases), 1):
            results.append(one)
            if one is not None or i % 20 == 0:
                print(f"{i} of {len(cases)}: {one or 'all right'}", flush=True)
    return Counter(mode for mode, _ in cases), [s for s in results if s is not None]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forks", type=int, default=200)
    parser.add_argument("--interrupts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given, start = parser.parse_args(), time.perf_counter()
    ran, results = fuzz(given.forks, given.interrupts, given.seed, given.jobs)
    failed = [s for s in results if not s.startswith("(")]
    print(
        f"{dict(ran)}: {len(failed)} failed, {len(results) - len(failed)} were not interrupted, "
        f"{time.perf_counter() - start:.0f} s"
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
