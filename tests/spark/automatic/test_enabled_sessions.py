"""`enable` and `disable` in sessions that were cloned, and in those that are stopped."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skipstone.spark import disable, enable, report
from tests.support.spark.automatic import EAGER, enabled
from tests.support.spark.opened import files_opened
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t")
    for i in range(3):
        pq.write_table(pa.table({"k": [i]}), folder / f"{i}.parquet")
    return str(folder)


def rules(spark):
    return spark._jsparkSession.experimental().extraOptimizations().size()


def test_a_clone_is_switched_by_itself(spark, lake):
    def opened(session):
        return files_opened(session.read.parquet(lake).where("k = 1"))

    with enabled(spark):
        clone = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
        assert opened(clone) == 1
        enable(clone)
        assert (rules(clone), opened(clone), report(clone).answered > 0) == (1, 1, True)
        disable(clone)
        assert (rules(clone), opened(clone), opened(spark)) == (0, 3, 1)
        other = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
        disable(other)  # without a rule of its own
        disable(other)
        assert (rules(other), opened(other), opened(spark)) == (0, 3, 1)


STOPS = """
import sys, warnings
warnings.simplefilter("ignore")
from skipstone.bindings.spark.automatic.enable import _installed
from skipstone.ir.errors import PredicateError
from skipstone.spark import disable, enable, prune, report, session
from tests.support.spark.session import CONFIG

for _ in range(3):
    spark = session(CONFIG | {EAGER}, master="local[1]")
    plain = spark.read.parquet(sys.argv[1]).where("k = 1")
    enable(spark)
    rows = [r.k for r in plain.collect()], [r.k for r in prune(plain).collect()]
    kept = [s.kept for q in report(spark).queries for s in q.scans]
    print(rows, kept[0], len(_installed))
    spark.stop()
    try:
        enable(spark)
    except PredicateError as e:
        print(e)
    disable(spark) if _ == 2 else None
"""


def test_a_process_that_stops_and_starts_spark(lake):
    """Nothing keeps the sessions that were stopped, and none of them can be enabled."""
    done = subprocess.run(
        [sys.executable, "-c", STOPS.replace("{EAGER}", repr(EAGER)), lake],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=Path(__file__).parents[3],
    )
    lines = done.stdout.split("\n")[-7:-1]
    assert lines[::2] == ["([1], [1]) 1 1"] * 3, done.stdout + done.stderr
    assert all(line.startswith("spark was stopped, so it runs no query; ") for line in lines[1::2])
