"""Reading by pages gives the rows that reading row groups gives, and reads less."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from tests.support.effort import LONG
from tests.support.tables.pages import CONDITIONS, Pages, compile_loops, table, without_pages, write


@pytest.fixture(scope="module", autouse=True)
def _loops():
    compile_loops()


def rows(files, where, columns, reader="auto"):
    return ss.scan_parquet(files).plan(where, columns=columns).to_arrow(reader=reader)


@pytest.mark.parametrize("seed", range(300 if LONG else 12))
def test_pages_have_the_rows_of_row_groups(seed, tmp_path, monkeypatch):
    data = table(seed)
    files = [str(tmp_path / f"{i}.parquet") for i in range(3)]
    options = [write(f, data.slice(i * 1000, 1000), seed) for i, f in enumerate(files)]
    for where in CONDITIONS:
        with monkeypatch.context() as patch:
            without_pages(patch)
            expected = rows(files, where, None)
        with monkeypatch.context() as patch:
            seen = Pages(patch)
            for reader in ("arrow", "polars", "auto"):
                for columns in (None, ["k"], ["u", "q"]):
                    wanted = expected if columns is None else expected.select(columns)
                    got = rows(files, where, columns, reader)
                    assert got.schema == wanted.schema
                    assert got.equals(wanted) or str(got.to_pylist()) == str(wanted.to_pylist()), (
                        where, reader, columns, options,
                    )  # fmt: skip
            assert seen.by_row_groups == 0, options


@pytest.mark.parametrize("seed", range(200 if LONG else 12))
def test_damaged_page_indexes_lose_no_row(seed, tmp_path):
    """Change bytes of the page indexes, which lie between the pages and the footer."""
    random = np.random.default_rng(seed)
    path = tmp_path / "t.parquet"
    pq.write_table(
        table(seed, 2000), path, row_group_size=700, max_rows_per_page=50, write_batch_size=25,
        write_page_index=True, use_dictionary=bool(seed % 2),
    )  # fmt: skip
    good = path.read_bytes()
    metadata = pq.read_metadata(path)
    chunks = [
        metadata.row_group(g).column(c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    ]
    first = max(c.data_page_offset for c in chunks) + 1
    first = max(
        first,
        *(
            (c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size
            for c in chunks
        ),
    )
    stop = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    assert stop - first > 1000
    conditions = ("k = 250", "i > 20 AND k < 100", "s > 'text 5' OR i IS NULL", None)
    expected = {w: rows([str(path)], w, ["k", "u"]) for w in conditions}
    for _ in range(20):
        data = bytearray(good)
        for at in random.integers(first, stop, random.integers(1, 30)):
            data[at] = random.integers(256)
        path.write_bytes(data)
        for where in conditions:
            got = rows([str(path)], where, ["k", "u"])
            assert set(got["u"].to_pylist()) == set(expected[where]["u"].to_pylist()), where
