"""Delta Lake on Spark: the same rows, and no more files than Delta reads."""

import pytest

from tests.support.spark.lakes import DELTA_PACKAGES, judged, package_for
from tests.support.spark.session import SPARK_4

pytestmark = SPARK_4


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    package = package_for(DELTA_PACKAGES)
    return judged("tests.support.spark.judge_delta", package, tmp_path_factory.mktemp("lake"))


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
