"""Count the conditions of Spark's grammar that cannot filter rows, and what refuses them.

`python -m tests.fuzz.refusals --conditions 5000` needs no Spark unless `--spark` is given: then
conditions that Spark refuses or raises an error for are left out.
"""

import argparse
import collections
import contextlib
import random
import re
import sys
import warnings
from collections import Counter
from typing import Any, Final

import pyarrow as pa

import skipstone as ss
from skipstone.bindings.tables.row_filter import matches
from tests.support.spark.grammar import FAMILIES, Grammar
from tests.support.spark.rows import families, in_spark, rows, spark_type

CONDITIONS: Final = 250  # for each table
SCALARS: Final = 40  # for each table: scalars that conditions test, as columns


def grammar(r: random.Random, t: pa.Table) -> Grammar:
    """Make the grammar over a table, with columns and some scalars as subjects."""
    g = Grammar(r, families({f.name: spark_type(f.type) for f in t.schema}))
    for family, names in g.columns.items():
        for name in names:
            values: list[object] = []
            with contextlib.suppress(KeyError, OverflowError):  # a field, or years beyond 9999
                values = [v for v in t.column(name).to_pylist() if v is not None][:30]
            for _ in range(3):
                g.learn(family, name, values)
    for _ in range(SCALARS):
        family = r.choice([f for f in FAMILIES if f not in "AP"])
        g.learn(family, g.scalar(family, r.choice((1, 1, 2))), [])
    return g


def cause(e: Exception) -> str:
    """Return what refuses a condition: a function, a form, or rows that may raise an error."""
    line = str(e).splitlines()[0]
    if named := re.search(r"the function (\S+) is not", line):
        return f"function {named[1]}"
    if re.match(r"cannot filter [\d,]+ rows? by", line):
        return "rows that may raise an error"
    return re.sub(r"(\"[^\"]*\"|'[^']*'|\d+)", "..", line.partition(": ")[2] or line)[:80]


class Tally:
    """Counts of conditions, and of the causes of refusals with an example of each."""

    def __init__(self) -> None:
        self.asked = 0
        self.causes: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = collections.defaultdict(list)

    @property
    def share(self) -> float:
        """The share of conditions that are refused."""
        return sum(self.causes.values()) / max(self.asked, 1)

    def judge(self, text: str, t: pa.Table, ansi: bool) -> None:
        self.asked += 1
        try:
            node = ss.PruningPredicate(text, t.schema, ansi=ansi).node
            matches(node, t.combine_chunks().to_batches()[0])
        except (ss.SkipstoneError, KeyError) as e:
            self.causes[found := cause(e)] += 1
            self.examples[found].append(f"{text}: {e}"[:600])

    def __str__(self) -> str:
        lines = [f"{self.asked:,} conditions, {self.share:.1%} refused"]
        lines += [
            f"{count:6,}  {name}\n        {min(self.examples[name], key=len)[:200]}"
            for name, count in self.causes.most_common(80)
        ]
        return "\n".join(lines)


def count(conditions: int, seed: int = 0, spark: Any = None) -> Tally:
    """Judge random rows by random conditions."""
    tally = Tally()
    while tally.asked < conditions:
        r = random.Random(seed)
        t, seed = rows(r), seed + 1
        g, ansi = grammar(r, t), r.random() < 0.5
        texts = [g.condition(r.choice((0, 0, 1, 1, 2))) for _ in range(CONDITIONS)]
        for text in accepted(spark, t, texts, ansi) if spark else texts:
            tally.judge(text, t, ansi)
    return tally


def accepted(spark: Any, t: pa.Table, texts: list[str], ansi: bool) -> list[str]:
    """Return the conditions that Spark evaluates without an error."""
    from tests.support.spark.answers import answers, refused_by_spark, set_in

    in_spark(spark, t).createOrReplaceTempView("fuzzed")
    with set_in(spark, {"spark.sql.ansi.enabled": str(ansi).lower()}):
        known = [text for text in texts if not refused_by_spark(spark, text)]
        found = answers(spark, known)
    return [text for text, values in zip(known, found, strict=True) if values is not None]


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conditions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--spark", action="store_true", help="ask Spark which conditions it takes")
    given = parser.parse_args(args)
    spark = None
    if given.spark:
        from skipstone.spark import session
        from tests.support.spark.session import FAST

        spark = session(FAST, master="local[1]", name="skipstone refusals")
    warnings.simplefilter("ignore")
    print(count(given.conditions, given.seed, spark))
    return 0


if __name__ == "__main__":
    sys.exit(main())
