"""ORDER BY with a limit: the columns to sort by are read first, the others of few rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skipstone as ss
from skipstone.bindings.plans import topk


@pytest.mark.parametrize("where", [None, "x % 2 = 0"])
def test_other_columns_are_read_of_few_rows(tmp_path, monkeypatch, where):
    x = np.random.default_rng(1).permutation(60_000)
    table = pa.table({"x": x, "s": [f"row {v}" for v in x.tolist()], "y": x})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=3_000)
    offered, offer = [], topk.TopK.offer
    monkeypatch.setattr(topk.TopK, "offer", lambda self, rows: [
        offered.append(rows.num_rows), offer(self, rows)
    ][1])  # fmt: skip
    plan = ss.scan_parquet(tmp_path).plan(where, order_by="x DESC", limit=5)
    step = 1 if where is None else 2
    first = [f"row {v}" for v in range(59_999 if where is None else 59_998, 0, -step)][:5]
    assert plan.to_arrow().column("s").to_pylist() == first
    assert sum(offered) < 100


@pytest.mark.parametrize("order", ["t", "t DESC", "t, i DESC"])
def test_nanoseconds_of_a_time_of_day(tmp_path, order):
    """Arrow's Python value of such a time lacks the nanoseconds below a microsecond."""
    ticks = np.random.default_rng(3).permutation(5_000)
    table = pa.table({"t": pa.array(ticks, pa.time64("ns")), "i": ticks, "a": ticks, "b": ticks})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=50)
    plan = ss.scan_parquet(tmp_path).plan(order_by=order, limit=9)
    first = range(4_999, 4_990, -1) if "t DESC" in order else range(9)
    assert plan.to_arrow()["i"].to_pylist() == list(first)
    assert ss.scan_parquet(tmp_path).plan("i > 7").min("t") == pa.scalar(8, pa.time64("ns"))
