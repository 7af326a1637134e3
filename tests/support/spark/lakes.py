"""Delta's and Iceberg's packages for this Spark, and separate sessions that load them.

Spark fetches the packages, so the tests run only if SKIPSTONE_LAKES is set, as by `make spark`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

# Spark -> the packages that are made for it.
DELTA_PACKAGES: Final = {
    "3.5": "io.delta:delta-spark_2.12:3.3.2",
    "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "4.2": "io.delta:delta-spark_2.13:4.4.0",
}
ICEBERG_PACKAGES: Final = {
    "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",
    "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
DELTA_CONFIG: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}
ICEBERG_CONFIG: Final = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}
ROOT: Final = Path(__file__).parents[3]


def package_for(packages: dict[str, str]) -> str:
    """Return the package for the installed Spark; skip the test if there is none."""
    pyspark = pytest.importorskip("pyspark")
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in packages:
        pytest.skip(f"no such package is made for Spark {version}, only for {', '.join(packages)}")
    if not os.environ.get("SKIPSTONE_LAKES"):
        pytest.skip("set SKIPSTONE_LAKES=1, as `make spark` does, so that Spark fetches packages")
    return packages[version]


def judged(module: str, package: str, folder: Path, seconds: int = 580) -> Any:
    """Run a module in a process of its own, and return the JSON that it prints.

    A session loads jars only when it starts.
    """
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", module, package, str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout[done.stdout.index("[{") :])
