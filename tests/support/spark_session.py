"""The Spark session of the tests: real, local, small, and shared by all of them; and a client of Spark Connect beside it."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from importlib import metadata
from typing import Any, Final

import pytest

from skipstone.bindings.spark.session.session import version_of

CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # What a page that nobody opens would show: the plans of 1,000 queries, of which some are megabytes.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.sql.maxPlanStringLength": "10000",
    # Expressions are interpreted: compiling hundreds of them would take longer than all else.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# For many small queries in one thread.
FAST: Final = CONFIG | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
# PySpark 4.3 runs on pandas 3, and says at each turn that it does not promise to.
QUIET: Final = "ignore:PySpark does not yet fully support pandas:FutureWarning"

HAS_ARROW_UDF: Final = importlib.util.find_spec("pyspark") is not None and version_of(
    metadata.version("pyspark")
) >= (4, 1)


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session in UTC and ANSI mode, which serves Spark Connect too; tests that change a setting put it back."""
    pytest.importorskip("pyspark")
    from skipstone.spark import session

    serving = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(_free_port()),
    }
    running = session(CONFIG | serving, master="local[2]", name="skipstone tests")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def connect(spark: Any) -> Iterator[Any]:
    """A session of Spark Connect: a client, over a socket, of what `spark` serves."""
    pytest.importorskip("grpc")
    from pyspark.sql.connect.session import SparkSession

    port = spark.conf.get("spark.connect.grpc.binding.port")
    client = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    yield client
    client.stop()
