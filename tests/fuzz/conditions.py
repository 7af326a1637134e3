"""Random conditions of Spark's grammar over all writers' files, judged by Spark.

`python -m tests.fuzz.conditions --conditions 20000` runs `plan.to_arrow()`, `sks.read` and
`sks.prune`, and compares the ids of their rows with Spark's over the same rows in memory.
`--seed N --condition "..."` repeats one case.
"""

import argparse
import contextlib
import logging
import math
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

import skipstone as ss
from skipstone.bindings.plans.plan import Plan
from skipstone.ir.outcome import Verdict
from skipstone.spark import prune, read
from tests.support.spark.answers import answers, kind_of, refused_by_spark, set_in
from tests.support.spark.automatic import enabled, require_answers
from tests.support.spark.grammar import FAMILIES, Grammar, learned
from tests.support.spark.rows import Made
from tests.support.spark.session import FAST, start
from tests.support.spark.tables import write

ZONES: Final = ("UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia")
CONDITIONS: Final = 250  # for each seed
SCALARS: Final = 40  # for each seed: scalars whose values the grammar learns
BATCH: Final = 50  # conditions in one query; a third in ANSI mode, where some raise an error
MAX_FAILURES: Final = 200  # a run ends after them
READS, PRUNES = 0.12, 0.17  # the share of conditions for `read` and for `prune`


@dataclass
class Tally:
    """Counts of conditions and answers, and the failures."""

    num_conditions: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    entry_points: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    writers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counted = lambda c: ", ".join(f"{k}: {v:,}" for k, v in c.most_common(40))
        return (
            f"{self.num_conditions:,} conditions; {counted(self.rows)}"
            f"\n  entry points: {counted(self.entry_points)}"
            f"\n  writers: {counted(self.writers)}"
            f"\n  refused by to_arrow(): {counted(self.refused)}"
        )


def reason(e: ss.SkipstoneError) -> str:
    """Return the kind of a refusal: an unknown function, or the form of the message."""
    line = str(e).splitlines()[0]
    if named := re.search(r"the function (\S+) is not", line):
        return f"function {named[1]}"
    return type(e).__name__ + " " + (re.sub(r"\"[^\"]*\"|'[^']*'", "..", line)[:70])


