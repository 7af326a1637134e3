"""Programs and shells in which every session is enabled, as real processes."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.effort import only_long
from tests.support.spark.session import JAVA

pytest.importorskip("pyspark")
ROOT = Path(__file__).parents[3]
QUERY = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
spark.conf.set("spark.skipstone.minBytes", "0")
spark.conf.set("spark.skipstone.maxPlanningMillis", "60000")
t = spark.read.parquet(sys.argv[1] if sys.argv[1:] else __import__("os").environ["LAKE"])
print("rows", t.where("k = 42").count())
from skipstone.spark import disable, report
print("kept", [s.kept for q in report(spark).queries for s in q.scans])
disable(spark)
again = SparkSession.builder.getOrCreate()
print("plain", t.where("k = 42").inputFiles().__len__())
"""
EXPECTED = ["rows 1", "kept [1]", "plain 6"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t")
    for i in range(6):
        pq.write_table(pa.table({"k": np.arange(i * 10, i * 10 + 10)}), folder / f"{i}.parquet")
    (folder.parent / "app.py").write_text(QUERY)
    return folder


def run(command, lake, *, typed="", **environment):
    """Run a command, and return the lines that the program wrote."""
    import pyspark

    from skipstone.bindings.spark.session.java import ensure_java

    ensure_java()
    quiet = {
        "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LAUNCHER_OPTS": JAVA,
        "LAKE": str(lake),
    }
    env = {k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"}
    terminal, keyboard = pty.openpty()  # Python runs startup files only for people
    if typed:
        os.write(terminal, typed.encode())
    done = subprocess.run(
        command,
        stdin=keyboard,
        capture_output=True,
        text=True,
        timeout=500,
        env={**env, **quiet, **environment},
    )
    os.close(terminal)
    os.close(keyboard)
    words = ("rows", "kept", "plain")
    lines = [line.lstrip("> ") for line in done.stdout.split("\n")]
    found = [line for line in lines if line.startswith(words)]
    assert found, done.stdout + done.stderr
    return found


def runner():
    from skipstone.bindings.spark.automatic import run

    return run.__file__


def bin_of(name):
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


def test_the_path_of_the_runner():
    command = [sys.executable, "-m", "skipstone.spark"]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert os.path.samefile(done.stdout.strip(), runner())
    done = subprocess.run([*command, "/nowhere.py"], capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert done.stderr == "/nowhere.py: there is no such program; expected a Python file\n"


@only_long
def test_a_program_of_python(lake):
    app = str(lake.parent / "app.py")
    assert run([sys.executable, "-m", "skipstone.spark", app, str(lake)], lake) == EXPECTED


def test_spark_submit(lake):
    app, conf = str(lake.parent / "app.py"), ["--conf", "spark.ui.enabled=false"]
    java = ["--driver-java-options", JAVA]
    command = [bin_of("spark-submit"), "--master", "local[1]", *java, *conf]
    command += [runner(), app, str(lake)]
    assert run(command, lake) == EXPECTED


@only_long
def test_the_shell(lake):
    """The startup file runs when `spark` is there; what follows comes from the keyboard."""
    lines = [line for line in QUERY.split("\n") if "builder" not in line and line != "import sys"]
    typed = "\n".join(lines).replace(
        'sys.argv[1] if sys.argv[1:] else __import__("os").environ["LAKE"]', repr(str(lake))
    )
    command = [bin_of("pyspark"), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    found = run(command, lake, typed=typed + "\nexit()\n", PYTHONSTARTUP=runner())
    assert found == EXPECTED
