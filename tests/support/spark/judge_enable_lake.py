"""Delta's and Iceberg's tables under `enable`, compared with the same queries without it.

python -m tests.support.spark.judge_enable_lake PACKAGE FOLDER > answers.json
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from skipstone.spark import prune, session
from tests.support.spark.automatic import enabled, require_answers
from tests.support.spark.judge_delta import created, delta_session
from tests.support.spark.lakes import ICEBERG_CONFIG
from tests.support.spark.opened import files_opened
from tests.support.spark.session import CONFIG, INSTALLED

PROPERTIES = {
    "delta": "'delta.enableDeletionVectors' = 'true'",
    "iceberg": "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
    "'write.merge.mode' = 'merge-on-read', 'write.distribution-mode' = 'none'",
}
FACT = (
    "CREATE TABLE fact (x BIGINT, k INT, p STRING, s STRING) USING {} PARTITIONED BY (p) "
    "TBLPROPERTIES ({})"
)
PART = """INSERT INTO fact SELECT /*+ COALESCE(1) */ id, CAST(id AS INT),
          IF(id % 100 < 50, 'a', 'b'), CONCAT('s', id) FROM range({}, {})"""
DIM = "CREATE TABLE dim (k INT, p STRING, name STRING) USING {}"
DIM_ROWS = """INSERT INTO dim SELECT /*+ COALESCE(1) */ CAST(id AS INT), IF(id % 2 = 0, 'a', 'b'),
              CONCAT('n', id) FROM range(0, 400)"""
# Each skips files, by a join or by a condition that Delta does not push down.
PRUNED = [
    "SELECT x FROM fact WHERE abs(x) > 350",
    "SELECT count(*) FROM fact JOIN dim ON fact.k = dim.k WHERE dim.name = 'n210'",
    "SELECT sum(x) FROM fact WHERE k IN (SELECT k FROM dim WHERE name IN ('n205', 'n250'))",
    "SELECT fact.x FROM fact LEFT SEMI JOIN dim ON fact.k = dim.k AND dim.name LIKE 'n3_1'",
    "SELECT a.x, b.s FROM fact a JOIN fact b ON a.x = b.x JOIN dim ON a.k = dim.k "
    "WHERE dim.name IN ('n205', 'n251')",
    "SELECT fact.x FROM fact VERSION AS OF {old} JOIN dim USING (k) WHERE name = 'n120'",
    "SELECT count(*) FROM dim LEFT JOIN fact ON fact.k = dim.k WHERE dim.name = 'n5'",
    "SELECT max(x) FROM (SELECT * FROM fact UNION ALL SELECT * FROM fact) "
    "JOIN dim USING (k) WHERE name < 'n11'",
    "WITH c AS (SELECT k, x FROM fact WHERE x > 0) "
    "SELECT count(*) FROM c JOIN dim USING (k) WHERE name = 'n10'",
]
# None of these may skip a file.
WHOLE = [
    "SELECT count(*) FROM fact LEFT JOIN dim ON fact.k = dim.k AND dim.name = 'n5'",
    "SELECT count(*) FROM fact LEFT ANTI JOIN dim ON fact.k = dim.k AND dim.name = 'n5'",
    "SELECT count(*) FROM fact",
    "SELECT count(*) FROM fact JOIN dim ON fact.p = dim.p WHERE dim.name IN ('n1', 'n2')",
]
OF_ICEBERG = [
    ("pruned", "SELECT x FROM ice.lake.fact.branch_b WHERE abs(x) > 350"),
    ("pruned", "SELECT x FROM fact VERSION AS OF 'b' WHERE abs(x) > 350"),
    ("pruned", "SELECT _pos, x FROM fact WHERE abs(x) > 350 AND _file LIKE '%parquet'"),
    # These return deleted rows, too.
    ("pruned", "SELECT x, _deleted FROM fact WHERE abs(x) BETWEEN 200 AND 260"),
    (
        "pruned",
        "SELECT name FROM dim JOIN (SELECT k FROM fact WHERE _deleted AND abs(x) = 205) USING (k)",
    ),
    ("whole", "SELECT count(*) FROM ice.lake.fact.snapshots WHERE snapshot_id > 0"),
    ("whole", "SELECT count(*) FROM ice.lake.fact.files WHERE record_count > 10"),
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
    "CREATE OR REPLACE TABLE copy USING {lake} AS SELECT fact.* FROM fact JOIN dim USING (k) "
    "WHERE name = 'n14'",
    "INSERT INTO fact SELECT * FROM copy",
]
ONLY = {
    "delta": ["OPTIMIZE fact", "RESTORE TABLE fact TO VERSION AS OF 4"],
    "iceberg": [
        "CALL ice.system.rewrite_data_files(table => 'lake.fact')",
        "ALTER TABLE fact DROP COLUMN s",
        "ALTER TABLE fact ADD COLUMN s INT",
        "INSERT INTO fact VALUES (9000, 14, 'a', 7)",
    ],
}


def rows_of(df: Any) -> list[str]:
    return sorted(map(str, df.collect()))


def compared(what: str, run: Any) -> dict[str, Any]:
    """Run a query without and with `enable`; return the differences."""
    plain = run()
    expected = rows_of(plain)
    spark = plain.sparkSession
    with enabled(spark) as found:
        pruned = run()
        rows = rows_of(pruned)
        require_answers(found())
        report = str(found().queries[-1]) if found().queries else ""
        scans = found().queries[-1].scans if found().queries else ()
    counted = [s for s in scans if s.files is not None]
    opened = (sum(s.files for s in counted), sum(s.kept for s in counted))
    if files_opened(plain, ran=True):  # Iceberg's scans count no files
        opened = files_opened(plain, ran=True), files_opened(pruned, ran=True)
    return {"what": what, "equal": rows == expected, "files": opened, "report": report}


def questions(spark: Any, folder: str) -> Any:
    for name, path, conditions in created(spark, folder):
        for where in conditions:

            def run(path: Any = path, where: str = where) -> Any:
                return spark.read.format("delta").load(str(path)).where(where)

            yield {"kind": "condition"} | compared(f"{name}: {where}", run)


def create(spark: Any, lake: str) -> Any:
    """Create the tables; return the version before the last commit of the larger one."""
    for statement in (DIM.format(lake), DIM_ROWS, FACT.format(lake, PROPERTIES[lake])):
        spark.sql(statement)
    for first in range(0, 400, 100):
        old = state(spark, lake) if first else None
        spark.sql(PART.format(first, first + 100))
    return old


def state(spark: Any, lake: str) -> Any:
    """Return the table's version."""
    if lake == "delta":
        return spark.sql("DESCRIBE HISTORY fact LIMIT 1").first()["version"]
    order = "SELECT snapshot_id FROM ice.lake.fact.snapshots ORDER BY committed_at DESC"
    return spark.sql(order).first()[0]


