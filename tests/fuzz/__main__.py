"""The long random run.

`python -m tests.fuzz --seconds 600` runs every target in turn, `--verdicts 10000000` until rows and DuckDB have judged
so many, `--spark-predicates 20000` until Spark has judged so many predicates, `--conditions 20000` until it has judged
so many of its own grammar over all writers' files, `--joins 2000` so many joins; `--seed` is the first of all.
What fails prints its seed, which alone repeats it.
"""

import argparse
import atexit
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from tests.support.backends import numba_shapes, numpy_verdicts
from tests.support.cuda_emulated import MISSING, Emulated
from tests.support.cuda_shapes import random_predicates
from tests.support.inside import judge as judge_intervals
from tests.support.judges import Tally, by_duckdb, by_rows
from tests.support.oracle_rows import judge
from tests.support.partitions import judge as judge_partitions

KERNELS = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, KERNELS)
TARGETS = {
    "rows": lambda seed: judge(random.Random(seed), containers=8, predicates=12),
    "numpy": lambda seed: numpy_verdicts(seed),
    "numba": lambda seed: len(numba_shapes(seed, 6)),
    **(
        {}
        if MISSING
        else {"cuda": lambda seed: random_predicates(f"fuzz {seed}", 10, Emulated(KERNELS))}
    ),
    "partitions": lambda seed: judge_partitions(random.Random(seed))["TRUE"],
    "intervals": lambda seed: judge_intervals(seed),
}
MOST = 20  # failures after which a run ends


class Run:
    """Verdicts of random predicates of all forms, judged; and what failed."""

    def __init__(self, seed: int) -> None:
        self.seed, self.start, self.failed = seed, time.monotonic(), 0
        self.tallies: dict[str, Tally] = {}

    def until(self, name: str, wanted, judges) -> None:
        """Let judges take turns until they have what is wanted."""
        tally = self.tallies[name] = Tally()
        seed, start, shown, said = self.seed, time.monotonic(), 0, time.monotonic()
        while wanted(tally) and self.failed < MOST:
            for one in judges:
                try:
                    one(seed, tally)
                except Exception:
                    self.failed += 1
                    print(f"{name}, seed {seed}:\n{traceback.format_exc()[-3000:]}", flush=True)
            found = [f"UNSOUND {u}" for u in tally.unsound] + [
                f"ROWS DIFFER {s}" for s in tally.surprises
            ]
            print(*found[shown:], sep="\n", end="\n" if found[shown:] else "", flush=True)
            self.failed, shown = self.failed + len(found) - shown, len(found)
            seed += 1
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(
                    f"{name}: {tally.verdicts:,} verdicts, {tally.predicates:,} predicates, {said - start:,.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
        took = time.monotonic() - start
        print(
            f"{tally}\n{name}: {tally.verdicts:,} verdicts, {tally.predicates:,} predicates, {len(tally.unsound)} unsound, {took:,.0f} s, ",
            end="",
        )
        print(f"seeds {self.seed} to {seed - 1}", flush=True)
        for case in tally.raised[:10]:
            print(f"Spark raises where no row was expected to make it: {case}")


def with_spark(run: Run, predicates: int, numba: float) -> None:
    from skipstone.spark import session
    from tests.support.judge_spark import by_spark
    from tests.support.spark_session import CONFIG

    spark = session(CONFIG, master="local[2]", name="skipstone fuzz")
    run.until(
        "Spark",
        lambda t: t.predicates < predicates,
        [lambda seed, tally: by_spark(spark, seed, tally, numba=numba)],
    )
    spark.stop()


def through_doors(run: Run, conditions: int, joins: int) -> None:
    """Conditions and joins of Spark's own grammar, over all writers' files."""
    from skipstone.spark import session
    from tests.fuzz import conditions as fuzz_doors
    from tests.fuzz import joins as fuzz_join_doors
    from tests.support.spark_session import FAST

    spark = session(FAST, master="local[2]", name="skipstone doors")
    for asked, doors in ((conditions, fuzz_doors), (joins, fuzz_join_doors)):
        if asked:
            run.failed += len(doors.run(spark, asked, run.seed).failures)
    spark.stop()


def take_turns(run: Run, targets: list[str], seconds: float) -> None:
    done, start, seed = dict.fromkeys(targets, 0), time.monotonic(), run.seed
    while time.monotonic() - start < seconds and run.failed < MOST:
        for name in targets:
            try:
                done[name] += TARGETS[name](seed)
            except Exception:
                run.failed += 1
                print(f"{name}, seed {seed}:\n{traceback.format_exc()[-3000:]}", flush=True)
        seed += 1
    print(
        f"{', '.join(f'{name} {count:,}' for name, count in done.items())}; seeds {run.seed} to {seed - 1}"
    )


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--verdicts", type=int, default=0, help="judged by rows and by DuckDB")
    parser.add_argument(
        "--spark-predicates", type=int, default=0, help="judged by Spark, each over 150 containers"
    )
    parser.add_argument(
        "--conditions", type=int, default=0, help="of Spark's grammar, over all writers' files"
    )
    parser.add_argument("--joins", type=int, default=0, help="of any two types, judged by Spark")
    parser.add_argument(
        "--seconds", type=float, default=None, help="for the targets; 60, or 0 beside those above"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="*", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--containers", type=int, default=1000, help="of each random table")
    parser.add_argument(
        "--numba",
        type=float,
        default=0.05,
        help="the share of predicates that Numba compiles too; NumPy runs all",
    )
    given = parser.parse_args(args)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    run = Run(given.seed)
    sizes = {"containers": given.containers, "numba": given.numba}
    if given.verdicts:
        judges = [
            lambda seed, tally: by_rows(seed, tally, **sizes),
            lambda seed, tally: by_duckdb(seed, tally, **sizes),
        ]
        run.until("rows and DuckDB", lambda t: t.verdicts < given.verdicts, judges)
    if given.spark_predicates:
        with_spark(run, given.spark_predicates, given.numba / 2)
    if given.conditions or given.joins:
        through_doors(run, given.conditions, given.joins)
    counted = given.verdicts or given.spark_predicates or given.conditions or given.joins
    seconds = given.seconds if given.seconds is not None else 0 if counted else 60
    if seconds:
        take_turns(run, given.targets, seconds)
    print(f"{run.failed} failures")
    return int(run.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
