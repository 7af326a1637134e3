"""Random joins of keys of any two types through `ss.join`, plans, `prune_join` and `prune`.

`python -m tests.fuzz.joins --joins 2000`; Spark judges. Beyond the joins of
`tests/fuzz/spark_joins.py`, texts are joined with numbers, days and times, also by NOT IN, in both
ANSI modes.
"""

import argparse
import logging
import math
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import skipstone as ss
from skipstone.bindings.filters.kinds import LEFT
from skipstone.spark import prune, prune_join
from tests.fuzz.conditions import ZONES
from tests.support.joins.dynamic import KINDS, PARTNERS, Random, table
from tests.support.spark.answers import set_in
from tests.support.spark.automatic import enabled, require_answers
from tests.support.spark.rows import in_spark
from tests.support.spark.session import FAST, start

TYPES: Final = [
    k for k in KINDS if not k.endswith("ns") and k not in ("large_string", "timestamp ms")
]
TEXTS: Final = (
    "1",
    "-1",
    "3",
    " 2 ",
    "1.0",
    "1e0",
    "0",
    "-0",
    "NaN",
    "true",
    "2024-01-10",
    "2024-01-09",
)
TEXTS_MORE: Final = (
    "2024-01-11 00:00:00",
    "2024-01-12T00:00:00Z",
    "a",
    "",
    "ab",
    "\u00e9",
    "255",
    "1.5",
)
SPELLED: Final = {"uint8": "smallint", "uint32": "bigint", "uint64": "decimal(20,0)"}
SQL: Final = {
    "inner": "SELECT f.row, d.w FROM facts f JOIN keys d ON {}",
    "left": "SELECT f.row, d.w FROM facts f LEFT JOIN keys d ON {}",
    "right": "SELECT f.row, d.w FROM facts f RIGHT JOIN keys d ON {}",
    "full": "SELECT f.row, d.w FROM facts f FULL JOIN keys d ON {}",
    "semi": "SELECT f.row, NULL w FROM facts f LEFT SEMI JOIN keys d ON {}",
    "anti": "SELECT f.row, NULL w FROM facts f LEFT ANTI JOIN keys d ON {}",
}
HOWS: Final = (*LEFT, "anti", "not in", "semi", "anti", "not in")


@dataclass
class Tally:
    joins: int = 0
    entry_points: Counter[str] = field(default_factory=Counter)
    hows: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counted = lambda c: ", ".join(f"{k}: {v:,}" for k, v in c.most_common())
        return (
            f"{self.joins:,} joins; {counted(self.hows)}"
            f"\n  entry points: {counted(self.entry_points)}"
        )


class Texts(Random):
    """Random keys; many of the texts are values of other types."""

    def value(self, kind: str) -> Any:
        found = super().value(kind)
        if found is not None and kind == "string" and self.r.random() < 0.8:
            return self.r.choice(TEXTS if self.clean else (*TEXTS, *TEXTS_MORE))
        if found is not None and kind == "binary" and self.r.random() < 0.3:
            return self.r.choice(TEXTS).encode()
        return found

    clean: bool = False


