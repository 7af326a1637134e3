"""Statements that write Delta's and Iceberg's tables: on two equal copies, one under `enable`.

python -m tests.support.spark.judge_statements PACKAGE FOLDER > answers.json
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from contextlib import nullcontext
from typing import Any

from tests.support.spark.automatic import enabled, require_answers
from tests.support.spark.judge_enable_lake import DIM, DIM_ROWS, rows_of, started, use

COPIES = ("plain", "pruned")
FACT = (
    "CREATE TABLE {} (x BIGINT, k INT, p STRING, s STRING, f DOUBLE, d DATE) USING {} "
    "PARTITIONED BY (p) TBLPROPERTIES ({})"
)
ROWS = """INSERT INTO {} SELECT /*+ COALESCE(1) */ id, IF(id % 23 = 22, NULL, CAST(id AS INT)),
          IF(id % 40 < 20, 'a', 'b'), IF(id % 9 = 0, NULL, CONCAT('s', id)),
          CAST(IF(id % 11 = 0, 'NaN', IF(id % 50 = 3, '-0.0', id / 4)) AS DOUBLE),
          DATE '2024-01-01' + CAST(id AS INT) FROM range({}, {})"""
# The properties of the table that statements change.
WRITERS = {
    "delta": [
        "'delta.enableDeletionVectors' = 'true'",
        "'delta.enableDeletionVectors' = 'false', 'delta.enableChangeDataFeed' = 'true'",
    ],
    "iceberg": [
        ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
        + f", 'format-version' = '{version}', 'write.distribution-mode' = 'none'"
        for mode, version in (("copy-on-write", 2), ("merge-on-read", 2), ("merge-on-read", 3))
    ],
}
STATEMENTS = [
    "UPDATE fact SET s = 'new', f = -0.0D WHERE abs(k) = 33 OR f = 0",
    "UPDATE fact SET p = 'c' WHERE abs(x) > 110 AND k IS NULL",
    "DELETE FROM fact WHERE abs(x) IN (97, 99) OR (isnan(f) AND x < 12)",
    # The source is a filtered table, a join, an aggregate of the target itself, or empty.
    "MERGE INTO fact t USING (SELECT * FROM dim WHERE abs(k) BETWEEN 105 AND 130) q ON t.k = q.k "
    "WHEN MATCHED AND t.x % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET t.s = q.name "
    "WHEN NOT MATCHED THEN INSERT (x, k, p) VALUES (-1, q.k, q.p)",
    "MERGE INTO fact t USING (SELECT b.* FROM base b JOIN dim ON b.k = dim.k "
    "WHERE dim.name IN ('n30', 'n31')) q ON t.x = q.x AND t.p <=> q.p "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO fact t USING (SELECT k + 1 AS k, max(s) AS s FROM fact WHERE abs(x) > 90 "
    "GROUP BY k) q ON t.k = q.k WHEN MATCHED THEN UPDATE SET t.s = q.s",
    "MERGE INTO fact t USING (SELECT * FROM dim WHERE abs(k) > 5000) q ON t.k = q.k "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.x = 8 THEN DELETE",
    "MERGE INTO fact t USING dim q ON t.k = q.k AND q.name = 'n65' "
    "WHEN MATCHED THEN UPDATE SET t.s = q.name "
    "WHEN NOT MATCHED AND q.k > 397 THEN INSERT (x, k) VALUES (q.k, q.k) "
    "WHEN NOT MATCHED BY SOURCE AND t.f > 25 THEN UPDATE SET t.f = CAST('NaN' AS DOUBLE)",
    "MERGE INTO fact t USING base q ON t.x = q.x AND abs(q.x) > 20 AND abs(t.x) < 100 "
    "WHEN NOT MATCHED AND abs(q.x) > 60 THEN INSERT *",
    # Two rows of the source change one row: an error.
    "MERGE INTO fact t USING (SELECT k FROM dim WHERE abs(k) = 41 UNION ALL "
    "SELECT k FROM dim WHERE abs(k) < 42) q ON t.k = q.k WHEN MATCHED THEN UPDATE SET t.s = 'two'",
    "INSERT INTO fact SELECT x + 500, fact.k, fact.p, name, f, d FROM fact JOIN dim "
    "ON fact.k = dim.k WHERE name IN ('n44', 'n77')",
    "INSERT OVERWRITE fact SELECT fact.* FROM fact LEFT ANTI JOIN dim "
    "ON fact.k = dim.k AND dim.name LIKE 'n%4'",
    "INSERT OVERWRITE fact SELECT * FROM fact WHERE abs(x) < 85 OR x > 105",
]
ONLY = {
    "delta": [
        "INSERT INTO fact REPLACE WHERE x BETWEEN 10 AND 20 SELECT * FROM base "
        "WHERE x BETWEEN 10 AND 20 AND abs(k) > 15",
        "DELETE FROM fact WHERE x % 13 = 5",
        "OPTIMIZE fact ZORDER BY (x)",
    ],
    "iceberg": [
        "DELETE FROM fact WHERE k IN (SELECT k FROM dim WHERE name LIKE 'n5_')",
        "DELETE FROM fact t WHERE abs(x) > 60 AND NOT EXISTS "
        "(SELECT 1 FROM dim WHERE dim.k = t.k AND abs(dim.k) < 70)",
        "UPDATE fact SET s = (SELECT max(name) FROM dim WHERE abs(k) > 300) WHERE abs(x) = 12",
        "MERGE INTO fact t USING (SELECT * FROM fact VERSION AS OF {first} WHERE abs(x) > 90) q "
        "ON t.x = q.x WHEN NOT MATCHED THEN INSERT *",
        "CALL ice.system.rewrite_data_files(table => '{copy}.fact', "
        "options => map('rewrite-all', 'true'))",
    ],
}
# Figures that count changed rows. How many are copied depends on which files hold them.
COUNTS = re.compile(r"^num(?!.*(Copied|Output)).*Rows|num-target-rows-(?!copied)|total-records")


def create(spark: Any, lake: str, properties: str) -> None:
    """Create `fact`, which statements change; `base`, the same rows; and `dim`, with their keys."""
    spark.sql(DIM.format(lake))
    spark.sql(DIM_ROWS)
    for table in ("fact", "base"):
        spark.sql(FACT.format(table, lake, properties))
        for first in range(0, 120, 40):
            spark.sql(ROWS.format(table, first, first + 40))


def counts(spark: Any, lake: str, copy: str) -> dict[str, str]:
    """Return how many rows the last operation on `fact` changed, as its lake reports it."""
    if lake == "delta":
        metrics = spark.sql("DESCRIBE HISTORY fact LIMIT 1").first()["operationMetrics"]
    else:
        snapshots = spark.table(f"ice.{copy}.fact.snapshots")
        metrics = snapshots.orderBy("committed_at", ascending=False).first()["summary"]
    return {name: value for name, value in metrics.items() if COUNTS.search(name)}


def ran(spark: Any, lake: str, copy: str, statement: str) -> dict[str, Any]:
    """Run a statement on a copy; return what it did, and how many scans skipped files."""
    if "{first}" in statement:
        order = f"SELECT snapshot_id FROM ice.{copy}.fact.snapshots ORDER BY committed_at LIMIT 3"
        statement = statement.replace("{first}", str(spark.sql(order).collect()[-1][0]))
    error, skipped = "", 0
    with enabled(spark) if copy.startswith("pruned") else nullcontext() as found:
        try:
            spark.sql(statement.replace("{copy}", copy)).collect()
        except Exception as e:
            error = next(iter(re.findall(r"\[[A-Z_.]+\]", str(e))), type(e).__name__)
        if found is not None:
            require_answers(found())
            scans = [scan for query in found().queries for scan in query.scans]
            skipped = sum(s.files is not None and s.kept < s.files for s in scans)
    did = {
        "error": error,
        "rows": rows_of(spark.table("fact")),
        "counts": counts(spark, lake, copy),
    }
    return {"did": did, "skipped": skipped}


def judged(spark: Any, lake: str, folder: str) -> Any:
    """Run all statements on tables of all kinds."""
    for number, properties in enumerate(WRITERS[lake]):
        for copy in COPIES:
            use(spark, lake, folder, f"{copy}{number}")
            create(spark, lake, properties)
        for statement in (*STATEMENTS, *ONLY[lake]):
            done = []
            for copy in COPIES:
                name = f"{copy}{number}"
                spark.sql(f"USE {name if lake == 'delta' else 'ice.' + name}")
                done.append(ran(spark, lake, name, statement))
            yield {
                "what": f"{statement}, with {properties}",
                "equal": done[0]["did"] == done[1]["did"],
                "error": done[0]["did"]["error"],
                "skipped": done[1]["skipped"],
            }


def main(package: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    spark, lake = started(package, folder)
    json.dump(list(judged(spark, lake, folder)), sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
