"""The long random run.

`python -m tests.fuzz --seconds 600` runs every target in turn. `--verdicts 10000000` runs until
rows and DuckDB have judged that many verdicts, `--spark-predicates 20000` until Spark has judged
that many predicates, `--conditions 20000` until it has judged that many conditions of its own
grammar over all writers' files, `--joins 2000` that many joins. `--seed` is the first seed. A
failure prints its seed, which repeats it.
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

from tests.support.cuda.emulated import MISSING, Emulated
from tests.support.cuda.shapes import random_predicates
from tests.support.predicates.inside import judge as judge_intervals
from tests.support.predicates.judges import Tally, by_duckdb, by_rows
from tests.support.predicates.oracle_rows import judge
from tests.support.rows.partitions import judge as judge_partitions
from tests.support.statistics.backends import numba_shapes, numpy_verdicts

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
MAX_FAILURES = 20  # a run ends after them


class Run:
    """Random predicates of all forms, judged; the tallies and the number of failures."""

    def __init__(self, seed: int) -> None:
        self.seed, self.start, self.failed = seed, time.monotonic(), 0
        self.tallies: dict[str, Tally] = {}

    def until(self, name: str, wanted, judges) -> None:
        """Let judges take turns while `wanted(tally)` holds."""
        tally = self.tallies[name] = Tally()
        seed, start, shown = self.seed, time.monotonic(), 0
        reported = start
        while wanted(tally) and self.failed < MAX_FAILURES:
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
            if time.monotonic() - reported > 60:
                reported = time.monotonic()
                print(
                    f"{name}: {tally.verdicts:,} verdicts, {tally.predicates:,} predicates, "
                    f"{reported - start:,.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
        took = time.monotonic() - start
        print(
            f"{tally}\n{name}: {tally.verdicts:,} verdicts, {tally.predicates:,} predicates, "
            f"{len(tally.unsound)} unsound, {took:,.0f} s, ",
            end="",
        )
        print(f"seeds {self.seed} to {seed - 1}", flush=True)
        for case in tally.raised[:10]:
            print(f"Spark raises an error where no row was expected to cause it: {case}")


def with_spark(run: Run, predicates: int, numba: float) -> None:
    from tests.support.spark.judge import by_spark
    from tests.support.spark.session import CONFIG, start

    spark = start(CONFIG, "local[2]", "skipstone fuzz")
    run.until(
        "Spark",
        lambda t: t.predicates < predicates,
        [lambda seed, tally: by_spark(spark, seed, tally, numba=numba)],
    )
    spark.stop()


def spark_grammar(run: Run, num_conditions: int, num_joins: int) -> None:
    """Run conditions and joins of Spark's own grammar over all writers' files."""
    from tests.fuzz import conditions, joins
    from tests.support.spark.session import FAST, start

    spark = start(FAST, "local[2]", "skipstone grammar")
    for count, target in ((num_conditions, conditions), (num_joins, joins)):
        if count:
            run.failed += len(target.run(spark, count, run.seed).failures)
    spark.stop()


def take_turns(run: Run, targets: list[str], seconds: float) -> None:
    done, start, seed = dict.fromkeys(targets, 0), time.monotonic(), run.seed
    while time.monotonic() - start < seconds and run.failed < MAX_FAILURES:
        for name in targets:
            try:
                done[name] += TARGETS[name](seed)
            except Exception:
                run.failed += 1
                print(f"{name}, seed {seed}:\n{traceback.format_exc()[-3000:]}", flush=True)
        seed += 1
    print(
        f"{', '.join(f'{name} {count:,}' for name, count in done.items())}; "
        f"seeds {run.seed} to {seed - 1}"
    )


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--verdicts", type=int, default=0, help="verdicts for rows and DuckDB")
    parser.add_argument(
        "--spark-predicates",
        type=int,
        default=0,
        help="predicates for Spark, each over 150 containers",
    )
    parser.add_argument(
        "--conditions",
        type=int,
        default=0,
        help="conditions of Spark's grammar, over all writers' files",
    )
    parser.add_argument("--joins", type=int, default=0, help="joins of any two types, for Spark")
    parser.add_argument(
        "--seconds",
        type=float,
        default=None,
        help="for the targets (default: 60; 0 with one of the options above)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="*", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--containers", type=int, default=1000, help="containers of a random table")
    parser.add_argument(
        "--numba",
        type=float,
        default=0.05,
        help="share of predicates that Numba compiles too; NumPy runs all",
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
        spark_grammar(run, given.conditions, given.joins)
    counted = given.verdicts or given.spark_predicates or given.conditions or given.joins
    seconds = given.seconds if given.seconds is not None else 0 if counted else 60
    if seconds:
        take_turns(run, given.targets, seconds)
    print(f"{run.failed} failures")
    return int(run.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
