"""Conditions of Spark's plans prune no file with a matching row, and keep the expected number."""

import os

import pytest

from skipstone.spark import prune, pruned
from tests.support.effort import LONG
from tests.support.spark.pruned_conditions import WHERE
from tests.support.spark.reads import rows_of, write_files
from tests.support.spark.session import QUIET

pytestmark = pytest.mark.filterwarnings(QUIET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(str(tmp_path_factory.mktemp("lake") / "t"))


@pytest.fixture(scope="module")
def frame(spark, folder):
    return spark.read.parquet(folder)


@pytest.fixture(scope="module")
def matching(frame):
    """Return condition -> names of the files with a matching row, from one unfiltered query."""
    from pyspark.sql import functions as F

    rows = frame.select(
        F.col("_metadata.file_name").alias("file"),
        *(F.expr(w).alias(f"c{k}") for k, (w, _) in enumerate(WHERE)),
    )
    found = rows.collect()
    return {w: {row["file"] for row in found if row[f"c{k}"]} for k, (w, _) in enumerate(WHERE)}


def names(df):
    return {os.path.basename(path) for path in df.inputFiles()}


@pytest.mark.parametrize("where, kept", WHERE, ids=[w for w, _ in WHERE])
def test_files(where, kept, frame, matching):
    plain = frame.where(where)
    small = prune(plain)
    assert matching[where] <= names(small), pruned(small)
    if LONG:
        assert rows_of(small) == rows_of(plain)
    assert len(names(small)) == kept, pruned(small)
