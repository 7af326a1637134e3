"""Delta Lake on Spark compared with `skipstone.spark.read`: the same tables, queries and session.

It runs in its own process, because a session loads jars only when it starts.

python -m tests.support.spark.judge_delta PACKAGE FOLDER > answers.json
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

from tests.support.spark.lakes import DELTA_CONFIG
from tests.support.spark.session import CONFIG

VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
MAPPED = (
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
    "'delta.minWriterVersion' = '5')"
)
ROWS = """SELECT id x, CAST(IF(id % 11 = 0, 'NaN', id / 4) AS DOUBLE) f,
                 IF(id % 5 = 0, NULL, CONCAT('t', id)) s, CAST(id AS DECIMAL(20,3)) / 8 d,
                 IF(id % 4 = 0, NULL, NAMED_STRUCT('v', CAST(id AS INT), 'w', ARRAY(id))) n,
                 TIMESTAMP '2024-03-09 20:00:00'
                 + MAKE_DT_INTERVAL(0, CAST(id AS INT), 0, 0.000001) t,
                 IF(id < 20, NULL, CONCAT('p/', id DIV 30, ' %')) p
          FROM range({}, {})"""
COLUMNS = (
    "x BIGINT, f DOUBLE, s STRING, d DECIMAL(26,9), n STRUCT<v: INT, w: ARRAY<BIGINT>>, t "
    "TIMESTAMP, p STRING"
)

# SQL does not accept this in a path
GENERATED = "x BIGINT, t TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(t AS DATE))"

# Name -> statements that make the table, and the conditions.
TABLES = {
    "partitions and deletion vectors": (
        [f"CREATE TABLE {{t}} ({COLUMNS}) USING delta PARTITIONED BY (p) {VECTORS}"]
        + [f"INSERT INTO {{t}} {ROWS.format(i, i + 20)}" for i in range(0, 120, 20)]
        + ["DELETE FROM {t} WHERE x % 17 = 3", "DELETE FROM {t} WHERE x BETWEEN 60 AND 79"],
        [
            "x = 5", "x = 3", "x BETWEEN 35 AND 45", "x IN (1, 50, 111)", "x NOT IN (1, 2)",
            "p IS NULL", "p = 'p/1 %'", "p = 'p/1 %' AND x > 50",
            "p > 'p/1 %' OR x < 3",
            "s IS NULL AND x < 30", "s LIKE 't10%'", "f > 27",
            "f = CAST('NaN' AS DOUBLE) AND x < 40", "NOT (f < 25)", "d >= 12.5 AND d < 12.75",
            "n IS NULL AND x > 100",
            "n.v > 115", "n.w[0] = 33", "t >= TIMESTAMP '2024-03-14 00:00:00'",
            "CAST(t AS DATE) = DATE '2024-03-10'", "x > 1000", "x + 1 = 7",
            "x % 10 = 3 AND p IS NOT NULL",
        ],
    ),
    "column mapping": (
        [
            "CREATE TABLE {t} (`a b` BIGINT, `c,d` STRING, old INT, gone INT, "
            f"st STRUCT<`e f`: DOUBLE>) USING delta {MAPPED}",
            "INSERT INTO {t} SELECT id, CONCAT('s', id), CAST(id AS INT), 1, "
            "NAMED_STRUCT('e f', CAST(id AS DOUBLE)) FROM range(0, 20)",
            "ALTER TABLE {t} RENAME COLUMN old TO new",
            "ALTER TABLE {t} DROP COLUMN gone",
            "ALTER TABLE {t} ADD COLUMN gone STRING",
            "INSERT INTO {t} SELECT id, CONCAT('s', id), CAST(id AS INT), "
            "NAMED_STRUCT('e f', CAST(id AS DOUBLE)), 'x' FROM range(20, 40)",
        ],
        [
            "`a b` = 7", "`a b` > 18", "`c,d` = 's33'", "new < 3", "new >= 38", "gone IS NULL",
            "gone = 'x' AND new > 38", "st.`e f` > 36",
            "st.`e f` IS NULL",
            "`a b` = new",
        ],
    ),
    "generated columns": (
        [
            GENERATED,
            *(
                "INSERT INTO {t} (x, t) SELECT id, TIMESTAMP '2024-03-09 20:00:00' + "
                f"MAKE_DT_INTERVAL(0, CAST(id AS INT)) FROM range({i}, {i + 24})"
                for i in (0, 24, 48)
            ),
        ],
        [
            "t < TIMESTAMP '2024-03-10 00:00:00'", "t >= TIMESTAMP '2024-03-12 00:00:00'",
            "t = TIMESTAMP '2024-03-10 03:00:00'", "day = DATE '2024-03-10'",
            "day > DATE '2024-03-11' AND x < 60", "CAST(t AS DATE) = DATE '2024-03-11'",
            "t BETWEEN TIMESTAMP '2024-03-10 01:00:00' AND TIMESTAMP '2024-03-10 04:00:00'",
            "HOUR(t) = 3", "day IS NULL", "t > TIMESTAMP '2024-03-11 00:00:00Z'",
        ],
    ),
    "zones and types": (
        [
            "CREATE TABLE {t} (k TIMESTAMP, x INT, c CHAR(4), v VARCHAR(5), b BINARY, z BOOLEAN, "
            "w TIMESTAMP_NTZ, dt DATE, fl FLOAT) USING delta PARTITIONED BY (k)",
            *(
                f"INSERT INTO {{t}} SELECT TIMESTAMP '2024-07-0{i + 1} 00:30:00', CAST(id AS INT), "
                "CONCAT('c', id % 10), CONCAT('v', id), CAST(CONCAT('b', id) AS BINARY), "
                "id % 2 = 0, "
                "TIMESTAMP_NTZ '2024-01-01 00:00:00' + MAKE_DT_INTERVAL(CAST(id AS INT)), "
                "DATE '1500-01-01' + CAST(id AS INT), CAST(id AS FLOAT) / 3 "
                f"FROM range({10 * i}, {10 * i + 10})"
                for i in range(4)
            ),
        ],
        [
            "k = TIMESTAMP '2024-07-02 00:30:00'", "k > TIMESTAMP '2024-07-03 00:00:00'",
            "k < TIMESTAMP '2024-07-01 22:30:00Z' AND x > 3",
            "CAST(k AS DATE) = DATE '2024-07-03'",
            "x = 15", "c = 'c3'", "c = 'c3  ' AND x > 20", "c > 'c8'", "v = 'v17'", "b = X'623137'",
            "z AND x < 5",
            "w >= TIMESTAMP_NTZ '2024-02-05 00:00:00'",
            "w < TIMESTAMP '2024-01-03 00:00:00'", "dt <= DATE '1500-01-03'", "fl > 12.5",
            "fl = CAST(1 AS FLOAT) / 3", "x IS NULL", "k IS NULL", "x <=> 39",
        ],
    ),
}  # fmt: skip


def opened(df):
    """Return the files that the scans of a DataFrame opened."""
    from tests.support.spark.opened import files_opened

    return files_opened(df, ran=True)


def create_generated(spark, path):
    """Create the table of `GENERATED` with Delta's builder."""
    java = spark._jvm.io.delta.tables.DeltaTable
    day = (
        java.columnBuilder(spark._jsparkSession, "day")
        .dataType("DATE")
        .generatedAlwaysAs("CAST(t AS DATE)")
        .build()
    )
    names = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, 1)
    names[0] = "day"
    java.create(spark._jsparkSession).addColumn("x", "BIGINT").addColumn(
        "t", "TIMESTAMP"
    ).addColumn(day).partitionedBy(names).location(str(path)).execute()