def restore(spark: Any, lake: str, version: Any) -> None:
    if lake == "delta":
        spark.sql(f"RESTORE TABLE fact TO VERSION AS OF {version}")
    else:
        spark.sql(f"CALL ice.system.set_current_snapshot('lake.fact', {version})")


def joins(spark: Any, lake: str, old: Any) -> Any:
    asked = [("pruned", query) for query in PRUNED] + [("whole", query) for query in WHOLE]
    if lake == "iceberg":
        spark.sql("ALTER TABLE fact CREATE BRANCH b")
        asked += OF_ICEBERG
    for kind, query in asked:
        text = query.format(old=old)
        yield {"kind": kind} | compared(text, lambda text=text: spark.sql(text))


def changes(spark: Any, lake: str) -> Any:
    """Change a table without `enable`, take the change back, and make it under `enable`."""
    statements = [s.format(lake=lake) for s in (*CHANGES, *ONLY[lake])]
    if lake == "delta" and INSTALLED < (4, 0):  # whose Delta cannot run it
        statements = [s for s in statements if " copy" not in s]
    for statement in statements:
        version = state(spark, lake)
        spark.sql(statement)
        expected = rows_of(spark.table("fact"))
        if not statement.startswith("ALTER"):
            restore(spark, lake, version)
            with enabled(spark) as found:
                spark.sql(statement)
                answered = found()
                rows = rows_of(spark.table("fact"))
                require_answers(answered)
            yield {"kind": "change", "what": statement, "equal": rows == expected}
        has_s = "s" in spark.table("fact").columns
        for query in (
            "SELECT * FROM fact JOIN dim USING (k) WHERE name = 'n14'",
            "SELECT * FROM fact WHERE abs(x) > 300" + " AND s IS NOT NULL" * has_s,
        ):
            label = f"{query}, after {statement}"
            yield {"kind": "then"} | compared(label, lambda query=query: spark.sql(query))


