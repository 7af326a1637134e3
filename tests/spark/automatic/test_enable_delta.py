"""Delta's tables under `enable`: Delta's rows, from no more files than Delta selects."""

import pytest

from tests.support.spark.lakes import DELTA_PACKAGES, judged, package_for


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    package = package_for(DELTA_PACKAGES)
    return judged("tests.support.spark.judge_enable_delta", package, tmp_path_factory.mktemp("l"))


def of_kind(answers, kind):
    return [a for a in answers if a["kind"] == kind]


def test_rows_are_those_of_delta(answers):
    assert not [a for a in answers if not a["equal"]]
    assert {a["kind"] for a in answers} == {"condition", "pruned", "whole", "change", "commit"}


def test_no_query_opens_more_files(answers):
    read = [a for a in answers if a["kind"] in ("condition", "pruned", "whole")]
    assert not [a for a in read if a["files"][1] > a["files"][0]]


def test_joins_and_conditions_that_delta_cannot_use_leave_files_out(answers):
    assert not [a for a in of_kind(answers, "pruned") if a["files"][1] >= a["files"][0]]
    conditions = of_kind(answers, "condition")
    assert sum(a["files"][1] for a in conditions) < sum(a["files"][0] for a in conditions)


def test_sides_whose_rows_are_all_needed_stay_whole(answers):
    assert not [a for a in of_kind(answers, "whole") if a["files"][1] != a["files"][0]]