def created(spark, folder):
    """Create the tables; yield each one's name, path and conditions."""
    for name, (statements, questions) in TABLES.items():
        path = Path(folder) / name
        for statement in statements:
            if statement == GENERATED:
                create_generated(spark, path)
            else:
                spark.sql(statement.replace("{t}", f"delta.`{path}`"))
        yield name, path, questions


def answers(spark, folder):
    from skipstone.bindings.spark.session.session import settings_of
    from skipstone.bindings.tables.delta.table import scan_delta
    from skipstone.spark import files_for_scan, read

    for name, path, questions in created(spark, folder):
        table = scan_delta(path)
        assert [
            f.name for f in spark.read.format("delta").load(str(path)).schema
        ] == table.schema.names
        for where in questions:
            theirs = spark.read.format("delta").load(str(path)).where(where)
            expected = sorted(map(str, theirs.toArrow().to_pylist()))
            found = {
                how: sorted(map(str, read(spark, table, where, how=how).toArrow().to_pylist()))
                == expected
                for how in ("auto", "python")
            }
            plan, scan = (
                table.plan(where, **settings_of(spark)),
                files_for_scan(spark, table, where),
            )
            same = [
                (f.name, f.dataType.simpleString()) for f in read(spark, table, where).schema
            ] == [(f.name, f.dataType.simpleString()) for f in theirs.schema]
            yield {
                "table": name,
                "where": where,
                "rows": len(expected),
                "equal": found,
                "same columns": same,
                "files": table.num_files,
                "by Delta": opened(theirs),
                "by Skipstone": len(plan.files),
                "scan": scan.scanned.files,
                "kind": scan.skipping,
            }


def delta_session(package, name):
    """Return a session that has loaded Delta's package."""
    from skipstone.spark import session

    return session(
        CONFIG
        | DELTA_CONFIG
        | {"spark.jars.packages": package, "spark.sql.session.timeZone": "America/New_York"},
        master="local[2]",
        name=name,
    )


def main(package, folder):
    warnings.simplefilter("ignore")
    spark = delta_session(package, "Delta Lake beside Skipstone")
    json.dump(list(answers(spark, folder)), sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