class Judge:
    """One seed: a table, its session, and Spark's answers to conditions over it."""

    def __init__(self, spark: Any, seed: int, folder: str, tally: Tally) -> None:
        self.spark, self.seed, self.tally, self.r = (
            spark,
            seed,
            tally,
            random.Random(f"{seed} asked"),
        )
        self.zone, self.ansi = self.r.choice(ZONES), self.r.random() < 0.5
        self.pushdown = self.r.random() < 0.5
        self.made: Made = write(seed, spark, folder)
        self.folder = folder
        self.ids: list[int] = []

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        settings = {
            "spark.sql.ansi.enabled": str(self.ansi).lower(),
            "spark.sql.session.timeZone": self.zone,
            "spark.sql.parquet.filterPushdown": str(self.pushdown).lower(),
        }
        with set_in(self.spark, settings):
            self.made.truth.createOrReplaceTempView("fuzzed")
            self.ids = sorted(row[0] for row in self.made.truth.select("id").collect())
            self.table = self.made.scan()
            yield

    def grammar(self) -> Grammar:
        """Make the grammar of this table, with values of columns and of some scalars."""
        g = Grammar(self.r, self.made.columns)
        scalars = [(f, name) for f, names in g.columns.items() for name in names]
        plain = set(scalars)
        families = [f for f in FAMILIES if f not in "AP"]
        for _ in range(SCALARS):
            family = self.r.choice(families)
            scalars.append((family, g.scalar(family, self.r.choice((1, 1, 2)))))
        with set_in(self.spark, {"spark.sql.ansi.enabled": "false"}):  # fewer errors
            scalars = [(f, text) for f, text in scalars if kind_of(self.spark, text) is not None]
            found = answers(self.spark, [text for _, text in scalars])
        for (family, text), values in zip(scalars, found, strict=True):
            if values is not None and (some := learned(values)):
                g.learn(family, text, self.r.sample(some, min(len(some), 30)))
                for _ in range(2 if (family, text) in plain else 0):
                    g.known[family].append(text)
        return g

    def run(self, count: int) -> None:
        with self.session():
            g = self.grammar()
            texts = [g.condition(self.r.choice((0, 0, 1, 1, 2))) for _ in range(count)]
            step = BATCH // 3 if self.ansi else BATCH
            accepted = []
            for text in texts:
                if refused_by_spark(self.spark, text):
                    self.refused(text)
                else:
                    accepted.append(text)
            for at in range(0, len(accepted), step):
                some = accepted[at : at + step]
                for text, found in zip(some, answers(self.spark, some), strict=True):
                    self.judge(text, found)

    def refused(self, text: str) -> None:
        """Count a text that Spark does not accept; Skipstone must not crash on it."""
        self.tally.num_conditions += 1
        self.tally.rows["refused by Spark"] += 1
        if self.r.random() < 0.3:
            self.arrow(text, None)

    def judge(self, text: str, found: pa.ChunkedArray | None, always: bool = False) -> None:
        """Compare a condition's rows through Skipstone with Spark's."""
        t = self.tally
        t.num_conditions += 1
        t.writers[self.made.writer.partition(",")[0]] += 1
        if found is None:
            t.rows["Spark raises"] += 1
            self.arrow(text, None)
            return
        true = [i for i, v in zip(self.ids, found.to_pylist(), strict=True) if v]
        t.rows[
            "no row" if not true else "all rows" if len(true) == len(self.ids) else "some rows"
        ] += 1
        self.arrow(text, true)
        if always or self.r.random() < READS:
            self.judge_entry_point("read", text, true, lambda: self.read(text))
        if self.made.frame is not None and (always or self.r.random() < PRUNES):
            self.judge_entry_point("prune", text, true, lambda: self.prune(text))
            self.judge_entry_point("enable", text, true, lambda: self.automatic(text))

    def fail(self, entry_point: str, text: str, what: str) -> None:
        self.tally.failures.append(
            f"seed {self.seed}, {entry_point}, {self.made.writer}, {self.zone}, ANSI {self.ansi}: "
            f"{what}\n  {text}"
        )

    def arrow(self, text: str, true: list[int] | None) -> None:
        """Check `plan.to_arrow()`; if it is refused, check the rows of the kept containers."""
        t = self.tally
        plan = None
        try:
            plan = self.table.plan(text, timezone=self.zone, ansi=self.ansi)
            got = sorted(plan.to_arrow()["id"].to_pylist())
        except ss.SkipstoneError as e:
            if true is None:
                return
            t.entry_points["to_arrow, refused"] += 1
            t.refused[reason(e)] += 1
            if plan is not None:
                self.compare("plan", text, true, unfiltered(plan), whole=False)
            return
        except Exception:
            self.fail("to_arrow", text, traceback.format_exc()[-1500:])
            return
        if true is not None:
            t.entry_points["to_arrow"] += 1
            t.entry_points["to_arrow, pruned"] += len(plan.kept) < len(plan.verdicts)
            self.compare("to_arrow", text, true, got)

    def compare(
        self, entry_point: str, text: str, true: list[int], got: list[int], whole: bool = True
    ) -> None:
        lost, more = sorted(set(true) - set(got)), sorted(set(got) - set(true))
        twice = len(got) != len(set(got))
        if lost or (more and whole) or twice:
            what = f"lost {lost[:8]}, too many {more[:8] if whole else []}{', twice' * twice}"
            self.fail(entry_point, text, what)

    def judge_entry_point(self, name: str, text: str, true: list[int], ask: Any) -> None:
        t = self.tally
        try:
            got = ask()
        except ss.SkipstoneError:
            t.entry_points[f"{name}, refused"] += 1
            return
        except Exception as e:
            if "skipstone.ir.errors." in str(e):  # raised in a worker
                t.entry_points[f"{name}, refused"] += 1
                return
            got = e
        if got == true:
            t.entry_points[name] += 1
            return
        try:
            plain = ids_of(self.plain(name).where(text))
        except Exception:
            t.entry_points[f"{name}, Spark's plain query raises"] += 1
            return
        if plain != true:
            t.entry_points[f"{name}, Spark's plain query differs"] += 1
            if got == plain:
                return
            true = plain
        if isinstance(got, Exception):
            self.fail(name, text, f"{type(got).__name__}: {str(got)[:1500]}")
        else:
            self.compare(name, text, true, got)

    def plain(self, entry_point: str) -> Any:
        """Return the rows that Spark gives without Skipstone.

        Spark's own reader loses NaN if filters are pushed down. Its optimiser also rewrites
        `TRY_CAST(d AS TIMESTAMP_NTZ) <> t` to `d IS NOT NULL`, although the cast of a far day is
        NULL.
        """
        by_spark = entry_point in ("prune", "enable")
        return self.made.frame() if by_spark else self.made.truth.localCheckpoint()

    def read(self, text: str) -> list[int]:
        return ids_of(read(self.spark, self.table, text, columns=["id"]))

    def prune(self, text: str) -> list[int]:
        return ids_of(prune(self.made.frame().where(text)))

    def automatic(self, text: str) -> list[int]:
        with enabled(self.spark) as found:
            ids = ids_of(self.made.frame().where(text))
            require_answers(found())
        return ids


