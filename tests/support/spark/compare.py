"""Comparisons of pruned DataFrames with plain ones, and of the files that both open."""

import os
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from skipstone.bindings.spark.session.metrics import files_opened
from skipstone.bindings.spark.session.session import is_connect
from skipstone.spark import prune, pruned
from tests.support.spark.automatic import automatic
from tests.support.spark.reads import rows_of
from tests.support.tables import delta_log

KEYS = "SELECT * FROM VALUES {} AS d(k)"


def write(path, **columns):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pq.write_table(pa.table(columns), path)
    os.utime(path, (1_600_000_000, 1_600_000_000))


def rows(df):
    """Return the rows of a DataFrame as text, in which NaN equals itself."""
    return delta_log.rows_of(df.toArrow())


def same(plain, files):
    """Prune a DataFrame, compare its rows, and return the report.

    `files` is (files kept, all files); if both are equal, the DataFrame must stay as it is. None
    means that it is not judged, and also stays as it is.
    """
    small = prune(plain)
    found = pruned(small)
    if files is None:
        assert small is plain, found
        return found
    assert (found.kept, found.files) == files and (small is plain) == (files[0] == files[1]), found
    if small is plain:
        return found
    assert rows_of(small) == rows_of(plain)
    assert small.schema == plain.schema
    if not is_connect(plain):
        assert automatic(plain)[0] == rows_of(plain)
    if not is_connect(plain):  # a client sees the files of a source before any condition
        assert len(small.inputFiles()) < len(plain.inputFiles())
    return found


def same_opened(plain):
    """Prune a DataFrame and compare its rows.

    Returns the report, and the files that were opened, in ascending order.
    """
    small = prune(plain)
    rows, opened = rows_of(small), tuple(sorted(files_opened(small)))
    assert rows == rows_of(plain), pruned(small)
    assert is_connect(plain) or automatic(plain)[0] == rows
    assert small.schema == plain.schema
    return pruned(small), opened


def same_join(joined, plain, files=None):
    """Compare with the plain join; `files` is (files kept, all files) of the fact table."""
    assert rows_of(joined) == rows_of(plain)
    assert joined.schema == plain.schema
    found = pruned(joined)
    if files is not None:
        assert (found[0].kept, found[0].files) == files, found
        assert files[0] in files_opened(joined)
    return found


def no_match_is_lost(df, wheres):
    """Check that every file with a matching row is kept, and that some condition prunes a file.

    Spark finds the matching rows without any filter.
    """
    fewer = 0
    truth = df.selectExpr(
        "_metadata.file_path file", *(f"{w} AS c{i}" for i, w in enumerate(wheres))
    ).collect()
    for i, where in enumerate(wheres):
        small = prune(df.where(where))
        fewer += len(small.inputFiles()) < len(df.inputFiles())
        held = {unquote(urlsplit(row["file"]).path) for row in truth if row[f"c{i}"]}
        assert held <= {unquote(urlsplit(p).path) for p in small.inputFiles()}, (
            where,
            pruned(small),
        )
    assert fewer, "nothing was pruned"