def commits(spark: Any) -> Any:
    """Ask a DataFrame again after commits."""
    query = "SELECT fact.x FROM fact JOIN dim USING (k) WHERE name = 'n120'"
    spark.sql("DELETE FROM fact WHERE k = 120")
    once = prune(spark.sql(query), "fact.x > 0")
    with enabled(spark) as found:
        df = spark.sql(query)
        before = df.count()
        spark.sql("INSERT INTO fact SELECT id + 5000, 120, 'z', NULL FROM range(2)")
        after = df.count()
        spark.sql("INSERT INTO dim VALUES (214, 'b', 'n120')")
        later = df.count()
        require_answers(found())
    plain = spark.sql(query).count()
    equal = (before, after, later) == (0, 2, plain)
    yield {"kind": "commit", "what": query, "equal": equal, "counts": (before, after, later, plain)}
    # `prune` must not keep a version.
    yield {"kind": "commit", "what": "prune", "equal": once.count() == plain}


def unread(spark: Any, folder: str) -> Any:
    """Hide the files that a query does not need while it runs."""
    query = "SELECT count(s) FROM fact WHERE abs(x) BETWEEN 310 AND 320"
    named = spark.sql("SELECT DISTINCT input_file_name() FROM fact WHERE x BETWEEN 310 AND 320")
    needed = {row[0].rpartition("/")[2] for row in named.collect()}
    expected = rows_of(spark.sql(query))
    data = [p for p in Path(folder).rglob("*.parquet") if "/fact/" in str(p)]
    needed |= {p.name for p in data if p.name.endswith("-deletes.parquet")}
    hidden = [p for p in data if p.name not in needed and "_delta_log" not in str(p)]
    for file in hidden:
        file.rename(file.with_suffix(".hidden"))
    try:
        with enabled(spark):
            rows = rows_of(spark.sql(query))
    finally:
        for file in hidden:
            file.with_suffix(".hidden").rename(file)
    yield {"kind": "unread", "what": query, "equal": rows == expected and len(hidden) > 6}


def started(package: str, folder: str) -> tuple[Any, str]:
    """Return a session that has loaded a package and stores tables in a folder, and the lake."""
    if "delta" in package:
        return delta_session(package, "Delta under enable"), "delta"
    more = ICEBERG_CONFIG | {"spark.sql.catalog.ice.warehouse": folder}
    config = CONFIG | more | {"spark.jars.packages": package}
    return session(config, master="local[2]", name="Iceberg under enable"), "iceberg"


def use(spark: Any, lake: str, folder: str, name: str) -> None:
    """Create a database, and resolve names of tables in it."""
    if lake == "delta":
        spark.sql(f"CREATE DATABASE {name} LOCATION '{Path(folder) / name}'")
        spark.sql(f"USE {name}")
    else:
        spark.sql(f"CREATE DATABASE ice.{name}")
        spark.sql(f"USE ice.{name}")


def main(package: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    found = []
    spark, lake = started(package, folder)
    use(spark, lake, folder, "lake")
    if lake == "delta":
        found += questions(spark, folder)
    old = create(spark, lake)
    spark.sql("DELETE FROM fact WHERE x IN (205, 250, 333)")
    found += [
        *joins(spark, lake, old),
        *unread(spark, folder),
        *changes(spark, lake),
        *commits(spark),
    ]
    json.dump(found, sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