def ids_of(frame: Any) -> list[int]:
    return sorted(frame.select("id").toArrow()["id"].to_pylist())


def unfiltered(plan: Plan) -> list[int]:
    """Return the ids of all rows of the containers that a plan keeps."""
    verdicts = plan.verdicts.copy()
    verdicts[plan.kept] = Verdict.ALWAYS
    whole = Plan(plan.table, None, verdicts, ["id"], plan.statistics, timezone=plan.timezone)
    return sorted(whole.to_arrow()["id"].to_pylist())


def case(spark: Any, seed: int, tally: Tally, conditions: int = CONDITIONS) -> None:
    """Run all conditions of one seed."""
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Judge(spark, seed, f"{folder}/t", tally).run(conditions)
    finally:
        logging.disable(logging.NOTSET)
        spark.catalog.clearCache()


def again(spark: Any, seed: int, text: str, folder: str) -> Judge:
    """Run one condition of one seed through all entry points; print failures."""
    judge = Judge(spark, seed, folder, Tally())
    with judge.session(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(judge.made.writer, judge.zone, "ANSI" if judge.ansi else "", judge.made.columns)
        if refused_by_spark(spark, text):
            print("Spark refuses it")
        (found,) = answers(spark, [text])
        print("Spark:", None if found is None else found.to_pylist())
        judge.judge(text, found, always=True)
        print(judge.tally, *judge.tally.failures, sep="\n")
    return judge


def run(spark: Any, conditions: int, first: int = 0, seconds: float = math.inf) -> Tally:
    """Run seed after seed until the count or the time is reached; print failures."""
    tally, seed, start, shown, took = Tally(), first, time.monotonic(), 0, 0.0
    while (
        tally.num_conditions < conditions and len(tally.failures) < MAX_FAILURES and took < seconds
    ):
        before = tally.num_conditions
        try:
            case(spark, seed, tally, min(CONDITIONS, conditions - before))
        except Exception:
            text = traceback.format_exc()
            tally.failures.append(f"seed {seed}: {text[:1500]} ... {text[-1500:]}")
            tally.num_conditions = before + CONDITIONS
        for failure in tally.failures[shown:]:
            print(failure, flush=True)
        shown, seed = len(tally.failures), seed + 1
        took = time.monotonic() - start
        print(f"{tally.num_conditions:,} conditions in {took:,.0f} s", file=sys.stderr, flush=True)
    print(f"{tally}\nseeds {first} to {seed - 1}, {shown} failures, {took:,.0f} s", flush=True)
    return tally


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conditions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after this time")
    parser.add_argument("--condition", help="run only this one, on the seed's table")
    given = parser.parse_args(args)
    spark = start(FAST, "local[1]", "skipstone conditions")
    if given.condition:
        with tempfile.TemporaryDirectory() as folder:
            again(spark, given.seed, given.condition, f"{folder}/t")
        return 0
    return int(bool(run(spark, given.conditions, given.seed, given.seconds).failures))


if __name__ == "__main__":
    sys.exit(main())
