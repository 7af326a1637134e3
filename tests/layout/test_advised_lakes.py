"""Test that Spark runs what `table.advise` proposes for Delta's and Iceberg's tables."""

import pytest

from tests.support.spark.lakes import DELTA_PACKAGES, ICEBERG_PACKAGES, judged, package_for
from tests.support.spark.session import SPARK_4

# Delta 3.3 on Spark 3.5.7 cannot replace a table by its own rows.
pytestmark = SPARK_4


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def answers(request, tmp_path_factory):
    package = package_for(DELTA_PACKAGES if request.param == "delta" else ICEBERG_PACKAGES)
    return judged("tests.support.spark.judge_advice", package, tmp_path_factory.mktemp("l"))


def test_rows_stay(answers):
    assert len(answers) > 12 and not [a for a in answers if not a["equal"]]


@pytest.mark.parametrize("first, share", [(True, 0.8), (False, 0.7)])
def test_rewrites_prune_what_was_predicted(answers, first, share):
    """At least this share of it: by the first choice, and by the best of each other kind."""
    asked = [a for a in answers if a["first"] == first]
    assert asked and not [a for a in asked if 1 - a["after"] < share * (1 - a["predicted"])]


def test_there_are_no_fewer_files(answers):
    """Partitions cut a table anew."""
    cut = [a for a in answers if not a["layout"].startswith("partition")]
    assert not [a for a in cut if a["files"][1] < a["files"][0]]
