"""Test reading files of many tiny row groups, in units of few column chunks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.tables.parquet import group_tasks
from skipstone.bindings.tables.parquet.pages import decoders

N, ROWS = 2000, 10
QUESTIONS = (
    (None, None),
    (None, ["s"]),
    ("k = 3", ["id", "s"]),
    ("id >= 500 AND id < 1500 AND k < 5", None),
    ("s = 'none'", None),
    ("id >= 0", ["k", "id"]),  # every row group matches whole
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    r = np.random.default_rng(4)
    table = pa.table(
        {
            "id": np.arange(N),
            "k": pa.array(r.integers(0, 10, N), mask=r.random(N) < 0.1),
            "s": [f"{v:03}" for v in r.integers(0, 300, N)],
            "f": r.random(N),
        }
    )
    path = str(tmp_path_factory.mktemp("tiny") / "a.parquet")
    pq.write_table(table, path, row_group_size=ROWS)
    return path


@pytest.mark.parametrize("chunks", [8, 1024])  # 2 row groups in a unit, and all
@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize(("where", "columns"), QUESTIONS)
def test_rows_keep_their_order(path, where, columns, pages, chunks, monkeypatch):
    monkeypatch.setattr(group_tasks, "UNIT_CHUNKS", chunks)
    monkeypatch.setattr(group_tasks, "UNIT_GROUPS", 1)
    if pages:
        monkeypatch.setattr(group_tasks, "MANY_GROUPS", N)
    expected = pl.scan_parquet(path)
    if where is not None:
        expected = expected.filter(pl.sql_expr(where))
    rows = expected.collect()
    for reader in ("arrow", "polars"):
        got = ss.scan_parquet(path).plan(where, columns=columns).to_arrow(reader=reader)
        assert got.num_rows == rows.height
        wanted = rows.columns if columns is None else columns
        assert got.to_pydict() == rows.select(wanted).to_dict(as_series=False)


@pytest.mark.parametrize("few", [0, 1 << 14])
def test_small_chunks_are_joined_once_decoded(path, few, monkeypatch):
    monkeypatch.setattr(decoders, "FEW_ROWS", few)
    monkeypatch.setattr(group_tasks, "MANY_GROUPS", N)
    counts = []
    inner = decoders.PolarsColumns.select

    def counted(self, names, keep):
        counts.append(self._frame.n_chunks())
        return inner(self, names, keep)

    monkeypatch.setattr(decoders.PolarsColumns, "select", counted)
    got = ss.scan_parquet(path).plan(columns=["id", "s"]).to_arrow(reader="polars")
    assert got.equals(pq.read_table(path, columns=["id", "s"]))
    assert (max(counts) == 1) is (few > 0)
