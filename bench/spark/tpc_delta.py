"""`tpcds_delta`: TPC-DS over Delta tables in Spark: Delta's own skipping, and with `enable`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

from bench.report.report import Options, Report
from bench.rows.data import FOLDER, made
from bench.spark.spark_reads import bench_session
from bench.spark.tpc import MEMORY, SORTED, benchmark, folders
from bench.spark.tpc_data import lake_of

# Spark -> Delta's package for it.
PACKAGES: Final = {
    "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "4.2": "io.delta:delta-spark_2.13:4.4.0",
}
SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def tpcds_delta(options: Options) -> Report:
    """TPC-DS over Delta tables in Spark: with Delta's own skipping, and under `enable`."""
    import pyspark

    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in PACKAGES:
        raise SystemExit(f"Delta has no package for Spark {version}; for {', '.join(PACKAGES)}")
    report = Report(
        f"TPC-DS, scale 1, sorted, as Delta tables in Spark {version}: with Delta's own skipping, "
        "and with sks.enable(spark); rows equal"
    )
    with bench_session(MEMORY | SETTINGS | {"spark.jars.packages": PACKAGES[version]}) as spark:
        tables = folders(_converted(spark))
        for table in tables:
            spark.read.format("delta").load(str(table)).createOrReplaceTempView(table.name)
        benchmark(report, "Delta", spark, "tpcds", options, SORTED)
    return report


def _converted(spark: Any) -> Path:
    """Return the folder of the tables; their logs are made at the first use."""

    def make(folder: Path) -> None:
        for table in folders(lake_of("tpcds", ordered=True)):
            shutil.copytree(table, folder / table.name)
            spark.sql(f"CONVERT TO DELTA parquet.`{folder / table.name}`")

    return made(FOLDER / "tpcds-delta", make)
