"""Fixtures that several files of Spark's tests share."""

import pytest


@pytest.fixture
def setting(spark):
    """Return a function that changes a setting for one test."""
    before = {}

    def put(key, value):
        before.setdefault(key, spark.conf.get(key))
        spark.conf.set(key, value)

    yield put
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.fixture(scope="module", params=["classic", "connect"])
def any_session(request, spark, connect):
    return spark if request.param == "classic" else connect
