"""With stats_skipping=False no statistics rule out rows, so that wrong ones lose none.

Each file claims that x is at most 9 where it is 50: in its footer, its page indexes, or by its
bloom filters.
"""

import struct

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.tables.footers import MAX, restate
from tests.support.tables.page_indexes import MAX_VALUES, change_column_index
from tests.support.tables.pages import small_pages  # noqa: F401

ROWS = pa.table({"x": [i % 10 for i in range(99)] + [50], "k": range(100)})
NINE = struct.pack("<q", 9)


def wrong_footer(path):
    pq.write_table(ROWS, path, row_group_size=50)
    restate(path, {MAX: NINE})


def wrong_pages(path):
    pq.write_table(
        ROWS, path, write_page_index=True, max_rows_per_page=10, write_batch_size=10,
        use_dictionary=False,
    )  # fmt: skip
    change_column_index(path, lambda lists: lists.update({MAX_VALUES: [NINE] * 10}))


def wrong_bloom(path):
    options = {"x": {"ndv": 10, "fpp": 0.01}}
    pq.write_table(ROWS, path, bloom_filter_options=options, use_dictionary=False)
    data = bytearray(path.read_bytes())
    bits = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = bits.bloom_filter_offset
    stop = start + bits.bloom_filter_length
    data[stop - 32 : stop] = bytes(32)  # a filter of one block
    path.write_bytes(data)


@pytest.mark.parametrize("write", [wrong_footer, wrong_pages, wrong_bloom])
def test_rows_that_statistics_deny(write, tmp_path):
    path = tmp_path / "t.parquet"
    write(path)
    table = ss.scan_parquet(path)
    for where in ("x = 50", "x > 40 AND k >= 0") if write is not wrong_bloom else ("x = 50",):
        assert not table.plan(where).to_arrow().num_rows
        plan = table.plan(where, stats_skipping=False)
        for _ in range(2):  # a cached result, too
            assert plan.to_arrow().column("k").to_pylist() == [99]
        assert plan.count() == plan.to_polars().collect().height == 1
        assert plan.to_polars().filter(pl.col("x") > 40).collect().height == 1
        assert table.plan(where, stats_skipping=False, limit=1).to_arrow().num_rows == 1


@pytest.mark.parametrize("write", [wrong_footer, wrong_pages])
def test_orders_that_statistics_deny(write, tmp_path):
    path = tmp_path / "t.parquet"
    write(path)
    table = ss.scan_parquet(path)
    for where in (None, "k >= 0", "k > 3"):
        plan = table.plan(where, stats_skipping=False)
        assert (plan.min("x"), plan.max("x")) == (0, 50)
        assert plan.to_polars().filter(pl.col("x") > 40).collect().height == 1
        for columns in (["x"], ["k", "x"]):
            best = table.plan(
                where, columns=columns, order_by="x DESC", limit=2, stats_skipping=False
            )
            assert best.to_arrow().column("x").to_pylist() == [50, 9]
