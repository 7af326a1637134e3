"""Delta tables by Spark, delta-rs and Polars, one for each feature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skipstone as ss
from tests.real.made import COLUMNS, PARTS, SELECT, Made, Wanted, inserts, rows_of, run, unmade

PARTED = f"CREATE TABLE {{t}} ({COLUMNS}) USING delta PARTITIONED BY (p)"
PLAIN = f"CREATE TABLE {{t}} ({COLUMNS}) USING delta"
DELETES = [
    "DELETE FROM {t} WHERE id % 17 = 3",
    "DELETE FROM {t} WHERE id BETWEEN 80 AND 99",
    "UPDATE {t} SET i = -i WHERE id % 23 = 5",
    f"MERGE INTO {{t}} USING ({SELECT.format(230, 250)}) r ON {{t}}.id = r.id "
    "WHEN MATCHED THEN UPDATE SET i = 9 WHEN NOT MATCHED THEN INSERT *",
]


def properties(**values: str) -> str:
    return f"TBLPROPERTIES ({', '.join(f'{k!r} = {v!r}' for k, v in values.items())})"


def of(**values: str) -> str:
    return properties(**{f"delta.{k.replace('_', '.')}": v for k, v in values.items()})


# Feature -> statements around the inserts: those before and those after them.
FEATURES: dict[str, tuple[list[str], list[str]]] = {
    "partitions, changes": ([PARTED], DELETES),
    "deletion vectors": ([f"{PARTED} {of(enableDeletionVectors='true')}"], DELETES),
    "column mapping by name": (
        [f"{PLAIN} {of(columnMapping_mode='name')}"],
        [
            "ALTER TABLE {t} RENAME COLUMN i TO `i, 2`",
            "ALTER TABLE {t} DROP COLUMN l",
            "ALTER TABLE {t} ADD COLUMN l STRING",
            "UPDATE {t} SET l = 'new' WHERE id > 200",
        ],
    ),
    "bloom filters": (
        [
            f"{PLAIN} {of(columnMapping_mode='name')}",
            "SET parquet.bloom.filter.enabled = true",
            "SET parquet.enable.dictionary = false",  # columns with a dictionary get no filter
        ],
        [
            *DELETES,
            "ALTER TABLE {t} RENAME COLUMN s TO `s 2`",
            "RESET parquet.bloom.filter.enabled",
            "RESET parquet.enable.dictionary",
        ],
    ),
    "column mapping by id": ([f"{PARTED} {of(columnMapping_mode='id')}"], DELETES[:1]),
    "change data feed": ([f"{PARTED} {of(enableChangeDataFeed='true')}"], DELETES),
    "append only": ([f"{PLAIN} {of(appendOnly='true')}"], []),
    "row tracking": ([f"{PLAIN} {of(enableRowTracking='true')}"], DELETES[:3]),
    "in-commit timestamps": ([f"{PLAIN} {of(enableInCommitTimestamps='true')}"], DELETES[:1]),
    "restored": ([PLAIN], [*DELETES[:2], "RESTORE TABLE {t} TO VERSION AS OF 4"]),
    "Z-order": ([PLAIN], ["OPTIMIZE {t} ZORDER BY (f, s)"]),
    "clustered": (
        [f"CREATE TABLE {{t}} ({COLUMNS}) USING delta CLUSTER BY (i, d)"],
        ["OPTIMIZE {t}"],
    ),
    "two indexed columns": ([f"{PLAIN} {of(dataSkippingNumIndexedCols='2')}"], DELETES[:1]),
    "chosen indexed columns": (
        [f"{PLAIN} {properties(**{'delta.dataSkippingStatsColumns': 'id,st.x,d'})}"],
        [],
    ),
    "checkpoints": ([f"{PARTED} {of(checkpointInterval='2')}"], DELETES),
    "checkpoints, version 2": (
        [f"{PLAIN} {of(checkpointPolicy='v2', checkpointInterval='2')}"],
        DELETES[:2],
    ),
    "parsed statistics alone": (
        [
            PLAIN
            + " "
            + properties(
                **{
                    "delta.checkpoint.writeStatsAsJson": "false",
                    "delta.checkpoint.writeStatsAsStruct": "true",
                    "delta.checkpointInterval": "3",
                }
            )
        ],
        [],
    ),
    "type widening": (
        [f"{PLAIN} {of(enableTypeWidening='true')}"],
        ["ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT", *DELETES[2:3]],
    ),
    "CHAR and VARCHAR": (
        [f"CREATE TABLE {{t}} ({COLUMNS}, c CHAR(6), v VARCHAR(6)) USING delta"],
        ["UPDATE {t} SET c = CONCAT('c', id % 30), v = CONCAT('v', id)"],
    ),
    "times without zones": (
        [f"CREATE TABLE {{t}} ({COLUMNS}, w TIMESTAMP_NTZ) USING delta"],
        ["UPDATE {t} SET w = CAST(t AS TIMESTAMP_NTZ)"],
    ),
    "VARIANT": (
        [f"CREATE TABLE {{t}} ({COLUMNS}, v VARIANT) USING delta"],
        ["UPDATE {t} SET v = PARSE_JSON(CONCAT('{\"a\": ', id, '}')) WHERE id % 3 = 0"],
    ),
    "constraints and defaults": (
        [
            f"CREATE TABLE {{t}} ({COLUMNS}, k INT DEFAULT 5) USING delta "
            + properties(**{"delta.feature.allowColumnDefaults": "supported"}),
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)",
        ],
        [],
    ),
    "by years that are generated": (
        [
            f"CREATE TABLE {{t}} ({COLUMNS}, "
            "h TIMESTAMP GENERATED ALWAYS AS (DATE_TRUNC('DAY', t)), "
            "yyyy INT GENERATED ALWAYS AS (YEAR(t))) USING delta PARTITIONED BY (yyyy)"
        ],
        [],
    ),
    "by hours that are generated": (
        [
            f"CREATE TABLE {{t}} ({COLUMNS}, yy INT GENERATED ALWAYS AS (YEAR(t)), "
            "mm INT GENERATED ALWAYS AS (MONTH(t)), dd INT GENERATED ALWAYS AS (DAY(t)), "
            "hh INT GENERATED ALWAYS AS (HOUR(t))) USING delta PARTITIONED BY (yy, mm, dd, hh)"
        ],
        [],
    ),
    "by texts of hours that are generated": (
        [
            f"CREATE TABLE {{t}} ({COLUMNS}, hours STRING GENERATED ALWAYS AS "
            "(DATE_FORMAT(t, 'yyyy-MM-dd-HH'))) USING delta PARTITIONED BY (hours)"
        ],
        [],
    ),
}


def names(statement: str, more: list[str]) -> str:
    """Name the columns of an insert where the table has more than the common ones."""
    if not more:
        return statement
    common = "id, i, l, f, s, d, t, n, b, z, st, arr, m, items, p"
    return statement.replace(" SELECT /*+", f" ({common}) SELECT /*+", 1)


def by_spark(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    for k, (feature, (before, after)) in enumerate(FEATURES.items()):
        if not wanted("Spark", feature):
            continue
        path = folder / f"delta-{k}"
        name = f"delta.`{path}`"
        wide = [] if COLUMNS + ")" in before[0] else ["more"]
        statements = [*before, *(names(s, wide) for s in inserts("{t}")), *after]
        try:
            run(spark, [s.replace("{t}", name) for s in statements])
        except Exception as e:
            yield unmade("delta", "Spark", feature, e)
            continue
        yield made(spark, "Spark", feature, path)


def made(spark: Any, writer: str, feature: str, path: Path, **options: Any) -> Made:
    return Made(
        "delta", writer, feature, lambda: ss.scan_delta(str(path), **options),
        lambda: spark.read.format("delta").options(
            **({"versionAsOf": options["version"]} if options else {})
        ).load(str(path)),
    )  # fmt: skip


def by_delta_rs(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    import deltalake

    parts = [rows_of(spark, k) for k in range(PARTS)]
    for feature, options in {"partitions": {"partition_by": ["p"]}, "plain": {}}.items():
        path = folder / f"rs-{feature}"
        for rows in parts:
            deltalake.write_deltalake(str(path), rows, mode="append", **options)
        table = deltalake.DeltaTable(str(path))
        table.delete("id % 17 = 3")
        table.update(updates={"i": "-i"}, predicate="id % 23 = 5")
        yield made(spark, "delta-rs", feature, path)
        if not options:
            yield made(spark, "delta-rs", "time travel", path, version=3)
    path = folder / "rs-z"
    deltalake.write_deltalake(str(path), parts[0])
    for rows in parts[1:]:
        deltalake.write_deltalake(
            str(path), rows.append_column("later", rows["id"]), mode="append", schema_mode="merge"
        )
    deltalake.DeltaTable(str(path)).optimize.z_order(["f", "s"], max_concurrent_tasks=1)
    deltalake.DeltaTable(str(path)).create_checkpoint()
    yield made(spark, "delta-rs", "Z-order, columns added, checkpoint", path)


def by_polars(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    import polars as pl

    path = folder / "delta-polars"
    for k in range(PARTS):
        pl.from_arrow(rows_of(spark, k)).write_delta(str(path), mode="append")
    yield made(spark, "Polars", "plain", path)


MAKERS = (by_spark, by_delta_rs, by_polars)