class Case:
    """One random join, its files, and Spark's answer."""

    def __init__(self, spark: Any, seed: int, folder: str) -> None:
        r = self.r = random.Random(f"{seed} joined")
        self.spark, self.seed, self.folder = spark, seed, f"{folder}/facts"
        make = Texts(r)
        make.clean = r.random() < 0.3
        width = r.choice((1, 1, 1, 1, 2))
        self.probe = [r.choice([*TYPES, "string", "string", "string"]) for _ in range(width)]
        self.build = [self.partner(k) for k in self.probe]
        self.names = [f"k{i}" for i in range(width)]
        self.how = r.choice(HOWS)
        self.safe = self.how != "not in" and r.random() < 0.25
        self.zone, self.ansi = r.choice(ZONES), r.random() < 0.5
        self.limits = r.choice(
            ({}, {}, {"max_values": r.randint(1, 4)}, {"threshold": r.randint(1, 60)})
        )
        rows = make.rows(self.probe, 30)
        self.facts = table(rows, self.probe, self.names)
        if r.random() < 0.7 and self.probe[0] != "boolean":
            self.facts = self.facts.sort_by("k0")
        self.facts = self.facts.append_column("row", pa.array(range(len(rows)), pa.int64()))
        keys = make.rows(self.build, 6)
        self.dim = table(keys, self.build, self.names).append_column(
            "w", pa.array(range(len(keys)), pa.int64())
        )
        os.makedirs(self.folder)
        step = r.randint(1, 8)
        for at in range(0, max(1, len(rows)), step):
            pq.write_table(
                self.facts.slice(at, step),
                f"{self.folder}/{at:03}.parquet",
                row_group_size=r.choice((1, 2, 100)),
                write_statistics=r.random() < 0.9,
            )

    def partner(self, kind: str) -> str:
        r = self.r
        if r.random() < 0.4:
            return kind
        if kind == "string" or r.random() < 0.4:
            return r.choice(TYPES) if kind == "string" else "string"
        return r.choice([p for p in PARTNERS[kind] if p in TYPES])

    @property
    def settings(self) -> dict[str, str]:
        return {
            "spark.sql.ansi.enabled": str(self.ansi).lower(),
            "spark.sql.session.timeZone": self.zone,
            "spark.sql.parquet.filterPushdown": "false",
        }

    @property
    def sql(self) -> str:
        if self.how == "not in":
            left = ", ".join(f"f.{n}" for n in self.names)
            right = ", ".join(f"d.{n}" for n in self.names)
            inner = f"SELECT {right} FROM keys d"
            return f"SELECT f.row, NULL w FROM facts f WHERE ({left}) NOT IN ({inner})"
        by = " AND ".join(f"f.{n} {'<=>' if self.safe else '='} d.{n}" for n in self.names)
        return SQL[self.how].format(by)

    def truth(self) -> list[tuple[int | None, int | None]] | None:
        """Return pairs of rows by Spark over rows in memory; None if it raises an error."""
        in_spark(self.spark, self.facts).createOrReplaceTempView("facts")
        in_spark(self.spark, self.dim).createOrReplaceTempView("keys")
        try:
            return pairs(self.spark.sql(self.sql).toArrow())
        except Exception:
            return None

    def joined(self, **more: Any) -> list[tuple[int | None, int | None]]:
        found = ss.join(
            ss.scan_parquet(self.folder),
            self.dim,
            on=self.names,
            how=self.how,
            null_safe=self.safe,
            timezone=self.zone,
            ansi=self.ansi,
            **more,
        )
        return pairs(found)

    def left_by_filter(self) -> set[int]:
        """Return the rows of the fact table that a plan with a filter of the keys keeps."""
        scan = ss.scan_parquet(self.folder)
        collector = ss.DynamicFilterCollector(
            self.names,
            scan.schema,
            null_safe=self.safe,
            timezone=self.zone,
            ansi=self.ansi,
            **self.limits,
        )
        collector.add(self.dim)
        dynamic = ss.DynamicFilter(collector.finish(), how=self.how)
        plan = scan.plan(dynamic=[dynamic], timezone=self.zone, ansi=self.ansi)
        return set(plan.to_arrow()["row"].to_pylist())

    def pruned(self) -> list[tuple[int | None, int | None]]:
        """Return the join over files, by `prune_join`, or by `prune` of the query."""
        frame = self.over_files()
        if self.how == "not in" or self.r.random() < 0.4:
            frame.createOrReplaceTempView("facts")
            return pairs(prune(self.spark.sql(self.sql)).toArrow())
        dim = in_spark(self.spark, self.dim.rename_columns([f"d{n}" for n in self.names] + ["w"]))
        on = {n: f"d{n}" for n in self.names}
        return pairs(
            prune_join(frame, dim, on, self.how, null_safe=self.safe, **self.limits).toArrow()
        )

    def automatic(self) -> list[tuple[int | None, int | None]]:
        """Return the join over files under `enable`; keys that lie in a file need no job."""
        self.over_files().createOrReplaceTempView("facts")
        if self.r.random() < 0.6:
            path = f"{os.path.dirname(self.folder)}/keys.parquet"
            pq.write_table(self.dim, path)
            keys = self.spark.read.schema(in_spark(self.spark, self.dim).schema).parquet(path)
            keys.createOrReplaceTempView("keys")
        aqe = str(self.r.random() < 0.5).lower()
        with enabled(self.spark, **{"spark.sql.adaptive.enabled": aqe}) as found:
            got = pairs(self.spark.sql(self.sql).toArrow())
            require_answers(found())
        return got

    def over_files(self) -> Any:
        """Return the fact table as Spark reads its files."""
        schema = in_spark(self.spark, self.facts).schema
        return self.spark.read.schema(schema).parquet(self.folder)

    def is_refused_over_files(self) -> bool:
        """Return True if plain Spark raises an error over files; it casts no key for no rows."""
        self.over_files().createOrReplaceTempView("facts")
        try:
            self.spark.sql(self.sql).toArrow()
        except Exception:
            return True
        return False


