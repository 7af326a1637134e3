"""Run the statements that `table.advise` proposes for Delta's and Iceberg's tables in Spark.

It runs in its own process, because a session loads jars only when it starts.

python -m tests.support.spark.judge_advice PACKAGE FOLDER > answers.json
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import skipstone as ss
from skipstone.bindings.layout.advice import Advice, Estimate
from skipstone.bindings.layout.simulate import Layout
from skipstone.bindings.layout.statements import statements_for
from skipstone.ir.types import leaves_of
from tests.support.spark.lakes import DELTA_CONFIG, ICEBERG_CONFIG
from tests.support.spark.session import CONFIG, start

FILES: Final = 16
ROWS: Final = 40_000
# In no order: every file holds nearly all values.
SELECT: Final = f"""SELECT id, CAST(hash(id) % 10000 AS INT) a,
CAST(hash(id, 1) % 10000 AS INT) `b-c`,
CONCAT('s', hash(id, 2) % 1000) s, NAMED_STRUCT('x', CAST(hash(id, 3) % 5000 AS INT)) st,
CAST(abs(hash(id, 4)) % 4 AS INT) p, CAST(hash(id, 5) % 10000 / 4 AS DECIMAL(10,2)) m,
hash(id, 6) % 2 = 0 b, CAST(CAST(abs(hash(id, 7)) % 9000 AS STRING) AS BINARY) y,
TIMESTAMP_NTZ '2024-01-01 00:00:00' + make_dt_interval(0, CAST(abs(hash(id, 8)) % 999 AS INT)) n,
repeat('.', CAST(id % 50 AS INT)) filler
FROM range(0, {ROWS}, 1, {FILES})"""
WORKLOADS: Final = {
    "one column": ["a = 77", "a BETWEEN 100 AND 400", "a > 9000"],
    "two columns": ["a = 77", "`b-c` = 5", "a > 8000 AND `b-c` > 8000", "`b-c` < -9000"],
    "a field": ["st.x = 7", "st.x BETWEEN 100 AND 200 AND s = 's5'"],
    "other types": [
        "m = 7.25",
        "b AND m > 2000",
        "y = X'3737'",
        "n > TIMESTAMP_NTZ '2024-02-01 00:00:00'",
    ],
    "a partition": ["p = 1 AND a > 9000", "p = 2 AND a = 4", "p = 3"],
}


class Lake:
    """Tables of one format: how they are made, found and scanned."""

    def __init__(self, spark: Any, format: str, folder: str) -> None:
        self.spark, self.format, self.folder = spark, format, folder
        self.name = "lake.t" if format == "delta" else "ice.lake.t"

    def make(self) -> Any:
        """Make the table anew and return its scan."""
        self.spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        self.spark.sql(f"CREATE TABLE {self.name} USING {self.format} AS {SELECT}")
        return self.scan()

    def scan(self) -> Any:
        if self.format == "delta":
            return ss.scan_delta(f"{self.folder}/lake/t")
        metadata = Path(self.folder) / "lake" / "t" / "metadata"
        newest = max(metadata.glob("v*.metadata.json"), key=lambda p: int(p.name[1:].split(".")[0]))
        return ss.scan_iceberg(str(newest))

    def rows(self) -> Any:
        summed = "count(*), sum(id), sum(hash(id, a, `b-c`, s, st, p, m, b, y, n, filler))"
        return list(self.spark.sql(f"SELECT {summed} FROM {self.name}").collect()[0])


def tried(advice: Advice) -> list[Estimate]:
    """Return the best candidate of each kind, and of each number of columns to sort by."""
    found: dict[Any, Estimate] = {}
    for estimate in advice.candidates:
        if estimate.runnable:
            found.setdefault((estimate.kind, len(estimate.keys)), estimate)
    return list(found.values())


def path_of(name: str) -> tuple[str, ...]:
    """Return a column of a report as its path; here no name holds a dot."""
    return tuple(name.replace("`", "").split("."))


def answers(lake: Lake) -> Iterator[Any]:
    for name, workload in WORKLOADS.items():
        table = lake.make()
        advice = table.advise(workload, sample=True, name=lake.name)
        for estimate in tried(advice):
            table = lake.make()
            expected = lake.rows()
            paths = tuple(path_of(k) for k in estimate.keys)
            layout = Layout(estimate.kind, paths, tuple(map(path_of, estimate.partition_by)))
            first = estimate == advice.best
            # For the others, users see only the prediction.
            (statement,) = advice.statements if first else statements_for(
                layout, lake.format, path=table.path, name=lake.name, files=table.all_files,
                rows_per_group=0, file_bytes=(advice.bytes or 0) // advice.files,
                kinds={path: leaf.dtype.kind for path, leaf in leaves_of(table.schema).items()},
            )  # fmt: skip
            for text in statement.sql.split(";\n"):
                lake.spark.sql(text.rstrip(";"))
            after = lake.scan()
            read = [after.plan(where).sizes.scan.bytes for where in workload]
            whole = after.plan().sizes.total.bytes * len(workload)
            yield {
                "workload": name,
                "layout": estimate.label,
                "first": first,
                "equal": lake.rows() == expected,
                "files": [advice.files, after.num_files],
                "before": advice.current.share,
                "predicted": estimate.share,
                "after": sum(read) / whole,
            }


def main(package: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    format = "delta" if "delta" in package else "iceberg"
    if format == "delta":
        config = CONFIG | DELTA_CONFIG | {"spark.jars.packages": package}
        spark = start(config, "local[2]", "Delta's layouts")
        spark.sql(f"CREATE DATABASE lake LOCATION '{Path(folder) / 'lake'}'")
    else:
        more = ICEBERG_CONFIG | {"spark.sql.catalog.ice.warehouse": folder}
        config = CONFIG | more | {"spark.jars.packages": package}
        spark = start(config, "local[2]", "Iceberg's layouts")
        spark.sql("CREATE DATABASE ice.lake")
    json.dump(list(answers(Lake(spark, format, folder))), sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
