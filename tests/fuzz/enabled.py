"""Random queries under `enable`, over tables that change in the meantime.

`python -m tests.fuzz.enabled --queries 2000`. Each query runs without `enable` and with it, as
DataFrames that were made before or after a change: both must give the same rows, or plain Spark
must have failed.
"""

import argparse
import datetime
import math
import os
import random
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.spark import disable, enable, report
from tests.fuzz.queries import DIMS, FACTS, Queries
from tests.support.spark.automatic import EAGER
from tests.support.spark.session import FAST, start

ENABLED: Final = "spark.skipstone.enabled"
DAY: Final = datetime.date(2024, 1, 1)
ARROW: Final = {
    "INT": pa.int32(), "BIGINT": pa.int64(), "DATE": pa.date32(), "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", "UTC"), "DOUBLE": pa.float64(),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
}  # fmt: skip
SETTINGS: Final = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.autoBroadcastJoinThreshold": ("10485760", "-1"),
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": ("true", "false"),
    "spark.sql.optimizer.runtime.bloomFilter.enabled": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kolkata"),
    "spark.sql.exchange.reuse": ("true", "true", "false"),
}


def schema_of(ddl: str) -> pa.Schema:
    columns = (column.split(" ") for column in ddl.split(", "))
    return pa.schema([(name, ARROW[kind]) for name, kind in columns])