def pairs(t: pa.Table) -> list[tuple[int | None, int | None]]:
    others = t["w"].to_pylist() if "w" in t.column_names else [None] * t.num_rows
    return sorted(zip(t["row"].to_pylist(), others, strict=True), key=repr)


def case(spark: Any, seed: int, tally: Tally, share: float = 0.5) -> None:
    """Run one join through all entry points; through Spark's own only a share of the joins."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            one = Case(spark, seed, folder)
            with set_in(spark, one.settings):
                judge(one, tally, share)
        finally:
            logging.disable(logging.NOTSET)


def judge(one: Case, tally: Tally, share: float) -> None:
    true = one.truth()
    tally.joins += 1
    tally.hows[one.how] += 1
    tally.entry_points["Spark raises an error"] += true is None
    label = (
        f"seed {one.seed}, {one.how}, null-safe {one.safe}, {one.probe} = {one.build}, {one.zone}, "
        f"ANSI {one.ansi}, {one.limits}"
    )

    def ask(entry_point: str, answer: Any, holds: Any) -> Any:
        try:
            got = answer()
        except ss.SkipstoneError:
            tally.entry_points[f"{entry_point}, refused"] += 1
            return "refused"
        except Exception:
            text = traceback.format_exc()
            over_files = entry_point in ("pruned", "enable")
            if not over_files or (true is not None and not one.is_refused_over_files()):
                tally.failures.append(f"{label}, {entry_point}: {text[:1500]} ... {text[-1500:]}")
            return "failed"
        if true is None:
            return None
        tally.entry_points[entry_point] += 1
        if not holds(got):
            tally.failures.append(
                f"{label}, {entry_point}: {got}\n  Spark: {true}\n  "
                f"facts {one.facts.to_pydict()}\n  keys {one.dim.to_pydict()}"
            )
        return got

    same = lambda got: got == true
    found = ask("ss.join", lambda: one.joined(**one.limits), same)
    plain = ask("ss.join, unfiltered", lambda: one.joined(dynamic_filtering=False), same)
    if (found == "refused") != (plain == "refused") and true is not None:
        tally.failures.append(f"{label}: filtered {str(found)[:80]}, unfiltered {str(plain)[:80]}")
    needed = {row for row, _ in true or () if row is not None}
    ask("dynamic filter", one.left_by_filter, lambda got: needed <= got)
    if true is not None and one.r.random() < share:
        ask("pruned", one.pruned, same)
        ask("enable", one.automatic, same)


def run(spark: Any, joins: int, first: int = 0, seconds: float = math.inf) -> Tally:
    """Run joins until the count or the time is reached; print failures."""
    tally, start, shown, took = Tally(), time.monotonic(), 0, 0.0
    for seed in range(first, first + joins):
        if took > seconds:
            break
        try:
            case(spark, seed, tally)
        except Exception:
            tally.failures.append(f"seed {seed}: {traceback.format_exc()[-3000:]}")
        for failure in tally.failures[shown:]:
            print(failure, flush=True)
        shown, took = len(tally.failures), time.monotonic() - start
        if tally.joins % 50 == 0:
            print(f"{tally.joins:,} joins in {took:,.0f} s", file=sys.stderr, flush=True)
    print(
        f"{tally}\nseeds {first} to {first + tally.joins - 1}, {shown} failures, {took:,.0f} s",
        flush=True,
    )
    return tally


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--joins", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after this time")
    given = parser.parse_args(args)
    spark = start(FAST, "local[1]", "skipstone joins")
    return int(bool(run(spark, given.joins, given.seed, given.seconds).failures))


if __name__ == "__main__":
    sys.exit(main())
