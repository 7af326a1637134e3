"""Plain DataFrames under `enable`: the optimiser's rule prunes them, and no row is lost."""

from contextlib import contextmanager

from skipstone.bindings.spark.session import metrics
from skipstone.bindings.spark.session.jvm import frame_of
from skipstone.spark import disable, enable, report
from tests.support.spark.reads import rows_of

# Join keys are collected wherever they may save a file, however small, and nothing is late.
EAGER = {
    "spark.skipstone.maxPlanningMillis": "60000",
    "spark.skipstone.fileMillis": "1000000",
    "spark.skipstone.minBytes": "0",
}


@contextmanager
def settings(spark, values):
    """Change settings of a session for a while."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


@contextmanager
def enabled(spark, **more):
    """Prune all queries of a session for a while; yield a function that returns the report."""
    with settings(spark, EAGER | more):
        enable(spark)
        try:
            yield lambda: report(spark)
        finally:
            disable(spark)


def require_answers(found):
    """Check that no plan of a session's report failed, was late or found no thread."""
    assert (found.failed, found.late, found.skipped) == (0, 0, 0), found.error
    assert not any(q.why for q in found.queries), found


def again(df):
    """Return a new DataFrame of the same plan, which Spark optimises again."""
    return frame_of(df.sparkSession, df._jdf.queryExecution().analyzed())


def automatic(df):
    """Return the rows of a classic DataFrame under `enable`, and the files that it opened.

    No plan may fail or be late on the way.
    """
    with enabled(df.sparkSession) as found:
        new = again(df)
        rows = rows_of(new)
        require_answers(found())
        return rows, sorted(metrics.files_opened(new))
