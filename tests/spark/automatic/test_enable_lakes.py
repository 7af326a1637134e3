"""Delta's and Iceberg's tables under `enable`: their rows, from no more files than they select."""

import pytest

from tests.support.spark.lakes import DELTA_PACKAGES, ICEBERG_PACKAGES, judged, package_for
from tests.support.spark.session import INSTALLED


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def answers(request, tmp_path_factory):
    package = package_for(DELTA_PACKAGES if request.param == "delta" else ICEBERG_PACKAGES)
    return judged("tests.support.spark.judge_enable_lake", package, tmp_path_factory.mktemp("l"))


def of_kind(answers, *kinds):
    return [a for a in answers if a["kind"] in kinds]


def test_rows_are_those_of_the_lake(answers):
    assert not [a for a in answers if not a["equal"]]
    assert (
        len(of_kind(answers, "change")) > (7 if INSTALLED >= (4, 0) else 5)
        and len(of_kind(answers, "commit")) == 2
    )


def test_no_query_opens_more_files(answers):
    asked = of_kind(answers, "condition", "pruned", "whole", "then")
    assert not [a for a in asked if a["files"][1] > a["files"][0]]


def test_joins_and_conditions_that_the_lake_cannot_use_leave_files_out(answers):
    assert not [a for a in of_kind(answers, "pruned") if a["files"][1] >= a["files"][0]]
    conditions = of_kind(answers, "condition")
    read = sum(a["files"][1] for a in conditions), sum(a["files"][0] for a in conditions)
    assert read[0] < read[1] or not conditions


def test_sides_whose_rows_are_all_needed_stay_whole(answers):
    assert not [a for a in of_kind(answers, "whole") if a["files"][1] != a["files"][0]]
