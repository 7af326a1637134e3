"""The Spark session of the tests: real, local, small, and shared by all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

CONFIG: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Expressions are interpreted: compiling hundreds of them would take longer than all else.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# PySpark 4.3 runs on pandas 3, and says at each turn that it does not promise to.
QUIET: Final = "ignore:PySpark does not yet fully support pandas:FutureWarning"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session in UTC and ANSI mode; tests that change a setting put it back."""
    pytest.importorskip("pyspark")
    from skipstone.spark import session

    running = session(CONFIG, master="local[2]", name="skipstone tests")
    yield running
    running.stop()
