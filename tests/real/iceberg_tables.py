"""Iceberg tables by Spark and pyiceberg, one for each feature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import skipstone as ss
from tests.real.made import COLUMNS, PARTS, SELECT, Made, Wanted, inserts, rows_of, run, unmade

CREATE = f"CREATE TABLE {{t}} ({COLUMNS}) USING iceberg"
MERGE_ON_READ = (
    "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', "
    "'write.merge.mode' = 'merge-on-read', 'write.distribution-mode' = 'none'"
)
DELETES = [
    "DELETE FROM {t} WHERE id % 17 = 3",
    "DELETE FROM {t} WHERE id BETWEEN 80 AND 99",
    "UPDATE {t} SET i = -i WHERE id % 23 = 5",
]


def with_properties(text: str) -> str:
    return f"{CREATE} TBLPROPERTIES ({text})"


def parted(by: str, properties: str = "'write.distribution-mode' = 'none'") -> str:
    return f"{CREATE} PARTITIONED BY ({by}) TBLPROPERTIES ({properties})"


# Dictionaries of more than a byte are given up, because columns with a dictionary get no filter.
FILTERS = "'write.parquet.dict-size-bytes' = '1', " + ", ".join(
    f"'write.parquet.bloom-filter-enabled.column.{c}' = 'true'" for c in "ilfsdtnb"
)
MORE_SPECS = [
    "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, i)",
    *inserts("{t}", range(1, 3)),
    "ALTER TABLE {t} DROP PARTITION FIELD p",
    *inserts("{t}", range(3, 5)),
    "ALTER TABLE {t} ADD PARTITION FIELD days(t)",
    *inserts("{t}", range(5, PARTS)),
]
OTHERS = "ORC and Avro beside Parquet"
EVOLVED = ("specs that change", "time travel", "a partition's source column dropped")
# Feature -> statements around the inserts: those before and those after them.
FEATURES: dict[str, tuple[list[str], list[str]]] = {
    "version 1": ([with_properties("'format-version' = '1'")], DELETES[:1]),
    "version 2": ([CREATE], DELETES),
    "identity": ([parted("p")], DELETES),
    "bucket": ([parted("bucket(4, id)")], []),
    "bucket, other types": ([parted("bucket(2, s), bucket(2, n), bucket(2, t)")], DELETES[:1]),
    "truncate": ([parted("truncate(6, s), truncate(50, i)")], []),
    "truncate, other types": ([parted("truncate(5, n), truncate(2, b)")], []),
    "void": (
        [with_properties("'format-version' = '1'"), "ALTER TABLE {t} ADD PARTITION FIELD p",
         *inserts("{t}", range(2)), "ALTER TABLE {t} DROP PARTITION FIELD p"],
        DELETES[:1],
    ),
    "years": ([parted("years(d)")], []),
    "months": ([parted("months(t)")], []),
    "days": ([parted("days(t)")], DELETES[:1]),
    "hours": ([parted("hours(t)")], []),
    "position deletes": ([with_properties(MERGE_ON_READ)], DELETES),
    "deletion vectors (version 3)": (
        [with_properties(f"'format-version' = '3', {MERGE_ON_READ}")],
        DELETES,
    ),
    "bloom filters": (
        [with_properties(f"'format-version' = '2', {FILTERS}, {MERGE_ON_READ}")],
        [*DELETES, "ALTER TABLE {t} RENAME COLUMN s TO `s 2`",
         "ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT"],
    ),
    "columns changed": (
        [CREATE],
        [
            "ALTER TABLE {t} RENAME COLUMN i TO `i 2`",
            "ALTER TABLE {t} DROP COLUMN l",
            "ALTER TABLE {t} ADD COLUMN l STRING",
            "UPDATE {t} SET l = 'new' WHERE id > 200",
            "ALTER TABLE {t} ALTER COLUMN `i 2` TYPE BIGINT",
        ],
    ),
    "sorted": ([CREATE, "ALTER TABLE {t} WRITE ORDERED BY f, s"], []),
    "Z-order": (
        [CREATE],
        ["CALL ice.system.rewrite_data_files(table => '{n}', strategy => 'sort', "
         "sort_order => 'zorder(i, f)')"],
    ),
    "row lineage (version 3)": (
        [with_properties("'format-version' = '3'")],
        [*DELETES, f"MERGE INTO {{t}} USING ({SELECT.format(230, 250)}) r ON {{t}}.id = r.id "
         "WHEN MATCHED THEN UPDATE SET i = 9 WHEN NOT MATCHED THEN INSERT *"],
    ),
    "no metrics": ([with_properties("'write.metadata.metrics.default' = 'none'")], []),
    "counts alone": ([with_properties("'write.metadata.metrics.default' = 'counts'")], []),
    "short bounds": ([with_properties("'write.metadata.metrics.default' = 'truncate(3)'")], []),
    "data rewritten": (
        [with_properties(MERGE_ON_READ)],
        [*DELETES, "CALL ice.system.rewrite_data_files(table => '{n}', options => "
         "map('delete-file-threshold', '1', 'min-input-files', '2'))"],
    ),
    "manifests rewritten": ([parted("p")], ["CALL ice.system.rewrite_manifests('{n}')"]),
    OTHERS: (
        [CREATE],
        [
            statement
            for k, form in enumerate(("avro", "orc"))
            for statement in (
                f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.format.default' = '{form}')",
                f"INSERT INTO {{t}} {SELECT.format(1000 + 20 * k, 1020 + 20 * k)}",
            )
        ],
    ),
}  # fmt: skip


def by_spark(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.real")
    for k, (feature, (before, after)) in enumerate(FEATURES.items()):
        if not wanted("Spark", feature):
            continue
        name = f"real.t{k}"
        made = [*before, *inserts("{t}"), *after]
        try:
            run(spark, [s.replace("{t}", f"ice.{name}").replace("{n}", name) for s in made])
        except Exception as e:
            yield unmade("iceberg", "Spark", feature, e)
            continue
        yield opened(spark, feature, folder / "ice" / "real" / f"t{k}", f"ice.{name}")
    if any(wanted("Spark", feature) for feature in EVOLVED):
        yield from evolved(spark, folder)


def evolved(spark: Any, folder: Path) -> Iterator[Made]:
    """Specs that change, branches, tags and snapshots."""
    run(spark, [s.replace("{t}", "ice.real.specs") for s in
                [parted("p"), *inserts("{t}", range(1)), *MORE_SPECS]])  # fmt: skip
    path = folder / "ice" / "real" / "specs"
    yield opened(spark, "specs that change", path, "ice.real.specs")
    order = "SELECT snapshot_id FROM ice.real.specs.snapshots ORDER BY committed_at"
    old = spark.sql(order).collect()[2][0]
    yield Made(
        "iceberg", "Spark", "time travel", lambda: ss.scan_iceberg(str(path), old),
        lambda: spark.read.option("versionAsOf", old).table("ice.real.specs"),
    )  # fmt: skip
    run(spark, ["ALTER TABLE ice.real.specs DROP PARTITION FIELD bucket(4, i)",
                "ALTER TABLE ice.real.specs DROP COLUMN i"])  # fmt: skip
    yield opened(spark, "a partition's source column dropped", path, "ice.real.specs")


def opened(spark: Any, feature: str, path: Path, name: str) -> Made:
    return Made("iceberg", "Spark", feature, lambda: ss.scan_iceberg(str(path)),
                lambda: spark.table(name), is_read=feature != OTHERS)  # fmt: skip


def by_pyiceberg(spark: Any, folder: Path, wanted: Wanted) -> Iterator[Made]:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform

    root = folder / "py"
    root.mkdir()
    catalog = SqlCatalog("py", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace("db")
    parts = [rows_of(spark, k) for k in range(PARTS)]
    specs = {
        "plain": [],
        "identity": [("p", IdentityTransform())],
        "days": [("t", DayTransform())],
        "bucket": [("id", BucketTransform(4))],
    }
    for feature, spec in specs.items():
        if not wanted("pyiceberg", feature):
            continue
        try:
            table = catalog.create_table(f"db.{feature}", parts[0].schema)
            with table.update_spec() as update:
                for column, transform in spec:
                    update.add_field(column, transform)
            for rows in parts:
                table.append(rows)
            table.delete("id >= 80 and id < 100")
            with table.update_schema() as change:
                change.add_column("later", table.schema().find_type("s"))
                change.rename_column("i", "i2")
        except Exception as e:
            yield unmade("iceberg", "pyiceberg", feature, e)
            continue
        where = table.metadata_location
        yield Made(
            "iceberg", "pyiceberg", feature, lambda where=where: ss.scan_iceberg(where),
            lambda where=where: spark.read.format("iceberg").load(where),
        )  # fmt: skip


MAKERS = (by_spark, by_pyiceberg)
