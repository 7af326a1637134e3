"""Test that tests of Spark are known by their text, so that one worker of xdist runs them all."""

from tests.support.spark.takers import SESSIONS, takes_spark


def test_all_tests_of_spark_are_known(request):
    ask = [
        item for item in request.session.items if SESSIONS & set(getattr(item, "fixturenames", ()))
    ]
    assert [item.nodeid for item in ask if not takes_spark(item.nodeid)] == []


def test_other_tests_of_their_files_are_not():
    assert takes_spark("tests/ir/test_forms.py::test_no_verdict_contradicts_spark")
    assert not takes_spark("tests/ir/test_forms.py::test_cases[x > 1-1]")
    assert not takes_spark("bindings/predicates/sql.py::skipstone.bindings.predicates.sql")
