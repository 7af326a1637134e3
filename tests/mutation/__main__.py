"""Plant small faults in Python modules, run their tests, and list the faults that none notices.

    python -m tests.mutation                     all targets, a sample of each
    python -m tests.mutation plan sql --count 80 --seed 3
    python -m tests.mutation plan --name "Plan.count: "    those whose name begins so

The tests of a module are imported and collected once. Each mutant has a child process, forked from
there, whose functions get the changed code. It runs the tests that reach the changed statement, the
fastest first, until one fails. Which reach it is recorded once per version of code and tests.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from collections.abc import Iterable
from typing import Final

import pytest

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.server import Server
from tests.mutation.targets import ROOT, TARGETS, Target, tests_of

# Hypothesis is imported before pytest starts, so that children need not.
OPTIONS: Final = (
    "-q",
    "-s",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)


def sampled(target: Target, count: int | None, seed: int, name: str | None) -> list[Mutant]:
    """The faults to plant, in the order of the text."""
    every = mutants(target.path.read_text())
    if name is not None:
        return [m for m in every if m.name.startswith(name)]
    count = min(target.count if count is None else count, len(every))
    at = random.Random(seed).sample(range(len(every)), count)
    return [every[i] for i in sorted(at)]


def main(argv: Iterable[str] | None = None) -> int:
    """Run the command line; return 1 if some fault was not noticed."""
    parser = argparse.ArgumentParser(description="Plant faults in modules and run their tests.")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--count", type=int, help="faults for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", help="the faults whose name begins so, instead of a sample")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of tests for each fault")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(argv)
    os.chdir(ROOT)
    missed = 0
    for name in options.targets or TARGETS:
        target, start = TARGETS[name], time.monotonic()
        chosen = sampled(target, options.count, options.seed, options.name)
        jobs = 1 if target.spark else options.jobs
        server = Server(name, target, chosen, jobs, options.seconds)
        pytest.main([*tests_of(target), *OPTIONS], [server])
        found = server.found
        counts = ", ".join(f"{len(found[k])} {k}" for k in sorted(found))
        print(f"{name}: {len(chosen)} planted: {counts}; {time.monotonic() - start:.0f} s")
        missed += sum(len(found[k]) for k in ("survived", "not reached", "broken"))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
