"""Count the files that Spark opened."""

from skipstone.bindings.spark.session import metrics


def files_opened(df, ran=False):
    """Return the number of files that Spark's own scans opened, from its metrics."""
    if not ran:
        df.collect()
    return sum(metrics.files_opened(df))
