"""Delta Lake on Spark: the same rows, and no more files than Delta reads.

The tests run if Delta's jars are available. They are looked for in SKIPSTONE_DELTA_JARS, a list
with commas, or in the local Maven repository (SKIPSTONE_MAVEN, or .m2/repository in the home
directory) after `mvn dependency:get -Dartifact=io.delta:delta-spark_2.13:VERSION`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Spark -> the versions of io.delta:delta-spark_2.13 that support it.
FITTING = {"4.0": ("4.0.1", "4.0.0"), "4.1": ("4.3.0", "4.2.0", "4.1.0")}


def jars():
    """Return the jars' paths, separated by commas; skip the test if none fits this Spark."""
    pyspark = pytest.importorskip("pyspark")
    jars_given = os.environ.get("SKIPSTONE_DELTA_JARS")
    if jars_given:
        return jars_given
    fitting = FITTING.get(".".join(pyspark.__version__.split(".")[:2]), ())
    if not fitting:
        known = "; ".join(
            f"Spark {spark}: {', '.join(versions)}" for spark, versions in FITTING.items()
        )
        pytest.skip(
            f"no delta-spark is known for Spark {pyspark.__version__} (known: {known}); "
            "name jars in SKIPSTONE_DELTA_JARS"
        )
    home = (
        Path(os.environ.get("SKIPSTONE_MAVEN") or Path.home() / ".m2" / "repository")
        / "io"
        / "delta"
    )
    for version in fitting:
        found = [
            home / name / version / f"{name}-{version}.jar"
            for name in ("delta-spark_2.13", "delta-storage")
        ]
        if all(map(Path.exists, found)):
            return ",".join(map(str, found))
    pytest.skip(
        f"the jars of delta-spark {' or '.join(fitting)}, for Spark {pyspark.__version__}, "
        "are not in the local Maven repository"
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    command = [sys.executable, "-m", "tests.support.spark.judge_delta", jars(), str(folder)]
    root = Path(__file__).parents[3]
    paths = os.pathsep.join([str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=root,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout[done.stdout.index("[{") :])


def test_rows_are_those_of_delta(answers):
    wrong = [a for a in answers if not all(a["equal"].values()) or not a["same columns"]]
    assert not wrong and len(answers) >= 60


def test_no_condition_reads_more_files(answers):
    more = [
        a for a in answers if a["by Skipstone"] > a["by Delta"] or a["scan"] != a["by Skipstone"]
    ]
    assert not more
    assert (
        sum(a["by Skipstone"] for a in answers)
        < sum(a["by Delta"] for a in answers)
        < sum(a["files"] for a in answers)
    )
