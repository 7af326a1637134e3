"""Pages of nested columns that other writers cut, or that are damaged, give no other rows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet.heads import UNCUT_WRITERS
from tests.support.tables.page_indexes import cut_rows
from tests.support.tables.pages import small_pages  # noqa: F401


def answer(path, where, columns=None):
    with ss.config.override(keep_matches=False, keep_footers=False):
        return ss.scan_parquet(path).plan(where, columns=columns).to_arrow()


@pytest.mark.parametrize("writer", ["parquet-rs version 40.0.0", "arrow2", ""])
def test_rows_that_two_pages_share(writer, tmp_path):
    """Old writers of Rust cut rows: 100 elements of lists of 3 end within a list."""
    path, n = tmp_path / "t.parquet", 2920  # the last page begins with a row
    items = pa.array([[3 * k, 3 * k + 1, 3 * k + 2] for k in range(n)])
    rows = pa.table({"k": range(n), "items": items})
    pq.write_table(
        rows, path, use_dictionary=False, compression="none", max_rows_per_page=50,
        write_batch_size=50, write_page_index=True,
    )  # fmt: skip
    cut_rows(path, 1, 100, writer)
    assert pq.read_table(path).equals(rows)
    for k in (32, 33, 34, 66, 133):  # rows 33, 66 and 133 lie in two pages
        for where in (f"k = {k}", f"k = {k} AND array_contains(items, {3 * k + 2}L)"):
            assert answer(str(path), where).equals(rows.slice(k, 1)), (where, writer)


@pytest.mark.parametrize(
    ("writer", "uncut"),
    [
        ("parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)", True),
        ("parquet-cpp-arrow version 26.0.1", True),
        ("parquet-cpp-arrow version 11.0.0", False),
        ("parquet-rs version 41.0.0", True),
        ("parquet-rs version 4.0.0", False),
        ("delta-rs version py-1.6.6", True),
        ("delta-rs version 0.31.1", True),
        ("delta-rs version py-0.9.0", False),
        ("datafusion version 43.0.0", True),
        ("parquet-mr compatible Photon version 0.2 (build 0.1)", False),
        ("parquet-mr version 1.12.3-databricks-0002 (build 2484a95)", False),
        ("parquet-mr version 1.13.1", True),
        ("parquet-mr version 1.13", False),
        ("datafusion version 27.0.0", False),
        ("datafusion version 55.0.0", True),
        ("Arrow2 - Native Rust implementation of Arrow", False),
        ("Polars", False),
    ],
)
def test_writers_that_begin_pages_with_rows(writer, uncut):
    assert (UNCUT_WRITERS.match(writer.lower()) is not None) == uncut


def test_a_page_of_an_unknown_kind_moves_no_rows(tmp_path):
    """Arrow passes over such a page; only the end of the column shows that values are missing."""
    path, n = tmp_path / "t.parquet", 3000
    rows = pa.table({"k": range(n), "items": [[i, i + 1] for i in range(n)]})
    pq.write_table(
        rows, path, use_dictionary=False, compression="none", max_rows_per_page=100,
        write_batch_size=100,
    )  # fmt: skip
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    start = column.data_page_offset
    second = data.index(data[start : start + 2], start + 1000)  # the start of a header
    assert data[second : second + 2] == b"\x15\x00"  # the number of the page's kind
    data[second + 1] = 16
    path.write_bytes(data)
    for where in ("k = 1500", "k > 200 AND k < 300", "k = 2999"):
        with pytest.raises(ss.SourceError, match="failed"):
            answer(str(path), where)
