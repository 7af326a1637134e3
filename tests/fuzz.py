"""The long random run: `python -m tests.fuzz --seconds 600 --seed 0`. What fails prints its seed, which alone repeats it."""

import argparse
import random
import sys
import time
import traceback
import warnings

from tests.test_backends import numba_shapes, numpy_verdicts
from tests.test_oracle_rows import judge
from tests.test_projection import judge as judge_partitions

TARGETS = {
    "rows": lambda seed: judge(random.Random(seed), containers=8, predicates=12),
    "numpy": lambda seed: numpy_verdicts(seed),
    "numba": lambda seed: len(numba_shapes(seed, 6)),
    "partitions": lambda seed: judge_partitions(random.Random(seed))["TRUE"],
}


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="*", choices=TARGETS, default=list(TARGETS))
    given = parser.parse_args(args)
    warnings.simplefilter("error")
    done, failed = dict.fromkeys(given.targets, 0), 0
    start, seed = time.monotonic(), given.seed
    while time.monotonic() - start < given.seconds and failed < 5:
        for name in given.targets:
            try:
                done[name] += TARGETS[name](seed)
            except Exception:
                failed += 1
                print(f"{name}, seed {seed}:\n{traceback.format_exc()[-3000:]}")
        seed += 1
    print(f"{', '.join(f'{name} {count:,}' for name, count in done.items())}; seeds {given.seed} to {seed - 1}; {failed} failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
