"""Delta's tables under `enable`, beside the same queries without it: rows and opened files.

python -m tests.support.spark.judge_enable_delta PACKAGE FOLDER > answers.json
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from tests.support.spark.automatic import enabled, require_answers
from tests.support.spark.judge_delta import created, delta_session
from tests.support.spark.opened import files_opened

FACT = (
    "CREATE TABLE fact (x BIGINT, k INT, p STRING, s STRING) USING delta PARTITIONED BY (p) "
    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
)
PART = """INSERT INTO fact SELECT /*+ COALESCE(1) */ id, CAST(id AS INT), IF(id % 2 = 0, 'a', 'b'),
          CONCAT('s', id) FROM range({}, {})"""
DIM = "CREATE TABLE dim (k INT, p STRING, name STRING) USING delta"
DIM_ROWS = """INSERT INTO dim SELECT /*+ COALESCE(1) */ CAST(id AS INT), IF(id % 2 = 0, 'a', 'b'),
              CONCAT('n', id) FROM range(0, 400)"""
# Each leaves files out, by a join or by a condition that Delta does not push down.
PRUNED = [
    "SELECT x FROM fact WHERE abs(x) > 350",
    "SELECT count(*) FROM fact JOIN dim ON fact.k = dim.k WHERE dim.name = 'n210'",
    "SELECT sum(x) FROM fact WHERE k IN (SELECT k FROM dim WHERE name IN ('n205', 'n250'))",
    "SELECT fact.x FROM fact LEFT SEMI JOIN dim ON fact.k = dim.k AND dim.name LIKE 'n3_1'",
    "SELECT a.x, b.s FROM fact a JOIN fact b ON a.x = b.x JOIN dim ON a.k = dim.k "
    "WHERE dim.name IN ('n205', 'n251')",
    "SELECT fact.x FROM fact VERSION AS OF 3 JOIN dim USING (k) WHERE name = 'n120'",
    "SELECT count(*) FROM dim LEFT JOIN fact ON fact.k = dim.k WHERE dim.name = 'n5'",
    "SELECT max(x) FROM (SELECT * FROM fact UNION ALL SELECT * FROM fact) "
    "JOIN dim USING (k) WHERE name < 'n11'",
    "WITH c AS (SELECT k, x FROM fact WHERE x > 0) "
    "SELECT count(*) FROM c JOIN dim USING (k) WHERE name = 'n10'",
]
# Each must leave all files in.
WHOLE = [
    "SELECT count(*) FROM fact LEFT JOIN dim ON fact.k = dim.k AND dim.name = 'n5'",
    "SELECT count(*) FROM fact LEFT ANTI JOIN dim ON fact.k = dim.k AND dim.name = 'n5'",
    "SELECT count(*) FROM fact",
    "SELECT count(*) FROM fact JOIN dim ON fact.p = dim.p WHERE dim.name IN ('n1', 'n2')",
]
CHANGES = [
    "UPDATE fact SET s = 'new' WHERE abs(k) = 33",
    "DELETE FROM fact WHERE abs(x) = 207",
    "MERGE INTO fact USING (SELECT k, name FROM dim WHERE name IN ('n7', 'n308')) d "
    "ON fact.k = d.k WHEN MATCHED THEN UPDATE SET s = d.name "
    "WHEN NOT MATCHED THEN INSERT (x, k, p, s) VALUES (-1, d.k, 'c', d.name)",
    "INSERT INTO fact SELECT fact.x + 1000, fact.k, fact.p, name FROM fact JOIN dim USING (k) "
    "WHERE name = 'n44'",
    "INSERT OVERWRITE fact SELECT fact.* FROM fact JOIN dim USING (k) WHERE name LIKE 'n%4'",
    "OPTIMIZE fact",
    "RESTORE TABLE fact TO VERSION AS OF 4",
    "CREATE OR REPLACE TABLE copy USING delta AS SELECT fact.* FROM fact JOIN dim USING (k) "
    "WHERE name = 'n11'",
    "INSERT INTO fact SELECT * FROM copy",
]


def rows_of(df: Any) -> list[str]:
    return sorted(map(str, df.collect()))


def compared(what: str, run: Any) -> dict[str, Any]:
    """Run a query without and with `enable`; return what differs."""
    plain = run()
    expected = rows_of(plain)
    spark = plain.sparkSession
    with enabled(spark) as found:
        pruned = run()
        rows = rows_of(pruned)
        require_answers(found())
        report = str(found().queries[-1]) if found().queries else ""
    files = files_opened(plain, ran=True), files_opened(pruned, ran=True)
    return {"what": what, "equal": rows == expected, "files": files, "report": report}


def questions(spark: Any, folder: str) -> Any:
    for name, path, conditions in created(spark, folder):
        for where in conditions:

            def run(path: Any = path, where: str = where) -> Any:
                return spark.read.format("delta").load(str(path)).where(where)

            yield {"kind": "condition"} | compared(f"{name}: {where}", run)


def joins(spark: Any) -> Any:
    for statement in (FACT, *(PART.format(i, i + 100) for i in range(0, 400, 100)), DIM, DIM_ROWS):
        spark.sql(statement)
    spark.sql("DELETE FROM fact WHERE x IN (205, 250, 333)")
    for kind, queries in (("pruned", PRUNED), ("whole", WHOLE)):
        for query in queries:
            yield {"kind": kind} | compared(query, lambda query=query: spark.sql(query))


def changes(spark: Any) -> Any:
    """Change a table without `enable`, take the change back, and make it under `enable`."""
    for statement in CHANGES:
        version = spark.sql("DESCRIBE HISTORY fact LIMIT 1").first()["version"]
        spark.sql(statement)
        expected = rows_of(spark.table("fact"))
        spark.sql(f"RESTORE TABLE fact TO VERSION AS OF {version}")
        with enabled(spark) as found:
            spark.sql(statement)
            answered = found()
            rows = rows_of(spark.table("fact"))
            require_answers(answered)
        yield {"kind": "change", "what": statement, "equal": rows == expected, "files": (0, 0)}


def commits(spark: Any) -> Any:
    """Ask a DataFrame again after a commit, and within one action while others commit."""
    query = "SELECT fact.x FROM fact JOIN dim USING (k) WHERE name = 'n120'"
    with enabled(spark) as found:
        df = spark.sql(query)
        before = df.count()
        spark.sql("INSERT INTO fact VALUES (5000, 120, 'z', 'late'), (5001, 120, 'z', 'late')")
        after = df.count()
        spark.sql("INSERT INTO dim VALUES (205, 'b', 'n120')")
        later = df.count()
        require_answers(found())
    spark.conf.set("spark.skipstone.enabled", "false")
    plain = spark.sql(query).count()
    spark.conf.unset("spark.skipstone.enabled")
    equal = after == before + 2 and later == plain
    yield {"kind": "commit", "what": query, "equal": equal, "files": (before, later, plain)}


def main(package: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    spark = delta_session(package, "Delta under enable")
    spark.sql(f"CREATE DATABASE lake LOCATION '{Path(folder) / 'lake'}'")
    spark.sql("USE lake")
    found = [*questions(spark, folder), *joins(spark), *changes(spark), *commits(spark)]
    json.dump(found, sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