class Lake:
    """The tables: files that pyarrow writes, and Spark's catalog over them."""

    def __init__(self, spark: Any, folder: str, r: random.Random) -> None:
        self.spark, self.folder, self.r = spark, Path(folder), r
        self.facts = schema_of(FACTS.rpartition(", ")[0])
        for p in "abc":
            for _ in range(4):
                self.add(p)
        self.dims()
        for name, ddl, by in (("f", FACTS, "PARTITIONED BY (p)"), ("d", DIMS, "")):
            spark.sql(f"CREATE TABLE {name} ({ddl}) USING parquet {by} LOCATION '{self.at(name)}'")
        spark.sql("MSCK REPAIR TABLE f")
        spark.sql("CREATE TABLE e USING parquet AS SELECT CAST(id AS INT) r, concat('t', id) t "
                  "FROM range(8)")  # fmt: skip

    def at(self, name: str) -> str:
        return str(self.folder / name)

    def rows(self) -> dict[str, list[Any]]:
        """Return the columns of some rows: most in a narrow range of keys, with NULL and NaN."""
        r = self.r
        low = r.randrange(380)
        keys = [r.randrange(low, low + 20) for _ in range(r.randint(1, 40))]
        gone = lambda value: None if r.random() < 0.05 else value
        at = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        return {
            "k": [gone(k) for k in keys],
            "x": [1000 + k for k in keys],
            "day": [gone(DAY + datetime.timedelta(k // 8)) for k in keys],
            "at": [gone(at + datetime.timedelta(hours=3 * k)) for k in keys],
            "s": [gone(f"s{k}") for k in keys],
            "v": [math.nan if r.random() < 0.05 else gone(k / 4) for k in keys],
            "c": [None if k % 7 == 0 else f"{k}.50" for k in keys],
        }

    def write(self, path: Path) -> None:
        rows = self.rows()
        cells = [pa.array(rows[f.name]).cast(f.type) for f in self.facts]
        path.parent.mkdir(parents=True, exist_ok=True)
        size = self.r.choice((5, 1000))
        pq.write_table(pa.table(cells, schema=self.facts), path, row_group_size=size)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)  # of a file that Spark wrote

    def add(self, p: str) -> None:
        self.write(self.folder / "f" / f"p={p}" / f"{self.r.getrandbits(60):x}.parquet")

    def files(self) -> list[Path]:
        return sorted((self.folder / "f").rglob("*.parquet"))

    def dims(self) -> None:
        """Write the dimension anew, into the same file or another."""
        r = self.r
        keys = [r.choice((None, *range(400))) for _ in range(r.choice((0, 5, 40, 40)))]
        cells = {
            "k": keys,
            "r": [r.randrange(8) for _ in keys],
            "name": [r.choice((None, f"n{i}", f"n{i}")) for i, _ in enumerate(keys)],
            "day": [DAY + datetime.timedelta(r.randrange(60)) for _ in keys],
        }
        schema = schema_of(DIMS)
        rows = pa.table([pa.array(cells[f.name], f.type) for f in schema], schema=schema)
        folder = self.folder / "d"
        folder.mkdir(exist_ok=True)
        if r.random() < 0.5:
            for file in folder.glob("*.parquet"):
                file.unlink()
        pq.write_table(rows, folder / f"{r.choice('xyz')}.parquet")

    def change(self) -> str:
        """Change the tables, tell Spark, and say what was changed."""
        r, files = self.r, self.files()
        what = r.choice(("add", "replace", "remove", "dims", "dims", "insert", "overwrite"))
        if what == "add":
            self.add(r.choice("abc"))
        elif what == "replace":
            self.write(r.choice(files))
        elif what == "remove" and len(files) > 6:
            r.choice(files).unlink()
        elif what == "dims":
            self.dims()
        elif what == "insert":
            n = r.randrange(400)
            self.spark.sql(
                f"INSERT INTO f SELECT {n}, 1000 + {n}, DATE '2024-01-02', NULL, 's{n}', 1.5, 2.5, "
                f"'{r.choice('abc')}' FROM range(3)"
            )
        elif what == "overwrite" and len(files) > 6:
            self.spark.sql(
                "INSERT OVERWRITE f PARTITION (p = 'c') SELECT d.k, d.k + 1000, d.day, NULL, name, "
                "0.5, 1 FROM d WHERE d.k > 100"
            )
        for name in ("f", "d"):
            self.spark.sql(f"REFRESH TABLE {name}")
        return what


def rows_of(df: Any) -> list[str] | str:
    """Return the rows as texts, sorted; or why the query fails."""
    try:
        return sorted(map(str, df.collect()))
    except Exception as e:
        found = re.search(
            r"[A-Z_.]{12,}|[A-Za-z.]+Exception[^\n]*", str(e).partition("\n")[2] or str(e)
        )
        return found[0] if found else str(e)


class Judge:
    """Asks each query of both kinds of session, and counts."""

    def __init__(self, spark: Any, folder: str, seed: int) -> None:
        self.spark, self.r = spark, random.Random(f"{seed} enabled")
        self.lake, self.queries = Lake(spark, folder, self.r), Queries(self.r)
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def ask(self, number: int) -> None:
        r, spark = self.r, self.spark
        for key, values in SETTINGS.items():
            spark.conf.set(key, r.choice(values))
        text = self.queries.query()
        try:
            ran, early = (spark.sql(text), spark.sql(text)), (spark.sql(text), spark.sql(text))
        except Exception as e:  # both are refused alike
            self.counts[f"refused: {str(e)[:60]}"] += 1
            return
        self.compare(f"{number}, {text}", *ran)
        if r.random() < 0.4:
            what = self.lake.change()
            self.counts[what] += 1
            # A DataFrame that has run keeps its list of files, as Spark's own does, so it does not
            # see what replaced a file.
            if what not in ("replace", "dims"):
                self.compare(f"{number}, again after {what}, {text}", *ran)
            self.compare(f"{number}, made before {what}, {text}", *early)
            anew = spark.sql(text), spark.sql(text)
            self.compare(f"{number}, made after {what}, {text}", *anew)

    def compare(self, label: str, plain: Any, pruned: Any) -> None:
        spark = self.spark
        spark.conf.set(ENABLED, "false")
        expected = rows_of(plain)
        spark.conf.set(ENABLED, "true")
        before = report(spark)
        found = rows_of(pruned)
        after = report(spark)
        self.counts["queries"] += 1
        if isinstance(expected, str):
            self.counts[f"raises {expected[:60]}"] += 1
        new = after.answered - before.answered
        scans = [s for q in (after.queries[-new:] if new else ()) for s in q.scans]
        self.counts["pruned"] += any(s.files != s.kept for s in scans)
        self.counts["pruned by a join"] += any(s.files != s.kept and s.keys for s in scans)
        if not isinstance(expected, str) and found != expected:
            self.failures.append(f"{label}\n  {expected}\n  {found}\n  {after.queries[-1:]}")
        if (after.failed, after.late) != (before.failed, before.late):
            self.failures.append(f"{label}\n  {after.error} {after.queries[-1:]}")


def run(spark: Any, queries: int, seed: int = 0, seconds: float = math.inf) -> Judge:
    """Ask queries until the count or the time is reached; print failures."""
    start, shown = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.makedirs(f"{folder}/lake")
        for key, value in EAGER.items():
            spark.conf.set(key, value)
        enable(spark)
        spark.sql(f"CREATE DATABASE fuzz{seed} LOCATION '{folder}/catalog'")
        spark.sql(f"USE fuzz{seed}")
        judge = Judge(spark, f"{folder}/lake", seed)
        for number in range(queries):
            if time.monotonic() - start > seconds or judge.counts["queries"] >= queries:
                break
            try:
                judge.ask(number)
            except Exception:
                judge.failures.append(f"{number}: {traceback.format_exc()[-3000:]}")
            for failure in judge.failures[shown:]:
                print(failure, flush=True)
            shown = len(judge.failures)
        disable(spark)
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE fuzz{seed} CASCADE")
    counted = ", ".join(f"{k}: {v:,}" for k, v in judge.counts.most_common(20))
    print(f"{counted}\nseed {seed}, {shown} failures, {time.monotonic() - start:,.0f} s")
    return judge


def main(args: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after this time")
    given = parser.parse_args(args)
    spark = start(FAST, "local[2]", "skipstone enabled")
    return int(bool(run(spark, given.queries, given.seed, given.seconds).failures))


if __name__ == "__main__":
    sys.exit(main())
