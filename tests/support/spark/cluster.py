"""A Spark standalone cluster on the loopback interface: a master and workers that tests may kill.

A process has at most one Spark driver, and the test process already has one. A cluster's job
therefore runs in a process of its own: a function of an importable module, which takes the session
and JSON values, and returns JSON values.

    with Cluster(workers=3) as cluster:
        found = cluster.run("tests.spark.shards.test_spark_cluster:job", folder, timeout=90)
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.effort import LONG
from tests.support.ports import free_port

WORKER: Final = "SKIPSTONE_TESTS_WORKER"  # the worker's number, in the environment of its processes
ROOT: Final = Path(__file__).parents[3]
SECONDS: Final = 60  # for the cluster to start; about 5 if the CPUs are idle
# Processes of Java that live for a minute start sooner with one compiler and one collector.
JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONFIG: Final = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    # The driver starts while workers do; no task runs before all of them are there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.executor.memory": "512m",
    "spark.buffer.pageSize": "1m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Cluster:
    """A master and workers, each a process group of its own, which all end with the block.

    Attributes:
        url: The master's URL, for drivers.
        workers: The processes. `lose` kills one, together with its executor and Python workers.
    """

    def __init__(self, workers: int = 2) -> None:
        self.count, self.workers = workers, list[subprocess.Popen[bytes]]()
        self._started = list[subprocess.Popen[bytes]]()
        self._folder = tempfile.TemporaryDirectory(
            prefix="spark-cluster-", ignore_cleanup_errors=True
        )

    def __enter__(self) -> Cluster:
        try:
            port, web = free_port(), free_port()
            self.url = f"spark://127.0.0.1:{port}"
            self._start(
                "org.apache.spark.deploy.master.Master",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--webui-port",
                str(web),
            )
            for i in range(self.count):
                # Spark runs no second copy of a task on the same host; Linux serves all of
                # 127.0.0.0/8.
                host = f"127.0.0.{i + 2}" if sys.platform == "linux" else "127.0.0.1"
                own = (
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                    "--webui-port",
                    "0",
                    "--host",
                    host,
                    "--work-dir",
                    f"{self._folder.name}/worker{i}",
                )
                self.workers.append(
                    self._start(
                        "org.apache.spark.deploy.worker.Worker",
                        *own,
                        self.url,
                        host=host,
                        worker=str(i),
                    )
                )
            _wait(lambda: _answers(web), "the master to answer", self._started)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            _kill(process)
        self._folder.cleanup()

    def _start(
        self, name: str, *args: str, host: str = "127.0.0.1", worker: str = ""
    ) -> subprocess.Popen[bytes]:
        import pyspark

        home = Path(pyspark.__file__).parent
        env = {
            **environment(),
            "SPARK_HOME": str(home),
            "SPARK_LAUNCHER_OPTS": JAVA,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA,
            "SPARK_LOCAL_DIRS": self._folder.name,
            "SPARK_LOCAL_IP": host,
            WORKER: worker,
        }
        with open(f"{self._folder.name}/{len(self._started)}.log", "wb") as log:
            command = [str(home / "bin" / "spark-class"), name, *args]
            process = subprocess.Popen(
                command,
                env=env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def run(
        self, job: str, *args: Any, config: Mapping[str, str] | None = None, timeout: float = 120
    ) -> Any:
        """Return the result of a function that a driver of this cluster calls.

        The function gets the session, `args`, and the ids of the workers' process groups as
        `groups`.

        Raises:
            AssertionError: it raised, or took longer.
        """
        asked = json.dumps(
            {
                "job": job,
                "args": args,
                "url": self.url,
                "config": {**CONFIG, "spark.cores.max": str(self.count), **(config or {})},
                "groups": [w.pid for w in self.workers],
            }
        )
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark.cluster"],
            env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=ROOT,
        )  # fmt: skip
        self._started.append(driver)  # type: ignore[arg-type]
        try:
            out, err = driver.communicate(asked, timeout)
        except subprocess.TimeoutExpired:
            _kill(driver)
            raise AssertionError(
                f"{job} took more than {timeout} s: {driver.communicate()[1][-3000:]}"
            ) from None
        assert driver.returncode == 0, err[-4000:]
        return json.loads(out.splitlines()[-1])


def lose(group: int) -> None:
    """Kill a worker together with all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield a cluster of two or three workers with a CPU each, for one module of tests."""
    pytest.importorskip("pyspark")
    if os.name != "posix":
        pytest.skip("Spark's scripts and process groups are those of POSIX systems")
    from skipstone.spark import ensure_java

    ensure_java()
    with Cluster(3 if LONG else 2) as running:
        yield running


def environment() -> dict[str, str]:
    """Return the environment of the cluster's processes: this interpreter and its modules."""
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return {**os.environ, **own, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}


def _answers(web: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
            return bool(json.load(answer)["status"] == "ALIVE")
    except (OSError, ValueError):  # while it starts, its pages are empty
        return False


def _wait(done: Any, what: str, processes: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        if gone := [p.args for p in processes if p.poll() is not None]:
            raise AssertionError(f"while waiting for {what} this ended: {gone}")
        if time.monotonic() > end:
            raise AssertionError(f"waited {SECONDS} s for {what}")
        time.sleep(0.1)


def _kill(process: subprocess.Popen[Any]) -> None:
    lose(process.pid)
    process.wait(20)


def _driver() -> None:
    """Run the job that standard input names, in the driver's process."""
    from skipstone.spark import session

    asked = json.load(sys.stdin)
    module, name = asked["job"].split(":")
    running = session(asked["config"], master=asked["url"], name="skipstone cluster tests")
    try:
        answer = getattr(importlib.import_module(module), name)(
            running, *asked["args"], groups=asked["groups"]
        )
    finally:
        running.stop()
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    _driver()
