"""The Spark session that tests share: real, local and small.

A Spark Connect client uses the same server.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib import metadata
from typing import Any, Final

import pytest

from skipstone.bindings.spark.session.session import version_of
from tests.support.ports import free_port
from tests.support.spark.old import modernise

# One compiler and one collector start soonest. One compiler gets 48 MB for code; these tests need
# twice as much, and a thread would always search for code to remove. While classes take less than
# MetaspaceSize, loading them never collects all objects.
JAVA: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m "
    "-XX:-UseCodeCacheFlushing -XX:MetaspaceSize=400m"
)
CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": f"{JAVA} -Xms1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # These are the defaults from Spark 4.0 on.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Each join, aggregate and sort takes a page; by default, it is of 32 or 64 MB, all zeros.
    "spark.buffer.pageSize": "1m",
    # Spark's UI would keep the plans of 1,000 queries, some of which take megabytes.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.sql.maxPlanStringLength": "10000",
    "spark.sql.ui.explainMode": "simple",  # a description of each plan, which nobody reads
    # Expressions are interpreted: compiling hundreds of them would take most of the time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# For many small queries in one thread.
FAST: Final = CONFIG | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
# PySpark 4.3 runs on pandas 3, but always warns that it is not supported.
QUIET: Final = "ignore:PySpark does not yet fully support pandas:FutureWarning"

INSTALLED: Final = (
    version_of(metadata.version("pyspark")) if importlib.util.find_spec("pyspark") else (0, 0)
)
SPARK_4: Final = pytest.mark.skipif(
    INSTALLED < (4, 0), reason="Spark 3.5 has no VARIANT, no COLLATE, and less of PySpark"
)
HAS_ARROW_UDF: Final = INSTALLED >= (4, 1)
# PySpark contains the Spark Connect server from 4.0 on; for 3.5, it is a separate jar.
SERVES_CONNECT: Final = INSTALLED >= (4, 0)


def start(config: dict[str, str], master: str, name: str) -> Any:
    """Start a session; with PySpark 3.5, it can do what the tests use of 4.0."""
    from skipstone.spark import session

    running = session(config, master=master, name=name)
    if INSTALLED < (4, 0):
        modernise(running)
    return running


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Yield a session in UTC and ANSI mode, which also serves Spark Connect.

    Tests that change a setting restore it.
    """
    pytest.importorskip("pyspark")
    serving = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    running = start(CONFIG | (serving if SERVES_CONNECT else {}), "local[2]", "skipstone tests")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def connect(spark: Any) -> Iterator[Any]:
    """Return a Spark Connect session: a client, over a socket, of the server of `spark`."""
    pytest.importorskip("grpc")
    if not SERVES_CONNECT:
        pytest.skip("PySpark before 4.0 has no server of Spark Connect")
    from pyspark.sql.connect.session import SparkSession

    port = spark.conf.get("spark.connect.grpc.binding.port")
    client = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    yield client
    client.stop()
