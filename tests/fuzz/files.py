"""Mutants of files: each is answered or refused by Skipstone's errors; no process ends or hangs.

`python -m tests.fuzz.files --cases 20000 --what footers` runs one kind; without `--what` all. A
child process with bounded memory tries the mutants. A failure prints its seed, and
`--seed N --cases 1` repeats it.
"""

import argparse
import contextlib
import faulthandler
import importlib
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter

KINDS = {
    "footers": "tests.fuzz.footers",
    "manifests": "tests.fuzz.manifests",
    "vectors": "tests.fuzz.vectors",
    "stores": "tests.fuzz.stores",
    "logs": "tests.fuzz.logs",
}
LIMIT = 10  # seconds of CPU time for a mutant
WAIT = 120  # seconds of wall time for a mutant, since other work may have the CPUs
WARM = 300  # seconds until the child is ready
MEMORY = 2 << 30  # bytes of address space that mutants may add
ANSWERED, REFUSED, FOREIGN, CRASHED, HUNG, LOST = (
    "answered",
    "refused",
    "foreign errors",
    "crashes",
    "hangs",
    "rows lost",
)


class LostRows(AssertionError):
    """A peer reads rows that Skipstone does not read."""


def tried(target, seed, step):
    """Try one mutant; return the outcome and what happened."""
    from skipstone.ir.errors import PredicateError, SkipstoneError

    r, refused = random.Random(seed), ""
    with contextlib.ExitStack() as undo:
        step("mutate")
        for name, ask in target.mutant(r, undo):
            step(name)
            try:
                ask()
            except SkipstoneError as e:
                refused = f"{type(e).__name__}: {e}"
                # Only errors about predicates have several lines: they point into the text.
                if "\n" in refused and not isinstance(e, PredicateError):
                    return FOREIGN, f"an error of several lines: {refused}"
            except LostRows as e:
                return LOST, f"{name}: {e}"
            except Exception:
                return FOREIGN, f"{name}: {traceback.format_exc()[-2500:]}"
    return (REFUSED, refused) if refused else (ANSWERED, "")


def serve(pipe, kind, folder, log):
    """Run the child: try the seeds that arrive."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    target = importlib.import_module(KINDS[kind]).Target(folder)
    # Compile what is compiled, and check that the undamaged files are read.
    with contextlib.ExitStack() as undo:
        for name, ask in target.whole(undo):
            try:
                ask()
            except Exception as e:
                raise AssertionError(f"{kind}: {name} fails before any damage") from e
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    pipe.send(("ready", ""))
    while (seed := pipe.recv()) is not None:
        pipe.send(tried(target, seed, lambda name: pipe.send(("step", name))))


class Child:
    """A process that tries mutants; a new one replaces it when it ends."""

    def __init__(self, kind):
        self.kind, self.process, self.pipe = kind, None, None
        self.folder = tempfile.TemporaryDirectory(
            prefix="skipstone-fuzz-", ignore_cleanup_errors=True
        )
        self.made = 0

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.made += 1
        own = os.path.join(self.folder.name, str(self.made))
        os.makedirs(own)
        self.log = os.path.join(self.folder.name, f"{self.made}.log")
        self.process = context.Process(
            target=serve, args=(theirs, self.kind, own, self.log), daemon=True
        )
        self.process.start()
        theirs.close()
        try:
            assert self.pipe.poll(WARM) and self.pipe.recv()[0] == "ready"
        except (EOFError, AssertionError):
            raise SystemExit(f"{self.kind}: the child does not start\n{self.output()}") from None

    def try_one(self, seed):
        if self.process is None:
            self.start()
        step, end, used = "mutate", time.monotonic() + WAIT, self.used()
        try:
            self.pipe.send(seed)
            while time.monotonic() < end and self.used() - used < LIMIT:
                if self.pipe.poll(1):
                    outcome, what = self.pipe.recv()
                    if outcome != "step":
                        return outcome, what
                    step = what
        except (EOFError, OSError):
            self.process.join(5)
            found = CRASHED, f"{step}: exit code {self.process.exitcode}\n{self.output()}"
        else:
            found = HUNG, f"{step}: more than {LIMIT} s of CPU time, or {WAIT} s"
        self.stop()
        return found

    def used(self):
        """Return the seconds of CPU time that the child took."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def output(self):
        with open(self.log, errors="replace") as f:
            return f.read().split("Extension modules:")[0][:2500]

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None

    def close(self):
        self.stop()
        self.folder.cleanup()


def run(kind, seeds, report=print):
    """Try mutants of one kind; return the count of each outcome."""
    child, seen, start = Child(kind), Counter(), time.monotonic()
    try:
        for done, seed in enumerate(seeds, 1):
            outcome, what = child.try_one(seed)
            seen[outcome] += 1
            if outcome not in (ANSWERED, REFUSED):
                report(f"{kind}, seed {seed}: {outcome}: {what}", flush=True)
            if done % 2000 == 0:
                report(
                    f"{kind}: {done} in {time.monotonic() - start:.0f} s", dict(seen), flush=True
                )
    finally:
        child.close()
    return seen


def main(args=None):
    parser = argparse.ArgumentParser(prog="tests.fuzz.files", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="mutants of each kind")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--what", nargs="*", choices=KINDS, default=list(KINDS))
    given = parser.parse_args(args)
    bad = 0
    for kind in given.what:
        seen = run(kind, range(given.seed, given.seed + given.cases))
        bad += sum(seen.values()) - seen[ANSWERED] - seen[REFUSED]
        rest = ", ".join(f"{seen[o]} {o}" for o in (REFUSED, CRASHED, HUNG, FOREIGN, LOST))
        print(f"{kind}: {given.cases} mutants, {seen[ANSWERED]} answered, {rest}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
